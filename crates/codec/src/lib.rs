//! What a storage array computes over the bytes that pass through it, as pure functions.
//!
//! Nothing here knows a block, a disk, a stripe or a pool, and nothing here does I/O, takes a lock
//! or reads a clock: bytes go in, bytes come out, and the same bytes come out on every machine. So
//! an engine may call these functions inline, on a worker thread, or in simulated time, and a test
//! may call them with anything.
//!
//! | module | holds |
//! |---|---|
//! | [`checksum`] | fletcher 2 and 4, SHA-256, SHA-512/256, Skein, Edon-R, BLAKE3 |
//! | [`cipher`] | AES-GCM and AES-CCM, HMAC-SHA-512, HKDF, PBKDF2 |
//! | [`compress`] | lzjb, zle, lz4, gzip, zstd, in the frames of ZFS |
//! | [`parity`] | P, P+Q and P+Q+R parity over GF(2⁸): make it, rebuild lost members from it, update it |
//!
//! # Rules
//!
//! 1. Pure: a function depends on its arguments only. The one thing that is looked up is which
//!    instructions the processor has, once, and it decides the speed, never the bytes.
//! 2. Each algorithm has a portable form, and the form for each instruction set is held to it, byte
//!    for byte, by property tests over every form that the machine at hand can run.
//! 3. `unsafe` is allowed here (as in `host`), because instructions are reached by it. A public
//!    function is safe to call with anything: what its contract forbids is an assertion that fails.

#![deny(unsafe_op_in_unsafe_fn)]

pub mod checksum;
pub mod cipher;
pub mod compress;
mod gf256;
pub mod parity;
