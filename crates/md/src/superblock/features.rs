//! The feature map of superblock 1.x: which optional fields count, and what a reader must understand.
//!
//! Each bit has its name from `md_p.h`. Two kinds are refused: bits that md knows and Spindle does not
//! honour, by name, and bits that nobody knows, by number. (The lockless bitmap, llbitmap, has no bit of
//! its own: it is refused by the version of the bitmap's superblock.)

use std::fmt;
use std::ops::BitOr;
use stdx::bytes::Problem;

/// A set of feature bits.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Features(u32);

impl Features {
    /// No feature.
    pub const NONE: Features = Features(0);
    /// There is a write-intent bitmap at `bitmap_offset`.
    pub const BITMAP: Features = Features(1);
    /// This device is right only before `recovery_offset`.
    pub const RECOVERY_OFFSET: Features = Features(2);
    /// A reshape is under way: the `reshape` fields count.
    pub const RESHAPE_ACTIVE: Features = Features(4);
    /// The bad-block log is not empty.
    pub const BAD_BLOCKS: Features = Features(8);
    /// This device is being filled to replace the one with the same role.
    pub const REPLACEMENT: Features = Features(16);
    /// A reshape that keeps the number of devices goes from the end to the start.
    pub const RESHAPE_BACKWARDS: Features = Features(32);
    /// `new_offset` counts.
    pub const NEW_OFFSET: Features = Features(64);
    /// The recovery under way goes by the bitmap.
    pub const RECOVERY_BITMAP: Features = Features(128);
    /// The array belongs to a cluster.
    pub const CLUSTERED: Features = Features(256);
    /// The array has a journal device.
    pub const JOURNAL: Features = Features(512);
    /// There is a partial parity log.
    pub const PPL: Features = Features(1024);
    /// There is a partial parity log of several headers.
    pub const MULTIPLE_PPLS: Features = Features(2048);
    /// `layout` tells which rule a RAID 0 of several zones follows.
    pub const RAID0_LAYOUT: Features = Features(4096);

    /// Each bit with its name.
    const NAMES: [(Features, &'static str); 13] = [
        (Features::BITMAP, "bitmap"),
        (Features::RECOVERY_OFFSET, "recovery offset"),
        (Features::RESHAPE_ACTIVE, "reshape active"),
        (Features::BAD_BLOCKS, "bad blocks"),
        (Features::REPLACEMENT, "replacement"),
        (Features::RESHAPE_BACKWARDS, "reshape backwards"),
        (Features::NEW_OFFSET, "new offset"),
        (Features::RECOVERY_BITMAP, "recovery by bitmap"),
        (Features::CLUSTERED, "clustered bitmap"),
        (Features::JOURNAL, "journal"),
        (Features::PPL, "PPL"),
        (Features::MULTIPLE_PPLS, "multiple PPLs"),
        (Features::RAID0_LAYOUT, "RAID 0 layout"),
    ];

    /// The features of a map on disk.
    pub(super) fn decode(bits: u32) -> Result<Features, Problem> {
        let known = Features::NAMES.iter().fold(0, |known, (bit, _)| known | bit.0);
        if bits & !known != 0 {
            return Err(Problem::UnknownBits(u64::from(bits & !known)));
        }
        let features = Features(bits);
        if features.has(Features::CLUSTERED) {
            return Err(Problem::Unsupported("a clustered bitmap (bit 8)"));
        }
        let ppl = features.has(Features::PPL) || features.has(Features::MULTIPLE_PPLS);
        if ppl && features.has(Features::BITMAP) {
            return Err(Problem::Contradiction("a bitmap and a PPL use the same field"));
        }
        if ppl && features.has(Features::JOURNAL) {
            return Err(Problem::Contradiction("a journal and a PPL exclude one another"));
        }
        Ok(features)
    }

    /// The map as a number.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Whether all bits of `other` are set.
    pub fn has(self, other: Features) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether there is a partial parity log of either kind.
    pub fn has_ppl(self) -> bool {
        self.has(Features::PPL) || self.has(Features::MULTIPLE_PPLS)
    }

    /// The same with the bits of `other` set or cleared.
    #[must_use]
    pub fn with(self, other: Features, set: bool) -> Features {
        if set { Features(self.0 | other.0) } else { Features(self.0 & !other.0) }
    }
}

impl BitOr for Features {
    type Output = Features;
    fn bitor(self, other: Features) -> Features {
        Features(self.0 | other.0)
    }
}

impl fmt::Debug for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Features::NAMES.iter().filter(|(bit, _)| self.has(*bit)).map(|(_, name)| name);
        f.debug_set().entries(names).finish()
    }
}
