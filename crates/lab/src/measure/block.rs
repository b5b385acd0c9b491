//! A block workload, once: rounds until steady, and the figures of the steady window.
//!
//! The load runs without a break; a round is a look at the counters. The window's rounds are added up:
//! rates over its time, quantiles over all its I/Os. Before the first round one round runs uncounted,
//! in which queues fill and heads spread.
//!
//! A probe (`hdparm -t`, `dd`) is no steady state: it runs once, as the tool does.

use crate::measure::load::{Load, Tally, probe_reach};
use crate::measure::{DiskSample, Mark, MeasureError, Volume};
use crate::steady::{Steady, SteadyState};
use crate::study::{Kind, Probe, ProbeExtent, Workload};
use crate::target::{CellRun, RepeatPlan, StopFlag};
use rt::Rt;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use stdx::{ByteCount, Prng};

/// Below this share of the volume's reads, the disks' reads say that something answered from a cache.
/// Parity and mirrors only add to what disks read.
const CACHED_SHARE: f64 = 0.5;
/// Fewer I/Os than this in the window make a p99 that is the largest of a handful.
const IOS_FOR_P99: u64 = 200;
/// How long a probe sleeps between looks at how far it is.
const PROBE_LOOK: Duration = Duration::from_millis(5);
/// A probe that has not ended after this long is ended: an hour is beyond every size that a study
/// gives to a probe.
const PROBE_MAX: Duration = Duration::from_secs(3600);

/// Runs a block workload on a volume until it is steady.
///
/// # Errors
/// Where the volume is too small, an I/O fails, nothing is done, or the user asks for an end.
pub async fn block(
    rt: Rt,
    volume: Volume,
    workload: &Workload,
    plan: &RepeatPlan,
    stop: &StopFlag,
) -> Result<CellRun, MeasureError> {
    let mut prng = Prng::for_part(plan.seed, "load");
    let load = Load::start(&rt, &volume, workload, &mut prng)?;
    if let Kind::Probe(probe) = &workload.kind {
        let set = workload.working_set.of(volume.device.geometry().capacity);
        return run_probe(rt, volume, load, probe, probe_reach(probe, set), stop).await;
    }
    rt.sleep(plan.steady.round).await;
    load.take()?;

    let mut steady = SteadyState::new(plan.steady);
    let window = plan.steady.window as usize;
    // A mark before each round of the window and what the round did.
    let mut rounds: VecDeque<(Mark, Tally)> = VecDeque::with_capacity(window + 1);
    let mut mark = Mark::take(&rt, &volume);
    let mut warnings = Vec::new();
    let mut done = false;
    while !done {
        rt.sleep(plan.steady.round).await;
        if stop.is_raised() {
            return Err(MeasureError::Interrupted);
        }
        let tally = load.take()?;
        let end = Mark::take(&rt, &volume);
        let seconds = (end.time - mark.time).as_secs_f64();
        let rate = tally.ios() as f64 / seconds;
        rounds.push_back((std::mem::replace(&mut mark, end), tally));
        if rounds.len() > window {
            rounds.pop_front();
        }
        done = match steady.push(rate) {
            Steady::NotYet => false,
            Steady::Steady(_) => true,
            Steady::GaveUp(report) => {
                warnings.push(report.warning());
                true
            }
        };
    }
    load.stop().await?;
    let mut tally = Tally::new();
    rounds.iter().for_each(|(_, round)| tally.add(round));
    let (begin, _) = rounds.front().expect("a window has a round");
    let mut run = figures(&volume, begin, &mark, &tally)?;
    run.warnings.extend(warnings);
    Ok(run)
}

async fn run_probe(
    rt: Rt,
    volume: Volume,
    load: Load,
    probe: &Probe,
    reach: ByteCount,
    stop: &StopFlag,
) -> Result<CellRun, MeasureError> {
    let begin = Mark::take(&rt, &volume);
    let mut tally = Tally::new();
    loop {
        let (look, limit) = match probe.extent {
            ProbeExtent::Time(span) => (PROBE_LOOK.min(span), span),
            ProbeExtent::Total(_) => (PROBE_LOOK, PROBE_MAX),
        };
        rt.sleep(look).await;
        if stop.is_raised() {
            return Err(MeasureError::Interrupted);
        }
        tally.add(&load.take()?);
        let enough = match probe.extent {
            ProbeExtent::Time(_) => false,
            ProbeExtent::Total(total) => tally.bytes() >= total.bytes(),
        };
        // One pass: where the working set ends, it ends.
        if enough || tally.bytes() >= reach.bytes() || rt.now() - begin.time >= limit {
            break;
        }
    }
    let end = Mark::take(&rt, &volume);
    load.stop().await?;
    figures(&volume, &begin, &end, &tally)
}

/// What a stretch of time comes to.
fn figures(
    volume: &Volume,
    begin: &Mark,
    end: &Mark,
    tally: &Tally,
) -> Result<CellRun, MeasureError> {
    let seconds = (end.time - begin.time).as_secs_f64();
    let ios = tally.ios();
    if ios == 0 {
        return Err(MeasureError::NothingDone { seconds });
    }
    let mut metrics = BTreeMap::new();
    let mut set = |name: &str, value: f64| {
        metrics.insert(name.to_owned(), value);
    };
    set("iops", ios as f64 / seconds);
    set("throughput_mb_s", tally.bytes() as f64 / 1e6 / seconds);
    let processor = end.processor_since(begin).as_secs_f64();
    set("cpu_us_per_io", processor * 1e6 / ios as f64);
    set("processor_cores_busy", processor / seconds);
    let mixed = tally.reads.ios > 0 && tally.writes.ios > 0;
    let latency = tally.latency();
    let sides =
        [("", &latency), ("read_", &tally.reads.latency), ("write_", &tally.writes.latency)];
    for (side, histogram) in sides {
        if !side.is_empty() && !mixed {
            continue;
        }
        set(&format!("latency_us_{side}mean"), histogram.mean() / 1e3);
        for (name, quantile) in
            [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)]
        {
            set(
                &format!("latency_us_{side}{name}"),
                histogram.value_at_quantile(quantile) as f64 / 1e3,
            );
        }
    }
    if mixed {
        set("read_iops", tally.reads.ios as f64 / seconds);
        set("write_iops", tally.writes.ios as f64 / seconds);
    }

    let mut disks = DiskSample::default();
    for (disk, begin) in end.disks.iter().zip(&begin.disks) {
        let disk = disk.since(*begin);
        disks.reads += disk.reads;
        disks.read_bytes += disk.read_bytes;
        disks.writes += disk.writes;
        disks.written_bytes += disk.written_bytes;
    }
    let mut warnings = Vec::new();
    if !volume.disks.is_empty() {
        set("disk_reads_per_io", disks.reads as f64 / ios as f64);
        set("disk_writes_per_io", disks.writes as f64 / ios as f64);
        if (disks.read_bytes as f64) < CACHED_SHARE * tally.reads.bytes as f64 {
            warnings.push(
                "answered from a cache: the disks read less than half of what the volume gave; read \
                 directly, or over a working set larger than the memory below"
                    .to_owned(),
            );
        }
        if (disks.written_bytes as f64) < CACHED_SHARE * tally.writes.bytes as f64 {
            warnings.push(
                "kept in a cache: the disks wrote less than half of what the volume took; write \
                 longer, directly, or with flushes"
                    .to_owned(),
            );
        }
    }
    if ios < IOS_FOR_P99 {
        warnings.push(format!(
            "fewer than {IOS_FOR_P99} I/Os in the window: the p99 is one of the largest few; lengthen \
             steady.round"
        ));
    }
    let disk_utilisation = end.utilisation_since(begin, volume);
    Ok(CellRun {
        metrics,
        latency: Some(latency),
        disk_utilisation,
        progress: Vec::new(),
        warnings,
    })
}
