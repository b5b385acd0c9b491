//! See `fuzz::volume::lvm_text`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::volume::lvm_text(input));
