//! Files that lose their last name.
//!
//! What nobody holds is freed in the same change, with its extended attributes. What somebody holds open goes into the *unlinked
//! set*, a table of the file system (`DELETE_QUEUE` of the master node), and is freed when the last one lets go; or, after a
//! crash, when the file system is mounted again: it is then found there.
//!
//! An entry's name is the object in hexadecimal, its value the object (`zap_add_int`).
//!
//! Source: OpenZFS, `zfs_dir.c` (`zfs_unlinked_add`, `zfs_unlinked_drain`, `zfs_rmnode`).

use super::work::{EMPTY_DIRECTORY, Work};
use crate::dmu::Step;
use crate::error::Problem;
use crate::zap::change::Plan;
use stdx::planted::{self, Bug};
use zfs_format::zap::leaf::LeafValue;
use zfs_format::zpl::attributes::names;
use zfs_format::zpl::directory::{DirectoryEntry, FileKind};

/// Files that are attributes of one file.
const ATTRIBUTE_FILES_MAX: usize = 1 << 16;

fn key(number: u64) -> Vec<u8> {
    format!("{number:x}").into_bytes()
}

impl Work<'_> {
    /// A name goes, and with the last one the file: now, or later if somebody holds it. Says whether it has none left.
    pub(crate) fn unlink(
        &mut self,
        directory: u64,
        name: &[u8],
        entry: DirectoryEntry,
        is_held: bool,
    ) -> Step<bool> {
        let number = entry.object;
        let a = &mut self.file(number)?.attributes;
        let is_directory = a.kind == FileKind::Directory;
        if is_directory && a.size > EMPTY_DIRECTORY {
            return Err(self.wrong(number, Problem::NotEmpty).into());
        }
        // A directory has two names of its own.
        a.links = if is_directory { 0 } else { a.links.saturating_sub(1) };
        let links = a.links;
        self.take(directory, name)?;
        self.count(directory, -1, if is_directory { -1 } else { 0 })?;
        if links > 0 || is_held {
            self.set(number, &[(names::LINKS, links)])?;
        }
        match links == 0 {
            true if is_held && planted::is(Bug::UnlinkedNotListed) => {}
            true if is_held => self.enqueue(number)?,
            true => self.free_whole(number)?,
            false => {}
        }
        Ok(links == 0)
    }

    /// The table of files without a name.
    fn queue(&mut self) -> Step<&mut Plan> {
        let missing = self.wrong(0, Problem::NoEntry("of unlinked files"));
        if self.queue.is_none() {
            let number = self.files.queue().ok_or(missing.clone())?;
            self.queue = Some(Plan::of(&self.files.objset().resident(number)?)?);
        }
        Ok(self.queue.as_mut().ok_or(missing)?)
    }

    /// A file without a name is put down, so that it is found.
    pub(crate) fn enqueue(&mut self, number: u64) -> Step<()> {
        let value = LeafValue { number_bytes: 8, numbers: vec![number] };
        self.queue()?.set(&key(number), value)
    }

    /// It has a name again, or is no more. Says whether it was put down.
    pub(crate) fn dequeue(&mut self, number: u64) -> Step<bool> {
        self.queue()?.remove(&key(number))
    }

    /// Frees a file that was put down and has no name. One that has is only taken off.
    pub(crate) fn drain(&mut self, number: u64) -> Step<()> {
        self.dequeue(number)?;
        match self.file(number) {
            Ok(open) if open.attributes.links == 0 => self.free_whole(number),
            Ok(_) => Ok(()),
            Err(crate::dmu::Blocked::Wrong(crate::ZfsError::Object {
                problem: Problem::Absent,
                ..
            })) => Ok(()),
            Err(other) => Err(other),
        }
    }

    /// Frees a file, with the directory of its extended attributes.
    fn free_whole(&mut self, number: u64) -> Step<()> {
        let hidden = self.file(number)?.attributes.extended_attributes;
        if hidden != 0 {
            let listed = self.table(hidden)?.numbers(ATTRIBUTE_FILES_MAX)?;
            for value in listed {
                self.free(DirectoryEntry::from_value(value).object)?;
            }
            self.free(hidden)?;
        }
        self.free(number)
    }

    fn free(&mut self, number: u64) -> Step<()> {
        let objset = self.files.objset();
        let open = self.file(number)?;
        open.is_freed = true;
        let dnode = open.dnode.clone();
        self.then.push(Box::new(move |tx| objset.free(tx, &dnode)));
        Ok(())
    }
}
