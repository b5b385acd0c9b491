//! Measuring one cell once: the load, the rounds, the two views.
//!
//! A target (in the program) builds a machine, an array on it and an executor, and hands a [`Volume`]
//! to [`block`] or [`operation`]. From there on nothing knows whether the disks are real.
//!
//! * [`load`] turns a workload into *processes*, each with so many I/Os outstanding, and counts what
//!   they do.
//! * [`block`] lets them run in rounds of equal length, until a window of rounds is steady (as SNIA's
//!   Performance Test Specification has it); the window is the measurement.
//! * [`operation`] times what an array does with itself: initialise, clone, rebuild, check; whole, or
//!   over stratified samples of the disks.
//! * [`data`] makes up what is written.
//! * [`files`] holds what a tool did on a tree of files against what the disks did.
//!
//! **Two views.** The load sees the volume; a [`DiskView`] sees each disk below it. Where the disks
//! did not do what the volume claims, something answered from a cache, and the measurement says so.
//! That and other [pitfalls](crate::pitfalls) come from what the target knows ([`Surroundings`]) and from
//! the counters at both ends of the measured time ([`Mark`]).

pub mod block;
pub mod data;
pub mod files;
pub mod load;
pub mod operation;

use crate::pitfalls::{Demand, Evidence, HostUse, Surroundings};
use rt::{DeviceRef, IoError, Rt};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use stdx::Instant;

pub use data::DataSource;
pub use operation::ArrayOperations;

/// What is measured: a device, and the disks below it.
#[derive(Clone)]
pub struct Volume {
    /// What the load sees.
    pub device: DeviceRef,
    /// What the disks see, one each.
    pub disks: Vec<Rc<dyn DiskView>>,
    /// What the array can do with itself; `None` for a plain disk.
    pub operations: Option<Rc<dyn ArrayOperations>>,
    /// Where written bytes come from.
    pub data: DataSource,
    /// What the target knows of storage and host.
    pub surroundings: Surroundings,
    /// The host as it sees itself; `None` where it can't.
    pub host: Option<Rc<dyn HostView>>,
}

/// One disk as it sees itself: counters that only grow.
pub trait DiskView {
    /// The disk's name in the report.
    fn name(&self) -> String;
    /// The counters now.
    fn sample(&self) -> DiskSample;
}

/// The host as it sees itself: counters that only grow.
pub trait HostView {
    /// The counters now. Called on the thread that makes the load.
    fn sample(&self) -> HostSample;
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
    /// Time in which it had something to do.
    pub busy: Duration,
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
        }
    }
}

/// A host's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostSample {
    /// Processor time of the whole host; `None` where it does not tell.
    pub all: Option<HostUse>,
    /// Processor time of the thread that asks, where it alone makes the load.
    pub load_thread: Option<Duration>,
}

/// All counters at one moment.
#[derive(Clone, Debug)]
pub struct Mark {
    pub(crate) time: Instant,
    pub(crate) processor: Duration,
    pub(crate) disks: Vec<DiskSample>,
    host: HostSample,
}

impl Mark {
    /// The counters now.
    pub fn take(rt: &Rt, disks: &[Rc<dyn DiskView>], host: Option<&dyn HostView>) -> Mark {
        let mut host = host.map(HostView::sample).unwrap_or_default();
        // A simulated executor has a core of its own, and makes the load there.
        host.load_thread = host.load_thread.or_else(|| rt.executor_time());
        Mark {
            time: rt.now(),
            processor: rt.processor_time(),
            disks: disks.iter().map(|disk| disk.sample()).collect(),
            host,
        }
    }

    /// The counters of a volume now.
    pub(crate) fn of(rt: &Rt, volume: &Volume) -> Mark {
        Mark::take(rt, &volume.disks, volume.host.as_deref())
    }

    /// Processor time used since `begin`.
    pub(crate) fn processor_since(&self, begin: &Mark) -> Duration {
        self.processor.saturating_sub(begin.processor)
    }

    /// What each disk did since `begin`.
    pub(crate) fn disks_since(&self, begin: &Mark) -> Vec<DiskSample> {
        let samples = self.disks.iter().zip(&begin.disks);
        samples.map(|(end, begin)| end.since(*begin)).collect()
    }

    /// What was seen since `begin`, of a workload that asked for this in that time.
    pub fn evidence_since(&self, begin: &Mark, demand: Demand) -> Evidence {
        let host = self.host.all.zip(begin.host.all).map(|(end, begin)| HostUse {
            busy: end.busy.saturating_sub(begin.busy),
            total: end.total.saturating_sub(begin.total),
        });
        let load_thread = self.host.load_thread.zip(begin.host.load_thread);
        Evidence {
            span: self.time - begin.time,
            demand,
            disks: self.disks_since(begin),
            processor: self.processor_since(begin),
            host,
            load_thread: load_thread.map(|(end, begin)| end.saturating_sub(begin)),
        }
    }

    /// The share of the time since `begin` in which each disk was busy, by the disk's name.
    pub fn utilisation_since(
        &self,
        begin: &Mark,
        disks: &[Rc<dyn DiskView>],
    ) -> BTreeMap<String, f64> {
        let seconds = (self.time - begin.time).as_secs_f64().max(1e-9);
        let samples = self.disks_since(begin).into_iter();
        let shares = samples.map(|disk| (disk.busy.as_secs_f64() / seconds).clamp(0.0, 1.0));
        disks.iter().map(|disk| disk.name()).zip(shares).collect()
    }
}

/// Why a cell could not be measured.
#[derive(Clone, Debug, thiserror::Error)]
pub enum MeasureError {
    /// The volume is smaller than the workload needs.
    #[error(
        "the volume holds {capacity}, less than the {needed} that the workload '{workload}' needs; give it a larger volume or a smaller block_size"
    )]
    VolumeTooSmall {
        /// What there is.
        capacity: stdx::ByteCount,
        /// What it takes.
        needed: stdx::ByteCount,
        /// Whose need.
        workload: String,
    },
    /// An I/O of the load failed.
    #[error("the load stopped at a failed I/O: {0}")]
    Io(#[from] IoError),
    /// The layout has no redundancy, or the target no such operation.
    #[error("'{operation}' can't be done here: {why}")]
    NoOperation {
        /// Which.
        operation: &'static str,
        /// Why not, with the mend.
        why: String,
    },
    /// Nothing was done in the measured time.
    #[error(
        "no I/O finished in {seconds} s; that is too short for this volume: lengthen steady.round, or a probe's time"
    )]
    NothingDone {
        /// How long it was watched.
        seconds: f64,
    },
    /// The user asked for an end.
    #[error("interrupted")]
    Interrupted,
}
