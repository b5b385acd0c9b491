//! What commands do to the datasets of a mount while it is there: children and snapshots made, renamed, destroyed.
//!
//! Properties that say how it is written count from then on. A mount knows datasets by their objects. So one that gets another name stays where it is mounted; a child that does is a directory of
//! another name or in another place, and programs keep what they have open in it. A snapshot that is destroyed is gone at once,
//! for its blocks are used again a few groups later. Who watches is told which names lead elsewhere: the kernel believes what it was
//! told of a name, that there is nothing as well, for as long as it likes.

use super::shared::{Children, SNAPSHOTS, Served, Shared, Snapshots};
use crate::dsl::{Dataset, Directory};
use crate::error::{Problem, ZfsError};
use rt::inodes::{ChangeNotice, InodeError, MountId};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Names of snapshots that a dataset was asked for and that are remembered. Beyond, the kernel is told to forget all.
const ASKED_MAX: usize = 1 << 12;

impl Shared {
    pub(super) async fn follow(&self) -> Result<(), ZfsError> {
        let all: Vec<Rc<Served>> = self.served.borrow().iter().flatten().cloned().collect();
        let (snapshots, heads): (Vec<_>, Vec<_>) =
            all.iter().partition(|served| served.is_snapshot);
        for served in heads {
            self.children(served).await?;
            self.look_at_properties(served).await?;
            self.follow_snapshots(served).await?;
        }
        for served in snapshots {
            self.look_at_properties(served).await?;
        }
        Ok(())
    }

    /// The directory of a dataset, under the name that it has.
    pub(super) async fn directory_of(&self, of: &Served) -> Result<Directory, ZfsError> {
        let name = self.spa.catalog(0).await?.dataset_name(of.dataset.number).await?;
        let found = self.spa.dsl().find(&name).await?;
        let absent = || self.spa.mos().wrong(of.dataset.number, Problem::Absent);
        found.map(|(directory, _)| directory).ok_or_else(absent)
    }

    pub(super) fn tell_of_children(&self, of: &Served, before: &Children, now: &Children) {
        let all = |children: &Children| -> BTreeSet<(Vec<u8>, u64)> {
            children.iter().map(|(_, name, child)| (name.to_vec(), child.number)).collect()
        };
        let (before, now) = (all(before), all(now));
        let directory = of.root();
        let names = before.symmetric_difference(&now).map(|(name, _)| name.clone());
        let mut notices: Vec<ChangeNotice> =
            names.map(|name| ChangeNotice::Entry { directory, name }).collect();
        if !notices.is_empty() {
            notices.push(ChangeNotice::Content(directory));
            self.tell_all(MountId::NONE, &notices);
        }
    }

    /// A snapshot of a dataset by its last name.
    pub(super) async fn find_snapshot(
        &self,
        of: &Served,
        name: &[u8],
    ) -> Result<Option<(Directory, Dataset)>, ZfsError> {
        let Ok(name) = std::str::from_utf8(name) else { return Ok(None) };
        // Knows by which name the dataset goes.
        self.children(of).await?;
        let whole = format!("{}@{name}", of.directory.borrow().name);
        self.spa.dsl().find(&whole).await
    }

    /// A name of a snapshot was asked for, and this was answered.
    pub(super) fn note_asked(&self, of: &Served, name: &[u8], found: Result<&Served, &InodeError>) {
        let mut asked = of.asked.borrow_mut();
        if asked.len() >= ASKED_MAX {
            let names: Vec<Vec<u8>> = std::mem::take(&mut *asked).into_keys().collect();
            self.tell_of_names(of, names);
        }
        let found = found.ok().map(|found| (found.dataset.number, found.dataset.head.guid));
        asked.insert(name.to_vec(), found);
    }

    /// One look at the names that there are, however many were asked for: this is done after each deed of a command.
    async fn follow_snapshots(&self, of: &Served) -> Result<(), ZfsError> {
        let names = self.spa.dsl().names(of.dataset.head.snapshot_names).await?;
        let now: BTreeMap<Vec<u8>, u64> =
            names.into_iter().map(|(name, number)| (name.into_bytes(), number)).collect();
        let mut others = Vec::new();
        of.asked.borrow_mut().retain(|name, before| {
            let stays = match (before, now.get(name)) {
                (Some((number, guid)), Some(now)) => number == now && !self.is_destroyed(*guid),
                (before, now) => before.is_none() && now.is_none(),
            };
            if !stays {
                others.push(name.clone());
            }
            stays
        });
        self.tell_of_names(of, others);
        Ok(())
    }

    /// The snapshots of a dataset, from the oldest on: names and objects.
    pub(super) async fn snapshots(&self, of: &Served) -> Result<Rc<Snapshots>, ZfsError> {
        let tasks = self.tasks();
        if let Some(known) = of.snapshots.borrow().as_ref().filter(|known| known.as_of == tasks) {
            return Ok(Rc::clone(known));
        }
        let found = self.spa.dsl().snapshots(&of.dataset).await?;
        let named = |found: &Dataset| {
            let name = found.snapshot_name()?.as_bytes().to_vec();
            Some((name, found.number, found.head.creation_txg))
        };
        let now = Snapshots { as_of: tasks, all: found.iter().filter_map(named).collect() };
        let now = Rc::new(now);
        *of.snapshots.borrow_mut() = Some(Rc::clone(&now));
        Ok(now)
    }

    /// What these names of snapshots lead to is to be asked anew, and which there are.
    fn tell_of_names(&self, of: &Served, names: Vec<Vec<u8>>) {
        let directory = of.node(SNAPSHOTS);
        let names = names.into_iter().map(|name| ChangeNotice::Entry { directory, name });
        let notices: Vec<ChangeNotice> = names.chain([ChangeNotice::Content(directory)]).collect();
        self.tell_all(MountId::NONE, &notices);
    }
}
