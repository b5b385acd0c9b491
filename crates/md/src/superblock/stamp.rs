//! Moments as md writes them: seconds since 1970 in the low 40 bits, microseconds in the high 24.
//!
//! Nothing here asks a clock. Superblock 0.90 has the seconds alone, in 32 bits.

/// A moment, in md's form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(pub u64);

/// The bits that hold seconds.
const SECONDS_MASK: u64 = (1 << 40) - 1;

impl Stamp {
    /// A moment of so many seconds since 1970.
    pub fn from_seconds(seconds: u64) -> Stamp {
        Stamp(seconds & SECONDS_MASK)
    }

    /// Seconds since 1970.
    pub fn seconds(self) -> u64 {
        self.0 & SECONDS_MASK
    }

    /// And so many microseconds.
    pub fn microseconds(self) -> u64 {
        self.0 >> SECONDS_MASK.count_ones()
    }
}
