//! What an array is to be: level, layout, chunk, members; and what is wrong with such a wish.
//!
//! A spec comes from a user, a study or a superblock. [`ArraySpec::check`] finds everything that
//! can be known before an I/O and names the thing and the mend. Layouts have md's names and md's
//! numbers.

use crate::layout::mirrored::MirroredMap;
use crate::layout::parity::ParityMap;
use crate::layout::striped::StripedMap;
use crate::member::SPARES_MAX;
use rt::{DeviceRef, Geometry};
use std::fmt;
use std::str::FromStr;
use stdx::ByteCount;

/// The default chunk of levels that stripe: md's.
pub const CHUNK_DEFAULT: ByteCount = ByteCount::kib(512);
/// A chunk is a multiple of this: a page, as in md.
pub const CHUNK_MIN: ByteCount = ByteCount::kib(4);
/// The largest chunk: a row of it on 100 members still fits memory. md allows 2 GiB.
pub const CHUNK_MAX: ByteCount = ByteCount::gib(1);
/// The most members: coefficients of Q for two more than 255 data members repeat.
pub const MEMBERS_MAX: usize = 256;
/// What the stripe cache holds for each member by default: md's 256 pages of 4 KiB.
pub const STRIPE_CACHE_PER_MEMBER_DEFAULT: ByteCount = ByteCount::mib(1);

/// A RAID level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Members one after another.
    Linear,
    /// Striped.
    Raid0,
    /// Mirrored.
    Raid1,
    /// Striped, parity on the last member.
    Raid4,
    /// Striped, rotating parity.
    Raid5,
    /// Striped, two rotating parities.
    Raid6,
    /// Striped and mirrored.
    Raid10,
}

impl Level {
    /// Parities in a row.
    pub fn parities(self) -> usize {
        match self {
            Level::Raid4 | Level::Raid5 => 1,
            Level::Raid6 => 2,
            _ => 0,
        }
    }

    /// The fewest members.
    pub fn members_min(self) -> usize {
        match self {
            Level::Linear | Level::Raid0 | Level::Raid1 => 1,
            Level::Raid10 | Level::Raid4 | Level::Raid5 => 2,
            Level::Raid6 => 4,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Linear => "linear",
            Level::Raid0 => "raid0",
            Level::Raid1 => "raid1",
            Level::Raid4 => "raid4",
            Level::Raid5 => "raid5",
            Level::Raid6 => "raid6",
            Level::Raid10 => "raid10",
        })
    }
}

impl FromStr for Level {
    type Err = SpecError;
    /// From `raid5`, `5` and the like.
    fn from_str(text: &str) -> Result<Level, SpecError> {
        let all = [
            Level::Linear,
            Level::Raid0,
            Level::Raid1,
            Level::Raid4,
            Level::Raid5,
            Level::Raid6,
            Level::Raid10,
        ];
        all.into_iter()
            .find(|level| {
                let name = level.to_string();
                text == name || name.strip_prefix("raid") == Some(text)
            })
            .ok_or_else(|| SpecError::UnknownLevel { text: text.to_owned() })
    }
}

/// Where a row has its parity, and in which order its data. See `layout::parity` for the tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each variant is md's name, and the tables say what it is")]
pub enum ParityLayout {
    LeftAsymmetric,
    RightAsymmetric,
    #[default]
    LeftSymmetric,
    RightSymmetric,
    ParityFirst,
    ParityLast,
    DdfZeroRestart,
    DdfNRestart,
    DdfNContinue,
    LeftAsymmetric6,
    RightAsymmetric6,
    LeftSymmetric6,
    RightSymmetric6,
    ParityFirst6,
}

/// Each parity layout with md's number and name.
const PARITY_LAYOUTS: [(ParityLayout, i32, &str); 14] = [
    (ParityLayout::LeftAsymmetric, 0, "left-asymmetric"),
    (ParityLayout::RightAsymmetric, 1, "right-asymmetric"),
    (ParityLayout::LeftSymmetric, 2, "left-symmetric"),
    (ParityLayout::RightSymmetric, 3, "right-symmetric"),
    (ParityLayout::ParityFirst, 4, "parity-first"),
    (ParityLayout::ParityLast, 5, "parity-last"),
    (ParityLayout::DdfZeroRestart, 8, "ddf-zero-restart"),
    (ParityLayout::DdfNRestart, 9, "ddf-N-restart"),
    (ParityLayout::DdfNContinue, 10, "ddf-N-continue"),
    (ParityLayout::LeftAsymmetric6, 16, "left-asymmetric-6"),
    (ParityLayout::RightAsymmetric6, 17, "right-asymmetric-6"),
    (ParityLayout::LeftSymmetric6, 18, "left-symmetric-6"),
    (ParityLayout::RightSymmetric6, 19, "right-symmetric-6"),
    (ParityLayout::ParityFirst6, 20, "parity-first-6"),
];
impl ParityLayout {
    /// md's name.
    pub fn name(self) -> &'static str {
        let found = PARITY_LAYOUTS.iter().find(|(other, ..)| *other == self);
        found.map_or("unknown", |(.., name)| name)
    }

    /// md's number.
    pub fn number(self) -> i32 {
        let found = PARITY_LAYOUTS.iter().find(|(other, ..)| *other == self);
        found.map_or(0, |(_, number, _)| *number)
    }
}

/// The layouts that RAID 6 alone has begin with this number.
const RAID6_ONLY_FROM: i32 = 8;

/// The layout within a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// The level's default: left-symmetric, near-2, alternate.
    #[default]
    Default,
    /// RAID 4, 5, 6.
    Parity(ParityLayout),
    /// RAID 0 over members of different sizes: whether the rule is that of kernels to 3.13.
    Raid0 {
        /// The older rule.
        original: bool,
    },
    /// RAID 10.
    Mirrored {
        /// Copies beside one another.
        near: usize,
        /// Copies in other parts of the members.
        far: usize,
        /// Whether far copies follow row by row.
        offset: bool,
        /// How far copies are shifted: the layout number from bit 17 on.
        far_sets: FarSets,
    },
}

/// Within how many members the far copies of RAID 10 go round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FarSets {
    /// All (mdadm's default).
    #[default]
    All,
    /// Members divided by far copies (bit 17; "improved", with the kernel's known flaw).
    Divided,
    /// Far times near copies (bit 18).
    Copies,
}

impl FarSets {
    /// Among how many of so many members the far copies go round.
    pub(crate) fn members(self, members: usize, near: usize, far: usize) -> usize {
        match self {
            FarSets::All => members,
            FarSets::Divided => members / far.max(1),
            FarSets::Copies => near * far,
        }
    }
}

impl Layout {
    /// The layout of the kernel's number at a level.
    ///
    /// # Errors
    /// Where the level has no such layout.
    pub fn from_md(level: Level, number: i32) -> Result<Layout, SpecError> {
        let unknown = || SpecError::UnknownLayout { level, text: number.to_string() };
        match level {
            Level::Raid5 | Level::Raid6 => {
                let found = PARITY_LAYOUTS.into_iter().find(|(_, other, _)| *other == number);
                let found = found.filter(|_| level == Level::Raid6 || number < RAID6_ONLY_FROM);
                found.map(|(layout, ..)| Layout::Parity(layout)).ok_or_else(unknown)
            }
            Level::Raid10 => {
                let far_sets = match number >> 17 {
                    0 => FarSets::All,
                    1 => FarSets::Divided,
                    2 => FarSets::Copies,
                    _ => return Err(unknown()),
                };
                let (near, far) = ((number & 255) as usize, (number >> 8 & 255) as usize);
                if near == 0 || far == 0 {
                    return Err(unknown());
                }
                Ok(Layout::Mirrored { near, far, offset: number >> 16 & 1 == 1, far_sets })
            }
            Level::Raid0 if number == 1 => Ok(Layout::Raid0 { original: true }),
            Level::Raid0 if number == 2 => Ok(Layout::Raid0 { original: false }),
            Level::Linear | Level::Raid0 | Level::Raid1 | Level::Raid4 => Ok(Layout::Default),
        }
    }

    /// The kernel's number of a layout at a level; of the level's default where it is that.
    pub fn to_md(self, level: Level) -> u32 {
        match (self, level) {
            (Layout::Parity(layout), _) => layout.number() as u32,
            (Layout::Raid0 { original }, _) => {
                if original {
                    1
                } else {
                    2
                }
            }
            (Layout::Mirrored { near, far, offset, far_sets }, _) => {
                let far_sets = match far_sets {
                    FarSets::All => 0,
                    FarSets::Divided => 1,
                    FarSets::Copies => 2,
                };
                (near | far << 8 | usize::from(offset) << 16 | far_sets << 17) as u32
            }
            (Layout::Default, Level::Raid5 | Level::Raid6) => {
                ParityLayout::default().number() as u32
            }
            (Layout::Default, Level::Raid10) => 0x102,
            (Layout::Default, Level::Raid0) => 2,
            (Layout::Default, Level::Linear | Level::Raid1 | Level::Raid4) => 0,
        }
    }

    /// The layout of this name at a level: `left-symmetric`, `near-2` or `n2`, `original`, ...
    ///
    /// # Errors
    /// Where the level has no such layout.
    pub fn parse(level: Level, text: &str) -> Result<Layout, SpecError> {
        let unknown = || SpecError::UnknownLayout { level, text: text.to_owned() };
        match level {
            Level::Raid5 | Level::Raid6 => {
                let short = match text {
                    "la" => "left-asymmetric",
                    "ra" => "right-asymmetric",
                    "ls" => "left-symmetric",
                    "rs" => "right-symmetric",
                    other => other,
                };
                let found = PARITY_LAYOUTS
                    .into_iter()
                    .find(|(_, _, name)| name.eq_ignore_ascii_case(short));
                let (_, number, _) = found.ok_or_else(unknown)?;
                Layout::from_md(level, number).map_err(|_| unknown())
            }
            Level::Raid10 => {
                let (kind, count) = text
                    .split_once('-')
                    .or_else(|| text.split_at_checked(1))
                    .ok_or_else(unknown)?;
                let count: usize = count.parse().map_err(|_| unknown())?;
                if count == 0 {
                    return Err(unknown());
                }
                let (near, far, offset) = match kind {
                    "near" | "n" => (count, 1, false),
                    "far" | "f" => (1, count, false),
                    "offset" | "o" => (1, count, true),
                    _ => return Err(unknown()),
                };
                Ok(Layout::Mirrored { near, far, offset, far_sets: FarSets::All })
            }
            Level::Raid0 => match text {
                "original" => Ok(Layout::Raid0 { original: true }),
                "alternate" => Ok(Layout::Raid0 { original: false }),
                _ => Err(unknown()),
            },
            Level::Linear | Level::Raid1 | Level::Raid4 => Err(unknown()),
        }
    }
}

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

/// Why an array can't be as it is wished for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the texts name")]
pub enum SpecError {
    #[error("'{text}' is no RAID level: write linear, raid0, raid1, raid4, raid5, raid6 or raid10")]
    UnknownLevel { text: String },
    #[error("'{text}' is no layout of {level}: {}", layouts_of(*level))]
    UnknownLayout { level: Level, text: String },
    #[error(
        "{level} needs at least {needed} members and has {given}: add members or choose another level"
    )]
    TooFewSlots { level: Level, needed: usize, given: usize },
    #[error("{given} members: an array has {MEMBERS_MAX} at the most; nest arrays instead")]
    TooManySlots { given: usize },
    #[error(
        "{level}: {missing} members are missing, and its redundancy covers {covered}: bring one back"
    )]
    TooManyMissing { level: Level, missing: usize, covered: usize },
    #[error(
        "{level}: a member is missing and the parity is not known to be right: initialise the array with all members first"
    )]
    DirtyDegraded { level: Level },
    #[error(
        "a chunk of {chunk}: give a power of two from {CHUNK_MIN} to {CHUNK_MAX} (RAID 0 takes any multiple of {CHUNK_MIN})"
    )]
    Chunk { chunk: ByteCount },
    #[error(
        "member {slot} ({name}) has {capacity}, too little for {needed}: use a larger one or shrink the component size"
    )]
    MemberTooSmall { slot: usize, name: String, capacity: ByteCount, needed: ByteCount },
    #[error("the spare {name} has {capacity}, and a member needs {needed}: use a larger one")]
    SpareTooSmall { name: String, capacity: ByteCount, needed: ByteCount },
    #[error("the spare {name}: an array has {SPARES_MAX} at the most; remove one first")]
    TooManySpares { name: String },
    #[error(
        "{disks} members with {near} near and {far} far copies, which would fall on one another: make the members a multiple of {near}"
    )]
    Collision { disks: usize, near: usize, far: usize },
    #[error(
        "member {slot} ({name}) has blocks of {block}, which do not divide the chunk and the data offset: choose multiples of {block}"
    )]
    Block { slot: usize, name: String, block: ByteCount },
}

fn layouts_of(level: Level) -> &'static str {
    match level {
        Level::Raid5 | Level::Raid6 => {
            "write left-symmetric, left-asymmetric, right-symmetric, right-asymmetric, parity-first or parity-last"
        }
        Level::Raid10 => "write near-2, far-2 or offset-2 (or another number of copies)",
        Level::Raid0 => "write original or alternate",
        Level::Linear | Level::Raid1 | Level::Raid4 => "it has one layout, leave it out",
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
