//! What a run saw: what the workload asked for, what the disks did, what the processor spent.
//!
//! All of it is of one stretch of time, the measured one. [`crate::measure::Mark`] takes the counters at
//! both ends and makes the difference.

use std::time::Duration;
use stdx::ByteCount;

/// From this share of what is written that goes into caches and stays there, they are filling. A rate is too high by as much;
/// below it that may be less than what rounds differ by,
const FILLING: f64 = 0.01;
/// unless it goes up and not down again: then they are filling from this share on. Of less, three digits of a rate tell nothing.
const FILLING_STEADILY: f64 = 0.002;

/// See the [module](self).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// How long it was.
    pub span: Duration,
    /// What the workload asked for.
    pub demand: Demand,
    /// What each disk did; empty where nobody could see.
    pub disks: Vec<DiskSample>,
    /// By how much more the caches before the disks, a RAID controller's, hold at its end of what was written.
    pub taken_before_disks: ByteCount,
    /// Whether what these caches and the disks' hold, all together, went up in that time and hardly down.
    pub caches_rise: bool,
    /// Processor time of this process (of the simulated host).
    pub processor: Duration,
    /// What the whole host did meanwhile; `None` where it can't be had.
    pub host: Option<HostUse>,
    /// Processor time of the thread that makes the load, where there is one such thread.
    pub load_thread: Option<Duration>,
}

impl Evidence {
    /// All disks as one; `None` where nobody saw them.
    pub fn all_disks(&self) -> Option<DiskSample> {
        let disks = self.disks.iter().copied();
        disks.reduce(DiskSample::plus)
    }

    /// What the write caches that are seen took of what was written, and how much that was at the caches. What they take
    /// they can take once: in the long run nothing is written at such a rate.
    pub fn taken_by_caches(&self) -> (ByteCount, ByteCount) {
        let disks = self.all_disks().unwrap_or_default();
        let written = disks.written_bytes.max(self.demand.writes.bytes);
        (self.taken_before_disks + ByteCount(disks.unwritten), ByteCount(written))
    }

    /// Whether those caches are still filling.
    pub fn caches_fill(&self) -> bool {
        let (taken, written) = self.taken_by_caches();
        let least = if self.caches_rise { FILLING_STEADILY } else { FILLING };
        taken.bytes() as f64 > least * written.bytes() as f64
    }
}

/// A disk's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskSample {
    /// Reads done.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes done.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Flushes done; `None` where they are not counted.
    pub flushes: Option<FlushSample>,
    /// Time in which it had something to do for the host.
    pub busy: Duration,
    /// Time in which its mechanism was at work, for a write that was answered before and for a read that will come as
    /// well; 0 where that can't be seen.
    pub at_work: Duration,
    /// Reads that its own cache answered; `None` where that can't be seen.
    pub reads_from_cache: Option<u64>,
    /// Bytes of writes that its cache has answered and that are not on the medium; 0 where that can't be seen. Of a stretch
    /// of time: by how many more at its end.
    pub unwritten: u64,
    /// Whether its write cache had room at the end: its mechanism keeps up with what is written, though it may never rest. Not, where that
    /// can't be seen.
    pub keeps_up: bool,
}

/// A disk's count of flushes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlushSample {
    /// How many were done.
    pub ios: u64,
    /// Time spent in them, added up.
    pub time: Duration,
}

impl DiskSample {
    /// What was added since `earlier`; nothing where a counter fell, as that of a disk which was taken
    /// out does.
    pub fn since(self, earlier: DiskSample) -> DiskSample {
        let flushes = self.flushes.zip(earlier.flushes).map(|(now, then)| FlushSample {
            ios: now.ios.saturating_sub(then.ios),
            time: now.time.saturating_sub(then.time),
        });
        DiskSample {
            reads: self.reads.saturating_sub(earlier.reads),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            writes: self.writes.saturating_sub(earlier.writes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
            flushes,
            busy: self.busy.saturating_sub(earlier.busy),
            at_work: self.at_work.saturating_sub(earlier.at_work),
            reads_from_cache: self
                .reads_from_cache
                .zip(earlier.reads_from_cache)
                .map(|(now, then)| now.saturating_sub(then)),
            unwritten: self.unwritten.saturating_sub(earlier.unwritten),
            keeps_up: self.keeps_up,
        }
    }

    /// Both together. The flushes of both are known where those of one are: zero of one disk is not
    /// all of two.
    pub fn plus(self, other: DiskSample) -> DiskSample {
        let flushes = match (self.flushes, other.flushes) {
            (Some(one), Some(two)) => {
                Some(FlushSample { ios: one.ios + two.ios, time: one.time + two.time })
            }
            (one, two) => one.or(two),
        };
        DiskSample {
            reads: self.reads + other.reads,
            read_bytes: self.read_bytes + other.read_bytes,
            writes: self.writes + other.writes,
            written_bytes: self.written_bytes + other.written_bytes,
            flushes,
            busy: self.busy + other.busy,
            at_work: self.at_work + other.at_work,
            // Where one can't be seen, what all did is not known.
            reads_from_cache: self
                .reads_from_cache
                .zip(other.reads_from_cache)
                .map(|(one, two)| one + two),
            unwritten: self.unwritten + other.unwritten,
            keeps_up: self.keeps_up && other.keeps_up,
        }
    }
}

/// What a workload asked of the volume. What is left at its default counts as nothing asked for, and
/// nothing is found by it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// Reads.
    pub reads: Moved,
    /// Writes.
    pub writes: Moved,
    /// Flushes (`fsync` and its like).
    pub flushes: u64,
    /// Time spent in them, added up; `None` where nobody looked at the clock.
    pub flush_time: Option<Duration>,
    /// Whether I/Os go to random places.
    pub random: bool,
    /// How many streams there are, where it is some.
    pub streams: u64,
    /// How many I/Os of each stream are under way; `None` where nobody says.
    pub depth: Option<u64>,
    /// How much of the volume is read, each place counted once: a working set; of all files together what lies between the first
    /// place that is read and the last.
    pub read_set: Option<ByteCount>,
    /// Whether the host's memory was told to forget all of that before it was read.
    pub read_cold: bool,
    /// Whether the disks did anything else in that time (a rebuild), so that their counters can't be
    /// held against these.
    pub disks_do_more: bool,
}

/// I/Os one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// How many.
    pub ios: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Processor time of a whole host, in the kernel's ticks: only their ratio counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostUse {
    /// Ticks in which a core was at work, or was not there because a hypervisor had taken it.
    pub busy: u64,
    /// Ticks of all cores.
    pub total: u64,
}

impl Demand {
    /// Mean size of an I/O; `None` where there was none.
    pub fn mean_io(&self) -> Option<ByteCount> {
        let ios = self.reads.ios + self.writes.ios;
        (ios > 0).then(|| ByteCount((self.reads.bytes + self.writes.bytes) / ios))
    }
}
