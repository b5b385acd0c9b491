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
//! others go on. Ctrl-C and a fatal error such as a full disk stop everything: what is done until then is
//! [kept](crate::kept) as it comes, and the results of it say that they are [partial](Results::partial). A half-measured
//! study is never passed off as whole.
//!
//! This is the one file of the lab that starts threads, and that looks at a clock: for the time left, which
//! is told and stands nowhere.

use crate::claims::{self, Measured};
use crate::design::{self, CellSpec, DesignError};
use crate::kept::{FinishedRun, Keeper, NoKeeper, Repeat};
use crate::layouts;
use crate::merge::{CellState, merge};
use crate::pace::{Left, Pace};
use crate::results::{Cell, FORMAT, Partial, PartialOf, Results, RunFacts};
use crate::stats::IntervalMethod;
use crate::study::Study;
use crate::target::{RepeatPlan, StopFlag, Target, TargetError};
use crate::verdict;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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
    /// The date, in seconds since 1970, for results that are measured; without one they have no date.
    pub date: Option<fn() -> u64>,
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
    #[error("stopped at cell {cell}: {reason}")]
    Fatal {
        /// The cell.
        cell: String,
        /// Why, and the mend.
        reason: TargetError,
    },
    /// The stop flag was raised.
    #[error("interrupted after {done} of {total} runs")]
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
    pub running: &'a [Running<'a>],
    /// How long the rest will take, by what [runs of the same kind](crate::pace) took until now; none before the first is done.
    pub left: Option<Left>,
}

/// A cell that runs just now.
#[derive(Clone, Copy, Debug)]
pub struct Running<'a> {
    /// Its name.
    pub cell: &'a str,
    /// How long a run of it takes at the most; none while too little is known of its kind.
    pub takes: Option<Duration>,
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

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The results of what is done.
    pub results: Results,
    /// Why not all is; the results then are partial.
    pub stopped: Option<RunError>,
}

/// What the workers share.
struct Shared<'a> {
    study: &'a Study,
    target: &'a dyn Target,
    observer: &'a dyn Observer,
    keeper: &'a dyn Keeper,
    cells: &'a [CellSpec],
    /// What is to be run: cells and repeats, less what was kept.
    order: Vec<(usize, u32)>,
    /// How many runs were kept from before.
    kept: usize,
    jobs: usize,
    stop: StopFlag,
    states: Vec<Mutex<CellState>>,
    tally: Mutex<Tally>,
}

struct Tally {
    /// Of those that are to be run.
    begun: usize,
    done: usize,
    /// Cells and repeats, and since when.
    running: Vec<((usize, u32), std::time::Instant)>,
    fatal: Option<(String, TargetError)>,
    pace: Pace,
}

/// What became of a run.
enum Run {
    /// It gave its figures.
    Whole,
    /// It failed, or an earlier run of its cell did.
    Failed,
    /// It did not come to its end.
    Stopped,
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

/// Runs the study on the target, whole or not at all.
///
/// # Errors
/// Where it can't be run, or is stopped before its end.
pub fn run(
    study: &Study,
    target: &dyn Target,
    options: &RunOptions,
    observer: &dyn Observer,
) -> Result<Results, RunError> {
    let ended = run_from(study, target, options, observer, Vec::new(), &NoKeeper)?;
    match ended.stopped {
        None => Ok(ended.results),
        Some(error) => Err(error),
    }
}

/// Whether the study can be run: its cells, each checked by the target.
///
/// # Errors
/// Why not.
pub fn check(
    study: &Study,
    target: &dyn Target,
    options: &RunOptions,
) -> Result<Vec<CellSpec>, RunError> {
    let cells = design::select(design::cells(study)?, &options.only)?;
    for cell in &cells {
        target.check(cell).map_err(|reason| RunError::Refused { cell: cell.id.clone(), reason })?;
    }
    Ok(cells)
}

/// Runs what of the study is not among the kept runs, and makes results of all that is done. The keeper hears of
/// each run as it ends.
///
/// # Errors
/// Where it can't be run, or is stopped before anything is done.
pub fn run_from(
    study: &Study,
    target: &dyn Target,
    options: &RunOptions,
    observer: &dyn Observer,
    kept: Vec<FinishedRun>,
    keeper: &dyn Keeper,
) -> Result<Ended, RunError> {
    let began = options.date.map(|date| date());
    let cells = check(study, target, options)?;
    // As it is before the run: a host tells its load.
    let machine = target.machine(&cells);
    let states: Vec<Mutex<CellState>> = cells.iter().map(|_| Mutex::default()).collect();
    let mut order = design::run_order(cells.len(), study.repeats, study.seed);
    let total = order.len();
    let places: BTreeMap<&str, usize> =
        cells.iter().enumerate().map(|(index, cell)| (cell.id.as_str(), index)).collect();
    let mut before = BTreeSet::new();
    for run in kept {
        let Some(index) = places.get(run.cell.as_str()).copied() else { continue };
        if run.repeat < study.repeats && before.insert((index, run.repeat)) {
            locked(&states[index]).add(run.repeat, run.gave);
        }
    }
    order.retain(|one| !before.contains(one));
    let jobs = options.jobs.min(target.jobs_max()).min(order.len()).max(1);
    let shared = Shared {
        study,
        target,
        observer,
        keeper,
        kept: total - order.len(),
        jobs,
        order,
        stop: options.stop.below(),
        states,
        tally: Mutex::new(Tally {
            begun: 0,
            done: 0,
            running: Vec::new(),
            fatal: None,
            pace: Pace::new(&cells),
        }),
        cells: &cells,
    };
    #[expect(clippy::disallowed_methods, reason = "the lab's runner is where threads are let in")]
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| shared.work());
        }
    });
    let tally = shared.tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    let done = shared.kept + tally.done;
    let stopped = match tally.fatal {
        Some((cell, reason)) => Some(RunError::Fatal { cell, reason }),
        None => (done < total).then_some(RunError::Interrupted { done, total }),
    };
    let states = shared.states.into_iter();
    let states = states.map(|state| state.into_inner().unwrap_or_else(PoisonError::into_inner));
    let states: Vec<CellState> = states.collect();
    let done = states.iter().map(|state| state.repeats.len()).sum::<usize>();
    if let (Some(error), 0) = (&stopped, done) {
        return Err(error.clone());
    }
    // Of a run that was stopped only those cells are told of which there is something to tell.
    let is_told = |state: &CellState| {
        stopped.is_none() || !state.repeats.is_empty() || state.failed.is_some()
    };
    let not_run = levels_not_run(cells.iter().zip(states.iter().map(is_told)));
    let (specs, merged): (Vec<CellSpec>, Vec<Cell>) = cells
        .into_iter()
        .zip(states)
        .filter(|(_, state)| is_told(state))
        .map(|(spec, state)| {
            let cell = merge(study, &spec, state);
            (spec, cell)
        })
        .unzip();
    let partial = stopped.as_ref().map(|_| Partial { done, total, of: PartialOf::Runs });
    let around = Around { machine, began, partial, not_run };
    let results = conclude(study, target, options, &specs, merged, around);
    Ok(Ended { results, stopped })
}

/// What is known of a run beside its cells.
struct Around {
    machine: BTreeMap<String, String>,
    began: Option<u64>,
    partial: Option<Partial>,
    /// Levels of which nothing was run.
    not_run: Vec<String>,
}

/// The levels of factors, `layout=raid6`, of which no cell was run, of the cells with whether they were.
fn levels_not_run<'a>(cells: impl Iterator<Item = (&'a CellSpec, bool)>) -> Vec<String> {
    let mut levels: Vec<(String, bool)> = Vec::new();
    for (cell, was_run) in cells {
        for (factor, level) in &cell.factors {
            let level = format!("{factor}={level}");
            match levels.iter_mut().find(|(known, _)| *known == level) {
                Some((_, any)) => *any |= was_run,
                None => levels.push((level, was_run)),
            }
        }
    }
    levels.into_iter().filter(|(_, any)| !any).map(|(level, _)| level).collect()
}

/// Puts together what stands in `results.json`.
fn conclude(
    study: &Study,
    target: &dyn Target,
    options: &RunOptions,
    specs: &[CellSpec],
    cells: Vec<Cell>,
    around: Around,
) -> Results {
    let Around { machine, began, partial, not_run } = around;
    // A model is that of the cells that were run, of all that were to be.
    let machine = if target.simulated() { target.machine(specs) } else { machine };
    let measured: Vec<Measured<'_>> =
        specs.iter().zip(&cells).map(|(spec, cell)| Measured { spec, cell }).collect();
    let claims = claims::evaluate(&study.claims, &measured, study.confidence);
    let layouts = layouts::of_cells(target, &measured);
    let (verdict, rankings) = verdict::verdict(study, &measured, &layouts);
    let verdict = match partial {
        Some(partial) => partial.verdict(&verdict, &not_run),
        None => verdict,
    };
    let mut notes = study.notes.clone();
    notes.extend(options.only.iter().map(|pattern| format!("--only {pattern}")));
    if let Some(partial) = partial {
        notes.push(format!("PARTIAL: it was stopped after {partial}"));
    }
    let date = options.date.filter(|_| !target.simulated());
    let steady = &study.steady;
    let run = RunFacts {
        text: study.text.clone(),
        command: None,
        steady: format!(
            "rounds of {}, a window of {}, {} at most; steady within {} (range) and {} (slope) of the average",
            crate::duration::compact(steady.round),
            steady.window,
            steady.rounds_max,
            crate::metrics::percent(steady.range),
            crate::metrics::percent(steady.slope)
        ),
        interval: match study.interval {
            IntervalMethod::T => "Student's t".to_owned(),
            IntervalMethod::Bootstrap => "percentiles of a bootstrap".to_owned(),
        },
        began_unix_s: date.and(began),
        ended_unix_s: date.map(|date| date()),
    };
    Results {
        format: FORMAT,
        study: study.name.clone(),
        title: study.title.clone(),
        question: study.question.clone(),
        seed: study.seed,
        spindle_version: options.spindle_version.clone(),
        simulated: target.simulated(),
        quick: study.quick,
        machine,
        confidence: study.confidence,
        cells,
        claims,
        verdict,
        notes,
        partial,
        run,
        rankings,
        layouts,
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
            let Some((cell_index, repeat)) = self.begin() else { return };
            let (cell, state) = (&self.cells[cell_index], &self.states[cell_index]);
            let failed = locked(state).failed.as_ref().map(|(failed, _)| *failed);
            // Skipped only after an *earlier* repeat has failed, so that which error is reported
            // does not depend on the order of completion.
            let outcome = match failed {
                Some(failed) if failed < repeat => Ok(None),
                _ => self.target.run(cell, &self.plan(cell, repeat), &self.stop).map(Some),
            };
            let ended = match outcome {
                Ok(None) => Run::Failed,
                Ok(Some(run)) => {
                    let run =
                        FinishedRun { cell: cell.id.clone(), repeat, gave: Repeat::from(run) };
                    self.keeper.keep(&run);
                    locked(state).add(repeat, run.gave);
                    Run::Whole
                }
                Err(TargetError::Interrupted) => Run::Stopped,
                Err(reason @ TargetError::Fatal { .. }) => {
                    locked(&self.tally).fatal.get_or_insert((cell.id.clone(), reason));
                    self.stop.raise();
                    Run::Stopped
                }
                Err(reason) => {
                    locked(state).fail(repeat, reason);
                    Run::Failed
                }
            };
            self.report(|tally| {
                let at = tally.running.iter().position(|(run, _)| *run == (cell_index, repeat));
                let since = at.map(|at| tally.running.remove(at).1);
                tally.done += usize::from(!matches!(ended, Run::Stopped));
                match (ended, since) {
                    (Run::Whole, Some(since)) => {
                        tally.pace.took(cell_index, clock().saturating_duration_since(since));
                    }
                    (Run::Failed, _) => tally.pace.failed(cell_index),
                    _ => {}
                }
            });
        }
    }

    /// Takes the next cell and repeat off the order.
    fn begin(&self) -> Option<(usize, u32)> {
        let mut next = None;
        self.report(|tally| {
            next = self.order.get(tally.begun).copied();
            if let Some(run) = next {
                tally.begun += 1;
                tally.running.push((run, clock()));
            }
        });
        next
    }

    fn plan(&self, cell: &CellSpec, repeat: u32) -> RepeatPlan {
        RepeatPlan {
            seed: cell.seed(self.study.seed, repeat),
            repeat,
            steady: self.study.steady,
            quick: self.study.quick,
        }
    }

    /// Changes the tally and lets the observer know where it changed; under one lock, so that what it hears is in
    /// order.
    fn report(&self, change: impl FnOnce(&mut Tally)) {
        let mut tally = locked(&self.tally);
        let before = (tally.begun, tally.running.len());
        change(&mut tally);
        if (tally.begun, tally.running.len()) == before {
            return;
        }
        let now = clock();
        let rest = self.order.get(tally.begun..).unwrap_or_default().iter().map(|(cell, _)| *cell);
        let spent = |since: &std::time::Instant| now.saturating_duration_since(*since);
        let running = tally.running.iter().map(|((cell, _), since)| (*cell, spent(since)));
        // Of a run that was told to stop nothing more is run.
        let goes_on = !self.stop.is_raised();
        let left = goes_on.then(|| tally.pace.left(rest, running, self.jobs)).flatten();
        let running = tally.running.iter().map(|((cell, _), _)| Running {
            cell: &self.cells[*cell].id,
            takes: tally.pace.run_takes(*cell),
        });
        let running: Vec<Running<'_>> = running.collect();
        let (done, total) = (self.kept + tally.done, self.kept + self.order.len());
        self.observer.progress(Progress { done, total, running: &running, left });
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the time left is told to a person, and no figure depends on it"
)]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}
