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
//! What a stream does to a disk (its next block is always the nearest one), and what stands behind a cache, is not told by the
//! load's own latency: where the disks are at their limit the floor's time is a lower bound then, and said to be one.
//! A tool on files may pause; in pauses the rebuild has the disks, so the floor's time is the upper end, as long as the
//! disks have time left.
//!
//! Where the study measures rebuilds, its figures stand instead.

use crate::claims::Measured;
use crate::layout::{LayoutFacts, RebuildFacts};
use crate::results::{Cell, LayoutFigures};
use crate::study::{Kind, OperationKind};

/// Disks that are busy for a smaller share than this have room for a rebuild at its floor, which is a tenth of a disk's rate
/// at the most.
const SATURATED: f64 = 0.9;

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
    let longest = cells
        .iter()
        .filter_map(|cell| Some((beside(cell, facts, rebuild)?, busy(cell.cell)?, &cell.cell.id)))
        .max_by(|(one, its, _), (other, others, _)| {
            // Of those at the floor the one that keeps the disks busiest, and what has no upper end is longer.
            let open = |beside: &Beside| beside.high_s.is_none();
            let lengths = one.likely_s.total_cmp(&other.likely_s);
            lengths.then(open(one).cmp(&open(other))).then(its.mean.total_cmp(&others.mean))
        });
    if let Some((beside, _, id)) = longest {
        figures.rebuild_loaded_s = Some(beside.likely_s);
        figures.rebuild_loaded_low_s = Some(beside.low_s);
        figures.rebuild_loaded_high_s = beside.high_s;
        figures.loaded_by = Some(id.clone());
    }
    let mut measured_loaded: Option<f64> = None;
    for cell in cells {
        let Kind::Operation(operation) = &cell.spec.workload.kind else { continue };
        let took = cell.cell.metrics.get("duration_s").map(|metric| metric.mean);
        let (OperationKind::Rebuild, Some(took)) = (operation.kind, took) else { continue };
        figures.rebuild_measured = true;
        match &operation.load {
            None => figures.rebuild_idle_s = Some(took),
            Some(load) if measured_loaded.is_none_or(|known| took > known) => {
                measured_loaded = Some(took);
                figures.rebuild_loaded_s = Some(took);
                (figures.rebuild_loaded_low_s, figures.rebuild_loaded_high_s) = (None, None);
                figures.loaded_by = Some(load.name.clone());
            }
            Some(_) => {}
        }
    }
}

/// How busy a load kept the disks: shares, 0 to 1.
struct Busy {
    mean: f64,
    busiest: f64,
}

fn busy(cell: &Cell) -> Option<Busy> {
    let shares = &cell.disk_utilisation;
    let mean = shares.values().sum::<f64>() / shares.len() as f64;
    let busiest = shares.values().copied().fold(0.0, f64::max);
    (!shares.is_empty()).then(|| Busy { mean: mean.clamp(0.0, 1.0), busiest: busiest.min(1.0) })
}

/// Beside the load of this cell; none where it is no load, or the disks' rate is not known.
fn beside(measured: &Measured<'_>, facts: &LayoutFacts, rebuild: &RebuildFacts) -> Option<Beside> {
    let kind = &measured.spec.workload.kind;
    let (rate, busy) = (rebuild.rate?, busy(measured.cell)?);
    let bytes = facts.disk_bytes as f64;
    let floor = rebuild.floor.min(rate);
    let at_floor = bytes / floor;
    let is_saturated = busy.busiest >= SATURATED;
    match kind {
        Kind::Operation(_) => return None,
        Kind::Tool(_) => {
            let in_pauses = bytes / (rate * (1.0 - busy.mean)).max(floor);
            let high_s = (!is_saturated).then_some(at_floor);
            return Some(Beside { low_s: in_pauses, likely_s: at_floor, high_s });
        }
        Kind::Stream(_) | Kind::Random(_) | Kind::Slob(_) | Kind::Probe(_) => {}
    }
    if !is_saturated {
        return Some(Beside { low_s: at_floor, likely_s: at_floor, high_s: Some(at_floor) });
    }
    let Some(wait) = wait(kind, measured.cell) else {
        return Some(Beside { low_s: at_floor, likely_s: at_floor, high_s: None });
    };
    let read_at_once = (rebuild.read_bytes as f64 / bytes).round().max(1.0);
    let (likely, most) = match read_at_once > 1.0 {
        true => {
            let slowest: f64 = (1..=read_at_once as u64).map(|k| 1.0 / k as f64).sum();
            (slowest, 2.0 * slowest)
        }
        false => ((facts.disks as f64).sqrt(), facts.disks as f64),
    };
    let span = |waits: f64| {
        let step = wait * waits + 2.0 * rebuild.step / rate;
        bytes / rebuild.step * step.max(rebuild.step / floor)
    };
    Some(Beside { low_s: span(1.0), likely_s: span(likely), high_s: Some(span(most)) })
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
