//! See `fuzz::md::ppl`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::md::ppl(input));
