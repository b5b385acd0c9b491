//! Whatever stores blocks: the trait [`Device`] and what passes through it.
//!
//! A real disk, a file, a simulated disk, a RAID set, a slice of any of them, a fault injector: each is
//! a `Device`, so they stack in any order.
//!
//! **The contract.**
//!
//! 1. Offsets and lengths of reads, writes, discards and write-zeroes are multiples of the logical
//!    block, a power of two, and lie within the capacity. The door, [`Device::submit`], tests it once for
//!    every device: others are answered with [`IoErrorKind::Invalid`], and one of no bytes (other than a
//!    flush) with success, before the device sees them. So [`Device::begin`] takes what comes as it is.
//! 2. A request begins at [`Device::submit`] or when its future is first polled, whichever the device
//!    likes; so poll it at once. Requests in flight together may be done in any order. Who needs an
//!    order awaits the first before submitting the second.
//! 3. A write that was answered is visible to every later read. It is durable when it carried `fua`,
//!    or when a flush that was submitted *after its answer* has been answered. Until then a power cut
//!    may keep it, lose it, or keep some of its sectors.
//! 4. A write that failed may have changed any of its sectors, and none but those.
//! 5. Dropping the future abandons the answer, not the request: the device may still carry it out.
//! 6. [`Priority`] is a wish; a device may ignore it.

use crate::sg::SgList;
use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use stdx::{ByteCount, Offset};

/// A shared device.
pub type DeviceRef = Rc<dyn Device>;

/// What a request ends with: the data of a read (as long as was asked for), nothing for the others.
pub type IoResult = Result<SgList, IoError>;

/// Whatever stores blocks. The contract stands in the [module](self).
pub trait Device {
    /// What the device is, constant while it is open (growing makes a new one).
    fn geometry(&self) -> Geometry;

    /// The name that errors and tables show.
    fn name(&self) -> Arc<str>;

    /// Carries out a request that came through the door: a flush, or some bytes on the grid and within the
    /// capacity. Who has a request calls [`submit`](Device::submit).
    fn begin(&self, request: Request) -> IoFuture;

    /// The door: has a request carried out that keeps rule 1 of the contract, and answers others itself. It is
    /// the same for every device; none has a door of its own.
    fn submit(&self, request: Request) -> IoFuture {
        match request.at_door(self) {
            AtDoor::Begins => self.begin(request),
            AtDoor::Done => IoFuture::ready(Ok(SgList::new())),
            AtDoor::Refused => {
                IoFuture::ready(Err(IoError::of(&request, self, IoErrorKind::Invalid)))
            }
        }
    }

    /// What is known of how a range is stored: extents that follow one another from `offset` on, the first
    /// not empty. They may end before the range does, where there are more than `count_max`; never after.
    /// Who can't tell answers that all of it is data. Offset and length are any bytes within the capacity.
    fn extents(&self, offset: Offset, len: ByteCount, count_max: usize) -> ExtentsFuture {
        let _ = (offset, count_max);
        Box::pin(std::future::ready(Ok(vec![Extent { len, kind: ExtentKind::Data }])))
    }
}

/// A stretch of a device that is stored in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// How long it is.
    pub len: ByteCount,
    /// How it is stored.
    pub kind: ExtentKind,
}

/// How a stretch of a device is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentKind {
    /// It may hold anything.
    Data,
    /// Nothing is stored: it reads as zeros and takes no space.
    Hole,
}

/// An answer about [extents](Device::extents) under way.
pub type ExtentsFuture = Pin<Box<dyn Future<Output = Result<Vec<Extent>, IoErrorKind>>>>;

/// The shape and the manners of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Size; a multiple of the logical block.
    pub capacity: ByteCount,
    /// The unit of offsets and lengths, a power of two: 512 B or 4 KiB; less only for a file that is served to its
    /// last byte.
    pub logical_block: ByteCount,
    /// The unit that is written without reading first; a multiple of the logical block.
    pub physical_block: ByteCount,
    /// The length in which large transfers are best made (a full stripe), or zero.
    pub optimal_io: ByteCount,
    /// Whether a distant block takes longer than a near one.
    pub rotational: bool,
    /// Whether answered writes can be lost before a flush.
    pub volatile_cache: bool,
}

impl Geometry {
    /// A plain device of this size: blocks of 512 B, not rotational, nothing volatile.
    pub fn plain(capacity: ByteCount) -> Geometry {
        let block = ByteCount(512);
        Geometry {
            capacity: capacity.round_down(block),
            logical_block: block,
            physical_block: block,
            optimal_io: ByteCount::ZERO,
            rotational: false,
            volatile_cache: false,
        }
    }
}

/// Whose I/O it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Someone waits for it.
    #[default]
    Foreground,
    /// Upkeep: initialise, rebuild, check, scrub.
    Background,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub enum Op {
    /// Read so many bytes.
    Read(ByteCount),
    /// Write these bytes; with `fua`, answer only when they are durable.
    Write {
        /// The bytes.
        data: SgList,
        /// Durable before it is answered ("force unit access").
        fua: bool,
    },
    /// Make all answered writes durable. The request's offset is ignored.
    Flush,
    /// These bytes are not needed any more; reading them gives anything until they are written.
    Discard(ByteCount),
    /// Make these bytes zero.
    WriteZeroes(ByteCount),
}

/// The kind of an [`Op`], without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OpKind {
    /// [`Op::Read`]
    Read,
    /// [`Op::Write`]
    Write,
    /// [`Op::Flush`]
    Flush,
    /// [`Op::Discard`]
    Discard,
    /// [`Op::WriteZeroes`]
    WriteZeroes,
}

impl fmt::Display for OpKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OpKind::Read => "read",
            OpKind::Write => "write",
            OpKind::Flush => "flush",
            OpKind::Discard => "discard",
            OpKind::WriteZeroes => "write-zeroes",
        })
    }
}

/// One request to a device.
#[derive(Clone, Debug)]
pub struct Request {
    /// What.
    pub op: Op,
    /// Where it begins.
    pub offset: Offset,
    /// For whom.
    pub priority: Priority,
}

impl Request {
    /// A read of `len` bytes.
    pub fn read(offset: Offset, len: ByteCount) -> Request {
        Request { op: Op::Read(len), offset, priority: Priority::Foreground }
    }

    /// A write that a later flush makes durable.
    pub fn write(offset: Offset, data: impl Into<SgList>) -> Request {
        let op = Op::Write { data: data.into(), fua: false };
        Request { op, offset, priority: Priority::Foreground }
    }

    /// A write that is durable when it is answered.
    pub fn write_fua(offset: Offset, data: impl Into<SgList>) -> Request {
        let op = Op::Write { data: data.into(), fua: true };
        Request { op, offset, priority: Priority::Foreground }
    }

    /// A flush.
    pub fn flush() -> Request {
        Request { op: Op::Flush, offset: Offset::ZERO, priority: Priority::Foreground }
    }

    /// A discard.
    pub fn discard(offset: Offset, len: ByteCount) -> Request {
        Request { op: Op::Discard(len), offset, priority: Priority::Foreground }
    }

    /// A write-zeroes.
    pub fn write_zeroes(offset: Offset, len: ByteCount) -> Request {
        Request { op: Op::WriteZeroes(len), offset, priority: Priority::Foreground }
    }

    /// The same with another priority.
    pub fn with_priority(mut self, priority: Priority) -> Request {
        self.priority = priority;
        self
    }

    /// The kind of operation.
    pub fn kind(&self) -> OpKind {
        match self.op {
            Op::Read(_) => OpKind::Read,
            Op::Write { .. } => OpKind::Write,
            Op::Flush => OpKind::Flush,
            Op::Discard(_) => OpKind::Discard,
            Op::WriteZeroes(_) => OpKind::WriteZeroes,
        }
    }

    /// Whether it is a write that must be durable when it is answered.
    pub fn is_fua(&self) -> bool {
        matches!(self.op, Op::Write { fua: true, .. })
    }

    /// How many bytes it concerns; zero for a flush.
    pub fn len(&self) -> ByteCount {
        match &self.op {
            Op::Read(len) | Op::Discard(len) | Op::WriteZeroes(len) => *len,
            Op::Write { data, .. } => ByteCount(data.len() as u64),
            Op::Flush => ByteCount::ZERO,
        }
    }

    /// Whether it concerns no bytes, as a flush does.
    pub fn is_empty(&self) -> bool {
        self.len().is_zero()
    }

    /// Whether it keeps the first rule of the contract on `device`; if not, the error to answer with. For who wants
    /// to know before there is a request to submit.
    ///
    /// # Errors
    /// [`IoErrorKind::Invalid`].
    pub fn check<D: Device + ?Sized>(&self, device: &D) -> Result<(), IoError> {
        match self.at_door(device) {
            AtDoor::Begins | AtDoor::Done => Ok(()),
            AtDoor::Refused => Err(IoError::of(self, device, IoErrorKind::Invalid)),
        }
    }

    /// What becomes of it at the door of `device`.
    ///
    /// # Panics
    /// If the device's logical block is no power of two.
    #[inline]
    fn at_door<D: Device + ?Sized>(&self, device: &D) -> AtDoor {
        let len = match &self.op {
            Op::Read(len) | Op::Discard(len) | Op::WriteZeroes(len) => *len,
            Op::Write { data, .. } => ByteCount(data.len() as u64),
            Op::Flush => return AtDoor::Begins,
        };
        let Geometry { capacity, logical_block, .. } = device.geometry();
        let block = logical_block.bytes();
        assert!(block & block.wrapping_sub(1) == 0 && block > 0, "a block is a power of two");
        let (at, len) = (self.offset.bytes(), len.bytes());
        let on_grid = (at | len) & (block - 1) == 0;
        let within = at.checked_add(len).is_some_and(|end| end <= capacity.bytes());
        match (on_grid && within, len) {
            (false, _) => AtDoor::Refused,
            (true, 0) => AtDoor::Done,
            (true, _) => AtDoor::Begins,
        }
    }
}

/// What becomes of a request at a device's door.
enum AtDoor {
    /// It is the device's.
    Begins,
    /// There is nothing to do.
    Done,
    /// It is off the grid, or beyond the end.
    Refused,
}

/// What went wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IoErrorKind {
    /// The medium can't give these bytes back, or can't take them.
    #[error("unreadable or unwritable medium")]
    Medium,
    /// The file that stands for the device ends before these bytes: somebody cut it.
    #[error("the file was cut short")]
    CutShort,
    /// The device answers nothing any more.
    #[error("the device is gone")]
    Gone,
    /// The power was cut.
    #[error("the power was cut")]
    PowerCut,
    /// More members are lost than the redundancy covers.
    #[error("too many members are lost")]
    TooFewMembers,
    /// The device does not know this operation.
    #[error("not supported by the device")]
    NotSupported,
    /// Misaligned, or beyond the end.
    #[error("misaligned or beyond the end of the device")]
    Invalid,
    /// The device is open for reading only.
    #[error("the device is read-only")]
    ReadOnly,
    /// What lies there is encrypted, and its key is not loaded.
    #[error("it is encrypted, and the key is not loaded")]
    Locked,
    /// The file system below is full.
    #[error("no space left")]
    NoSpace,
    /// Another error of the operating system, by number.
    #[error("{}", std::io::Error::from_raw_os_error(*.0))]
    Os(i32),
}

/// A request that failed: what, of what, where.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{device}: {op} of {len} at {offset}: {kind}")]
pub struct IoError {
    /// What went wrong.
    pub kind: IoErrorKind,
    /// What was to be done.
    pub op: OpKind,
    /// Where.
    pub offset: Offset,
    /// How much.
    pub len: ByteCount,
    /// On which device.
    pub device: Arc<str>,
}

impl IoError {
    /// The error of `request` on `device`.
    pub fn of<D: Device + ?Sized>(request: &Request, device: &D, kind: IoErrorKind) -> IoError {
        IoError {
            kind,
            op: request.kind(),
            offset: request.offset,
            len: request.len(),
            device: device.name(),
        }
    }
}

impl fmt::Debug for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A request under way. Poll it at once: see rule 2 of the contract.
#[must_use = "a request may begin only when its future is polled"]
pub struct IoFuture(Inner);

enum Inner {
    Ready(Option<IoResult>),
    Slot(Rc<RefCell<Slot>>),
    Boxed(Pin<Box<dyn Future<Output = IoResult>>>),
}

#[derive(Default)]
struct Slot {
    result: Option<IoResult>,
    waker: Option<Waker>,
    abandoned: bool,
}

impl IoFuture {
    /// An answer that is known at once.
    pub fn ready(result: IoResult) -> IoFuture {
        IoFuture(Inner::Ready(Some(result)))
    }

    /// An answer that this future finds.
    pub fn new(future: impl Future<Output = IoResult> + 'static) -> IoFuture {
        IoFuture(Inner::Boxed(Box::pin(future)))
    }

    /// An answer that comes from elsewhere: who holds the [`IoCompletion`] gives it.
    pub fn pending() -> (IoCompletion, IoFuture) {
        let slot = Rc::new(RefCell::new(Slot::default()));
        (IoCompletion(Rc::clone(&slot)), IoFuture(Inner::Slot(slot)))
    }

    /// Polls it, and keeps the answer, if it has come, for [`into_answer`](IoFuture::into_answer). Whether it has.
    ///
    /// For who waits for several: who is woken by another one of them anyway is `quiet`, and may not be woken by this one.
    pub fn poll_kept(&mut self, context: &mut Context<'_>, quiet: bool) -> bool {
        match &self.0 {
            Inner::Ready(_) => return true,
            Inner::Slot(slot) if quiet && slot.borrow().is_under_way() => return false,
            Inner::Slot(_) | Inner::Boxed(_) => {}
        }
        match Pin::new(&mut *self).poll(context) {
            Poll::Ready(answer) => {
                *self = IoFuture::ready(answer);
                true
            }
            Poll::Pending => false,
        }
    }

    /// The answer, where it was known at once or has been [polled](IoFuture::poll_kept).
    pub fn into_answer(self) -> Option<IoResult> {
        match self.0 {
            Inner::Ready(answer) => answer,
            Inner::Slot(_) | Inner::Boxed(_) => None,
        }
    }
}

impl Slot {
    /// Whether the answer is still to come.
    fn is_under_way(&self) -> bool {
        self.result.is_none() && !self.abandoned
    }
}

impl Future for IoFuture {
    type Output = IoResult;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<IoResult> {
        match &mut self.0 {
            Inner::Ready(result) => {
                Poll::Ready(result.take().expect("a future is not polled after its end"))
            }
            Inner::Slot(slot) => {
                let mut slot = slot.borrow_mut();
                if let Some(result) = slot.result.take() {
                    return Poll::Ready(result);
                }
                assert!(!slot.abandoned, "a device answers each request it took");
                match &mut slot.waker {
                    Some(waker) => waker.clone_from(context.waker()),
                    none => *none = Some(context.waker().clone()),
                }
                Poll::Pending
            }
            Inner::Boxed(future) => future.as_mut().poll(context),
        }
    }
}

/// The duty to answer one request. See [`IoFuture::pending`].
pub struct IoCompletion(Rc<RefCell<Slot>>);

impl IoCompletion {
    /// Answers the request.
    pub fn complete(self, result: IoResult) {
        let waker = {
            let mut slot = self.0.borrow_mut();
            slot.result = Some(result);
            slot.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Drop for IoCompletion {
    fn drop(&mut self) {
        self.0.borrow_mut().abandoned = true;
    }
}

#[cfg(test)]
mod tests {
    //! What could break: a request that no device should see gets past the door, or one that it should is
    //! stopped there; an answer that can't be carried to another thread.

    use super::*;

    /// Counts what comes through its door.
    #[derive(Default)]
    struct Counting {
        seen: std::cell::Cell<usize>,
    }

    impl Device for Counting {
        fn geometry(&self) -> Geometry {
            let block = ByteCount(4096);
            Geometry { logical_block: block, ..Geometry::plain(ByteCount::mib(1)) }
        }
        fn name(&self) -> Arc<str> {
            "counting".into()
        }
        fn begin(&self, _: Request) -> IoFuture {
            self.seen.set(self.seen.get() + 1);
            IoFuture::ready(Ok(SgList::new()))
        }
    }

    fn answer(device: &Counting, request: Request) -> IoResult {
        futures_util::FutureExt::now_or_never(device.submit(request)).expect("answered at once")
    }

    #[test]
    fn requests_off_the_grid_or_beyond_the_end_are_named_and_never_seen() {
        let device = Counting::default();
        let read = |offset, len| Request::read(Offset(offset), ByteCount(len));
        for (offset, len) in [(512, 4096), (0, 512), (1 << 20, 4096), (u64::MAX - 4095, 4096)] {
            for request in [
                read(offset, len),
                Request::discard(Offset(offset), ByteCount(len)),
                Request::write_fua(Offset(offset), SgList::zeros(len as usize)),
            ] {
                let error = answer(&device, request).expect_err("refused");
                assert_eq!(error.kind, IoErrorKind::Invalid);
            }
        }
        assert_eq!(device.seen.get(), 0);
        let text = answer(&device, read(1 << 20, 4096)).expect_err("refused").to_string();
        assert_eq!(
            text,
            "counting: read of 4 KiB at byte 1048576: misaligned or beyond the end of the device"
        );
    }

    #[test]
    fn a_request_of_no_bytes_does_nothing_and_a_flush_is_none_of_those() {
        let device = Counting::default();
        answer(&device, Request::write(Offset(1 << 20), SgList::new())).expect("done");
        assert_eq!(device.seen.get(), 0);
        answer(&device, Request { offset: Offset(7), ..Request::flush() }).expect("done");
        answer(&device, Request::read(Offset::ZERO, ByteCount::mib(1))).expect("done");
        assert_eq!(device.seen.get(), 2);
    }

    /// Compiles only while requests and their answers may go to another thread.
    #[test]
    fn requests_and_answers_may_cross_threads() {
        fn crosses<T: Send + Sync + 'static>() {}
        crosses::<Request>();
        crosses::<IoResult>();
    }
}
