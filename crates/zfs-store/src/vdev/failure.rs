//! What went wrong on a leaf, told as it is counted.

use rt::IoErrorKind;
use std::rc::Rc;

/// How often something went wrong, as `zpool status` counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    /// Reads that failed.
    pub read: u64,
    /// Writes that failed.
    pub write: u64,
    /// Blocks whose checksum showed that the bytes were wrong.
    pub checksum: u64,
}

/// What a leaf failed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafDeed {
    /// A read.
    Read,
    /// A write.
    Write,
    /// Making durable what was written.
    Flush,
    /// It gave bytes whose checksum is wrong.
    Checksum,
}

/// A failure of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafFailure {
    /// Its GUID.
    pub leaf: u64,
    /// At what.
    pub deed: LeafDeed,
    /// Where on the device, and how many bytes; nothing where that isn't known.
    pub place: Option<(u64, u64)>,
    /// What the device answered.
    pub error: Option<IoErrorKind>,
    /// What is counted on it from here on.
    pub errors: Errors,
}

/// Who is told.
pub type FailureSink = Rc<dyn Fn(&LeafFailure)>;
