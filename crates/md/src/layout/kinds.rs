//! Which layouts there are: md's names and numbers. What each means is told by the map that lays it.

use crate::level::Level;

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
pub(crate) const PARITY_LAYOUTS: [(ParityLayout, i32, &str); 14] = [
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
pub(crate) const RAID6_ONLY_FROM: i32 = 8;

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
}
