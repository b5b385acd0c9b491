//! What an array is to be: level, layout, chunk, members; and what is wrong with such a wish.
//!
//! A spec comes from a user, a study or a superblock. [`ArraySpec::check`] finds everything that
//! can be known before an I/O and names the thing and the mend. Layouts have md's names and md's
//! numbers (`names`); what is wrong is a [`SpecError`].

mod error;
pub(crate) mod limits;
mod names;

pub use crate::layout::kinds::{FarSets, Layout, ParityLayout};
pub use crate::level::Level;
pub use error::SpecError;
pub use limits::{
    CHUNK_DEFAULT, CHUNK_MAX, CHUNK_MIN, MEMBERS_MAX, STRIPE_CACHE_PER_MEMBER_DEFAULT,
};

use crate::layout::copies::MirroredMap;
use crate::layout::kinds::{PARITY_LAYOUTS, RAID6_ONLY_FROM};
use crate::layout::parity::ParityMap;
use crate::layout::zones::StripedMap;
use rt::{DeviceRef, Geometry};
use stdx::ByteCount;

/// An array as it is wished for.
#[derive(Clone)]
pub struct ArraySpec {
    /// Level.
    pub level: Level,
    /// Layout.
    pub layout: Layout,
    /// Bytes on one member before the next one's turn; linear may have 0, RAID 1 has none.
    pub chunk: ByteCount,
    /// The members by slot; `None` is missing.
    pub members: Vec<Option<DeviceRef>>,
    /// Where the data area begins on each member.
    pub data_offset: ByteCount,
    /// How much of each member's data area is used; by default as much as the smallest has. Linear
    /// and RAID 0 use all of each by default.
    pub component_size: Option<ByteCount>,
    /// Whether parity and copies are right already (all zeros are). If not, the array asks nothing
    /// of them until it is initialised.
    pub clean: bool,
    /// Bytes that the stripe cache may hold; by default [`STRIPE_CACHE_PER_MEMBER_DEFAULT`] for each
    /// member.
    pub stripe_cache: Option<ByteCount>,
}

impl ArraySpec {
    /// This level over these members: default layout and chunk, no data offset, clean.
    pub fn new(level: Level, members: Vec<DeviceRef>) -> ArraySpec {
        ArraySpec {
            level,
            layout: Layout::Default,
            chunk: CHUNK_DEFAULT,
            members: members.into_iter().map(Some).collect(),
            data_offset: ByteCount::ZERO,
            component_size: None,
            clean: true,
            stripe_cache: None,
        }
    }
}

/// The map that a level and its numbers lead to.
pub(crate) enum Map {
    Striped(StripedMap),
    Mirrored(MirroredMap),
    Parity(ParityMap),
}

/// What a spec comes to.
pub(crate) struct Plan {
    pub(crate) map: Map,
    pub(crate) capacity: u64,
    /// Bytes of each member's data area that are used (the largest, where they differ).
    pub(crate) extent: u64,
    pub(crate) block: u64,
}

impl ArraySpec {
    /// Whether such an array can be.
    ///
    /// # Errors
    /// Names the first thing that is wrong, and the mend.
    pub fn check(&self) -> Result<(), SpecError> {
        self.plan().map(|_| ())
    }

    pub(crate) fn plan(&self) -> Result<Plan, SpecError> {
        let (level, given) = (self.level, self.members.len());
        if given > MEMBERS_MAX {
            return Err(SpecError::TooManySlots { given });
        }
        let (near, far, offset, far_sets) = match self.layout {
            Layout::Mirrored { near, far, offset, far_sets } => (near, far, offset, far_sets),
            _ => (2, 1, false, FarSets::All),
        };
        let needed = match level {
            Level::Raid10 => (near * far).max(level.members_min()),
            _ => level.members_min(),
        };
        if given < needed {
            return Err(SpecError::TooFewSlots { level, needed, given });
        }
        // The kernel takes it and lays copies over others; mdadm can't ask for it.
        if near > 1 && far > 1 && !given.is_multiple_of(near) {
            return Err(SpecError::Collision { disks: given, near, far });
        }
        let parity_layout = self.parity_layout()?;
        let chunk = self.checked_chunk()?;
        let missing = self.members.iter().filter(|member| member.is_none()).count();
        let covered = match level {
            Level::Linear | Level::Raid0 => 0,
            Level::Raid1 => given - 1,
            Level::Raid10 => given - given.div_ceil(near * far).max(1),
            Level::Raid4 | Level::Raid5 | Level::Raid6 => level.parities(),
        };
        if missing > covered {
            return Err(SpecError::TooManyMissing { level, missing, covered });
        }
        if missing > 0 && level.parities() > 0 && !self.clean {
            return Err(SpecError::DirtyDegraded { level });
        }
        let sizes = self.sizes(chunk)?;
        let block =
            self.shapes().map(|(.., shape)| shape.logical_block.bytes()).max().unwrap_or(512);
        let largest = sizes.iter().copied().max().unwrap_or(0);
        let smallest = sizes.iter().copied().min().unwrap_or(0);
        let (map, capacity, extent) = match level {
            Level::Linear | Level::Raid0 => {
                let map = if level == Level::Linear {
                    StripedMap::linear(&sizes, if chunk == 0 { block } else { chunk })
                } else {
                    StripedMap::raid0(
                        &sizes,
                        chunk,
                        self.layout == (Layout::Raid0 { original: true }),
                    )
                };
                let capacity = map.capacity();
                (Map::Striped(map), capacity, largest)
            }
            Level::Raid1 => {
                (Map::Mirrored(MirroredMap::raid1(given, smallest)), smallest, smallest)
            }
            Level::Raid10 => {
                let far_set = far_sets.members(given, near, far);
                let map = MirroredMap::new(given, (near, far), offset, far_set, chunk, smallest);
                let (capacity, extent) = (map.capacity(), map.extent());
                (Map::Mirrored(map), capacity, extent)
            }
            Level::Raid4 | Level::Raid5 | Level::Raid6 => {
                let rows = smallest / chunk;
                let map = ParityMap::new(parity_layout, given, level.parities(), chunk);
                let capacity = rows * map.row_bytes();
                (Map::Parity(map), capacity, rows * chunk)
            }
        };
        Ok(Plan { map, capacity, extent, block })
    }

    /// The members that are there: slot, name, shape.
    fn shapes(&self) -> impl Iterator<Item = (usize, &DeviceRef, Geometry)> {
        let there = self.members.iter().enumerate();
        there.filter_map(|(slot, member)| {
            member.as_ref().map(|member| (slot, member, member.geometry()))
        })
    }

    fn parity_layout(&self) -> Result<ParityLayout, SpecError> {
        let (level, layout) = (self.level, self.layout);
        let wrong = || SpecError::UnknownLayout { level, text: format!("{layout:?}") };
        match (level, layout) {
            (Level::Raid4, Layout::Default) => Ok(ParityLayout::ParityLast),
            (Level::Raid5 | Level::Raid6, Layout::Parity(layout)) => {
                let number = PARITY_LAYOUTS
                    .iter()
                    .find(|(other, ..)| *other == layout)
                    .map(|(_, number, _)| *number);
                let fits = level == Level::Raid6 || number < Some(RAID6_ONLY_FROM);
                if fits { Ok(layout) } else { Err(wrong()) }
            }
            (Level::Raid0, Layout::Raid0 { .. }) => Ok(ParityLayout::default()),
            (Level::Raid10, Layout::Mirrored { near, far, .. }) if near * far > 0 => {
                Ok(ParityLayout::default())
            }
            (_, Layout::Default) => Ok(ParityLayout::default()),
            _ => Err(wrong()),
        }
    }

    /// The chunk in bytes; 0 where there is none.
    fn checked_chunk(&self) -> Result<u64, SpecError> {
        let chunk = self.chunk;
        let within = chunk >= CHUNK_MIN && chunk <= CHUNK_MAX && chunk.is_multiple_of(CHUNK_MIN);
        let right = match self.level {
            Level::Raid1 => return Ok(0),
            Level::Linear => within || chunk.is_zero(),
            Level::Raid0 => within,
            _ => within && chunk.bytes().is_power_of_two(),
        };
        if right { Ok(chunk.bytes()) } else { Err(SpecError::Chunk { chunk }) }
    }

    /// How much of each member's data area there is to use.
    fn sizes(&self, chunk: u64) -> Result<Vec<u64>, SpecError> {
        let mut sizes = vec![u64::MAX; self.members.len()];
        for (slot, member, shape) in self.shapes() {
            let name = member.name().to_string();
            let block = shape.logical_block;
            if !chunk.is_multiple_of(block.bytes()) || !self.data_offset.is_multiple_of(block) {
                return Err(SpecError::Block { slot, name, block });
            }
            let least = self.component_size.unwrap_or(ByteCount(chunk.max(block.bytes())));
            let needed = self.data_offset + least;
            if shape.capacity < needed {
                return Err(SpecError::MemberTooSmall {
                    slot,
                    name,
                    capacity: shape.capacity,
                    needed,
                });
            }
            let room = (shape.capacity - self.data_offset).round_down(block);
            sizes[slot] = self.component_size.unwrap_or(room).bytes();
        }
        // The smallest there is stands for one that is missing.
        let smallest = sizes.iter().copied().min().unwrap_or(0);
        sizes.iter_mut().filter(|size| **size == u64::MAX).for_each(|size| *size = smallest);
        Ok(sizes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rt::MemoryDevice;

    fn spec(level: Level, disks: usize) -> ArraySpec {
        let disk = |n| MemoryDevice::new(&format!("disk{n}"), ByteCount::mib(4)) as DeviceRef;
        ArraySpec::new(level, (0..disks).map(disk).collect())
    }

    fn error(spec: &ArraySpec) -> String {
        spec.check().expect_err("refused").to_string()
    }

    #[test]
    fn what_is_wrong_is_named_with_its_mend() {
        let text = error(&spec(Level::Raid6, 3));
        assert!(
            text.contains("raid6") && text.contains("at least 4") && text.contains("has 3"),
            "{text}"
        );
        let mut odd = spec(Level::Raid5, 3);
        odd.chunk = ByteCount::kib(12);
        assert!(error(&odd).contains("12 KiB") && error(&odd).contains("power of two"));
        odd.level = Level::Raid0;
        odd.check().expect("RAID 0 takes any multiple of a page");
        let mut small = spec(Level::Raid1, 2);
        small.component_size = Some(ByteCount::mib(5));
        assert!(error(&small).contains("member 0 (disk0)") && error(&small).contains("5 MiB"));
        let mut missing = spec(Level::Raid5, 4);
        missing.members[1] = None;
        missing.check().expect("degraded is fine");
        missing.clean = false;
        assert!(error(&missing).contains("initialise"));
        missing.members[2] = None;
        assert!(error(&missing).contains("2 members are missing"));
        let mut layout = spec(Level::Raid5, 4);
        layout.layout = Layout::Parity(ParityLayout::DdfNContinue);
        assert!(error(&layout).contains("no layout of raid5"));
    }

    #[test]
    fn layouts_have_the_names_and_numbers_of_md() {
        let near =
            |near, far, offset| Layout::Mirrored { near, far, offset, far_sets: FarSets::All };
        assert_eq!(Layout::from_md(Level::Raid10, 0x102), Ok(near(2, 1, false)));
        assert_eq!(Layout::from_md(Level::Raid10, 0x201), Ok(near(1, 2, false)));
        assert_eq!(Layout::from_md(Level::Raid10, 0x1_0201), Ok(near(1, 2, true)));
        assert_eq!(Layout::parse(Level::Raid10, "f2"), Ok(near(1, 2, false)));
        assert_eq!(Layout::parse(Level::Raid10, "near-3"), Ok(near(3, 1, false)));
        assert_eq!(Layout::parse(Level::Raid6, "ra"), Layout::from_md(Level::Raid6, 1));
        assert!(Layout::from_md(Level::Raid5, 8).is_err());
        let text = Layout::parse(Level::Raid5, "near-2").expect_err("no such").to_string();
        assert!(text.contains("near-2") && text.contains("left-symmetric"), "{text}");
        assert_eq!("5".parse(), Ok(Level::Raid5));
        assert_eq!("raid10".parse(), Ok(Level::Raid10));
    }
}
