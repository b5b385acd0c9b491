//! See `fuzz::md::bad_block_log`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::md::bad_block_log(input));
