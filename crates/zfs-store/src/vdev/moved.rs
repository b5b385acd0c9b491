//! Where bytes of a top-level vdev lie now: themselves, or on other vdevs where it was removed.

use super::indirect::Part;
use super::top::Node;
use super::tree::Tree;
use crate::block::BlockErrorKind;

/// A stretch of a top-level vdev, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The vdev's number.
    pub vdev: u32,
    /// Where it begins.
    pub offset: u64,
    /// How long it is.
    pub len: u64,
}

/// Where bytes lie, through all removals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// On vdevs that are there.
    pub there: Vec<Piece>,
    /// On removed vdevs, whose mappings lead there: what was named, and what was passed on the way.
    pub removed: Vec<Piece>,
}

impl From<Part> for Piece {
    fn from(Part { vdev, offset, len }: Part) -> Piece {
        Piece { vdev, offset, len }
    }
}

impl Tree {
    /// Where it lies.
    ///
    /// # Errors
    /// There is no such vdev, or it has nothing there.
    pub fn moved(&self, piece: Piece) -> Result<Moved, BlockErrorKind> {
        let Piece { vdev, offset, len } = piece;
        match self.top(vdev).as_deref().map(|top| &top.node) {
            Some(Node::Indirect(mapping)) => {
                let mapping = mapping.borrow().clone();
                let mapping = mapping.ok_or(BlockErrorKind::Missing(vdev))?;
                let mut removed = vec![piece];
                let parts = self.follow(&mapping, offset, len, |part| removed.push(part.into()))?;
                Ok(Moved { there: parts.into_iter().map(Piece::from).collect(), removed })
            }
            Some(_) => Ok(Moved { there: vec![piece], removed: Vec::new() }),
            None => Err(BlockErrorKind::NoVdev(vdev)),
        }
    }
}
