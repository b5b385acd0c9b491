//! See `fuzz::zfs::space::space_map`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::zfs::space::space_map(input));
