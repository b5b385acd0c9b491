//! What a free on a removed vdev is.
//!
//! ```text
//!   a pointer dies ──▶ its place is on a vdev that is there ──▶ freed there
//!                      its place is on a removed one        ──▶ freed where its bytes lie now, in as many pieces as they do
//!                                                               and of each removed vdev on the way the range is *obsolete*
//! ```
//!
//! A removed vdev has no space of its own. What its pointers name was allocated on other vdevs when it was removed, and is
//! freed there by the rules of all space ([`allocator`](crate::alloc::allocator)): with the births of the pointer, by which a
//! checkpoint keeps it. A mapping may lead to a vdev that was removed later, whose mapping leads on; each of them has bytes that
//! nobody names any more.
//!
//! **What is obsolete** changes nothing of what is read. By it whoever condenses a mapping knows which entries nobody needs, so it
//! must be said exactly once of each byte. A block that is freed is held until then on every vdev where it lies, or it is
//! not freed, and nothing is said of it. Who syncs [takes](super::Writer::take_obsolete) what was said and writes it down in the same group.
//!
//! Source: OpenZFS, `metaslab.c` (`metaslab_free_impl`), `vdev_indirect.c` (`vdev_indirect_remap`).

use crate::alloc::Allocator;
use crate::vdev::Tree;
use crate::vdev::moved::{Moved, Piece};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::RangeSet;
use stdx::planted::{self, Bug};
use zfs_format::block_pointer::Dva;

/// Frees places, wherever they lie. See the [module](self).
pub(super) struct Frees {
    tree: Rc<Tree>,
    /// What nobody names any more, by removed vdev.
    obsolete: RefCell<BTreeMap<u32, RangeSet>>,
}

fn piece(dva: &Dva) -> Piece {
    Piece { vdev: dva.vdev(), offset: dva.offset(), len: dva.allocated() }
}

/// The same as a place of a block.
fn place(piece: &Piece) -> Dva {
    Dva::new(piece.vdev, piece.offset, piece.len, false)
}

fn holds_all(space: &Allocator, moved: &Moved) -> bool {
    moved.there.iter().all(|part| space.holds(&place(part)))
}

impl Frees {
    pub(super) fn new(tree: &Rc<Tree>) -> Frees {
        Frees { tree: Rc::clone(tree), obsolete: RefCell::default() }
    }

    /// Where a place lies that is on a removed vdev; nothing where its vdev is there, or nobody knows.
    fn moved(&self, space: &Allocator, dva: &Dva) -> Option<Moved> {
        if space.metaslabs(dva.vdev()).is_some() {
            return None;
        }
        self.tree.moved(piece(dva)).ok().filter(|moved| !moved.removed.is_empty())
    }

    /// Whether all of a place is allocated, wherever it lies.
    pub(super) fn holds(&self, space: &Allocator, dva: &Dva) -> bool {
        match self.moved(space, dva) {
            Some(moved) => holds_all(space, &moved),
            None => space.holds(dva),
        }
    }

    /// Frees a place of a block that was born in this group, if it is held; says whether it was.
    pub(super) fn try_free(&self, space: &mut Allocator, dva: &Dva, birth: u64) -> bool {
        let Some(moved) = self.moved(space, dva) else { return space.try_free(dva, birth) };
        if !holds_all(space, &moved) {
            return false;
        }
        for part in &moved.removed {
            if !planted::nth(Bug::ObsoleteNotNoted, 20) {
                self.note(part);
            }
        }
        let mut there = moved.there.iter();
        if planted::nth(Bug::MovedPieceLeaked, 20) {
            there.next();
        }
        // A forged mapping may lead to one place twice.
        there.all(|part| space.try_free(&place(part), birth))
    }

    fn note(&self, part: &Piece) {
        let mut obsolete = self.obsolete.borrow_mut();
        obsolete.entry(part.vdev).or_default().insert(part.offset..part.offset + part.len);
    }

    /// A place is named by nobody any more, though its bytes are, if it is on a removed vdev.
    pub(super) fn set_obsolete(&self, space: &Allocator, dva: &Dva) {
        if self.moved(space, dva).is_some() {
            self.note(&piece(dva));
        }
    }

    /// What nobody names any more, by removed vdev.
    pub(super) fn take_obsolete(&self) -> BTreeMap<u32, RangeSet> {
        self.obsolete.take()
    }

    /// Whether nothing was said that was not taken.
    pub(super) fn is_at_rest(&self) -> bool {
        self.obsolete.borrow().is_empty()
    }
}
