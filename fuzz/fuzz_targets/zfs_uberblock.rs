//! See `fuzz::zfs::labels::uberblock`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::zfs::labels::uberblock(input));
