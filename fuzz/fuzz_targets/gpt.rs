//! See `fuzz::volume::gpt`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::volume::gpt(input));
