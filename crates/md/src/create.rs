//! What to write on devices to make them an array: superblocks 1.x, an empty bitmap, PPL or journal, an empty
//! bad-block log.
//!
//! Pure: from sizes and wishes to bytes at places. Where the data begins follows mdadm: room for the bitmap (4,
//! 64 or 128 KiB by the device's size) or the PPL (1 MiB), some headroom for later reshapes (a thousandth of the
//! device, at the most 128 MiB and at least two chunks), rounded up to a MiB. With 1.0 the data begins at 0 and
//! the rest lies between it and the superblock.
//!
//! The superblock of each device comes last in its list: until it is written, the device is no member.
//!
//! Source: mdadm `super1.c` (`validate_geometry1`, `choose_bm_space`, `write_init_super1`,
//! `add_internal_bitmap1`). Other than mdadm's, a new RAID 5 has no spare that is rebuilt: its parity is
//! resynchronised.

use crate::journal::log::bytes_min;
use crate::spec::{Level, MEMBERS_MAX};
use crate::superblock::bitmap::{BitmapSuperblock, Bits, chunk_for, sync_sectors};
use crate::superblock::journal::{BLOCK_BYTES, MetaBlock, seed};
use crate::superblock::place::Version;
use crate::superblock::ppl::{Header, signature};
use crate::superblock::v1::{BadBlockPlace, DEVICES_MAX, ReshapeFields, SuperblockV1};
use crate::superblock::{ALL_SECTORS, Features, Role, SECTOR, Stamp, Uuid, bad_blocks};
use stdx::{ByteCount, Offset};

/// Sectors of a MiB, the grid of data offsets.
const MIB_SECTORS: u64 = 2048;
/// Sectors of a partial parity log, which hold several records.
const PPL_SECTORS: u16 = 2048;
/// Sectors of a bad-block log.
const LOG_SECTORS: u16 = 8;
/// Sectors of the grid to which RAID 1 rounds its size: 64 KiB.
const MIRROR_GRID: u64 = 128;
/// Entries of the role table beyond the devices, so that spares have room.
const ROLES_MIN: usize = 128;

/// How an array that was not stopped cleanly is made consistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// By reading everything.
    Resync,
    /// By a write-intent bitmap.
    Bitmap,
    /// By a partial parity log (RAID 5).
    Ppl,
    /// By a journal (RAID 4, 5, 6), which is the last of the devices.
    Journal,
}

/// An array to be made.
#[derive(Clone, Debug)]
pub struct NewArray {
    /// 1.0, 1.1 or 1.2.
    pub version: Version,
    /// Level.
    pub level: Level,
    /// Layout, as md's number.
    pub layout: u32,
    /// Chunk; none for RAID 1.
    pub chunk: ByteCount,
    /// How much of each member is used, rounded down to chunks; all of the smallest where none is wished.
    pub size: Option<ByteCount>,
    /// Where data begins on each member, a multiple of 4 KiB; where mdadm would put it, where none is wished.
    pub data_offset: Option<ByteCount>,
    /// Consistency policy.
    pub policy: Policy,
    /// The stretch of a bitmap's bit; 64 MiB, or what the room asks for, where none is wished.
    pub bitmap_chunk: Option<ByteCount>,
    /// The set's name.
    pub name: String,
    /// The set's identity.
    pub set_uuid: Uuid,
    /// Now.
    pub created: Stamp,
    /// Whether parity and copies are taken to be right.
    pub assume_clean: bool,
    /// Slots.
    pub slots: usize,
}

/// A device to be made a member: the first `slots` are members, the rest spares, the last the journal where there
/// is one.
#[derive(Clone, Copy, Debug)]
pub struct NewDevice {
    /// Its size.
    pub capacity: ByteCount,
    /// Its identity.
    pub uuid: Uuid,
}

/// Why an array can't be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the texts name")]
pub enum CreateError {
    #[error("metadata 0.90 is only read: create with 1.2, 1.1 or 1.0")]
    Version,
    #[error("{level} does not keep a {what}: leave it out")]
    Policy { level: Level, what: &'static str },
    #[error(
        "a bitmap with a bit for each {given} does not fit or is not possible: give a power of two from {least} on"
    )]
    BitmapChunk { given: ByteCount, least: ByteCount },
    #[error("{level} uses all of its members: leave the size out")]
    NoSize { level: Level },
    #[error("{given} of each member can't be used: give a chunk at least, and {most} at the most")]
    Size { given: ByteCount, most: ByteCount },
    #[error(
        "data can't begin at {given}: give a multiple of 4 KiB, from {least} on for what lies before it; with metadata 1.0 nothing does"
    )]
    DataOffset { given: ByteCount, least: ByteCount },
    #[error("a journal is the last of the devices, behind the members: name one")]
    NoJournal,
    #[error("the journal has {capacity}, and rows of this array take {least}: use a larger device")]
    JournalSmall { capacity: ByteCount, least: ByteCount },
    #[error("a journal keeps pages of 4 KiB: give a chunk of whole pages")]
    JournalChunk,
    #[error("a PPL with metadata 1.0 is not supported: create with 1.2 or 1.1")]
    PplVersion,
    #[error("{given} devices: a superblock lists {DEVICES_MAX} at the most")]
    TooMany { given: usize },
    #[error("{given} members: a set has {MEMBERS_MAX} at the most; nest sets instead")]
    TooManySlots { given: usize },
    #[error("no device is there: give at least one that is not 'missing'")]
    Nobody,
    #[error("device {index} has {capacity}, too little for metadata and a chunk: use a larger one")]
    TooSmall { index: usize, capacity: ByteCount },
    #[error(
        "{level} with {missing} missing would be dirty and degraded: give all members, or add --assume-clean"
    )]
    DirtyDegraded { level: Level, missing: usize },
}

/// Bytes to be written at a place of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where.
    pub at: Offset,
    /// What.
    pub bytes: Vec<u8>,
}

/// What a new array comes to.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The pieces of each device that is there, in the order in which they are to be written.
    pub pieces: Vec<Option<Vec<Piece>>>,
    /// Sectors of each member that hold data; 0 for linear and RAID 0.
    pub size: u64,
    /// Where the data begins, in sectors.
    pub data_offset: u64,
}

/// Sectors for the superblock, where it lies behind the first 4 KiB, and for the list of bad blocks.
const BEFORE_DATA_SECTORS: u64 = 24;

/// Sectors that are kept for a bitmap on a device of so many sectors.
fn bitmap_space(sectors: u64) -> u64 {
    match sectors {
        0..128 => 0,
        sectors if sectors - 128 >= 200 << 21 => 256,
        sectors if sectors - 8 > 8 << 21 => 128,
        _ => 8,
    }
}

impl NewArray {
    /// What is to be written. `devices` are the slots in order, then spares, then the journal; `None` is missing.
    ///
    /// # Errors
    /// Why there can be no such array.
    pub fn plan(&self, devices: &[Option<NewDevice>]) -> Result<Plan, CreateError> {
        self.check(devices)?;
        let there = || devices.iter().take(self.journal_of(devices)).flatten();
        let smallest = there().map(|device| device.capacity.bytes() / SECTOR).min();
        let smallest = smallest.ok_or(CreateError::Nobody)?;
        let chunk = if self.level == Level::Raid1 { 0 } else { self.chunk.bytes() / SECTOR };
        let (data_offset, space) = self.data_offset(smallest, chunk)?;
        // How much of each can hold data.
        let mut rooms = Vec::new();
        for (index, device) in devices.iter().enumerate() {
            let Some(device) = device else {
                rooms.push(None);
                continue;
            };
            let too_small = CreateError::TooSmall { index, capacity: device.capacity };
            let place = self.version.place(device.capacity).map(|at| at.bytes() / SECTOR);
            let place = place.ok_or(too_small.clone())?;
            let room = match self.version {
                Version::V10 => place.checked_sub(space + u64::from(LOG_SECTORS)),
                _ => (device.capacity.bytes() / SECTOR).checked_sub(data_offset),
            };
            let room = room.filter(|room| *room >= chunk.max(8)).ok_or(too_small)?;
            rooms.push(Some((place, room)));
        }
        let redundant = !matches!(self.level, Level::Linear | Level::Raid0);
        let members = rooms.iter().take(self.journal_of(devices));
        let room = members.flatten().map(|(_, room)| *room).min();
        if self.policy == Policy::Journal {
            let (_, room) = rooms.last().copied().flatten().ok_or(CreateError::NoJournal)?;
            let least = bytes_min(self.chunk.bytes(), self.slots as u64);
            let capacity = ByteCount(room * SECTOR);
            if capacity < least {
                return Err(CreateError::JournalSmall { capacity, least });
            }
        }
        let size = match self.wished_size(room.unwrap_or(0), chunk.max(8))?.or(room) {
            Some(room) if redundant => {
                let grid = if chunk == 0 { MIRROR_GRID } else { chunk };
                if room < grid { room & !7 } else { room - room % grid }
            }
            _ => 0,
        };
        if self.policy == Policy::Bitmap {
            self.bitmap_chunk_of(size, space)?;
        }
        let numbered = devices.iter().zip(rooms).enumerate();
        let pieces = numbered.map(|(number, (device, room))| {
            let (device, (place, room)) = (device.as_ref()?, room?);
            let geometry = Geometry { data_offset, size, space, place, room, chunk };
            Some(self.pieces(devices, number, device, &geometry))
        });
        Ok(Plan { pieces: pieces.collect(), size, data_offset })
    }

    /// Where data begins, and how much of what lies before it is for a bitmap or PPL, in sectors.
    fn data_offset(&self, smallest: u64, chunk: u64) -> Result<(u64, u64), CreateError> {
        let space = match self.policy {
            Policy::Ppl => u64::from(PPL_SECTORS),
            _ => bitmap_space(smallest),
        };
        let Some(given) = self.data_offset else {
            if self.version == Version::V10 {
                return Ok((0, space));
            }
            let mut headroom: u64 = 128 << 11;
            while headroom << 10 > smallest && (chunk == 0 || headroom > chunk * 2) && headroom > 0
            {
                headroom >>= 1;
            }
            return Ok(((24 + space + headroom).next_multiple_of(MIB_SECTORS), space));
        };
        let kept = match self.policy {
            Policy::Ppl => space,
            Policy::Bitmap => 8,
            _ => 0,
        };
        let least = BEFORE_DATA_SECTORS + kept;
        let sectors = given.bytes() / SECTOR;
        let is_whole = given.bytes().is_multiple_of(8 * SECTOR);
        if self.version == Version::V10 || !is_whole || sectors < least {
            return Err(CreateError::DataOffset { given, least: ByteCount(least * SECTOR) });
        }
        Ok((sectors, space.min(sectors - BEFORE_DATA_SECTORS)))
    }

    /// The number of the journal, or of devices where there is none.
    fn journal_of(&self, devices: &[Option<NewDevice>]) -> usize {
        devices.len() - usize::from(self.policy == Policy::Journal && !devices.is_empty())
    }

    /// Sectors of each member that are wished for, of those that there are.
    fn wished_size(&self, room: u64, least: u64) -> Result<Option<u64>, CreateError> {
        let Some(given) = self.size else { return Ok(None) };
        if matches!(self.level, Level::Linear | Level::Raid0) {
            return Err(CreateError::NoSize { level: self.level });
        }
        let sectors = given.bytes() / SECTOR;
        if sectors < least || sectors > room {
            return Err(CreateError::Size { given, most: ByteCount(room * SECTOR) });
        }
        Ok(Some(sectors))
    }

    /// Sectors that a bitmap's bits divide.
    fn sync_sectors(&self, size: u64) -> u64 {
        let chunk = self.chunk.bytes() / SECTOR;
        sync_sectors(self.level, self.layout, chunk, self.slots as u64, size)
    }

    /// How much a bit of the bitmap stands for, in bytes.
    fn bitmap_chunk_of(&self, size: u64, space: u64) -> Result<u32, CreateError> {
        let given = self.bitmap_chunk.unwrap_or_default();
        let chunk = chunk_for(self.sync_sectors(size), space, self.bitmap_chunk);
        chunk.map_err(|least| CreateError::BitmapChunk { given, least })
    }

    fn check(&self, devices: &[Option<NewDevice>]) -> Result<(), CreateError> {
        let level = self.level;
        let redundant = !matches!(level, Level::Linear | Level::Raid0);
        if self.version == Version::V090 {
            return Err(CreateError::Version);
        }
        match self.policy {
            Policy::Bitmap if !redundant => {
                return Err(CreateError::Policy { level, what: "bitmap" });
            }
            Policy::Ppl if level != Level::Raid5 => {
                return Err(CreateError::Policy { level, what: "PPL" });
            }
            Policy::Ppl if self.version == Version::V10 => return Err(CreateError::PplVersion),
            Policy::Journal if level.parities() == 0 => {
                return Err(CreateError::Policy { level, what: "journal" });
            }
            Policy::Journal if devices.len() <= self.slots => return Err(CreateError::NoJournal),
            Policy::Journal if !self.chunk.bytes().is_multiple_of(BLOCK_BYTES as u64) => {
                return Err(CreateError::JournalChunk);
            }
            _ => {}
        }
        if devices.len() > DEVICES_MAX {
            return Err(CreateError::TooMany { given: devices.len() });
        }
        if self.slots > MEMBERS_MAX {
            return Err(CreateError::TooManySlots { given: self.slots });
        }
        let missing = devices.iter().take(self.slots).filter(|device| device.is_none()).count();
        // With all redundancy missing there is no parity that could be wrong.
        let all_gone = missing == level.parities();
        if level.parities() > 0 && missing > 0 && !all_gone && !self.assume_clean {
            return Err(CreateError::DirtyDegraded { level, missing });
        }
        Ok(())
    }

    fn pieces(
        &self,
        devices: &[Option<NewDevice>],
        number: usize,
        device: &NewDevice,
        geometry: &Geometry,
    ) -> Vec<Piece> {
        let redundant = !matches!(self.level, Level::Linear | Level::Raid0);
        let missing = devices.iter().take(self.slots).any(Option::is_none);
        let clean = self.assume_clean || !redundant || missing && self.level.parities() > 0;
        let at = |offset: i64| {
            Offset(geometry.place.saturating_add_signed(offset).saturating_mul(SECTOR))
        };
        let (space, log) = (geometry.space as i64, i64::from(LOG_SECTORS));
        // Behind the superblock: bitmap or PPL, then the log. With 1.0 before it, in reverse.
        let (space_at, log_at) = match self.version {
            Version::V10 => (-log - space, -log),
            _ if redundant => (8, 8 + space),
            _ => (8, 8),
        };
        let mut features = Features::NONE;
        let mut pieces = Vec::new();
        let mut bitmap_or_ppl = [0; 4];
        match self.policy {
            Policy::Resync => {}
            Policy::Bitmap => {
                features = features | Features::BITMAP;
                bitmap_or_ppl = (space_at as i32).to_le_bytes();
                pieces.push(Piece { at: at(space_at), bytes: self.bitmap(geometry, clean) });
            }
            Policy::Ppl => {
                features = features | Features::PPL;
                bitmap_or_ppl = SuperblockV1::ppl_field(space_at as i16, PPL_SECTORS);
                let signature = signature(self.set_uuid);
                let header = Header { signature, generation: 0, entries: Vec::new() };
                let bytes = header.encode().unwrap_or_default();
                pieces.push(Piece { at: at(space_at), bytes });
            }
            Policy::Journal => {
                features = features | Features::JOURNAL;
                if number == self.journal_of(devices) {
                    let [a, b, c, d, ..] = device.uuid.0;
                    let sequence = u64::from(u32::from_le_bytes([a, b, c, d]));
                    let first = MetaBlock { sequence, position: 0, payloads: Vec::new() };
                    let at = Offset(geometry.data_offset * SECTOR);
                    pieces.push(Piece { at, bytes: first.encode(seed(self.set_uuid)) });
                }
            }
        }
        if self.level == Level::Raid0 {
            features = features | Features::RAID0_LAYOUT;
        }
        if let Ok(bytes) = bad_blocks::encode(&[], LOG_SECTORS) {
            pieces.push(Piece { at: at(log_at), bytes });
        }
        let journal = self.journal_of(devices);
        let role = |number: usize| match devices.get(number) {
            Some(Some(_)) if number == journal => Role::Journal,
            Some(Some(_)) if number < self.slots => Role::Slot(number as u16),
            _ => Role::Spare,
        };
        let mut set_name = [0; 32];
        // 31 bytes and a zero, as mdadm keeps it.
        set_name.iter_mut().take(31).zip(self.name.bytes()).for_each(|(to, byte)| *to = byte);
        let level = match self.level {
            Level::Linear => -1,
            Level::Raid0 => 0,
            Level::Raid1 => 1,
            Level::Raid4 => 4,
            Level::Raid5 => 5,
            Level::Raid6 => 6,
            Level::Raid10 => 10,
        };
        let superblock = SuperblockV1 {
            features,
            set_uuid: self.set_uuid,
            set_name,
            created: self.created,
            level,
            layout: self.layout,
            size: geometry.size,
            chunk: geometry.chunk as u32,
            slots: self.slots as u32,
            bitmap_or_ppl,
            reshape: ReshapeFields::default(),
            data_offset: geometry.data_offset,
            data_size: geometry.room,
            super_offset: geometry.place,
            recovery_offset: 0,
            device_number: number as u32,
            corrected_reads: 0,
            device_uuid: device.uuid,
            flags: 0,
            bad_blocks: BadBlockPlace { shift: 0, sectors: LOG_SECTORS, offset: log_at as i32 },
            updated: self.created,
            events: 0,
            resync_offset: if clean { ALL_SECTORS } else { 0 },
            roles: (0..devices.len().max(ROLES_MIN)).map(role).collect(),
        };
        pieces.push(Piece { at: at(0), bytes: superblock.encode() });
        pieces
    }

    /// A bitmap with every bit set, or none where the array is clean.
    fn bitmap(&self, geometry: &Geometry, clean: bool) -> Vec<u8> {
        let sync_sectors = self.sync_sectors(geometry.size);
        let chunk = self.bitmap_chunk_of(geometry.size, geometry.space);
        let superblock = BitmapSuperblock {
            set_uuid: self.set_uuid,
            events: 0,
            events_cleared: 0,
            sync_sectors,
            state: 0,
            chunk_bytes: chunk.expect("it was checked"),
            daemon_sleep_s: 5,
            write_behind: 0,
            sectors_reserved: geometry.space as u32,
        };
        let mut bytes = superblock.encode();
        bytes.extend_from_slice(Bits::new(superblock.bits(), !clean).bytes());
        bytes.resize(bytes.len().next_multiple_of(4096), 0);
        bytes
    }
}

/// Sectors of one device.
struct Geometry {
    data_offset: u64,
    size: u64,
    space: u64,
    place: u64,
    room: u64,
    chunk: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(level: Level, chunk_kib: u64) -> NewArray {
        NewArray {
            version: Version::V12,
            level,
            layout: 2,
            chunk: ByteCount::kib(chunk_kib),
            size: None,
            data_offset: None,
            policy: Policy::Resync,
            bitmap_chunk: None,
            name: "host:new".to_owned(),
            set_uuid: Uuid([3; 16]),
            created: Stamp::from_seconds(1_800_000_000),
            assume_clean: false,
            slots: 3,
        }
    }

    fn devices(mib: &[u64]) -> Vec<Option<NewDevice>> {
        let device =
            |mib: &u64| NewDevice { capacity: ByteCount::mib(*mib), uuid: Uuid([*mib as u8; 16]) };
        mib.iter().map(|mib| Some(device(mib))).collect()
    }

    /// The fixtures of the real mdadm have these.
    #[test]
    fn data_begins_where_mdadm_begins_it() {
        let offset = |new: NewArray, mib: &[u64]| {
            let plan = new.plan(&devices(mib)).expect("fits");
            (plan.data_offset, plan.size)
        };
        assert_eq!(offset(new(Level::Raid5, 64), &[64, 64, 64]), (2048, 129_024));
        assert_eq!(offset(new(Level::Raid0, 512), &[40, 64, 96]), (4096, 0));
        assert_eq!(offset(new(Level::Raid1, 0), &[64, 64, 64]), (2048, 129_024));
        let ppl = NewArray { policy: Policy::Ppl, ..new(Level::Raid5, 64) };
        assert_eq!(offset(ppl, &[40, 40, 40]), (4096, 77_824));
        let old = NewArray { version: Version::V10, ..new(Level::Raid1, 0) };
        assert_eq!(offset(old, &[48, 48, 48]), (0, 98_176));
    }

    #[test]
    fn what_is_written_reads_back_and_pieces_do_not_overlap() {
        for version in [Version::V10, Version::V11, Version::V12] {
            for policy in [Policy::Resync, Policy::Bitmap, Policy::Ppl, Policy::Journal] {
                let new = NewArray { version, policy, ..new(Level::Raid5, 64) };
                let Ok(plan) = new.plan(&devices(&[48, 48, 50, 60])) else {
                    assert_eq!((version, policy), (Version::V10, Policy::Ppl));
                    continue;
                };
                for (number, pieces) in plan.pieces.iter().flatten().enumerate() {
                    let last = pieces.last().expect("a superblock");
                    let sb = SuperblockV1::decode(&last.bytes).expect("decodes");
                    assert_eq!((sb.version(), sb.device_number), (version, number as u32));
                    let role = match number {
                        0..3 => Role::Slot(number as u16),
                        _ if policy == Policy::Journal => Role::Journal,
                        _ => Role::Spare,
                    };
                    assert_eq!((sb.role(), sb.is_clean()), (Some(role), false));
                    let data = sb.data_offset * 512..(sb.data_offset + sb.data_size) * 512;
                    // A journal's first block lies where members have data.
                    let start = data.start;
                    let mut taken: Vec<_> = pieces
                        .iter()
                        .filter(|piece| piece.at.bytes() != start)
                        .map(|piece| piece.at.bytes()..piece.at.bytes() + piece.bytes.len() as u64)
                        .chain([data])
                        .collect();
                    taken.sort_unstable_by_key(|range| range.start);
                    assert!(taken.windows(2).all(|pair| pair[0].end <= pair[1].start), "{taken:?}");
                }
            }
        }
    }

    #[test]
    fn what_can_not_be_is_refused_with_its_mend() {
        let text = |new: NewArray, devices: &[Option<NewDevice>]| {
            new.plan(devices).expect_err("refused").to_string()
        };
        let ppl = NewArray { policy: Policy::Ppl, ..new(Level::Raid6, 64) };
        assert!(text(ppl, &devices(&[48; 4])).contains("raid6 does not keep a PPL"));
        let journal = |level| NewArray { policy: Policy::Journal, ..new(level, 64) };
        assert!(
            text(journal(Level::Raid1), &devices(&[48; 4])).contains("does not keep a journal")
        );
        assert!(text(journal(Level::Raid5), &devices(&[48; 3])).contains("name one"));
        let wide = NewArray { chunk: ByteCount::kib(256), ..journal(Level::Raid5) };
        assert!(text(wide, &devices(&[48, 48, 48, 2])).contains("a larger device"));
        let odd = NewArray { chunk: ByteCount(2048), ..journal(Level::Raid5) };
        assert!(text(odd, &devices(&[48; 4])).contains("whole pages"));
        assert!(text(new(Level::Raid5, 64), &devices(&[1, 48, 48])).contains("device 0"));
        let mut some = devices(&[48; 4]);
        some[1] = None;
        let six = NewArray { slots: 4, ..new(Level::Raid6, 64) };
        assert!(text(six, &some).contains("--assume-clean"));
        let size = |kib| NewArray { size: Some(ByteCount::kib(kib)), ..new(Level::Raid5, 64) };
        assert!(text(size(48 << 10), &devices(&[48; 3])).contains("at the most"));
        let plan = size(10_000).plan(&devices(&[48; 3])).expect("fits");
        assert_eq!(plan.size, 9984 * 2, "rounded down to chunks");
        let chunk = |kib| NewArray {
            policy: Policy::Bitmap,
            bitmap_chunk: Some(ByteCount::kib(kib)),
            ..new(Level::Raid5, 64)
        };
        assert!(text(chunk(6), &devices(&[48; 3])).contains("power of two from 4 KiB"));
        chunk(4).plan(&devices(&[48; 3])).expect("fits");
        assert!(text(new(Level::Raid5, 64), &[None, None, None]).contains("missing"));
    }
}
