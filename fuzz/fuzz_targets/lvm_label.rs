//! See `fuzz::volume::lvm_label`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::volume::lvm_label(input));
