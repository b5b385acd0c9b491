//! Writing: a block at one of its places, to all devices that should hold it.
//!
//! * A `mirror`'s leaves all get it, and so does what stands in for one of them (`replacing`, `spare`, the spare space of a
//!   dRAID). It is written when one of them has it.
//! * A `raidz`'s and a dRAID's block is divided by the same map by which it is read, parities are computed in one job, and each
//!   column goes to its child, itself as above. It is written when of each row no more columns failed than it has
//!   parities. In a dRAID columns that are shorter than the row's first are filled up with zeros, for a rebuild goes over
//!   rows without knowing blocks.
//!
//! **Who misses what.** A leaf that is not online is not written, and one that fails is not tried again: both get the
//! transaction group into their DTL, before the write is answered. So nothing that was answered relies on a leaf that lacks it
//! and doesn't know. A flush that fails says the same of all groups since the last one. What is not borne is not answered, so nobody
//! misses it: it is tried again as a whole, or the group fails ([`suspend`](super::suspend)).
//!
//! **A leaf that goes on failing** is taken out while the others bear it: `probe`.
//!
//! **Rules.** Offsets and lengths come from our own allocator: a wrong one is an assertion. Nothing is durable before
//! [`Tree::flush`].
//!
//! What it doesn't do: write to a raidz that is being expanded, or to the copies of what was moved from a removed vdev.
//!
//! Source: OpenZFS, `vdev_mirror.c`, `vdev_raidz.c` (what is borne, `vdev_raidz_xlate`), `vdev_draid.c`.

mod mirror;
mod raidz;

use super::leaf::{Dtl, Leaf};
use super::queue::IoClass;
use super::raidz::map::OFFSET_MAX;
use super::top::Node;
use super::tree::Tree;
use futures_util::future::join_all;
use rt::{Buf, BufMut, IoErrorKind, Rt};
use std::ops::Range;
use std::rc::Rc;
use stdx::planted::{self, Bug};
use zfs_format::block_pointer::{BLOCK_BYTES_MAX, Dva};

/// What is written, and how.
#[derive(Clone, Copy, Debug)]
pub struct WriteAt {
    /// The place: allocated, and nobody else's.
    pub dva: Dva,
    /// The transaction group.
    pub txg: u64,
    /// Whose writing it is.
    pub class: IoClass,
}

/// Why a vdev did not take a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// Too many of its devices failed.
    #[error("vdev {vdev} takes no writes: {kind}")]
    Io {
        /// The top-level vdev.
        vdev: u32,
        /// How the last of them failed.
        kind: IoErrorKind,
    },
    /// Too many of its devices are missing.
    #[error("too many devices of vdev {0} are missing to write to it")]
    Missing(u32),
    /// The pool has no such vdev, or it was removed.
    #[error("the pool has no vdev {0} to write to")]
    NoVdev(u32),
    /// The pool is suspended.
    #[error("pool I/O is currently suspended")]
    Suspended,
    /// A flush failed, and nobody has what it was to make durable.
    #[error("a flush failed, and what was written before it may be lost")]
    Lost,
    /// It can be read, but not be written.
    #[error("vdev {vdev}: writing to {what} is not supported")]
    Unsupported {
        /// The top-level vdev.
        vdev: u32,
        /// What it is.
        what: &'static str,
    },
}

/// Why a part of a vdev did not take its part: nothing where it is missing.
type Lost = Option<IoErrorKind>;

/// A leaf that did not take what it, or spare space on it, should hold of some groups.
struct Missed<'a> {
    leaf: Rc<Leaf>,
    dtl: &'a Dtl,
    txgs: Range<u64>,
}

/// What became of a write or flush.
struct Done<'a> {
    result: Result<(), Lost>,
    missed: Vec<Missed<'a>>,
}

impl<'a> Done<'a> {
    const NOTHING: Done<'static> = Done { result: Ok(()), missed: Vec::new() };

    /// Of parts that all have to be done.
    fn of_all(parts: Vec<Done<'a>>) -> Done<'a> {
        let mut all = Done::NOTHING;
        for part in parts {
            all.result = all.result.and(part.result);
            all.missed.extend(part.missed);
        }
        all
    }
}

/// What concerns all parts of a write.
struct Put<'a> {
    rt: &'a Rt,
    txg: u64,
    class: IoClass,
}

impl Tree {
    /// Writes a block at one of its places. Zeros fill up its last sector.
    ///
    /// # Errors
    /// Too few devices took it: [`WriteError`].
    ///
    /// # Panics
    /// No block can begin there, or it is longer than one may be.
    pub async fn write(&self, write: &WriteAt, block: Buf) -> Result<(), WriteError> {
        let (vdev, offset) = (write.dva.vdev(), write.dva.offset());
        let top = self.top(vdev).ok_or(WriteError::NoVdev(vdev))?;
        let sector = 1_u64 << top.ashift;
        assert!(offset < OFFSET_MAX && offset.is_multiple_of(sector), "a block begins at {offset}");
        assert!(
            !block.is_empty() && block.len() as u64 <= BLOCK_BYTES_MAX,
            "{} bytes",
            block.len()
        );
        let block = whole_sectors(block, sector as usize);
        let put = Put { rt: &self.rt, txg: write.txg, class: write.class };
        let size = block.len();
        let unsupported = |what| Err(WriteError::Unsupported { vdev, what });
        let done = match &top.node {
            Node::Mirror(mirror) => mirror.write(offset, block.into(), &put).await,
            Node::Raidz(raidz) if raidz.is_expanding() => {
                return unsupported("a raidz that is being expanded");
            }
            Node::Raidz(raidz) => {
                let (map, _) = raidz.plan(offset, size, write.txg);
                raidz.striped.write(&map, block, false, &put).await
            }
            Node::Draid(draid) => {
                let map = draid.layout.map(offset, size, draid.ashift);
                let map = map.expect("a block of a dRAID begins with a row of a group");
                draid.striped.write(&map, block, true, &put).await
            }
            Node::Sides(_) => return unsupported("a mirror of more than leaves"),
            Node::Indirect(_) | Node::Nothing => return Err(WriteError::NoVdev(vdev)),
        };
        let result = self.settle(done, !planted::is(Bug::MissNotNoted)).await;
        result.map_err(|lost| {
            let mut errors = top.errors.get();
            errors.write += 1;
            top.errors.set(errors);
            why(vdev, lost)
        })
    }

    /// What was done, or borne, is missed by whoever failed.
    async fn settle(&self, done: Done<'_>, is_noted: bool) -> Result<(), Lost> {
        done.result?;
        for Missed { leaf, dtl, txgs } in done.missed {
            if is_noted {
                dtl.add(txgs);
            }
            self.suspect(&leaf).await;
        }
        Ok(())
    }

    /// Whether enough devices of a top-level vdev are in use to write to it.
    pub fn can_be_written(&self, vdev: u32) -> bool {
        let Some(top) = self.top(vdev) else { return false };
        let (children, parity) = match &top.node {
            Node::Mirror(mirror) => return mirror.is_in_use(),
            Node::Raidz(raidz) => (&raidz.striped.children, raidz.striped.parity),
            Node::Draid(draid) => (&draid.striped.children, draid.striped.parity),
            Node::Sides(_) | Node::Indirect(_) | Node::Nothing => return false,
        };
        children.iter().filter(|child| !child.is_in_use()).count() <= parity
    }

    /// Bytes that a block of this physical size takes on a top-level vdev when it is written in this transaction group;
    /// nothing where there is no such vdev, or it takes no blocks.
    pub fn allocated_on(&self, vdev: u32, size: u64, txg: u64) -> Option<u64> {
        let (top, len) = (self.top(vdev)?, usize::try_from(size).ok()?);
        match &top.node {
            Node::Mirror(_) | Node::Sides(_) => Some(size.next_multiple_of(1 << top.ashift)),
            Node::Raidz(raidz) => Some(raidz.allocated(len, txg)),
            Node::Draid(draid) => Some(draid.layout.allocated(len, draid.ashift)),
            Node::Indirect(_) | Node::Nothing => None,
        }
    }

    /// Makes durable what was written before. A leaf that fails misses these transaction groups from here on.
    ///
    /// # Errors
    /// Of a top-level vdev too few devices did it.
    pub async fn flush(&self, txgs: Range<u64>) -> Result<(), WriteError> {
        self.flush_tops(txgs, |_| true).await
    }

    /// The same of some top-level vdevs only.
    ///
    /// # Errors
    /// Of one of them too few devices did it.
    pub async fn flush_tops(
        &self,
        txgs: Range<u64>,
        which: impl Fn(u32) -> bool,
    ) -> Result<(), WriteError> {
        let tops: Vec<_> = self
            .tops
            .borrow()
            .iter()
            .filter(|(vdev, _)| which(**vdev))
            .map(|(vdev, top)| (*vdev, Rc::clone(top)))
            .collect();
        let flushed = tops.iter().map(|(vdev, top)| async {
            let done = match &top.node {
                Node::Mirror(mirror) => mirror.flush(&txgs).await,
                Node::Raidz(raidz) => raidz.striped.flush(&txgs).await,
                Node::Draid(draid) => draid.striped.flush(&txgs).await,
                // Nothing is written there.
                Node::Sides(_) | Node::Indirect(_) | Node::Nothing => Done::NOTHING,
            };
            if done.result.is_err() {
                self.flushes_failed.set(self.flushes_failed.get() + 1);
            }
            self.settle(done, true).await.map_err(|lost| why(*vdev, lost))
        });
        join_all(flushed).await.into_iter().collect()
    }

    /// Says that nothing in a stretch of a top-level vdev is needed any more. Devices that can't take it lose nothing.
    ///
    /// # Errors
    /// There is no such vdev, or it is of a kind whose stretches have no simple place on its devices.
    pub async fn trim(&self, vdev: u32, stretch: Range<u64>) -> Result<(), WriteError> {
        let top = self.top(vdev).ok_or(WriteError::NoVdev(vdev))?;
        let one = 1_u64 << top.ashift;
        assert!(
            stretch.start.is_multiple_of(one) && stretch.end.is_multiple_of(one),
            "{stretch:?}"
        );
        match &top.node {
            Node::Mirror(mirror) => mirror.trim(&stretch).await,
            Node::Raidz(raidz) if !raidz.is_expanding() => {
                raidz.striped.trim(&stretch, top.ashift).await;
            }
            Node::Indirect(_) | Node::Nothing => return Err(WriteError::NoVdev(vdev)),
            _ => return Err(WriteError::Unsupported { vdev, what: "its devices' free space" }),
        }
        Ok(())
    }
}

fn why(vdev: u32, lost: Lost) -> WriteError {
    lost.map_or(WriteError::Missing(vdev), |kind| WriteError::Io { vdev, kind })
}

fn whole_sectors(block: Buf, sector: usize) -> Buf {
    if block.len().is_multiple_of(sector) {
        return block;
    }
    let mut padded = BufMut::zeroed(block.len().next_multiple_of(sector));
    padded[..block.len()].copy_from_slice(block.bytes());
    padded.freeze()
}
