//! Files and directories changed.
//!
//! Each function here is one change ([`crate::dmu`]): it plans all that it does on one state, then carries it out; so a rename
//! is there or isn't, and no name leads to a file that is none. Writing much is a change for each stretch of
//! `WRITE_BYTES_MAX`.
//!
//! What a change is made of is in `work`.
//!
//! Times are the caller's. One that would go back stays.
//!
//! A file without a name goes at once, with its directory of attributes, or is put down until nobody holds it (`unlinked`).
//!
//! Source: OpenZFS, `zfs_vnops.c`, `zfs_dir.c`, `zfs_znode_os.c`.

pub(crate) mod listed;
mod unlinked;
mod work;

pub(crate) use work::{EMPTY_DIRECTORY, With, Work};
pub use work::{NewAttributes, NewFile};

use super::FileSystem;
use super::attributes::Moment;
use crate::dmu::Step;
use crate::error::{Problem, ZfsError};
use async_recursion::async_recursion as boxed;
use rt::Buf;
use std::convert::Infallible;
use zfs_format::zpl::attributes::names;
use zfs_format::zpl::directory::{DirectoryEntry, FileKind};

/// Bytes that one change writes. More holds the executor for longer; a file's blocks of 16 MiB are written whole.
const WRITE_BYTES_MAX: u64 = 1 << 20;
impl FileSystem {
    async fn change(
        &self,
        mut plan: impl FnMut(&mut Work<'_>) -> Step<()>,
    ) -> Result<(), ZfsError> {
        let done = self.change_if(|work| plan(work).map(Ok::<(), Infallible>)).await?;
        done.map_err(|never| match never {})
    }

    /// Carries out what is planned, unless the plan says otherwise: then nothing is changed.
    ///
    /// # Errors
    /// What is needed can't be had. The inner one is the plan's.
    pub(crate) async fn change_if<T, E>(
        &self,
        mut plan: impl FnMut(&mut Work<'_>) -> Step<Result<T, E>>,
    ) -> Result<Result<T, E>, ZfsError> {
        self.objset()
            .change(|tx| {
                let mut work = Work::new(self, tx.txg().0);
                let planned = match plan(&mut work)? {
                    Ok(planned) => planned,
                    Err(error) => return Ok(Err(error)),
                };
                work.carry_out(tx)?;
                Ok(Ok(planned))
            })
            .await
    }

    /// How many of so many bytes one change writes at a place: whole blocks, where they reach so far.
    ///
    /// # Errors
    /// The file can't be had.
    pub(crate) async fn stretch(&self, file: u64, at: u64, len: usize) -> Result<usize, ZfsError> {
        let block = self.objset().dnode(file).await?.block_bytes().max(1);
        let until = at.saturating_add(WRITE_BYTES_MAX.max(block));
        let whole = (until - until % block).max(at.saturating_add(1)) - at;
        Ok(usize::try_from(whole).unwrap_or(usize::MAX).min(len))
    }

    /// Makes the root directory of a new file system.
    pub(super) async fn make_root(&self, new: &NewFile) -> Result<(), ZfsError> {
        self.change(|work| work.make(new.number, new, 0)).await
    }

    /// Makes a file with a name in a directory.
    ///
    /// # Errors
    /// The name or the number is taken, or what is needed can't be had.
    #[boxed(?Send)]
    pub async fn create(&self, directory: u64, name: &[u8], new: &NewFile) -> Result<(), ZfsError> {
        self.change(|work| {
            if work.entry(directory, name)?.is_some() {
                return Err(work.wrong(directory, Problem::Exists).into());
            }
            work.make(directory, new, 0)?;
            let kind = FileKind::of_mode(new.mode);
            work.put(directory, name, DirectoryEntry { object: new.number, kind })?;
            work.count(directory, 1, i64::from(new.is_directory()))?;
            work.touch(directory, new.created, true)
        })
        .await
    }

    /// Makes the directory of a file's extended attributes.
    ///
    /// # Errors
    /// As of [`FileSystem::create`].
    #[boxed(?Send)]
    pub async fn create_attribute_directory(
        &self,
        file: u64,
        new: &NewFile,
    ) -> Result<(), ZfsError> {
        self.change(|work| work.make_hidden(file, new)).await
    }

    /// Gives a file another name.
    ///
    /// # Errors
    /// The name is taken, or what is needed can't be had.
    #[boxed(?Send)]
    pub async fn link(&self, directory: u64, name: &[u8], file: u64) -> Result<(), ZfsError> {
        self.change(|work| {
            if work.entry(directory, name)?.is_some() {
                return Err(work.wrong(directory, Problem::Exists).into());
            }
            let a = &mut work.file(file)?.attributes;
            a.links = a.links.saturating_add(1);
            let (links, kind, when) = (a.links, a.kind, a.changed);
            work.set(file, &[(names::LINKS, links)])?;
            work.put(directory, name, DirectoryEntry { object: file, kind: Some(kind) })?;
            work.count(directory, 1, 0)?;
            work.touch(directory, when, true)
        })
        .await
    }

    /// Takes a name away, and with the last one its file. Says whether it was there.
    ///
    /// # Errors
    /// It is a directory that has names, or what is needed can't be had.
    #[boxed(?Send)]
    pub async fn unlink(&self, directory: u64, name: &[u8]) -> Result<(), ZfsError> {
        self.change(|work| {
            let none = work.wrong(directory, Problem::NoName);
            let entry = work.entry(directory, name)?.ok_or(none)?;
            work.unlink(directory, name, entry, false).map(drop)
        })
        .await
    }

    /// Gives a file another name in the place of one. What had that name loses it.
    ///
    /// # Errors
    /// There is no such file, or what is needed can't be had.
    #[boxed(?Send)]
    pub async fn rename(&self, from: (u64, &[u8]), to: (u64, &[u8])) -> Result<(), ZfsError> {
        self.change(|work| {
            let none = work.wrong(from.0, Problem::NoName);
            let entry = work.entry(from.0, from.1)?.ok_or(none)?;
            if let Some(old) = work.entry(to.0, to.1)? {
                // Two names of one file: nothing happens.
                if old.object == entry.object {
                    return Ok(());
                }
                let is_directory = work.file(entry.object)?.attributes.kind == FileKind::Directory;
                let problem = match work.file(old.object)?.attributes.kind == FileKind::Directory {
                    true if !is_directory => Some(Problem::IsDirectory),
                    false if is_directory => Some(Problem::NotDirectory),
                    _ => None,
                };
                if let Some(problem) = problem {
                    return Err(work.wrong(old.object, problem).into());
                }
                work.unlink(to.0, to.1, old, false)?;
            }
            let a = &work.file(entry.object)?.attributes;
            let (kind, when) = (a.kind, a.changed);
            let links = i64::from(kind == FileKind::Directory);
            work.take(from.0, from.1)?;
            work.count(from.0, -1, -links)?;
            work.put(to.0, to.1, DirectoryEntry { object: entry.object, kind: Some(kind) })?;
            work.count(to.0, 1, links)?;
            work.touch(to.0, when, true)?;
            work.set(entry.object, &[(names::PARENT, to.0)])
        })
        .await
    }

    /// Lets two names change places.
    ///
    /// # Errors
    /// One is not there, or what is needed can't be had.
    #[boxed(?Send)]
    pub async fn exchange(&self, one: (u64, &[u8]), other: (u64, &[u8])) -> Result<(), ZfsError> {
        self.change(|work| {
            let none = |work: &Work<'_>, directory| work.wrong(directory, Problem::NoName);
            let first = work.entry(one.0, one.1)?.ok_or_else(|| none(work, one.0))?;
            let second = work.entry(other.0, other.1)?.ok_or_else(|| none(work, other.0))?;
            work.put(one.0, one.1, second)?;
            work.put(other.0, other.1, first)?;
            work.set(first.object, &[(names::PARENT, other.0)])?;
            work.set(second.object, &[(names::PARENT, one.0)])?;
            let is_directory = |work: &mut Work<'_>, number| -> Step<i64> {
                Ok(i64::from(work.file(number)?.attributes.kind == FileKind::Directory))
            };
            let more = is_directory(work, second.object)? - is_directory(work, first.object)?;
            work.count(one.0, 0, more)?;
            work.count(other.0, 0, -more)
        })
        .await
    }

    /// Writes bytes into a file. It is then as long as `end`, if it was shorter: bytes of a whole block may reach beyond it.
    ///
    /// # Errors
    /// It is no file, or what is needed can't be had. What came before the stretch that fails is written.
    #[boxed(?Send)]
    pub async fn write(&self, file: u64, at: u64, bytes: &Buf, end: u64) -> Result<(), ZfsError> {
        let mut done = 0;
        while done < bytes.len() {
            let at = at.saturating_add(done as u64);
            // Blocks that are covered are covered whole.
            let len = self.stretch(file, at, bytes.len() - done).await?;
            let piece = bytes.slice(done..done + len);
            let covers = at.saturating_add(len as u64);
            self.change(|work| work.write(file, at, &piece, end.min(covers))).await?;
            done += len;
        }
        self.grow(file, end).await
    }

    /// A file is at least so long.
    ///
    /// # Errors
    /// What is needed can't be had.
    #[boxed(?Send)]
    pub async fn grow(&self, file: u64, size: u64) -> Result<(), ZfsError> {
        self.change(|work| match work.file(file)?.attributes.size < size {
            true => work.set(file, &[(names::SIZE, size)]),
            false => Ok(()),
        })
        .await
    }

    /// A file is so long: what lies behind is gone.
    ///
    /// # Errors
    /// What is needed can't be had.
    #[boxed(?Send)]
    pub async fn truncate(&self, file: u64, size: u64) -> Result<(), ZfsError> {
        self.change(|work| work.resize(file, size)).await
    }

    /// Zeros a stretch of a file, which keeps its length.
    ///
    /// # Errors
    /// What is needed can't be had.
    #[boxed(?Send)]
    pub async fn punch(&self, file: u64, at: u64, len: u64) -> Result<(), ZfsError> {
        self.change(|work| work.zero(file, at, at.saturating_add(len))).await
    }

    /// Sets attributes.
    ///
    /// # Errors
    /// What is needed can't be had.
    #[boxed(?Send)]
    pub async fn set_attributes(&self, file: u64, new: NewAttributes) -> Result<(), ZfsError> {
        self.change(|work| work.set_attributes(file, new)).await
    }

    /// Gives a file or directory a project; and says whether a directory hands its project down to what is made in it.
    ///
    /// # Errors
    /// It is neither, projects are not counted here, or what is needed can't be had.
    #[boxed(?Send)]
    pub async fn set_project(
        &self,
        file: u64,
        project: Option<u64>,
        hands_down: Option<bool>,
    ) -> Result<(), ZfsError> {
        self.change(|work| {
            work.set_project(file, project, hands_down)?;
            work.log_whole(file);
            Ok(())
        })
        .await
    }

    /// Sets an extended attribute among a file's attributes, or takes it away.
    ///
    /// # Errors
    /// The attributes don't fit, or what is needed can't be had.
    #[boxed(?Send)]
    pub async fn set_extended_attribute(
        &self,
        file: u64,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), ZfsError> {
        self.change(|work| work.set_extended(file, name, value).map(drop)).await
    }

    /// A file was written at this moment.
    ///
    /// # Errors
    /// What is needed can't be had. A file that is gone is none.
    #[boxed(?Send)]
    pub async fn touch(&self, file: u64, when: Moment) -> Result<(), ZfsError> {
        match self.change(|work| work.touch(file, when, true)).await {
            Err(ZfsError::Object { object, problem: Problem::Absent, .. }) if object == file => {
                Ok(())
            }
            other => other,
        }
    }

    /// Frees a file that was put down as one without a name, and that nobody holds any more. One that has a name again is only
    /// taken off.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub(crate) async fn drain(&self, file: u64) -> Result<(), ZfsError> {
        self.change(|work| work.drain(file)).await
    }
}
