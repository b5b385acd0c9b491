//! `hdparm -t` and `-T` on a file or a block device.
//!
//! `-t` reads from the start, 2 MiB at a time, through the cache but without anything in it, until 3 s
//! are over or the end is reached: what a disk gives with the system's read-ahead. `-T` reads the first
//! 2 MiB again and again for 2 s: what copying from the cache costs.
//!
//! As `hdparm` does, writing is made to settle first (sync, and a pause). Where it flushes the cache of
//! the device only afterwards, so that a second `hdparm -t` begins cold, here the cache is dropped
//! before. `hdparm` takes devices only; a file is read through its file system.
//!
//! Its `MB` are MiB, and stay so here: people compare them.
//!
//! Source: `time_device` and `time_cache` of hdparm 9.65.

use super::{ProbeError, opening};
use rt::{FileRef, OpenHow, Request};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stdx::{ByteCount, Offset};
use workload::content::Content;
use workload::crew::{Calls, Crew, Place, start};
use workload::filled::{Filling, fill};
use workload::io_failure::IoFailure;
use workload::outcome::Outcome;

/// How much is read at once.
const BLOCK: ByteCount = ByteCount::mib(2);

/// How long `-t` reads.
const DISK_TIME: Duration = Duration::from_secs(3);

/// How long `-T` reads.
const CACHE_TIME: Duration = Duration::from_secs(2);

/// How long what was written is given to settle, before `-t`, `-T`; and after dropping the cache in
/// `-T`.
const SETTLE: Duration = Duration::from_secs(3);
const SETTLE_CACHE: Duration = Duration::from_secs(1);

/// How long it rests before it looks again whether it shall stop.
const LOOK: Duration = Duration::from_millis(50);

/// Tells the content of the test file from that of other loads.
const FILLER: u64 = (1 << 24) - 3;

/// What is probed.
#[derive(Clone, Debug)]
pub struct HdparmPlan {
    /// The file or device, below the tree's root.
    pub path: PathBuf,
    /// The file is made with this size, and removed at the end; `None`: it is there.
    pub make: Option<ByteCount>,
    /// `-T`
    pub cached: bool,
    /// `-t`
    pub disk: bool,
    /// `--direct`: past the cache.
    pub direct: bool,
}

/// So many bytes in so much time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// Bytes read.
    pub bytes: ByteCount,
    /// In this time.
    pub time: Duration,
}

impl Timing {
    /// MiB a second.
    pub fn mib_per_s(&self) -> f64 {
        self.bytes.bytes() as f64 / f64::from(1 << 20) / self.time.as_secs_f64().max(1e-9)
    }
}

/// What a probe gave.
#[derive(Clone, Debug, PartialEq)]
pub struct HdparmOutcome {
    /// Past the cache.
    pub direct: bool,
    /// `-T`
    pub cached: Option<Timing>,
    /// `-t`
    pub disk: Option<Timing>,
}

/// Probes.
///
/// # Errors
/// [`ProbeError`]
pub async fn run(
    crew: &dyn Crew,
    plan: &HdparmPlan,
    content: &Content,
    stop: &Arc<AtomicBool>,
) -> Result<HdparmOutcome, ProbeError> {
    let result = match plan.make {
        Some(size) => {
            let (plan, content, stop) = (plan.clone(), content.clone(), Arc::clone(stop));
            start(crew, "probe make", Calls::Queued, move |place| {
                make(plan, size, content, stop, place)
            })?
            .await?
        }
        None => Ok(()),
    };
    let result = match result {
        Err(error) => Err(error),
        Ok(()) => {
            let (plan, stop) = (plan.clone(), Arc::clone(stop));
            start(crew, "probe hdparm", Calls::Blocking, move |place| probe(plan, stop, place))?
                .await?
        }
    };
    // A file that was there already is not ours.
    let is_ours = !matches!(&result, Err(error) if error.is_there_already());
    if plan.make.is_some() && is_ours {
        let removed = crew.place().tree.remove_file(&plan.path).await;
        // What failed before is what the user must hear.
        if result.is_ok() {
            removed.map_err(IoFailure::from)?;
        }
    }
    result
}

async fn make(
    plan: HdparmPlan,
    size: ByteCount,
    content: Content,
    stop: Arc<AtomicBool>,
    place: Place,
) -> Result<(), ProbeError> {
    let how = OpenHow { exclusive: true, ..OpenHow::create() };
    let file = place.tree.open(&plan.path, how).await.map_err(IoFailure::from)?;
    let how = Filling { block: ByteCount::mib(1), outstanding: 4 };
    fill(&place.rt, &file, 0..size.bytes(), how, content.source(FILLER), &stop).await?;
    Ok(())
}

async fn probe(
    plan: HdparmPlan,
    stop: Arc<AtomicBool>,
    place: Place,
) -> Result<HdparmOutcome, ProbeError> {
    let how = OpenHow::read().with_direct(plan.direct);
    let file =
        place.tree.open(&plan.path, how).await.map_err(|error| opening(error, "--direct"))?;
    let size = file.status().await.map_err(IoFailure::from)?.size;
    if size < BLOCK {
        let file = file.name().to_string();
        return Err(ProbeError::TooSmall { file, size: size.bytes() });
    }
    let probe = Probe { place, file, size, stop };
    let cached = match plan.cached {
        true => Some(probe.cached().await?),
        false => None,
    };
    let disk = match plan.disk {
        true => Some(probe.disk().await?),
        false => None,
    };
    Ok(HdparmOutcome { direct: plan.direct, cached, disk })
}

struct Probe {
    place: Place,
    file: FileRef,
    size: ByteCount,
    stop: Arc<AtomicBool>,
}

impl Probe {
    async fn settle(&self) -> Result<(), ProbeError> {
        // A file that is open for reading only may be synced too; trees that refuse it have nothing
        // to settle.
        let _ = self.file.sync().await;
        self.rest(SETTLE).await
    }

    /// Waits so long, or until all shall stop.
    async fn rest(&self, time: Duration) -> Result<(), ProbeError> {
        let rt = &self.place.rt;
        let until = rt.now() + time;
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(ProbeError::Stopped);
            }
            let now = rt.now();
            if now >= until {
                return Ok(());
            }
            rt.sleep(until.since(now).min(LOOK)).await;
        }
    }

    async fn drop_cache(&self) -> Result<(), ProbeError> {
        Ok(self.file.drop_cache().await.map_err(IoFailure::from)?)
    }

    /// Reads blocks at `place(n)` until `time` is over, `count` are read, or all shall stop.
    async fn timed(
        &self,
        time: Duration,
        count: u64,
        place: impl Fn(u64) -> u64,
    ) -> Result<Timing, ProbeError> {
        let rt = &self.place.rt;
        let began = rt.now();
        let mut done = 0;
        loop {
            let offset = Offset(place(done));
            let data = self.file.submit(Request::read(offset, BLOCK)).await;
            let got = ByteCount(data.map_err(IoFailure::from)?.len() as u64);
            if got < BLOCK {
                let file = self.file.name().to_string();
                return Err(IoFailure::Short { file, offset, len: BLOCK, got }.into());
            }
            done += 1;
            let elapsed = rt.now().since(began);
            if elapsed >= time || done == count {
                return Ok(Timing { bytes: ByteCount(done * BLOCK.bytes()), time: elapsed });
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err(ProbeError::Stopped);
            }
        }
    }

    async fn cached(&self) -> Result<Timing, ProbeError> {
        self.settle().await?;
        self.timed(Duration::ZERO, 1, |_| 0).await?;
        self.drop_cache().await?;
        self.rest(SETTLE_CACHE).await?;
        self.timed(CACHE_TIME, u64::MAX, |_| 0).await
    }

    async fn disk(&self) -> Result<Timing, ProbeError> {
        self.settle().await?;
        self.drop_cache().await?;
        let count = self.size.bytes() / BLOCK.bytes();
        self.timed(DISK_TIME, count, |number| number * BLOCK.bytes()).await
    }
}

impl HdparmOutcome {
    /// As `hdparm` prints it.
    pub fn text(&self, name: &str) -> String {
        let mut text = format!("\n{name}:\n");
        if let Some(timing) = &self.cached {
            let direct = if self.direct { "O_DIRECT " } else { "" };
            text.push_str(&format!(" Timing {direct}cached reads:   {}\n", figures(timing)));
        }
        if let Some(timing) = &self.disk {
            let kind = if self.direct { "O_DIRECT" } else { "buffered" };
            text.push_str(&format!(" Timing {kind} disk reads: {}\n", figures(timing)));
        }
        text
    }

    /// In the lab's terms, whose MB are 10⁶ B.
    pub fn outcome(&self) -> Outcome {
        let mut outcome = Outcome::default();
        let rate = |timing: &Timing| timing.mib_per_s() * f64::from(1 << 20) / 1e6;
        if let Some(timing) = &self.cached {
            outcome.metrics.insert("cached_throughput_mb_s".to_owned(), rate(timing));
        }
        if let Some(timing) = &self.disk {
            outcome.metrics.insert("throughput_mb_s".to_owned(), rate(timing));
        }
        outcome
    }
}

/// `174 MB in  3.02 seconds =  57.54 MB/sec`
fn figures(timing: &Timing) -> String {
    let (mib, rate) = (timing.bytes.bytes() >> 20, timing.mib_per_s());
    let (rate, unit) = if rate > 1.0 { (rate, "MB") } else { (rate * 1024.0, "kB") };
    format!("{mib:3} MB in {:5.2} seconds = {rate:6.2} {unit}/sec", timing.time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    //! What could break: a line that people can't hold against `hdparm`'s.

    use super::*;

    #[test]
    fn it_is_printed_as_hdparm_prints_it() {
        let timing = |mib, millis| Timing {
            bytes: ByteCount::mib(mib),
            time: Duration::from_millis(millis),
        };
        let both = HdparmOutcome {
            direct: false,
            cached: Some(timing(1984, 2000)),
            disk: Some(timing(174, 3024)),
        };
        assert_eq!(
            both.text("/dev/sda"),
            "\n/dev/sda:\n Timing cached reads:   1984 MB in  2.00 seconds = 992.00 MB/sec\n \
             Timing buffered disk reads: 174 MB in  3.02 seconds =  57.54 MB/sec\n"
        );
        let slow = HdparmOutcome { direct: true, cached: None, disk: Some(timing(2, 4000)) };
        assert!(
            slow.text("f")
                .ends_with("O_DIRECT disk reads:   2 MB in  4.00 seconds = 512.00 kB/sec\n")
        );
        assert_eq!(both.outcome().metrics["cached_throughput_mb_s"], 992.0 * 1.048_576);
    }
}
