//! The write journal, written: RAID 4, 5 and 6, in md's form, write-through.
//!
//! Everything that is written to rows, data and parity, goes to a ring of blocks on a device of its own first. When
//! it stands there durably it is written to the members; after a power cut it is written there again. The
//! format stands in [`superblock::journal`](crate::superblock::journal), the way back in `assemble::journal`.
//!
//! **One lane.** What waits while blocks are written rides in the next ones together. A write of the ring is
//! followed by a flush where the device has a volatile cache; only then those that waited go on. So whoever
//! finds a whole meta block finds all before it whole.
//!
//! **Pages.** The unit is a block of 4 KiB: the engine widens what it writes to whole pages. A stripe, the same
//! page on each member, is data blocks and then its parity, in one meta block. Parity of a member that is not in
//! use goes as zeros: nobody writes it there. A row that has no parity in use is journaled all the same: otherwise
//! an older record of it would come back.
//!
//! **Reclaim.** The tail is in the journal's superblock and leads to a meta block. When a quarter of the ring is
//! used, or room is wanted, the lane waits for all that was let go into the members, flushes them, and has the
//! superblocks written with the last block group as the tail: what lies before it may be written over.
//!
//! **A journal that can't be written** lets every write fail, as with md: the set can be read.
//!
//! Source: Linux `drivers/md/raid5-cache.c` (`r5l_log_stripe`, `r5l_submit_current_io`, `r5l_do_reclaim`).

use super::{Beginning, Held, STRETCHES_MAX, Stretch, WriteLog};
use crate::assemble::journal::Ring;
use crate::layout::Place;
use crate::layout::parity::ParityMap;
use crate::record::Recording;
use crate::set::Set;
use crate::superblock::SECTOR;
use crate::superblock::journal::{BLOCK_BYTES, BLOCK_SECTORS, MetaBlock, Payload, checksum};
use rt::sync::oneshot;
use rt::{Buf, IoErrorKind, Request, SgList};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

/// The ring is reclaimed when more than this part of it is used, and no call takes more: md's number.
const USED_PART: u64 = 4;

/// Who writes the superblocks.
pub(crate) trait Tail {
    /// Writes them, with what [`Journal::tail`] says.
    fn write_tail(&self) -> Recording;
}

/// See the [module](self).
pub(crate) struct Journal {
    set: Rc<Set>,
    map: ParityMap,
    seed: u32,
    ring: Ring,
    waiting: RefCell<VecDeque<Waiting>>,
    running: Cell<bool>,
    /// Where the next block goes, and its sequence.
    head: Cell<u64>,
    sequence: Cell<u64>,
    tail: Cell<u64>,
    /// What was let go into the members, and where it begins in the ring.
    under_way: RefCell<Vec<oneshot::Receiver<()>>>,
    last_group: Cell<u64>,
    failed: Cell<Option<IoErrorKind>>,
    superblocks: RefCell<Option<Weak<dyn Tail>>>,
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

impl Journal {
    /// A journal whose log goes on at a place, with a sequence, and begins there too.
    pub(crate) fn new(
        set: &Rc<Set>,
        map: &ParityMap,
        seed: u32,
        ring: Ring,
        head: u64,
        sequence: u64,
    ) -> Rc<Journal> {
        Rc::new_cyclic(|myself| Journal {
            set: Rc::clone(set),
            map: map.clone(),
            seed,
            ring,
            waiting: RefCell::default(),
            running: Cell::new(false),
            head: Cell::new(head),
            sequence: Cell::new(sequence),
            tail: Cell::new(head),
            under_way: RefCell::default(),
            last_group: Cell::new(head),
            failed: Cell::new(None),
            superblocks: RefCell::default(),
            myself: myself.clone(),
        })
    }

    /// Whether a ring is large enough for rows of this shape.
    pub(crate) fn is_large_enough(ring: &Ring, map: &ParityMap) -> bool {
        row_blocks(map) <= most_blocks(ring)
    }

    /// From now on the tail is written by this.
    pub(crate) fn record_with(&self, superblocks: Weak<dyn Tail>) {
        *self.superblocks.borrow_mut() = Some(superblocks);
    }

    /// The first sector of the ring that is needed.
    pub(crate) fn tail(&self) -> u64 {
        self.tail.get()
    }

    /// Writes a block that says where the log begins: the tail leads to it.
    pub(crate) async fn begin_log(&self) -> Result<(), IoErrorKind> {
        let (position, sequence) = (self.head.get(), self.sequence.get());
        let meta = MetaBlock { sequence, position, payloads: Vec::new() };
        let block = Buf::copy_of(&meta.encode(self.seed)).into();
        self.write(position, &block).await?;
        self.head.set(self.ring.after(position, BLOCK_SECTORS));
        self.sequence.set(sequence.wrapping_add(1));
        Ok(())
    }

    /// Moves the tail to the last blocks that were written, when what they hold is on the members.
    pub(crate) async fn reclaim(&self) -> Result<(), IoErrorKind> {
        let under_way = self.under_way.take();
        for end in under_way {
            // Nothing is ever sent: it ends when the other side is dropped.
            let _ = end.await;
        }
        self.set.members.flush_caches().await;
        self.tail.set(self.last_group.get());
        let superblocks = self.superblocks.borrow().as_ref().and_then(Weak::upgrade);
        match superblocks {
            Some(superblocks) => superblocks.write_tail().await,
            None => Err(IoErrorKind::Gone),
        }
    }

    async fn run(&self) {
        while let Some(first) = self.next() {
            let (mut group, mut blocks) = (vec![first], 0);
            blocks += self.blocks_of(&group[0].stripes);
            loop {
                let next = self.waiting.borrow().front().map(|next| self.blocks_of(&next.stripes));
                let Some(more) = next.filter(|more| blocks + more <= most_blocks(&self.ring))
                else {
                    break;
                };
                blocks += more;
                group.extend(self.next());
            }
            let done = match self.failed.get() {
                Some(kind) => Err(kind),
                None => self.write_group(&group, blocks).await,
            };
            if let Err(kind) = done {
                self.failed.set(Some(kind));
            }
            for waiting in group {
                let (held, end) = oneshot::channel();
                if waiting.grant.send(done.map(|()| held)).is_ok() {
                    self.under_way.borrow_mut().push(end);
                }
            }
        }
        self.running.set(false);
    }

    fn next(&self) -> Option<Waiting> {
        self.waiting.borrow_mut().pop_front()
    }

    /// Blocks that stripes take, meta blocks counted as if each had its own.
    fn blocks_of(&self, stripes: &[Stripe]) -> u64 {
        stripes.iter().map(|stripe| 1 + stripe.blocks()).sum()
    }

    async fn write_group(&self, group: &[Waiting], blocks: u64) -> Result<(), IoErrorKind> {
        let used = |journal: &Journal| {
            let (head, tail) = (journal.head.get(), journal.tail.get());
            (head + journal.ring.sectors - tail) % journal.ring.sectors
        };
        if used(self) > self.ring.sectors / USED_PART {
            self.reclaim().await?;
        }
        // A quarter for the last group, one for this, and whatever was used before.
        debug_assert!(used(self) + blocks * BLOCK_SECTORS < self.ring.sectors);
        let start = self.head.get();
        let bytes = self.encode(group.iter().flat_map(|waiting| &waiting.stripes));
        self.write(start, &bytes).await?;
        self.last_group.set(start);
        Ok(())
    }

    /// Meta blocks and blocks of stripes, from the head on, which moves behind them.
    fn encode<'a>(&self, stripes: impl Iterator<Item = &'a Stripe>) -> SgList {
        let (mut bytes, mut payloads, mut blocks) = (SgList::new(), Vec::new(), SgList::new());
        let mut meta_bytes = 0;
        let mut close = |payloads: &mut Vec<Payload>, blocks: &mut SgList| {
            let (position, sequence) = (self.head.get(), self.sequence.get());
            let meta = MetaBlock { sequence, position, payloads: std::mem::take(payloads) };
            let sectors = (1 + meta.blocks()) * BLOCK_SECTORS;
            bytes.push(Buf::copy_of(&meta.encode(self.seed)));
            bytes.append(std::mem::take(blocks));
            self.head.set(self.ring.after(position, sectors));
            self.sequence.set(sequence.wrapping_add(1));
        };
        let empty = MetaBlock { sequence: 0, position: 0, payloads: Vec::new() };
        for stripe in stripes {
            if !empty.has_room(meta_bytes + stripe.meta_bytes()) {
                close(&mut payloads, &mut blocks);
                meta_bytes = 0;
            }
            meta_bytes += stripe.meta_bytes();
            let sum = |block: &SgList| checksum(self.seed, &block.to_vec());
            for (at, block) in &stripe.data {
                payloads.push(Payload::Data { sector: at / SECTOR, checksum: sum(block) });
                blocks.append(block.clone());
            }
            let sector = stripe.at / SECTOR;
            if let Some(p) = stripe.parity.first() {
                let q = stripe.parity.get(1).map(sum);
                payloads.push(Payload::Parity { sector, p: sum(p), q });
            }
            stripe.parity.iter().for_each(|block| blocks.append(block.clone()));
        }
        close(&mut payloads, &mut blocks);
        bytes
    }

    /// Writes to the ring, durably.
    async fn write(&self, at: u64, bytes: &SgList) -> Result<(), IoErrorKind> {
        let device = &self.ring.device;
        let mut writes = Vec::new();
        for (offset, before, blocks) in self.ring.runs(at, (bytes.len() / BLOCK_BYTES) as u64) {
            let (from, len) = (before as usize * BLOCK_BYTES, blocks as usize * BLOCK_BYTES);
            writes.push(device.submit(Request::write(offset, bytes.slice(from..from + len))));
        }
        for write in writes {
            write.await.map_err(|error| error.kind)?;
        }
        if device.geometry().volatile_cache {
            device.submit(Request::flush()).await.map_err(|error| error.kind)?;
        }
        Ok(())
    }

    /// The stripes of a stretch.
    fn stripes(&self, stretch: &Stretch) -> Vec<Stripe> {
        let row = self.map.row(stretch.row);
        let places = &stretch.places;
        let page = |at: u64, list: &SgList| {
            let from = (at - places.start) as usize;
            list.slice(from..from + BLOCK_BYTES)
        };
        let stripe = |at: u64| {
            let byte = |slot: usize| self.map.array_byte(Place { slot, at });
            let data = stretch.data.iter();
            let data = data.filter_map(|(slot, list)| Some((byte(*slot)?, page(at, list))));
            let parity = |slot: usize| {
                let made = stretch.parity.iter().find(|(own, _)| *own == slot);
                made.map_or_else(|| SgList::zeros(BLOCK_BYTES), |(_, list)| page(at, list))
            };
            let parities = [Some(row.p), row.q].into_iter().flatten();
            Stripe { data: data.collect(), at, parity: parities.map(parity).collect() }
        };
        (places.start..places.end).step_by(BLOCK_BYTES).map(stripe).collect()
    }
}

/// Blocks that one call takes at the most.
fn most_blocks(ring: &Ring) -> u64 {
    ring.sectors / BLOCK_SECTORS / USED_PART
}

/// Blocks of a row that is written whole.
fn row_blocks(map: &ParityMap) -> u64 {
    map.chunk / BLOCK_BYTES as u64 * (map.disks as u64 + 1)
}

impl WriteLog for Journal {
    fn partial_max(&self) -> Option<u64> {
        None
    }

    fn rows_max(&self) -> u64 {
        (most_blocks(&self.ring) / row_blocks(&self.map)).clamp(1, STRETCHES_MAX as u64)
    }

    fn page(&self) -> u64 {
        BLOCK_BYTES as u64
    }

    fn begin(&self, stretches: &[Stretch]) -> Beginning {
        let stripes = stretches.iter().flat_map(|stretch| self.stripes(stretch)).collect();
        let (grant, granted) = oneshot::channel();
        self.waiting.borrow_mut().push_back(Waiting { stripes, grant });
        if !self.running.replace(true)
            && let Some(this) = self.myself.upgrade()
        {
            self.set.rt.spawn(async move { this.run().await }).detach();
        }
        Box::pin(async move {
            let mut held = Held::default();
            held.0.push(granted.await.unwrap_or(Err(IoErrorKind::Gone))?);
            Ok(held)
        })
    }
}
