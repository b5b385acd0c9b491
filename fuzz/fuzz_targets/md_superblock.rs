//! See `fuzz::md::superblock`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::md::superblock(input));
