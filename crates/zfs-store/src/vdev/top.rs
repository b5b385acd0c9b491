//! A top-level vdev: what it is made of, and what becomes of a block that was asked of it.

use super::ask::{Ask, Failure, wrong};
use super::draid::Draid;
use super::failure::Errors;
use super::indirect::Indirect;
use super::leaf::Leaf;
use super::mirror::{Mirror, SpareSpace};
use super::raidz::Raidz;
use crate::block::BlockErrorKind;
use rt::IoErrorKind;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use zfs_format::vdev::Vdev;

/// A top-level vdev.
pub(super) struct Top {
    /// As it was described.
    pub(super) config: Vdev,
    pub(super) ashift: u32,
    pub(super) node: Node,
    /// All leaves below it.
    pub(super) leaves: Vec<Rc<Leaf>>,
    pub(super) spares: Vec<Rc<SpareSpace>>,
    /// Blocks that could not be made.
    pub(super) errors: Cell<Errors>,
}

pub(super) enum Node {
    Mirror(Mirror),
    Raidz(Raidz),
    Draid(Draid),
    /// A mirror whose sides are more than leaves: nobody makes them but OpenZFS's `ztest`.
    Sides(Vec<Node>),
    Indirect(RefCell<Option<Rc<Indirect>>>),
    Nothing,
}

impl Top {
    /// What the vdev made of a block, if one can begin there. A failure is counted on it.
    pub(super) fn made<T>(
        &self,
        number: u32,
        offset: u64,
        ask: &Ask<'_>,
        result: Option<Result<T, Failure>>,
    ) -> Result<T, BlockErrorKind> {
        let Some(result) = result else { return Err(wrong("offset", offset)) };
        result.map_err(|failure| {
            let mut errors = self.errors.get();
            match failure {
                Failure::Checksum if ask.may_be_wrong() => {}
                Failure::Checksum => errors.checksum += 1,
                Failure::Io(IoErrorKind::Invalid) => {}
                Failure::Io(_) | Failure::Missing => errors.read += 1,
            }
            self.errors.set(errors);
            failure.of(number)
        })
    }
}

impl Node {
    /// Requests under way on what would be asked.
    pub(super) fn load(&self) -> usize {
        match self {
            Node::Mirror(mirror) => mirror.load(),
            Node::Raidz(raidz) => raidz.striped.load(),
            Node::Draid(draid) => draid.striped.load(),
            Node::Sides(sides) => sides.first().map_or(0, Node::load),
            Node::Indirect(_) | Node::Nothing => 0,
        }
    }
}
