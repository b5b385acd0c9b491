//! What all parts of one array share: its members, its figures, and whether the host is at work.

use crate::member::{Members, RANGES_MAX};
use crate::spec::Level;
use rt::{IoCompletion, IoError, IoErrorKind, OpKind, Request, Rt, SgList};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use stdx::RangeSet;
use stdx::{ByteCount, Instant, Offset};

/// What an array has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Requests of the host.
    pub host_requests: u64,
    /// Rows written whole, from one request or several, without reading.
    pub full_stripe_writes: u64,
    /// Bands of rows whose parity was made anew from all data.
    pub reconstruct_writes: u64,
    /// Bands of rows whose parity was changed by the difference of old and new data.
    pub read_modify_writes: u64,
    /// Writes that joined another write's batch on the same row.
    pub batched_writes: u64,
    /// Bytes that a partial write needed and found in the stripe cache.
    pub cache_hit_bytes: u64,
    /// Bytes that a partial write needed and had to read.
    pub cache_miss_bytes: u64,
    /// Bytes computed from the redundancy because their member is missing or could not give them.
    pub reconstructed_bytes: u64,
    /// Bad places written anew.
    pub corrected: u64,
}

/// Whether the host was at work when a background operation looked last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HostSeen {
    /// When that was.
    pub(crate) at: Instant,
    /// How many requests it had sent by then.
    pub(crate) requests: u64,
    /// Whether it was at work.
    pub(crate) at_work: bool,
    /// From this moment on the operation's rate is below the least.
    pub(crate) due: Instant,
}

/// Notes that a place of a device that is filled (of the slot, or of its replacement) can't be had from anywhere.
/// False where that can't be noted.
pub(crate) type Unreadable = Rc<dyn Fn(usize, bool, Range<u64>) -> bool>;

/// See the [module](self).
pub(crate) struct Set {
    pub(crate) rt: Rt,
    pub(crate) name: Arc<str>,
    pub(crate) level: Level,
    pub(crate) members: Members,
    pub(crate) stats: RefCell<Stats>,
    host_in_flight: Cell<u32>,
    /// What background operations know of the host; kept from one to the next.
    pub(crate) host_seen: Cell<HostSeen>,
    /// Where parity and copies are known to be right; `all_clean` says it of everything.
    clean: RefCell<RangeSet>,
    all_clean: Cell<bool>,
    /// Where there are bad-block logs: who keeps them.
    pub(crate) unreadable: RefCell<Option<Unreadable>>,
}

impl Set {
    pub(crate) fn new(rt: &Rt, name: &str, level: Level, members: Members, clean: bool) -> Set {
        Set {
            rt: rt.clone(),
            name: name.into(),
            level,
            members,
            stats: RefCell::default(),
            host_in_flight: Cell::new(0),
            host_seen: Cell::default(),
            clean: RefCell::default(),
            all_clean: Cell::new(clean),
            unreadable: RefCell::default(),
        }
    }

    /// Whether parity and copies in a range of the members are known to be right.
    pub(crate) fn is_clean(&self, range: &Range<u64>) -> bool {
        self.all_clean.get() || self.clean.borrow().covers(range)
    }

    /// How much of the members has parity and copies that are known to be right.
    pub(crate) fn clean_bytes(&self) -> u64 {
        match self.all_clean.get() {
            true => self.members.extent(),
            false => self.clean.borrow().total(),
        }
    }

    /// Whether nothing is left to initialise.
    pub(crate) fn all_clean(&self) -> bool {
        self.all_clean.get()
    }

    /// Parity and copies in this range are right now.
    pub(crate) fn set_clean(&self, range: Range<u64>) {
        if self.all_clean.get() {
            return;
        }
        assert!(range.end <= self.members.extent(), "what is right lies within the data areas");
        let mut clean = self.clean.borrow_mut();
        clean.insert(range);
        // Some steps may be under way when no more can be kept apart.
        assert!(clean.len() <= 2 * RANGES_MAX, "nobody makes more stretches right");
        self.all_clean.set(clean.covers(&(0..self.members.extent())));
    }

    /// See [`Unreadable`]; false where nobody keeps such a log.
    pub(crate) fn note_unreadable(
        &self,
        slot: usize,
        replacement: bool,
        range: Range<u64>,
    ) -> bool {
        let note = self.unreadable.borrow().clone();
        note.is_some_and(|note| note(slot, replacement, range))
    }

    /// The first stretch from `from` on where parity and copies are not known to be right.
    pub(crate) fn unclean(&self, from: u64) -> Option<Range<u64>> {
        if self.all_clean.get() {
            return None;
        }
        self.clean.borrow().gap(from, self.members.extent())
    }

    /// Whether so many separate stretches are clean that no more can be kept apart.
    pub(crate) fn clean_is_scattered(&self) -> bool {
        self.clean.borrow().len() >= RANGES_MAX
    }

    /// Requests of the host under way.
    pub(crate) fn host_in_flight(&self) -> u32 {
        self.host_in_flight.get()
    }

    /// Counts a request of the host as under way until the guard is dropped.
    pub(crate) fn host_begins(self: &Rc<Self>) -> HostIo {
        self.stats.borrow_mut().host_requests += 1;
        self.host_in_flight.set(self.host_in_flight.get() + 1);
        HostIo(Rc::clone(self))
    }

    /// The error that the host sees.
    pub(crate) fn error(&self, kind: IoErrorKind, op: OpKind, offset: u64, len: u64) -> IoError {
        let device = Arc::clone(&self.name);
        IoError { kind, op, offset: Offset(offset), len: ByteCount(len), device }
    }
}

/// A request of the host under way. See [`Set::host_begins`].
pub(crate) struct HostIo(Rc<Set>);

impl Drop for HostIo {
    fn drop(&mut self) {
        let in_flight = &self.0.host_in_flight;
        assert!(in_flight.get() > 0, "a request that ends was counted when it began");
        in_flight.set(in_flight.get() - 1);
    }
}

/// A write of the host that is carried out in parts: answered when the last part is done.
pub(crate) struct Parts {
    host: HostIo,
    left: Cell<usize>,
    error: Cell<Option<IoErrorKind>>,
    completion: Cell<Option<IoCompletion>>,
    op: OpKind,
    offset: u64,
    len: u64,
}

impl Parts {
    pub(crate) fn new(
        host: HostIo,
        request: &Request,
        parts: usize,
        completion: IoCompletion,
    ) -> Rc<Parts> {
        Rc::new(Parts {
            host,
            left: Cell::new(parts),
            error: Cell::new(None),
            completion: Cell::new(Some(completion)),
            op: request.kind(),
            offset: request.offset.bytes(),
            len: request.len().bytes(),
        })
    }

    /// One part is done. The first error of a part is the error of the whole.
    pub(crate) fn done(&self, result: Result<(), IoErrorKind>) {
        if let Err(kind) = result {
            self.error.set(self.error.get().or(Some(kind)));
        }
        assert!(self.left.get() > 0, "no part ends twice");
        let left = self.left.get() - 1;
        self.left.set(left);
        if left > 0 {
            return;
        }
        let Some(completion) = self.completion.take() else { return };
        completion.complete(match self.error.get() {
            None => Ok(SgList::new()),
            Some(kind) => Err(self.host.0.error(kind, self.op, self.offset, self.len)),
        });
    }
}
