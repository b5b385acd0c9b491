//! See `fuzz::md::whole_set`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::md::whole_set(input));
