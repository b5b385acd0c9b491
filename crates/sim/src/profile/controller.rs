//! The profile of a controller: a plain host bus adapter (no cache, no parity) or a RAID controller.

use super::{Flaw, Given, profile};

profile! {
    /// A host bus adapter or a RAID controller.
    ControllerProfile {
        /// Time for which one command occupies the controller's processor.
        command_overhead_us: Given<f64>,
        /// All data that passes it, both ways together (10⁶ B/s).
        throughput_mb_s: Given<f64>,
        /// Cache memory (2²⁰ B); 0 for none.
        cache_mb: Given<f64>,
        /// Whether the cache keeps writes through a power cut; without it, writes go through.
        battery_backed: Given<bool>,
        /// How far it reads ahead of a sequential stream (2¹⁰ B).
        read_ahead_kb: Given<u64>,
        /// Share of the cache, in percent, above which it writes back at full speed.
        destage_percent: Given<f64>,
        /// Largest write-back in one piece (2¹⁰ B).
        destage_kb: Given<u64>,
        /// Writes back that are under way at once.
        destage_depth: Given<u64>,
        /// Data that its XOR engine takes for P (10⁶ B/s); 0 where the host does the parity.
        parity_p_mb_s: Given<f64>,
        /// Likewise for P and Q.
        parity_pq_mb_s: Given<f64>,
    }
}

impl ControllerProfile {
    pub(crate) fn check(&self) -> Result<(), Flaw> {
        let throughput = self.throughput_mb_s.value > 0.0;
        Flaw::unless(throughput, "throughput_mb_s", "must be more than 0")?;
        let percent = (0.0..=90.0).contains(&self.destage_percent.value);
        Flaw::unless(percent, "destage_percent", "write a share from 0 to 90")?;
        Flaw::unless(self.destage_kb.value >= 4, "destage_kb", "must be 4 at least")?;
        Flaw::unless(self.destage_depth.value > 0, "destage_depth", "must be more than 0")
    }
}
