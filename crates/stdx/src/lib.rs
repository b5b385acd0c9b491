//! What every crate stands on: units, time, seeded randomness, bytes of formats, sets of ranges.
//!
//! Nothing here does I/O or knows of tasks. Five ideas:
//!
//! * [`units`]: a length ([`ByteCount`]) and a place ([`Offset`]) are different types, so that they
//!   can't be swapped; both are counted in bytes.
//! * [`time`]: an [`Instant`] is a count of nanoseconds since the run began, real or simulated. It
//!   never comes from a wall clock.
//! * [`prng`]: randomness is an argument. A [`Prng`] is made from a seed, and a child generator is
//!   [forked](Prng::fork) for each part of a run, so that adding a draw in one place does not change
//!   the draws of another.
//! * [`bytes`]: all formats read and write bytes by one cursor, and say what is wrong by one error.
//! * [`ranges`]: a set of numbers in stretches, for what is dirty, allocated, missing or done.
//!
//! And [`planted`]: bugs by name, which are in no program, to see whether tests notice them.

#![forbid(unsafe_code)]

pub mod bytes;
pub mod planted;
pub mod prng;
pub mod ranges;
pub mod time;
pub mod units;

pub use prng::Prng;
pub use ranges::RangeSet;
pub use std::time::Duration;
pub use time::Instant;
pub use units::{ByteCount, GIB, KIB, MIB, Offset, TIB};
