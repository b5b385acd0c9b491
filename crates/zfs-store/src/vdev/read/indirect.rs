//! Reading a block that was on a vdev which was removed: where its bytes lie now.
//!
//! Most blocks lie in one range of the mapping (`vdev::indirect`); then the block is read at its new place as if
//! the pointer had named it. Where ranges end within a block it is *split*: its parts lie in several places, and its
//! checksum covers them only together.
//!
//! **Reading a split block.** Each part is read from its first copy. If the checksum is wrong, every copy of every
//! part is read, and the combinations of those that differ are tried, [`COMBINATIONS_MAX`] at the most. Blocks
//! never move to a raidz or dRAID, so copies are all that a part can have; a part on one is taken as that vdev
//! gives it.
//!
//! **In a row.** A range may lie on a vdev that was removed later. It is followed until it ends on one that is
//! there; an old vdev's ranges lead only to vdevs that were there when it was removed, so that ends, and a mapping
//! that says otherwise is cut off by [`REMOVALS_MAX`].
//!
//! Source: OpenZFS, `vdev_indirect.c`.

use crate::block::BlockErrorKind;
use crate::expected::Expected;
use crate::vdev::ask::{Ask, Failure, wrong};
use crate::vdev::indirect::{Indirect, Part};
use crate::vdev::leaf::{Leaf, on_device};
use crate::vdev::top::Node;
use crate::vdev::tree::Tree;
use futures_util::future::join_all;
use rt::{Buf, SgList};
use std::rc::Rc;

/// Removals that a block is followed through.
const REMOVALS_MAX: usize = 64;
/// Combinations of copies that are tried for one split block: OpenZFS's limit.
const COMBINATIONS_MAX: usize = 4096;
/// Parts of a block: one a sector of the largest.
const PARTS_MAX: usize = 1 << 15;

impl Tree {
    /// Where these bytes of a removed vdev lie, through all removals.
    pub(in crate::vdev) fn resolve(
        &self,
        mapping: &Indirect,
        offset: u64,
        len: u64,
    ) -> Result<Vec<Part>, BlockErrorKind> {
        self.follow(mapping, offset, len, |_| ())
    }

    /// The same; what of other removed vdevs is passed on the way is told.
    pub(in crate::vdev) fn follow(
        &self,
        mapping: &Indirect,
        offset: u64,
        len: u64,
        mut passed: impl FnMut(Part),
    ) -> Result<Vec<Part>, BlockErrorKind> {
        let mut parts = mapping.parts(offset, len).ok_or_else(|| wrong("offset", offset))?;
        for _ in 0..REMOVALS_MAX {
            let (mut next, mut again) = (Vec::with_capacity(parts.len()), false);
            for part in parts {
                match self.top(part.vdev).as_deref().map(|top| &top.node) {
                    Some(Node::Indirect(mapping)) => {
                        let mapping = mapping.borrow().clone();
                        let mapping = mapping.ok_or(BlockErrorKind::Missing(part.vdev))?;
                        let found = mapping.parts(part.offset, part.len);
                        next.extend(found.ok_or_else(|| wrong("offset", part.offset))?);
                        passed(part);
                        again = true;
                    }
                    Some(_) => next.push(part),
                    None => return Err(BlockErrorKind::NoVdev(part.vdev)),
                }
                if next.len() > PARTS_MAX {
                    return Err(wrong("offset", offset));
                }
            }
            parts = next;
            if !again {
                return Ok(parts);
            }
        }
        Err(wrong("offset", offset))
    }

    /// Reads a block that was on a removed vdev.
    pub(in crate::vdev) async fn read_indirect(
        &self,
        mapping: &Indirect,
        offset: u64,
        ask: &Ask<'_>,
    ) -> Result<Buf, BlockErrorKind> {
        let parts = self.resolve(mapping, offset, ask.size as u64)?;
        if let [part] = parts.as_slice() {
            // No way back to here: what is resolved is on a vdev that is there.
            return Box::pin(self.read_from(part.vdev, part.offset, ask)).await;
        }
        let mut block = SgList::new();
        let read = join_all(parts.iter().map(|part| self.read_part(part, ask))).await;
        let mut failure = None;
        for bytes in read {
            match bytes {
                Ok(bytes) => block.push(bytes),
                Err(error) => failure = Some(error),
            }
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        let block = block.into_contiguous();
        if ask.holds(&block).await {
            return Ok(block);
        }
        match self.combine(&parts, ask).await {
            Some(block) => Ok(block),
            None => Err(BlockErrorKind::Checksum),
        }
    }

    /// A part of a split block, as its vdev gives it when nothing is known of what it should be.
    async fn read_part(&self, part: &Part, ask: &Ask<'_>) -> Result<Buf, BlockErrorKind> {
        let size = part.len as usize;
        let ask = Ask { expected: &Expected::Anything, size, ..*ask };
        let bytes = Box::pin(self.read_from(part.vdev, part.offset, &ask)).await?;
        if bytes.len() < size {
            return Err(Failure::Checksum.of(part.vdev));
        }
        Ok(bytes.slice(0..size))
    }

    /// Reads every copy of every part, and looks for copies that make the block together.
    async fn combine(&self, parts: &[Part], ask: &Ask<'_>) -> Option<Buf> {
        let versions = join_all(parts.iter().map(|part| self.versions(part, ask))).await;
        let mut chosen = vec![0_usize; versions.len()];
        for _ in 0..COMBINATIONS_MAX {
            // Others shall not wait for all of them.
            ask.rt.yield_now().await;
            let mut block = SgList::new();
            for (versions, at) in versions.iter().zip(&chosen) {
                block.push(versions.get(*at)?.0.clone());
            }
            let block = block.into_contiguous();
            if ask.holds(&block).await {
                for (versions, at) in versions.iter().zip(&chosen) {
                    let others = versions.iter().enumerate().filter(|(number, _)| number != at);
                    for (_, (_, leaves)) in others {
                        leaves.iter().for_each(|leaf| ask.blame(leaf));
                    }
                }
                return Some(block);
            }
            // The next number whose digits are the choices.
            let mut carry = true;
            for (at, versions) in chosen.iter_mut().zip(&versions) {
                if carry {
                    *at += 1;
                    carry = *at >= versions.len();
                    if carry {
                        *at = 0;
                    }
                }
            }
            if carry {
                break;
            }
        }
        for leaf in versions.iter().flatten().flat_map(|(_, leaves)| leaves) {
            ask.blame(leaf);
        }
        None
    }

    /// What the copies of a part hold, each content once, with the leaves that hold it.
    async fn versions(&self, part: &Part, ask: &Ask<'_>) -> Vec<(Buf, Vec<Rc<Leaf>>)> {
        let mut versions: Vec<(Buf, Vec<Rc<Leaf>>)> = Vec::new();
        let top = self.top(part.vdev);
        let Some(Node::Mirror(mirror)) = top.as_deref().map(|top| &top.node) else {
            let bytes = self.read_part(part, ask).await;
            return bytes.into_iter().map(|bytes| (bytes, Vec::new())).collect();
        };
        let (fresh, stale) = mirror.candidates(part.offset, ask.birth);
        for leaf in fresh.into_iter().chain(stale) {
            let at = on_device(part.offset);
            let Ok(bytes) = leaf.read(at, part.len as usize, ask.class).await else { continue };
            match versions.iter_mut().find(|(known, _)| *known == bytes) {
                Some((_, leaves)) => leaves.push(leaf),
                None => versions.push((bytes, vec![leaf])),
            }
        }
        versions
    }
}
