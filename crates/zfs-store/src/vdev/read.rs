//! Reading a block at a place.
//!
//! The pointer names a top-level vdev, and its kind says how: from a copy ([`mirror`]), put together of
//! columns, which parity may replace ([`raidz`]: dRAID too), or at other places, since the vdev was removed
//! ([`indirect`]).

mod indirect;
mod mirror;
pub(super) mod raidz;

use super::ask::{Ask, Failure, ReadAt, wrong};
use super::raidz::map::OFFSET_MAX;
use super::striped::Suspects;
use super::top::{Node, Top};
use super::tree::Tree;
use crate::block::BlockErrorKind;
use rt::Buf;
use std::rc::Rc;
use zfs_format::block_pointer::BLOCK_BYTES_MAX;

impl Tree {
    /// Reads a block at one of its places.
    ///
    /// # Errors
    /// The place can't be, or the block can't be made of what is there: see [`BlockErrorKind`].
    pub async fn read(&self, read: &ReadAt) -> Result<Buf, BlockErrorKind> {
        let ask = self.ask(read)?;
        let bytes = self.read_from(read.dva.vdev(), read.dva.offset(), &ask).await?;
        Ok(if bytes.len() == ask.size { bytes } else { bytes.slice(0..ask.size) })
    }

    /// What is asked of the vdevs below, with a size that can be.
    pub(super) fn ask<'a>(&'a self, read: &'a ReadAt) -> Result<Ask<'a>, BlockErrorKind> {
        let ReadAt { size, birth, ref expected, class, .. } = *read;
        if size == 0 || size > BLOCK_BYTES_MAX {
            return Err(wrong("physical size", size));
        }
        Ok(Ask { rt: &self.rt, birth, class, size: size as usize, expected })
    }

    /// Reads from a top-level vdev, in whole sectors of it.
    async fn read_from(
        &self,
        number: u32,
        offset: u64,
        ask: &Ask<'_>,
    ) -> Result<Buf, BlockErrorKind> {
        let (top, size) = self.top_at(number, offset, ask)?;
        if let Node::Indirect(mapping) = &top.node {
            let mapping = mapping.borrow().clone().ok_or(BlockErrorKind::Missing(number))?;
            return self.read_indirect(&mapping, offset, ask).await;
        }
        top.made(number, offset, ask, top.node.read(offset, size, ask).await)
    }

    /// The top-level vdev of a place that can be, and bytes of whole sectors of it.
    pub(super) fn top_at(
        &self,
        number: u32,
        offset: u64,
        ask: &Ask<'_>,
    ) -> Result<(Rc<Top>, usize), BlockErrorKind> {
        let top = self.top(number).ok_or(BlockErrorKind::NoVdev(number))?;
        let sector = 1_u64 << top.ashift;
        if offset >= OFFSET_MAX || !offset.is_multiple_of(sector) {
            return Err(wrong("offset", offset));
        }
        Ok((top, ask.size.next_multiple_of(sector as usize)))
    }
}

impl Node {
    /// Reads a block; nothing where none can begin there.
    async fn read(&self, offset: u64, size: usize, ask: &Ask<'_>) -> Option<Result<Buf, Failure>> {
        match self {
            Node::Mirror(mirror) => Some(mirror.read(offset, size, ask).await),
            Node::Raidz(raidz) => {
                let (map, suspects) = raidz.plan(offset, size, ask.birth);
                Some(raidz.striped.read(map, suspects, ask).await)
            }
            Node::Draid(draid) => {
                let map = draid.layout.map(offset, size, draid.ashift)?;
                Some(draid.striped.read(map, Suspects::Children, ask).await)
            }
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
}
