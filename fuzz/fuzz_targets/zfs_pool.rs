//! See `fuzz::zfs::pool::whole_pool`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::zfs::pool::whole_pool(input));
