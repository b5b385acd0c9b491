//! Superblock 1.0, 1.1 and 1.2: one format in three [places](super::place).
//!
//! ```text
//! byte   0 magic u32   4 major u32 = 1   8 feature map u32   12 zero u32
//!       16 set UUID   32 name, 32 bytes  64 created u64      72 level i32    76 layout u32
//!       80 size u64   88 chunk u32       92 slots u32        96 bitmap offset i32, or PPL offset i16, size u16
//!      100 new level i32   104 reshape position u64   112 delta slots i32   116 new layout u32
//!      120 new chunk u32   124 new offset i32
//!      128 data offset u64 136 data size u64   144 superblock's own sector u64
//!      152 recovery offset u64, or the journal's tail
//!      160 number of this device u32   164 corrected reads u32   168 device UUID
//!      184 flags u8   185 bad-block shift u8   186 bad-block sectors u16   188 bad-block offset i32
//!      192 updated u64   200 events u64   208 resync offset u64   216 checksum u32   220 roles' number u32
//!      224 zero, 32 bytes                 256 roles, u16 each, by number of device
//! ```
//!
//! All little-endian; places and lengths in 512-byte sectors. The checksum covers everything up to the last
//! role. Fields that count only with a feature keep what they hold without it, so that a superblock that is
//! written again loses nothing. The 32 bytes that are zero are where new fields appear (Linux 6.19 puts the
//! logical block size there): anything in them is refused, because its meaning is not known.
//!
//! Source: Linux `include/uapi/linux/raid/md_p.h`, `drivers/md/md.c` (`super_1_load`, `super_1_sync`).

use super::features::Features;
use super::place::Version;
use super::role::Role;
use super::stamp::Stamp;
use super::uuid::Uuid;
use super::word_sum::word_sum;
use super::{ALL_SECTORS, MAGIC, SECTOR, SUPERBLOCK_BYTES};
use stdx::ByteCount;
use stdx::bytes::{FormatError, Problem, Reader, put};

/// What errors call it.
pub(crate) const STRUCTURE: &str = "md superblock 1.x";

/// Where the roles begin.
const ROLES_AT: usize = 256;
const CHECKSUM_AT: usize = 216;
/// The most devices: what fits behind the fixed part. Numbers of devices are below it, and there are no more slots.
pub const DEVICES_MAX: usize = (SUPERBLOCK_BYTES - ROLES_AT) / 2;
/// The most sectors of a device: what fits 63 bits of bytes, so that sums do not overflow.
pub const SECTORS_MAX: u64 = 1 << 54;
/// The most events. No set comes to so many. A superblock that says more is refused: one member would make all others
/// old for ever.
pub const EVENTS_MAX: u64 = 1 << 63;
/// The most events of a set that is written: no life counts from here to [`EVENTS_MAX`], so the count never wraps, and
/// what is written can be read.
pub const EVENTS_WRITTEN_MAX: u64 = EVENTS_MAX / 2;
/// Flag of a device that is read only where there is no other.
pub const FLAG_WRITE_MOSTLY: u8 = 1;
/// Flag of a device whose errors are not retried.
pub const FLAG_FAIL_FAST: u8 = 2;

/// The fields of a reshape. They count with [`Features::RESHAPE_ACTIVE`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReshapeFields {
    /// Level afterwards, as md's number.
    pub new_level: i32,
    /// How far it is: a sector of the array.
    pub position: u64,
    /// Slots afterwards less slots before.
    pub delta_slots: i32,
    /// Layout afterwards, as md's number.
    pub new_layout: u32,
    /// Chunk afterwards, in sectors.
    pub new_chunk: u32,
    /// Sectors to add to the data offset afterwards; counts with [`Features::NEW_OFFSET`].
    pub new_offset: i32,
}

/// Where the bad-block log is, in sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BadBlockPlace {
    /// Entries are in units of `512 << shift` bytes.
    pub shift: u8,
    /// How many sectors are reserved; 0 is none.
    pub sectors: u16,
    /// From the superblock.
    pub offset: i32,
}

/// Superblock 1.x. Places and lengths are in 512-byte sectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuperblockV1 {
    /// Optional fields that count.
    pub features: Features,
    /// The array's identity.
    pub set_uuid: Uuid,
    /// The array's name, padded with zeros; mdadm writes `HOST:NAME`.
    pub set_name: [u8; 32],
    /// When the array was created.
    pub created: Stamp,
    /// Level, as md's number.
    pub level: i32,
    /// Layout, as md's number.
    pub layout: u32,
    /// How much of each device's data area is used; 0 for linear and RAID 0.
    pub size: u64,
    /// Sectors of a chunk.
    pub chunk: u32,
    /// Slots.
    pub slots: u32,
    /// The bitmap's or PPL's place, as it lies there: see [`bitmap_offset`](Self::bitmap_offset), [`ppl`](Self::ppl).
    pub bitmap_or_ppl: [u8; 4],
    /// A reshape.
    pub reshape: ReshapeFields,
    /// Where the data begins on this device.
    pub data_offset: u64,
    /// How much of this device can hold data.
    pub data_size: u64,
    /// Where this superblock lies.
    pub super_offset: u64,
    /// How much of this device is right, or the journal's tail.
    pub recovery_offset: u64,
    /// This device's number; not its slot.
    pub device_number: u32,
    /// Read errors that were mended by writing.
    pub corrected_reads: u32,
    /// This device's identity.
    pub device_uuid: Uuid,
    /// [`FLAG_WRITE_MOSTLY`], [`FLAG_FAIL_FAST`].
    pub flags: u8,
    /// The bad-block log.
    pub bad_blocks: BadBlockPlace,
    /// When this was written.
    pub updated: Stamp,
    /// How often the array's state changed.
    pub events: u64,
    /// Below this, parity and copies are right; [`ALL_SECTORS`] is everywhere.
    pub resync_offset: u64,
    /// Roles, by number of device.
    pub roles: Vec<Role>,
}

impl SuperblockV1 {
    /// Reads a superblock from the bytes at its place.
    ///
    /// # Errors
    /// Which field is wrong, and how; [`FormatError::is_absence`] where there is none.
    pub fn decode(bytes: &[u8]) -> Result<SuperblockV1, FormatError> {
        let fields = Reader::little(STRUCTURE, bytes);
        fields.magic_at("magic", 0, &MAGIC.to_le_bytes())?;
        let major = fields.get_at::<u32>("major_version", 4)?;
        fields.within("major_version", 4, u64::from(major), 1, 1)?;
        let count = fields.get_at::<u32>("max_dev", 220)?;
        fields.within("max_dev", 220, u64::from(count), 0, DEVICES_MAX as u64)?;
        let end = ROLES_AT + count as usize * 2;
        let covered = bytes.get(..end).ok_or_else(|| {
            fields.wrong_at("dev_roles", bytes.len().max(ROLES_AT), Problem::Short)
        })?;
        let found = fields.get_at::<u32>("sb_csum", CHECKSUM_AT)?;
        let computed = checksum(covered);
        if found != computed {
            let problem = Problem::Sum { found, computed };
            return Err(fields.wrong_at("sb_csum", CHECKSUM_AT, problem));
        }
        let unused: [u8; 32] = fields.array_at("pad3", 224)?;
        if unused.iter().any(|byte| *byte != 0) || fields.get_at::<u32>("pad0", 12)? != 0 {
            let name = "a field that was reserved (a logical block size, or newer)";
            return Err(fields.wrong_at("pad3", 224, Problem::Unsupported(name)));
        }
        let features = fields.get_at::<u32>("feature_map", 8)?;
        let features = Features::decode(features)
            .map_err(|problem| fields.wrong_at("feature_map", 8, problem))?;
        let mut roles = Vec::new();
        for at in (ROLES_AT..end).step_by(2) {
            let role = Role::decode(fields.get_at::<u16>("dev_roles", at)?);
            roles.push(role.map_err(|problem| fields.wrong_at("dev_roles", at, problem))?);
        }
        let superblock = SuperblockV1 {
            features,
            set_uuid: Uuid(fields.array_at("set_uuid", 16)?),
            set_name: fields.array_at("set_name", 32)?,
            created: Stamp(fields.get_at::<u64>("ctime", 64)?),
            level: fields.get_at::<i32>("level", 72)?,
            layout: fields.get_at::<u32>("layout", 76)?,
            size: fields.get_at::<u64>("size", 80)?,
            chunk: fields.get_at::<u32>("chunksize", 88)?,
            slots: fields.get_at::<u32>("raid_disks", 92)?,
            bitmap_or_ppl: fields.array_at("bitmap_offset", 96)?,
            reshape: ReshapeFields {
                new_level: fields.get_at::<i32>("new_level", 100)?,
                position: fields.get_at::<u64>("reshape_position", 104)?,
                delta_slots: fields.get_at::<i32>("delta_disks", 112)?,
                new_layout: fields.get_at::<u32>("new_layout", 116)?,
                new_chunk: fields.get_at::<u32>("new_chunk", 120)?,
                new_offset: fields.get_at::<i32>("new_offset", 124)?,
            },
            data_offset: fields.get_at::<u64>("data_offset", 128)?,
            data_size: fields.get_at::<u64>("data_size", 136)?,
            super_offset: fields.get_at::<u64>("super_offset", 144)?,
            recovery_offset: fields.get_at::<u64>("recovery_offset", 152)?,
            device_number: fields.get_at::<u32>("dev_number", 160)?,
            corrected_reads: fields.get_at::<u32>("cnt_corrected_read", 164)?,
            device_uuid: Uuid(fields.array_at("device_uuid", 168)?),
            flags: fields.get_at::<u8>("devflags", 184)?,
            bad_blocks: BadBlockPlace {
                shift: fields.get_at::<u8>("bblog_shift", 185)?,
                sectors: fields.get_at::<u16>("bblog_size", 186)?,
                offset: fields.get_at::<i32>("bblog_offset", 188)?,
            },
            updated: Stamp(fields.get_at::<u64>("utime", 192)?),
            events: fields.get_at::<u64>("events", 200)?,
            resync_offset: fields.get_at::<u64>("resync_offset", 208)?,
            roles,
        };
        superblock.check(&fields)?;
        Ok(superblock)
    }

    /// What no array can be.
    fn check(&self, fields: &Reader<'_>) -> Result<(), FormatError> {
        let slots = DEVICES_MAX as u64;
        fields.within("raid_disks", 92, u64::from(self.slots), 1, slots)?;
        // Linux takes a device with a greater number for a spare without one. Nothing writes such a number, so what
        // else this superblock says is not believed either.
        fields.within("dev_number", 160, u64::from(self.device_number), 0, slots - 1)?;
        fields.within("size", 80, self.size, 0, SECTORS_MAX)?;
        fields.within("data_offset", 128, self.data_offset, 0, SECTORS_MAX)?;
        fields.within("data_size", 136, self.data_size, 0, SECTORS_MAX)?;
        fields.within("super_offset", 144, self.super_offset, 0, SECTORS_MAX)?;
        fields.within("events", 200, self.events, 0, EVENTS_MAX)?;
        let at = self.bitmap_offset().map(i64::from);
        if at.is_some_and(|at| !self.is_beside(at, 1)) {
            let problem = Problem::Contradiction("a bitmap within the superblock or the data");
            return Err(fields.wrong_at("bitmap_offset", 96, problem));
        }
        let BadBlockPlace { sectors, offset, .. } = self.bad_blocks;
        if sectors > 0 && !self.is_beside(i64::from(offset), u64::from(sectors)) {
            let problem =
                Problem::Contradiction("a bad-block log within the superblock or the data");
            return Err(fields.wrong_at("bblog_offset", 188, problem));
        }
        let unknown = self.flags & !(FLAG_WRITE_MOSTLY | FLAG_FAIL_FAST);
        if unknown != 0 {
            return Err(fields.wrong_at("devflags", 184, Problem::UnknownBits(u64::from(unknown))));
        }
        if self.features.has(Features::RAID0_LAYOUT) && self.level != 0 {
            let problem = Problem::Contradiction("a RAID 0 layout at another level");
            return Err(fields.wrong_at("feature_map", 8, problem));
        }
        if self.features.has(Features::RESHAPE_ACTIVE) {
            let reshape = &self.reshape;
            fields.within("reshape_position", 104, reshape.position, 0, SECTORS_MAX)?;
            let before = i64::from(self.slots) - i64::from(reshape.delta_slots);
            fields.within("delta_disks", 112, before.try_into().unwrap_or(0), 1, slots)?;
        }
        if let Some(offset) = self.new_data_offset() {
            fields.within("new_offset", 124, offset, 0, SECTORS_MAX)?;
        }
        Ok(())
    }

    /// Writes the superblock: [`SUPERBLOCK_BYTES`] bytes, zeros behind the roles.
    ///
    /// # Panics
    /// With more than [`DEVICES_MAX`] roles: a decoded superblock never has them, and who makes one
    /// counts devices first.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.roles.len() <= DEVICES_MAX, "the roles fit a superblock");
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        let end = ROLES_AT + self.roles.len() * 2;
        let out = &mut bytes[..];
        put(out, 0, &MAGIC.to_le_bytes());
        put(out, 4, &1_u32.to_le_bytes());
        put(out, 8, &self.features.bits().to_le_bytes());
        put(out, 16, &self.set_uuid.0);
        put(out, 32, &self.set_name);
        put(out, 64, &self.created.0.to_le_bytes());
        put(out, 72, &self.level.to_le_bytes());
        put(out, 76, &self.layout.to_le_bytes());
        put(out, 80, &self.size.to_le_bytes());
        put(out, 88, &self.chunk.to_le_bytes());
        put(out, 92, &self.slots.to_le_bytes());
        put(out, 96, &self.bitmap_or_ppl);
        put(out, 100, &self.reshape.new_level.to_le_bytes());
        put(out, 104, &self.reshape.position.to_le_bytes());
        put(out, 112, &self.reshape.delta_slots.to_le_bytes());
        put(out, 116, &self.reshape.new_layout.to_le_bytes());
        put(out, 120, &self.reshape.new_chunk.to_le_bytes());
        put(out, 124, &self.reshape.new_offset.to_le_bytes());
        put(out, 128, &self.data_offset.to_le_bytes());
        put(out, 136, &self.data_size.to_le_bytes());
        put(out, 144, &self.super_offset.to_le_bytes());
        put(out, 152, &self.recovery_offset.to_le_bytes());
        put(out, 160, &self.device_number.to_le_bytes());
        put(out, 164, &self.corrected_reads.to_le_bytes());
        put(out, 168, &self.device_uuid.0);
        put(out, 184, &[self.flags, self.bad_blocks.shift]);
        put(out, 186, &self.bad_blocks.sectors.to_le_bytes());
        put(out, 188, &self.bad_blocks.offset.to_le_bytes());
        put(out, 192, &self.updated.0.to_le_bytes());
        put(out, 200, &self.events.to_le_bytes());
        put(out, 208, &self.resync_offset.to_le_bytes());
        put(out, 220, &(self.roles.len() as u32).to_le_bytes());
        for (n, role) in self.roles.iter().enumerate() {
            put(out, ROLES_AT + n * 2, &role.encode().to_le_bytes());
        }
        let sum = checksum(&out[..end]);
        put(out, CHECKSUM_AT, &sum.to_le_bytes());
        bytes
    }

    /// The same to be written to a device. What would not read back is never written: of devices whose superblocks
    /// were read one by one, what one says of the whole set may not fit what another says of itself.
    ///
    /// # Errors
    /// Which field nobody would read back.
    ///
    /// # Panics
    /// Where it reads back as something else.
    pub(crate) fn sealed(&self) -> Result<Vec<u8>, FormatError> {
        let bytes = self.encode();
        let read = SuperblockV1::decode(&bytes)?;
        assert_eq!(read, *self, "a superblock reads back as what was meant");
        Ok(bytes)
    }

    /// The checksum that [`encode`](Self::encode) writes, which is the one that was read.
    pub fn checksum(&self) -> u32 {
        let bytes = self.encode();
        let sum = bytes.get(CHECKSUM_AT..).and_then(|rest| rest.first_chunk());
        sum.map_or(0, |sum| u32::from_le_bytes(*sum))
    }

    /// The version, which only its own place tells.
    pub fn version(&self) -> Version {
        match self.super_offset {
            0..=4 => Version::V11,
            5..=8 => Version::V12,
            _ => Version::V10,
        }
    }

    /// The role of the device that carries this superblock; none where its number has no role.
    pub fn role(&self) -> Option<Role> {
        self.roles.get(self.device_number as usize).copied()
    }

    /// The name up to its first zero; bytes that are no UTF-8 are replaced.
    pub fn name(&self) -> String {
        let end = self.set_name.iter().position(|byte| *byte == 0).unwrap_or(32);
        String::from_utf8_lossy(&self.set_name[..end]).into_owned()
    }

    /// Sectors of the data area that lie on a device of this size: fewer than it should have where the device was cut
    /// short.
    pub fn sectors_there(&self, capacity: ByteCount) -> u64 {
        let room = (capacity.bytes() / SECTOR).saturating_sub(self.data_offset);
        self.data_size.min(room)
    }

    /// Whether parity and copies are right everywhere.
    pub fn is_clean(&self) -> bool {
        self.resync_offset == ALL_SECTORS
    }

    /// Where the bitmap begins, in sectors from the superblock.
    pub fn bitmap_offset(&self) -> Option<i32> {
        self.features.has(Features::BITMAP).then_some(i32::from_le_bytes(self.bitmap_or_ppl))
    }

    /// Whether so many sectors that begin so far from the superblock touch neither it nor the data that the set uses:
    /// what is written there overwrites nothing.
    pub fn is_beside(&self, offset: i64, sectors: u64) -> bool {
        let Some(start) = self.super_offset.checked_add_signed(offset) else { return false };
        let end = start.saturating_add(sectors);
        let touches = |from: u64, len: u64| start < from.saturating_add(len) && from < end;
        let used = if self.size == 0 { self.data_size } else { self.size };
        let moved = self.new_data_offset().unwrap_or(self.data_offset);
        let own = SUPERBLOCK_BYTES as u64 / SECTOR;
        !touches(self.super_offset, own)
            && !touches(self.data_offset, used)
            && !touches(moved, used)
    }

    /// Where the partial parity log begins, in sectors from the superblock, and its sectors.
    pub fn ppl(&self) -> Option<(i16, u16)> {
        let [a, b, c, d] = self.bitmap_or_ppl;
        let place = (i16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
        self.features.has_ppl().then_some(place)
    }

    /// The field of a partial parity log's place.
    pub fn ppl_field(offset: i16, sectors: u16) -> [u8; 4] {
        let ([a, b], [c, d]) = (offset.to_le_bytes(), sectors.to_le_bytes());
        [a, b, c, d]
    }

    /// Where the data begins once the reshape is done, where that is another place. A place before the
    /// start of the device becomes one that no device has.
    pub fn new_data_offset(&self) -> Option<u64> {
        self.features.has(Features::NEW_OFFSET).then(|| {
            self.data_offset
                .checked_add_signed(i64::from(self.reshape.new_offset))
                .unwrap_or(u64::MAX)
        })
    }
}

/// The sum over everything up to the last role, the checksum itself counting as zero.
fn checksum(covered: &[u8]) -> u32 {
    let mut bytes = covered.to_vec();
    put(&mut bytes, CHECKSUM_AT, &[0; 4]);
    word_sum(&bytes)
}
