//! Any bytes of a device of blocks.
//!
//! The protocol speaks of bytes, a device of blocks. Reads are rounded outwards and cut. A write that begins
//! or ends within a block reads that block, changes it and writes it back; so that no other write comes in
//! between, it has the volume for itself, while writes of whole blocks share it. Discards are rounded
//! inwards: a client may not count on them anyhow.
//!
//! A volume is shared by all connections of its export. What was begun is carried to its end even where the
//! client is gone: a read-modify-write that were dropped in the midst would leave its write to race with the
//! next. What goes in steps (see [the limits](super)) ends with the step that is under way.
//!
//! **Flushes** are shared: who asks while one is under way waits for the next, with all others who do. That one began
//! after they asked, so it covers what was answered to them before.
//!
//! **A volume that failed**: a panic within a request may have left the device half changed. It gets no further
//! request; all are answered with the panic's words.

use super::protocol::{Command, Errno, Request, STATE_HOLE, STATE_ZERO, command_flag};
use super::{EXTENTS_MAX, REQUEST_BYTES_MAX, STEPS_MAX, STEPS_OF_ONE_MAX};
use rt::sync::{Mutex, RwLock, Semaphore, SemaphorePermit};
use rt::{BufMut, DeviceRef, ExtentKind, IoError, IoErrorKind, Panicked, Rt, SgList};
use std::cell::{Cell, OnceCell, RefCell};
use stdx::{ByteCount, Offset};

/// Bytes that are read or written at a time where a request carries no data: caching, and zeros that must
/// take space. More is faster on fast disks; it is memory for as long as the request lasts.
const STEP_BYTES: u64 = 1 << 20;

/// Bytes that are zeroed or trimmed at a time, or so many whole stripes. More makes fewer calls of 4 GiB; a client that
/// left is noticed later, and other clients' requests wait for longer.
const CHANGE_STEP_BYTES: u64 = 4 << 20;

/// A stripe that is longer is not waited for: steps are of [`CHANGE_STEP_BYTES`] then.
const STRIPE_BYTES_MAX: u64 = 64 << 20;

/// The number of the system's error for a lack of memory.
const ENOMEM: i32 = 12;

/// Memory that an extent takes on its way to a client: as the device tells it, as a pair, as bytes.
const STATUS_BYTES: usize = size_of::<rt::Extent>() + size_of::<(u32, u32)>() + 8;

/// See the [module](self).
pub(crate) struct Volume {
    pub(crate) device: DeviceRef,
    block: u64,
    /// Whole blocks share it, parts of blocks have it alone.
    edges: RwLock<()>,
    rt: Rt,
    /// Bytes of a step that zeroes or trims.
    change_step: u64,
    /// Steps under way, of all clients.
    steps: Semaphore,
    flushing: Mutex<()>,
    /// Flushes begun, and what the last one ended with.
    flushes: Cell<u64>,
    flushed: RefCell<Result<(), IoError>>,
    failed: OnceCell<Panicked>,
}

/// Who asks: what a volume needs to know of a connection.
pub(crate) struct Asker {
    /// Nobody is there to be answered.
    pub(crate) left: Cell<bool>,
    /// Its steps under way.
    steps: Semaphore,
}

impl Default for Asker {
    fn default() -> Asker {
        Asker { left: Cell::new(false), steps: Semaphore::new(STEPS_OF_ONE_MAX) }
    }
}

/// A step's place among those under way: of the connection, and of the export.
struct Turn<'a> {
    _own: SemaphorePermit<'a>,
    _all: SemaphorePermit<'a>,
}

/// What a request ends with.
pub(crate) enum Outcome {
    Done,
    Data(SgList),
    /// Lengths and flags.
    Status(Vec<(u32, u32)>),
}

/// Why a request failed: what the client is told, by number and in words.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) errno: Errno,
    pub(crate) text: String,
    /// What the device answered, where it was that.
    pub(crate) error: Option<IoError>,
}

impl Refusal {
    pub(crate) fn new(errno: Errno, text: &str) -> Refusal {
        Refusal { errno, text: text.to_owned(), error: None }
    }
}

impl From<IoError> for Refusal {
    fn from(error: IoError) -> Refusal {
        Refusal { errno: errno_of(error.kind), text: error.to_string(), error: Some(error) }
    }
}

fn errno_of(kind: IoErrorKind) -> Errno {
    match kind {
        IoErrorKind::NoSpace => Errno::NoSpace,
        IoErrorKind::ReadOnly | IoErrorKind::Locked => Errno::NotPermitted,
        IoErrorKind::Invalid | IoErrorKind::NotSupported => Errno::Invalid,
        IoErrorKind::Os(ENOMEM) => Errno::NoMemory,
        _ => Errno::Io,
    }
}

impl Volume {
    pub(crate) fn new(rt: &Rt, device: DeviceRef) -> Volume {
        let geometry = device.geometry();
        Volume {
            block: geometry.logical_block.bytes(),
            device,
            edges: RwLock::new(()),
            rt: rt.clone(),
            change_step: match geometry.optimal_io.bytes() {
                stripe @ 1..=STRIPE_BYTES_MAX => CHANGE_STEP_BYTES.next_multiple_of(stripe),
                _ => CHANGE_STEP_BYTES,
            },
            steps: Semaphore::new(STEPS_MAX),
            flushing: Mutex::new(()),
            flushes: Cell::new(0),
            flushed: RefCell::new(Ok(())),
            failed: OnceCell::new(),
        }
    }

    /// Its length. It may be another for later clients: nobody is told.
    pub(crate) fn capacity(&self) -> u64 {
        self.device.geometry().capacity.bytes()
    }

    /// Gives the device no further request: one of it panicked.
    pub(crate) fn fail(&self, panicked: Panicked) {
        // The first is the one to tell.
        let _ = self.failed.set(panicked);
    }

    fn check_failed(&self) -> Result<(), Refusal> {
        match self.failed.get() {
            None => Ok(()),
            Some(panicked) => Err(Refusal::new(Errno::Io, &panicked.to_string())),
        }
    }

    /// Waits for a step's turn. Refused where nobody waits for the rest of the request any more.
    async fn turn<'a>(&'a self, asker: &'a Asker) -> Result<Turn<'a>, Refusal> {
        let own = asker.steps.acquire().await.expect("nobody closes the semaphore");
        let all = self.steps.acquire().await.expect("nobody closes the semaphore");
        self.check_failed()?;
        if asker.left.get() {
            return Err(Refusal::new(Errno::Shutdown, "its client hung up"));
        }
        Ok(Turn { _own: own, _all: all })
    }

    /// Bytes of memory that a request takes here, besides its own head.
    pub(crate) fn memory_for(&self, request: &Request) -> usize {
        let (len, block) = (request.len as usize, self.block as usize);
        let whole = request.offset.is_multiple_of(self.block) && len.is_multiple_of(block);
        match request.command {
            Command::Read if whole => BufMut::taken_by(len),
            Command::Read => BufMut::taken_by(len + 2 * block),
            Command::Write if whole => BufMut::taken_by(len),
            Command::Write => BufMut::taken_by(len) + 2 * BufMut::taken_by(block),
            Command::Cache | Command::WriteZeroes => BufMut::taken_by(len.min(STEP_BYTES as usize)),
            Command::BlockStatus => BufMut::taken_by(EXTENTS_MAX * STATUS_BYTES),
            _ => 0,
        }
    }

    /// Carries out a request that was checked; `payload` is a write's.
    pub(crate) async fn carry_out(
        &self,
        request: Request,
        payload: SgList,
        asker: &Asker,
    ) -> Result<Outcome, Refusal> {
        self.check_failed()?;
        match request.command {
            Command::Read if asker.left.get() => {
                Err(Refusal::new(Errno::Shutdown, "its client hung up"))
            }
            Command::Read => {
                Ok(Outcome::Data(self.read(request.offset, request.len.into()).await?))
            }
            Command::Write => {
                self.write(request.offset, payload, request.has(command_flag::FUA)).await?;
                Ok(Outcome::Done)
            }
            // In memory of its own, so that reads and writes take no more than they need.
            _ => Box::pin(self.carry_out_in_steps(request, asker)).await,
        }
    }

    /// The same, of what is neither read nor written.
    async fn carry_out_in_steps(
        &self,
        request: Request,
        asker: &Asker,
    ) -> Result<Outcome, Refusal> {
        let (at, len) = (request.offset, u64::from(request.len));
        match request.command {
            Command::Flush => self.flush_for(asker).await?,
            Command::Trim | Command::WriteZeroes | Command::Cache => {
                let no_hole = request.has(command_flag::NO_HOLE);
                let (zeroes, caches) =
                    (request.command == Command::WriteZeroes, request.command == Command::Cache);
                let step = if caches || no_hole { STEP_BYTES } else { self.change_step };
                for (at, len) in steps(at, len, step) {
                    {
                        let _turn = self.turn(asker).await?;
                        match request.command {
                            _ if caches => self.read(at, len).await.map(drop)?,
                            _ if zeroes => self.zero(at, len, no_hole).await?,
                            _ => self.trim(at, len).await?,
                        }
                    }
                    // A device that answers at once would keep all other tasks waiting.
                    self.rt.yield_now().await;
                }
                if request.has(command_flag::FUA) {
                    self.flush_for(asker).await?;
                }
            }
            Command::BlockStatus => {
                let one = request.has(command_flag::REQ_ONE);
                let _turn = self.turn(asker).await?;
                return Ok(Outcome::Status(self.status(at, request.len, one).await?));
            }
            Command::Read | Command::Write | Command::Disconnect | Command::Unknown => {
                return Err(Refusal::new(Errno::Invalid, "no such command"));
            }
        }
        Ok(Outcome::Done)
    }

    fn down(&self, at: u64) -> u64 {
        at - at % self.block
    }

    /// The end of the block that `at` is in. The capacity is whole blocks, so it can't overflow.
    fn up(&self, at: u64) -> u64 {
        at.next_multiple_of(self.block)
    }

    async fn read(&self, at: u64, len: u64) -> Result<SgList, IoError> {
        if len == 0 {
            return Ok(SgList::new());
        }
        let (from, to) = (self.down(at), self.up(at + len));
        let request = rt::Request::read(Offset(from), ByteCount(to - from));
        let data = self.device.submit(request).await?;
        if (from, to) == (at, at + len) {
            return Ok(data);
        }
        let skip = (at - from) as usize;
        Ok(data.slice(skip..skip + len as usize))
    }

    async fn write(&self, at: u64, data: SgList, fua: bool) -> Result<(), IoError> {
        let end = at + data.len() as u64;
        let (from, to) = (self.down(at), self.up(end));
        if (from, to) == (at, end) {
            let _shared = self.edges.read().await;
            return self.write_blocks(at, data, fua).await;
        }
        Box::pin(self.write_with_edges(at, data, fua)).await
    }

    /// A write whose first or last block is not whole: the rest of these is read before.
    async fn write_with_edges(&self, at: u64, data: SgList, fua: bool) -> Result<(), IoError> {
        let end = at + data.len() as u64;
        let (from, to) = (self.down(at), self.up(end));
        let _alone = self.edges.write().await;
        let mut whole = SgList::new();
        if from < at {
            whole.append(self.read(from, at - from).await?);
        }
        whole.append(data);
        if end < to {
            whole.append(self.read(end, to - end).await?);
        }
        self.write_blocks(from, whole, fua).await
    }

    async fn write_blocks(&self, at: u64, data: SgList, fua: bool) -> Result<(), IoError> {
        if data.is_empty() {
            return Ok(());
        }
        let mut request = rt::Request::write(Offset(at), data);
        if let rt::Op::Write { fua: durable, .. } = &mut request.op {
            *durable = fua;
        }
        self.device.submit(request).await.map(drop)
    }

    /// The whole blocks within a range; `None` where there are none.
    fn blocks_within(&self, at: u64, len: u64) -> Option<(u64, u64)> {
        let (from, to) = (self.up(at), self.down(at + len));
        (from < to).then_some((from, to))
    }

    async fn trim(&self, at: u64, len: u64) -> Result<(), IoError> {
        let Some((from, to)) = self.blocks_within(at, len) else { return Ok(()) };
        let _shared = self.edges.read().await;
        let request = rt::Request::discard(Offset(from), ByteCount(to - from));
        match self.device.submit(request).await {
            // A discard is a hint: a device that knows none has nothing to do.
            Err(error) if error.kind == IoErrorKind::NotSupported => Ok(()),
            other => other.map(drop),
        }
    }

    async fn zero(&self, at: u64, len: u64, no_hole: bool) -> Result<(), IoError> {
        let end = at + len;
        if no_hole {
            return self.write_zeros(at, len).await;
        }
        let Some((from, to)) = self.blocks_within(at, len) else {
            return self.write_zeros(at, len).await;
        };
        self.write_zeros(at, from - at).await?;
        {
            let _shared = self.edges.read().await;
            let request = rt::Request::write_zeroes(Offset(from), ByteCount(to - from));
            self.device.submit(request).await?;
        }
        self.write_zeros(to, end - to).await
    }

    async fn write_zeros(&self, at: u64, len: u64) -> Result<(), IoError> {
        for (at, len) in steps(at, len, STEP_BYTES) {
            self.write(at, SgList::zeros(len as usize), false).await?;
        }
        Ok(())
    }

    async fn flush_for(&self, asker: &Asker) -> Result<(), Refusal> {
        let asked = self.flushes.get();
        let _alone = self.flushing.lock().await;
        self.check_failed()?;
        if self.flushes.get() > asked {
            // It began after this one was asked for, and has ended, since the lock is free.
            return Ok(self.flushed.borrow().clone()?);
        }
        if asker.left.get() {
            return Err(Refusal::new(Errno::Shutdown, "its client hung up"));
        }
        self.flushes.set(asked + 1);
        let request = rt::Request::flush();
        // Until it ends: nobody may take an older one's success for its own.
        let unknown = IoError::of(&request, &*self.device, IoErrorKind::Gone);
        *self.flushed.borrow_mut() = Err(unknown);
        let flushed = self.device.submit(request).await.map(drop);
        (*self.flushed.borrow_mut()).clone_from(&flushed);
        Ok(flushed?)
    }

    /// Makes all durable, at the end.
    pub(crate) async fn flush(&self) -> Result<(), IoError> {
        let request = rt::Request::flush();
        if self.failed.get().is_some() {
            return Err(IoError::of(&request, &*self.device, IoErrorKind::Gone));
        }
        self.device.submit(request).await.map(drop)
    }

    async fn status(&self, at: u64, len: u32, one: bool) -> Result<Vec<(u32, u32)>, Refusal> {
        let count_max = if one { 1 } else { EXTENTS_MAX };
        let found = self.device.extents(Offset(at), ByteCount(len.into()), count_max).await;
        let found = found.map_err(|kind| Refusal {
            errno: errno_of(kind),
            text: format!("{}: asking for holes: {kind}", self.device.name()),
            error: None,
        })?;
        let mut left = len;
        let mut status: Vec<(u32, u32)> = Vec::new();
        for extent in found.into_iter().take(count_max) {
            let flags = match extent.kind {
                ExtentKind::Data => 0,
                ExtentKind::Hole => STATE_HOLE | STATE_ZERO,
            };
            let part = u32::try_from(extent.len.bytes()).unwrap_or(u32::MAX).min(left);
            left -= part;
            match status.last_mut() {
                // Each extent of a reply differs from the one before.
                Some((len, last)) if *last == flags => *len += part,
                _ if part > 0 => status.push((part, flags)),
                _ => {}
            }
        }
        assert!(!status.is_empty(), "a device tells at least one extent, and it is not empty");
        Ok(status)
    }
}

/// A range in steps of this length at the most, each on the grid of steps.
fn steps(at: u64, len: u64, step_bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = at + len;
    let mut at = at;
    std::iter::from_fn(move || {
        let to = (at + 1).next_multiple_of(step_bytes).min(end);
        let step = (at < end).then_some((at, to - at));
        at = to;
        step
    })
}

/// The preferred and the largest block that are announced; the smallest is a byte.
pub(crate) fn block_sizes(volume: &Volume) -> (u32, u32) {
    let geometry = volume.device.geometry();
    let preferred = geometry.physical_block.bytes().clamp(4096, 64 << 10).next_power_of_two();
    (preferred as u32, REQUEST_BYTES_MAX)
}
