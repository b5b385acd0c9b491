//! See `fuzz::zfs::logs::intent_log`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::zfs::logs::intent_log(input));
