//! What is measured, and the two views of it: the load's, and the counters of disks and host.

use super::data::DataSource;
use crate::pitfalls::{Demand, DiskSample, Evidence, HostUse, Surroundings};
use crate::study::{OperationKind, Priority};
use futures_util::future::LocalBoxFuture;
use rt::{DeviceRef, Rt};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use stdx::{ByteCount, Instant, Offset};

/// What is measured: a device, and the disks below it.
#[derive(Clone)]
pub struct Volume {
    /// What the load sees.
    pub device: DeviceRef,
    /// What the disks see, one each.
    pub disks: Vec<Rc<dyn DiskView>>,
    /// Bytes of writes that caches between load and disks hold now, a RAID controller's; `None` where there are none, or none
    /// that can be seen.
    pub unwritten: Option<Rc<dyn Fn() -> ByteCount>>,
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
    /// When what it has answered until now will be on its medium, where it knows, and a flush does not wait for that: a drive whose
    /// buffer outlasts a power cut answers one at once.
    fn written_out(&self) -> Option<Instant> {
        None
    }
}

/// The host as it sees itself: counters that only grow.
pub trait HostView {
    /// The counters now. Called on the thread that makes the load.
    fn sample(&self) -> HostSample;
}

/// A host's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostSample {
    /// Processor time of the whole host; `None` where it does not tell.
    pub all: Option<HostUse>,
    /// Processor time of the thread that asks, where it alone makes the load.
    pub load_thread: Option<Duration>,
}

/// What of the host's processor was used, under the names of the metrics: so many of its threads (as its operating
/// system counts: hardware threads are processors to it), and their share of all that there are.
pub(crate) fn processor_use(
    busy: Duration,
    seconds: f64,
    surroundings: &Surroundings,
) -> impl Iterator<Item = (&'static str, f64)> {
    let threads = busy.as_secs_f64() / seconds;
    let share = surroundings.cores.map(|cores| threads / f64::from(cores.max(1)));
    [("processor_cores_busy", Some(threads)), ("processor_share", share)]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
}

/// All counters at one moment.
#[derive(Clone, Debug)]
pub struct Mark {
    pub(crate) time: Instant,
    pub(crate) processor: Duration,
    pub(crate) disks: Vec<DiskSample>,
    unwritten: ByteCount,
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
            unwritten: ByteCount::ZERO,
            host,
        }
    }

    /// The counters of a volume now.
    pub(crate) fn of(rt: &Rt, volume: &Volume) -> Mark {
        let unwritten = volume.unwritten.as_ref().map_or(ByteCount::ZERO, |held| held());
        Mark { unwritten, ..Mark::take(rt, &volume.disks, volume.host.as_deref()) }
    }

    /// What the write caches that are seen hold, of disks and before them.
    pub(crate) fn in_caches(&self) -> u64 {
        self.unwritten.bytes() + self.disks.iter().map(|disk| disk.unwritten).sum::<u64>()
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
            taken_before_disks: ByteCount(
                self.unwritten.bytes().saturating_sub(begin.unwritten.bytes()),
            ),
            caches_rise: self.in_caches() > begin.in_caches(),
            processor: self.processor_since(begin),
            host,
            load_thread: load_thread.map(|(end, begin)| end.saturating_sub(begin)),
        }
    }

    /// The share of the time since `begin` in which each disk was busy, by the disk's name: had something to do for
    /// the host, or was at work by itself. A disk that writes back what it has answered is at its limit long before
    /// the host has to wait for it all the time.
    pub fn utilisation_since(
        &self,
        begin: &Mark,
        disks: &[Rc<dyn DiskView>],
    ) -> BTreeMap<String, f64> {
        let seconds = (self.time - begin.time).as_secs_f64().max(1e-9);
        let samples = self.disks_since(begin).into_iter();
        let shares = samples.map(|disk| {
            let busy = disk.busy.max(disk.at_work);
            (busy.as_secs_f64() / seconds).clamp(0.0, 1.0)
        });
        disks.iter().map(|disk| disk.name()).zip(shares).collect()
    }
}

/// What an array can do with itself. The program implements it for its arrays.
pub trait ArrayOperations {
    /// How many bytes of each member an operation passes over. For a rebalance: how many bytes it moves
    /// in all, known once it is [prepared](ArrayOperations::prepare); places are then places in the
    /// list of moves.
    fn extent(&self) -> ByteCount;

    /// Up to which place of the members the operation finds something to do. Beyond lies what was done from a place before:
    /// second copies, where they lie far away.
    fn reach(&self, kind: OperationKind) -> ByteCount {
        let _ = kind;
        self.extent()
    }

    /// The grid of places at which a stretch may begin and end (a chunk, a row).
    fn grain(&self) -> ByteCount;

    /// Brings the array into the state in which the operation makes sense: a failed member and a
    /// spare for a rebuild, and so on.
    ///
    /// # Errors
    /// Where the layout can't do it: says why and what would mend it.
    fn prepare(&self, kind: OperationKind) -> Result<(), String>;

    /// Waits until what was written has left the disks' caches.
    fn settle(&self) -> LocalBoxFuture<'static, Result<(), String>>;

    /// The first share of the members, 0 to 1, that the operation goes over twice.
    fn twice(&self, kind: OperationKind) -> f64 {
        let _ = kind;
        0.0
    }

    /// Carries the operation out over `from..to` of the members.
    fn run(
        &self,
        kind: OperationKind,
        priority: Priority,
        from: Offset,
        to: Offset,
    ) -> LocalBoxFuture<'static, Result<(), String>>;
}
