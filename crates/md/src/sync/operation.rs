//! Which background operations there are, and how far one is.

use std::ops::Range;
use stdx::{ByteCount, Instant, Offset};

/// Where the content of a new array's redundancy comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Initialise {
    /// From the data that is there: md's resync.
    #[default]
    FromData,
    /// Zeros everywhere; the data is lost.
    Zeros,
}

/// A background operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Makes redundancy right.
    Initialise(Initialise),
    /// Fills a slot from the others.
    Rebuild(usize),
    /// Fills a slot's replacement from the slot.
    Replace(usize),
    /// Compares.
    Check,
    /// Compares and makes right.
    Repair,
}

/// How far an operation is.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Which.
    pub operation: Operation,
    /// Over which places of the members' data areas.
    pub range: Range<Offset>,
    /// How much of it is done.
    pub done: ByteCount,
    /// When it began.
    pub began: Instant,
}
