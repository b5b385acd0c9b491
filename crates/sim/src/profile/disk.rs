//! The profile of a hard disk: the parameters that DiskSim's specifications of disks have, as far as
//! data sheets give them (CMU-PDL-08-101, "The DiskSim Simulation Environment", chapter on disks).

use super::given::{Flaw, Given, Origin, profile};
use super::numbers::{self, Spares};
use super::tables::{Numbering, ReadAheadUntil, SeekTable, Sparing, WriteBackOrder, ZoneTable};

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
        /// Rate of the interface for what is written, where it is another.
        interface_write_mb_s: Option<Given<f64>>,
        /// Times of seeks before a read, measured: what is used instead of the curve through the sheet's numbers.
        seek_table: Option<Given<SeekTable>>,
        /// Times of seeks before a write, where they were measured apart.
        seek_table_write: Option<Given<SeekTable>>,
        /// What a write waits beyond a read after a seek or a switch of heads, instead of the difference of the averages;
        /// may be negative.
        write_settle_ms: Option<Given<f64>>,
        /// Zones, measured: what is used instead of equal zones between the two rates.
        zone_table: Option<Given<ZoneTable>>,
        /// In which order tracks are numbered.
        numbering: Option<Given<Numbering>>,
        /// Where the spares of `zone_table` lie.
        sparing: Option<Given<Sparing>>,
        /// Cylinders of a range that has its spares at its end.
        sparing_range_cylinders: Option<Given<u64>>,
        /// Time for a read that the buffer holds, after a read; `command_overhead_us` where it is not given, as with all
        /// that follow.
        read_hit_us: Option<Given<f64>>,
        /// Likewise after a write; as after a read where it is not given.
        read_hit_after_write_us: Option<Given<f64>>,
        /// Time before the mechanism begins with a read.
        read_miss_us: Option<Given<f64>>,
        /// Likewise after a write.
        read_miss_after_write_us: Option<Given<f64>>,
        /// Time for a write that is answered from the buffer, after a read.
        write_hit_us: Option<Given<f64>>,
        /// Likewise after a write.
        write_hit_after_write_us: Option<Given<f64>>,
        /// Time before the mechanism begins with a write that is answered when it is on the medium.
        write_miss_us: Option<Given<f64>>,
        /// Likewise after a write.
        write_miss_after_write_us: Option<Given<f64>>,
        /// Time for the answer to a read, after its data; 0 where it is not given, as with all that follow.
        read_completion_us: Option<Given<f64>>,
        /// Likewise for a write.
        write_completion_us: Option<Given<f64>>,
        /// Time before data goes over the bus.
        data_preparation_us: Option<Given<f64>>,
        /// Time for coming back to the bus, for the first time of a command.
        reselect_us: Option<Given<f64>>,
        /// Likewise after the first time.
        reselect_again_us: Option<Given<f64>>,
        /// Time for leaving the bus before the mechanism reads.
        read_disconnect_us: Option<Given<f64>>,
        /// Likewise after a write.
        read_disconnect_after_write_us: Option<Given<f64>>,
        /// Time for leaving the bus when the data of a write is over.
        write_disconnect_us: Option<Given<f64>>,
        /// Whether a write that follows a write elsewhere leaves the bus before its data, too.
        extra_write_disconnect: Option<Given<bool>>,
        /// Such a write: time of the command, instead of `write_miss_us`.
        extra_command_us: Option<Given<f64>>,
        /// Such a write: time for leaving the bus first.
        extra_disconnect_us: Option<Given<f64>>,
        /// Such a write: time until it comes back for its data.
        extra_pause_us: Option<Given<f64>>,
        /// Such a write: time for leaving the bus again, instead of `write_disconnect_us`.
        extra_second_disconnect_us: Option<Given<f64>>,
        /// Such a write: time from the command's to the start of the arm.
        extra_seek_delay_us: Option<Given<f64>>,
        /// The least time that the arm takes before a write.
        minimum_write_seek_us: Option<Given<f64>>,
        /// Share of a read that must be in the buffer before the bus is asked for; the first sector where it is not given.
        read_watermark_percent: Option<Given<f64>>,
        /// Reading ahead that is finished before anything else is begun (2¹⁰ B).
        read_ahead_min_kb: Option<Given<f64>>,
        /// How far reading ahead goes.
        read_ahead_until: Option<Given<ReadAheadUntil>>,
        /// Whether a read that the buffer holds has the disk read on; when half of what was read ahead is used up, where it
        /// is not given.
        read_ahead_after_hit: Option<Given<bool>>,
        /// Whether sectors that pass before those asked for are read into the buffer.
        reads_what_passes: Option<Given<bool>>,
        /// Whether reading begins in the middle of what is asked for.
        read_on_arrival: Option<Given<bool>>,
        /// Whether writing to the medium does.
        write_on_arrival: Option<Given<bool>>,
        /// Whether reads find in the buffer what was written.
        reads_hit_writes: Option<Given<bool>>,
        /// In which order the buffer is written back.
        write_back_order: Option<Given<WriteBackOrder>>,
        /// Reads of the medium, of a million, that only come out at a later attempt.
        slow_reads_per_million: Option<Given<f64>>,
        /// What such a read takes more.
        slow_read_ms: Option<Given<f64>>,
        /// Failures of a drive in a year of running, in per cent; none where nobody says.
        afr_percent: Option<Given<f64>>,
        /// Unreadable sectors for each 10¹⁵ bits read: 1 for "one in 10¹⁵"; none where nobody says.
        unreadable_per_petabit: Option<Given<f64>>,
    }
}

/// The numbers that every disk's profile has, for one that is made from another form.
pub(super) struct Figures {
    pub(super) rpm: Given<f64>,
    pub(super) avg_seek_read_ms: Given<f64>,
    pub(super) avg_seek_write_ms: Given<f64>,
    pub(super) track_to_track_ms: Given<f64>,
    pub(super) full_stroke_ms: Given<f64>,
    pub(super) head_switch_ms: Given<f64>,
    pub(super) sectors: Given<u64>,
    pub(super) sector_bytes: Given<u64>,
    pub(super) physical_sector_bytes: Given<u64>,
    pub(super) heads: Given<u64>,
    pub(super) zones: Given<u64>,
    pub(super) outer_rate_mb_s: Given<f64>,
    pub(super) inner_rate_mb_s: Given<f64>,
    pub(super) read_cache_mb: Given<f64>,
    pub(super) read_segments: Given<u64>,
    pub(super) read_ahead_kb: Given<u64>,
    pub(super) write_cache_enabled: Given<bool>,
    pub(super) write_cache_mb: Given<f64>,
    pub(super) write_cache_extents: Given<u64>,
    pub(super) command_overhead_us: Given<f64>,
    pub(super) interface_mb_s: Given<f64>,
    pub(super) queue_depth: Given<u64>,
    pub(super) reorder_depth: Given<u64>,
}

impl DiskProfile {
    /// A profile of these numbers, without a table or a measured time.
    pub(super) fn of(name: String, title: String, figures: Figures) -> DiskProfile {
        let guessed = |value| {
            let origin = Origin::Guessed("the form says nothing of it".to_owned());
            Given::of(value, origin)
        };
        DiskProfile {
            _kind: "disk".to_owned(),
            name,
            title,
            notes: String::new(),
            rpm: figures.rpm,
            avg_seek_read_ms: figures.avg_seek_read_ms,
            avg_seek_write_ms: figures.avg_seek_write_ms,
            track_to_track_ms: figures.track_to_track_ms,
            full_stroke_ms: figures.full_stroke_ms,
            head_switch_ms: figures.head_switch_ms,
            sectors: figures.sectors,
            sector_bytes: figures.sector_bytes,
            physical_sector_bytes: figures.physical_sector_bytes,
            heads: figures.heads,
            zones: figures.zones,
            outer_rate_mb_s: figures.outer_rate_mb_s,
            inner_rate_mb_s: figures.inner_rate_mb_s,
            read_cache_mb: figures.read_cache_mb,
            read_segments: figures.read_segments,
            read_ahead_kb: figures.read_ahead_kb,
            write_cache_enabled: figures.write_cache_enabled,
            write_cache_mb: figures.write_cache_mb,
            write_cache_extents: figures.write_cache_extents,
            command_overhead_us: figures.command_overhead_us,
            interface_mb_s: figures.interface_mb_s,
            queue_depth: figures.queue_depth,
            reorder_depth: figures.reorder_depth,
            age_commands: guessed(128.0),
            age_limit_ms: guessed(500.0),
            interface_write_mb_s: None,
            seek_table: None,
            seek_table_write: None,
            write_settle_ms: None,
            zone_table: None,
            numbering: None,
            sparing: None,
            sparing_range_cylinders: None,
            read_hit_us: None,
            read_hit_after_write_us: None,
            read_miss_us: None,
            read_miss_after_write_us: None,
            write_hit_us: None,
            write_hit_after_write_us: None,
            write_miss_us: None,
            write_miss_after_write_us: None,
            read_completion_us: None,
            write_completion_us: None,
            data_preparation_us: None,
            reselect_us: None,
            reselect_again_us: None,
            read_disconnect_us: None,
            read_disconnect_after_write_us: None,
            write_disconnect_us: None,
            extra_write_disconnect: None,
            extra_command_us: None,
            extra_disconnect_us: None,
            extra_pause_us: None,
            extra_second_disconnect_us: None,
            extra_seek_delay_us: None,
            minimum_write_seek_us: None,
            read_watermark_percent: None,
            read_ahead_min_kb: None,
            read_ahead_until: None,
            read_ahead_after_hit: None,
            reads_what_passes: None,
            read_on_arrival: None,
            write_on_arrival: None,
            reads_hit_writes: None,
            write_back_order: None,
            slow_reads_per_million: None,
            slow_read_ms: None,
            afr_percent: None,
            unreadable_per_petabit: None,
        }
    }

    /// The disk as a data sheet would have it: averages instead of tables, and one time for every command, which is the mean of
    /// those that are given by class. How far it reads ahead stays: manuals say that.
    pub fn as_a_sheet_has_it(&self) -> DiskProfile {
        let classes = [
            &self.read_hit_us,
            &self.read_hit_after_write_us,
            &self.read_miss_us,
            &self.read_miss_after_write_us,
            &self.write_hit_us,
            &self.write_hit_after_write_us,
            &self.write_miss_us,
            &self.write_miss_after_write_us,
        ];
        let given: Vec<f64> = classes.into_iter().flatten().map(|given| given.value).collect();
        let mean = given.iter().sum::<f64>() / given.len().max(1) as f64;
        let overhead = match given.is_empty() {
            true => self.command_overhead_us.clone(),
            false => {
                let how = "the mean of the classes of commands".to_owned();
                Given::of(mean, Origin::Derived(how))
            }
        };
        let mut above = self.avg_seek_write_ms.clone();
        above.value = above.value.max(self.avg_seek_read_ms.value);
        let sheet = self.clone();
        let figures = Figures {
            avg_seek_write_ms: above,
            command_overhead_us: overhead,
            rpm: sheet.rpm,
            avg_seek_read_ms: sheet.avg_seek_read_ms,
            track_to_track_ms: sheet.track_to_track_ms,
            full_stroke_ms: sheet.full_stroke_ms,
            head_switch_ms: sheet.head_switch_ms,
            sectors: sheet.sectors,
            sector_bytes: sheet.sector_bytes,
            physical_sector_bytes: sheet.physical_sector_bytes,
            heads: sheet.heads,
            zones: sheet.zones,
            outer_rate_mb_s: sheet.outer_rate_mb_s,
            inner_rate_mb_s: sheet.inner_rate_mb_s,
            read_cache_mb: sheet.read_cache_mb,
            read_segments: sheet.read_segments,
            read_ahead_kb: sheet.read_ahead_kb,
            write_cache_enabled: sheet.write_cache_enabled,
            write_cache_mb: sheet.write_cache_mb,
            write_cache_extents: sheet.write_cache_extents,
            interface_mb_s: sheet.interface_mb_s,
            queue_depth: sheet.queue_depth,
            reorder_depth: sheet.reorder_depth,
        };
        DiskProfile {
            age_commands: sheet.age_commands,
            age_limit_ms: sheet.age_limit_ms,
            interface_write_mb_s: sheet.interface_write_mb_s,
            read_ahead_until: sheet.read_ahead_until,
            afr_percent: sheet.afr_percent,
            unreadable_per_petabit: sheet.unreadable_per_petabit,
            ..DiskProfile::of(sheet.name, sheet.title, figures)
        }
    }

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
        if self.zone_table.is_none() {
            self.check_rates()?;
        }
        if self.seek_table.is_none() {
            self.check_seeks()?;
        }
        let zones = (1..=1024).contains(&self.zones.value);
        Flaw::unless(zones, "zones", "write a number of zones from 1 to 1024")?;
        let sector = matches!(self.sector_bytes.value, 512 | 4096);
        Flaw::unless(sector, "sector_bytes", "write 512 or 4096")?;
        let physical = self.physical_sector_bytes.value;
        let physical = matches!(physical, 512 | 4096) && physical >= self.sector_bytes.value;
        let mend = "write 512 or 4096, not below sector_bytes";
        Flaw::unless(physical, "physical_sector_bytes", mend)?;
        let sectors = (1 << 20..1 << 40).contains(&self.sectors.value);
        Flaw::unless(sectors, "sectors", "write a number of sectors from 2^20 to 2^40")?;
        if let Some(rate) = &self.interface_write_mb_s {
            positive(rate.value, "interface_write_mb_s")?;
        }
        self.check_tables()?;
        check_reliability(self.afr_percent.as_ref(), self.unreadable_per_petabit.as_ref())
    }

    fn check_rates(&self) -> Result<(), Flaw> {
        let ordered = self.inner_rate_mb_s.value <= self.outer_rate_mb_s.value;
        Flaw::unless(ordered, "inner_rate_mb_s", "must not be above outer_rate_mb_s")
    }

    fn check_seeks(&self) -> Result<(), Flaw> {
        let seek = self.avg_seek_read_ms.value;
        let above = self.avg_seek_write_ms.value >= seek || self.write_settle_ms.is_some();
        let mend = "must not be below avg_seek_read_ms, or give write_settle_ms";
        Flaw::unless(above, "avg_seek_write_ms", mend)?;
        let between = self.track_to_track_ms.value < seek && seek < self.full_stroke_ms.value;
        let mend = "must lie between track_to_track_ms and full_stroke_ms";
        Flaw::unless(between, "avg_seek_read_ms", mend)
    }

    fn check_tables(&self) -> Result<(), Flaw> {
        if let Some(table) = &self.seek_table {
            table.value.check("seek_table")?;
        }
        if let Some(table) = &self.seek_table_write {
            table.value.check("seek_table_write")?;
        }
        let settle = self.write_settle_ms.as_ref().is_none_or(|ms| ms.value.abs() <= 1e3);
        Flaw::unless(settle, "write_settle_ms", "write a number from -1000 to 1000")?;
        let percent = self.read_watermark_percent.as_ref().is_none_or(|given| given.value <= 100.0);
        Flaw::unless(percent, "read_watermark_percent", "write a number from 0 to 100")?;
        let slow = self.slow_reads_per_million.as_ref().is_none_or(|given| given.value <= 1e6);
        Flaw::unless(slow, "slow_reads_per_million", "write a number from 0 to 1 000 000")?;
        let range = self.sparing_range_cylinders.as_ref().is_none_or(|given| given.value > 0);
        Flaw::unless(range, "sparing_range_cylinders", "must be more than 0")?;
        let Some(zones) = &self.zone_table else {
            let alone = self.sparing.is_none() && self.numbering.is_none();
            return Flaw::unless(alone, "zone_table", "numbering and sparing need a zone_table");
        };
        zones.value.check()?;
        let heads = (1..=256).contains(&self.heads.value);
        Flaw::unless(heads, "heads", "write 1 to 256 heads beside a zone_table")?;
        let of = |zone| numbers::sectors_in(zone, self.heads.value, self.spares());
        let holds: u64 = zones.value.0.iter().map(of).sum();
        let mend = format!("the zones hold {holds} sectors: write no more");
        Flaw::unless(self.sectors.value <= holds, "sectors", &mend)
    }

    /// Where its spares lie.
    pub fn spares(&self) -> Spares {
        Spares {
            place: self.sparing.as_ref().map_or(Sparing::None, |given| given.value),
            range_cylinders: self.sparing_range_cylinders.as_ref().map_or(1, |given| given.value),
        }
    }

    /// The facts that a measured disk's profile holds and this one does not, so that the model takes them from the sheet's
    /// few numbers.
    pub fn lacks(&self) -> Vec<&'static str> {
        let facts = [
            (self.seek_table.is_some(), "a seek table (seek_table)"),
            (self.zone_table.is_some(), "a zone table (zone_table)"),
            (
                self.read_miss_us.is_some() && self.read_hit_us.is_some(),
                "overheads by class (read_hit_us, read_miss_us, write_hit_us, write_miss_us)",
            ),
            (self.read_ahead_until.is_some(), "how far it reads ahead (read_ahead_until)"),
        ];
        facts.into_iter().filter(|(given, _)| !given).map(|(_, name)| name).collect()
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
