//! See `fuzz::md::meta_block`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::md::meta_block(input));
