//! What is asked of a vdev when a block is read, and how it can fail.

use super::leaf::Leaf;
use super::queue::IoClass;
use crate::block::BlockErrorKind;
use crate::expected::Expected;
use rt::{Buf, IoErrorKind, Rt};
use stdx::ByteCount;
use zfs_format::block_pointer::{BlockPointer, Dva};
use zfs_format::{FormatError, Problem, Record};

/// What a read is for.
pub(crate) struct Ask<'a> {
    pub(crate) rt: &'a Rt,
    /// The transaction group in which the copies were written.
    pub(crate) birth: u64,
    pub(crate) class: IoClass,
    /// Bytes that count; what is read is as long or longer, in whole sectors.
    pub(crate) size: usize,
    pub(crate) expected: &'a Expected,
}

impl Ask<'_> {
    /// Counts that a leaf gave wrong bytes. Not of an intent log, where that is how its end is found.
    pub(crate) fn blame(&self, leaf: &Leaf) {
        if !self.may_be_wrong() {
            leaf.lied(self.birth);
        }
    }

    /// Whether there may be nothing right to be read.
    pub(super) fn may_be_wrong(&self) -> bool {
        matches!(self.expected, Expected::LogBlock(_))
    }

    /// Whether these are the bytes; computed elsewhere where they are many.
    pub(crate) async fn holds(&self, bytes: &Buf) -> bool {
        if matches!(self.expected, Expected::Anything) {
            return true;
        }
        let (expected, bytes) = (self.expected.clone(), bytes.slice(0..self.size));
        let work = expected.work(ByteCount(bytes.len() as u64));
        self.rt.compute(work, move || expected.holds(bytes.bytes())).await
    }
}

/// Why a vdev could not make a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Too many devices are missing.
    Missing,
    /// Too much could not be read.
    Io(IoErrorKind),
    /// Everything was read, and there is no way to make the right bytes of it.
    Checksum,
}

impl Failure {
    /// The one of two that says more.
    pub(crate) fn or(self, other: Failure) -> Failure {
        match (self, other) {
            (Failure::Checksum, _) | (_, Failure::Missing) => self,
            _ => other,
        }
    }

    /// As an error of the top-level vdev of this number.
    pub(crate) fn of(self, number: u32) -> BlockErrorKind {
        match self {
            Failure::Missing => BlockErrorKind::Missing(number),
            Failure::Io(kind) => BlockErrorKind::Io(kind),
            Failure::Checksum => BlockErrorKind::Checksum,
        }
    }
}

/// What is read, and how.
#[derive(Clone, Debug)]
pub struct ReadAt {
    /// The place.
    pub dva: Dva,
    /// Bytes that are wanted: those of the block, without parity and padding.
    pub size: u64,
    /// The transaction group in which it was written there: [`BlockPointer::physical_birth`].
    pub birth: u64,
    /// What the bytes should come to.
    pub expected: Expected,
    /// Whose reading it is.
    pub class: IoClass,
}

/// A pointer that can't be followed.
pub(super) fn wrong(field: &'static str, value: u64) -> BlockErrorKind {
    let (structure, problem) = (BlockPointer::NAME, Problem::Value(value));
    BlockErrorKind::Format(FormatError { structure, field, offset: 0, problem })
}
