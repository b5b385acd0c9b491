//! See `fuzz::nbd::server`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::nbd::server(input));
