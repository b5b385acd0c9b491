//! Mirrors: the same bytes on several leaves. What stands in for a device (`replacing`, `spare`) is one, too.
//!
//! However these nest, below them are leaves that hold the same bytes at the same place; so they are flattened to one
//! list. A plain leaf is a mirror of one. The spare space of a dRAID is on another leaf at
//! each place, and is looked up for each read.
//!
//! **Which one first.** Of those that should know the block, the one with the fewest requests; among equals
//! they take turns, a mebibyte each, so that a stream of reads keeps all of them busy and each one still reads in
//! sequence. Those that should not know it (stale, offline) come last, and only where the block's checksum will tell.

use super::draid::layout::Layout;
use super::leaf::{Dtl, Leaf, LeafState};
use smallvec::SmallVec;
use std::cell::OnceCell;
use std::rc::{Rc, Weak};

/// Equal copies take turns in parts of so many bytes, as a power of two.
const TURN_SHIFT: u32 = 20;

/// Leaves that hold the same bytes.
#[derive(Default)]
pub(crate) struct Mirror {
    pub(crate) leaves: Vec<Rc<Leaf>>,
    /// Spare space in the place of one of them.
    pub(crate) spares: Vec<Rc<SpareSpace>>,
}

/// Leaves in the order in which they are to be asked.
pub(crate) type Candidates = SmallVec<[Rc<Leaf>; 4]>;

impl Mirror {
    /// Leaves that should have the block, and then those that may have it nevertheless.
    pub(crate) fn candidates(&self, offset: u64, birth: u64) -> (Candidates, Candidates) {
        let (mut fresh, mut stale) = (Candidates::new(), Candidates::new());
        for leaf in self.leaves.iter().filter(|leaf| leaf.is_there()) {
            let list = if leaf.is_stale(birth) { &mut stale } else { &mut fresh };
            list.push(Rc::clone(leaf));
        }
        for space in &self.spares {
            for (leaf, is_stale) in space.leaves_at(offset, birth) {
                if is_stale { &mut stale } else { &mut fresh }.push(leaf);
            }
        }
        if fresh.len() > 1 {
            let turn = (offset >> TURN_SHIFT) as usize % fresh.len();
            fresh.rotate_left(turn);
            // A stable sort: the turn decides among equals.
            fresh.sort_by_key(|leaf| leaf.load());
        }
        (fresh, stale)
    }

    /// Whether there is one copy of everything.
    pub(crate) fn is_one(&self) -> bool {
        self.leaves.len() == 1 && self.spares.is_empty()
    }

    /// Its leaves, if all of them are there and miss nothing.
    pub(crate) fn whole(&self) -> Option<&[Rc<Leaf>]> {
        let is_whole = |leaf: &Rc<Leaf>| leaf.state() == LeafState::Online && leaf.dtl.is_empty();
        (self.spares.is_empty() && self.leaves.iter().all(is_whole)).then_some(&self.leaves)
    }

    /// Whether anything that is written to it would be taken by somebody.
    pub(crate) fn is_in_use(&self) -> bool {
        !self.spares.is_empty() || self.leaves.iter().any(|leaf| leaf.state() == LeafState::Online)
    }

    /// Requests under way on the copy that is the least busy.
    pub(crate) fn load(&self) -> usize {
        let leaves = self.leaves.iter().filter(|leaf| leaf.is_there()).map(|leaf| leaf.load());
        leaves.min().unwrap_or(0)
    }
}

/// The children of a dRAID, which its spares read from; empty until the dRAID is made.
pub(crate) type Family = Rc<OnceCell<Weak<Vec<Mirror>>>>;
/// Spares that stand in for one another at one place.
const SPARES_IN_A_ROW_MAX: usize = 100;

/// Spare space of a dRAID, in the place of a lost device: a leaf that lies on another child in each slice.
///
/// The child may be lost too, and have spare space in its place: then that is asked, and so on. Each step leads
/// from one spare to another, and there are only so many.
pub(crate) struct SpareSpace {
    pub(crate) guid: u64,
    /// Which of the spares it is.
    pub(crate) number: u64,
    pub(crate) layout: Rc<Layout>,
    pub(crate) family: Family,
    pub(crate) dtl: Dtl,
}

impl SpareSpace {
    /// The leaves that hold it at this offset of a child's data area, and whether they are stale for blocks born then.
    pub(crate) fn leaves_at(&self, offset: u64, birth: u64) -> SmallVec<[(Rc<Leaf>, bool); 2]> {
        let mut found = SmallVec::new();
        let Some(family) = self.family.get().and_then(Weak::upgrade) else { return found };
        let mut open: SmallVec<[(u64, bool); 2]> = SmallVec::new();
        open.push((self.number, self.dtl.contains(birth)));
        for _ in 0..SPARES_IN_A_ROW_MAX {
            let Some((spare, stale)) = open.pop() else { break };
            let child = self.layout.spare_child(spare, offset);
            let Some(child) = child.and_then(|child| family.get(child)) else { continue };
            for leaf in child.leaves.iter().filter(|leaf| leaf.is_there()) {
                found.push((Rc::clone(leaf), stale || leaf.state() != LeafState::Online));
            }
            for next in &child.spares {
                open.push((next.number, stale || next.dtl.contains(birth)));
            }
        }
        found
    }
}
