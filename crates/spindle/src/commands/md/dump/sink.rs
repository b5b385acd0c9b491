//! Where a dump's bytes go: a pipe, a device, or a file that gets its name when it is whole.
//!
//! A file is written under another name in the same folder, of which the same dump always makes the same. So what bears the
//! file's own name is whole, whatever ended the command; what a command that was killed left is replaced by the next
//! one; and a file that is to be overwritten is there until the new one is. Devices and pipes are written to as they
//! are.

use crate::output::Failure;
use host::directory::Directory;
use rt::SgList;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions, Permissions};
use std::io::{Error, ErrorKind, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use stdx::ByteCount;

/// The unit in which zeros are left out of a file: a file system's block.
const HOLE: usize = 4096;

/// Where the bytes go.
pub enum Sink {
    /// A pipe: every byte.
    Stream(File),
    /// A device: every byte, at its place.
    Device(File),
    /// A file, in which zeros can be left out.
    File(Begun),
}

/// A file that is being written. What is dropped before its end is removed.
pub struct Begun {
    file: File,
    /// The folder's path and itself.
    path: PathBuf,
    folder: Directory,
    part: Vec<u8>,
    name: Vec<u8>,
    /// The permissions of what is replaced, if that was asked for and something is there.
    replaces: Option<Permissions>,
    force: bool,
    is_whole: bool,
}

impl Sink {
    /// Begins a file, or opens a device that is to be overwritten.
    ///
    /// # Errors
    /// It is there and is not to be overwritten, or can't be made.
    pub fn open(path: &Path, force: bool) -> Result<Sink, Failure> {
        let failed =
            |error: Error| Failure::failed(format!("creating {}: {error}", path.display()));
        let is_there = path.symlink_metadata().is_ok();
        if is_there && !force {
            let text = "File exists; name another, or add --overwrite";
            return Err(Failure::failed(format!("creating {}: {text}", path.display())));
        }
        if is_there && !path.is_file() {
            return OpenOptions::new().write(true).open(path).map(Sink::Device).map_err(failed);
        }
        Begun::new(path, force).map(Sink::File).map_err(failed)
    }

    /// Standard output. Not through std's buffer, which would look for the last line end of each piece.
    ///
    /// # Errors
    /// It is closed.
    pub fn stream() -> Result<Sink, Failure> {
        let out = std::io::stdout().as_fd().try_clone_to_owned();
        let out = out.map_err(|error| Failure::failed(format!("standard output: {error}")))?;
        Ok(Sink::Stream(out.into()))
    }

    /// What is said of an error of writing.
    pub fn wrong(path: &Path, error: &Error) -> Failure {
        let mend = match error.kind() {
            ErrorKind::StorageFull => "; make room, or name a place that has it",
            _ => "",
        };
        Failure::failed(format!("writing {}: {error}{mend}", path.display()))
    }

    /// Looks, before so many bytes come, whether there is room for them. Says so where a file will have it only if enough of them
    /// are zeros.
    ///
    /// # Errors
    /// It is a device, and shorter.
    pub fn check_room(&self, size: ByteCount) -> Result<Option<String>, Error> {
        match self {
            Sink::Stream(_) => Ok(None),
            Sink::Device(device) => {
                let is_disk = device.metadata().is_ok_and(|it| it.file_type().is_block_device());
                let end = |mut device: &File| {
                    let end = device.seek(SeekFrom::End(0))?;
                    device.rewind().map(|()| ByteCount(end))
                };
                match end(device).ok().filter(|end| is_disk && *end < size) {
                    Some(end) => Err(Error::new(
                        ErrorKind::FileTooLarge,
                        format!("it is a device of {end}, and {size} are to be written"),
                    )),
                    None => Ok(None),
                }
            }
            Sink::File(begun) => {
                let free = rustix::fs::fstatvfs(&begun.file).map(|it| it.f_bavail * it.f_frsize);
                Ok(free.ok().map(ByteCount).filter(|free| *free < size).map(|free| {
                    format!("{free} are free there for {size}: that is enough only if so much is zeros, which take no room")
                }))
            }
        }
    }

    /// Writes on.
    ///
    /// # Errors
    /// The system's.
    pub fn write(&mut self, data: &SgList) -> std::io::Result<()> {
        for piece in data.pieces() {
            match self {
                Sink::Stream(out) | Sink::Device(out) => out.write_all(piece.bytes())?,
                Sink::File(begun) => write_sparse(&mut begun.file, piece.bytes())?,
            }
        }
        Ok(())
    }

    /// Leaves so many bytes as zeros; `zeros` writes them where none can be left out.
    ///
    /// # Errors
    /// The system's.
    pub fn skip(
        &mut self,
        len: u64,
        zeros: impl FnOnce(&mut File, u64) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        match self {
            Sink::Stream(out) | Sink::Device(out) => zeros(out, len),
            Sink::File(begun) => {
                let len = i64::try_from(len).unwrap_or(i64::MAX);
                begun.file.seek(SeekFrom::Current(len)).map(drop)
            }
        }
    }

    /// Makes all of it durable, and gives a file its name; `size` is how long it is with zeros at its end.
    ///
    /// # Errors
    /// The system's; the name was taken meanwhile.
    pub fn finish(self, size: u64) -> std::io::Result<()> {
        match self {
            Sink::Stream(_) => Ok(()),
            Sink::Device(file) => match file.sync_all() {
                // A pipe or a terminal keeps nothing.
                Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
                done => done,
            },
            Sink::File(begun) => begun.finish(size),
        }
    }
}

impl Begun {
    fn new(path: &Path, force: bool) -> std::io::Result<Begun> {
        // A link that leads to the file stays: what it leads to is replaced.
        let is_there = path.is_file();
        let path = if is_there { path.canonicalize()? } else { path.to_owned() };
        let name = path.file_name().ok_or(ErrorKind::InvalidInput)?.as_bytes().to_vec();
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let folder = Directory::open(&parent)?;
        let part = part_of(&name);
        if folder.look(part.as_bytes())?.is_some() {
            folder.remove(part.as_bytes())?;
        }
        let replaces = match is_there {
            true => Some(path.metadata()?.permissions()),
            false => None,
        };
        let file = OpenOptions::new().write(true).create_new(true).open(parent.join(&part))?;
        let (part, path) = (part.into_encoded_bytes(), parent);
        Ok(Begun { file, path, folder, part, name, replaces, force, is_whole: false })
    }

    fn finish(mut self, size: u64) -> std::io::Result<()> {
        self.file.set_len(size)?;
        if let Some(permissions) = self.replaces.take() {
            self.file.set_permissions(permissions)?;
        }
        self.file.sync_all()?;
        self.folder.rename(&self.part, &self.name, self.force)?;
        self.is_whole = true;
        File::open(&self.path)?.sync_all()
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if !self.is_whole {
            // What can't be removed stays, under a name that says that it is not whole.
            let _ = self.folder.remove(&self.part);
        }
    }
}

/// The name under which a file is written. A name of its own length would be too long beside long ones, so it is FNV-1a.
fn part_of(name: &[u8]) -> OsString {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = name.iter().fold(0xcbf2_9ce4_8422_2325, mix);
    OsStr::new(&format!(".spindle-{hash:016x}.part")).to_owned()
}

/// Writes what is not zero, and passes over the rest.
fn write_sparse(file: &mut File, mut bytes: &[u8]) -> std::io::Result<()> {
    // By the system's comparison, which is fast in every build.
    const ZEROS: [u8; HOLE] = [0; HOLE];
    let is_hole = |block: &[u8]| *block == ZEROS[..block.len()];
    while !bytes.is_empty() {
        let first = is_hole(&bytes[..HOLE.min(bytes.len())]);
        let blocks = bytes.chunks(HOLE).take_while(|block| is_hole(block) == first).count();
        let (run, rest) = bytes.split_at((blocks * HOLE).min(bytes.len()));
        if first {
            file.seek(SeekFrom::Current(run.len() as i64))?;
        } else {
            file.write_all(run)?;
        }
        bytes = rest;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rt::Buf;

    fn names(folder: &Path) -> Vec<OsString> {
        let entries = std::fs::read_dir(folder).expect("a folder");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
        names.sort();
        names
    }

    /// What could break: a dump that was killed leaves part of a volume under the name of the whole.
    #[test]
    fn a_file_has_its_name_only_when_it_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("out");
        let Ok(Sink::File(killed)) = Sink::open(&file, false) else { panic!("it begins") };
        // As a kill leaves it: nothing is taken away.
        std::mem::forget(killed);
        assert_eq!(names(folder.path()), [part_of(b"out")]);
        let Ok(mut sink) = Sink::open(&file, false) else { panic!("it begins anew") };
        let data = SgList::from(Buf::copy_of(&[7; 5000]));
        sink.write(&data).expect("written");
        assert!(!file.exists());
        sink.finish(6000).expect("finished");
        assert_eq!(names(folder.path()), ["out"]);
        assert_eq!(std::fs::metadata(&file).expect("there").len(), 6000);
        assert!(Sink::open(&file, false).is_err(), "it is not overwritten unasked");
        // What is overwritten is there until the new one is whole.
        let Ok(sink) = Sink::open(&file, true) else { panic!("it begins") };
        assert_eq!(std::fs::metadata(&file).expect("there").len(), 6000);
        drop(sink);
        assert_eq!(names(folder.path()), ["out"]);
        let Ok(sink) = Sink::open(&file, true) else { panic!("it begins") };
        sink.finish(1).expect("finished");
        assert_eq!(std::fs::metadata(&file).expect("there").len(), 1);
    }
}
