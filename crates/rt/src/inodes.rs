//! Whatever gives files to programs: the trait [`Inodes`], a file system by node, for reading and writing.
//!
//! A [`FileTree`](crate::FileTree) is what loads run on: paths, plain files, nothing about owners. Who mounts a
//! file system needs what `stat` shows, links, extended attributes, and directories that are read in parts, all by
//! *node*, for a kernel remembers nodes and not paths. So this is the wider trait below, and any of these is a
//! `FileTree` too, by [`InodeTree`](crate::InodeTree). The verbs are those of the system calls.
//!
//! **The contract.**
//!
//! 1. A [`Node`] is a number that the file system gives: the same for the same file as long as it lives, another for each
//!    other file that lives. A number may come back for a later file, with another [`generation`](Attributes::generation).
//!    [`Node::ROOT`] is the directory at the top. Nobody says when it forgets a node, so one must be findable from its
//!    number alone; of a file that died, [`InodeError::Gone`].
//! 2. What other file systems are mounted below (children, snapshots) are directories like others, with nodes of
//!    their own. [`Attributes::inode`] is what people see, and may be the same in two of them. Between them, links and
//!    renames are refused ([`InodeError::CrossDevice`]).
//! 3. [`changes`](Inodes::changes) says what may be kept. Where it is [`Changes::Never`], every answer. Else what a
//!    [`Watcher`] asked for may be kept until the file system tells it of a change: of each that was not made by calls with
//!    that watcher's own [`MountId`], as soon as it is made. Times of access are never told; nor are names of a directory that
//!    [folds](Inodes::folds_names) them: those are to be asked for each time.
//! 4. Names, targets and values are bytes, without zero bytes (but in values) and in names without `/`. A name that came from
//!    outside is at most [`name_bytes_max`](Inodes::name_bytes_max) long, or refused; never `.` or `..`.
//! 5. A [`Cookie`] leads behind an entry, whatever was asked or changed in between: an entry that was there all the
//!    time is listed once. Cookies are from [`Cookie::FIRST`] on and below 2⁶³; a directory gives none twice.
//! 6. A directory is an entry of one directory, under one name; so it can't be linked, nor moved below itself. Where a
//!    damaged file system holds it under another too, [`list`](Inodes::list) may name it there, and
//!    [`lookup`](Inodes::lookup) refuses it ([`InodeError::Loop`]): who walks comes to an end.
//! 7. Operations in flight together may be answered in any order. Each is one step: who asks meanwhile sees all of it or
//!    nothing (a write: of each block). One that failed changed nothing, but a write may have been done in part.
//! 8. A change that was answered is visible to every later call. It is durable after [`fsync`](Inodes::fsync) of the file (data
//!    and what is needed to find it; of a directory its entries), or [`sync`](Inodes::sync), was answered; or by itself.
//! 9. [`open`](Inodes::open), [`create`](Inodes::create) and [`create_unnamed`](Inodes::create_unnamed) take hold of a file,
//!    [`release`](Inodes::release) lets go, as often. A file or directory without a name lives while it is held; in such a
//!    directory nothing can be made. Reading and writing need no hold.
//! 10. **Who may** do it is the caller's business: a kernel checks modes, POSIX lists of access and sticky bits before it asks.
//!     What a kernel leaves to the file system is done here, by [`rules`]: who owns what is born, what a list of access
//!     makes of a mode and a mode of a list, which bits a write or a change of owner takes away, and when a time of
//!     access is worth a change. Whether the caller may keep them he says: [`Caller::drops_privileges`].
//! 11. **Times**: a change sets the times that POSIX says, by the file system's own clock.
//! 12. **Sizes**: what was never written reads as zeros. [`seek`](Inodes::seek) may call a hole data, but never data a hole,
//!     however lately it was written. Space that [`fallocate`](Inodes::fallocate) took can't be lacking later.
//! 13. Locks on files are the kernel's; nothing here knows them.
//!
//! A file system that is only read implements what has no default; all else answers [`InodeError::ReadOnly`].

pub mod acl;
mod attributes;
mod change;
mod error;
pub mod rules;

pub use attributes::{Attributes, Cookie, InodeKind, ListEntry, Node, Timestamp, Usage, WallClock};
pub use change::{
    Caller, ChangeNotice, Changes, Fallocate, Fsync, MountId, New, OpenNode, RenameHow, Seek,
    SetAttributes, SetHow, SetTime, Watcher, WriteAt,
};
pub use error::InodeError;

use crate::sg::SgList;
use std::future::{Future, ready};
use std::pin::Pin;
use std::rc::Rc;
use stdx::{ByteCount, Offset};

/// A shared file system.
pub type InodesRef = Rc<dyn Inodes>;

/// An answer under way.
pub type InodeFuture<T> = Pin<Box<dyn Future<Output = Result<T, InodeError>>>>;

fn refused<T: 'static>(error: InodeError) -> InodeFuture<T> {
    Box::pin(ready(Err(error)))
}

/// What all that changes something answers where nothing can be changed.
fn read_only<T: 'static>() -> InodeFuture<T> {
    refused(InodeError::ReadOnly)
}

/// Whatever gives files to programs. The contract stands in the [module](self).
pub trait Inodes {
    /// The name that `df` and `mount` show.
    fn name(&self) -> Rc<str>;

    /// Whether anything changes while it is served.
    fn changes(&self) -> Changes {
        Changes::Never
    }

    /// How long a name may be. ZFS has 255, or 1023 with `longname`.
    fn name_bytes_max(&self) -> usize {
        1023
    }

    /// Whether a directory takes several names for one: such that differ by case, or by the form of their letters. A change under
    /// one changes where the others lead, and nobody is told of those.
    fn folds_names(&self, _directory: Node) -> bool {
        false
    }

    /// Tells this one of changes from now on. Its own calls bear the number that it is given.
    fn watch(&self, _watcher: Rc<dyn Watcher>) -> MountId {
        MountId::NONE
    }

    /// Tells that one no more.
    fn unwatch(&self, _mount: MountId) {}

    /// The entry of this name in a directory.
    fn lookup(&self, directory: Node, name: &[u8]) -> InodeFuture<Attributes>;

    /// What is known of a node.
    fn attributes(&self, node: Node) -> InodeFuture<Attributes>;

    /// A directory that has this one as an entry; of the top, itself.
    fn parent(&self, directory: Node) -> InodeFuture<Node>;

    /// Bytes of a plain file: as many as there are, so fewer only at its end.
    fn read(&self, file: Node, at: Offset, len: ByteCount) -> InodeFuture<SgList>;

    /// Entries of a directory behind a place, without `.` and `..`, `entries_max` at the most; none at the end.
    fn list(
        &self,
        directory: Node,
        after: Cookie,
        entries_max: usize,
    ) -> InodeFuture<Vec<ListEntry>>;

    /// Where a symbolic link leads.
    fn link_target(&self, link: Node) -> InodeFuture<Vec<u8>>;

    /// The value of an extended attribute by its whole name, `user.comment`.
    fn extended_attribute(&self, node: Node, name: &[u8]) -> InodeFuture<Vec<u8>>;

    /// The names of all extended attributes.
    fn extended_attributes(&self, node: Node) -> InodeFuture<Vec<Vec<u8>>>;

    /// How large the file system is that a file is of, and how much is free.
    fn usage(&self, of: Node) -> InodeFuture<Usage>;

    /// The first byte from a place on that is data, or that is in a hole; the end of the file is one. From the end
    /// on, and where no data follows, [`InodeError::BeyondEnd`]. Who knows no holes says that all is data.
    fn seek(&self, file: Node, at: Offset, what: Seek) -> InodeFuture<Offset> {
        let attributes = self.attributes(file);
        Box::pin(async move {
            let end = Offset(attributes.await?.size.bytes());
            match what {
                _ if at >= end => Err(InodeError::BeyondEnd),
                Seek::Data => Ok(at),
                Seek::Hole => Ok(end),
            }
        })
    }

    /// Takes hold of a file or directory (rule 9), and empties a file if that is asked for.
    fn open(&self, _by: Caller, _node: Node, how: OpenNode) -> InodeFuture<()> {
        if how.write || how.truncate {
            return read_only();
        }
        Box::pin(ready(Ok(())))
    }

    /// Lets go of what was opened. What there is to clean up is cleaned up later.
    fn release(&self, _node: Node) {}

    /// Makes a plain file where there is no entry of that name, and takes hold of it.
    fn create(
        &self,
        _by: Caller,
        _directory: Node,
        _name: &[u8],
        _new: New,
    ) -> InodeFuture<Attributes> {
        read_only()
    }

    /// Makes a plain file without a name, and takes hold of it; [`link`](Inodes::link) may give it one.
    fn create_unnamed(&self, _by: Caller, _directory: Node, _new: New) -> InodeFuture<Attributes> {
        read_only()
    }

    /// Makes a directory.
    fn mkdir(
        &self,
        _by: Caller,
        _directory: Node,
        _name: &[u8],
        _new: New,
    ) -> InodeFuture<Attributes> {
        read_only()
    }

    /// Makes a plain file, pipe, socket or device of these numbers, without holding it.
    fn mknod(
        &self,
        _by: Caller,
        _directory: Node,
        _name: &[u8],
        _new: New,
        _kind: InodeKind,
        _device: (u32, u32),
    ) -> InodeFuture<Attributes> {
        read_only()
    }

    /// Makes a symbolic link.
    fn symlink(
        &self,
        _by: Caller,
        _directory: Node,
        _name: &[u8],
        _target: &[u8],
    ) -> InodeFuture<Attributes> {
        read_only()
    }

    /// Gives a file that is no directory another name.
    fn link(
        &self,
        _by: Caller,
        _node: Node,
        _directory: Node,
        _name: &[u8],
    ) -> InodeFuture<Attributes> {
        read_only()
    }

    /// Removes the entry of something that is no directory.
    fn unlink(&self, _by: Caller, _directory: Node, _name: &[u8]) -> InodeFuture<()> {
        read_only()
    }

    /// Removes an empty directory.
    fn rmdir(&self, _by: Caller, _directory: Node, _name: &[u8]) -> InodeFuture<()> {
        read_only()
    }

    /// Moves an entry. What is there already is replaced (a directory only by a directory, and only where it is empty),
    /// refused or exchanged. Two names of one file: nothing happens.
    fn rename(
        &self,
        _by: Caller,
        _from: (Node, &[u8]),
        _to: (Node, &[u8]),
        _how: RenameHow,
    ) -> InodeFuture<()> {
        read_only()
    }

    /// Sets some of what is known of a node.
    fn setattr(&self, _by: Caller, _node: Node, _set: SetAttributes) -> InodeFuture<Attributes> {
        read_only()
    }

    /// Writes all of `data`, and says where. Beyond the end the file grows. With `durable` as if [`Fsync::Data`] followed.
    fn write(
        &self,
        _by: Caller,
        _file: Node,
        _at: WriteAt,
        _data: SgList,
        _durable: bool,
    ) -> InodeFuture<Offset> {
        read_only()
    }

    /// Takes space for a range that isn't empty, gives it back, or zeroes it.
    fn fallocate(
        &self,
        _by: Caller,
        _file: Node,
        _at: Offset,
        _len: ByteCount,
        _what: Fallocate,
    ) -> InodeFuture<()> {
        read_only()
    }

    /// Copies bytes of a file into one, maybe the same, as far as the first goes and as many as it likes, and says how many.
    /// The ranges don't overlap. Who can't do better than reading and writing says [`InodeError::NotSupported`].
    fn copy_range(
        &self,
        _by: Caller,
        _from: (Node, Offset),
        _to: (Node, Offset),
        _len: ByteCount,
    ) -> InodeFuture<ByteCount> {
        refused(InodeError::NotSupported)
    }

    /// Makes durable what was answered before about a file or directory.
    fn fsync(&self, _node: Node, _what: Fsync) -> InodeFuture<()> {
        Box::pin(ready(Ok(())))
    }

    /// Makes durable all that was answered before.
    fn sync(&self) -> InodeFuture<()> {
        Box::pin(ready(Ok(())))
    }

    /// Sets an extended attribute. The names of lists of access ([`acl`]) are lists, or refused.
    fn set_extended_attribute(
        &self,
        _by: Caller,
        _node: Node,
        _name: &[u8],
        _value: &[u8],
        _how: SetHow,
    ) -> InodeFuture<()> {
        read_only()
    }

    /// Removes an extended attribute.
    fn remove_extended_attribute(&self, _by: Caller, _node: Node, _name: &[u8]) -> InodeFuture<()> {
        read_only()
    }
}
