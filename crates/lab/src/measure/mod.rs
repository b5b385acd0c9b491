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
//!
//! **Two views.** The load sees the volume; a [`DiskView`] sees each disk below it. Where the disks
//! did not do what the volume claims, something answered from a cache, and the measurement says so.

pub mod block;
pub mod data;
pub mod load;
pub mod operation;

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
}

/// One disk as it sees itself: counters that only grow.
pub trait DiskView {
    /// The disk's name in the report.
    fn name(&self) -> String;
    /// The counters now.
    fn sample(&self) -> DiskSample;
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
    /// Time in which it had something to do.
    pub busy: Duration,
}

impl DiskSample {
    /// What was added since `earlier`.
    pub fn since(self, earlier: DiskSample) -> DiskSample {
        DiskSample {
            reads: self.reads - earlier.reads,
            read_bytes: self.read_bytes - earlier.read_bytes,
            writes: self.writes - earlier.writes,
            written_bytes: self.written_bytes - earlier.written_bytes,
            busy: self.busy.saturating_sub(earlier.busy),
        }
    }
}

/// All counters at one moment.
pub(crate) struct Mark {
    pub(crate) time: Instant,
    pub(crate) processor: Duration,
    pub(crate) disks: Vec<DiskSample>,
}

impl Mark {
    /// The counters now.
    pub(crate) fn take(rt: &Rt, volume: &Volume) -> Mark {
        Mark {
            time: rt.now(),
            processor: rt.processor_time(),
            disks: volume.disks.iter().map(|disk| disk.sample()).collect(),
        }
    }

    /// Processor time used since `begin`.
    pub(crate) fn processor_since(&self, begin: &Mark) -> Duration {
        self.processor.saturating_sub(begin.processor)
    }

    /// The share of the time since `begin` in which each disk was busy, by the disk's name.
    pub(crate) fn utilisation_since(&self, begin: &Mark, volume: &Volume) -> BTreeMap<String, f64> {
        let seconds = (self.time - begin.time).as_secs_f64().max(1e-9);
        let samples = self.disks.iter().zip(&begin.disks);
        let shares = samples
            .map(|(end, begin)| (end.since(*begin).busy.as_secs_f64() / seconds).clamp(0.0, 1.0));
        volume.disks.iter().map(|disk| disk.name()).zip(shares).collect()
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
