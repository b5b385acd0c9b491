//! Runs a study: every repeat of every cell, on as many threads as the target bears.
//!
//! ```text
//! cells → check all → (cell, repeat) in random order, blocked on repeats
//!                   → workers: target.run → merged cell by cell → claims → verdict → Results
//! ```
//!
//! The results do not depend on the order of completion or the number of threads: seeds come from
//! the cell and the repeat alone, samples are kept by repeat, latencies are added as counts (which
//! commutes), and shares are averaged in the order of the repeats.
//!
//! A cell that fails is reported as failed, with the error of its first failing repeat, and the
//! others go on. What stops everything gives no results at all: Ctrl-C, or a fatal error such as a
//! full disk. A half-measured study is never passed off as whole.
//!
//! This is the one file of the lab that starts threads.

use crate::claims::{self, Measured};
use crate::design::{self, CellSpec, DesignError};
use crate::pitfalls::{Pitfall, REPEATS_FEW};
use crate::results::{Cell, FORMAT, FoundPitfall, LatencyPoint, ProgressPoint, Results};
use crate::stats;
use crate::study::Study;
use crate::target::{CellRun, RepeatPlan, StopFlag, Target, TargetError};
use crate::verdict;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use stdx::Prng;

/// A cell carries a warning if half its interval is over this share of its mean.
const INTERVAL_WIDE: f64 = 0.10;
/// The shares at which a distribution of latencies is written down: close together where people
/// look, at its ends.
const QUANTILES: [f64; 40] = [
    0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.10, 0.15, 0.20, 0.25, 0.30, 0.35, 0.40,
    0.45, 0.50, 0.55, 0.60, 0.65, 0.70, 0.75, 0.80, 0.85, 0.875, 0.90, 0.925, 0.95, 0.96, 0.97,
    0.98, 0.985, 0.99, 0.9925, 0.995, 0.9975, 0.999, 0.9995, 0.9998, 0.9999,
];

/// How to run a study.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// How many repeats may run at the same time; the target may bear fewer.
    pub jobs: usize,
    /// `--only` patterns: run the cells that one of them matches; all if there is none.
    pub only: Vec<String>,
    /// Raised on Ctrl-C.
    pub stop: StopFlag,
    /// The version of Spindle, for the results.
    pub spindle_version: String,
}

/// Why a run gave no results.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// There is nothing to run.
    #[error(transparent)]
    Design(#[from] DesignError),
    /// The target can't run a cell; known before anything ran.
    #[error("cell {cell}: {reason}")]
    Refused {
        /// The cell.
        cell: String,
        /// Why, and the mend.
        reason: TargetError,
    },
    /// Nothing more could be run.
    #[error("stopped at cell {cell}: {reason}; nothing was written")]
    Fatal {
        /// The cell.
        cell: String,
        /// Why, and the mend.
        reason: TargetError,
    },
    /// The stop flag was raised.
    #[error(
        "interrupted after {done} of {total} runs; nothing was written, run it again for a result"
    )]
    Interrupted {
        /// Repeats of cells that were done.
        done: usize,
        /// Repeats of cells in all.
        total: usize,
    },
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Repeats of cells that are done.
    pub done: usize,
    /// Repeats of cells in all.
    pub total: usize,
    /// The cells that run just now, in the order in which they began.
    pub running: &'a [String],
}

/// Hears how far a run is.
pub trait Observer: Sync {
    /// Called by the workers, one at a time, whenever a repeat begins or ends.
    fn progress(&self, progress: Progress<'_>);
}

/// Hears nothing.
pub struct NoObserver;

impl Observer for NoObserver {
    fn progress(&self, _: Progress<'_>) {}
}

/// What is known of a cell while its repeats run.
#[derive(Default)]
struct CellState {
    /// By repeat.
    repeats: BTreeMap<u32, Repeat>,
    /// Nanoseconds → how many I/Os took so long, over all repeats. (A map takes a fraction of the
    /// memory of a histogram, which counts even where nothing is; there may be thousands of cells.)
    latency: BTreeMap<u64, u64>,
    /// The first repeat that failed, and why.
    failed: Option<(u32, TargetError)>,
}

/// One repeat of a cell, without its latencies.
struct Repeat {
    metrics: BTreeMap<String, f64>,
    disk_utilisation: BTreeMap<String, f64>,
    progress: Vec<ProgressPoint>,
    warnings: Vec<String>,
    pitfalls: Vec<Pitfall>,
}

/// What the workers share.
struct Shared<'a> {
    study: &'a Study,
    target: &'a dyn Target,
    observer: &'a dyn Observer,
    cells: &'a [CellSpec],
    order: Vec<(usize, u32)>,
    next: AtomicUsize,
    stop: StopFlag,
    states: Vec<Mutex<CellState>>,
    tally: Mutex<Tally>,
}

#[derive(Default)]
struct Tally {
    done: usize,
    running: Vec<String>,
    fatal: Option<(String, TargetError)>,
}

/// Raises the flag when a worker dies of a panic, so that the others do not run on for hours.
struct StopOnPanic(StopFlag);

impl Drop for StopOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.raise();
        }
    }
}

/// Runs the study on the target.
pub fn run(
    study: &Study,
    target: &dyn Target,
    options: &RunOptions,
    observer: &dyn Observer,
) -> Result<Results, RunError> {
    let cells = design::select(design::cells(study)?, &options.only)?;
    for cell in &cells {
        target.check(cell).map_err(|reason| RunError::Refused { cell: cell.id.clone(), reason })?;
    }
    let shared = Shared {
        study,
        target,
        observer,
        order: design::run_order(cells.len(), study.repeats, study.seed),
        next: AtomicUsize::new(0),
        stop: options.stop.below(),
        states: cells.iter().map(|_| Mutex::default()).collect(),
        tally: Mutex::default(),
        cells: &cells,
    };
    let jobs = options.jobs.min(target.jobs_max()).min(shared.order.len()).max(1);
    #[expect(clippy::disallowed_methods, reason = "the lab's runner is where threads are let in")]
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| shared.work());
        }
    });
    let tally = shared.tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some((cell, reason)) = tally.fatal {
        return Err(RunError::Fatal { cell, reason });
    }
    let total = shared.order.len();
    if tally.done < total {
        return Err(RunError::Interrupted { done: tally.done, total });
    }
    let states = shared.states.into_iter();
    let states = states.map(|state| state.into_inner().unwrap_or_else(PoisonError::into_inner));
    let merged: Vec<Cell> =
        cells.iter().zip(states).map(|(spec, state)| merge(study, spec, state)).collect();
    Ok(conclude(study, target, options, &cells, merged))
}

/// Puts together what stands in `results.json`.
fn conclude(
    study: &Study,
    target: &dyn Target,
    options: &RunOptions,
    specs: &[CellSpec],
    cells: Vec<Cell>,
) -> Results {
    let measured: Vec<Measured<'_>> =
        specs.iter().zip(&cells).map(|(spec, cell)| Measured { spec, cell }).collect();
    let claims = claims::evaluate(&study.claims, &measured, study.confidence);
    let verdict = verdict::verdict(study, &measured);
    let mut notes = study.notes.clone();
    notes.extend(options.only.iter().map(|pattern| format!("--only {pattern}")));
    Results {
        format: FORMAT,
        study: study.name.clone(),
        title: study.title.clone(),
        question: study.question.clone(),
        seed: study.seed,
        spindle_version: options.spindle_version.clone(),
        simulated: target.simulated(),
        quick: study.quick,
        machine: target.machine(),
        confidence: study.confidence,
        cells,
        claims,
        verdict,
        notes,
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A worker that panicked ends the whole run; until then what it left is whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared<'_> {
    /// A worker: takes repeats off the order until there is none or it must stop.
    fn work(&self) {
        let _guard = StopOnPanic(self.stop.clone());
        while !self.stop.is_raised() {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some((cell_index, repeat)) = self.order.get(index).copied() else { return };
            let (cell, state) = (&self.cells[cell_index], &self.states[cell_index]);
            self.report(|tally| tally.running.push(cell.id.clone()));
            let failed = locked(state).failed.as_ref().map(|(failed, _)| *failed);
            // Skipped only after an *earlier* repeat has failed, so that which error is reported
            // does not depend on the order of completion.
            let outcome = match failed {
                Some(failed) if failed < repeat => Ok(None),
                _ => self.target.run(cell, &self.plan(cell, repeat), &self.stop).map(Some),
            };
            let whole = match outcome {
                Ok(None) => true,
                Ok(Some(run)) => {
                    locked(state).add(repeat, run);
                    true
                }
                Err(TargetError::Interrupted) => false,
                Err(reason @ TargetError::Fatal { .. }) => {
                    locked(&self.tally).fatal.get_or_insert((cell.id.clone(), reason));
                    self.stop.raise();
                    false
                }
                Err(reason) => {
                    locked(state).fail(repeat, reason);
                    true
                }
            };
            self.report(|tally| {
                tally.done += usize::from(whole);
                if let Some(at) = tally.running.iter().position(|id| *id == cell.id) {
                    tally.running.remove(at);
                }
            });
        }
    }

    fn plan(&self, cell: &CellSpec, repeat: u32) -> RepeatPlan {
        RepeatPlan {
            seed: cell.seed(self.study.seed, repeat),
            repeat,
            steady: self.study.steady,
            quick: self.study.quick,
        }
    }

    /// Changes the tally and lets the observer know; under one lock, so that what it hears is in
    /// order.
    fn report(&self, change: impl FnOnce(&mut Tally)) {
        let mut tally = locked(&self.tally);
        change(&mut tally);
        let (done, total) = (tally.done, self.order.len());
        self.observer.progress(Progress { done, total, running: &tally.running });
    }
}

impl CellState {
    fn add(&mut self, repeat: u32, run: CellRun) {
        for value in run.latency.iter().flat_map(|histogram| histogram.iter_recorded()) {
            *self.latency.entry(value.value_iterated_to()).or_default() += value.count_at_value();
        }
        let CellRun { metrics, disk_utilisation, progress, warnings, pitfalls, .. } = run;
        let whole = Repeat { metrics, disk_utilisation, progress, warnings, pitfalls };
        self.repeats.insert(repeat, whole);
    }

    fn fail(&mut self, repeat: u32, reason: TargetError) {
        if self.failed.as_ref().is_none_or(|(failed, _)| repeat < *failed) {
            self.failed = Some((repeat, reason));
        }
    }
}

/// All repeats of a cell as one.
fn merge(study: &Study, spec: &CellSpec, state: CellState) -> Cell {
    let mut cell = Cell {
        id: spec.id.clone(),
        factors: spec.levels(),
        workload: spec.workload.name.clone(),
        repeats: 0,
        metrics: BTreeMap::new(),
        disk_utilisation: BTreeMap::new(),
        latency: Vec::new(),
        progress: Vec::new(),
        warnings: Vec::new(),
        pitfalls: Vec::new(),
        error: None,
    };
    if let Some((_, reason)) = state.failed {
        cell.error = Some(reason.to_string());
        return cell;
    }
    let repeats = state.repeats.len();
    cell.repeats = u32::try_from(repeats).unwrap_or(u32::MAX);
    let mut warnings: Vec<(String, usize)> = Vec::new();
    let mut samples: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut shares: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for repeat in state.repeats.values() {
        let mut texts = repeat.warnings.clone();
        for (name, value) in &repeat.metrics {
            // JSON has no such numbers; a reader could not open the file.
            if value.is_finite() {
                samples.entry(name.clone()).or_default().push(*value);
            } else {
                texts.push(format!("{name} came out as {value} and is left out"));
            }
        }
        for (disk, share) in repeat.disk_utilisation.iter().filter(|(_, share)| share.is_finite()) {
            shares.entry(disk.clone()).or_default().push(*share);
        }
        for text in texts {
            match warnings.iter_mut().find(|(other, _)| *other == text) {
                Some((_, count)) => *count += 1,
                None => warnings.push((text, 1)),
            }
        }
    }
    let counted = |text: String, count: usize| match count {
        all if all >= repeats => text,
        some => format!("{text} (in {some} of {repeats} repeats)"),
    };
    for (pitfall, count) in gather_pitfalls(&state.repeats) {
        cell.add_pitfall(&pitfall, |what| counted(what, count));
    }
    cell.warnings.extend(warnings.into_iter().map(|(text, count)| counted(text, count)));
    for (name, samples) in samples {
        let prng = Prng::for_part(study.seed, &format!("bootstrap of {name} of {}", spec.id));
        let metric = stats::metric(samples, study.confidence, study.interval, prng);
        cell.metrics.insert(name, metric);
    }
    cell.disk_utilisation =
        shares.into_iter().map(|(disk, shares)| (disk, stats::mean(&shares))).collect();
    cell.latency = quantiles(&state.latency);
    cell.progress =
        state.repeats.into_values().next().map(|repeat| repeat.progress).unwrap_or_default();
    warn_of_uncertainty(study, spec, &mut cell);
    cell
}

/// The pitfalls of all repeats, each kind once, as the first repeat has it, with the number of repeats
/// that ran into it.
fn gather_pitfalls(repeats: &BTreeMap<u32, Repeat>) -> Vec<(Pitfall, usize)> {
    let mut found: Vec<(Pitfall, usize)> = Vec::new();
    for pitfall in repeats.values().flat_map(|repeat| &repeat.pitfalls) {
        match found.iter_mut().find(|(other, _)| other.id() == pitfall.id()) {
            Some((_, count)) => *count += 1,
            None => found.push((pitfall.clone(), 1)),
        }
    }
    found
}

fn warn_of_uncertainty(study: &Study, spec: &CellSpec, cell: &mut Cell) {
    if cell.repeats < REPEATS_FEW {
        cell.add_pitfall(&Pitfall::FewRepeats { repeats: cell.repeats }, |what| what);
    }
    let metric = spec.workload.main_metric();
    let Some(figure) = cell.metrics.get(metric) else { return };
    let half = (figure.ci_high - figure.ci_low) / 2.0;
    if half > INTERVAL_WIDE * figure.mean.abs() {
        let share = half / figure.mean.abs();
        let (metric, confidence) = (metric.to_owned(), study.confidence);
        cell.add_pitfall(&Pitfall::WideInterval { metric, confidence, share }, |what| what);
    }
}

impl Cell {
    /// Puts a pitfall down, for people and for programs; `told` adds to what was seen.
    fn add_pitfall(&mut self, pitfall: &Pitfall, told: impl FnOnce(String) -> String) {
        let text = told(pitfall.what());
        let found = FoundPitfall { id: pitfall.id().to_owned(), text, mend: pitfall.mend() };
        self.warnings.push(found.warning());
        self.pitfalls.push(found);
    }
}

/// The latencies at the quantiles that so many I/Os can tell: no 99.9 % of a hundred.
fn quantiles(counts: &BTreeMap<u64, u64>) -> Vec<LatencyPoint> {
    let total: u64 = counts.values().sum();
    let mut points = Vec::new();
    let mut values = counts.iter();
    let (mut value, mut upto) = (0, 0);
    for quantile in QUANTILES {
        let told = quantile.min(1.0 - quantile) * total as f64;
        if told < 1.0 {
            continue;
        }
        let wanted = (quantile * total as f64).ceil() as u64;
        while upto < wanted {
            let Some((next, count)) = values.next() else { break };
            value = *next;
            upto += count;
        }
        points.push(LatencyPoint { quantile, latency_us: value as f64 / 1e3 });
    }
    points
}
