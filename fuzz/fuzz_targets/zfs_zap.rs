//! See `fuzz::zfs::tables::zap`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::zfs::tables::zap(input));
