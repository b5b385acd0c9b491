//! Checking every copy of a block that a place leads to: all sides of a mirror, data and parity of a raidz or dRAID,
//! all copies of what was moved from a removed vdev. One block here; many, in the order of their places, in
//! [`in_order`].
//!
//! What is wrong is counted on the leaf, as when a read meets it; what could not be read likewise. A leaf that
//! was away when the block was written may lack it, and is no more wrong than was known: what it lacks is counted apart. Leaves that are
//! offline or faulted are not checked; absent ones can't be.
//!
//! A block without a checksum is compared with itself only: parity with data, in raidz.

mod in_order;
mod indirect;
mod mirror;
mod raidz;

pub use in_order::Place;

use super::ask::{Ask, Failure, ReadAt};
use super::striped::Suspects;
use super::top::Node;
use super::tree::Tree;
use crate::block::BlockErrorKind;
use rt::SgList;

impl Tree {
    /// Reads all that there is of a block at one of its places, and counts errors on the leaves that have it wrong.
    ///
    /// # Errors
    /// As of [`Tree::read`]: nothing there makes the block.
    pub async fn verify(&self, read: &ReadAt) -> Result<SgList, BlockErrorKind> {
        let ask = self.ask(read)?;
        let bytes = self.verify_at(read.dva.vdev(), read.dva.offset(), &ask).await?;
        Ok(bytes.slice(0..ask.size))
    }

    async fn verify_at(
        &self,
        number: u32,
        offset: u64,
        ask: &Ask<'_>,
    ) -> Result<SgList, BlockErrorKind> {
        let (top, size) = self.top_at(number, offset, ask)?;
        if let Node::Indirect(mapping) = &top.node {
            let mapping = mapping.borrow().clone().ok_or(BlockErrorKind::Missing(number))?;
            return self.verify_indirect(&mapping, offset, ask).await;
        }
        top.made(number, offset, ask, top.node.verify(offset, size, ask).await)
    }
}

impl Node {
    /// Reads all copies of a block; nothing where none can begin there.
    async fn verify(
        &self,
        offset: u64,
        size: usize,
        ask: &Ask<'_>,
    ) -> Option<Result<SgList, Failure>> {
        match self {
            Node::Mirror(mirror) => Some(mirror.verify(offset, size, ask).await.map(SgList::from)),
            Node::Raidz(raidz) => {
                let (map, suspects) = raidz.plan(offset, size, ask.birth);
                Some(raidz.striped.verify(map, suspects, ask).await)
            }
            Node::Draid(draid) => {
                let map = draid.layout.map(offset, size, draid.ashift)?;
                Some(draid.striped.verify(map, Suspects::Children, ask).await)
            }
            Node::Sides(sides) => {
                let (mut found, mut failure) = (None, Failure::Missing);
                for side in sides {
                    match Box::pin(side.verify(offset, size, ask)).await? {
                        Ok(bytes) => found = Some(bytes),
                        Err(other) => failure = failure.or(other),
                    }
                }
                Some(found.ok_or(failure))
            }
            Node::Indirect(_) | Node::Nothing => Some(Err(Failure::Missing)),
        }
    }
}
