//! See `fuzz::zfs::labels::label`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::zfs::labels::label(input));
