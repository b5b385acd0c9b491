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
//! that of a rebuild that has the disks for all of their idle time and goes at the floor in the rest. A load of a given rate asks at
//! regular times, so of one set it is at work for as long as the rebuild looks back after each: always, where it asks as often as
//! the rebuild looks. Nothing bounds it above: while a tool is at work it may be a stream.
//!
//! **One load for all layouts.** Layouts are compared by what stands in one column, so that is beside one and the same load
//! ([`Loads`]): of those that every layout has, the one beside which rebuilds take longest, by the geometric mean over the layouts
//! (of the lower ends, where any load has no upper one). A layout that was not run under it stands beside the load that makes its own
//! rebuild longest, and is named with it. What has no upper end beside another load is told.
//!
//! Where the study measures rebuilds of normal priority, its figures stand instead, those beside one load again; what was longer
//! beside another of its loads, or would be beside one that none was measured beside, or has no upper end there, is told beside. One of
//! another priority is no answer to the same question: it stands only where there is no answer to this one, and says its priority.

use crate::claims::Measured;
use crate::duration;
use crate::layout::{LayoutFacts, Legs, RebuildFacts};
use crate::metrics;
use crate::results::{Cell, LayoutFigures};
use crate::study::{Kind, OperationKind, Priority};
use crate::words;
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// A rebuild that gets less of each disk (B/s) may not end before the load does: it is what md promises a rebuild beside a
/// load by default, 1000 KiB/s (speed_limit_min), at which a disk of 20 TB takes most of a year.
const PACE_MIN: f64 = 1000.0 * 1024.0;

/// Times of a rebuild are alike where one is no more than so many times the other: nobody plans by less.
const ALIKE: f64 = 1.01;
/// Loads that are named of which none bounds a rebuild.
const LOADS_NAMED_MAX: usize = 1;

/// How long a rebuild takes beside a load: what is likely, and the range.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Beside {
    low_s: f64,
    likely_s: f64,
    /// None where nothing bounds it.
    high_s: Option<f64>,
}

/// The loads beside which the rebuilds of all layouts are told: what their cells share but for the layout.
#[derive(Default)]
pub(super) struct Loads {
    /// Factors that tell one layout from another, and no load.
    own: Vec<String>,
    /// Beside which rebuilds are worked out.
    worked_out: Option<String>,
    /// Measured rebuilds of normal priority.
    of_normal: Option<String>,
    /// Those of another.
    of_other: Option<String>,
}

/// What a layout has of one load: how long a rebuild takes, and what decides between loads that take as long.
type Length = (String, f64, f64);

impl Loads {
    /// Of these layouts, each with its cells.
    pub(super) fn of(groups: &[(LayoutFacts, Vec<&Measured<'_>>)]) -> Loads {
        let mut loads = Loads { own: own_factors(groups), ..Loads::default() };
        let candidates: Vec<Vec<Candidate<'_>>> = groups
            .iter()
            .filter_map(|(facts, cells)| {
                let rebuild = facts.rebuild.as_ref().filter(|_| facts.survives_any > 0)?;
                Some(candidates(facts, rebuild, cells))
            })
            .collect();
        let is_open = candidates.iter().flatten().any(|one| one.beside.high_s.is_none());
        let lengths = candidates.iter().map(|candidates| {
            let length = |one: &Candidate<'_>| {
                (loads.key(one.cell), one.beside.length(is_open), one.weight())
            };
            candidates.iter().map(length).collect()
        });
        let worked_out = longest_of_all(lengths.collect());
        let measured = |is_normal: bool| {
            let of = |(_, cells): &(LayoutFacts, Vec<&Measured<'_>>)| {
                let rebuilds = cells.iter().filter_map(|cell| beside_measured(cell));
                let rebuilds =
                    rebuilds.filter(|one| (one.priority == Priority::Normal) == is_normal);
                rebuilds.map(|one| (loads.key(one.cell), one.took.seconds, 0.0)).collect()
            };
            longest_of_all(groups.iter().map(of).collect())
        };
        let (of_normal, of_other) = (measured(true), measured(false));
        (loads.worked_out, loads.of_normal, loads.of_other) = (worked_out, of_normal, of_other);
        loads
    }

    /// What a cell is but for what makes its layout.
    fn key(&self, cell: &Cell) -> String {
        let rest = cell.factors.iter().filter(|(factor, _)| !self.own.contains(factor));
        let rest: Vec<String> = rest.map(|(factor, level)| format!("{factor}={level}")).collect();
        match rest.is_empty() {
            true => cell.workload.clone(),
            false => format!("{}/{}", cell.workload, rest.join(",")),
        }
    }

    /// Whether a cell is of this load.
    fn is(&self, load: &Option<String>, cell: &Cell) -> bool {
        load.as_ref().is_some_and(|load| *load == self.key(cell))
    }
}

/// The study's factors that have one level in each layout, and not the same in all.
fn own_factors(groups: &[(LayoutFacts, Vec<&Measured<'_>>)]) -> Vec<String> {
    let all = || groups.iter().flat_map(|(_, cells)| cells);
    let names: BTreeSet<&String> = all().flat_map(|cell| cell.spec.factors.keys()).collect();
    let level = |cell: &Measured<'_>, name: &String| cell.cell.factors.get(name).cloned();
    let is_own = |name: &&String| {
        let is_one = |(_, cells): &(LayoutFacts, Vec<&Measured<'_>>)| {
            cells.windows(2).all(|pair| level(pair[0], name) == level(pair[1], name))
        };
        let levels: BTreeSet<Option<String>> = all().map(|cell| level(cell, name)).collect();
        groups.iter().all(is_one) && levels.len() > 1
    };
    names.into_iter().filter(is_own).cloned().collect()
}

/// Of the loads that all of these layouts have (those that have any), the one beside which rebuilds take longest: by the geometric
/// mean, and where that is the same, by what decides then.
fn longest_of_all(layouts: Vec<Vec<Length>>) -> Option<String> {
    let layouts: Vec<Vec<Length>> = layouts.into_iter().filter(|one| !one.is_empty()).collect();
    let of_all = |key: &String| {
        let mut sums = (0.0, 0.0);
        for loads in &layouts {
            let (_, length, weight) = loads.iter().find(|(its, ..)| its == key)?;
            sums = (sums.0 + length.ln(), sums.1 + weight);
        }
        Some((key.clone(), sums))
    };
    let shared = layouts.first()?.iter().filter_map(|(key, ..)| of_all(key));
    let longest = shared
        .max_by(|(_, one), (_, other)| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
    longest.map(|(key, _)| key)
}

impl Beside {
    /// By what loads are compared: where any has no upper end, by the lower ones.
    fn length(&self, is_open: bool) -> f64 {
        if is_open { self.low_s } else { self.likely_s }
    }
}

/// Fills in how long a rebuild takes.
pub(super) fn times(
    figures: &mut LayoutFigures,
    facts: &LayoutFacts,
    rebuild: &RebuildFacts,
    cells: &[&Measured<'_>],
    loads: &Loads,
) {
    figures.rebuild_idle_s = rebuild.rate.map(|rate| rebuild.bytes as f64 / rate);
    let candidates = candidates(facts, rebuild, cells);
    let longest = longest(&candidates);
    let shared = candidates.iter().find(|one| loads.is(&loads.worked_out, one.cell));
    if let Some(Candidate { beside, cell, .. }) = shared.or(longest) {
        figures.rebuild_loaded_s = Some(beside.likely_s);
        figures.rebuild_loaded_low_s = Some(beside.low_s);
        figures.rebuild_loaded_high_s = beside.high_s;
        figures.loaded_by = Some(cell.id.clone());
    }
    if let Some(Candidate { beside, cell: Cell { id, .. }, .. }) = longest {
        let pace = rebuild.bytes as f64 / beside.likely_s;
        if pace < PACE_MIN {
            figures.warnings.push(format!(
                "beside {id} a rebuild gets {:.1} MB/s of each disk, less than md promises by default (1 MB/s): it may not \
                 end while that load lasts",
                pace / 1e6
            ));
        }
    }
    let is_measured = measured(figures, cells, longest, loads);
    let told = shared.or(longest).filter(|one| one.beside.high_s.is_some() && !is_measured);
    let open = candidates.iter().filter(|one| one.beside.high_s.is_none());
    let open: Vec<String> = open.map(|one| loads.key(one.cell)).collect();
    if let Some(told) = told.filter(|_| !open.is_empty()) {
        figures.warnings.push(format!(
            "nothing bounds how long a rebuild takes beside {}: it may be longer than beside {}",
            words::first_of(open, LOADS_NAMED_MAX, ", "),
            loads.key(told.cell)
        ));
    }
}

/// A load of a layout.
struct Candidate<'a> {
    beside: Beside,
    /// The share of the time for which it keeps the disks busy.
    busy: f64,
    cell: &'a Cell,
}

impl Candidate<'_> {
    /// Of loads beside which a rebuild takes as long, what has no upper end comes first, then what keeps the disks busier.
    fn weight(&self) -> f64 {
        let open = if self.beside.high_s.is_none() { 2.0 } else { 0.0 };
        open + self.busy
    }
}

/// The loads of a layout beside which a rebuild can be worked out.
fn candidates<'a>(
    facts: &LayoutFacts,
    rebuild: &RebuildFacts,
    cells: &[&Measured<'a>],
) -> Vec<Candidate<'a>> {
    let of = |measured: &&Measured<'a>| {
        let (beside, busy) = (beside(measured, facts, rebuild)?, busy(measured.cell)?);
        Some(Candidate { beside, busy, cell: measured.cell })
    };
    cells.iter().filter_map(of).collect()
}

/// A rebuild that was measured beside a load.
struct BesideMeasured<'a> {
    took: Took,
    load: &'a str,
    priority: Priority,
    cell: &'a Cell,
}

/// What a cell has measured of that; none where it is another.
fn beside_measured<'a>(measured: &Measured<'a>) -> Option<BesideMeasured<'a>> {
    let Kind::Operation(operation) = &measured.spec.workload.kind else { return None };
    let load = operation.load.as_ref().filter(|_| operation.kind == OperationKind::Rebuild)?;
    let (load, priority) = (load.name.as_str(), operation.priority);
    Some(BesideMeasured { took: Took::of(measured.cell)?, load, priority, cell: measured.cell })
}

/// What rebuilds of the study took, in place of what is worked out, which is longest beside this load. Whether one was measured
/// beside a load.
fn measured(
    figures: &mut LayoutFigures,
    cells: &[&Measured<'_>],
    longest: Option<&Candidate<'_>>,
    loads: &Loads,
) -> bool {
    // On an idle set all priorities are one; the normal one is as much as any in name, too.
    let mut idle: Option<(Took, bool)> = None;
    for cell in cells {
        let Kind::Operation(operation) = &cell.spec.workload.kind else { continue };
        let took = Took::of(cell.cell).filter(|_| operation.load.is_none());
        let (OperationKind::Rebuild, Some(took)) = (operation.kind, took) else { continue };
        let is_normal = operation.priority == Priority::Normal;
        let replaces = idle.as_ref().is_none_or(|(known, known_is_normal)| {
            (is_normal, took.seconds).partial_cmp(&(*known_is_normal, known.seconds))
                == Some(Ordering::Greater)
        });
        if replaces {
            idle = Some((took, is_normal));
        }
    }
    if let Some((took, _)) = idle {
        figures.rebuild_measured = true;
        figures.rebuild_idle_s = Some(took.seconds);
        figures.rebuild_idle_error_s = took.error;
        figures.rebuild_idle_interval_s = took.interval;
    }
    // Of normal priority, as what is worked out; and of another, which is another figure.
    let all = |is_normal: bool| {
        let all = cells.iter().filter_map(|cell| beside_measured(cell));
        all.filter(move |one| (one.priority == Priority::Normal) == is_normal)
    };
    let told = |is_normal: bool, load: &Option<String>| {
        let of_all = all(is_normal).find(|one| loads.is(load, one.cell));
        of_all.or_else(|| all(is_normal).max_by(by_length))
    };
    let other = || told(false, &loads.of_other).filter(|_| figures.rebuild_loaded_s.is_none());
    let Some(one) = told(true, &loads.of_normal).or_else(other) else { return false };
    let longer = longer(&one, all(one.priority == Priority::Normal), longest);
    let BesideMeasured { took, load, priority, .. } = one;
    if let Some(longer) = longer {
        figures.warnings.push(format!(
            "the rebuild beside load is that beside {load}, as it was measured, and what may happen meanwhile goes by it; {longer}"
        ));
    }
    figures.rebuild_measured = true;
    figures.rebuild_loaded_s = Some(took.seconds);
    figures.rebuild_loaded_error_s = took.error;
    figures.rebuild_loaded_interval_s = took.interval;
    figures.load_mb_s = took.load_mb_s;
    (figures.rebuild_loaded_low_s, figures.rebuild_loaded_high_s) = (None, None);
    figures.loaded_by = Some(load.to_owned());
    let priority = (priority != Priority::Normal).then(|| priority.text().to_owned());
    figures.rebuild_priority = priority;
    true
}

/// Which of two took longer.
fn by_length(one: &BesideMeasured<'_>, other: &BesideMeasured<'_>) -> Ordering {
    one.took.seconds.total_cmp(&other.took.seconds)
}

/// Beside which other load it took longer than in this rebuild, and beside which it would take longer than in any that was measured,
/// or may. (What is the load of an operation has no cells of its own, so what is worked out is never beside one of these.)
fn longer<'a>(
    told: &BesideMeasured<'_>,
    measured: impl Iterator<Item = BesideMeasured<'a>>,
    worked_out: Option<&Candidate<'_>>,
) -> Option<String> {
    let slowest = measured.max_by(by_length);
    let slowest = slowest.filter(|slowest| slowest.took.seconds > ALIKE * told.took.seconds);
    let known = slowest.as_ref().unwrap_or(told).took.seconds;
    let took = slowest.map(|BesideMeasured { took, load, cell, .. }| {
        let span = duration::text(took.seconds);
        // Beside the same load it is another level of some factor, which the cell's name has.
        match load == told.load {
            true => format!("in {} it took {span}, as it was measured", cell.id),
            false => format!("beside {load} it took {span}, as it was measured"),
        }
    });
    let untold = worked_out.and_then(|Candidate { beside, cell, .. }| {
        Some(format!("beside {} it {}", cell.id, untold(known, *beside)?))
    });
    let said: Vec<String> = took.into_iter().chain(untold).collect();
    (!said.is_empty()).then(|| said.join("; "))
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

/// The load beside which a rebuild takes longest.
fn longest<'a, 'b>(all: &'b [Candidate<'a>]) -> Option<&'b Candidate<'a>> {
    let is_open = all.iter().any(|one| one.beside.high_s.is_none());
    all.iter().max_by(|one, other| {
        let lengths = one.beside.length(is_open).total_cmp(&other.beside.length(is_open));
        lengths.then(one.weight().total_cmp(&other.weight()))
    })
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
    let bytes = rebuild.bytes as f64;
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
        // What is told its rate waits for its time; it asks as regularly as a clock, or has what it asked under way.
        _ if measured.spec.workload.rate.is_some() => {
            let asked = measured.spec.workload.ios_asked().filter(|_| legs.is_none());
            let at_work = asked.zip(rebuild.look).map_or(0.0, |(asked, look)| asked * look);
            return Some(bounded_below((1.0 - busy).min(1.0 - at_work).max(0.0)));
        }
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
