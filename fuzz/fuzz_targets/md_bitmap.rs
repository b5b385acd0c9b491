//! See `fuzz::md::bitmap`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::md::bitmap(input));
