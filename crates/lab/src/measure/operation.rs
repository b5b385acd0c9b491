//! Timing what an array does with itself: whole, or over stratified samples.
//!
//! A terabyte-scale operation passes over every disk from end to end, at a rate that falls with the
//! disks' zones. Where the study allows sampling, the members are cut into *strata* of equal size; in
//! each, some stretches at random places are carried out and timed for real (in simulated time, by the
//! same engine), and the time of the whole is the sum over the strata of their size times the mean time
//! a byte. This is the stratified estimator of survey sampling (Cochran, *Sampling Techniques*, 3rd ed.,
//! ch. 5): its standard error follows from the spread within the strata, and is reported.
//!
//! **Where a stretch begins and ends.** A disk answers writes from its cache and writes back later, in sweeps that may be longer
//! than a stretch. So each is timed from caches that are clean until they are again: what it left there is its own work,
//! not the next one's, and not nobody's; of a solid-state drive too whose buffer outlasts a power cut, so that a flush does not wait for it. Of the whole it is no part that it begins and ends: heads come from elsewhere, the first
//! and the last of its blocks wait for the platter, which is a tenth of 16 MiB. So a short stretch before it is timed as well, and
//! what the longer one takes more stands for the whole.
//! Beside a load stretches are not parted so: a flush would hold up the load, and write back what is the load's. There the first begins
//! when caches are as full as load and operation keep them.

use crate::measure::load::{Load, below_its_rate};
use crate::measure::{Mark, MeasureError, Volume, processor_use};
use crate::metrics::{PROGRESS_PERCENT, progress_metric};
use crate::pitfalls::{self, Demand, Evidence, Moved};
use crate::results::ProgressPoint;
use crate::study::{self, OperationKind, Sampling};
use crate::target::{CellRun, RepeatPlan, StopFlag};
use rt::Rt;
use std::time::Duration;
use stdx::{ByteCount, Offset, Prng};

/// What a sampled operation goes over before each stretch, so that heads are near: a window of the engine's steps.
const LEAD_IN: ByteCount = ByteCount::mib(4);
/// The short stretch by which beginning and ending are known, or a quarter of the stretch.
const SHORT: ByteCount = ByteCount::mib(16);
/// They take no longer: two revolutions. Where a short stretch takes more, a cache takes it in another way than a long one.
const ENDS_MAX: Duration = Duration::from_millis(16);
/// What one beside a load goes over before it is timed: one step of the engine's.
const LEAD_IN_LOADED: ByteCount = ByteCount::mib(1);
/// Nor is it timed before write caches, where they are seen, are as full as load and operation keep them: in short stretches they would
/// take the load's writes, and the operation would have the disks. That is looked at each so often,
const FILLING_WINDOW: Duration = Duration::from_secs(5);
/// and so often at the most.
const FILLING_MAX: u32 = 24;
/// From this share of an operation's time on the standard error of its sampling is warned of.
pub const SAMPLING_ERROR_MAX: f64 = 0.1;
/// Points of progress that a whole operation leaves: enough for a smooth plot, and
const PROGRESS_POINTS: u64 = 200;
/// on small disks fewer, since at each point it waits for what is under way; but
const STEP_MIN: ByteCount = ByteCount::mib(256);
/// no fewer than these.
const PROGRESS_POINTS_MIN: u64 = 20;

/// Times an operation on a volume.
///
/// # Errors
/// Where the layout can't do it, an I/O fails, or the user asks for an end.
pub async fn operation(
    rt: Rt,
    volume: Volume,
    workload: &study::Operation,
    plan: &RepeatPlan,
    stop: &StopFlag,
) -> Result<CellRun, MeasureError> {
    let name = name(workload.kind);
    let no_operation = |why: String| MeasureError::NoOperation { operation: name, why };
    let array = volume.operations.clone().ok_or_else(|| {
        no_operation(
            "a plain disk has no redundancy; restrict the workload with `only` or `except`"
                .to_owned(),
        )
    })?;
    array.prepare(workload.kind).map_err(no_operation)?;

    let mut prng = Prng::for_part(plan.seed, "operation");
    let load = match &workload.load {
        Some(load) => Some(Load::start(&rt, &volume, load, &mut prng)?),
        None => None,
    };
    // A rebuild that yields begins with a full window, before the load was seen at work, and with a step that waits for none
    // before it. Of a sampled one that would be counted for each such stretch that it stands for: it is gone over before.
    let leads_in = load.is_some() && !matches!(workload.kind, OperationKind::Rebalance(_));
    let (reach, grain) = (array.reach(workload.kind), array.grain());
    if let (Some(sampling), Some(load)) = (workload.sampled.filter(|_| leads_in), &load) {
        let step = LEAD_IN_LOADED.min(sampling.sample).round_up(grain);
        let mut at = Offset::ZERO;
        for _ in 0..FILLING_MAX {
            let window = Mark::of(&rt, &volume);
            while rt.now() - window.time < FILLING_WINDOW {
                if stop.is_raised() {
                    return Err(MeasureError::Interrupted);
                }
                let run = array.run(workload.kind, workload.priority, at, at + step);
                run.await.map_err(no_operation)?;
                at += step;
                if (at + step).from_start() > reach {
                    at = Offset::ZERO;
                }
            }
            // What the load did until here is no part of what it gets beside the stretches.
            let writes = load.take()?.writes.bytes;
            let demand = Demand { writes: Moved { ios: 0, bytes: writes }, ..Demand::default() };
            let seen = Mark::of(&rt, &volume).evidence_since(&window, demand);
            // Load and operation have the level go up and down.
            if !(Evidence { caches_rise: false, ..seen }).caches_fill() {
                break;
            }
        }
    }
    let begin = Mark::of(&rt, &volume);

    let stretches = workload.sampled.and_then(|how| sampled(reach, grain, how, &mut prng));
    // Beside a load the caches hold the load's writes as well, at the end as at the beginning.
    let settles = stretches.is_some() && load.is_none();
    let mut outcome = Passes::new(reach);
    let mut gone_over = Offset::ZERO;
    let timed = async |from: Offset, to: Offset| -> Result<Duration, MeasureError> {
        let begin = rt.now();
        array.run(workload.kind, workload.priority, from, to).await.map_err(no_operation)?;
        if settles {
            array.settle().await.map_err(no_operation)?;
            if let Some(end) = volume.disks.iter().filter_map(|disk| disk.written_out()).max() {
                rt.sleep_until(end).await;
            }
        }
        Ok(rt.now() - begin)
    };
    for pass in stretches.unwrap_or_else(|| whole(reach, grain)) {
        if stop.is_raised() {
            return Err(MeasureError::Interrupted);
        }
        if settles {
            let (lead_in, short) = before(pass, gone_over, grain);
            timed(lead_in, short).await?;
            let short_span = timed(short, pass.from).await?;
            let span = timed(pass.from, pass.to).await?;
            outcome.add(pass, beyond(pass, span, pass.from - short, short_span));
        } else {
            outcome.add(pass, timed(pass.from, pass.to).await?);
        }
        gone_over = pass.to;
    }

    let end = Mark::of(&rt, &volume);
    let seconds = (end.time - begin.time).as_secs_f64();
    let mut run = CellRun::default();
    // The operation's own I/O is among the disks' counters and not among the load's.
    let mut demand = Demand { disks_do_more: true, ..Demand::default() };
    if let Some(load) = load {
        let tally = load.take()?;
        demand.reads = Moved { ios: tally.reads.ios, bytes: tally.reads.bytes };
        demand.writes = Moved { ios: tally.writes.ios, bytes: tally.writes.bytes };
        let rate = tally.ios() as f64 / seconds;
        let span = end.time - begin.time;
        let below = |load| below_its_rate(load, tally.ios(), span);
        run.warnings.extend(workload.load.as_deref().and_then(below));
        run.metrics.insert("load_iops".into(), rate);
        run.metrics.insert("load_throughput_mb_s".into(), tally.bytes() as f64 / 1e6 / seconds);
        let latency = tally.latency();
        if !latency.is_empty() {
            run.metrics
                .insert("latency_us_p50".into(), latency.value_at_quantile(0.5) as f64 / 1e3);
            run.metrics
                .insert("latency_us_p99".into(), latency.value_at_quantile(0.99) as f64 / 1e3);
            run.latency = Some(latency);
        }
        load.stop().await?;
    }
    let estimate = outcome.estimate().twice_at_first(array.twice(workload.kind));
    run.metrics.insert("duration_s".into(), estimate.seconds);
    run.metrics
        .insert("throughput_mb_s".into(), array.extent().bytes() as f64 / 1e6 / estimate.seconds);
    for percent in PROGRESS_PERCENT {
        let time = estimate.time_to(f64::from(percent) / 100.0);
        run.metrics.insert(progress_metric(percent), time);
    }
    for (name, value) in processor_use(end.processor_since(&begin), seconds, &volume.surroundings) {
        run.metrics.insert(name.into(), value);
    }
    if workload.sampled.is_some() {
        run.metrics.insert("sampling_error_s".into(), estimate.standard_error_seconds);
        run.warnings.push(format!(
            "sampled: {} of {} of each member was carried out, over {} strata, and the whole is \
             integrated from that; sampling_error_s is the standard error",
            outcome.carried_out(),
            reach,
            outcome.strata.len(),
        ));
        let share = estimate.standard_error_seconds / estimate.seconds;
        if share >= SAMPLING_ERROR_MAX {
            let coarse = "the sampling's standard error is a tenth of the time or more: take more or longer stretches \
                          (per_stratum, sample)";
            run.warnings.push(coarse.to_owned());
        }
    }
    run.progress = estimate.progress;
    run.disk_utilisation = end.utilisation_since(&begin, &volume.disks);
    run.pitfalls = pitfalls::find(&volume.surroundings, &end.evidence_since(&begin, demand));
    Ok(run)
}

fn name(kind: OperationKind) -> &'static str {
    match kind {
        OperationKind::Initialise(_) => "initialise",
        OperationKind::Clone => "clone",
        OperationKind::Rebuild => "rebuild",
        OperationKind::Check => "check",
        OperationKind::Rebalance(_) => "rebalance",
    }
}

/// A stretch of the members, and the stratum that it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pass {
    stratum: usize,
    from: Offset,
    to: Offset,
}

/// The whole operation, in steps that leave points for a plot; each is a stratum that is wholly
/// carried out.
fn whole(extent: ByteCount, grain: ByteCount) -> Vec<Pass> {
    let least = STEP_MIN.min(extent / PROGRESS_POINTS_MIN).max(grain);
    let step = (extent / PROGRESS_POINTS).max(least).round_up(grain);
    let mut passes = Vec::new();
    let mut from = ByteCount::ZERO;
    while from < extent {
        let to = (from + step).min(extent);
        passes.push(Pass {
            stratum: passes.len(),
            from: Offset(from.bytes()),
            to: Offset(to.bytes()),
        });
        from = to;
    }
    passes
}

/// Where the lead-in of a stretch begins, and where the short stretch before it, which tells what beginning and ending take:
/// in what is not gone over yet, so that either may be empty.
fn before(pass: Pass, gone_over: Offset, grain: ByteCount) -> (Offset, Offset) {
    let earlier = |at: Offset, by: ByteCount| {
        at - by.round_up(grain).min((at - gone_over.min(at)).round_down(grain))
    };
    let short = earlier(pass.from, SHORT.min((pass.to - pass.from) / 4));
    (earlier(short, LEAD_IN), short)
}

/// How long a stretch takes but for its beginning and its end, which took as long in a short one before it: what that took beyond
/// its share of the rest.
fn beyond(pass: Pass, span: Duration, short: ByteCount, short_span: Duration) -> Duration {
    let len = pass.to - pass.from;
    let rest = span.saturating_sub(short_span);
    let share = short.bytes() as f64 / (len - short).bytes() as f64;
    span - short_span.saturating_sub(rest.mul_f64(share)).min(ENDS_MAX).min(span / 2)
}

/// Stretches at random places of each stratum, in the order of their place, not overlapping: each
/// lies in its own cell of the stratum. None where strata are not much longer
/// than their stretches: all is carried out then.
fn sampled(
    extent: ByteCount,
    grain: ByteCount,
    sampling: Sampling,
    prng: &mut Prng,
) -> Option<Vec<Pass>> {
    let strata = u64::from(sampling.strata);
    let per_stratum = u64::from(sampling.per_stratum);
    let sample = sampling.sample.round_up(grain);
    if sample * per_stratum * strata * 2 > extent {
        return None;
    }
    let cell = extent / (strata * per_stratum);
    let mut passes = Vec::new();
    for stratum in 0..strata {
        for stretch in 0..per_stratum {
            let cell_begin = cell * (stratum * per_stratum + stretch);
            let slack = cell - sample;
            let begin = cell_begin + ByteCount(prng.below(slack.bytes().max(1)));
            let from = Offset(begin.bytes()).round_down(grain);
            passes.push(Pass { stratum: stratum as usize, from, to: from + sample });
        }
    }
    Some(passes)
}

/// What the passes took.
struct Passes {
    extent: ByteCount,
    strata: Vec<Stratum>,
}

#[derive(Default)]
struct Stratum {
    /// Seconds a byte, one value a stretch.
    costs: Vec<f64>,
    bytes: ByteCount,
}

struct Estimate {
    seconds: f64,
    standard_error_seconds: f64,
    progress: Vec<ProgressPoint>,
}

impl Estimate {
    /// Where the first share of the members is gone over twice: the second time is taken to last as long as the
    /// first, and comes before the work goes on.
    fn twice_at_first(mut self, share: f64) -> Estimate {
        let share = share.clamp(0.0, 1.0);
        let more = self.time_to(share);
        if more <= 0.0 {
            return self;
        }
        let rate = self.progress.first().map_or(0.0, |point| point.rate_mb_s / 2.0);
        self.progress.retain(|point| point.done > share);
        for point in &mut self.progress {
            point.time_s += more;
        }
        self.seconds += more;
        self.progress.insert(0, ProgressPoint { time_s: 2.0 * more, done: share, rate_mb_s: rate });
        self
    }

    /// When so large a share was done, 0 to 1; the rate is even between two points.
    fn time_to(&self, share: f64) -> f64 {
        let (mut time, mut done) = (0.0, 0.0);
        for point in &self.progress {
            if point.done >= share {
                return time + (point.time_s - time) * (share - done) / (point.done - done);
            }
            (time, done) = (point.time_s, point.done);
        }
        self.seconds
    }
}

impl Passes {
    fn new(extent: ByteCount) -> Passes {
        Passes { extent, strata: Vec::new() }
    }

    fn add(&mut self, pass: Pass, span: Duration) {
        if self.strata.len() <= pass.stratum {
            self.strata.resize_with(pass.stratum + 1, Stratum::default);
        }
        let bytes = pass.to - pass.from;
        let stratum = &mut self.strata[pass.stratum];
        stratum.costs.push(span.as_secs_f64() / bytes.bytes() as f64);
        stratum.bytes += bytes;
    }

    fn carried_out(&self) -> ByteCount {
        self.strata.iter().map(|stratum| stratum.bytes).sum()
    }

    /// The time of the whole. A stratum of one stretch was carried out whole and has no error.
    fn estimate(&self) -> Estimate {
        let complete = self.carried_out() == self.extent;
        let mut seconds = 0.0;
        let mut variance = 0.0;
        let mut done = 0.0;
        let mut progress = Vec::new();
        for stratum in &self.strata {
            // Strata are of equal size where they are sampled.
            let bytes = if complete {
                stratum.bytes.bytes() as f64
            } else {
                self.extent.bytes() as f64 / self.strata.len() as f64
            };
            let count = stratum.costs.len() as f64;
            let cost = stratum.costs.iter().sum::<f64>() / count;
            if count > 1.0 {
                let squares: f64 = stratum.costs.iter().map(|c| (c - cost).powi(2)).sum();
                let sampled_share = (stratum.bytes.bytes() as f64 / bytes).min(1.0);
                variance += bytes.powi(2) * squares / (count - 1.0) / count * (1.0 - sampled_share);
            }
            seconds += bytes * cost;
            done += bytes;
            progress.push(ProgressPoint {
                time_s: seconds,
                done: (done / self.extent.bytes() as f64).min(1.0),
                rate_mb_s: 1.0 / cost / 1e6,
            });
        }
        Estimate { seconds, standard_error_seconds: variance.sqrt(), progress }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXTENT: ByteCount = ByteCount::gib(100);
    const GRAIN: ByteCount = ByteCount::kib(64);

    #[test]
    fn what_beginning_and_ending_take_is_no_part_of_the_rest() {
        let pass = Pass { stratum: 0, from: Offset(80 << 20), to: Offset(144 << 20) };
        let ms = Duration::from_millis;
        let (lead_in, short) = before(pass, Offset::ZERO, GRAIN);
        assert_eq!((lead_in, short), (Offset(60 << 20), Offset(64 << 20)));
        // 10 ms a MiB, and 9 ms at the ends.
        assert_eq!(beyond(pass, ms(649), ByteCount::mib(16), ms(169)), ms(640));
        // What takes longer is no end, and what takes less than its share is none at all.
        assert_eq!(beyond(pass, ms(740), ByteCount::mib(16), ms(260)), ms(740 - 16));
        assert_eq!(beyond(pass, ms(640), ByteCount::mib(16), ms(100)), ms(640));
        // Behind another stretch there is less room, or none.
        let (lead_in, short) = before(pass, Offset(70 << 20), GRAIN);
        assert_eq!((lead_in, short), (Offset(70 << 20), Offset(70 << 20)));
        let (lead_in, short) = before(pass, pass.from, GRAIN);
        assert_eq!((lead_in, short), (pass.from, pass.from));
        assert_eq!(beyond(pass, ms(640), ByteCount::ZERO, ms(0)), ms(640));
    }

    #[test]
    fn stretches_lie_in_their_strata_on_the_grid_and_do_not_overlap() {
        let sampling = Sampling { strata: 8, per_stratum: 3, sample: ByteCount::mib(256) };
        let passes = sampled(EXTENT, GRAIN, sampling, &mut Prng::new(1));
        let passes = passes.expect("they are but a part");
        assert_eq!(passes.len(), 24);
        for pair in passes.windows(2) {
            assert!(pair[0].to <= pair[1].from);
        }
        let stratum = EXTENT / 8;
        for pass in passes {
            assert!(pass.from.is_multiple_of(GRAIN));
            assert_eq!((pass.from / stratum) as usize, pass.stratum);
            assert!(pass.to.from_start() <= EXTENT);
        }
    }

    /// The estimator is checked on a disk whose cost a byte rises linearly by a factor of two: the
    /// integral is known.
    #[test]
    fn the_estimate_of_a_zoned_disk_lies_within_three_standard_errors() {
        let extent = EXTENT.bytes() as f64;
        let mut misses = 0;
        for seed in 0..200 {
            let sampling = Sampling { strata: 8, per_stratum: 3, sample: ByteCount::mib(256) };
            let mut outcome = Passes::new(EXTENT);
            let passes = sampled(EXTENT, GRAIN, sampling, &mut Prng::new(seed));
            for pass in passes.expect("they are but a part") {
                let middle = (pass.from.bytes() + pass.to.bytes()) as f64 / 2.0 / extent;
                let seconds = (pass.to - pass.from).bytes() as f64 * 1e-8 * (1.0 + middle);
                outcome.add(pass, Duration::from_secs_f64(seconds));
            }
            let estimate = outcome.estimate();
            let truth = extent * 1e-8 * 1.5;
            if (estimate.seconds - truth).abs() > 3.0 * estimate.standard_error_seconds {
                misses += 1;
            }
        }
        assert!(misses <= 10, "{misses} of 200 estimates lie outside three standard errors");
    }

    /// Published tests give points, not ends; a point within a stratum must not be that stratum's end.
    #[test]
    fn progress_has_points_between_those_that_were_measured() {
        let mut outcome = Passes::new(ByteCount(1000));
        for (stratum, seconds) in [(0, 100), (1, 300)] {
            let from = Offset(stratum as u64 * 500);
            outcome.add(
                Pass { stratum, from, to: from + ByteCount(500) },
                Duration::from_secs(seconds),
            );
        }
        let estimate = outcome.estimate();
        let close = |share: f64, time: f64| (estimate.time_to(share) - time).abs() < 1e-9;
        assert!(close(0.01, 2.0) && close(0.5, 100.0) && close(0.75, 250.0) && close(1.0, 400.0));
    }

    #[test]
    fn a_share_that_is_gone_over_twice_takes_twice_its_time_and_the_rest_its_own() {
        let mut outcome = Passes::new(ByteCount(1000));
        for stratum in 0..2 {
            let from = Offset(stratum as u64 * 500);
            let pass = Pass { stratum, from, to: from + ByteCount(500) };
            outcome.add(pass, Duration::from_secs(100));
        }
        let estimate = outcome.estimate().twice_at_first(0.1);
        let close = |share: f64, time: f64| (estimate.time_to(share) - time).abs() < 1e-9;
        assert!(close(0.05, 20.0) && close(0.1, 40.0) && close(0.5, 120.0) && close(1.0, 220.0));
        assert!((estimate.seconds - 220.0).abs() < 1e-9);
        let whole = outcome.estimate().twice_at_first(1.0);
        assert!((whole.seconds - 400.0).abs() < 1e-9 && (whole.time_to(0.5) - 200.0).abs() < 1e-9);
        assert_eq!(outcome.estimate().twice_at_first(0.0).progress.len(), 2);
    }

    #[test]
    fn an_operation_that_is_carried_out_whole_has_no_sampling_error() {
        let mut outcome = Passes::new(EXTENT);
        for pass in whole(EXTENT, GRAIN) {
            outcome.add(pass, Duration::from_secs(1));
        }
        let estimate = outcome.estimate();
        assert_eq!(estimate.standard_error_seconds, 0.0);
        assert!((estimate.seconds - outcome.strata.len() as f64).abs() < 1e-6);
        assert_eq!(estimate.progress.last().map(|point| point.done), Some(1.0));
    }
}
