//! How often a byte that is written is gone over: counted, not timed.
//!
//! The same pool and the same writes, in memory and with no clock. Counted are the bytes that go through each kind of work that
//! the engine plans (sums, compression, parity), those that a client's copy takes in, and those that the devices take, which a
//! kernel copies.

use super::rig::Order;
use super::volume;
use rt::device::OpKind;
use rt::filter::stats::Stats;
use rt::reactor::{Job, Unpark};
use rt::{ComputePlan, DeviceRef, MemoryDevice, Parked, Reactor, Runtime, SgList, Work, WorkKind};
use serde_json::json;
use sim::SimReactor;
use sim::host::Processor;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::{ByteCount, Instant, Offset};
use zfs::spa::config::LabelState;

/// Bytes of an image that are looked at together.
const PIECE: usize = 1 << 20;

/// A reactor that counts the bytes of the work that it is asked about.
struct Counting {
    below: Rc<SimReactor>,
    worked: RefCell<BTreeMap<WorkKind, u64>>,
}

impl Reactor for Counting {
    fn now(&self) -> Instant {
        self.below.now()
    }

    fn poll(&self) {
        self.below.poll();
    }

    fn park(&self, deadline: Option<Instant>) -> Parked {
        self.below.park(deadline)
    }

    fn unparker(&self) -> Arc<dyn Unpark> {
        self.below.unparker()
    }

    fn plan(&self, work: Work) -> ComputePlan {
        for (kind, bytes) in work.parts() {
            *self.worked.borrow_mut().entry(kind).or_default() += bytes.bytes();
        }
        self.below.plan(work)
    }

    fn offload(&self, job: Job) {
        self.below.offload(job);
    }

    fn processor_time(&self) -> Duration {
        self.below.processor_time()
    }
}

/// For each byte that a client wrote: the bytes that went through each kind of work, and into the devices.
pub(super) struct Passes {
    by_kind: Vec<(WorkKind, f64)>,
    devices: f64,
}

impl Passes {
    /// The line that tells them. A client's copy reads and writes each byte once, so does a device's; what sums or makes parity
    /// reads, and parity is what devices take beyond the bytes themselves.
    pub(super) fn line(&self, case: &str, copies: f64) -> String {
        let kinds: BTreeMap<String, f64> =
            self.by_kind.iter().map(|(kind, bytes)| (format!("{kind:?}"), round(*bytes))).collect();
        let read = 1.0 + self.by_kind.iter().map(|(_, bytes)| bytes).sum::<f64>() + self.devices;
        let written = 1.0 + (self.devices - copies) + self.devices;
        json!({
            "bench": "zfs-write",
            "case": format!("passes-{case}"),
            "unit": "bytes for a byte written",
            "read": round(read),
            "written": round(written),
            "work": kinds,
            "devices": round(self.devices),
        })
        .to_string()
    }
}

/// Three digits behind the point.
fn round(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

/// Counts them while blocks are written to the pool in a folder, which stays as it is.
pub(super) fn count(folder: &Path, disks: u64, order: Order, count: u64) -> Result<Passes, String> {
    let below = SimReactor::new(Processor::infinite());
    let reactor = Rc::new(Counting { below, worked: RefCell::default() });
    let runtime = Runtime::new(Rc::clone(&reactor) as Rc<dyn Reactor>);
    let rt = runtime.handle();
    let loaded: Result<Vec<_>, String> =
        (0..disks).map(|n| load(&folder.join(format!("disk{n}.raw")))).collect();
    let devices: Vec<Rc<Stats>> = loaded?.into_iter().map(|disk| Stats::new(disk, &rt)).collect();
    let given: Vec<DeviceRef> =
        devices.iter().map(|device| Rc::clone(device) as DeviceRef).collect();
    let counter = Rc::clone(&reactor);
    let written = move || -> u64 {
        devices.iter().map(|one| one.counters().of_kind(OpKind::Write).bytes.bytes()).sum()
    };
    let done = runtime.block_on(async move {
        let (live, volume) = volume::open(&rt, &given).await?;
        counter.worked.borrow_mut().clear();
        let before = written();
        let keeping = {
            let live = Rc::clone(&live);
            rt.spawn(async move { live.keep_synced(std::future::pending()).await })
        };
        volume::write(&volume, order, count).await?;
        live.make_durable().await.map_err(|error| error.to_string())?;
        drop(keeping);
        let bytes = (count * volume.volume().block().bytes()) as f64;
        let worked = counter.worked.take();
        let by_kind = worked.iter().map(|(kind, worked)| (*kind, *worked as f64 / bytes));
        let passes =
            Passes { by_kind: by_kind.collect(), devices: (written() - before) as f64 / bytes };
        live.close(LabelState::Exported).await.map_err(|error| error.to_string())?;
        Ok(passes)
    });
    done.map_err(|error| error.to_string())?
}

/// What an image holds, in memory.
fn load(path: &Path) -> Result<DeviceRef, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let bytes = file.metadata().map_err(failed)?.len();
    let device = MemoryDevice::new(&path.display().to_string(), ByteCount(bytes));
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    while at < bytes {
        let len = PIECE.min((bytes - at) as usize);
        file.read_exact(&mut piece[..len]).map_err(failed)?;
        if piece[..len].iter().any(|byte| *byte != 0) {
            device.poke(Offset(at), &SgList::from(rt::Buf::copy_of(&piece[..len])));
        }
        at += len as u64;
    }
    Ok(device)
}
