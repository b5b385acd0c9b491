//! The profile of a hard disk: the parameters that DiskSim's specifications of disks have, as far as
//! data sheets give them (CMU-PDL-08-101, "The DiskSim Simulation Environment", chapter on disks).

use super::given::{Flaw, Given, profile};

profile! {
    /// A hard disk.
    DiskProfile {
        /// Revolutions a minute.
        rpm: Given<f64>,
        /// Mean seek before a read, over all pairs of cylinders, settling included.
        avg_seek_read_ms: Given<f64>,
        /// Mean seek before a write.
        avg_seek_write_ms: Given<f64>,
        /// Seek to the next cylinder before a read.
        track_to_track_ms: Given<f64>,
        /// Seek from the first cylinder to the last before a read.
        full_stroke_ms: Given<f64>,
        /// From one surface to another of the same cylinder.
        head_switch_ms: Given<f64>,
        /// Logical sectors.
        sectors: Given<u64>,
        /// Bytes of a logical sector.
        sector_bytes: Given<u64>,
        /// Bytes of a sector on the medium; less than that is written by reading and a revolution.
        physical_sector_bytes: Given<u64>,
        /// Surfaces with a head.
        heads: Given<u64>,
        /// Zones of equal numbers of cylinders, each with its sectors per track.
        zones: Given<u64>,
        /// Sustained rate in the outermost zone, switching of tracks included (10⁶ B/s).
        outer_rate_mb_s: Given<f64>,
        /// Sustained rate in the innermost zone.
        inner_rate_mb_s: Given<f64>,
        /// Buffer memory for reads (2²⁰ B).
        read_cache_mb: Given<f64>,
        /// Segments of the read buffer: sequential streams that it follows.
        read_segments: Given<u64>,
        /// How far the disk reads ahead of the last request (2¹⁰ B).
        read_ahead_kb: Given<u64>,
        /// Whether writes are answered from the buffer.
        write_cache_enabled: Given<bool>,
        /// Buffer memory for writes (2²⁰ B).
        write_cache_mb: Given<f64>,
        /// Separate pieces that the write buffer keeps track of.
        write_cache_extents: Given<u64>,
        /// Time of the electronics for one command.
        command_overhead_us: Given<f64>,
        /// Rate of the interface (10⁶ B/s).
        interface_mb_s: Given<f64>,
        /// Commands that the host may have outstanding.
        queue_depth: Given<u64>,
        /// Commands among which the firmware chooses the nearest.
        reorder_depth: Given<u64>,
        /// Commands that have to overtake a waiting one until it is chosen as if it were a revolution
        /// nearer. Fewer are fairer and slower.
        age_commands: Given<f64>,
        /// Age at which a command is next, however far.
        age_limit_ms: Given<f64>,
        /// Failures of a drive in a year of running, in per cent; none where nobody says.
        afr_percent: Option<Given<f64>>,
        /// Unreadable sectors for each 10¹⁵ bits read: 1 for "one in 10¹⁵"; none where nobody says.
        unreadable_per_petabit: Option<Given<f64>>,
    }
}

impl DiskProfile {
    pub(crate) fn check(&self) -> Result<(), Flaw> {
        let positive = |value: f64, key| Flaw::unless(value > 0.0, key, "must be more than 0");
        positive(self.rpm.value, "rpm")?;
        positive(self.interface_mb_s.value, "interface_mb_s")?;
        positive(self.inner_rate_mb_s.value, "inner_rate_mb_s")?;
        positive(self.heads.value as f64, "heads")?;
        positive(self.queue_depth.value as f64, "queue_depth")?;
        positive(self.reorder_depth.value as f64, "reorder_depth")?;
        positive(self.read_segments.value as f64, "read_segments")?;
        positive(self.age_commands.value, "age_commands")?;
        positive(self.write_cache_extents.value as f64, "write_cache_extents")?;
        let ordered = self.inner_rate_mb_s.value <= self.outer_rate_mb_s.value;
        Flaw::unless(ordered, "inner_rate_mb_s", "must not be above outer_rate_mb_s")?;
        let seek = self.avg_seek_read_ms.value;
        let above = self.avg_seek_write_ms.value >= seek;
        Flaw::unless(above, "avg_seek_write_ms", "must not be below avg_seek_read_ms")?;
        let between = self.track_to_track_ms.value < seek && seek < self.full_stroke_ms.value;
        let mend = "must lie between track_to_track_ms and full_stroke_ms";
        Flaw::unless(between, "avg_seek_read_ms", mend)?;
        let zones = (1..=256).contains(&self.zones.value);
        Flaw::unless(zones, "zones", "write a number of zones from 1 to 256")?;
        let sector = matches!(self.sector_bytes.value, 512 | 4096);
        Flaw::unless(sector, "sector_bytes", "write 512 or 4096")?;
        let physical = self.physical_sector_bytes.value;
        let physical = matches!(physical, 512 | 4096) && physical >= self.sector_bytes.value;
        let mend = "write 512 or 4096, not below sector_bytes";
        Flaw::unless(physical, "physical_sector_bytes", mend)?;
        let sectors = (1 << 20..1 << 40).contains(&self.sectors.value);
        Flaw::unless(sectors, "sectors", "write a number of sectors from 2^20 to 2^40")?;
        check_reliability(self.afr_percent.as_ref(), self.unreadable_per_petabit.as_ref())
    }
}

/// What data sheets promise of failures can be counted with.
pub(super) fn check_reliability(
    afr_percent: Option<&Given<f64>>,
    unreadable_per_petabit: Option<&Given<f64>>,
) -> Result<(), Flaw> {
    let afr = afr_percent.is_none_or(|given| (0.0..100.0).contains(&given.value));
    Flaw::unless(afr, "afr_percent", "write a number of per cent from 0 to below 100")?;
    let unreadable = unreadable_per_petabit.is_none_or(|given| (0.0..=1e6).contains(&given.value));
    Flaw::unless(
        unreadable,
        "unreadable_per_petabit",
        "write a number from 0 to 1e6: 1 for one sector in 10^15 bits",
    )
}
