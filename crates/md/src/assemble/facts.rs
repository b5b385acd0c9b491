//! What superblocks of both formats say, in one form: places in sectors, levels and layouts still as md's
//! numbers, since a superblock may be shown that can't be assembled.

use crate::spec::Level;
use crate::superblock::place::Version;
use crate::superblock::v1::SuperblockV1;
use crate::superblock::v090::SuperblockV090;
use crate::superblock::{Features, Role, Uuid};

/// A superblock of either format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Superblock {
    /// 1.0, 1.1, 1.2.
    V1(Box<SuperblockV1>),
    /// 0.90.
    V090(Box<SuperblockV090>),
}

/// A reshape that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReshapeFacts {
    /// A sector of the array: on one side of it the data lies in the new way.
    pub position: u64,
    /// Whether it goes from the end of the array to its start.
    pub backwards: bool,
    /// Slots before.
    pub slots_before: usize,
    /// Level afterwards, as md's number.
    pub level: i32,
    /// Layout afterwards, as md's number.
    pub layout: u32,
    /// Sectors of a chunk afterwards.
    pub chunk: u64,
}

/// The level of md's number.
///
/// # Errors
/// The name of a level that is not supported.
pub fn level_of(number: i32) -> Result<Level, String> {
    Ok(match number {
        -1 => Level::Linear,
        0 => Level::Raid0,
        1 => Level::Raid1,
        4 => Level::Raid4,
        5 => Level::Raid5,
        6 => Level::Raid6,
        10 => Level::Raid10,
        -4 => return Err("multipath".to_owned()),
        -5 => return Err("faulty".to_owned()),
        -100 => return Err("container".to_owned()),
        other => return Err(other.to_string()),
    })
}

impl Superblock {
    /// The set's identity.
    pub fn set_uuid(&self) -> Uuid {
        match self {
            Superblock::V1(sb) => sb.set_uuid,
            Superblock::V090(sb) => sb.set_uuid,
        }
    }

    /// The set's name; 0.90 has none.
    pub fn name(&self) -> String {
        match self {
            Superblock::V1(sb) => sb.name(),
            Superblock::V090(_) => String::new(),
        }
    }

    /// The version.
    pub fn version(&self) -> Version {
        match self {
            Superblock::V1(sb) => sb.version(),
            Superblock::V090(_) => Version::V090,
        }
    }

    /// When the array was created, in seconds since 1970.
    pub fn created_s(&self) -> u64 {
        match self {
            Superblock::V1(sb) => sb.created.seconds(),
            Superblock::V090(sb) => u64::from(sb.created_s),
        }
    }

    /// When the superblock was written, in seconds since 1970.
    pub fn updated_s(&self) -> u64 {
        match self {
            Superblock::V1(sb) => sb.updated.seconds(),
            Superblock::V090(sb) => u64::from(sb.updated_s),
        }
    }

    /// How often the array's state changed.
    pub fn events(&self) -> u64 {
        match self {
            Superblock::V1(sb) => sb.events,
            Superblock::V090(sb) => sb.events,
        }
    }

    /// Level, as md's number.
    pub fn level(&self) -> i32 {
        match self {
            Superblock::V1(sb) => sb.level,
            Superblock::V090(sb) => sb.level,
        }
    }

    /// Layout, as md's number; none where the superblock does not say (RAID 0 before Linux 5.4).
    pub fn layout(&self) -> Option<u32> {
        match self {
            Superblock::V1(sb) if sb.level == 0 => {
                sb.features.has(Features::RAID0_LAYOUT).then_some(sb.layout)
            }
            Superblock::V1(sb) => Some(sb.layout),
            Superblock::V090(sb) => (sb.level != 0).then_some(sb.layout),
        }
    }

    /// Sectors of a chunk.
    pub fn chunk(&self) -> u64 {
        match self {
            Superblock::V1(sb) => u64::from(sb.chunk),
            Superblock::V090(sb) => u64::from(sb.chunk_bytes / 512),
        }
    }

    /// Slots; the larger number during a reshape that adds some.
    pub fn slots(&self) -> usize {
        match self {
            Superblock::V1(sb) => sb.slots as usize,
            Superblock::V090(sb) => sb.slots as usize,
        }
    }

    /// Sectors of each member that are used; 0 for linear and RAID 0 in version 1.
    pub fn size(&self) -> u64 {
        match self {
            Superblock::V1(sb) => sb.size,
            Superblock::V090(sb) => u64::from(sb.size_kib) * 2,
        }
    }

    /// Optional fields that count; 0.90 has two of them in its own way.
    pub fn features(&self) -> Features {
        match self {
            Superblock::V1(sb) => sb.features,
            Superblock::V090(sb) => Features::NONE
                .with(Features::BITMAP, sb.bitmap)
                .with(Features::RESHAPE_ACTIVE, sb.reshape.is_some()),
        }
    }

    /// Below this sector parity and copies are right.
    pub fn resync_offset(&self) -> u64 {
        match self {
            Superblock::V1(sb) => sb.resync_offset,
            Superblock::V090(sb) => sb.resync_offset(),
        }
    }

    /// Where the data begins on the device.
    pub fn data_offset(&self) -> u64 {
        match self {
            Superblock::V1(sb) => sb.data_offset,
            Superblock::V090(_) => 0,
        }
    }

    /// Where the data begins on the device once the reshape is done.
    pub fn new_data_offset(&self) -> u64 {
        match self {
            Superblock::V1(sb) => sb.new_data_offset().unwrap_or(sb.data_offset),
            Superblock::V090(_) => 0,
        }
    }

    /// How much of this device is right, where it is not all.
    pub fn recovery_offset(&self) -> Option<u64> {
        match self {
            Superblock::V1(sb) => {
                sb.features.has(Features::RECOVERY_OFFSET).then_some(sb.recovery_offset)
            }
            Superblock::V090(_) => None,
        }
    }

    /// The number of this device in the set.
    pub fn device_number(&self) -> u32 {
        match self {
            Superblock::V1(sb) => sb.device_number,
            Superblock::V090(sb) => sb.this.number,
        }
    }

    /// What the device of a number is to the array, by this superblock.
    pub fn role_of(&self, number: u32) -> Option<Role> {
        match self {
            Superblock::V1(sb) => sb.roles.get(number as usize).copied(),
            Superblock::V090(sb) => sb.role_of(number),
        }
    }

    /// Whether this superblock gives a slot to some device.
    pub fn is_held(&self, slot: usize) -> bool {
        let holds = |role: Role| role.slot() == Some(slot);
        match self {
            Superblock::V1(sb) => sb.roles.iter().any(|role| holds(*role)),
            Superblock::V090(sb) => sb.descriptors.iter().any(|one| holds(one.role())),
        }
    }

    /// What this device is to the array, by itself.
    pub fn role(&self) -> Option<Role> {
        match self {
            Superblock::V1(sb) => sb.role(),
            Superblock::V090(sb) => Some(sb.this.role()),
        }
    }

    /// A reshape that is under way.
    pub fn reshape(&self) -> Option<ReshapeFacts> {
        // Slots less the difference: both were checked when they were decoded.
        let before = |slots: u32, delta: i32| (i64::from(slots) - i64::from(delta)) as usize;
        match self {
            Superblock::V1(sb) => {
                let reshape = &sb.reshape;
                let flagged = sb.features.has(Features::RESHAPE_BACKWARDS);
                sb.features.has(Features::RESHAPE_ACTIVE).then(|| ReshapeFacts {
                    position: reshape.position,
                    backwards: reshape.delta_slots < 0 || reshape.delta_slots == 0 && flagged,
                    slots_before: before(sb.slots, reshape.delta_slots),
                    level: reshape.new_level,
                    layout: reshape.new_layout,
                    chunk: u64::from(reshape.new_chunk),
                })
            }
            Superblock::V090(sb) => {
                sb.reshape.map(|(position, level, delta, layout, chunk)| ReshapeFacts {
                    position,
                    backwards: delta < 0,
                    slots_before: before(sb.slots, delta),
                    level,
                    layout,
                    chunk: u64::from(chunk / 512),
                })
            }
        }
    }
}
