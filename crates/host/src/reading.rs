//! A tree of this host that is read to be copied: names, all that is known of them, and where a file has data.
//!
//! As with writing ([`directory`](crate::directory)) each call takes one name in an open [`Directory`], and no call follows a
//! symbolic link that has this name; so what is read lies in the tree that was named. Reading leaves times of access alone where
//! the system lets it (`O_NOATIME` is for a file's owner and root).
//!
//! Calls wait; they are for programs that copy, not for an engine.

use crate::directory::{Directory, EntryKind, plain};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

/// Bytes of a list of names of extended attributes, or of a value, at the most: Linux's own bound.
const ATTRIBUTE_BYTES_MAX: usize = 64 << 10;

/// What is known of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// What it is.
    pub kind: EntryKind,
    /// The lower 12 bits of its mode.
    pub permissions: u16,
    /// How many names it has.
    pub links: u64,
    /// Its owner and group.
    pub owner: (u32, u32),
    /// Bytes.
    pub size: u64,
    /// Last read: seconds and nanoseconds since 1970.
    pub accessed: (i64, u32),
    /// Last written.
    pub modified: (i64, u32),
    /// Last changed in any way.
    pub changed: (i64, u32),
    /// Device and inode.
    pub identity: (u64, u64),
    /// Major and minor number of a device node.
    pub device: (u32, u32),
}

impl Known {
    fn of(found: &Stat) -> Known {
        let moment = |seconds: i64, nanoseconds: u64| (seconds, nanoseconds as u32);
        Known {
            kind: EntryKind::of(found.st_mode),
            permissions: (found.st_mode & 0o7777) as u16,
            links: found.st_nlink,
            owner: (found.st_uid, found.st_gid),
            size: found.st_size as u64,
            accessed: moment(found.st_atime, found.st_atime_nsec),
            modified: moment(found.st_mtime, found.st_mtime_nsec),
            changed: moment(found.st_ctime, found.st_ctime_nsec),
            identity: (found.st_dev, found.st_ino),
            device: (rustix::fs::major(found.st_rdev), rustix::fs::minor(found.st_rdev)),
        }
    }
}

/// Whoever makes files: this process's user and group.
pub fn process_owner() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

fn checked(name: &[u8]) -> Result<&OsStr, Errno> {
    if plain(name) { Ok(OsStr::from_bytes(name)) } else { Err(Errno::INVAL) }
}

/// The names in a directory, in the order of their bytes.
///
/// # Errors
/// The system's.
pub fn names(of: &Directory) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(of)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// What is known of what stands under a name; nothing where nothing does.
///
/// # Errors
/// The system's.
pub fn known(of: &Directory, name: &[u8]) -> io::Result<Option<Known>> {
    match rustix::fs::statat(of, checked(name)?, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
        Ok(found) => Ok(Some(Known::of(&found))),
    }
}

/// What is known of what is open.
///
/// # Errors
/// The system's.
pub fn known_of(open: &impl AsFd) -> io::Result<Known> {
    Ok(Known::of(&rustix::fs::fstat(open)?))
}

/// Opens a plain file for reading. Opening waits for nothing, and a link is not followed.
///
/// # Errors
/// The system's; also where it is no plain file.
pub fn open(of: &Directory, name: &[u8]) -> io::Result<File> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let name = checked(name)?;
    let file: File = match rustix::fs::openat(of, name, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => rustix::fs::openat(of, name, flags, Mode::empty())?,
        other => other?,
    }
    .into();
    match known_of(&file)?.kind {
        EntryKind::File => Ok(file),
        _ => Err(io::Error::other("it is no plain file any more")),
    }
}

/// The extended attributes of what stands under a name, with their values.
///
/// # Errors
/// The system's.
pub fn attributes(of: &Directory, name: &[u8]) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held: OwnedFd = rustix::fs::openat(of, checked(name)?, flags, Mode::empty())?;
    attributes_at(&format!("/proc/self/fd/{}", held.as_raw_fd()))
}

/// The extended attributes of a directory that is open.
///
/// # Errors
/// The system's.
pub fn attributes_of(directory: &Directory) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    attributes_at(&format!("/proc/self/fd/{}", directory.as_fd().as_raw_fd()))
}

fn attributes_at(path: &str) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut names = vec![0; ATTRIBUTE_BYTES_MAX];
    let len = match rustix::fs::listxattr(path, &mut names[..]) {
        // File systems that have none.
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        other => other?,
    };
    names.truncate(len);
    let mut found = Vec::new();
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; ATTRIBUTE_BYTES_MAX];
        match rustix::fs::getxattr(path, OsStr::from_bytes(name), &mut value[..]) {
            // It was taken away meanwhile.
            Err(Errno::NODATA) => {}
            Err(error) => return Err(error.into()),
            Ok(len) => {
                value.truncate(len);
                found.push((name.to_vec(), value));
            }
        }
    }
    Ok(found)
}

/// Where from a place on a file has data, and up to where; nothing where only a hole follows. File systems that know no holes say
/// that all is data.
///
/// # Errors
/// The system's.
pub fn data_from(file: &File, at: u64, size: u64) -> io::Result<Option<(u64, u64)>> {
    if at >= size {
        return Ok(None);
    }
    let data = match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Err(Errno::NXIO) => return Ok(None),
        Err(Errno::INVAL | Errno::NOTSUP) => return Ok(Some((at, size))),
        other => other?,
    };
    let hole = rustix::fs::seek(file, SeekFrom::Hole(data))?;
    Ok((data < size).then(|| (data, hole.min(size))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    /// What could break: what lies behind a link is read, and a file's hole is taken for its end.
    #[test]
    fn names_links_and_holes_are_what_they_are() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let file = File::create(at("b")).expect("made");
        file.write_all_at(b"data", 1 << 20).expect("written");
        file.set_len(4 << 20).expect("grown");
        std::os::unix::fs::symlink("b", at("a")).expect("linked");
        let directory = Directory::open(folder.path()).expect("it opens");
        assert_eq!(names(&directory).expect("listed"), [b"a", b"b"]);
        let link = known(&directory, b"a").expect("looked").expect("there");
        assert_eq!((link.kind, link.size), (EntryKind::SymbolicLink, 1));
        assert!(open(&directory, b"a").is_err());
        assert_eq!(known(&directory, b"c").expect("looked"), None);
        assert!(known(&directory, b"../a").is_err());
        let file = open(&directory, b"b").expect("opened");
        let (from, until) = data_from(&file, 0, 4 << 20).expect("looked").expect("data");
        let ends = (1 << 20) + 4..=4 << 20;
        assert!(from <= 1 << 20 && ends.contains(&until), "{from} {until}");
        assert_eq!(data_from(&file, 4 << 20, 4 << 20).expect("looked"), None);
        assert!(attributes(&directory, b"a").expect("looked").is_empty());
    }
}
