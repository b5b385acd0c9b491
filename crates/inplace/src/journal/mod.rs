//! The journal: changes of metadata, on the device before they are written in place.
//!
//! **Transactions.** Whatever changes blocks [joins](Journal::join) them to the running transaction. A
//! [commit](commit) takes it as a whole: it writes one record with all changed blocks (or the changed
//! parts of them, by [`JournalForm`]) behind the last one, and from then on the changes survive. One
//! commit is under way at a time; meanwhile the next transaction runs. Many callers that wait for one
//! commit share it.
//!
//! **Data.** Data that a transaction's metadata points to was written before that metadata joined it,
//! and a commit flushes the device before its record can count. So replay never shows a block's former
//! content. With [`ordered`](crate::MountOptions::ordered) a commit beyond that first writes *all* dirty
//! data, as ext3's does: that is a matter of speed, and of what users expect.
//!
//! **Checkpoints.** Committed blocks are [written in place](checkpoint) when they are old, or when the
//! journal is short of room; then the records before the oldest block that is not in place can be
//! overwritten, once the journal's superblock says so.
//!
//! **Frees.** Blocks that a transaction frees can be granted only after its commit: else new data could
//! lie, after a crash, in what is still the old file. Where they held metadata the record revokes them:
//! older records of them are not replayed over what is written there now.
//!
//! **Replay** starts at the tail that the journal's superblock names and goes on while records have the
//! right epoch, number and checksum. Each mount begins a new epoch. [`record`] has the formats.

pub(crate) mod checkpoint;
pub(crate) mod commit;
pub(crate) mod record;
pub(crate) mod replay;

use crate::layout::{Extent, Shape};
use crate::meta::{Logging, MetaRef};
use crate::settings::JournalForm;
use record::{ENTRY, Free, REVOKE};
use rt::Rt;
use rt::sync::Mutex;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use stdx::{Instant, Offset};

/// A transaction is committed when it has grown to this part of the journal: JBD's figure.
const TRANSACTION_PART: u64 = 4;

/// See the [module](self).
pub(crate) struct Journal {
    form: JournalForm,
    /// The area on the device; its first block is the journal's superblock.
    area: Extent,
    block: u64,
    /// Records begin on multiples of it.
    unit: u64,
    epoch: u64,
    commit_turn: Mutex<()>,
    checkpoint_turn: Mutex<()>,
    state: RefCell<State>,
}

struct State {
    /// The running transaction: its number, blocks, size so far, when it began, and what it frees.
    running: u64,
    blocks: BTreeMap<u64, MetaRef>,
    bytes: u64,
    began: Option<Instant>,
    frees: Vec<Free>,
    /// The last transaction that is committed.
    committed: u64,
    /// The one that is being committed.
    committing: Option<u64>,
    /// Where the next record goes, in bytes from the start of the area.
    head: u64,
    /// Records that the journal's superblock does not let us overwrite, oldest first.
    records: VecDeque<Placed>,
    /// Blocks that are committed and not in place, by their transaction.
    waiting: BTreeMap<(u64, u64), MetaRef>,
    /// When the oldest of them began to wait, about.
    waiting_since: Option<Instant>,
}

#[derive(Clone, Copy)]
struct Placed {
    transaction: u64,
    from: u64,
}

impl Journal {
    /// An empty journal, as replay leaves it; `next` is the number of the first transaction.
    pub(crate) fn new(
        shape: &Shape,
        form: JournalForm,
        sector: u64,
        epoch: u64,
        next: u64,
    ) -> Journal {
        let unit = match form {
            JournalForm::Blocks => shape.block,
            JournalForm::Ranges => sector.min(shape.block),
        };
        let state = State {
            running: next,
            blocks: BTreeMap::new(),
            bytes: 0,
            began: None,
            frees: Vec::new(),
            committed: next - 1,
            committing: None,
            head: shape.block,
            records: VecDeque::new(),
            waiting: BTreeMap::new(),
            waiting_since: None,
        };
        Journal {
            form,
            area: shape.journal,
            block: shape.block,
            unit,
            epoch,
            commit_turn: Mutex::new(()),
            checkpoint_turn: Mutex::new(()),
            state: RefCell::new(state),
        }
    }

    /// The number of the running transaction.
    pub(crate) fn running(&self) -> u64 {
        self.state.borrow().running
    }

    /// The number of the last transaction that is committed.
    pub(crate) fn committed(&self) -> u64 {
        self.state.borrow().committed
    }

    /// When the running transaction began.
    pub(crate) fn began(&self) -> Option<Instant> {
        self.state.borrow().began
    }

    /// Since when committed blocks wait to be written in place, about.
    pub(crate) fn waiting_since(&self) -> Option<Instant> {
        self.state.borrow().waiting_since
    }

    /// Whether blocks that the running transaction frees could be granted after a commit.
    pub(crate) fn has_frees(&self) -> bool {
        !self.state.borrow().frees.is_empty()
    }

    /// Blocks that are free after the next commit.
    pub(crate) fn freed_blocks(&self) -> u64 {
        self.state.borrow().frees.iter().map(|free| free.extent.len).sum()
    }

    /// The running transaction, where it has grown so large that it must be committed.
    pub(crate) fn full(&self) -> Option<u64> {
        let state = self.state.borrow();
        (state.bytes >= self.ring() / TRANSACTION_PART).then_some(state.running)
    }

    /// Whether records take more than half of the area.
    pub(crate) fn is_half_used(&self) -> bool {
        let state = self.state.borrow();
        let Some(tail) = state.records.front() else { return false };
        let used = match state.head.checked_sub(tail.from) {
            Some(used) => used,
            None => self.ring() - (tail.from - state.head),
        };
        used > self.ring() / 2
    }

    /// Bytes for records.
    fn ring(&self) -> u64 {
        (self.area.len - 1) * self.block
    }

    fn end(&self) -> u64 {
        self.area.len * self.block
    }

    /// Where a place in the area is on the device.
    fn offset(&self, place: u64) -> Offset {
        Offset(self.area.start * self.block + place)
    }

    /// Enters a block into the running transaction, before it is changed.
    pub(crate) fn join(&self, block: &MetaRef, range: &Range<usize>, rt: &Rt) {
        let mut logging = block.logging.get();
        let chunks = block.chunks(range);
        let mut state = self.state.borrow_mut();
        if logging.running == 0 {
            let aside = match logging {
                Logging { committing: 1.., .. } => Some(&block.committing_image),
                Logging { logged_at: 1.., .. } => Some(&block.committed_image),
                _ => None,
            };
            if let Some(aside) = aside
                && aside.borrow().is_none()
            {
                *aside.borrow_mut() = Some(block.image());
            }
            state.blocks.insert(block.number, MetaRef::clone(block));
            state.began.get_or_insert_with(|| rt.now());
            state.bytes += ENTRY as u64;
            if self.form == JournalForm::Blocks {
                state.bytes += self.block;
            }
        }
        if self.form == JournalForm::Ranges {
            let new = (chunks & !logging.running).count_ones();
            state.bytes += u64::from(new) * self.block / 64;
        }
        logging.running |= chunks;
        block.logging.set(logging);
    }

    /// Notes blocks that the running transaction frees.
    pub(crate) fn free(&self, extent: Extent, metadata: bool) {
        let mut state = self.state.borrow_mut();
        state.bytes += if metadata { REVOKE as u64 } else { 0 };
        state.frees.push(Free { extent, metadata });
    }

    /// Finds room for a record, and takes it.
    fn place(&self, transaction: u64, len: u64) -> Option<u64> {
        let mut state = self.state.borrow_mut();
        let start = self.block;
        let fits = |from: u64, to: u64| from + len <= to;
        let from = match state.records.front() {
            None if fits(state.head, self.end()) => state.head,
            None if fits(start, self.end()) => start,
            Some(tail) if tail.from >= state.head => {
                // Equal only when the ring is full to the last byte.
                Some(state.head).filter(|head| tail.from > *head && fits(*head, tail.from))?
            }
            Some(_) if fits(state.head, self.end()) => state.head,
            Some(tail) if fits(start, tail.from) => start,
            _ => return None,
        };
        state.head = from + len;
        state.records.push_back(Placed { transaction, from });
        Some(from)
    }
}
