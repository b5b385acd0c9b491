//! I/O on RAID 4, 5 and 6.
//!
//! A **row** (md: a stripe) is one chunk on each member, at the same place; its parity is right
//! whenever nobody holds its lock. What each request does:
//!
//! | request | path | lock |
//! |---|---|---|
//! | read, members there | straight to the members ([`read`]) | none |
//! | read, a member missing or a bad place | [`gather`]: reads the others, computes | its rows |
//! | write of whole rows | parity from the caller's data, no copy, no read ([`full`]) | its rows |
//! | write of parts of a row | batch, [`plan`], gather, compute, write ([`write`]) | the row |
//! | the same, with a write log | in rounds, each logged before ([`logged`]) | the row |
//! | background operation | `sync` | its rows |
//!
//! | module | holds |
//! |---|---|
//! | [`plan`] | which way a partial write goes, and what it must read: a pure function |
//! | [`stream`] | which writes go on where others ended, so that their rows wait to be filled |
//! | [`cache`] | what was read and written lately, by row, bounded, the least recently used goes first |
//!
//! **Places** are bytes of the members' data areas throughout: row r is `r·chunk .. (r+1)·chunk` on each
//! member, so rows that follow one another are contiguous on each member.
//!
//! **Tasks.** Whoever writes to members under a lock runs as a task of its own: a caller who drops its
//! answer must not release the row while a write is under way.
//!
//! **Rules.** (1) Data and parity are written together, under the row's lock. (2) More members out of use
//! than there are parities: a write fails with `TooFewMembers` and changes nothing, or says so after a
//! member failed in its middle. (3) Nothing is read from a member for a row where it isn't known to be
//! right. (4) Where parity isn't known to be right, it is made from all data, never changed by a
//! difference.
//!
//! Without a [write log](crate::write_log) it doesn't close the write hole: see `docs/theory/raid.md`.

pub(crate) mod cache;
pub(crate) mod full;
pub(crate) mod gather;
pub(crate) mod logged;
mod pending;
pub(crate) mod plan;
pub(crate) mod read;
pub(crate) mod stream;
pub(crate) mod write;

use crate::layout::parity::ParityMap;
use crate::locks::RangeLock;
use crate::pieces::Pieces;
use crate::set::Set;
use crate::spread::MEMBER_REQUEST_MAX;
use crate::write_log::WriteLog;
use cache::Cache;
use pending::PendingRow;
use rt::sync::Semaphore;
use rt::{IoErrorKind, IoFuture, Op, Request, SgList};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use stream::Streams;

/// Rows whose partial writes are carried out at the same time: md's stripe_cache_size. Each holds the
/// bytes that it read and made.
const ROWS_ACTIVE_MAX: usize = 256;

/// See the [module](self).
pub(crate) struct Stripes {
    pub(crate) set: Rc<Set>,
    pub(crate) map: ParityMap,
    /// Over rows.
    pub(crate) locks: Rc<RangeLock>,
    cache: RefCell<Cache>,
    /// Partial writes that wait for their row. As many as the callers have under way.
    pending: RefCell<BTreeMap<u64, PendingRow>>,
    streams: RefCell<Streams>,
    active: Semaphore,
    log: RefCell<Option<Rc<dyn WriteLog>>>,
}

impl Stripes {
    pub(crate) fn new(set: Rc<Set>, map: ParityMap, cache_bytes: u64) -> Stripes {
        let extent = set.members.extent();
        assert!(extent.is_multiple_of(map.chunk), "a data area is whole rows");
        assert_eq!(set.members.len(), map.disks, "each column of a row has its slot");
        Stripes {
            set,
            map,
            locks: Rc::default(),
            cache: RefCell::new(Cache::new(cache_bytes)),
            pending: RefCell::default(),
            streams: RefCell::default(),
            active: Semaphore::new(ROWS_ACTIVE_MAX),
            log: RefCell::default(),
        }
    }

    /// Carries out a request that was checked; flushes don't come here.
    pub(crate) fn submit(self: &Rc<Self>, request: Request) -> IoFuture {
        if request.is_empty() {
            return IoFuture::ready(Ok(SgList::new()));
        }
        match &request.op {
            Op::Read(_) => self.read(request),
            // What was discarded may read as anything: as it was, for instance, with its parity right.
            Op::Discard(_) => IoFuture::ready(Ok(SgList::new())),
            Op::Write { .. } | Op::WriteZeroes(_) => self.write(request),
            Op::Flush => unreachable!("a flush goes to all members"),
        }
    }

    /// The places of rows.
    pub(crate) fn places(&self, rows: &Range<u64>) -> Range<u64> {
        rows.start * self.map.chunk..rows.end * self.map.chunk
    }

    /// The rows of places.
    pub(crate) fn rows(&self, places: &Range<u64>) -> Range<u64> {
        places.start / self.map.chunk..places.end.div_ceil(self.map.chunk)
    }

    /// How many rows make a long request to each member.
    pub(crate) fn rows_in_step(&self) -> u64 {
        (MEMBER_REQUEST_MAX / self.map.chunk).max(1)
    }

    /// Whether the redundancy covers what is missing in these places.
    pub(crate) fn covered(&self, places: &Range<u64>) -> Result<(), IoErrorKind> {
        if self.set.members.all_active() {
            return Ok(());
        }
        let members = &self.set.members;
        let lost = (0..self.map.disks).filter(|slot| !members.readable(*slot, places)).count();
        if lost > self.map.parities() { Err(IoErrorKind::TooFewMembers) } else { Ok(()) }
    }

    /// Nothing known of any member.
    pub(crate) fn nothing_known(&self) -> Vec<Pieces> {
        (0..self.map.disks).map(|_| Pieces::default()).collect()
    }

    /// What the cache knows of rows is not to be used any more.
    pub(crate) fn forget(&self, rows: Range<u64>) {
        self.cache.borrow_mut().forget(rows);
    }
}
