//! What can't be read of a pool though it opens: groups that more devices of a vdev lack than it can do without.
//!
//! A leaf lacks what was written while it was away ([`dtls`](super::dtls), [`behind`](super::behind)), and all where it isn't there, or
//! [ends too soon](FoundPool::short): then it may lack any of it. Where too few others stand in for it, the groups are *lost* ([`lost_groups`]), until one of the missing ones is back.
//!
//! What was there before the first of them may be whole still: the state of the last group before, whose blocks nobody has overwritten
//! yet. Who writes to the pool overwrites them. So a pool is not written, unless that is asked for, of which something is **newly lost**:
//! lost now, and not when the newest group was written. Whoever wrote that one without the devices that are missing now, or with those that
//! are behind, went on without what is lost, and goes on. So:
//!
//! ```text
//!   a leaf is missing, and lacks the newest group    it was missing then, too
//!   a leaf is missing, and has it                    it was there, with all that it doesn't lack
//!   a leaf is there, and has the newest group        it lacked then what it lacks now
//!   a leaf is there, and its labels are behind       it was not there then, or nobody knew that it is an old copy
//! ```
//!
//! One that ends too soon is as one that is missing. Who had a pool open when a device failed, and went on, wrote its newest group without
//! it, and has accepted what was lost by that: it is not newly lost when the pool is opened next.

use super::found::FoundPool;
use super::open::Spa;
use crate::health::{self, Health, Present, VdevHealth, lost_groups};
use std::collections::BTreeMap;
use stdx::RangeSet;
use zfs_format::vdev::VdevKind;

/// What the leaves of a pool can't give. Of one that doesn't open nothing is known.
#[derive(Default)]
pub struct Missed {
    /// Transaction groups whose blocks leaves lack, by the leaves' GUIDs. Those that lack nothing are not in it.
    groups: BTreeMap<u64, RangeSet>,
    /// The leaves that are there; of an open pool there are some.
    present: Present,
}

/// A top-level vdev that can't give all that was written in some groups.
pub struct Lost<'a> {
    /// It.
    pub top: &'a VdevHealth,
    /// The groups.
    pub groups: RangeSet,
    /// Leaves that are there, and lack some of them.
    pub behind: Vec<&'a VdevHealth>,
    /// Leaves that are not there, or end too soon.
    pub missing: Vec<&'a VdevHealth>,
}

impl Lost<'_> {
    /// The first group that is lost.
    pub fn first(&self) -> Option<u64> {
        self.groups.iter().next().map(|stretch| stretch.start)
    }
}

impl Missed {
    /// Of a pool that is open.
    pub fn of(spa: &Spa, found: &FoundPool) -> Missed {
        let vdevs = spa.vdevs();
        let leaves = vdevs.leaves().into_iter();
        let lacking = leaves.filter_map(|leaf| Some((leaf.guid, spa.tree().dtl(leaf.guid)?)));
        let groups = lacking.filter(|(_, groups)| !groups.is_empty()).collect();
        Missed { groups, present: found.present() }
    }

    /// The groups whose blocks a leaf lacks, where it is there or not.
    pub fn lacks(&self, leaf: u64) -> Option<&RangeSet> {
        self.groups.get(&leaf)
    }

    /// The first group of each stretch that a leaf lacks.
    pub fn starts(&self) -> impl Iterator<Item = u64> {
        self.groups.values().flat_map(RangeSet::iter).map(|stretch| stretch.start)
    }

    /// Whether anything is known.
    pub fn is_known(&self) -> bool {
        !self.present.there.is_empty()
    }

    /// Whether a leaf can be read: one that was taken offline, or failed, is, where nobody else has a block. The spare space of a dRAID
    /// has no device of its own.
    pub fn is_there(&self, leaf: &VdevHealth) -> bool {
        self.present.there.contains(&leaf.vdev.guid) || leaf.vdev.kind == VdevKind::DraidSpare
    }

    /// Whether a leaf is there from end to end.
    fn is_whole(&self, leaf: &VdevHealth) -> bool {
        self.is_there(leaf) && !self.present.short.contains_key(&leaf.vdev.guid)
    }

    /// The groups whose blocks a leaf can't give, or not all of them.
    fn of_leaf(&self, leaf: &VdevHealth) -> RangeSet {
        match self.is_whole(leaf) {
            true => self.groups.get(&leaf.vdev.guid).cloned().unwrap_or_default(),
            false => std::iter::once(0..u64::MAX).collect(),
        }
    }

    /// The top-level vdevs that are in use and yet can't give all that was written in some groups.
    pub fn lost<'a>(&self, root: &'a VdevHealth) -> Vec<Lost<'a>> {
        let lost = self.in_use(root).filter_map(|top| {
            let groups = lost_groups(top, &|leaf| self.of_leaf(leaf));
            if groups.is_empty() {
                return None;
            }
            let (mut behind, mut missing) = (Vec::new(), Vec::new());
            top.each_leaf(&mut |leaf| match self.is_whole(leaf) {
                true if self.of_leaf(leaf).iter().any(|one| groups.touches(&one)) => {
                    behind.push(leaf);
                }
                true => {}
                false => missing.push(leaf),
            });
            Some(Lost { top, groups, behind, missing })
        });
        lost.collect()
    }

    /// Vdevs that hold files and can be used, where anything is known.
    fn in_use<'a>(&self, root: &'a VdevHealth) -> impl Iterator<Item = &'a VdevHealth> {
        let is_known = self.is_known();
        let is_used = |top: &VdevHealth| !top.vdev.is_for_logs() && top.health <= Health::Degraded;
        root.children.iter().filter(move |top| is_known && is_used(top))
    }

    /// The groups of a vdev that were lost when this group was written.
    fn lost_when(&self, top: &VdevHealth, newest: u64, spa: &Spa) -> RangeSet {
        lost_groups(top, &|leaf| {
            let lacks = self.groups.get(&leaf.vdev.guid).cloned().unwrap_or_default();
            match self.is_whole(leaf) {
                true if spa.behind(leaf.vdev.guid).is_some() => RangeSet::default(),
                true => lacks,
                false if lacks.contains(newest) => std::iter::once(0..u64::MAX).collect(),
                false => lacks,
            }
        })
    }
}

impl Spa {
    /// The groups that are lost, of all vdevs.
    pub fn lost(&self, found: &FoundPool) -> RangeSet {
        self.lost_but(found, |_, _| RangeSet::default())
    }

    /// Those of them that are newly lost: that were not when its newest group was written.
    pub fn newly_lost(&self, found: &FoundPool) -> RangeSet {
        let newest = self.uberblock().txg;
        self.lost_but(found, |missed, top| missed.lost_when(top, newest, self))
    }

    /// The stretches of groups that are lost, but those that a vdev had lost before.
    fn lost_but(
        &self,
        found: &FoundPool,
        before: impl Fn(&Missed, &VdevHealth) -> RangeSet,
    ) -> RangeSet {
        let missed = Missed::of(self, found);
        let root = health::of_pool(&self.vdevs(), &missed.present, false);
        let mut lost = RangeSet::default();
        for Lost { top, groups, .. } in missed.lost(&root) {
            let before = before(&missed, top);
            lost.extend(groups.iter().filter(|stretch| !before.covers(stretch)));
        }
        lost
    }
}

impl FoundPool {
    /// Whether something of it may be newly lost: a leaf is missing, ends too soon, or is behind. Of all others it isn't.
    pub fn may_have_lost(&self) -> bool {
        let Present { there, short } = self.present();
        let mut leaves = self.tops.values().flat_map(|top| top.leaves());
        let is_any_missing = leaves.any(|leaf| !there.contains(&leaf.guid));
        is_any_missing || !short.is_empty() || !self.behind().is_empty()
    }
}
