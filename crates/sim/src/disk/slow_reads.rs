//! Reads that come out at a later attempt only: the rare tail of a disk's response times.
//!
//! Servo off track, a weak sector: the disk tries again, revolution after revolution, with other settings, and after some tens
//! of milliseconds has it. One read in a thousand is enough for a 99.9th percentile three times as long. When, nobody can
//! foretell; so it is drawn, from the disk's own seed.

use crate::profile::DiskProfile;
use stdx::{Duration, Prng};

/// Draws them.
#[derive(Clone, Debug)]
pub struct SlowReads {
    share: f64,
    delay: Duration,
    prng: Prng,
}

impl SlowReads {
    /// Those of a profile, if it has any.
    pub fn new(profile: &DiskProfile, prng: &mut Prng) -> Option<SlowReads> {
        let per_million = profile.slow_reads_per_million.as_ref()?.value;
        let ms = profile.slow_read_ms.as_ref()?.value;
        let delay = Duration::from_nanos((ms * 1e6) as u64);
        Some(SlowReads { share: per_million / 1e6, delay, prng: prng.fork() })
    }

    /// How much longer the next read takes.
    pub fn delay(&mut self) -> Duration {
        if self.prng.chance(self.share) { self.delay } else { Duration::ZERO }
    }
}
