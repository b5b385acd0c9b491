//! The write journal, written: RAID 4, 5 and 6, in md's form, write-through.
//!
//! Everything that is written to rows, data and parity, goes to a ring of blocks on a device of its own first. When
//! it stands there durably it is written to the members; after a power cut it is written there again. The
//! format stands in [`superblock::journal`](crate::superblock::journal), the way back in `replay`.
//!
//! **One lane.** What waits while blocks are written rides in the next ones together. A write of the ring is
//! followed by a flush where the device has a volatile cache; only then those that waited go on. So whoever
//! finds a whole meta block finds all before it whole.
//!
//! **Pages.** The unit is a block of 4 KiB: the engine widens what it writes to whole pages. A stripe, the same
//! page on each member, is data blocks and then its parity, in one meta block. The parity is right for every
//! member, also for one that is not in use: who reads the log back need not know who was there.
//!
//! **Emptied.** When a quarter of the ring is used, before the first record of a life, and where somebody asks, the
//! lane waits for all that was let go into the members, flushes them, writes a meta block that lists nothing,
//! and has the superblocks written with that one as the tail: what lies before it may be written over. The first
//! one of a life has a sequence far from those that a torn write of the last life may have left behind the end.
//!
//! **Room.** At the most a quarter is used before a group is written, and a group takes a quarter: the head never
//! reaches the tail.
//!
//! **A journal that can't be written** has failed: the superblocks say so, and every later write fails, as with md.
//! The set can be read.
//!
//! Source: Linux `drivers/md/raid5-cache.c` (`r5l_log_stripe`, `r5l_submit_current_io`, `r5l_do_reclaim`).

use super::ring::Ring;
use crate::layout::Place;
use crate::layout::parity::ParityMap;
use crate::record::Recording;
use crate::set::Set;
use crate::superblock::SECTOR;
use crate::superblock::journal::{BLOCK_BYTES, BLOCK_SECTORS, MetaBlock, Payload, checksum};
use crate::together::all;
use crate::write_log::{Beginning, Held, STRETCHES_MAX, Stretch, WriteLog};
use rt::sync::oneshot::{self, error::TryRecvError};
use rt::{Buf, IoErrorKind, IoFuture, Request, SgList, SumKind, Work, WorkKind};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use stdx::ByteCount;

/// The ring is emptied when more than this part of it is used, and no call takes more: md's number.
const USED_PART: u64 = 4;
/// Blocks that are written together, one call apart: less than md's step between the sequences of two lives has
/// meta blocks.
const GROUP_BLOCKS_MAX: u64 = 1 << 16;

/// Who writes the superblocks.
pub(crate) trait Superblocks {
    /// Writes them, with what [`Journal::tail`] and [`Journal::has_failed`] say.
    fn write_superblocks(&self) -> Recording;
}

/// See the [module](self).
pub(crate) struct Journal {
    set: Rc<Set>,
    map: ParityMap,
    seed: u32,
    ring: Ring,
    waiting: RefCell<VecDeque<Waiting>>,
    /// Who waits for the log to be empty.
    emptying: RefCell<Vec<oneshot::Sender<Result<(), IoErrorKind>>>>,
    running: Cell<bool>,
    /// Where the next block goes, and its sequence.
    head: Cell<u64>,
    sequence: Cell<u64>,
    tail: Cell<u64>,
    /// The tail leads to a block of this life.
    begun: Cell<bool>,
    /// What was let go into the members and may not have ended.
    under_way: RefCell<Vec<oneshot::Receiver<()>>>,
    failed: Cell<Option<IoErrorKind>>,
    superblocks: RefCell<Option<Weak<dyn Superblocks>>>,
    myself: Weak<Journal>,
}

/// Stripes that are to be in the ring, and who waits for it.
struct Waiting {
    stripes: Vec<Stripe>,
    grant: oneshot::Sender<Result<oneshot::Sender<()>, IoErrorKind>>,
}

/// One page of each member: what is written of it.
struct Stripe {
    /// Byte of the array, and the block.
    data: Vec<(u64, SgList)>,
    /// Byte of the members' data areas.
    at: u64,
    /// P, and Q in RAID 6.
    parity: Vec<SgList>,
}

impl Stripe {
    fn meta_bytes(&self) -> usize {
        self.data.len() * 20 + 16 + 4 * self.parity.len()
    }

    fn blocks(&self) -> u64 {
        (self.data.len() + self.parity.len()) as u64
    }
}

/// Where a journal's log goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    /// A place in the ring that is free.
    pub(crate) head: u64,
    /// A sequence that no block behind it has.
    pub(crate) sequence: u64,
    /// What the journal's superblock says, until the first record.
    pub(crate) tail: u64,
}

impl Journal {
    /// A journal whose log goes on there. What its ring holds is on the members.
    pub(crate) fn new(
        set: &Rc<Set>,
        map: &ParityMap,
        seed: u32,
        ring: Ring,
        start: Start,
    ) -> Rc<Journal> {
        Rc::new_cyclic(|myself| Journal {
            set: Rc::clone(set),
            map: map.clone(),
            seed,
            ring,
            waiting: RefCell::default(),
            emptying: RefCell::default(),
            running: Cell::new(false),
            head: Cell::new(start.head),
            sequence: Cell::new(start.sequence),
            tail: Cell::new(start.tail),
            begun: Cell::new(false),
            under_way: RefCell::default(),
            failed: Cell::new(None),
            superblocks: RefCell::default(),
            myself: myself.clone(),
        })
    }

    /// The least bytes of a ring for rows of this shape.
    pub(crate) fn bytes_min(map: &ParityMap) -> ByteCount {
        bytes_min(map.chunk, map.disks as u64)
    }

    /// From now on superblocks are written by this.
    pub(crate) fn record_with(&self, superblocks: Weak<dyn Superblocks>) {
        *self.superblocks.borrow_mut() = Some(superblocks);
    }

    /// The first sector of the ring that is needed.
    pub(crate) fn tail(&self) -> u64 {
        self.tail.get()
    }

    /// Whether it can't be written any more.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.get().is_some()
    }

    /// It is not to be written any more.
    pub(crate) fn fail(&self, kind: IoErrorKind) {
        self.failed.set(self.failed.get().or(Some(kind)));
        self.set.members.wake_watchers();
    }

    /// Ends when nothing that was logged before is needed any more.
    pub(crate) async fn empty(&self) -> Result<(), IoErrorKind> {
        let is_empty = !self.begun.get() || self.used() == BLOCK_SECTORS;
        if is_empty && self.waiting.borrow().is_empty() && !self.running.get() {
            return self.failed.get().map_or(Ok(()), Err);
        }
        let (done, end) = oneshot::channel();
        self.emptying.borrow_mut().push(done);
        self.kick();
        end.await.unwrap_or(Err(IoErrorKind::Gone))
    }

    /// Begins the log of this life at once.
    pub(crate) async fn begin_log(&self) -> Result<(), IoErrorKind> {
        let (done, end) = oneshot::channel();
        self.emptying.borrow_mut().push(done);
        self.kick();
        end.await.unwrap_or(Err(IoErrorKind::Gone))
    }

    fn kick(&self) {
        if !self.running.replace(true)
            && let Some(this) = self.myself.upgrade()
        {
            self.set.rt.spawn(async move { this.run().await }).detach();
        }
    }

    async fn run(&self) {
        loop {
            let emptying = self.emptying.take();
            if !emptying.is_empty() {
                let done = self.make_empty().await;
                for waiting in emptying {
                    // Who does not wait any more needs no answer.
                    let _ = waiting.send(done);
                }
                continue;
            }
            let group = self.take_group();
            if group.is_empty() {
                self.running.set(false);
                return;
            }
            let done = self.write_group(&group).await;
            self.under_way
                .borrow_mut()
                .retain_mut(|end| matches!(end.try_recv(), Err(TryRecvError::Empty)));
            for waiting in group {
                let (held, end) = oneshot::channel();
                if waiting.grant.send(done.map(|()| held)).is_ok() {
                    self.under_way.borrow_mut().push(end);
                }
            }
        }
    }

    async fn write_superblocks(&self) -> Result<(), IoErrorKind> {
        let superblocks = self.superblocks.borrow().as_ref().and_then(Weak::upgrade);
        match superblocks {
            Some(superblocks) => superblocks.write_superblocks().await,
            None => Err(IoErrorKind::Gone),
        }
    }

    /// Those that wait, as many as go together.
    fn take_group(&self) -> Vec<Waiting> {
        let most = most_blocks(&self.ring).min(GROUP_BLOCKS_MAX);
        let (mut waiting, mut group, mut blocks) = (self.waiting.borrow_mut(), Vec::new(), 0);
        while let Some(next) = waiting.front() {
            blocks += blocks_of(&next.stripes);
            if blocks > most && !group.is_empty() {
                break;
            }
            group.extend(waiting.pop_front());
        }
        group
    }

    /// Sectors from the tail to the head.
    fn used(&self) -> u64 {
        (self.head.get() + self.ring.sectors - self.tail.get()) % self.ring.sectors
    }

    async fn write_group(&self, group: &[Waiting]) -> Result<(), IoErrorKind> {
        self.failed.get().map_or(Ok(()), Err)?;
        let blocks: u64 = group.iter().map(|waiting| blocks_of(&waiting.stripes)).sum();
        if !self.begun.get() || self.used() > self.ring.sectors / USED_PART {
            self.make_empty().await?;
        }
        assert!(
            self.used() + blocks * BLOCK_SECTORS < self.ring.sectors,
            "what is written together has room in the ring"
        );
        let start = self.head.get();
        let bytes = self.encode(group.iter().flat_map(|waiting| &waiting.stripes)).await;
        let most = blocks as usize * BLOCK_BYTES;
        assert!(bytes.len() <= most, "what is written is not more than what had room");
        self.write(start, &bytes).await
    }

    /// Makes the log empty: all that it held is durable on the members.
    async fn make_empty(&self) -> Result<(), IoErrorKind> {
        self.failed.get().map_or(Ok(()), Err)?;
        for end in self.under_way.take() {
            // Nothing is ever sent: it ends when the other side is dropped.
            let _ = end.await;
        }
        self.set.members.flush_caches().await;
        // Superblocks that can't be written leave the tail where it is, and one block more behind the head.
        if self.used() + 2 * BLOCK_SECTORS > self.ring.sectors {
            return Err(IoErrorKind::NoSpace);
        }
        let (position, sequence) = (self.head.get(), self.sequence.get());
        let meta = MetaBlock { sequence, position, payloads: Vec::new() };
        self.write(position, &Buf::copy_of(&meta.encode(self.seed)).into()).await?;
        self.head.set(self.ring.after(position, BLOCK_SECTORS));
        self.sequence.set(sequence.wrapping_add(1));
        let tail = self.tail.replace(position);
        self.begun.set(false);
        if let Err(kind) = self.write_superblocks().await {
            self.tail.set(tail);
            return Err(kind);
        }
        // The journal's own superblock may have been what could not be written.
        self.failed.get().map_or(Ok(()), Err)?;
        self.begun.set(true);
        Ok(())
    }

    /// Meta blocks and blocks of stripes, from the head on, which moves behind them.
    async fn encode<'a>(&self, stripes: impl Iterator<Item = &'a Stripe> + Clone) -> SgList {
        let mut checksums = self.checksums(stripes.clone()).await.into_iter();
        let mut next = || checksums.next().expect("each block has its checksum");
        let mut log = Encoding::default();
        for stripe in stripes {
            if log.meta_bytes + stripe.meta_bytes() > META_BYTES_MAX {
                self.close(&mut log);
            }
            log.meta_bytes += stripe.meta_bytes();
            for (at, block) in &stripe.data {
                log.payloads.push(Payload::Data { sector: at / SECTOR, checksum: next() });
                log.blocks.append(block.clone());
            }
            let (sector, p) = (stripe.at / SECTOR, next());
            let q = (stripe.parity.len() > 1).then(&mut next);
            log.payloads.push(Payload::Parity { sector, p, q });
            stripe.parity.iter().for_each(|block| log.blocks.append(block.clone()));
        }
        self.close(&mut log);
        log.bytes
    }

    /// Puts the meta block before the blocks that it lists.
    fn close(&self, log: &mut Encoding) {
        let (position, sequence) = (self.head.get(), self.sequence.get());
        let meta = MetaBlock { sequence, position, payloads: std::mem::take(&mut log.payloads) };
        let sectors = (1 + meta.blocks()) * BLOCK_SECTORS;
        log.bytes.push(Buf::copy_of(&meta.encode(self.seed)));
        log.bytes.append(std::mem::take(&mut log.blocks));
        log.meta_bytes = 0;
        self.head.set(self.ring.after(position, sectors));
        self.sequence.set(sequence.wrapping_add(1));
    }

    /// The checksums of all blocks, in order.
    async fn checksums<'a>(&self, stripes: impl Iterator<Item = &'a Stripe>) -> Vec<u32> {
        let of = |stripe: &'a Stripe| {
            stripe.data.iter().map(|(_, block)| block).chain(&stripe.parity).cloned()
        };
        let blocks: Vec<SgList> = stripes.flat_map(of).collect();
        let (seed, bytes) = (self.seed, ByteCount((blocks.len() * BLOCK_BYTES) as u64));
        let work = Work::new(WorkKind::Checksum(SumKind::Crc32c), bytes);
        let sum = move || blocks.iter().map(|block| sum_of(seed, block)).collect();
        self.set.rt.compute(work, sum).await
    }

    /// Writes to the ring, durably. A journal that can't has failed, which is recorded before anybody hears of it.
    async fn write(&self, at: u64, bytes: &SgList) -> Result<(), IoErrorKind> {
        let written = self.write_to_ring(at, bytes).await;
        if let Err(kind) = written {
            self.fail(kind);
            // Where they can't be written either, whoever writes next is told.
            let _ = self.write_superblocks().await;
        }
        written
    }

    async fn write_to_ring(&self, at: u64, bytes: &SgList) -> Result<(), IoErrorKind> {
        assert!(bytes.len().is_multiple_of(BLOCK_BYTES), "a ring is written in blocks");
        assert!(at < self.ring.sectors && at.is_multiple_of(BLOCK_SECTORS), "and on blocks");
        let device = &self.ring.device;
        let mut writes: SmallVec<[IoFuture; 4]> = SmallVec::new();
        for (offset, before, blocks) in self.ring.runs(at, (bytes.len() / BLOCK_BYTES) as u64) {
            let (from, len) = (before as usize * BLOCK_BYTES, blocks as usize * BLOCK_BYTES);
            writes.push(device.submit(Request::write(offset, bytes.slice(from..from + len))));
        }
        for written in all(writes).await {
            written.map_err(|error| error.kind)?;
        }
        if device.geometry().volatile_cache {
            device.submit(Request::flush()).await.map_err(|error| error.kind)?;
        }
        Ok(())
    }

    /// The stripes of a stretch, which is whole pages.
    fn stripes(&self, stretch: &Stretch) -> Vec<Stripe> {
        let row = self.map.row(stretch.row);
        let places = &stretch.places;
        let on_page = |at: u64| at.is_multiple_of(BLOCK_BYTES as u64);
        assert!(on_page(places.start) && on_page(places.end), "what is logged is whole pages");
        let page = |at: u64, list: &SgList| {
            let from = (at - places.start) as usize;
            list.slice(from..from + BLOCK_BYTES)
        };
        let stripe = |at: u64| {
            let byte = |slot: usize| self.map.array_byte(Place { slot, at });
            let data = stretch.data.iter();
            let data = data.filter_map(|(slot, list)| Some((byte(*slot)?, page(at, list))));
            let parity = |slot: usize| {
                let mut all = stretch.parity.iter();
                let made = all.find(|(own, _)| *own == slot);
                page(at, &made.expect("all parity of a page is made").1)
            };
            let parities = [Some(row.p), row.q].into_iter().flatten();
            Stripe { data: data.collect(), at, parity: parities.map(parity).collect() }
        };
        (places.start..places.end).step_by(BLOCK_BYTES).map(stripe).collect()
    }
}

/// Bytes of payloads that a meta block takes.
const META_BYTES_MAX: usize = BLOCK_BYTES - 32;

/// What is being put together for the ring.
#[derive(Default)]
struct Encoding {
    bytes: SgList,
    payloads: Vec<Payload>,
    meta_bytes: usize,
    blocks: SgList,
}

/// The checksum of a block, which may lie in several pieces.
fn sum_of(seed: u32, block: &SgList) -> u32 {
    block.pieces().iter().fold(seed, |sum, piece| checksum(sum, piece.bytes()))
}

/// Blocks that stripes take, meta blocks counted as if each had its own.
fn blocks_of(stripes: &[Stripe]) -> u64 {
    stripes.iter().map(|stripe| 1 + stripe.blocks()).sum()
}

/// Blocks that one call takes at the most.
fn most_blocks(ring: &Ring) -> u64 {
    ring.sectors / BLOCK_SECTORS / USED_PART
}

/// Blocks of a row that is written whole.
fn row_blocks(map: &ParityMap) -> u64 {
    map.chunk / BLOCK_BYTES as u64 * (map.disks as u64 + 1)
}

/// The least bytes of a ring: a quarter of it takes a row of so many chunks of this size.
pub(crate) fn bytes_min(chunk: u64, disks: u64) -> ByteCount {
    ByteCount(chunk.saturating_mul(disks + 1).saturating_mul(USED_PART))
}

impl WriteLog for Journal {
    fn partial_max(&self) -> Option<u64> {
        None
    }

    fn page(&self) -> Option<u64> {
        Some(BLOCK_BYTES as u64)
    }

    fn rows_max(&self) -> u64 {
        (most_blocks(&self.ring) / row_blocks(&self.map)).clamp(1, STRETCHES_MAX as u64)
    }

    fn begin(&self, stretches: &[Stretch]) -> Beginning {
        let stripes = stretches.iter().flat_map(|stretch| self.stripes(stretch)).collect();
        let (grant, granted) = oneshot::channel();
        self.waiting.borrow_mut().push_back(Waiting { stripes, grant });
        self.kick();
        Box::pin(async move {
            let mut held = Held::default();
            held.0.push(granted.await.unwrap_or(Err(IoErrorKind::Gone))?);
            Ok(held)
        })
    }
}
