//! RAID levels: what each is called, and how much of a row is parity.

use std::fmt;

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
