//! The internal write-intent bitmap: which stretches of an array may differ between its members.
//!
//! A superblock of 256 bytes, and behind it one bit for each stretch of `chunk_bytes`, least significant
//! bit first. A bit is set before the stretch is written and cleared some time after all members have it.
//! The array divides into `sync_sectors`: the data area of one member for RAID 1, 4, 5 and 6, the whole
//! array for RAID 10. Every member has a copy.
//!
//! ```text
//! byte 0  magic "bitm"   4  version 4    8  UUID of the set (16 bytes)
//!     24  events         32 events when a bit was last cleared   40  sync_sectors
//!     48  state: bit 1 stale, bit 2 write error                  52  chunk_bytes
//!     56  seconds between clearings      60  write-behind limit
//!     64  sectors reserved               68  nodes of a cluster
//! ```
//!
//! Version 3 counts bits in the writer's byte order and version 5 belongs to clusters, version 6 is the
//! lockless bitmap (a byte a stretch): all refused by name. No checksum covers any of it, so a decoder checks ranges,
//! and the reader the UUID. Source: Linux `drivers/md/md-bitmap.h`, `md-bitmap.c`.

use super::uuid::Uuid;
use crate::spec::Level;
use stdx::ByteCount;
use stdx::bytes::{FormatError, Problem, Reader, put};

/// What errors call it.
const STRUCTURE: &str = "write-intent bitmap";

/// Bytes of the superblock; the bits follow.
pub const SUPERBLOCK_BYTES: usize = 256;
/// "bitm".
const MAGIC: u32 = 0x6d74_6962;
const VERSION: u32 = 4;
/// The bitmap is out of date: everything is to be resynchronised.
pub const STATE_STALE: u32 = 2;
/// A write of the bitmap failed.
pub const STATE_WRITE_ERROR: u32 = 4;
/// The smallest stretch: a sector, which is what md's own limit comes to.
const CHUNK_MIN: u32 = 512;
/// The stretch of a new bitmap's bit where nobody wishes for another: mdadm's.
const CHUNK_DEFAULT: u64 = 64 << 20;
/// The smallest stretch of a new bitmap's bit: a page, as mdadm takes it.
const CHUNK_NEW_MIN: u64 = 4096;
/// The longest stretch of a bit: the largest power of two that the field holds.
pub(crate) const CHUNK_MAX: u32 = 1 << 31;
/// The most bits Spindle reads, 16 MiB of them: md's files are 4 KiB to some hundred KiB.
pub const BITS_MAX: u64 = 1 << 27;

/// How many sectors the bits of a set divide: those of a member, in RAID 10 those of the set, as md counts its chunks.
/// `layout`, `chunk` and `size` as superblocks have them.
pub(crate) fn sync_sectors(level: Level, layout: u32, chunk: u64, slots: u64, size: u64) -> u64 {
    if level != Level::Raid10 {
        return size;
    }
    let (near, far) = (u64::from(layout & 255).max(1), u64::from(layout >> 8 & 255).max(1));
    let chunk = chunk.max(1);
    (size / chunk / far).saturating_mul(slots) / near * chunk
}

/// The least stretch of a bit with which a bitmap fits so many sectors.
pub(crate) fn chunk_least(sync_sectors: u64, room: u64) -> u64 {
    let bits_max = room.saturating_mul(512).saturating_sub(SUPERBLOCK_BYTES as u64) * 8;
    let mut chunk = CHUNK_NEW_MIN;
    while sync_sectors.div_ceil(chunk / 512) > bits_max && chunk < u64::from(CHUNK_MAX) {
        chunk *= 2;
    }
    chunk
}

/// The stretch of a new bitmap's bit in so many sectors, in bytes: the one that is wished, or the default where that
/// fits.
///
/// # Errors
/// The least that is possible, where the one that is wished is not.
pub(crate) fn chunk_for(
    sync_sectors: u64,
    room: u64,
    wished: Option<ByteCount>,
) -> Result<u32, ByteCount> {
    let least = chunk_least(sync_sectors, room);
    let chunk = wished.map_or(CHUNK_DEFAULT.max(least), ByteCount::bytes);
    let is_possible = (least..=u64::from(CHUNK_MAX)).contains(&chunk) && chunk.is_power_of_two();
    u32::try_from(chunk).ok().filter(|_| is_possible).ok_or(ByteCount(least))
}

/// The bitmap's superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BitmapSuperblock {
    /// The array's identity.
    pub set_uuid: Uuid,
    /// The array's events when it was written.
    pub events: u64,
    /// The array's events when a bit was last cleared: a member that is older than this can't be caught
    /// up by the bitmap.
    pub events_cleared: u64,
    /// Sectors of what the bits divide.
    pub sync_sectors: u64,
    /// [`STATE_STALE`], [`STATE_WRITE_ERROR`].
    pub state: u32,
    /// Bytes of a stretch, a power of two.
    pub chunk_bytes: u32,
    /// Seconds between clearings.
    pub daemon_sleep_s: u32,
    /// Writes that write-mostly members may lag behind; 0 is off.
    pub write_behind: u32,
    /// Sectors that are reserved for the bitmap; 0 where nobody said.
    pub sectors_reserved: u32,
}

impl BitmapSuperblock {
    /// Reads the superblock.
    ///
    /// # Errors
    /// Which field is wrong, and how.
    pub fn decode(bytes: &[u8]) -> Result<BitmapSuperblock, FormatError> {
        let fields = Reader::little(STRUCTURE, bytes);
        fields.magic_at("magic", 0, &MAGIC.to_le_bytes())?;
        let version = fields.get_at::<u32>("version", 4)?;
        let refuse = |name| Err(fields.wrong_at("version", 4, Problem::Unsupported(name)));
        match version {
            VERSION => {}
            3 => return refuse("a bitmap in the writer's byte order (version 3)"),
            5 => return refuse("a clustered bitmap (version 5)"),
            6 => return refuse("a lockless bitmap, llbitmap (version 6)"),
            other => fields.within("version", 4, u64::from(other), 4, 4)?,
        }
        let nodes = fields.get_at::<u32>("nodes", 68)?;
        if nodes != 0 {
            return Err(fields.wrong_at("nodes", 68, Problem::Unsupported("a clustered bitmap")));
        }
        let chunk_bytes = fields.get_at::<u32>("chunksize", 52)?;
        fields.within("chunksize", 52, u64::from(chunk_bytes), CHUNK_MIN, 1 << 31)?;
        if !chunk_bytes.is_power_of_two() {
            let problem = Problem::Contradiction("not a power of two");
            return Err(fields.wrong_at("chunksize", 52, problem));
        }
        let state = fields.get_at::<u32>("state", 48)?;
        let unknown = state & !(STATE_STALE | STATE_WRITE_ERROR);
        if unknown != 0 {
            return Err(fields.wrong_at("state", 48, Problem::UnknownBits(u64::from(unknown))));
        }
        let superblock = BitmapSuperblock {
            set_uuid: Uuid(fields.array_at("uuid", 8)?),
            events: fields.get_at::<u64>("events", 24)?,
            events_cleared: fields.get_at::<u64>("events_cleared", 32)?,
            sync_sectors: fields.get_at::<u64>("sync_size", 40)?,
            state,
            chunk_bytes,
            daemon_sleep_s: fields.get_at::<u32>("daemon_sleep", 56)?,
            write_behind: fields.get_at::<u32>("write_behind", 60)?,
            sectors_reserved: fields.get_at::<u32>("sectors_reserved", 64)?,
        };
        let most = BITS_MAX * u64::from(chunk_bytes / 512);
        fields.within("sync_size", 40, superblock.sync_sectors, 0, most)?;
        Ok(superblock)
    }

    /// Writes the superblock: [`SUPERBLOCK_BYTES`] bytes.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.chunk_bytes.is_power_of_two(), "a bit stands for a power of two");
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        put(&mut bytes, 0, &MAGIC.to_le_bytes());
        put(&mut bytes, 4, &VERSION.to_le_bytes());
        put(&mut bytes, 8, &self.set_uuid.0);
        put(&mut bytes, 24, &self.events.to_le_bytes());
        put(&mut bytes, 32, &self.events_cleared.to_le_bytes());
        put(&mut bytes, 40, &self.sync_sectors.to_le_bytes());
        put(&mut bytes, 48, &self.state.to_le_bytes());
        put(&mut bytes, 52, &self.chunk_bytes.to_le_bytes());
        put(&mut bytes, 56, &self.daemon_sleep_s.to_le_bytes());
        put(&mut bytes, 60, &self.write_behind.to_le_bytes());
        put(&mut bytes, 64, &self.sectors_reserved.to_le_bytes());
        bytes
    }

    /// How many bits there are.
    pub fn bits(&self) -> u64 {
        self.sync_sectors.div_ceil(u64::from(self.chunk_bytes / 512).max(1))
    }

    /// Bytes of superblock and bits together.
    pub fn total_bytes(&self) -> u64 {
        SUPERBLOCK_BYTES as u64 + self.bits().div_ceil(8)
    }
}

/// The bits of a bitmap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bits {
    bytes: Vec<u8>,
    count: u64,
}

impl Bits {
    /// So many bits, all clear or all set.
    pub fn new(count: u64, set: bool) -> Bits {
        let mut bits = Bits { bytes: vec![0; count.div_ceil(8) as usize], count };
        if set {
            (0..count).for_each(|bit| bits.set(bit, true));
        }
        bits
    }

    /// The bits that follow a superblock. Bits beyond the last one are not looked at.
    ///
    /// # Errors
    /// Where there are fewer bytes than bits need.
    pub fn decode(superblock: &BitmapSuperblock, behind: &[u8]) -> Result<Bits, FormatError> {
        let count = superblock.bits();
        let needed = count.div_ceil(8) as usize;
        let bytes = behind.get(..needed).ok_or(FormatError {
            structure: STRUCTURE,
            field: "bits",
            offset: SUPERBLOCK_BYTES + behind.len(),
            problem: Problem::Short,
        })?;
        Ok(Bits { bytes: bytes.to_vec(), count })
    }

    /// The bits as they lie on disk.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many bits.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether a bit is set; bits beyond the end are not.
    pub fn get(&self, bit: u64) -> bool {
        let byte = usize::try_from(bit / 8).ok().and_then(|at| self.bytes.get(at));
        bit < self.count && byte.is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
    }

    /// Sets or clears a bit; bits beyond the end are left alone.
    pub fn set(&mut self, bit: u64, value: bool) {
        if bit >= self.count {
            return;
        }
        if let Some(byte) = self.bytes.get_mut((bit / 8) as usize) {
            let mask = 1 << (bit % 8);
            *byte = if value { *byte | mask } else { *byte & !mask };
        }
    }

    /// The bits that are set, in order.
    pub fn set_bits(&self) -> impl Iterator<Item = u64> {
        let within = |(at, byte): (usize, &u8)| {
            let (at, byte) = (at as u64 * 8, *byte);
            (0..8).filter(move |bit| byte >> bit & 1 == 1).map(move |bit| at + bit)
        };
        let bytes = self.bytes.iter().enumerate().filter(|(_, byte)| **byte != 0);
        bytes.flat_map(within).take_while(|bit| *bit < self.count)
    }

    /// Sets every bit that is set in `other`.
    pub fn join(&mut self, other: &Bits) {
        self.bytes.iter_mut().zip(&other.bytes).for_each(|(own, other)| *own |= other);
    }

    /// How many bits are set.
    pub fn dirty(&self) -> u64 {
        let all: u64 = self.bytes.iter().map(|byte| u64::from(byte.count_ones())).sum();
        let beyond = (self.count..self.bytes.len() as u64 * 8)
            .filter(|bit| self.bytes.last().is_some_and(|byte| byte >> (bit % 8) & 1 == 1));
        all - beyond.count() as u64
    }
}
