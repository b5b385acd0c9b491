//! Checking every copy of a block that a place leads to: all sides of a mirror, data and parity of a raidz or dRAID,
//! all copies of what was moved from a removed vdev.
//!
//! What is wrong is counted on the leaf, as when a read meets it; what could not be read likewise. Stale leaves are not
//! checked: what they hold of the block is known to be old. Absent ones can't be.
//!
//! A block without a checksum is compared with itself only: parity with data, in raidz.

use super::ask::{Ask, Failure, ReadAt};
use super::indirect::Indirect;
use super::leaf::on_device;
use super::mirror::Mirror;
use super::striped::Suspects;
use super::top::Node;
use super::tree::Tree;
use crate::block::BlockErrorKind;
use crate::expected::Expected;
use futures_util::future::join_all;
use rt::{Buf, SgList};

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

    async fn verify_indirect(
        &self,
        mapping: &Indirect,
        offset: u64,
        ask: &Ask<'_>,
    ) -> Result<SgList, BlockErrorKind> {
        let parts = self.resolve(mapping, offset, ask.size as u64)?;
        if let [part] = parts.as_slice() {
            // No way back to here: what is resolved is on a vdev that is there.
            return Box::pin(self.verify_at(part.vdev, part.offset, ask)).await;
        }
        let block = self.read_indirect(mapping, offset, ask).await?;
        if matches!(ask.expected, Expected::Anything) {
            return Ok(block.into());
        }
        // A split block has no checksum of its parts; but now it is known what they should be.
        let mut at = 0;
        for part in parts {
            let end = (at + part.len as usize).min(block.len());
            let right = block.slice(at.min(end)..end);
            at = end;
            let top = self.top(part.vdev);
            let Some(Node::Mirror(mirror)) = top.as_deref().map(|top| &top.node) else {
                continue;
            };
            let (fresh, _) = mirror.candidates(part.offset, ask.birth);
            for leaf in fresh {
                let read = leaf.read(on_device(part.offset), part.len as usize, ask.class).await;
                if read.is_ok_and(|bytes| bytes.slice(0..right.len().min(bytes.len())) != right) {
                    ask.blame(&leaf);
                }
            }
        }
        Ok(block.into())
    }

    /// Where bytes of a top-level vdev lie on vdevs that are there: themselves, but for a removed vdev's. Vdev, offset,
    /// length in bytes.
    ///
    /// # Errors
    /// There is no such vdev, or it has nothing there.
    pub fn places(
        &self,
        vdev: u32,
        offset: u64,
        len: u64,
    ) -> Result<Vec<(u32, u64, u64)>, BlockErrorKind> {
        match self.top(vdev).as_deref().map(|top| &top.node) {
            Some(Node::Indirect(mapping)) => {
                let mapping = mapping.borrow().clone();
                let mapping = mapping.ok_or(BlockErrorKind::Missing(vdev))?;
                let parts = self.resolve(&mapping, offset, len)?;
                Ok(parts.iter().map(|part| (part.vdev, part.offset, part.len)).collect())
            }
            Some(_) => Ok(vec![(vdev, offset, len)]),
            None => Err(BlockErrorKind::NoVdev(vdev)),
        }
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

impl Mirror {
    /// Reads a block from all copies, side by side.
    async fn verify(&self, offset: u64, size: usize, ask: &Ask<'_>) -> Result<Buf, Failure> {
        let (fresh, stale) = self.candidates(offset, ask.birth);
        let at = on_device(offset);
        let read = join_all(fresh.iter().map(|leaf| leaf.read(at, size, ask.class))).await;
        let (mut good, mut failure): (Option<Buf>, _) = (None, Failure::Missing);
        for (leaf, bytes) in fresh.iter().zip(read) {
            match bytes {
                // Bytes equal to right ones are right.
                Ok(bytes) if good.as_ref() == Some(&bytes) => {}
                Ok(bytes) if ask.holds(&bytes).await => good = Some(bytes),
                Ok(_) => {
                    ask.blame(leaf);
                    failure = Failure::Checksum;
                }
                Err(kind) => failure = failure.or(Failure::Io(kind)),
            }
        }
        for leaf in stale {
            if good.is_some() {
                break;
            }
            match leaf.read(at, size, ask.class).await {
                Ok(bytes) if ask.holds(&bytes).await => good = Some(bytes),
                Ok(_) => failure = Failure::Checksum,
                Err(kind) => failure = failure.or(Failure::Io(kind)),
            }
        }
        good.ok_or(failure)
    }
}
