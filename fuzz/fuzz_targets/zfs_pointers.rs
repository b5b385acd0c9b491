//! See `fuzz::zfs::blocks::block_pointers`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::zfs::blocks::block_pointers(input));
