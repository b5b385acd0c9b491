//! Leaves that fail: whether they answer at all, taken out where the others bear it, and taken back.
//!
//! ```text
//!   a write or flush failed, and was borne ──▶ the leaf is probed: a place of its label is read, and written as it was
//!        it doesn't answer, or has failed [`ERRORS_MAX`] times ──▶ faulted: it is not written any more, and asked last
//!   cleared ──▶ counts are zero; each faulted leaf that answers is online again. What it misses its DTL says
//! ```
//!
//! A leaf is taken out only by a failure that was borne. Where none is left to bear one nobody is taken out: the pool is
//! [suspended](super::suspend), and who resumes it wants them all.
//!
//! It is not remembered beyond this opening of the pool: who opens it next finds out again, and what the leaf misses is in the pool.
//!
//! Source: OpenZFS, `vdev.c` (`vdev_probe`, `vdev_clear`); the number of errors is of its `zfs-diagnosis` agent.

use super::failure::Errors;
use super::leaf::{Leaf, LeafState};
use super::mirror::Mirror;
use super::queue::IoClass;
use super::top::{Node, Top};
use super::tree::Tree;
use futures_util::future::join_all;
use std::rc::Rc;

/// Bytes of a label that nobody uses: what a partition table would take.
const PROBE_BYTES: usize = 4096;
/// Writes that may fail before a leaf is taken out though it answers.
const ERRORS_MAX: u64 = 10;

impl Leaf {
    /// Whether it gives and takes what lies at its begin.
    async fn answers(&self) -> bool {
        match self.read_uncounted(0, PROBE_BYTES, IoClass::SyncRead).await {
            Ok(bytes) => self.write_uncounted(0, bytes.into(), IoClass::SyncWrite).await.is_ok(),
            Err(_) => false,
        }
    }

    /// Whether it gives what lies at its begin.
    async fn can_be_read(&self) -> bool {
        self.is_there() && self.read_uncounted(0, PROBE_BYTES, IoClass::SyncRead).await.is_ok()
    }
}

impl Mirror {
    async fn can_be_read(&self) -> bool {
        let asked = self.leaves.iter().map(|leaf| leaf.can_be_read());
        // Spare space is on other children.
        !self.spares.is_empty() || join_all(asked).await.contains(&true)
    }
}

impl Top {
    async fn can_be_read(&self) -> bool {
        let (children, parity) = match &self.node {
            Node::Mirror(mirror) => return mirror.can_be_read().await,
            Node::Raidz(raidz) => (&raidz.striped.children, raidz.striped.parity),
            Node::Draid(draid) => (&draid.striped.children, draid.striped.parity),
            Node::Sides(_) | Node::Indirect(_) | Node::Nothing => return true,
        };
        let asked = children.iter().map(Mirror::can_be_read);
        let lost = join_all(asked).await.into_iter().filter(|answers| !answers).count();
        lost <= parity
    }
}

impl Tree {
    /// A leaf failed, and the others bore it. It is taken out where it doesn't answer, or fails again and again.
    pub(super) async fn suspect(&self, leaf: &Rc<Leaf>) {
        if leaf.state() != LeafState::Online || leaf.is_probed.replace(true) {
            return;
        }
        if leaf.errors.get().write >= ERRORS_MAX || !leaf.answers().await {
            leaf.set_state(LeafState::Faulted);
            self.suspension().tell();
        }
        leaf.is_probed.set(false);
    }

    /// The leaves that were found to be faulty.
    pub fn leaves_faulted(&self) -> Vec<u64> {
        let faulted = |leaf: &Rc<Leaf>| leaf.state() == LeafState::Faulted;
        self.leaves().iter().filter(|leaf| faulted(leaf)).map(|leaf| leaf.guid).collect()
    }

    /// Whether so many devices of a top-level vdev answer that any block of it could be read; true where there is no such vdev.
    pub async fn can_be_read(&self, vdev: u32) -> bool {
        match self.top(vdev) {
            Some(top) => top.can_be_read().await,
            None => true,
        }
    }

    /// Forgets the errors of leaves and top-level vdevs with these GUIDs; faulted leaves that answer are online again.
    pub async fn clear(&self, which: impl Fn(u64) -> bool) {
        let tops: Vec<Rc<Top>> = self.tops.borrow().values().cloned().collect();
        let tops = tops.iter().filter(|top| which(top.config.guid));
        tops.for_each(|top| top.errors.set(Errors::default()));
        for leaf in self.leaves().into_iter().filter(|leaf| which(leaf.guid)) {
            leaf.errors.set(Errors::default());
            if leaf.state() == LeafState::Faulted && leaf.answers().await {
                leaf.set_state(LeafState::Online);
            }
        }
    }
}
