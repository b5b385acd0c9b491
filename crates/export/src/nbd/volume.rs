//! Any bytes of a device of blocks.
//!
//! The protocol speaks of bytes, a device of blocks. Reads are rounded outwards and cut. A write that begins
//! or ends within a block reads that block, changes it and writes it back; so that no other write comes in
//! between, it has the volume for itself, while writes of whole blocks share it. Discards are rounded
//! inwards: a client may not count on them anyhow.
//!
//! A volume is shared by all connections of its export. What was begun is carried to its end even where the
//! client is gone: a read-modify-write that were dropped in the midst would leave its write to race with the
//! next.

use super::protocol::{Command, Errno, Request, STATE_HOLE, STATE_ZERO, command_flag};
use super::{EXTENTS_MAX, REQUEST_BYTES_MAX};
use rt::sync::RwLock;
use rt::{DeviceRef, ExtentKind, IoError, IoErrorKind, SgList};
use stdx::{ByteCount, Offset};

/// Bytes that are read or written at a time where a request carries no data: caching, and zeros that must
/// take space. More is faster on fast disks; it is memory for as long as the request lasts.
const STEP_BYTES: u64 = 1 << 20;

/// Memory that an extent takes on its way to a client: as the device tells it, as a pair, as bytes.
const STATUS_BYTES: usize = size_of::<rt::Extent>() + size_of::<(u32, u32)>() + 8;

/// See the [module](self).
pub(crate) struct Volume {
    pub(crate) device: DeviceRef,
    pub(crate) capacity: u64,
    block: u64,
    /// Whole blocks share it, parts of blocks have it alone.
    edges: RwLock<()>,
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
}

impl Refusal {
    pub(crate) fn new(errno: Errno, text: &str) -> Refusal {
        Refusal { errno, text: text.to_owned() }
    }
}

impl From<IoError> for Refusal {
    fn from(error: IoError) -> Refusal {
        Refusal { errno: errno_of(error.kind), text: error.to_string() }
    }
}

fn errno_of(kind: IoErrorKind) -> Errno {
    match kind {
        IoErrorKind::NoSpace => Errno::NoSpace,
        IoErrorKind::ReadOnly | IoErrorKind::Locked => Errno::NotPermitted,
        IoErrorKind::Invalid | IoErrorKind::NotSupported => Errno::Invalid,
        _ => Errno::Io,
    }
}

impl Volume {
    pub(crate) fn new(device: DeviceRef) -> Volume {
        let geometry = device.geometry();
        Volume {
            capacity: geometry.capacity.bytes(),
            block: geometry.logical_block.bytes(),
            device,
            edges: RwLock::new(()),
        }
    }

    /// Bytes of memory that a request takes here, besides its own head.
    pub(crate) fn memory_for(&self, request: &Request) -> usize {
        let len = u64::from(request.len);
        let bytes = match request.command {
            Command::Read | Command::Write => {
                let whole =
                    request.offset.is_multiple_of(self.block) && len.is_multiple_of(self.block);
                len + if whole { 0 } else { 2 * self.block }
            }
            Command::Cache | Command::WriteZeroes => len.min(STEP_BYTES),
            Command::BlockStatus => (EXTENTS_MAX * STATUS_BYTES) as u64,
            _ => 0,
        };
        bytes as usize
    }

    /// Carries out a request that was checked; `payload` is a write's.
    pub(crate) async fn carry_out(
        &self,
        request: Request,
        payload: SgList,
    ) -> Result<Outcome, Refusal> {
        let (at, len) = (request.offset, u64::from(request.len));
        let fua = request.has(command_flag::FUA);
        match request.command {
            Command::Read => return Ok(Outcome::Data(self.read(at, len).await?)),
            Command::Write => self.write(at, payload, fua).await?,
            Command::Flush => self.flush().await?,
            Command::Trim => {
                self.trim(at, len).await?;
                self.flush_if(fua).await?;
            }
            Command::WriteZeroes => {
                self.zero(at, len, request.has(command_flag::NO_HOLE)).await?;
                self.flush_if(fua).await?;
            }
            Command::Cache => {
                for (at, len) in steps(at, len) {
                    self.read(at, len).await?;
                }
            }
            Command::BlockStatus => {
                let one = request.has(command_flag::REQ_ONE);
                return Ok(Outcome::Status(self.status(at, request.len, one).await?));
            }
            Command::Disconnect | Command::Unknown => {
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
        for (at, len) in steps(at, len) {
            self.write(at, SgList::zeros(len as usize), false).await?;
        }
        Ok(())
    }

    pub(crate) async fn flush(&self) -> Result<(), IoError> {
        self.device.submit(rt::Request::flush()).await.map(drop)
    }

    async fn flush_if(&self, fua: bool) -> Result<(), IoError> {
        if fua { self.flush().await } else { Ok(()) }
    }

    async fn status(&self, at: u64, len: u32, one: bool) -> Result<Vec<(u32, u32)>, Refusal> {
        let count_max = if one { 1 } else { EXTENTS_MAX };
        let found = self.device.extents(Offset(at), ByteCount(len.into()), count_max).await;
        let found = found.map_err(|kind| Refusal {
            errno: errno_of(kind),
            text: format!("{}: asking for holes: {kind}", self.device.name()),
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

/// A range in steps that are short, each on the grid of steps.
fn steps(at: u64, len: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = at + len;
    let mut at = at;
    std::iter::from_fn(move || {
        let to = (at + 1).next_multiple_of(STEP_BYTES).min(end);
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
