//! A directory of this host that is written to without being led out of it.
//!
//! Who copies a tree of files that others made must not trust its names, nor what lies at the target already: a
//! symbolic link there would lead writes elsewhere. So a [`Directory`] is an open descriptor, each call takes one
//! name in it, a name is refused where it is not one ([`plain`]), and no call follows a symbolic link that has
//! this name. Going down is opening the next directory, not joining paths.
//!
//! Calls wait; they are for programs that copy, not for an engine.

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What is said where a name leads to something else than was made under it.
pub const REPLACED: &str = "somebody else put something else in its place";

/// An open directory. See the [module](self).
pub struct Directory(OwnedFd);

/// What stands under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub kind: EntryKind,
    /// How many names it has.
    pub links: u64,
    /// Bytes.
    pub size: u64,
    /// Last written: seconds and nanoseconds since 1970.
    pub modified: (i64, u32),
    /// Device and inode.
    pub identity: (u64, u64),
    /// Major and minor number of a device node.
    pub device: (u32, u32),
}

/// What stands under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is what its name says")]
pub enum EntryKind {
    File,
    Directory,
    SymbolicLink,
    Fifo,
    Socket,
    CharacterDevice,
    BlockDevice,
    Other,
}

impl EntryKind {
    pub(crate) fn of(mode: u32) -> EntryKind {
        match FileType::from_raw_mode(mode) {
            FileType::RegularFile => EntryKind::File,
            FileType::Directory => EntryKind::Directory,
            FileType::Symlink => EntryKind::SymbolicLink,
            FileType::Fifo => EntryKind::Fifo,
            FileType::Socket => EntryKind::Socket,
            FileType::CharacterDevice => EntryKind::CharacterDevice,
            FileType::BlockDevice => EntryKind::BlockDevice,
            FileType::Unknown => EntryKind::Other,
        }
    }
}

/// Times that a file is to have: seconds and nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileTimes {
    /// Last read.
    pub accessed: (i64, u32),
    /// Last written.
    pub modified: (i64, u32),
}

impl FileTimes {
    fn stamps(self) -> Timestamps {
        let time = |(tv_sec, nanoseconds): (i64, u32)| Timespec {
            tv_sec,
            tv_nsec: nanoseconds.min(999_999_999).into(),
        };
        Timestamps { last_access: time(self.accessed), last_modification: time(self.modified) }
    }
}

/// Whether these bytes are a name within a directory: not empty, no `/` and no zero, neither `.` nor `..`.
pub fn plain(name: &[u8]) -> bool {
    !name.is_empty() && name != b"." && name != b".." && !name.iter().any(|b| matches!(b, 0 | b'/'))
}

/// Whether this process's user owns it.
fn is_mine(found: &Stat) -> bool {
    found.st_uid == rustix::process::geteuid().as_raw()
}

/// Whether others than its owner may write it: for root, whose group is not its alone, the group too.
fn is_open_to_others(found: &Stat) -> bool {
    let others = if is_root() { 0o022 } else { 0o002 };
    found.st_mode & others != 0
}

/// Whether this process may give files away.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn checked(name: &[u8]) -> Result<&OsStr, Errno> {
    if plain(name) { Ok(OsStr::from_bytes(name)) } else { Err(Errno::INVAL) }
}

impl Directory {
    /// Opens the directory that the user named; symbolic links on the way are the user's.
    ///
    /// # Errors
    /// The system's.
    pub fn open(path: &Path) -> io::Result<Directory> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Directory(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// Opens a directory in this one.
    ///
    /// # Errors
    /// The system's; `ENOTDIR` or `ELOOP` where it is a symbolic link.
    pub fn enter(&self, name: &[u8]) -> io::Result<Directory> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Directory(rustix::fs::openat(&self.0, checked(name)?, flags, Mode::empty())?))
    }

    /// The same directory, once more.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn again(&self) -> io::Result<Directory> {
        Ok(Directory(self.0.try_clone()?))
    }

    /// Makes a directory, for the owner alone.
    ///
    /// # Errors
    /// The system's.
    pub fn make(&self, name: &[u8]) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(&self.0, checked(name)?, Mode::RWXU)?)
    }

    /// Makes a directory with the permissions that the user gives to new ones (`umask`).
    ///
    /// # Errors
    /// The system's.
    pub fn make_usual(&self, name: &[u8]) -> io::Result<()> {
        let mode = Mode::RWXU | Mode::RWXG | Mode::RWXO;
        Ok(rustix::fs::mkdirat(&self.0, checked(name)?, mode)?)
    }

    /// What stands under a name; nothing where nothing does.
    ///
    /// # Errors
    /// The system's.
    pub fn look(&self, name: &[u8]) -> io::Result<Option<Entry>> {
        match rustix::fs::statat(&self.0, checked(name)?, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
            Ok(found) => Ok(Some(Entry {
                kind: EntryKind::of(found.st_mode),
                links: found.st_nlink,
                size: found.st_size as u64,
                modified: (found.st_mtime, found.st_mtime_nsec as u32),
                identity: (found.st_dev, found.st_ino),
                device: (rustix::fs::major(found.st_rdev), rustix::fs::minor(found.st_rdev)),
            })),
        }
    }

    /// Makes a file, for the owner alone, and opens it for writing.
    ///
    /// # Errors
    /// The system's; also where the name is taken.
    pub fn create(&self, name: &[u8]) -> io::Result<File> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        Ok(rustix::fs::openat(&self.0, checked(name)?, flags, mode)?.into())
    }

    /// Opens a file for writing that this process's user left here earlier; nothing where there is none. What somebody else
    /// may have put there, or may still be writing to, is none: a file of another user or with several names, one that
    /// others may write, all in a directory that is not [private](Directory::is_private).
    ///
    /// # Errors
    /// The system's.
    pub fn open_own(&self, name: &[u8]) -> io::Result<Option<File>> {
        let Some((file, found)) = self.open_file(name, OFlags::RDWR)? else { return Ok(None) };
        let is_own = is_mine(&found) && found.st_nlink == 1 && !is_open_to_others(&found);
        Ok(Some(file).filter(|_| is_own && self.is_private().is_ok_and(|private| private)))
    }

    /// The first bytes of a file; nothing where there is no file of this name.
    ///
    /// # Errors
    /// The system's.
    pub fn read(&self, name: &[u8], bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
        let Some((file, _)) = self.open_file(name, OFlags::RDONLY)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.take(bytes_max).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Opens a plain file that is there. Opening waits for nothing, and a link is not followed.
    fn open_file(&self, name: &[u8], how: OFlags) -> io::Result<Option<(File, Stat)>> {
        let quietly = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        match self.look(name)? {
            Some(entry) if entry.kind == EntryKind::File => {}
            _ => return Ok(None),
        }
        let file = match rustix::fs::openat(&self.0, checked(name)?, how | quietly, Mode::empty()) {
            Ok(file) => file,
            // It is gone, or another thing by now; or it is somebody else's.
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO | Errno::ACCESS | Errno::PERM) => {
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let found = rustix::fs::fstat(&file)?;
        let is_file = EntryKind::of(found.st_mode) == EntryKind::File;
        Ok(is_file.then(|| (file.into(), found)))
    }

    /// The text of a symbolic link.
    ///
    /// # Errors
    /// The system's.
    pub fn link_text(&self, name: &[u8]) -> io::Result<Vec<u8>> {
        Ok(rustix::fs::readlinkat(&self.0, checked(name)?, Vec::new())?.into_bytes())
    }

    /// Makes a symbolic link with this text.
    ///
    /// # Errors
    /// The system's.
    pub fn make_link(&self, name: &[u8], text: &[u8]) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(OsStr::from_bytes(text), &self.0, checked(name)?)?)
    }

    /// Makes a fifo, socket or device node.
    ///
    /// # Errors
    /// The system's; devices are for root.
    pub fn make_node(
        &self,
        name: &[u8],
        kind: EntryKind,
        (major, minor): (u32, u32),
    ) -> io::Result<()> {
        let kind = match kind {
            EntryKind::Fifo => FileType::Fifo,
            EntryKind::Socket => FileType::Socket,
            EntryKind::CharacterDevice => FileType::CharacterDevice,
            EntryKind::BlockDevice => FileType::BlockDevice,
            _ => return Err(Errno::INVAL.into()),
        };
        let device = rustix::fs::makedev(major, minor);
        let mode = Mode::RUSR | Mode::WUSR;
        Ok(rustix::fs::mknodat(&self.0, checked(name)?, kind, mode, device)?)
    }

    /// Gives a file of another directory a further name here.
    ///
    /// # Errors
    /// The system's.
    pub fn hard_link(&self, from: &Directory, file: &[u8], name: &[u8]) -> io::Result<()> {
        let (file, name) = (checked(file)?, checked(name)?);
        Ok(rustix::fs::linkat(&from.0, file, &self.0, name, AtFlags::empty())?)
    }

    /// Renames within the directory; what has the new name is replaced only if `replace`.
    ///
    /// # Errors
    /// The system's.
    pub fn rename(&self, from: &[u8], to: &[u8], replace: bool) -> io::Result<()> {
        let (from, to) = (checked(from)?, checked(to)?);
        if replace {
            return Ok(rustix::fs::renameat(&self.0, from, &self.0, to)?);
        }
        match rustix::fs::renameat_with(&self.0, from, &self.0, to, RenameFlags::NOREPLACE) {
            // File systems that don't know the flag: look, then rename.
            Err(Errno::INVAL | Errno::NOSYS) => match self.look(to.as_bytes())? {
                Some(_) => Err(Errno::EXIST.into()),
                None => Ok(rustix::fs::renameat(&self.0, from, &self.0, to)?),
            },
            other => Ok(other?),
        }
    }

    /// Removes a name that is no directory's.
    ///
    /// # Errors
    /// The system's.
    pub fn remove(&self, name: &[u8]) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, checked(name)?, AtFlags::empty())?)
    }

    /// Holds the node that was just made under a name.
    ///
    /// # Errors
    /// The system's; or something of another kind, or with several names, stands there by now.
    pub fn made(&self, name: &[u8], kind: EntryKind) -> io::Result<Made> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let node = rustix::fs::openat(&self.0, checked(name)?, flags, Mode::empty())?;
        let found = rustix::fs::fstat(&node)?;
        match EntryKind::of(found.st_mode) == kind && found.st_nlink == 1 {
            true => Ok(Made(node)),
            false => Err(io::Error::other(REPLACED)),
        }
    }

    /// Whether nobody but this process's user, and root, can put something under a name here or take it away. For other
    /// users than root their group may: it is often theirs alone.
    ///
    /// # Errors
    /// The system's.
    pub fn is_private(&self) -> io::Result<bool> {
        let found = rustix::fs::fstat(&self.0)?;
        Ok((found.st_uid == 0 || is_mine(&found)) && !is_open_to_others(&found))
    }

    /// Whether it is this process's user's, and private.
    ///
    /// # Errors
    /// The system's.
    pub fn is_own(&self) -> io::Result<bool> {
        Ok(is_mine(&rustix::fs::fstat(&self.0)?) && self.is_private()?)
    }

    /// Makes durable all that was written to the directory's file system.
    ///
    /// # Errors
    /// The system's.
    pub fn sync_all(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.0)?)
    }

    /// Device and inode.
    ///
    /// # Errors
    /// The system's.
    pub fn identity(&self) -> io::Result<(u64, u64)> {
        identity(self)
    }
}

/// A link or node that was made, held by a descriptor: what is set is set for it, whatever has its name by now. Others may
/// write the directory, and put a link to a file of root's in its place.
///
/// A descriptor that opens nothing (`O_PATH`) takes few calls; `/proc/self/fd` leads the others to it, and no further.
pub struct Made(OwnedFd);

impl Made {
    fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.0.as_raw_fd())
    }

    /// Sets owner and group.
    ///
    /// # Errors
    /// The system's.
    pub fn set_owner(&self, user: u32, group: u32) -> io::Result<()> {
        let (user, group) = (Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
        Ok(rustix::fs::chownat(&self.0, "", user, group, AtFlags::EMPTY_PATH)?)
    }

    /// Sets the permissions; a symbolic link has none.
    ///
    /// # Errors
    /// The system's.
    pub fn set_permissions(&self, permissions: u32) -> io::Result<()> {
        Ok(rustix::fs::chmod(self.path(), Mode::from_raw_mode(permissions))?)
    }

    /// Sets the times.
    ///
    /// # Errors
    /// The system's.
    pub fn set_times(&self, times: FileTimes) -> io::Result<()> {
        Ok(rustix::fs::utimensat(rustix::fs::CWD, self.path(), &times.stamps(), AtFlags::empty())?)
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// The system's.
    pub fn set_attribute(&self, attribute: &[u8], value: &[u8]) -> io::Result<()> {
        let attribute = OsStr::from_bytes(attribute);
        Ok(rustix::fs::setxattr(self.path(), attribute, value, XattrFlags::empty())?)
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Device and inode of an open file.
///
/// # Errors
/// The system's.
pub fn identity(of: &impl AsFd) -> io::Result<(u64, u64)> {
    let found = rustix::fs::fstat(of)?;
    Ok((found.st_dev, found.st_ino))
}

/// Sets owner and group of an open file or directory.
///
/// # Errors
/// The system's.
pub fn set_owner(of: &impl AsFd, user: u32, group: u32) -> io::Result<()> {
    Ok(rustix::fs::fchown(of, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?)
}

/// Sets the permissions of an open file or directory.
///
/// # Errors
/// The system's.
pub fn set_permissions(of: &impl AsFd, permissions: u32) -> io::Result<()> {
    Ok(rustix::fs::fchmod(of, Mode::from_raw_mode(permissions))?)
}

/// Sets the times of an open file or directory.
///
/// # Errors
/// The system's.
pub fn set_times(of: &impl AsFd, times: FileTimes) -> io::Result<()> {
    Ok(rustix::fs::futimens(of, &times.stamps())?)
}

/// Sets an extended attribute of an open file or directory.
///
/// # Errors
/// The system's.
pub fn set_attribute(of: &impl AsFd, attribute: &[u8], value: &[u8]) -> io::Result<()> {
    let attribute = OsStr::from_bytes(attribute);
    Ok(rustix::fs::fsetxattr(of, attribute, value, XattrFlags::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    /// Nothing that a name or a link says leads out of the directory.
    #[test]
    fn names_and_links_do_not_lead_elsewhere() {
        let outside = tempfile::tempdir().expect("a folder");
        let inside = tempfile::tempdir().expect("a folder");
        std::os::unix::fs::symlink(outside.path(), inside.path().join("away")).expect("a link");
        std::fs::write(outside.path().join("file"), b"kept").expect("a file");
        std::os::unix::fs::symlink(outside.path().join("file"), inside.path().join("file"))
            .expect("a link");
        let directory = Directory::open(inside.path()).expect("it opens");
        assert!(directory.enter(b"away").is_err());
        assert!(directory.open_own(b"file").expect("looked").is_none());
        assert!(directory.read(b"file", 9).expect("looked").is_none());
        assert!(directory.create(b"file").is_err());
        for name in [&b".."[..], b".", b"", b"a/b", b"/etc", b"a\0b"] {
            assert!(directory.enter(name).is_err() && directory.create(name).is_err());
            assert!(directory.make(name).is_err() && directory.make_link(name, b"x").is_err());
        }
        let kind = directory.look(b"file").expect("looked").expect("there").kind;
        assert_eq!(kind, EntryKind::SymbolicLink);
        assert_eq!(std::fs::read(outside.path().join("file")).expect("read"), b"kept");
    }

    #[test]
    fn a_name_that_is_taken_is_replaced_only_when_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = Directory::open(folder.path()).expect("it opens");
        directory.create(b"new").expect("made");
        directory.create(b"old").expect("made");
        assert!(directory.rename(b"new", b"old", false).is_err());
        directory.rename(b"new", b"old", true).expect("replaced");
        assert_eq!(directory.look(b"new").expect("looked"), None);
        let times = FileTimes { accessed: (-5, 6), modified: (1_000_000_007, 123_456_789) };
        directory.made(b"old", EntryKind::File).expect("held").set_times(times).expect("set");
        let entry = directory.look(b"old").expect("looked").expect("there");
        assert_eq!(entry.modified, times.modified);
    }

    /// What could break: a user who may write the target puts a link to a file of root's where a node was just made, and
    /// gets that file's owner, mode or times changed.
    #[test]
    fn what_is_set_for_a_node_is_set_for_no_other_that_took_its_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let victim = folder.path().join("victim");
        std::fs::write(&victim, "kept").expect("a file");
        let before = std::fs::metadata(&victim).expect("looked");
        let directory = Directory::open(folder.path()).expect("it opens");
        let times = FileTimes { accessed: (1, 0), modified: (7, 9) };
        let swap = |name: &str| {
            std::fs::remove_file(folder.path().join(name)).expect("removed");
            std::os::unix::fs::symlink(&victim, folder.path().join(name)).expect("a link");
        };
        directory.make_node(b"pipe", EntryKind::Fifo, (0, 0)).expect("made");
        let pipe = directory.made(b"pipe", EntryKind::Fifo).expect("held");
        swap("pipe");
        pipe.set_permissions(0o777).expect("set");
        pipe.set_times(times).expect("set");
        // Of a link itself, not of what it leads to.
        directory.make_link(b"link", b"victim").expect("made");
        directory
            .made(b"link", EntryKind::SymbolicLink)
            .expect("held")
            .set_times(times)
            .expect("set");
        let link = directory.look(b"link").expect("looked").expect("there");
        assert_eq!(link.modified, times.modified);
        // Put in its place before it was held.
        assert!(directory.made(b"pipe", EntryKind::Fifo).is_err(), "a link");
        directory.hard_link(&directory, b"victim", b"second").expect("linked");
        assert!(directory.made(b"second", EntryKind::File).is_err(), "another name of a file");
        let after = std::fs::metadata(&victim).expect("looked");
        let seen = |of: &std::fs::Metadata| (of.mode(), of.mtime(), of.mtime_nsec(), of.uid());
        assert_eq!(seen(&after), seen(&before));
    }

    /// What could break: a file is gone on with that somebody else made, or is still writing to.
    #[test]
    fn only_what_nobody_else_can_have_put_there_is_ones_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = Directory::open(folder.path()).expect("it opens");
        let chmod = |path: &Path, mode: u32| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("set");
        };
        let is_own = || directory.open_own(b"part").expect("looked").is_some();
        assert!(!is_own(), "nothing is there");
        directory.create(b"part").expect("made");
        assert!(is_own() && directory.is_own().expect("looked"));
        chmod(&folder.path().join("part"), 0o666);
        assert!(!is_own(), "others may write it");
        chmod(&folder.path().join("part"), 0o600);
        for mode in [0o777, 0o1777] {
            chmod(folder.path(), mode);
            assert!(
                !is_own() && !directory.is_own().expect("looked"),
                "others may put files there"
            );
        }
        chmod(folder.path(), 0o700);
        std::fs::hard_link(folder.path().join("part"), folder.path().join("other"))
            .expect("linked");
        assert!(!is_own(), "it is another file's name too");
        std::fs::remove_file(folder.path().join("other")).expect("removed");
        if is_root() {
            std::os::unix::fs::chown(folder.path().join("part"), Some(65534), None).expect("given");
            assert!(!is_own(), "it is another user's");
            std::os::unix::fs::chown(folder.path().join("part"), Some(0), None).expect("given");
            std::os::unix::fs::chown(folder.path(), Some(65534), None).expect("given");
            assert!(!is_own(), "the directory is another user's");
        }
        directory.make_node(b"pipe", EntryKind::Fifo, (0, 0)).expect("made");
        assert!(directory.open_own(b"pipe").expect("nothing is waited for").is_none());
    }
}
