//! See `fuzz::nbd::client`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::nbd::client(input));
