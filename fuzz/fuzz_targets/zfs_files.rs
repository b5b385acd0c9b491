//! See `fuzz::zfs::files::files`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::zfs::files::files(input));
