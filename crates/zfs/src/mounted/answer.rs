//! What files and errors of ZFS are in the words of [`rt::inodes`].

use super::shared::Served;
use crate::dmu::Dnode;
use crate::error::{Problem, ZfsError};
use crate::spa::live::LiveError;
use crate::zpl::Node as FileNode;
use crate::zpl::attributes::{Attributes as FileAttributes, Moment};
use rt::inodes::{Attributes, InodeError, InodeKind, Timestamp};
use stdx::ByteCount;
use zfs_format::zpl::directory::FileKind;
use zfs_store::BlockErrorKind;

pub(super) fn kind_of(kind: FileKind) -> InodeKind {
    match kind {
        FileKind::Directory => InodeKind::Directory,
        FileKind::SymbolicLink => InodeKind::Link,
        FileKind::Fifo => InodeKind::Pipe,
        FileKind::Socket => InodeKind::Socket,
        FileKind::CharacterDevice => InodeKind::CharacterDevice,
        FileKind::BlockDevice => InodeKind::BlockDevice,
        FileKind::File | FileKind::Other(_) => InodeKind::File,
    }
}

pub(super) fn attributes(served: &Served, node: &FileNode) -> Attributes {
    attributes_of(served, node.dnode(), &node.attributes)
}

pub(super) fn moment_of(time: Timestamp) -> Moment {
    Moment { seconds: time.seconds, nanoseconds: time.nanoseconds }
}

pub(super) fn attributes_of(served: &Served, dnode: &Dnode, a: &FileAttributes) -> Attributes {
    let moment = |moment: Moment| Timestamp {
        seconds: moment.seconds,
        nanoseconds: moment.nanoseconds.min(999_999_999),
    };
    let object = dnode.number();
    Attributes {
        node: served.node(object),
        inode: served.inode(object),
        generation: a.generation,
        kind: kind_of(a.kind),
        permissions: a.permissions as u16,
        links: u32::try_from(a.links).unwrap_or(u32::MAX),
        user: a.user.id(),
        group: a.group.id(),
        device: a.device_numbers(),
        size: ByteCount(a.size),
        allocated: ByteCount(dnode.phys().used_bytes()),
        block_size: ByteCount(dnode.block_bytes()),
        accessed: moment(a.accessed),
        modified: moment(a.modified),
        changed: moment(a.changed),
    }
}

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
            Problem::Stopped => InodeError::Io,
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
