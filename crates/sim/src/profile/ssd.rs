//! The profile of a solid-state drive: its geometry, what its medium takes for an operation, and what
//! its controller adds. The keys that begin with `sheet_` are what its maker promises; no model reads
//! them, the tests compare the model with them.

use super::disk::check_reliability;
use super::given::{Flaw, Given, profile};
use super::tables::PageTimes;
use serde::Deserialize;
use std::fmt;

/// The state in which a maker's figure for random writes was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SheetState {
    /// On an empty drive.
    Fresh,
    /// After the drive was written over at random, as the SNIA performance test specification asks.
    Steady,
}

impl fmt::Display for SheetState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SheetState::Fresh => "fresh",
            SheetState::Steady => "steady",
        })
    }
}

profile! {
    /// A solid-state drive.
    SsdProfile {
        /// Logical sectors.
        sectors: Given<u64>,
        /// Bytes of a logical sector.
        sector_bytes: Given<u64>,
        /// Bytes that the drive maps as one.
        mapping_bytes: Given<u64>,
        /// Rotates blocks out of the way: the medium can't be written in place (flash).
        garbage_collection: Given<bool>,
        /// Channels between the controller and the medium.
        channels: Given<u64>,
        /// Dies on each channel.
        dies_per_channel: Given<u64>,
        /// Bytes that one read of a die brings (2¹⁰ B).
        page_kb: Given<u64>,
        /// Time of one read of a die.
        read_us: Given<f64>,
        /// Times of one read of a die by the kind of page, where they differ; `read_us` is their mean.
        page_read_us: Option<Given<PageTimes>>,
        /// Reads of a die, of a million, that only come out at a later attempt.
        slow_reads_per_million: Option<Given<f64>>,
        /// What such a read takes more.
        slow_read_us: Option<Given<f64>>,
        /// Bytes that one programming of a die writes, all planes and bits (2¹⁰ B).
        program_kb: Given<u64>,
        /// Time of one programming.
        program_us: Given<f64>,
        /// Bytes that one erasing of a die clears, all planes (2²⁰ B).
        erase_mb: Given<f64>,
        /// Time of one erasing.
        erase_us: Given<f64>,
        /// How soon a read interrupts a programming or erasing; without it the read waits it out.
        suspend_us: Option<Given<f64>>,
        /// Rate of one channel (10⁶ B/s).
        channel_mb_s: Given<f64>,
        /// Rate of the interface, each way (10⁶ B/s).
        interface_mb_s: Given<f64>,
        /// Latency that the controller adds to a read.
        read_overhead_us: Given<f64>,
        /// Latency that the controller adds to a write.
        write_overhead_us: Given<f64>,
        /// Time for which a read occupies the controller: the inverse of its highest rate.
        read_command_us: Given<f64>,
        /// Time for which a write occupies the controller.
        write_command_us: Given<f64>,
        /// Physical space beyond the logical, in percent of the logical.
        over_provisioning_percent: Given<f64>,
        /// Buffer for writes (2²⁰ B); without one a write is answered by the medium.
        write_buffer_mb: Given<f64>,
        /// Whether the buffer survives a power cut.
        power_loss_protection: Given<bool>,
        /// What a flush takes beside emptying the buffer.
        flush_us: Given<f64>,
        /// Commands that the host may have outstanding.
        queue_depth: Given<u64>,
        /// Promised: latency of a 4 KiB read alone.
        sheet_read_latency_us: Given<f64>,
        /// Promised: most 4 KiB random reads a second.
        sheet_read_iops: Given<f64>,
        /// Promised: most 4 KiB random writes a second.
        sheet_write_iops: Given<f64>,
        /// The state in which `sheet_write_iops` holds.
        sheet_write_state: Given<SheetState>,
        /// Promised: sequential reads (10⁶ B/s).
        sheet_read_mb_s: Given<f64>,
        /// Promised: sequential writes (10⁶ B/s).
        sheet_write_mb_s: Given<f64>,
        /// Failures of a drive in a year of running, in per cent; none where nobody says.
        afr_percent: Option<Given<f64>>,
        /// Unreadable sectors for each 10¹⁵ bits read: 1 for "one in 10¹⁵"; none where nobody says.
        unreadable_per_petabit: Option<Given<f64>>,
    }
}

impl SsdProfile {
    pub(crate) fn check(&self) -> Result<(), Flaw> {
        let positive = |value: f64, key| Flaw::unless(value > 0.0, key, "must be more than 0");
        positive(self.channels.value as f64, "channels")?;
        positive(self.dies_per_channel.value as f64, "dies_per_channel")?;
        positive(self.page_kb.value as f64, "page_kb")?;
        positive(self.program_kb.value as f64, "program_kb")?;
        positive(self.program_us.value, "program_us")?;
        positive(self.erase_mb.value, "erase_mb")?;
        positive(self.channel_mb_s.value, "channel_mb_s")?;
        positive(self.interface_mb_s.value, "interface_mb_s")?;
        positive(self.queue_depth.value as f64, "queue_depth")?;
        if self.garbage_collection.value {
            positive(self.over_provisioning_percent.value, "over_provisioning_percent")?;
            let buffer = self.write_buffer_mb.value * 1024.0 >= 2.0 * self.program_kb.value as f64;
            let mend = "a drive that collects garbage needs a buffer of two programmings at least";
            Flaw::unless(buffer, "write_buffer_mb", mend)?;
        }
        let sector = matches!(self.sector_bytes.value, 512 | 4096);
        Flaw::unless(sector, "sector_bytes", "write 512 or 4096")?;
        let mapping = self.mapping_bytes.value;
        let mapping = mapping.is_power_of_two() && (512..=65536).contains(&mapping);
        Flaw::unless(mapping, "mapping_bytes", "write a power of two from 512 to 65536")?;
        let sectors = (1 << 20..1 << 40).contains(&self.sectors.value);
        Flaw::unless(sectors, "sectors", "write a number of sectors from 2^20 to 2^40")?;
        if let Some(times) = &self.page_read_us {
            times.value.check("page_read_us")?;
            let mean = times.value.0.iter().sum::<f64>() / times.value.0.len() as f64;
            let is_mean = (mean / self.read_us.value - 1.0).abs() < 0.02;
            Flaw::unless(is_mean, "read_us", "must be the mean of page_read_us")?;
        }
        let slow = self.slow_reads_per_million.as_ref().is_none_or(|given| given.value <= 1e6);
        Flaw::unless(slow, "slow_reads_per_million", "write a number from 0 to 1 000 000")?;
        let (afr, unreadable) = (self.afr_percent.as_ref(), self.unreadable_per_petabit.as_ref());
        check_reliability(afr, unreadable)
    }
}
