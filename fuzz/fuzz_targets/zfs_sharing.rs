//! See `fuzz::zfs::space::sharing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::zfs::space::sharing(input));
