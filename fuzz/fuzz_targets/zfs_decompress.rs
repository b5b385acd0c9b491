//! See `fuzz::zfs::compression::decompress`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::zfs::compression::decompress(input));
