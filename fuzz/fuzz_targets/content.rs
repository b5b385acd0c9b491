//! See `fuzz::volume::content`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::volume::content(input));
