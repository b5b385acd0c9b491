//! See `fuzz::zfs::blocks::objset`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::zfs::blocks::objset(input));
