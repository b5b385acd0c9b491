//! See `fuzz::zfs::space::lists`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::zfs::space::lists(input));
