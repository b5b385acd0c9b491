//! Spare space of a dRAID, in the place of a lost device: a leaf that lies on another child in each slice.
//!
//! The child may be lost too, and have spare space in its place: then that is asked, and so on. Each step leads
//! from one spare to another, and there are only so many.

use super::Layout;
use crate::vdev::leaf::{Dtl, Leaf, LeafState};
use crate::vdev::mirror::Mirror;
use smallvec::SmallVec;
use std::cell::OnceCell;
use std::rc::{Rc, Weak};

/// The children of a dRAID, which its spares read from; empty until the dRAID is made.
pub(crate) type Family = Rc<OnceCell<Weak<Vec<Mirror>>>>;
/// Spares that stand in for one another at one place.
const SPARES_IN_A_ROW_MAX: usize = 100;

/// See the [module](self).
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
