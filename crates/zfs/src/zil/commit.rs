//! The log of a dataset that is written: what makes a change durable before its group is in the pool.
//!
//! ```text
//!   change ──▶ Itx in memory ([`itx`](super::itx))
//!   commit     one at a time: all that is due ──▶ records ──▶ blocks, side by side ──▶ flush ──▶ acknowledged
//!   group N    header and blocks that are not needed any more ([`chain`](super::chain)); what is of N is forgotten
//! ```
//!
//! **Group commit.** Who comes while another's blocks are on their way waits for the lock, and finds with it all that was due
//! until then: one of them writes it, the others find nothing left.
//!
//! **The crash argument.** A block is found by the one before it, and each carries a checksum that only a block of this log in
//! this place has. Nobody is told of success before all blocks up to the last record are flushed. A log block lies in space that
//! was free and that no group has given to another since: it is allocated in the open group. If the machine stops before
//! that group is in the pool, whoever opens it next *claims* the place ([`spa`](crate::spa)) before anything is allocated.
//!
//! **Where the log can't be used** (it has no first block in the pool yet, there is little room, a device failed, a change that no
//! record says) [`IntentLog::commit`] says so, and the caller commits the group. What was not written stays due until then.
//!
//! Records carry the bytes of writes, or lead to blocks that are in their place already ([`indirect`](super::indirect)).
//!
//! Source: OpenZFS, `zil.c` (`zil_commit_impl`, `zil_lwb_commit`, `zil_lwb_write_issue`).

use super::BLOCKS_MAX as BLOCKS_READ_MAX;
use super::chain::{Chain, Stage};
use super::indirect::{Stored, Written};
use super::itx::{Itx, Queue, Queued, What};
use crate::dmu::{Dnode, Objset, TxGroups};
use crate::dsl::make::Fresh;
use crate::error::{Problem, ZfsError};
use futures_util::stream::{self, FuturesUnordered, StreamExt, TryStreamExt};
use rt::{Buf, BufMut};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use stdx::planted::{self, Bug};
use tokio::sync::Mutex;
use zfs_format::Endian;
use zfs_format::block_pointer::{BlockPointer, Kind};
use zfs_format::checksum::{Checksum, ChecksumFunction};
use zfs_format::object_type::ObjectType;
use zfs_format::objset::ObjsetKind;
use zfs_format::wire::Wire;
use zfs_format::zil::record::{Body, HEAD_BYTES, LogRecord, Write};
use zfs_format::zil::{self, LogBlock, SEQUENCE_WORD, ZilHeader};
use zfs_store::alloc::Class;
use zfs_store::transform::log_sum;
use zfs_store::{WriteBlockError, WriteError, Writer};

/// Bytes of a block of the log, at the most: OpenZFS's.
const BLOCK_BYTES_MAX: usize = 128 << 10;
/// At the least, and in multiples of which.
const BLOCK_BYTES_UNIT: usize = 4 << 10;
/// Bytes of a record of a write before its data.
const WRITE_BYTES: usize = HEAD_BYTES + Write::BYTES;
/// A write is divided between blocks if so much of it fits into the first.
const PIECE_BYTES_MIN: usize = 4 << 10;
/// A write is divided where a sector of the volume ends.
const SECTOR_BYTES: u64 = 4 << 10;
/// Blocks of one write that are on their way to their places at once.
const BLOCKS_MAX: usize = 8;
/// Blocks that are on their way at once: 4 MiB.
const UNDER_WAY_MAX: usize = 32;
/// Commits whose lengths say how long the next will be.
const RECENT: usize = 8;

/// Blocks of a chain from which on a group is committed, so that they go: who reads a log follows so many more.
const CHAIN_BLOCKS_MAX: usize = BLOCKS_READ_MAX / 8;

/// What a vdev makes of a byte at the most: three parities of one sector.
const GROWTH_MAX: u64 = 4;

/// What became of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    /// What was asked for is durable.
    Logged,
    /// It will be with the group: whoever asks commits it.
    NeedsGroup,
}

/// A log that was found when the pool was opened, and is being replayed.
struct Claimed {
    header: ZilHeader,
    blocks: Vec<BlockPointer>,
    is_done: bool,
}

/// The intent log of a dataset that is open for writing. How it is written stands at the head of this file.
pub struct IntentLog {
    objset: Objset,
    writer: Writer,
    groups: TxGroups,
    fresh: Rc<dyn Fresh>,
    queue: RefCell<Queue>,
    chain: RefCell<Chain>,
    claimed: RefCell<Option<Claimed>>,
    /// How its dataset is stored, where that is known.
    stored: RefCell<Option<Stored>>,
    /// Blocks to which the last records lead, by object and number: from the last one on that was of another kind.
    led_to: RefCell<BTreeMap<(u64, u64), [u64; 2]>>,
    /// Bytes of the last commits.
    recent: Cell<[usize; RECENT]>,
    /// Records of extended attributes are written.
    says_extended: Cell<bool>,
    /// One commit at a time.
    one: Mutex<()>,
}

/// A record that is ready but for its sequence: as it is, or of bytes.
enum Ready {
    Whole(u64, Body, Vec<u8>),
    Bytes { txg: u64, object: u64, at: u64, bytes: Buf },
}

impl Ready {
    fn len(&self) -> usize {
        match self {
            Ready::Whole(_, body, data) => HEAD_BYTES + body.bytes() + data.len(),
            Ready::Bytes { bytes, .. } => WRITE_BYTES + bytes.len().next_multiple_of(8),
        }
    }
}

/// Blocks of one commit.
struct Filling {
    /// The open block, once there is a record in it.
    block: Option<BufMut>,
    /// Bytes of its records.
    records: usize,
    /// The last group of them.
    last: u64,
    /// Bytes of records that are still to come.
    left: usize,
    vdevs: BTreeSet<u32>,
    /// A block that a record leads to is in pieces that lie anywhere.
    all_vdevs: bool,
}

impl Filling {
    /// What a record leads to is to be durable with it.
    fn note_block(&mut self, ready: &Ready) {
        if let Ready::Whole(_, Body::Write(Write { pointer, .. }), _) = ready {
            self.vdevs.extend(pointer.dvas().map(|dva| dva.vdev()));
            self.all_vdevs |= pointer.kind() == Kind::Gang;
        }
    }
}

fn block_bytes(records: usize) -> usize {
    let len = zil::CHAIN_BYTES + records;
    len.next_multiple_of(BLOCK_BYTES_UNIT).min(BLOCK_BYTES_MAX)
}

impl IntentLog {
    /// The log of a dataset, which is empty.
    pub fn new(
        objset: Objset,
        writer: Writer,
        groups: TxGroups,
        fresh: Rc<dyn Fresh>,
    ) -> IntentLog {
        let (queue, chain, claimed, stored, recent, one) = Default::default();
        let led_to = RefCell::default();
        IntentLog {
            objset,
            writer,
            groups,
            fresh,
            queue,
            chain,
            claimed,
            stored,
            led_to,
            recent,
            says_extended: Cell::new(false),
            one,
        }
    }

    /// Blocks of its dataset are stored so from here on.
    pub fn set_stored(&self, stored: Stored) {
        *self.stored.borrow_mut() = Some(stored);
    }

    /// Takes note of a change, in the order in which changes are made.
    pub fn push(&self, txg: u64, mut itx: Itx) {
        let is_extended = matches!(&itx.what, What::Record(record) if matches!(record.0, Body::SetExtendedAttribute(_)));
        if is_extended && !self.says_extended.get() {
            itx.what = What::Whole;
        }
        self.queue.borrow_mut().push(txg, itx);
    }

    /// Whether extended attributes that are set have records.
    pub fn says_extended(&self) -> bool {
        self.says_extended.get()
    }

    /// From here on they have: a group is in the pool whose dataset says so.
    pub fn say_extended(&self) {
        self.says_extended.set(true);
    }

    /// Makes durable what is known of an object, or of all, with all names that were changed before.
    pub async fn commit(&self, object: Option<u64>) -> Committed {
        let until = {
            let mut queue = self.queue.borrow_mut();
            queue.promote(object);
            queue.arrived()
        };
        let _one = self.one.lock().await;
        let is_long = self.chain.borrow().blocks.len() >= CHAIN_BLOCKS_MAX;
        if is_long || self.queue.borrow().needs_group(self.groups.last_synced().0) {
            return Committed::NeedsGroup;
        }
        // Another wrote it, or its group is in the pool.
        if !self.queue.borrow().has_due(until) {
            return Committed::Logged;
        }
        if !self.is_ready() {
            return Committed::NeedsGroup;
        }
        let due = self.queue.borrow_mut().take_due();
        match self.write(&due).await {
            Ok(()) => Committed::Logged,
            Err(_) => {
                self.chain.borrow_mut().end();
                self.led_to.borrow_mut().clear();
                self.queue.borrow_mut().put_back(due, self.groups.last_synced().0);
                Committed::NeedsGroup
            }
        }
    }

    /// Whether blocks can be written; a log that has none gets its first.
    fn is_ready(&self) -> bool {
        let stage = self.chain.borrow().stage;
        if stage == Stage::Empty {
            let numbers = [self.fresh.number(), self.fresh.number()];
            let verifier = Checksum { words: [numbers[0], numbers[1], self.objset.number(), 1] };
            let txg = self.groups.open().0;
            if let Ok(first) = self.reserve(BLOCK_BYTES_UNIT, verifier) {
                self.chain.borrow_mut().announce(first, txg);
            }
        }
        stage == Stage::Ready || planted::is(Bug::LogNotAnnounced)
    }

    /// Takes a place for a block. What groups need to be committed is left to them: a log lives in the pool's own space
    /// where it has no device, and what it frees can be used three groups later only.
    fn reserve(&self, bytes: usize, verifier: Checksum) -> Result<BlockPointer, WriteBlockError> {
        let (txg, dirty) = (self.groups.open().0, self.groups.dirty_bytes());
        let free = |class| self.writer.space(|space| space.sizes(class)).1;
        let its_own = match self.writer.has_log_device() {
            true => free(Class::Log),
            false => free(Class::EmbeddedLog),
        };
        let needed = dirty.saturating_add(bytes as u64).saturating_mul(GROWTH_MAX);
        if its_own < bytes as u64 * GROWTH_MAX && needed > self.writer.unreserved() {
            return Err(WriteBlockError::NoSpace);
        }
        let mut pointer = self.writer.reserve(txg, Class::Log, bytes as u64)?;
        pointer.set_object_type(ObjectType::INTENT_LOG);
        pointer.set_checksum_function(ChecksumFunction::Zilog2);
        pointer.set_checksum(verifier);
        Ok(pointer)
    }

    async fn ready(&self, due: &Queued) -> Result<Vec<Ready>, ZfsError> {
        let (txg, object) = (due.txg, due.itx.object);
        let (at, len) = match &due.itx.what {
            What::Record(record) => {
                let (body, mut data) = (**record).clone();
                // Records are of whole words.
                data.resize(data.len() + (body.bytes() + data.len()).wrapping_neg() % 8, 0);
                return Ok(vec![Ready::Whole(txg, body, data)]);
            }
            What::Write { at, len } => (*at, *len),
            What::Whole | What::Forgotten => return Ok(Vec::new()),
        };
        let dnode = match self.objset.dnode(object).await {
            Ok(dnode) => dnode,
            // It lost its last name meanwhile.
            Err(ZfsError::Object { problem: Problem::Absent, .. }) => return Ok(Vec::new()),
            Err(other) => return Err(other),
        };
        let stored = self.stored.borrow().clone();
        let block = dnode.block_bytes();
        let is_indirect =
            |stored: &Stored| stored.is_indirect(&self.objset, &self.writer, len, block);
        let Some(stored) = stored.filter(is_indirect) else {
            return Ok(vec![self.bytes(&dnode, txg, at..at + len).await?]);
        };
        let numbers = at / block..(at + len).div_ceil(block);
        let pieces = numbers.map(|number| {
            let range = at.max(number * block)..(at + len).min((number + 1) * block);
            self.piece(&stored, &dnode, number, txg, range)
        });
        let pieces: Vec<Option<Ready>> =
            stream::iter(pieces).buffered(BLOCKS_MAX).try_collect().await?;
        Ok(pieces.into_iter().flatten().collect())
    }

    /// The record of bytes that were written.
    async fn bytes(&self, dnode: &Dnode, txg: u64, range: Range<u64>) -> Result<Ready, ZfsError> {
        let (at, len) = (range.start, range.end - range.start);
        let bytes = dnode.read_once(at, len as usize).await?.into_contiguous();
        Ok(Ready::Bytes { txg, object: dnode.number(), at, bytes })
    }

    /// The record of what was written of one block: it leads there, or has the bytes. Nothing where there is no more to say than before.
    async fn piece(
        &self,
        stored: &Stored,
        dnode: &Dnode,
        number: u64,
        txg: u64,
        range: Range<u64>,
    ) -> Result<Option<Ready>, ZfsError> {
        let (of, place) = ((&self.objset, dnode, number), (dnode.number(), number));
        let is_led_to = |pointer: &BlockPointer| {
            self.led_to.borrow().get(&place) == Some(&pointer.dva(0).words)
        };
        let written = stored.write(of, &self.writer, &self.groups, is_led_to).await?;
        let Some(written) = written else {
            return self.bytes(dnode, txg, range).await.map(Some);
        };
        let (object, offset, length) = (dnode.number(), range.start, range.end - range.start);
        let of = |pointer| Write { object, offset, length, block_offset: 0, pointer };
        let body = match written {
            Written::Now(pointer) => {
                self.led_to.borrow_mut().insert(place, pointer.dva(0).words);
                Body::Write(of(pointer))
            }
            // A volume is as long as it is, and OpenZFS's volumes know no such record.
            Written::Before if self.objset.root().kind == ObjsetKind::Volume => return Ok(None),
            Written::Before => Body::Write2(of(BlockPointer::HOLE)),
        };
        Ok(Some(Ready::Whole(txg, body, Vec::new())))
    }

    /// Writes all that is due, and makes it durable.
    async fn write(&self, due: &[Queued]) -> Result<(), ZfsError> {
        let throughput = self.stored.borrow().as_ref().is_some_and(|stored| stored.throughput);
        let len = |queued: &Queued| match &queued.itx.what {
            What::Record(record) => HEAD_BYTES + record.0.bytes() + record.1.len() + 8,
            // As long as if it had the bytes, unless all writes lead to blocks.
            What::Write { .. } if throughput => BLOCKS_MAX * WRITE_BYTES,
            What::Write { len, .. } => {
                let len = *len as usize;
                len + WRITE_BYTES * (1 + len / (BLOCK_BYTES_MAX - WRITE_BYTES)) + 8
            }
            What::Whole | What::Forgotten => 0,
        };
        let left = due.iter().map(len).sum();
        self.note(left);
        let vdevs = BTreeSet::new();
        let mut filling =
            Filling { block: None, records: 0, last: 0, left, vdevs, all_vdevs: false };
        let mut under_way = FuturesUnordered::new();
        let flushes_failed = self.writer.tree().flushes_failed();
        let mut result = Ok(());
        'all: for queued in due {
            let mut rest: VecDeque<Ready> = match self.ready(queued).await {
                Ok(ready) => ready.into(),
                Err(error) => {
                    result = Err(error);
                    break 'all;
                }
            };
            while let Some(ready) = rest.pop_front() {
                filling.note_block(&ready);
                if !ready.is_indirect() {
                    self.led_to.borrow_mut().clear();
                }
                if let Some(later) = self.put(&mut filling, ready) {
                    let waits = later.len();
                    rest.push_front(later);
                    match self.seal(&mut filling, waits) {
                        Ok((pointer, block)) => under_way.push(self.fill(pointer, block)),
                        Err(error) => {
                            result = Err(self.failed(error));
                            break 'all;
                        }
                    }
                }
                if under_way.len() >= UNDER_WAY_MAX
                    && let Some(Err(error)) = under_way.next().await
                {
                    result = Err(self.failed(error));
                    break 'all;
                }
            }
        }
        if result.is_ok() && filling.records > 0 {
            match self.seal(&mut filling, 0) {
                Ok((pointer, block)) => under_way.push(self.fill(pointer, block)),
                Err(error) => result = Err(self.failed(error)),
            }
        }
        // Whatever happened, nothing is on its way when this ends.
        while let Some(done) = under_way.next().await {
            result = result.and(done.map_err(|error| self.failed(error)));
        }
        result?;
        let txg = self.groups.open().0;
        let is_due = |v| {
            (filling.all_vdevs || filling.vdevs.contains(&v)) && !planted::is(Bug::LogNotFlushed)
        };
        let flushed = self.writer.tree().flush_tops(txg..txg + 1, is_due);
        flushed.await.map_err(|error| self.failed(error.into()))?;
        // Another's that failed meanwhile may have dropped what this one was to make durable.
        if self.writer.tree().flushes_failed() != flushes_failed {
            return Err(self.failed(WriteError::Suspended.into()));
        }
        self.chain.borrow_mut().flushed();
        Ok(())
    }

    fn failed(&self, error: WriteBlockError) -> ZfsError {
        ZfsError::Write { objset: self.objset.number(), object: 0, error: Box::new(error) }
    }

    fn note(&self, len: usize) {
        let mut recent = self.recent.get();
        recent.rotate_right(1);
        recent[0] = len;
        self.recent.set(recent);
    }

    /// Puts a record into the open block, or as much of it as fits; what doesn't comes back.
    fn put(&self, filling: &mut Filling, ready: Ready) -> Option<Ready> {
        let mut chain = self.chain.borrow_mut();
        let pointer = chain.blocks.back().expect("a log that is ready has an open block").pointer;
        let block_bytes = pointer.logical_size() as usize;
        let room = block_bytes - zil::CHAIN_BYTES - filling.records;
        let (now, later) = match ready {
            whole if whole.len() <= room => (whole, None),
            Ready::Bytes { txg, object, at, bytes } if room >= WRITE_BYTES + PIECE_BYTES_MIN => {
                // Each part is carried out as a whole or not at all: no sector is ever half of it.
                let end = at + (room - WRITE_BYTES) as u64;
                let fits = (end / SECTOR_BYTES * SECTOR_BYTES - at) as usize;
                let rest = bytes.slice(fits..bytes.len());
                let first = Ready::Bytes { txg, object, at, bytes: bytes.slice(0..fits) };
                let at = at + fits as u64;
                (first, Some(Ready::Bytes { txg, object, at, bytes: rest }))
            }
            other => {
                assert!(other.len() <= BLOCK_BYTES_MAX - zil::CHAIN_BYTES || other.is_bytes());
                return Some(other);
            }
        };
        chain.sequence += 1;
        let len = now.len();
        let place = zil::records_in(&pointer, block_bytes).expect("a block of a log");
        let place = place.start + filling.records..place.start + filling.records + len;
        filling.last = filling.last.max(now.txg());
        filling.left = filling.left.saturating_sub(len);
        filling.records += len;
        // All of it is written: what is behind the records when it is sealed.
        let block = filling.block.get_or_insert_with(|| BufMut::for_overwrite(block_bytes));
        now.encode(chain.sequence, &mut block[place]);
        later
    }

    /// Closes the open block, with the place of the next one in it, which has room for what `waits`, in bytes, or is as long as
    /// they come: what doesn't fit would come back for ever.
    fn seal(
        &self,
        filling: &mut Filling,
        waits: usize,
    ) -> Result<(BlockPointer, Buf), WriteBlockError> {
        let mut chain = self.chain.borrow_mut();
        let open = chain.blocks.back_mut().expect("a log that is ready has an open block");
        let pointer = open.pointer;
        let mut verifier = pointer.checksum();
        verifier.words[SEQUENCE_WORD] += 1;
        // As long as what is still to come; else as what comes as a rule.
        let expected = match filling.left {
            0 => self.recent.get().into_iter().max().unwrap_or(0),
            left => left,
        };
        let txg = self.groups.open().0;
        let next = self.reserve(block_bytes(expected.max(waits)), verifier)?;
        open.last = std::mem::take(&mut filling.last);
        chain.append(next, txg);
        let records = std::mem::take(&mut filling.records);
        // The next record may have been too long for it: then it has none, and leads on.
        let block = filling.block.take();
        let len = pointer.logical_size() as usize;
        let mut block = block.unwrap_or_else(|| BufMut::for_overwrite(len));
        let sum = |bytes: &[u8], endian| log_sum(pointer.checksum_function(), bytes, endian);
        let sealed = LogBlock::seal(&mut block, records, &next, Endian::Little, &pointer, sum);
        sealed.expect("what was put in fits");
        filling.vdevs.extend(pointer.dvas().map(|dva| dva.vdev()));
        Ok((pointer, block.freeze()))
    }

    async fn fill(&self, pointer: BlockPointer, bytes: Buf) -> Result<(), WriteBlockError> {
        self.writer.fill(&pointer, self.groups.open().0, bytes).await
    }

    /// A log was found, and its blocks are claimed: the header says so until it is replayed.
    pub fn claimed(&self, header: ZilHeader, blocks: Vec<BlockPointer>) {
        *self.claimed.borrow_mut() = Some(Claimed { header, blocks, is_done: false });
    }

    /// Records up to this one are replayed in the open group.
    pub fn replayed(&self, sequence: u64) {
        if let Some(claimed) = &mut *self.claimed.borrow_mut()
            && !planted::is(Bug::ReplayNotNoted)
        {
            claimed.header.replay_sequence = sequence;
        }
    }

    /// All is replayed: the log goes with the open group.
    pub fn replay_done(&self) {
        if let Some(claimed) = &mut *self.claimed.borrow_mut() {
            claimed.is_done = true;
        }
    }

    /// The log ends with the open group: nothing is committed to it any more.
    pub async fn end(&self) {
        let _one = self.one.lock().await;
        self.led_to.borrow_mut().clear();
        self.chain.borrow_mut().end();
    }

    /// Whether it has no block.
    pub fn is_empty(&self) -> bool {
        self.chain.borrow().stage == Stage::Empty && self.claimed.borrow().is_none()
    }

    /// Whether a group is needed for it, though nothing else was changed.
    pub fn is_pending(&self) -> bool {
        self.chain.borrow().is_pending() || self.claimed.borrow().is_some()
    }

    /// What the group that syncs leaves in the header. Blocks that are not needed any more are freed in it.
    pub fn sync(&self, txg: u64) -> ZilHeader {
        let (header, freed) = match &mut *self.claimed.borrow_mut() {
            Some(claimed) if claimed.is_done => {
                (ZilHeader::EMPTY, std::mem::take(&mut claimed.blocks))
            }
            Some(claimed) => (claimed.header.clone(), Vec::new()),
            None => self.chain.borrow_mut().sync(txg),
        };
        self.claimed.borrow_mut().take_if(|claimed| claimed.is_done);
        // The books of the dataset know nothing of its log.
        freed.iter().for_each(|pointer| self.writer.free(pointer));
        header
    }

    /// A group is in the pool.
    pub fn committed(&self, txg: u64) {
        self.chain.borrow_mut().committed(txg);
        self.queue.borrow_mut().committed(txg);
    }
}

impl Ready {
    /// Whether it leads to a block, or says that one before it does.
    fn is_indirect(&self) -> bool {
        match self {
            Ready::Whole(_, Body::Write(_) | Body::Write2(_), data) => data.is_empty(),
            _ => false,
        }
    }

    fn is_bytes(&self) -> bool {
        matches!(self, Ready::Bytes { .. })
    }

    fn txg(&self) -> u64 {
        match self {
            Ready::Whole(txg, ..) | Ready::Bytes { txg, .. } => *txg,
        }
    }

    /// Puts it into its place, which is as long as it.
    fn encode(self, sequence: u64, place: &mut [u8]) {
        let (txg, body, data, bytes) = match self {
            Ready::Whole(txg, body, data) => (txg, body, data, Buf::empty()),
            Ready::Bytes { txg, object, at, bytes } => {
                let (length, pointer) = (bytes.len() as u64, BlockPointer::HOLE);
                let write = Write { object, offset: at, length, block_offset: 0, pointer };
                (txg, Body::Write(write), Vec::new(), bytes)
            }
        };
        let data_bytes = data.len() + bytes.len().next_multiple_of(8);
        let record = LogRecord { txg, sequence, case_insensitive: false, body, data };
        let before = record.encode_before(data_bytes, Endian::Little);
        assert_eq!(place.len(), before.len() + data_bytes, "a record is as long as was reckoned");
        let (head, data) = place.split_at_mut(before.len());
        head.copy_from_slice(&before);
        let given = [&record.data[..], bytes.bytes()];
        let mut at = 0;
        for given in given {
            data[at..at + given.len()].copy_from_slice(given);
            at += given.len();
        }
        data[at..].fill(0);
    }
}
