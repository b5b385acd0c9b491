//! What raidz and dRAID have in common: children, and so many parities in each row of a block.
//!
//! Where a block's pieces lie says the map of either kind (`raidz::map`, `draid::layout`). What
//! is done with them is the same for both, and stands beside what is done with a mirror: `read::raidz`,
//! `verify::raidz`, `write::raidz`.

use super::mirror::Mirror;
use codec::parity;
use rt::BufMut;
use std::rc::Rc;

/// Children with parity among them.
pub(crate) struct Striped {
    pub(crate) children: Rc<Vec<Mirror>>,
    pub(crate) parity: usize,
}

/// Who may have given wrong bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Suspects {
    /// Any child.
    Children,
    /// Any child of the raidz as it is, or as it was before any of its expansions.
    Past { physical: usize, original: usize },
}

impl Striped {
    /// Requests under way on the busiest child.
    pub(crate) fn load(&self) -> usize {
        self.children.iter().map(Mirror::load).max().unwrap_or(0)
    }
}

/// The parities, so many, of a row's data columns; each is `len` bytes, as long as the longest column.
pub(crate) fn parities_of(data: &[&[u8]], count: usize, len: usize) -> Vec<BufMut> {
    // The last column's coefficient is 1.
    let reversed: Vec<&[u8]> = data.iter().rev().copied().collect();
    let mut made: Vec<BufMut> = (0..count).map(|_| BufMut::for_overwrite(len)).collect();
    let mut targets: Vec<&mut [u8]> = made.iter_mut().map(|made| &mut made[..]).collect();
    parity::generate(&reversed, &mut targets);
    made
}
