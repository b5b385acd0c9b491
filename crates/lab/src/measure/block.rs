//! A block workload, once: rounds until steady, and the figures of the steady window.
//!
//! The load runs without a break; a round is a look at the counters. The window's rounds are added up:
//! rates over its time, quantiles over all its I/Os. Before the first round one round runs uncounted,
//! in which queues fill and heads spread.
//!
//! A probe (`hdparm -t`, `dd`) is no steady state: it runs once, as the tool does.

use crate::measure::load::{Load, Tally, below_its_rate, probe_reach};
use crate::measure::{DiskSample, Mark, MeasureError, Volume, processor_use};
use crate::pitfalls::{self, Demand, Evidence, IOS_FOR_P99, Moved, Pitfall};
use crate::results::RoundPoint;
use crate::steady::{Steady, SteadyState};
use crate::study::{Kind, Probe, ProbeExtent, Workload};
use crate::target::{CellRun, RepeatPlan, StopFlag};
use rt::Rt;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use stdx::{ByteCount, Prng};

/// How long a probe sleeps between looks at how far it is.
const PROBE_LOOK: Duration = Duration::from_millis(5);
/// A probe that has not ended after this long is ended: an hour is beyond every size that a study
/// gives to a probe.
const PROBE_MAX: Duration = Duration::from_secs(3600);
/// What write caches hold rises where this share of all its ups and downs, from round to round, is left at the end.
const RISES: f64 = 0.9;

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
        return run_probe(rt, volume, load, probe, set, stop).await;
    }
    rt.sleep(plan.steady.round).await;
    load.take()?;

    let mut steady = SteadyState::new(plan.steady);
    let window = plan.steady.window as usize;
    // A mark before each round of the window and what the round did.
    let mut rounds: VecDeque<(Mark, Tally)> = VecDeque::with_capacity(window + 1);
    let mut mark = Mark::of(&rt, &volume);
    let mut unsteady = None;
    let first = mark.time;
    let mut kept: Vec<RoundPoint> = Vec::new();
    let mut done = false;
    while !done {
        rt.sleep(plan.steady.round).await;
        if stop.is_raised() {
            return Err(MeasureError::Interrupted);
        }
        let tally = load.take()?;
        let end = Mark::of(&rt, &volume);
        let seconds = (end.time - mark.time).as_secs_f64();
        let rate = tally.ios() as f64 / seconds;
        let time_s = (end.time - first).as_secs_f64();
        kept.push(RoundPoint { time_s, iops: rate, counted: false });
        rounds.push_back((std::mem::replace(&mut mark, end), tally));
        if rounds.len() > window {
            rounds.pop_front();
        }
        let (begin, _) = rounds.front().expect("a round has just ended");
        let writes = rounds.iter().map(|(_, round)| round.writes.bytes).sum();
        let demand = Demand { writes: Moved { ios: 0, bytes: writes }, ..Demand::default() };
        let seen = mark.evidence_since(begin, demand);
        let caches_rise = caches_rise(&rounds, &mark);
        let filling = Evidence { caches_rise, ..seen }.caches_fill();
        done = match steady.push(rate, filling) {
            Steady::NotYet => false,
            Steady::Steady(_) => true,
            Steady::GaveUp(report) => {
                unsteady = report.pitfall(&plan.steady);
                true
            }
        };
    }
    load.stop().await?;
    let mut tally = Tally::new();
    rounds.iter().for_each(|(_, round)| tally.add(round));
    let (begin, _) = rounds.front().expect("a window has a round");
    let asked = Asked {
        random: matches!(workload.kind, Kind::Random(_) | Kind::Slob(_)),
        working_set: workload.working_set.of(volume.device.geometry().capacity),
        streams: match &workload.kind {
            Kind::Stream(stream) => Some((stream.streams, stream.queue_depth)),
            _ => None,
        },
        caches_rise: caches_rise(&rounds, &mark),
    };
    let mut run = figures(&volume, begin, &mark, &tally, asked)?;
    run.pitfalls.extend(unsteady);
    run.warnings.extend(below_its_rate(workload, tally.ios(), mark.time - begin.time));
    kept.iter_mut().rev().take(window).for_each(|round| round.counted = true);
    run.rounds = kept;
    Ok(run)
}

/// Whether what write caches hold went up over these rounds, of which the last ended with `end`, and hardly down.
fn caches_rise(rounds: &VecDeque<(Mark, Tally)>, end: &Mark) -> bool {
    let levels: Vec<u64> =
        rounds.iter().map(|(begin, _)| begin).chain([end]).map(Mark::in_caches).collect();
    let moved: u64 = levels.windows(2).map(|pair| pair[0].abs_diff(pair[1])).sum();
    let (first, last) = (levels[0], levels[levels.len() - 1]);
    last > first && (last - first) as f64 >= RISES * moved as f64
}

async fn run_probe(
    rt: Rt,
    volume: Volume,
    load: Load,
    probe: &Probe,
    set: ByteCount,
    stop: &StopFlag,
) -> Result<CellRun, MeasureError> {
    let reach = probe_reach(probe, set);
    let begin = Mark::of(&rt, &volume);
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
    let end = Mark::of(&rt, &volume);
    load.stop().await?;
    // What a probe passes over is what it touches.
    let working_set = reach.min(ByteCount(tally.bytes()));
    let caches_rise = end.in_caches() > begin.in_caches();
    let asked = Asked { random: false, working_set, streams: None, caches_rise };
    figures(&volume, &begin, &end, &tally, asked)
}

/// How a load asks, beside what it is counted by.
struct Asked {
    random: bool,
    working_set: ByteCount,
    /// How many streams there are, and how many I/Os of each are under way; none where the study can't say.
    streams: Option<(u32, u32)>,
    /// Whether write caches went on filling meanwhile.
    caches_rise: bool,
}

/// What a stretch of time comes to.
fn figures(
    volume: &Volume,
    begin: &Mark,
    end: &Mark,
    tally: &Tally,
    asked: Asked,
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
    let processor = end.processor_since(begin);
    set("cpu_us_per_io", processor.as_secs_f64() * 1e6 / ios as f64);
    processor_use(processor, seconds, &volume.surroundings)
        .for_each(|(name, value)| set(name, value));
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

    let demand = Demand {
        reads: Moved { ios: tally.reads.ios, bytes: tally.reads.bytes },
        writes: Moved { ios: tally.writes.ios, bytes: tally.writes.bytes },
        random: asked.random,
        streams: asked.streams.map_or(0, |(streams, _)| u64::from(streams)),
        depth: asked.streams.map(|(_, depth)| u64::from(depth)),
        read_set: Some(asked.working_set),
        ..Demand::default()
    };
    let seen = end.evidence_since(begin, demand);
    let evidence = Evidence { caches_rise: asked.caches_rise, ..seen };
    if !evidence.disks.is_empty() {
        let disks = evidence.disks.iter().copied().fold(DiskSample::default(), DiskSample::plus);
        set("disk_reads_per_io", disks.reads as f64 / ios as f64);
        set("disk_writes_per_io", disks.writes as f64 / ios as f64);
    }
    let mut pitfalls = pitfalls::find(&volume.surroundings, &evidence);
    if ios < IOS_FOR_P99 {
        pitfalls.push(Pitfall::FewIos { ios });
    }
    Ok(CellRun {
        metrics,
        latency: Some(latency),
        disk_utilisation: end.utilisation_since(begin, &volume.disks),
        pitfalls,
        ..CellRun::default()
    })
}
