//! See `fuzz::zfs::writing::written_pool`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::zfs::writing::written_pool(input));
