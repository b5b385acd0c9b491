//! Snapshots taken, renamed and destroyed where a mount shows them: `mkdir`, `mv` and `rmdir` in `.zfs/snapshot`.
//!
//! As under OpenZFS it takes root. What a snapshot is taken of is what programs have written by then; data in mapped memory is
//! known when the kernel writes it out. A snapshot that is held or cloned is busy; one that is destroyed, by whatever door, is gone for
//! who looks at it.
//!
//! Source: OpenZFS, `zfs_ctldir.c` (`zfsctl_snapdir_mkdir`, `zfsctl_snapdir_remove`, `zfsctl_snapdir_rename`).

use super::refusal::{stopped, wrong};
use super::shared::{SNAPSHOTS, Served, Shared};
use super::writing::Answer;
use crate::spa::datasets::TaskError;
use crate::spa::live::Live;
use rt::inodes::{Attributes, Caller, ChangeNotice, InodeError};
use std::rc::Rc;

fn not_done(error: &TaskError) -> InodeError {
    match error {
        TaskError::Exists => InodeError::Exists,
        TaskError::Name(_) => InodeError::Invalid,
        TaskError::NoSpace | TaskError::TooLittle => InodeError::NoSpace,
        TaskError::Absent => InodeError::NotFound,
        TaskError::Long => InodeError::NameTooLong,
        _ => InodeError::Busy,
    }
}

fn text(name: &[u8]) -> Answer<String> {
    std::str::from_utf8(name).map(str::to_owned).map_err(|_| InodeError::Invalid)
}

impl Shared {
    /// Who asks may do it, and the pool is written.
    fn live_for(&self, by: Caller) -> Answer<&Rc<Live>> {
        let live = &self.writing()?.live;
        if by.user == 0 { Ok(live) } else { Err(InodeError::Denied) }
    }

    fn tell_of_snapshots(&self, by: Caller, of: &Served, names: &[&[u8]]) {
        let directory = of.node(SNAPSHOTS);
        let entry = |name: &&[u8]| ChangeNotice::Entry { directory, name: name.to_vec() };
        let notices: Vec<ChangeNotice> =
            names.iter().map(entry).chain([ChangeNotice::Content(directory)]).collect();
        self.tell_all(by.mount, &notices);
    }

    pub(super) async fn take_snapshot(
        &self,
        by: Caller,
        of: &Served,
        name: &[u8],
    ) -> Answer<Attributes> {
        let (live, dataset, called) = (self.live_for(by)?, of.dataset.number, text(name)?);
        let taken = live.task(async |tasks| tasks.snapshot(dataset, &called).await).await;
        taken.map_err(stopped)?.map_err(|error| not_done(&error))?;
        self.tell_of_snapshots(by, of, &[name]);
        let snapshot = self.snapshot(of, name).await?;
        self.root_of(&snapshot).await
    }

    pub(super) async fn destroy_snapshot(
        &self,
        by: Caller,
        of: &Served,
        name: &[u8],
    ) -> Answer<()> {
        let live = self.live_for(by)?;
        let found = self.find_snapshot(of, name).await.map_err(|error| wrong(&error))?;
        let (_, dataset) = found.ok_or(InodeError::NotFound)?;
        let number = dataset.number;
        let gone = live.task(async |tasks| tasks.destroy_snapshot(number, false).await).await;
        gone.map_err(stopped)?.map_err(|error| not_done(&error))?;
        self.tell_of_snapshots(by, of, &[name]);
        Ok(())
    }

    pub(super) async fn rename_snapshot(
        &self,
        by: Caller,
        of: &Served,
        (from, to): (&[u8], &[u8]),
    ) -> Answer<()> {
        let (live, dataset) = (self.live_for(by)?, of.dataset.number);
        let (old, new) = (text(from)?, text(to)?);
        if old == new {
            return self.snapshot(of, from).await.map(drop);
        }
        let renamed = live.task(async |tasks| tasks.rename_snapshot(dataset, &old, &new).await);
        match renamed.await.map_err(stopped)?.map_err(|error| not_done(&error))? {
            true => self.tell_of_snapshots(by, of, &[from, to]),
            false => return Err(InodeError::NotFound),
        }
        Ok(())
    }
}
