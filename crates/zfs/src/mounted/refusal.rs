//! Why there is no answer, in the words of [`rt::inodes`].

use crate::error::{Problem, ZfsError};
use crate::spa::live::LiveError;
use rt::inodes::InodeError;
use zfs_store::BlockErrorKind;

pub(super) fn wrong(error: &ZfsError) -> InodeError {
    if error.needs_key() {
        return InodeError::NoKey;
    }
    match error {
        ZfsError::Block(error) => match &error.kind {
            BlockErrorKind::Io(_) | BlockErrorKind::Missing(_) => InodeError::Io,
            BlockErrorKind::Unsupported(_) => InodeError::NotSupported,
            _ => InodeError::Damaged,
        },
        ZfsError::Object { problem, .. } => match problem {
            Problem::Absent => InodeError::Gone,
            Problem::NotDirectory => InodeError::NotDirectory,
            Problem::NotLink => InodeError::WrongKind,
            Problem::Circle | Problem::Elsewhere { .. } => InodeError::Loop,
            Problem::IsDirectory => InodeError::IsDirectory,
            Problem::Exists => InodeError::Exists,
            Problem::NoName => InodeError::NotFound,
            Problem::NotEmpty => InodeError::NotEmpty,
            Problem::NoRoom(_) => InodeError::NoSpace,
            Problem::ReadOnly => InodeError::ReadOnly,
            Problem::Stopped | Problem::Suspended => InodeError::Io,
            _ => InodeError::Damaged,
        },
        ZfsError::Write { .. } => InodeError::Io,
        ZfsError::Format { .. } => InodeError::Damaged,
    }
}

/// A pool that is not written any more can't do it, for whatever reason.
pub(super) fn stopped(_: LiveError) -> InodeError {
    InodeError::Io
}
