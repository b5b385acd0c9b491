//! Pitfalls: the known ways in which a measurement of storage says something else than its reader takes
//! it to say.
//!
//! Each is a value with its numbers, a short name that stays ([`Pitfall::id`]), what was seen
//! ([`Pitfall::what`]) and what to do about it ([`Pitfall::mend`]). The report prints both; programs find
//! them in `results.json` by the name.
//!
//! Where they are found:
//!
//! * [`find`] holds what a target knows of the storage ([`Surroundings`]) against what a run saw
//!   ([`Evidence`]): caches, alignment, flushes, saturation, content, space. A pure function.
//! * [`crate::measure::block`] knows whether the load became steady, and how many I/Os there were.
//! * [`crate::run`] knows the repeats and their spread.
//!
//! **Rule: rather silent than wrong.** A fact that is not known is `None`, and a pitfall is found only
//! where all that it takes is known. A warning that is often false is not read when it is true.
//!
//! What it does not do: judge figures by what a data sheet promises, or find a fault by its absence.

pub mod evidence;
mod finding;
mod stripes;
pub mod surroundings;

#[cfg(test)]
mod tests;

pub use evidence::{Demand, DiskSample, Evidence, FlushSample, HostUse, Moved};
pub use finding::{add_phases, find};
pub use stripes::StreamPace;
pub use surroundings::{
    FlushFacts, Grid, Link, LinkSpan, Partition, SsdsBegin, Stripe, Surroundings, WriteBack,
};

use crate::duration;
use crate::metrics::{percent, quantity};
use crate::results::FoundPitfall;
use std::fmt;
use std::time::Duration;
use stdx::ByteCount;
use workload::content::ContentSpec;
use workload::outcome::Measured;

/// Repeats below which a cell is warned of: two samples say next to nothing of a spread.
pub const REPEATS_FEW: u32 = 3;
/// I/Os in a window below which its p99 is one of the largest two.
pub const IOS_FOR_P99: u64 = 200;
/// Time below which a real run is short: threads that start, files that are opened and the system's own work are a part of it that
/// differs from run to run.
const SHORT: Duration = Duration::from_secs(1);
/// Of a set that is so many times what the disks' caches hold they have a tenth.
const CACHES_ENOUGH: u64 = 10;
/// Where a partition begins unless something asks for more: what every partitioning program has done
/// since 2010, a multiple of every physical block and erase block in use.
const PARTITION_START_USUAL: ByteCount = ByteCount::mib(1);

/// What keeps a figure from meaning what it seems to mean.
#[derive(Clone, Debug, PartialEq)]
pub enum Pitfall {
    /// Reads were answered from a cache: the disks' view disagrees with the workload's.
    Cached {
        /// What the disks read.
        disks: ByteCount,
        /// What the workload read.
        workload: ByteCount,
    },
    /// Reads at random places came to the disks, and their own caches answered them.
    CachedByDisks {
        /// Reads that came to the disks.
        reads: u64,
        /// Those that their caches answered.
        answered: u64,
        /// What all of their caches hold.
        caches: ByteCount,
        /// How much is read from, in all.
        set: ByteCount,
        /// In which phase of a tool; `None` where it is the whole run.
        phase: Option<String>,
    },
    /// Writes were kept in a cache.
    CachedWrites {
        /// What the disks wrote.
        disks: ByteCount,
        /// What the workload wrote.
        workload: ByteCount,
    },
    /// Write caches were still filling, and what is full takes no more.
    FillingCaches {
        /// What they took.
        taken: ByteCount,
        /// What was written to them.
        written: ByteCount,
    },
    /// SSDs began in another state than the one in which the load leaves them.
    SsdState(SsdsBegin),
    /// The unit that is rewritten whole is larger than the I/O.
    RecordSize {
        /// Mean size of the workload's I/Os.
        io: ByteCount,
        /// The unit.
        record: ByteCount,
        /// Bytes that the disks moved for each byte of the workload; `None` where they can't be seen.
        amplification: Option<f64>,
    },
    /// A stream of writes reaches a set with parity in parts of stripes, for which the rest is read first.
    PartialStripes {
        /// What the disks read, though nothing was asked to be.
        read: ByteCount,
        /// What was written.
        written: ByteCount,
        /// How often the disks read.
        reads: u64,
        /// How many writes it was.
        writes: u64,
        /// Whole stripes.
        stripe: Stripe,
        /// In which phase of a tool; `None` where it is the whole run.
        phase: Option<String>,
        /// Where a page cache was written back, how; `None` where the writes came as they were.
        write_back: Option<WriteBack>,
        /// How the writes of a stream came; `None` where that is not known.
        pace: Option<StreamPace>,
    },
    /// A partition that does not begin where a unit of the storage begins.
    Misaligned {
        /// Which.
        partition: String,
        /// Where it begins.
        start: ByteCount,
        /// What it should begin on.
        grid: Grid,
        /// The size of that.
        unit: ByteCount,
    },
    /// A write cache that answers flushes and does not carry them out.
    FlushIgnored(FlushDoubt),
    /// Too few repeats to know the spread.
    FewRepeats {
        /// How many.
        repeats: u32,
    },
    /// The interval is too wide to tell much.
    WideInterval {
        /// Of which metric.
        metric: String,
        /// The level of confidence, 0.95 for 95 %.
        confidence: f64,
        /// Half the interval as a share of the mean; infinite where the mean is 0.
        share: f64,
        /// The repeat, counted from 1, that lies apart from all others, and what it gave.
        odd: Option<(usize, f64)>,
    },
    /// The load never became steady.
    NotSteady {
        /// Rounds that were run.
        rounds: usize,
        /// The last of them, which the figures are of.
        window: usize,
    },
    /// Too few I/Os for the tail of the latencies.
    FewIos {
        /// How many.
        ios: u64,
    },
    /// So short a run of a tool that its figures are mostly of how it begins and ends.
    ShortRun {
        /// How long it was measured.
        time: Duration,
        /// I/Os in that time.
        ios: u64,
    },
    /// The link is what was measured.
    SaturatedLink {
        /// What it carried in the fuller direction (10⁶ B/s).
        rate_mb_s: f64,
        /// What it can carry (10⁶ B/s).
        limit_mb_s: f64,
    },
    /// The processor is what was measured.
    SaturatedProcessor {
        /// Which part of it.
        part: ProcessorPart,
        /// How much of that was busy, 0 to 1.
        share: f64,
    },
    /// What was written can be compressed or deduplicated.
    Compressible {
        /// What was written.
        content: ContentSpec,
    },
    /// What is read fits into the memory through which it is read.
    SmallerThanMemory {
        /// What is read.
        set: ByteCount,
        /// The memory.
        memory: ByteCount,
    },
    /// The volume is nearly full.
    NearlyFull {
        /// What is free, with the run's files in place.
        free: ByteCount,
        /// All of it.
        total: ByteCount,
    },
}

/// Why a flush is doubted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FlushDoubt {
    /// It is known that it is not carried out: the machine was told so.
    Known,
    /// It was answered sooner than a turning disk can.
    TooFast {
        /// The mean time of a flush.
        mean: Duration,
    },
    /// The workload asked for some, and none came to disks whose write cache forgets.
    NotPassedOn {
        /// How many the workload asked for.
        flushes: u64,
    },
}

/// A part of the processor that can be full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessorPart {
    /// All cores of the host, by whatever runs on it.
    Host,
    /// All processors that this process may use (hardware threads, where cores have some), by this process.
    Process {
        /// How many.
        cores: u32,
    },
    /// The core of the one thread that makes the load.
    LoadThread,
}

impl ProcessorPart {
    /// Its name in `results.json`, which stays the same over versions.
    pub fn word(self) -> &'static str {
        match self {
            ProcessorPart::Host => "host",
            ProcessorPart::Process { .. } => "process",
            ProcessorPart::LoadThread => "load-thread",
        }
    }
}

/// Names that stay, and their titles.
const TITLES: [(&str, &str); 19] = [
    ("cached", "answered from a cache"),
    ("cached-by-disks", "answered from the disks' caches"),
    ("cached-writes", "kept in a cache"),
    ("filling-caches", "write caches still filling"),
    ("ssd-state", "SSDs in another state than the load's"),
    ("record-size", "record larger than the I/O"),
    ("partial-stripes", "writes of partial stripes"),
    ("misaligned", "misaligned partition"),
    ("flush-ignored", "flushes ignored"),
    ("few-repeats", "too few repeats"),
    ("wide-interval", "wide interval"),
    ("not-steady", "not steady"),
    ("few-ios", "few I/Os"),
    ("short-run", "short run"),
    ("saturated-link", "saturated link"),
    ("saturated-processor", "saturated processor"),
    ("compressible", "compressible data"),
    ("smaller-than-memory", "smaller than memory"),
    ("nearly-full", "nearly full volume"),
];

/// The title of a pitfall by its name; the name itself where a later version wrote it.
pub fn title(id: &str) -> &str {
    TITLES.iter().find(|(known, _)| *known == id).map_or(id, |(_, title)| title)
}

impl Pitfall {
    /// What is wrong with a real run of which so much was measured, if it is too little.
    pub fn of_length(measured: Measured) -> Option<Pitfall> {
        let Measured { time, ios } = measured;
        (time < SHORT || ios < IOS_FOR_P99).then_some(Pitfall::ShortRun { time, ios })
    }

    /// Its short name, which stays the same over versions.
    pub fn id(&self) -> &'static str {
        match self {
            Pitfall::Cached { .. } => "cached",
            Pitfall::CachedByDisks { .. } => "cached-by-disks",
            Pitfall::CachedWrites { .. } => "cached-writes",
            Pitfall::FillingCaches { .. } => "filling-caches",
            Pitfall::SsdState(_) => "ssd-state",
            Pitfall::RecordSize { .. } => "record-size",
            Pitfall::PartialStripes { .. } => "partial-stripes",
            Pitfall::Misaligned { .. } => "misaligned",
            Pitfall::FlushIgnored(_) => "flush-ignored",
            Pitfall::FewRepeats { .. } => "few-repeats",
            Pitfall::WideInterval { .. } => "wide-interval",
            Pitfall::NotSteady { .. } => "not-steady",
            Pitfall::FewIos { .. } => "few-ios",
            Pitfall::ShortRun { .. } => "short-run",
            Pitfall::SaturatedLink { .. } => "saturated-link",
            Pitfall::SaturatedProcessor { .. } => "saturated-processor",
            Pitfall::Compressible { .. } => "compressible",
            Pitfall::SmallerThanMemory { .. } => "smaller-than-memory",
            Pitfall::NearlyFull { .. } => "nearly-full",
        }
    }

    /// The phase of a tool that ran into it, where it is not the whole run.
    pub fn phase(&self) -> Option<&str> {
        match self {
            Pitfall::CachedByDisks { phase, .. } | Pitfall::PartialStripes { phase, .. } => {
                phase.as_deref()
            }
            _ => None,
        }
    }

    /// The part of the processor that was full, where that is what it is.
    pub fn processor(&self) -> Option<ProcessorPart> {
        match self {
            Pitfall::SaturatedProcessor { part, .. } => Some(*part),
            _ => None,
        }
    }

    /// As it stands in `results.json`.
    pub fn found(&self) -> FoundPitfall {
        FoundPitfall {
            id: self.id().to_owned(),
            text: self.what(),
            mend: self.mend(),
            phase: self.phase().map(str::to_owned),
            processor: self.processor().map(|part| part.word().to_owned()),
        }
    }

    /// What was seen, in a sentence without its full stop.
    pub fn what(&self) -> String {
        match self {
            Pitfall::Cached { disks, workload } => {
                let share = whole_percent(disks.bytes() as f64 / workload.bytes() as f64);
                format!("answered from a cache: the disks read {share} of what the workload read")
            }
            Pitfall::CachedByDisks { reads, answered, caches, set, phase } => {
                let share = whole_percent(*answered as f64 / (*reads).max(1) as f64);
                let phase = phase.as_ref().map_or(String::new(), |name| format!(" in {name}"));
                format!(
                    "answered from the disks' own caches{phase}: {share} of the reads, for those hold {caches}, and what \
                     is read is {set}"
                )
            }
            Pitfall::CachedWrites { disks, workload } => {
                let share = whole_percent(disks.bytes() as f64 / workload.bytes() as f64);
                format!("kept in a cache: the disks wrote {share} of what the workload wrote")
            }
            Pitfall::FillingCaches { taken, written } => {
                let share = match taken.bytes() as f64 / written.bytes().max(1) as f64 {
                    small if small < 0.01 => format!("{:.1} %", 100.0 * small),
                    share => whole_percent(share),
                };
                format!(
                    "write caches of disks or controller were still filling: they took {share} of what was written, and \
                     once they are full it is written that much slower"
                )
            }
            Pitfall::SsdState(SsdsBegin { state, left }) => format!(
                "the SSDs began {state}, and in the long run this load leaves them {left}: the rate of its writes is not \
                 the one that stays"
            ),
            Pitfall::RecordSize { io, record, amplification } => {
                let units = format!(
                    "the I/Os are of {io}, and the storage reads and writes whole records of {record}"
                );
                match amplification {
                    Some(times) => format!("{units}: the disks moved {times:.1} × the bytes"),
                    None => units,
                }
            }
            Pitfall::PartialStripes {
                read,
                written,
                reads,
                writes,
                stripe,
                phase,
                write_back,
                ..
            } => {
                let phase = phase.as_ref().map_or(String::new(), |name| format!(" in {name}"));
                let often = match write_back {
                    // What reached the disks as a write is the file system's matter.
                    Some(_) => format!("{reads} times"),
                    None => {
                        format!("{:.2} times for each write", *reads as f64 / *writes as f64)
                    }
                };
                format!(
                    "writes of partial stripes{phase}: nothing was to be read, and the disks read {often} and {:.2} bytes \
                     for each byte written, to make the parity of stripes of {} of which only a part was there",
                    read.bytes() as f64 / written.bytes().max(1) as f64,
                    stripe.of_set
                )
            }
            Pitfall::Misaligned { partition, start, grid, unit } => format!(
                "misaligned: {partition} begins at {start}, no multiple of the {grid} of {unit}"
            ),
            Pitfall::FlushIgnored(FlushDoubt::Known) => {
                "flushes are ignored: what is called durable is lost with the power".to_owned()
            }
            Pitfall::FlushIgnored(FlushDoubt::TooFast { mean }) => format!(
                "flushes are ignored, it seems: they take {} on average, and a turn of the disk takes \
                 milliseconds",
                duration::text(mean.as_secs_f64())
            ),
            Pitfall::FlushIgnored(FlushDoubt::NotPassedOn { flushes }) => format!(
                "flushes are ignored on the way: the workload asked for {flushes}, and none came to \
                 the disks, whose write cache is volatile"
            ),
            Pitfall::FewRepeats { repeats: 1 } => {
                "one repeat only: nothing is known of its uncertainty".to_owned()
            }
            Pitfall::FewRepeats { repeats } => {
                format!("{repeats} repeats only: the interval is a rough guess")
            }
            Pitfall::WideInterval { metric, confidence, share, odd } => {
                let odd = odd.map_or_else(String::new, |(repeat, value)| {
                    format!(", for repeat {repeat} lies apart: {}", quantity(metric, value))
                });
                format!(
                    "the {} interval of {metric} is ±{:.0} % of its mean{odd}",
                    percent(*confidence),
                    share * 100.0
                )
            }
            Pitfall::NotSteady { rounds, window } => format!(
                "the rate was not steady within {rounds} rounds: the figures are of the last {window}"
            ),
            Pitfall::FewIos { ios } => {
                format!("{ios} I/Os in the window: the p99 is one of the largest few")
            }
            Pitfall::ShortRun { time, ios } => format!(
                "a short run: the figures are of {} and {ios} I/Os, mostly of how it begins and ends",
                duration::text(time.as_secs_f64())
            ),
            Pitfall::SaturatedLink { rate_mb_s, limit_mb_s } => format!(
                "the link is saturated: it carried {rate_mb_s:.0} of the {limit_mb_s:.0} MB/s that it \
                 can, and hides what the disks could do"
            ),
            Pitfall::SaturatedProcessor { part, share } => {
                let share = whole_percent(*share);
                match part {
                    ProcessorPart::Host => {
                        format!(
                            "the processor is saturated: all cores of the host together were busy for {share} of the \
                             time, with this and whatever else ran"
                        )
                    }
                    ProcessorPart::Process { cores: 1 } => format!(
                        "the processor is saturated: the one core there is was busy for {share} of \
                         the time"
                    ),
                    ProcessorPart::Process { cores } => format!(
                        "the processor is saturated: all {cores} processors were busy for {share} of the \
                         time"
                    ),
                    ProcessorPart::LoadThread => format!(
                        "the processor is saturated: the one thread that makes the load kept its core \
                         busy for {share} of the time"
                    ),
                }
            }
            Pitfall::Compressible { content } => format!(
                "the data written are {content}: whatever compresses or deduplicates looks too fast"
            ),
            Pitfall::SmallerThanMemory { set, memory } => format!(
                "the {set} that are read fit into the {memory} of memory through which they are read"
            ),
            Pitfall::NearlyFull { free, total } => format!(
                "the volume is nearly full: {free} of {total} are free, so new blocks are far to seek \
                 and scattered"
            ),
        }
    }

    /// What to do about it, in a phrase without its full stop.
    pub fn mend(&self) -> String {
        match self {
            Pitfall::Cached { .. } => {
                "read directly, or over a working set larger than the memory below"
            }
            Pitfall::CachedByDisks { caches, .. } => {
                return format!(
                    "read from more than these caches hold, ten times as much: a file or working set of {} and more",
                    *caches * CACHES_ENOUGH
                );
            }
            Pitfall::CachedWrites { .. } => "write longer, directly, or with flushes",
            Pitfall::FillingCaches { .. } => {
                "write for longer (steady.round, steady.rounds_max, or more data)"
            }
            Pitfall::SsdState(_) => {
                "leave ssd_state out for the rate that stays, and rank no drives that begin in different states"
            }
            Pitfall::RecordSize { record, .. } => {
                return format!(
                    "give the storage records of the I/O's size (recordsize, volblocksize), or the \
                     workload I/Os of {record}"
                );
            }
            Pitfall::PartialStripes { written, writes, stripe, phase, write_back, pace, .. } => {
                let io = *written / (*writes).max(1);
                return match write_back {
                    Some(write_back) => stripes::mend_written_back(*write_back, *stripe),
                    None => stripes::mend_stripes(io, *stripe, phase.is_some(), *pace),
                };
            }
            Pitfall::Misaligned { unit, .. } => return mend_partition(*unit),
            Pitfall::FlushIgnored(FlushDoubt::Known) => {
                "have them carried out, or give the cache a battery; till then compare no figures \
                 that depend on durability"
            }
            Pitfall::FlushIgnored(FlushDoubt::TooFast { .. }) => {
                "turn the disk's write cache off (hdparm -W 0), and see whether a controller or a \
                 virtual machine answers in its place"
            }
            Pitfall::FlushIgnored(FlushDoubt::NotPassedOn { .. }) => {
                "mount without nobarrier, and give a virtual machine's disk a cache mode that flushes"
            }
            Pitfall::FewRepeats { .. } => "take 5 with --set repeats=5 (--repeats 5 for a tool)",
            Pitfall::WideInterval { odd: Some(_), .. } => {
                "look what was different in that repeat, or take more repeats"
            }
            Pitfall::WideInterval { .. } => "more repeats narrow it",
            Pitfall::NotSteady { .. } => {
                "raise steady.rounds_max if it was still on its way, steady.round if it swings"
            }
            Pitfall::FewIos { .. } => "lengthen steady.round",
            Pitfall::ShortRun { .. } => {
                "let it run for longer: runtime= with time_based, or a larger size="
            }
            Pitfall::SaturatedLink { .. } => {
                "give it more or faster channels, or compare disks and layouts by work that does not \
                 fill it"
            }
            Pitfall::SaturatedProcessor { part: ProcessorPart::Host, .. } => {
                "stop what else runs, use larger I/Os, or a faster host"
            }
            Pitfall::SaturatedProcessor { part: ProcessorPart::Process { .. }, .. } => {
                "use larger I/Os, cheaper parity, or a host with more cores"
            }
            Pitfall::SaturatedProcessor { part: ProcessorPart::LoadThread, .. } => {
                "use larger I/Os, or several workers (fio's numjobs); the storage may do more"
            }
            Pitfall::Compressible { .. } => {
                "write random bytes, or say how compressible and repetitive the real data are"
            }
            Pitfall::SmallerThanMemory { memory, .. } => {
                return format!("read directly, or over twice the memory: {}", *memory * 2);
            }
            Pitfall::NearlyFull { .. } => "free a tenth of it at least, or use another",
        }
        .to_owned()
    }
}

/// Where a partition should begin that must begin on this unit.
fn mend_partition(unit: ByteCount) -> String {
    let start = PARTITION_START_USUAL.round_up(unit);
    format!("let it begin at {start} (sector {})", start.bytes() / 512)
}

/// `0.031` as `3 %`; `under 1 %` for less than that, and `none` for nothing.
fn whole_percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "none".to_owned(),
        some if some > 0.0 && some < 1.0 => "under 1 %".to_owned(),
        percent => format!("{percent:.0} %"),
    }
}

impl fmt::Display for Pitfall {
    /// What was seen; what to do about it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what(), self.mend())
    }
}
