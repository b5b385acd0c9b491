//! How long a lost disk is away: on an idle set, and beside a load.
//!
//! A rebuild of normal priority goes as `md::sync` lets it: while the host is at work it asks for one step a member at a
//! time, and begins the next no sooner than its rate (the *floor*) allows. So beside a block workload, which is always
//! at work, it takes the floor's time however idle the disks are, and longer where a step waits longer at the disks
//! than the floor gives it:
//!
//! ```text
//! a step = max(step / floor, wait + 2 · step / rate)          read, then written
//! ```
//!
//! The wait is taken from the load's own reads, which stand in the same queues: T, their mean. A set with parity reads k
//! disks at once and waits for the slowest: with waits that are alike, independent and exponential, T · (1 + 1/2 + … + 1/k);
//! no less than T, and no more than twice that, since after a loss each disk has up to twice the reads. A mirror reads
//! one disk, the one that now answers alone for both, so that the load's queue gathers there: between T and, with the
//! whole queue there, T times the disks of the set. The geometric mean of these ends is the estimate.
//!
//! **One of several sets** (RAID 50, RAID 60). The load goes over all *s* of them, and each set looks after itself: the one
//! that mends is at work only while it has requests of the load, and in the pauses between them its rebuild has the
//! disks. It is the slowest of them, so there the load's queue gathers: of what is outstanding at all, *c* (arrivals ×
//! latency, Little's law), it has a share q, between p = 1/s and 1; the geometric mean of these ends, √p, is the estimate.
//!
//! * Of the other c − 1 a request found n = (c − 1) / disks before it, and now finds n q / p: with parity T becomes
//!   T (1 + n q / p) / (1 + n).
//! * The set has nothing to do for (1 − q)^c of the time. Requests come to it at the rate λ = p · the load's, so a pause is
//!   1/λ long, and there are λ (1 − q)^c a second. The rebuild sees a pause at its next look, a random moment within the
//!   looks' distance L, if the pause is not over by then: (1 − e^(−λL)) / λL of them. It then starts all steps of its
//!   window at once, and goes on at the disks' rate:
//!
//! ```text
//! the rebuild's rate = at work's · (1 − pauses seen / λ) + pauses seen · (rate / λ + (window − 1) · step)
//! ```
//!
//! What a stream does to a disk (its next block is always the nearest one), and what writes do that a disk's cache answers, is
//! not told by the load's own latency, however busy it keeps the disks: a rebuild's step breaks the stream, and each waits for the other. The
//! floor's time is a lower bound then, and said to be one.
//! A tool on files may pause, sessions that compute (`processor_time`) and loads of a given rate do, and a stream may at one of several sets; in pauses the rebuild has the disks. So the bound is
//! that of a rebuild that has the disks for all of their idle time and goes at the floor in the rest. Nothing bounds it above:
//! while a tool is at work it may be a stream.
//!
//! Where any load has no upper end, what takes longest has none, and the bound is the greatest of the lower ends.
//!
//! Where the study measures rebuilds of normal priority, its figures stand instead; what would be longer beside another of its
//! loads, or has no upper end there, is told beside. One of another priority is no answer to the
//! same question: it stands only where there is no answer to this one, and says its priority.

use crate::claims::Measured;
use crate::duration;
use crate::layout::{LayoutFacts, Legs, RebuildFacts};
use crate::metrics;
use crate::results::{Cell, LayoutFigures};
use crate::study::{Kind, OperationKind, Priority};
use std::cmp::Ordering;

/// A rebuild that gets less of each disk (B/s) may not end before the load does: it is what md promises a rebuild beside a
/// load by default, 1000 KiB/s (speed_limit_min), at which a disk of 20 TB takes most of a year.
const PACE_MIN: f64 = 1000.0 * 1024.0;

/// Times of a rebuild are alike where one is no more than so many times the other: nobody plans by less.
const ALIKE: f64 = 1.01;

/// How long a rebuild takes beside a load: what is likely, and the range.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Beside {
    low_s: f64,
    likely_s: f64,
    /// None where nothing bounds it.
    high_s: Option<f64>,
}

/// Fills in how long a rebuild takes.
pub(super) fn times(
    figures: &mut LayoutFigures,
    facts: &LayoutFacts,
    rebuild: &RebuildFacts,
    cells: &[&Measured<'_>],
) {
    figures.rebuild_idle_s = rebuild.rate.map(|rate| facts.disk_bytes as f64 / rate);
    let beside: Vec<(Beside, f64, &String)> = cells
        .iter()
        .filter_map(|cell| Some((beside(cell, facts, rebuild)?, busy(cell.cell)?, &cell.cell.id)))
        .collect();
    let longest = longest(&beside);
    if let Some((beside, id)) = longest {
        figures.rebuild_loaded_s = Some(beside.likely_s);
        figures.rebuild_loaded_low_s = Some(beside.low_s);
        figures.rebuild_loaded_high_s = beside.high_s;
        figures.loaded_by = Some(id.clone());
        let pace = facts.disk_bytes as f64 / beside.likely_s;
        if pace < PACE_MIN {
            figures.warnings.push(format!(
                "beside {id} a rebuild gets {:.1} MB/s of each disk, less than md promises by default (1 MB/s): it may not \
                 end while that load lasts",
                pace / 1e6
            ));
        }
    }
    measured(figures, cells, longest);
}

/// What rebuilds of the study took, in place of what is worked out, which is `longest` beside a load of this cell.
fn measured(
    figures: &mut LayoutFigures,
    cells: &[&Measured<'_>],
    longest: Option<(Beside, &String)>,
) {
    // On an idle set all priorities are one; the normal one is as much as any in name, too.
    let mut idle: Option<(Took, bool)> = None;
    // Of normal priority, as what is worked out; and of another, which is another figure.
    let mut of_normal: Option<(Took, &str)> = None;
    let mut of_other: Option<(Took, &str, Priority)> = None;
    for cell in cells {
        let Kind::Operation(operation) = &cell.spec.workload.kind else { continue };
        let (OperationKind::Rebuild, Some(took)) = (operation.kind, Took::of(cell.cell)) else {
            continue;
        };
        let longer = |known: Option<f64>| known.is_none_or(|known| took.seconds > known);
        match (&operation.load, operation.priority) {
            (None, priority) => {
                let is_normal = priority == Priority::Normal;
                let replaces = idle.as_ref().is_none_or(|(known, known_is_normal)| {
                    (is_normal, took.seconds).partial_cmp(&(*known_is_normal, known.seconds))
                        == Some(Ordering::Greater)
                });
                if replaces {
                    idle = Some((took, is_normal));
                }
            }
            (Some(load), Priority::Normal)
                if longer(of_normal.as_ref().map(|(known, _)| known.seconds)) =>
            {
                of_normal = Some((took, &load.name));
            }
            (Some(load), priority)
                if longer(of_other.as_ref().map(|(known, ..)| known.seconds)) =>
            {
                of_other = Some((took, &load.name, priority));
            }
            _ => {}
        }
    }
    if let Some((took, _)) = idle {
        figures.rebuild_measured = true;
        figures.rebuild_idle_s = Some(took.seconds);
        figures.rebuild_idle_error_s = took.error;
        figures.rebuild_idle_interval_s = took.interval;
    }
    let other = of_other.filter(|_| figures.rebuild_loaded_s.is_none());
    let other = other.map(|(took, load, priority)| (took, load, Some(priority.text().to_owned())));
    if let Some((took, load, priority)) = of_normal.map(|(took, load)| (took, load, None)).or(other)
    {
        let untold = longest.and_then(|(other, id)| Some((untold(took.seconds, other)?, id)));
        if let Some((untold, id)) = untold {
            figures.warnings.push(format!(
                "the rebuild beside load is that beside {load}, as it was measured, and what may happen meanwhile goes by it; \
                 beside {id} it {untold}"
            ));
        }
        figures.rebuild_measured = true;
        figures.rebuild_loaded_s = Some(took.seconds);
        figures.rebuild_loaded_error_s = took.error;
        figures.rebuild_loaded_interval_s = took.interval;
        figures.load_mb_s = took.load_mb_s;
        (figures.rebuild_loaded_low_s, figures.rebuild_loaded_high_s) = (None, None);
        figures.loaded_by = Some(load.to_owned());
        figures.rebuild_priority = priority;
    }
}

/// What a rebuild that was measured does not tell of one that is worked out beside another load. A bound that is no longer than
/// what was measured warns of nothing: what is true then is that nobody knows.
fn untold(measured_s: f64, other: Beside) -> Option<String> {
    let is_longer = other.likely_s > ALIKE * measured_s;
    let likely = duration::text(other.likely_s);
    match (other.high_s, is_longer) {
        (None, true) => Some(format!("is ≥ {likely}")),
        (None, false) => Some("may take longer, which only a rebuild beside it tells".to_owned()),
        (Some(_), true) => Some(format!("is ≈ {likely}")),
        (Some(_), false) => None,
    }
}

/// How long a rebuild took.
struct Took {
    seconds: f64,
    /// The standard error of the mean over repeats, where stretches stand for the whole. Repeats take other stretches.
    error: Option<f64>,
    /// Half the interval over repeats: to its farther end.
    interval: Option<f64>,
    /// What its load moved meanwhile (10⁶ B/s).
    load_mb_s: Option<f64>,
}

impl Took {
    fn of(cell: &Cell) -> Option<Took> {
        let mean = |metric: &str| cell.metrics.get(metric).map(|metric| metric.mean);
        let duration = cell.metrics.get("duration_s")?;
        let seconds = duration.mean;
        let interval = (duration.ci_high - seconds).max(seconds - duration.ci_low);
        let error = seconds * metrics::sampling_error(cell, "duration_s");
        Some(Took {
            seconds,
            error: (error > 0.0).then_some(error),
            interval: (interval > 0.0).then_some(interval),
            load_mb_s: mean("load_throughput_mb_s"),
        })
    }
}

/// What takes longest of all, and the cell of that load.
fn longest<'a>(all: &[(Beside, f64, &'a String)]) -> Option<(Beside, &'a String)> {
    let open = |beside: &Beside| beside.high_s.is_none();
    let is_open = all.iter().any(|(beside, ..)| open(beside));
    let length = |beside: &Beside| if is_open { beside.low_s } else { beside.likely_s };
    let (beside, _, id) = all.iter().max_by(|(one, its, _), (other, others, _)| {
        // Of those that are alike what has no upper end, then the one that keeps the disks busiest.
        let lengths = length(one).total_cmp(&length(other));
        lengths.then(open(one).cmp(&open(other))).then(its.total_cmp(others))
    })?;
    let longest = match is_open {
        true => Beside { likely_s: beside.low_s, high_s: None, ..*beside },
        false => *beside,
    };
    Some((longest, id))
}

/// For which share of the time a load kept the disks busy, in the mean of those that had something to do.
fn busy(cell: &Cell) -> Option<f64> {
    let shares: Vec<f64> =
        cell.disk_utilisation.values().copied().filter(|share| *share > 0.0).collect();
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    (!shares.is_empty()).then(|| mean.clamp(0.0, 1.0))
}

/// Beside the load of this cell; none where it is no load, or the disks' rate is not known.
fn beside(measured: &Measured<'_>, facts: &LayoutFacts, rebuild: &RebuildFacts) -> Option<Beside> {
    let kind = &measured.spec.workload.kind;
    let (rate, busy) = (rebuild.rate?, busy(measured.cell)?);
    let bytes = facts.disk_bytes as f64;
    let floor = rebuild.floor.min(rate);
    let legs = rebuild.legs.as_ref();
    // A load that does not wait for itself never pauses; over several sets it may, at the one that mends.
    let idle_of_one = legs.map_or(0.0, |_| 1.0 - busy);
    // By a rebuild that has the disks for this share of the time, and goes at the floor in the rest.
    let bounded_below = |idle: f64| {
        let low_s = bytes / (rate * idle + floor * (1.0 - idle));
        Beside { low_s, likely_s: low_s, high_s: None }
    };
    match kind {
        Kind::Operation(_) => return None,
        Kind::Tool(_) => return Some(bounded_below(1.0 - busy)),
        Kind::Slob(slob) if !slob.processor_time.is_zero() => {
            return Some(bounded_below(1.0 - busy));
        }
        // What is told its rate waits for its time.
        _ if measured.spec.workload.rate.is_some() => return Some(bounded_below(1.0 - busy)),
        Kind::Stream(_) | Kind::Probe(_) => return Some(bounded_below(idle_of_one)),
        Kind::Random(_) | Kind::Slob(_) => {}
    }
    let pauses = legs.and_then(|legs| Pauses::of(kind, measured.cell, legs));
    let share = pauses.as_ref().map_or(1.0, |pauses| pauses.share);
    let span = |wait: f64, share: f64| {
        let step = (wait + 2.0 * rebuild.step / rate).max(rebuild.step / floor);
        let at_work = rebuild.step / step;
        let pace = pauses.as_ref().map_or(at_work, |p| p.pace(share, at_work, rate, rebuild.step));
        bytes / pace
    };
    let Some(wait) = wait(kind, measured.cell) else {
        return Some(bounded_below(idle_of_one));
    };
    let read_at_once = (rebuild.read_bytes as f64 / bytes).round().max(1.0);
    let (likely, most) = match read_at_once > 1.0 {
        true => {
            let slowest: f64 = (1..=read_at_once as u64).map(|k| 1.0 / k as f64).sum();
            let grown = |share| pauses.as_ref().map_or(1.0, |p| p.waits_grow(share, facts.disks));
            (slowest * grown(share.sqrt()), 2.0 * slowest * grown(1.0))
        }
        // All disks, whatever sets they are in; but no more than there are requests.
        false => {
            let gathered = outstanding(measured.cell)
                .map_or(facts.disks as f64, |all| all.clamp(1.0, facts.disks as f64));
            (gathered.sqrt(), gathered)
        }
    };
    // A request that is larger than what the sets are dealt out at a time goes to all, and one may be ready before the others.
    let low_s = span(wait, share);
    let low_s = if pauses.is_some() { low_s } else { low_s.min(bounded_below(idle_of_one).low_s) };
    Some(Beside {
        low_s,
        likely_s: span(wait * likely, share.sqrt()),
        high_s: Some(span(wait * most, 1.0)),
    })
}

/// Requests that a load has outstanding, by Little's law.
fn outstanding(cell: &Cell) -> Option<f64> {
    let mean = |metric: &str| cell.metrics.get(metric).map(|metric| metric.mean);
    Some(mean("iops")? * mean("latency_us_mean")? * 1e-6)
}

/// The pauses that a load over several sets leaves to one of them.
struct Pauses<'a> {
    legs: &'a Legs,
    /// Requests that the load has outstanding.
    outstanding: f64,
    /// Requests a second that come to one set.
    arrivals: f64,
    /// The share of the requests that come to one set.
    share: f64,
}

impl<'a> Pauses<'a> {
    /// None where the load keeps all sets at work, or does not tell.
    fn of(kind: &Kind, cell: &Cell, legs: &'a Legs) -> Option<Pauses<'a>> {
        let size = match kind {
            Kind::Random(random) => random.block_size.bytes(),
            Kind::Slob(slob) => slob.block_size.bytes(),
            _ => return None,
        };
        let (rate, outstanding) = (cell.metrics.get("iops")?.mean, outstanding(cell)?);
        let touched = size.div_ceil(legs.unit).min(legs.count);
        let share = touched as f64 / legs.count as f64;
        let known = rate > 0.0 && outstanding > 0.0 && share < 1.0;
        known.then_some(Pauses { legs, outstanding, arrivals: rate * share, share })
    }

    /// How many times as long a request waits and is served where so large a share of what is outstanding stands at one set.
    fn waits_grow(&self, share: f64, disks: u64) -> f64 {
        let before_it = (self.outstanding - 1.0).max(0.0) / disks as f64;
        (1.0 + before_it * share / self.share) / (1.0 + before_it)
    }

    /// How fast (B/s) a rebuild goes that has `at_work` while its set has requests of the load, on disks of this rate, where so
    /// large a share of what is outstanding stands at its set.
    fn pace(&self, share: f64, at_work: f64, rate: f64, step: f64) -> f64 {
        let idle = (1.0 - share).powf(self.outstanding);
        let in_a_look = self.arrivals * self.legs.look;
        let seen = self.arrivals * idle * -(-in_a_look).exp_m1() / in_a_look;
        let gained = rate / self.arrivals + (self.legs.window - 1) as f64 * step;
        let pace = at_work * (1.0 - seen / self.arrivals) + seen * gained;
        pace.min(rate)
    }
}

/// How long a read of this load waits at a disk and is served by it (s), where its latency tells.
fn wait(kind: &Kind, cell: &Cell) -> Option<f64> {
    let mean = |metric: &str| cell.metrics.get(metric).map(|metric| metric.mean * 1e-6);
    let reads = match kind {
        Kind::Random(random) => random.read_share > 0.0,
        Kind::Slob(slob) => slob.readers > 0,
        _ => return None,
    };
    if reads {
        return mean("latency_us_read_mean").or_else(|| mean("latency_us_mean"));
    }
    // A part of a stripe is read, then written; what is only written is answered from a disk's cache.
    let reads_first = cell.metrics.get("disk_reads_per_io").is_some_and(|reads| reads.mean >= 1.0);
    mean("latency_us_mean").filter(|_| reads_first).map(|mean| mean / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_measured_rebuild_does_not_tell_is_no_bound_below_it() {
        let (hour, day) = (3600.0, 86_400.0);
        let other =
            |likely_s: f64, high_s: Option<f64>| Beside { low_s: likely_s, likely_s, high_s };
        let told = |other: Beside| untold(13.0 * day + 20.0 * hour, other);
        let unknown = Some("may take longer, which only a rebuild beside it tells".to_owned());
        for below in [13.0 * day, 13.0 * day + 19.0 * hour, 13.0 * day + 21.0 * hour] {
            assert_eq!(told(other(below, None)), unknown, "{below}");
            assert_eq!(told(other(below, Some(below))), None, "{below}");
        }
        assert_eq!(told(other(15.0 * day, None)).as_deref(), Some("is ≥ 15 days"));
        assert_eq!(told(other(15.0 * day, Some(16.0 * day))).as_deref(), Some("is ≈ 15 days"));
    }
}
