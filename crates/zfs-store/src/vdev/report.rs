//! What a tree comes to: the state of each vdev and its errors, as `zpool status -v` shows them.

use super::failure::{Errors, FailureSink};
use super::leaf::{Leaf, LeafState};
use super::queue::IoCounts;
use super::top::{Node, Top};
use super::tree::Tree;
use std::collections::BTreeMap;
use zfs_format::nvlist::Text;
use zfs_format::vdev::{Vdev, VdevKind};

/// Whether a vdev does what it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VdevHealth {
    /// All of it is there.
    Online,
    /// Something below is missing, and the rest stands in for it.
    Degraded,
    /// The administrator took it out.
    Offline,
    /// It was found to be faulty.
    Faulted,
    /// It isn't there; or so much of it isn't, that it can't be used.
    Unavailable,
}

/// A vdev, and those that it is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct VdevReport {
    /// Its number among its siblings.
    pub id: u64,
    /// Its GUID.
    pub guid: u64,
    /// What it is.
    pub kind: VdevKind,
    /// Where the leaf was last.
    pub path: Option<Text>,
    /// How it is.
    pub health: VdevHealth,
    /// Errors of a leaf; of a top-level vdev, blocks that could not be read.
    pub errors: Errors,
    /// Of a leaf that was away for some groups: the copies of blocks, born then, that a check found it to lack.
    pub lacking: u64,
    /// What it is made of.
    pub children: Vec<VdevReport>,
}

impl Tree {
    /// The top-level vdevs by their numbers.
    pub fn report(&self) -> Vec<VdevReport> {
        let leaves = self.leaves();
        let leaves = leaves.iter().map(|leaf| (leaf.guid, &**leaf)).collect();
        self.tops.borrow().values().map(|top| top_level(top, &leaves)).collect()
    }
}

impl Tree {
    /// Tells this one of each failure of a leaf from here on, as it is counted; of leaves that are added later when it is said again.
    pub fn tell_failures(&self, sink: &FailureSink) {
        self.leaves().iter().for_each(|leaf| leaf.tell(sink));
    }

    /// What each leaf's device was asked for since the tree was made, by its GUID.
    pub fn io_counts(&self) -> Vec<(u64, IoCounts)> {
        self.leaves().iter().map(|leaf| (leaf.guid, leaf.io_counts())).collect()
    }
}

fn top_level(top: &Top, leaves: &BTreeMap<u64, &Leaf>) -> VdevReport {
    let mut report = of(&top.config, leaves);
    if !top.config.is_leaf() {
        report.errors = top.errors.get();
    }
    if matches!(top.node, Node::Nothing) && top.config.kind == VdevKind::Missing {
        report.health = VdevHealth::Unavailable;
    }
    report
}

/// Depth is bounded by the list from which the description came.
fn of(config: &Vdev, leaves: &BTreeMap<u64, &Leaf>) -> VdevReport {
    let children: Vec<VdevReport> = config.children.iter().map(|child| of(child, leaves)).collect();
    let leaf = leaves.get(&config.guid);
    let health = match leaf.map(|leaf| leaf.state()) {
        Some(LeafState::Online) => VdevHealth::Online,
        Some(LeafState::Offline) => VdevHealth::Offline,
        Some(LeafState::Faulted) => VdevHealth::Faulted,
        Some(LeafState::Absent) => VdevHealth::Unavailable,
        None => {
            let usable = |child: &&VdevReport| child.health <= VdevHealth::Degraded;
            let lost = children.len() - children.iter().filter(usable).count();
            let bearable = match &config.kind {
                VdevKind::Raidz(raidz) => raidz.parity as usize,
                VdevKind::Draid(draid) => draid.parity as usize,
                _ => children.len().saturating_sub(1),
            };
            match lost {
                0 if children.iter().all(|child| child.health == VdevHealth::Online) => {
                    VdevHealth::Online
                }
                lost if lost <= bearable => VdevHealth::Degraded,
                _ => VdevHealth::Unavailable,
            }
        }
    };
    VdevReport {
        id: config.id,
        guid: config.guid,
        kind: config.kind.clone(),
        path: config.path.clone(),
        health,
        errors: leaf.map_or(Errors::default(), |leaf| leaf.errors.get()),
        lacking: leaf.map_or(0, |leaf| leaf.lacking.get()),
        children,
    }
}
