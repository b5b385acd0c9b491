//! See `fuzz::zfs::labels::nvlist`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::zfs::labels::nvlist(input));
