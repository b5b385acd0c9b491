//! See `fuzz::zfs::blocks::dnodes`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::zfs::blocks::dnodes(input));
