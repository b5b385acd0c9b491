//! What files and errors of ZFS are in the words of [`rt::inodes`].

use super::Served;
use crate::error::{Problem, ZfsError};
use crate::zpl::Node as FileNode;
use crate::zpl::attributes::Moment;
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
    let a = &node.attributes;
    let moment = |moment: Moment| Timestamp {
        seconds: moment.seconds,
        nanoseconds: moment.nanoseconds.min(999_999_999),
    };
    let object = node.number();
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
        allocated: ByteCount(node.dnode().phys().used_bytes()),
        block_size: ByteCount(node.dnode().block_bytes()),
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
            _ => InodeError::Damaged,
        },
        ZfsError::Format { .. } | ZfsError::Write { .. } => InodeError::Damaged,
    }
}
