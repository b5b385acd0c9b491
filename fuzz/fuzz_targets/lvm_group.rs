//! See `fuzz::volume::lvm_group`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::volume::lvm_group(input));
