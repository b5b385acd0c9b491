//! Leaves: the devices at the ends of a vdev tree, what they miss, and how often they went wrong.
//!
//! A leaf may be *stale*: it was away while transaction groups were written, and its dirty time log (DTL) says which.
//! What it holds of blocks born then is old, or anything. It is not asked for those as long as others can answer,
//! and when it is, in the end, and the bytes are wrong, that isn't counted: nothing else was to be expected.
//!
//! Counted is by the leaf that went wrong: requests that failed, and blocks whose checksum showed that this leaf's
//! part was wrong. A request beyond the end of the device is no failure of the device: the block pointer was bad.

use super::failure::{Errors, FailureSink, LeafDeed, LeafFailure};
use super::queue::{IoClass, IoCounts, Queue};
use rt::{Buf, DeviceRef, IoErrorKind, Rt, SgList};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use stdx::RangeSet;
use zfs_format::label::DATA_START;
use zfs_format::nvlist::Value;
use zfs_format::vdev::Vdev;

/// Whether a leaf can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafState {
    /// Yes.
    Online,
    /// The administrator took it out: what it holds may be old. It is asked last.
    Offline,
    /// It was found to be faulty, and is asked last.
    Faulted,
    /// The device isn't there.
    Absent,
}

/// A device of a pool. What can change of it changes between transaction groups.
pub(crate) struct Leaf {
    pub(crate) guid: u64,
    state: Cell<LeafState>,
    pub(crate) errors: Cell<Errors>,
    queue: Option<Queue>,
    pub(crate) dtl: Dtl,
    /// Copies of blocks that a check found it to lack, of those that its DTL says it may.
    pub(crate) lacking: Cell<u64>,
    /// Groups of which something was written to it since it was flushed.
    unflushed: Cell<Option<(u64, u64)>>,
    /// Somebody looks whether it answers.
    pub(super) is_probed: Cell<bool>,
    /// Who is told of failures.
    told: RefCell<Option<FailureSink>>,
}

/// A dirty time log: transaction groups whose blocks a leaf misses.
#[derive(Default)]
pub(crate) struct Dtl(RefCell<RangeSet>);

impl Dtl {
    pub(crate) fn set(&self, txgs: RangeSet) {
        *self.0.borrow_mut() = txgs;
    }

    /// Takes note of groups that were written without the leaf.
    pub(crate) fn add(&self, txgs: Range<u64>) {
        self.0.borrow_mut().insert(txgs);
    }

    pub(crate) fn contains(&self, txg: u64) -> bool {
        self.0.borrow().contains(txg)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    pub(crate) fn txgs(&self) -> RangeSet {
        self.0.borrow().clone()
    }
}

/// A flush that failed.
pub(crate) struct FlushFailed {
    pub(crate) kind: IoErrorKind,
    /// The first and the last group of which something was written since the last one that didn't.
    pub(crate) written: Option<(u64, u64)>,
}

impl Leaf {
    pub(crate) fn new(
        rt: &Rt,
        config: &Vdev,
        device: Option<DeviceRef>,
        dirty: &Rc<Cell<u64>>,
    ) -> Leaf {
        let set = |name: &str| {
            let found = config.other.iter().find(|(known, _)| *known == *name);
            matches!(found, Some((_, Value::Uint64(1..))))
        };
        let state = match &device {
            None => LeafState::Absent,
            Some(_) if set("offline") => LeafState::Offline,
            Some(_) if set("faulted") || set("removed") => LeafState::Faulted,
            Some(_) => LeafState::Online,
        };
        Leaf {
            guid: config.guid,
            state: Cell::new(state),
            errors: Cell::default(),
            queue: device.map(|device| Queue::new(rt, device, dirty)),
            dtl: Dtl::default(),
            lacking: Cell::new(0),
            unflushed: Cell::new(None),
            is_probed: Cell::new(false),
            told: RefCell::default(),
        }
    }

    /// Whether it can be used.
    pub(crate) fn state(&self) -> LeafState {
        self.state.get()
    }

    /// Says whether it can be used from here on; without a device it stays absent.
    pub(crate) fn set_state(&self, state: LeafState) {
        self.state.set(if self.queue.is_some() { state } else { LeafState::Absent });
    }

    /// Whether there is a device.
    pub(crate) fn is_there(&self) -> bool {
        self.state.get() != LeafState::Absent
    }

    /// Whether what it holds of blocks born then is not to be believed.
    pub(crate) fn is_stale(&self, birth: u64) -> bool {
        self.state.get() != LeafState::Online || self.dtl.contains(birth)
    }

    /// Whether it is as it should be but for what was written while it was away, as blocks born then were.
    pub(crate) fn was_away(&self, birth: u64) -> bool {
        self.state.get() == LeafState::Online && self.dtl.contains(birth)
    }

    /// Counts that a check found it to lack a copy.
    pub(crate) fn lacks_copy(&self) {
        self.lacking.set(self.lacking.get().saturating_add(1));
    }

    fn queue(&self) -> Result<&Queue, IoErrorKind> {
        self.queue.as_ref().filter(|_| self.is_there()).ok_or(IoErrorKind::Gone)
    }

    /// The device.
    pub(crate) fn device(&self) -> Option<DeviceRef> {
        self.queue.as_ref().map(Queue::device)
    }

    /// Bytes of the device; none where it isn't there.
    pub(crate) fn device_bytes(&self) -> u64 {
        self.queue.as_ref().map_or(0, Queue::device_bytes)
    }

    /// What the device was asked for.
    pub(crate) fn io_counts(&self) -> IoCounts {
        self.queue.as_ref().map_or(IoCounts::default(), Queue::counts)
    }

    /// Requests under way or waiting.
    pub(crate) fn load(&self) -> usize {
        self.queue.as_ref().map_or(0, Queue::load)
    }

    /// Reads from the device, `at` counting from its start; counts a failure.
    pub(crate) async fn read(
        &self,
        at: u64,
        len: usize,
        class: IoClass,
    ) -> Result<Buf, IoErrorKind> {
        let result = self.read_uncounted(at, len, class).await;
        if let Err(kind) = &result
            && *kind != IoErrorKind::Invalid
        {
            self.failed(LeafDeed::Read, Some((at, len as u64)), Some(*kind));
        }
        result
    }

    /// The same, but a failure is not counted.
    pub(crate) async fn read_uncounted(
        &self,
        at: u64,
        len: usize,
        class: IoClass,
    ) -> Result<Buf, IoErrorKind> {
        self.queue()?.read(at, len, class).await
    }

    /// Writes to the device, `at` counting from its start; counts a failure. Durable after a [flush](Self::flush).
    pub(crate) async fn write(
        &self,
        at: u64,
        data: SgList,
        class: IoClass,
    ) -> Result<(), IoErrorKind> {
        let len = data.len() as u64;
        let result = self.write_uncounted(at, data, class).await;
        if let Err(kind) = &result {
            self.failed(LeafDeed::Write, Some((at, len)), Some(*kind));
        }
        result
    }

    /// The same, but a failure is not counted.
    pub(crate) async fn write_uncounted(
        &self,
        at: u64,
        data: SgList,
        class: IoClass,
    ) -> Result<(), IoErrorKind> {
        self.queue()?.write(at, data, class).await
    }

    /// Whether something was written to it since it was flushed.
    pub(super) fn is_unflushed(&self) -> bool {
        self.unflushed.get().is_some()
    }

    /// Something of a group was written to it.
    pub(super) fn note_written(&self, txg: u64) {
        let (first, last) = self.unflushed.get().unwrap_or((txg, txg));
        self.unflushed.set(Some((first.min(txg), last.max(txg))));
    }

    /// Makes durable what was written before; counts a failure. The groups of which something may be lost then, if any were written.
    pub(crate) async fn flush(&self) -> Result<(), FlushFailed> {
        let result = match self.queue() {
            Ok(queue) => {
                let written = self.unflushed.take();
                let flushed = queue.flush().await;
                flushed.map_err(|kind| FlushFailed { kind, written })
            }
            Err(kind) => Err(FlushFailed { kind, written: None }),
        };
        if let Err(failed) = &result {
            // Nobody knows it to be there until it is written again.
            if let Some((first, last)) = failed.written {
                self.note_written(first);
                self.note_written(last);
            }
            self.failed(LeafDeed::Flush, None, Some(failed.kind));
        }
        result
    }

    /// Says that nothing in a stretch of the device is needed any more. A failure loses nothing, and isn't counted.
    pub(crate) async fn trim(&self, at: u64, len: u64) -> Result<(), IoErrorKind> {
        self.queue()?.trim(at, len).await
    }

    /// Counts that it gave wrong bytes for a block born then.
    pub(crate) fn lied(&self, birth: u64) {
        if !self.is_stale(birth) {
            self.failed(LeafDeed::Checksum, None, None);
        }
    }

    /// Tells this one of failures from here on.
    pub(super) fn tell(&self, sink: &FailureSink) {
        *self.told.borrow_mut() = Some(Rc::clone(sink));
    }

    /// Counts a failure, and tells of it.
    fn failed(&self, deed: LeafDeed, place: Option<(u64, u64)>, error: Option<IoErrorKind>) {
        let mut errors = self.errors.get();
        match deed {
            LeafDeed::Read => errors.read += 1,
            LeafDeed::Write | LeafDeed::Flush => errors.write += 1,
            LeafDeed::Checksum => errors.checksum += 1,
        }
        self.errors.set(errors);
        let told = self.told.borrow().clone();
        if let Some(told) = told {
            told(&LeafFailure { leaf: self.guid, deed, place, error, errors });
        }
    }
}

/// The place on a device of an offset in its data area, in bytes; the last one where there is none.
pub(crate) fn on_device(offset: u64) -> u64 {
    offset.saturating_add(DATA_START)
}
