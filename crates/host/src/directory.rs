//! A directory of this host that is written to without being led out of it.
//!
//! Who copies a tree of files that others made must not trust its names, nor what lies at the target already: a
//! symbolic link there would lead writes elsewhere. So a [`Directory`] is an open descriptor, each call takes one
//! name in it, a name is refused where it is not one ([`plain`]), and no call follows a symbolic link that has
//! this name. Going down is opening the next directory, not joining paths.
//!
//! Calls wait; they are for programs that copy, not for an engine.

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

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

    /// What stands under a name; nothing where nothing does.
    ///
    /// # Errors
    /// The system's.
    pub fn look(&self, name: &[u8]) -> io::Result<Option<Entry>> {
        match rustix::fs::statat(&self.0, checked(name)?, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
            Ok(found) => Ok(Some(Entry {
                kind: match FileType::from_raw_mode(found.st_mode) {
                    FileType::RegularFile => EntryKind::File,
                    FileType::Directory => EntryKind::Directory,
                    FileType::Symlink => EntryKind::SymbolicLink,
                    FileType::Fifo => EntryKind::Fifo,
                    FileType::Socket => EntryKind::Socket,
                    FileType::CharacterDevice => EntryKind::CharacterDevice,
                    FileType::BlockDevice => EntryKind::BlockDevice,
                    FileType::Unknown => EntryKind::Other,
                },
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

    /// Opens a file that is there for writing.
    ///
    /// # Errors
    /// The system's; `ELOOP` where it is a symbolic link.
    pub fn reopen(&self, name: &[u8]) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.0, checked(name)?, flags, Mode::empty())?.into())
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

    /// Sets owner and group of what stands under a name, of a symbolic link itself.
    ///
    /// # Errors
    /// The system's.
    pub fn set_owner(&self, name: &[u8], user: u32, group: u32) -> io::Result<()> {
        let (user, group) = (Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        Ok(rustix::fs::chownat(&self.0, checked(name)?, user, group, flags)?)
    }

    /// Sets the permissions of a node that was just made here.
    ///
    /// # Errors
    /// The system's.
    pub fn set_permissions(&self, name: &[u8], permissions: u32) -> io::Result<()> {
        let mode = Mode::from_raw_mode(permissions);
        Ok(rustix::fs::chmodat(&self.0, checked(name)?, mode, AtFlags::empty())?)
    }

    /// Sets the times of what stands under a name, of a symbolic link itself.
    ///
    /// # Errors
    /// The system's.
    pub fn set_times(&self, name: &[u8], times: FileTimes) -> io::Result<()> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        Ok(rustix::fs::utimensat(&self.0, checked(name)?, &times.stamps(), flags)?)
    }

    /// Sets an extended attribute of what stands under a name, of a symbolic link itself.
    ///
    /// # Errors
    /// The system's.
    pub fn set_attribute(&self, name: &[u8], attribute: &[u8], value: &[u8]) -> io::Result<()> {
        // There is no such call by descriptor and name.
        let within = format!("/proc/self/fd/{}", self.0.as_raw_fd());
        let path = Path::new(&within).join(checked(name)?);
        let attribute = OsStr::from_bytes(attribute);
        Ok(rustix::fs::lsetxattr(path, attribute, value, XattrFlags::empty())?)
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
        let found = rustix::fs::fstat(&self.0)?;
        Ok((found.st_dev, found.st_ino))
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
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
        assert!(directory.reopen(b"file").is_err() && directory.create(b"file").is_err());
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
        directory.set_times(b"old", times).expect("set");
        let entry = directory.look(b"old").expect("looked").expect("there");
        assert_eq!(entry.modified, times.modified);
    }
}
