//! How a disk reads ahead: how far, how much of it in any case, and whether it goes on when the buffer held what was asked for.

use crate::profile::{DiskProfile, Given, ReadAheadUntil};

/// How a disk reads ahead.
#[derive(Clone, Copy, Debug)]
pub struct AheadRules {
    /// Where it ends.
    pub until: ReadAheadUntil,
    /// Sectors beyond the last request.
    pub limit: u64,
    /// Sectors that are read in any case.
    pub least: u64,
    /// Whether it goes on after a read that the buffer held; when half is used up, where nobody knows.
    pub after_hit: Option<bool>,
}

impl AheadRules {
    /// Those of a profile whose segments hold so many sectors.
    pub fn new(profile: &DiskProfile, segment_sectors: u64) -> AheadRules {
        let sector_bytes = profile.sector_bytes.value;
        let sectors = profile.read_ahead_kb.value * 1024 / sector_bytes;
        let least = profile.read_ahead_min_kb.as_ref().map_or(0.0, |given| given.value);
        let value = |given: &Option<Given<bool>>| given.as_ref().map(|given| given.value);
        AheadRules {
            until: profile.read_ahead_until.as_ref().map_or(ReadAheadUntil::Limit, |u| u.value),
            limit: sectors.min(segment_sectors),
            least: (least * 1024.0) as u64 / sector_bytes,
            after_hit: value(&profile.read_ahead_after_hit),
        }
    }
}
