//! See `fuzz::volume::mbr`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::volume::mbr(input));
