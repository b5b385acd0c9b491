//! A top-level vdev: what it is made of, and a block read from it.

use super::ask::{Ask, Failure, wrong};
use super::draid::Draid;
use super::indirect::Indirect;
use super::leaf::{Errors, Leaf};
use super::mirror::{Mirror, SpareSpace};
use super::raidz::Raidz;
use crate::block::BlockErrorKind;
use rt::{Buf, IoErrorKind};
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
    /// Reads a block; nothing where none can begin there.
    pub(super) async fn read(
        &self,
        offset: u64,
        size: usize,
        ask: &Ask<'_>,
    ) -> Option<Result<Buf, Failure>> {
        match self {
            Node::Mirror(mirror) => Some(mirror.read(offset, size, ask).await),
            Node::Raidz(raidz) => Some(raidz.read(offset, size, ask).await),
            Node::Draid(draid) => draid.read(offset, size, ask).await,
            Node::Sides(sides) => {
                let mut failure = Failure::Missing;
                for side in sides {
                    match Box::pin(side.read(offset, size, ask)).await? {
                        Ok(bytes) => return Some(Ok(bytes)),
                        Err(other) => failure = failure.or(other),
                    }
                }
                Some(Err(failure))
            }
            Node::Indirect(_) | Node::Nothing => Some(Err(Failure::Missing)),
        }
    }

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
