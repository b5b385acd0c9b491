//! Superblock 0.90, and 0.91, which is the same during a reshape: 4 KiB of 32-bit words. Read only.
//!
//! ```text
//! word  0 magic  1 major = 0  2 minor = 90, 91  3 patch  5 UUID 0  6 created  7 level  8 size (KiB)
//!       9 devices  10 slots  11 preferred minor  13..15 UUID 1..3
//!      32 updated  33 state: bit 0 clean, bit 8 bitmap  34 active  35 working  36 failed  37 spare
//!      38 checksum  39 events (u64)  41 events at the checkpoint (u64)  43 resync checkpoint (sectors)
//!      44 reshape position (u64, sectors)  46 new level  47 delta slots  48 new layout  49 new chunk (bytes)
//!      64 layout  65 chunk (bytes)
//!     128 27 descriptors of 32 words: number, major, minor, slot, state (bits 0 faulty, 1 active,
//!         2 in sync, 3 removed, 9 write-mostly)          992 this device's descriptor
//! ```
//!
//! In the byte order of the machine that made it; only little-endian ones are read. The data begins at the
//! device's start. The checksum is the sum of all words. A device has no UUID of its own, so the set's UUID
//! and its number stand for one. Source: Linux `include/uapi/linux/raid/md_p.h`, `drivers/md/md.c`
//! (`super_90_load`, `super_90_validate`).

use super::role::Role;
use super::uuid::Uuid;
use super::word_sum::word_sum;
use super::{ALL_SECTORS, MAGIC, SUPERBLOCK_BYTES};
use stdx::bytes::{FormatError, Problem, Reader, put};

/// What errors call it.
const STRUCTURE: &str = "md superblock 0.90";

/// Descriptors of devices.
pub const DEVICES_MAX: usize = 27;
const DESCRIPTOR_BYTES: usize = 128;
const DESCRIPTORS_AT: usize = 512;
const THIS_AT: usize = 3968;
const CHECKSUM_AT: usize = 152;
const STATE_CLEAN: u32 = 1;
const STATE_BITMAP: u32 = 1 << 8;
/// Bits of a descriptor's state.
const FAULTY: u32 = 1;
const ACTIVE: u32 = 2;
const IN_SYNC: u32 = 4;
const REMOVED: u32 = 8;

/// One device as a superblock lists it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// Its number.
    pub number: u32,
    /// Device number on the machine that wrote it.
    pub major: u32,
    /// Device number on the machine that wrote it.
    pub minor: u32,
    /// Its slot.
    pub slot: u32,
    /// State bits.
    pub state: u32,
}

impl Descriptor {
    /// What the device is to the array.
    pub fn role(&self) -> Role {
        let has = |bit| self.state & bit != 0;
        match u16::try_from(self.slot) {
            _ if has(FAULTY) || has(REMOVED) => Role::Faulty,
            Ok(slot) if has(ACTIVE) && has(IN_SYNC) && slot <= super::role::SLOT_MAX => {
                Role::Slot(slot)
            }
            _ => Role::Spare,
        }
    }
}

/// Superblock 0.90.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuperblockV090 {
    /// 90, or 91 during a reshape.
    pub minor_version: u32,
    /// Patch level of the version.
    pub patch_version: u32,
    /// The array's identity.
    pub set_uuid: Uuid,
    /// When it was created, in seconds since 1970.
    pub created_s: u32,
    /// Level, as md's number.
    pub level: i32,
    /// KiB of each device that are used.
    pub size_kib: u32,
    /// Devices, spares among them.
    pub devices: u32,
    /// Slots.
    pub slots: u32,
    /// The number N of /dev/mdN it would like.
    pub preferred_minor: u32,
    /// When this was written, in seconds since 1970.
    pub updated_s: u32,
    /// Whether it was stopped cleanly.
    pub clean: bool,
    /// Whether there is a bitmap behind the superblock.
    pub bitmap: bool,
    /// Devices that work, active or spare; as the writer counted them.
    pub active: u32,
    /// As the writer counted them.
    pub working: u32,
    /// As the writer counted them.
    pub failed: u32,
    /// As the writer counted them.
    pub spares: u32,
    /// How often the array's state changed.
    pub events: u64,
    /// The events when the resync checkpoint was written.
    pub checkpoint_events: u64,
    /// Where the resync was, in sectors of a device.
    pub resync_checkpoint: u32,
    /// Minor version 91: sector of the array, new level, delta slots, new layout, new chunk in bytes.
    pub reshape: Option<(u64, i32, i32, u32, u32)>,
    /// Layout, as md's number.
    pub layout: u32,
    /// Bytes of a chunk.
    pub chunk_bytes: u32,
    /// The devices, by number.
    pub descriptors: Vec<Descriptor>,
    /// The device that carries this superblock.
    pub this: Descriptor,
    /// The checksum, which is right.
    pub checksum: u32,
}

impl SuperblockV090 {
    /// Reads a superblock.
    ///
    /// # Errors
    /// Which field is wrong, and how; [`FormatError::is_absence`] where there is none.
    pub fn decode(bytes: &[u8]) -> Result<SuperblockV090, FormatError> {
        let fields = Reader::little(STRUCTURE, bytes);
        if fields.get_at::<u32>("md_magic", 0)? == MAGIC.swap_bytes() {
            let problem = Problem::Unsupported("a superblock of a big-endian machine");
            return Err(fields.wrong_at("md_magic", 0, problem));
        }
        fields.magic_at("md_magic", 0, &MAGIC.to_le_bytes())?;
        let major = fields.get_at::<u32>("major_version", 4)?;
        fields.within("major_version", 4, u64::from(major), 0, 0)?;
        let mut covered: [u8; SUPERBLOCK_BYTES] = fields.array_at("superblock", 0)?;
        let found = fields.get_at::<u32>("sb_csum", CHECKSUM_AT)?;
        put(&mut covered, CHECKSUM_AT, &[0; 4]);
        let computed = word_sum(&covered);
        if found != computed {
            let problem = Problem::Sum { found, computed };
            return Err(fields.wrong_at("sb_csum", CHECKSUM_AT, problem));
        }
        let minor_version = fields.get_at::<u32>("minor_version", 8)?;
        fields.within("minor_version", 8, u64::from(minor_version), 90, 91)?;
        let slots = fields.get_at::<u32>("raid_disks", 40)?;
        fields.within("raid_disks", 40, u64::from(slots), 1, DEVICES_MAX as u64)?;
        let mut uuid = [0; 16];
        for (n, at) in [20, 52, 56, 60].into_iter().enumerate() {
            put(&mut uuid, n * 4, &fields.get_at::<u32>("set_uuid", at)?.to_be_bytes());
        }
        let descriptor = |at| -> Result<Descriptor, FormatError> {
            Ok(Descriptor {
                number: fields.get_at::<u32>("number", at)?,
                major: fields.get_at::<u32>("major", at + 4)?,
                minor: fields.get_at::<u32>("minor", at + 8)?,
                slot: fields.get_at::<u32>("raid_disk", at + 12)?,
                state: fields.get_at::<u32>("state", at + 16)?,
            })
        };
        let mut descriptors = Vec::new();
        for n in 0..DEVICES_MAX {
            descriptors.push(descriptor(DESCRIPTORS_AT + n * DESCRIPTOR_BYTES)?);
        }
        let reshape = match minor_version {
            91 => {
                let position = fields.get_at::<u64>("reshape_position", 176)?;
                fields.within("reshape_position", 176, position, 0, super::v1::SECTORS_MAX)?;
                let delta = fields.get_at::<i32>("delta_disks", 188)?;
                let before = i64::from(slots) - i64::from(delta);
                let before = before.try_into().unwrap_or(0);
                fields.within("delta_disks", 188, before, 1, DEVICES_MAX as u64)?;
                let (level, layout) = (
                    fields.get_at::<i32>("new_level", 184)?,
                    fields.get_at::<u32>("new_layout", 192)?,
                );
                Some((position, level, delta, layout, fields.get_at::<u32>("new_chunk", 196)?))
            }
            _ => None,
        };
        let state = fields.get_at::<u32>("state", 132)?;
        Ok(SuperblockV090 {
            minor_version,
            patch_version: fields.get_at::<u32>("patch_version", 12)?,
            set_uuid: Uuid(uuid),
            created_s: fields.get_at::<u32>("ctime", 24)?,
            level: fields.get_at::<i32>("level", 28)?,
            size_kib: fields.get_at::<u32>("size", 32)?,
            devices: fields.get_at::<u32>("nr_disks", 36)?,
            slots,
            preferred_minor: fields.get_at::<u32>("md_minor", 44)?,
            updated_s: fields.get_at::<u32>("utime", 128)?,
            clean: state & STATE_CLEAN != 0,
            bitmap: state & STATE_BITMAP != 0,
            active: fields.get_at::<u32>("active_disks", 136)?,
            working: fields.get_at::<u32>("working_disks", 140)?,
            failed: fields.get_at::<u32>("failed_disks", 144)?,
            spares: fields.get_at::<u32>("spare_disks", 148)?,
            events: fields.get_at::<u64>("events", 156)?,
            checkpoint_events: fields.get_at::<u64>("cp_events", 164)?,
            resync_checkpoint: fields.get_at::<u32>("recovery_cp", 172)?,
            reshape,
            layout: fields.get_at::<u32>("layout", 256)?,
            chunk_bytes: fields.get_at::<u32>("chunk_size", 260)?,
            descriptors,
            this: descriptor(THIS_AT)?,
            checksum: found,
        })
    }

    /// Below this sector of the devices, parity and copies are right; [`ALL_SECTORS`] is everywhere.
    pub fn resync_offset(&self) -> u64 {
        if self.clean {
            ALL_SECTORS
        } else if self.events == self.checkpoint_events {
            u64::from(self.resync_checkpoint)
        } else {
            0
        }
    }

    /// What the device of this number is to the array.
    pub fn role_of(&self, number: u32) -> Option<Role> {
        self.descriptors.get(number as usize).map(Descriptor::role)
    }
}
