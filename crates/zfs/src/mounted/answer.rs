//! What files of ZFS are in the words of [`rt::inodes`].

use super::shared::Served;
use crate::dmu::Dnode;
use crate::zpl::Node as FileNode;
use crate::zpl::attributes::{Attributes as FileAttributes, Moment};
use rt::inodes::{Attributes, InodeKind, Timestamp};
use stdx::ByteCount;
use zfs_format::zpl::directory::FileKind;

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
