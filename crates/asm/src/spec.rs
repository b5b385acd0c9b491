//! What a disk group is to be: disks, failure groups, redundancy, striping, the size of an AU.

use rt::DeviceRef;
use std::collections::BTreeSet;
use std::fmt;
use stdx::ByteCount;

/// The smallest AU, and the default: Oracle's.
pub const AU_MIN: ByteCount = ByteCount::mib(1);
/// The largest AU: Oracle's.
pub const AU_MAX: ByteCount = ByteCount::mib(64);
/// The most disks of a group: as many as a header of one block can list.
pub const DISKS_MAX: usize = 480;
/// The most extents of a volume. Extents are numbered in 32 bits, and the highest number means none.
pub const EXTENTS_MAX: u64 = u32::MAX as u64 - 8;

/// How many copies there are of each extent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redundancy {
    /// One: the disks are redundant by themselves, or nobody minds.
    #[default]
    External,
    /// Two.
    Normal,
    /// Three.
    High,
}

impl Redundancy {
    /// The number of copies.
    pub fn copies(self) -> usize {
        match self {
            Redundancy::External => 1,
            Redundancy::Normal => 2,
            Redundancy::High => 3,
        }
    }
}

impl fmt::Display for Redundancy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Redundancy::External => "external",
            Redundancy::Normal => "normal",
            Redundancy::High => "high",
        })
    }
}

/// How the volume's bytes follow one another over extents. See [`striping`](crate::striping).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Striping {
    /// One extent after another.
    #[default]
    Coarse,
    /// 128 KiB of each of eight extents in turn.
    Fine,
}

/// A disk of a group.
#[derive(Clone)]
pub struct GroupDisk {
    /// It.
    pub device: DeviceRef,
    /// What fails together with it, by number: copies of one extent lie in different ones.
    pub failure_group: u16,
}

/// A disk group to be made.
#[derive(Clone)]
pub struct GroupSpec {
    /// Its disks.
    pub disks: Vec<GroupDisk>,
    /// How many copies.
    pub redundancy: Redundancy,
    /// How the volume is striped.
    pub striping: Striping,
    /// Size of an AU: a power of two from [`AU_MIN`] to [`AU_MAX`].
    pub au: ByteCount,
    /// Size of the volume, rounded down to whole AUs. By default all that there is room for, less the
    /// largest disk where there are more disks than copies, so that any one can be dropped.
    pub volume: Option<ByteCount>,
    /// Tells this group from others: disks of another group are not taken for its own.
    pub id: u64,
}

impl GroupSpec {
    /// A group of these disks, each its own failure group, of AUs of 1 MiB, coarse, external.
    pub fn new(disks: Vec<DeviceRef>) -> GroupSpec {
        let disk = |(number, device)| GroupDisk { device, failure_group: number as u16 };
        GroupSpec {
            disks: disks.into_iter().enumerate().map(disk).collect(),
            redundancy: Redundancy::External,
            striping: Striping::Coarse,
            au: AU_MIN,
            volume: None,
            id: 0,
        }
    }

    /// Whether disks, AU and failure groups can make a group.
    ///
    /// # Errors
    /// What can't be, and the mend.
    pub fn check(&self) -> Result<(), SpecError> {
        let copies = self.redundancy.copies();
        if self.disks.is_empty() || self.disks.len() > DISKS_MAX {
            return Err(SpecError::Disks { disks: self.disks.len() });
        }
        if !self.au.bytes().is_power_of_two() || self.au < AU_MIN || self.au > AU_MAX {
            return Err(SpecError::Au { au: self.au });
        }
        let groups: BTreeSet<u16> = self.disks.iter().map(|disk| disk.failure_group).collect();
        if groups.len() < copies {
            let redundancy = self.redundancy;
            return Err(SpecError::FailureGroups { redundancy, groups: groups.len(), copies });
        }
        Ok(())
    }
}

/// What is wrong with a group that is wished for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the texts name")]
pub enum SpecError {
    #[error("a disk group of {disks} disks: give it 1 to {DISKS_MAX}")]
    Disks { disks: usize },
    #[error("an AU of {au}: it is a power of two from {AU_MIN} to {AU_MAX}")]
    Au { au: ByteCount },
    #[error(
        "{redundancy} redundancy puts {copies} copies in different failure groups, and there are \
         {groups}: give more disks groups of their own"
    )]
    FailureGroups { redundancy: Redundancy, groups: usize, copies: usize },
    #[error("'{name}' has {capacity}, too little for a header and an AU of {au}")]
    DiskTooSmall { name: String, capacity: ByteCount, au: ByteCount },
    #[error("'{name}' has blocks of {block}: a group's metadata is in blocks of 4 KiB")]
    Block { name: String, block: ByteCount },
    #[error("a volume of {volume}, and there is room for {room}: make it smaller or add disks")]
    Volume { volume: ByteCount, room: ByteCount },
}
