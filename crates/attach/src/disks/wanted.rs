//! What is to be opened otherwise than for reading as it is.

use ::md::superblock::Uuid;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A volume that is to be written.
pub struct Written {
    /// How it is called; `GROUP/` for a whole group.
    pub volume: String,
    /// Whether RAID sets below it are also opened with fewer members than they had when they were used last.
    pub run: bool,
}

/// What is to be opened for writing; all else is for reading.
#[derive(Clone, Debug, Default)]
pub struct Writing {
    /// Files, block devices and exports that are no members, by their names.
    pub(super) files: BTreeSet<Arc<str>>,
    /// Sets, each with whether it is opened with fewer members too.
    pub(super) sets: BTreeMap<Uuid, bool>,
    /// Whether sets that can only be put together by force are there, too: for reading.
    pub(super) by_force: bool,
}

impl Writing {
    /// Nothing, and the sets that can only be put together by force are there where this is so.
    pub fn nothing(by_force: bool) -> Writing {
        Writing { by_force, ..Writing::default() }
    }

    /// Whether all of it is to be opened as it is without it.
    pub(super) fn is_nothing(&self) -> bool {
        self.files.is_empty() && self.sets.is_empty() && !self.by_force
    }

    /// The sets of it.
    pub fn sets(&self) -> impl Iterator<Item = Uuid> {
        self.sets.keys().copied()
    }

    /// This, too.
    pub fn add(&mut self, other: Writing) {
        self.files.extend(other.files);
        for (set, run) in other.sets {
            *self.sets.entry(set).or_default() |= run;
        }
        self.by_force |= other.by_force;
    }
}
