//! What a study is run on, as the lab sees it.
//!
//! The lab knows neither disks nor arrays: a [`Target`] builds what a cell's layout asks for, runs
//! the cell's workload against it, and hands back the figures of that one repeat. There are targets
//! for a simulated machine, for RAID sets over this host's files or devices, and for a host file or
//! device as it is; they live in the program.
//!
//! Rules for a target:
//!
//! 1. Everything random comes from the plan's seed. A simulated target gives the same figures for
//!    the same cell, seed and rules, whatever else runs beside it.
//! 2. `check` finds what can be known before anything runs; `run` need not check it again.
//! 3. `run` looks at the stop flag often enough to end within a second or so.
//! 4. Every repeat starts from the same state: nothing is left over from another cell.

use crate::design::CellSpec;
use crate::layout::LayoutFacts;
use crate::pitfalls::Pitfall;
use crate::results::{ProgressPoint, RoundPoint};
use crate::steady::SteadyRules;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Something that cells can be run on.
pub trait Target: Sync {
    /// The machine that these cells run on, a line a part: `"disks"` → `"12 × Seagate ST3750640AS"`. Where factors change a part
    /// its line names what each of these cells has. Of no cells it is as the study's table has it.
    fn machine(&self, cells: &[CellSpec]) -> BTreeMap<String, String>;
    /// Whether its figures are computed rather than measured.
    fn simulated(&self) -> bool;
    /// How many cells may run at the same time; 1 for a real machine, where they would disturb each
    /// other.
    fn jobs_max(&self) -> usize;
    /// Whether the cell can run here at all. Called for every cell before any runs.
    fn check(&self, cell: &CellSpec) -> Result<(), TargetError>;
    /// What the layout of a cell is worth beside its speed, where the target knows.
    fn layout(&self, _cell: &CellSpec) -> Option<LayoutFacts> {
        None
    }
    /// Runs one repeat of a cell. Called from several threads.
    fn run(
        &self,
        cell: &CellSpec,
        plan: &RepeatPlan,
        stop: &StopFlag,
    ) -> Result<CellRun, TargetError>;
}

/// How one repeat of a cell is to be run.
#[derive(Clone, Debug, PartialEq)]
pub struct RepeatPlan {
    /// What all randomness of the repeat is derived from.
    pub seed: u64,
    /// Which repeat it is, counted from 0.
    pub repeat: u32,
    /// When the workload counts as steady.
    pub steady: SteadyRules,
    /// Whether this is a shortened run. The rules and the workload are shortened already; a target
    /// may shorten what only it knows of, such as preparation.
    pub quick: bool,
}

/// What one repeat of a cell gave.
#[derive(Clone, Debug, Default)]
pub struct CellRun {
    /// By name, as in [`crate::results::Cell::metrics`]; finite numbers.
    pub metrics: BTreeMap<String, f64>,
    /// Latencies in nanoseconds, of workloads that have some.
    pub latency: Option<Histogram<u64>>,
    /// Mean share of the measured time in which each disk was busy, 0 to 1.
    pub disk_utilisation: BTreeMap<String, f64>,
    /// Progress over time of an array operation.
    pub progress: Vec<ProgressPoint>,
    /// The rounds of a load, those before the window among them.
    pub rounds: Vec<RoundPoint>,
    /// What a reader must know, a sentence each. The same matter in the same words in every repeat:
    /// equal warnings are merged and counted.
    pub warnings: Vec<String>,
    /// What failed while it went on, a sentence each: its figures are shown, and no verdict is made of them.
    pub failed: Vec<String>,
    /// Pitfalls that it ran into, each at most once.
    pub pitfalls: Vec<Pitfall>,
}

impl From<workload::outcome::Outcome> for CellRun {
    /// What a tool gave, as a repeat of a cell.
    fn from(outcome: workload::outcome::Outcome) -> CellRun {
        CellRun {
            metrics: outcome.metrics,
            latency: outcome.latency,
            warnings: outcome.warnings,
            failed: outcome.failed,
            ..CellRun::default()
        }
    }
}

/// Why a cell has no figures.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The cell asks for something that this machine does not have; the others go on.
    #[error("{what}: {why}; {mend}")]
    Unfit {
        /// What can't be built or run: `layout 'raid6-12'`.
        what: String,
        /// Why: `it needs 12 disks and the machine has 6`.
        why: String,
        /// What to do about it.
        mend: String,
    },
    /// The cell could be run but failed; the others go on.
    #[error("{doing}: {why}; {mend}")]
    Failed {
        /// What was being done to what: `writing 4 KiB at byte 8192 of /dev/sdb`.
        doing: String,
        /// What happened.
        why: String,
        /// What to do about it.
        mend: String,
    },
    /// Nothing more can be run: the disk is full, the device is gone.
    #[error("{doing}: {why}; {mend}")]
    Fatal {
        /// What was being done to what.
        doing: String,
        /// What happened.
        why: String,
        /// What to do about it.
        mend: String,
    },
    /// The stop flag was raised.
    #[error("interrupted")]
    Interrupted,
}

/// Tells everyone who holds it to stop: raised on Ctrl-C, or when the run can't go on.
#[derive(Clone, Debug, Default)]
pub struct StopFlag {
    own: Arc<Raised>,
    above: Option<Arc<Raised>>,
}

/// A flag, and those that are raised with it.
#[derive(Debug, Default)]
struct Raised {
    flag: Arc<AtomicBool>,
    below: Mutex<Vec<Weak<AtomicBool>>>,
}

impl Raised {
    fn below(&self) -> MutexGuard<'_, Vec<Weak<AtomicBool>>> {
        self.below.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StopFlag {
    /// A flag that is not raised.
    pub fn new() -> StopFlag {
        StopFlag::default()
    }

    /// Raises it for everyone who holds it or a flag below it.
    pub fn raise(&self) {
        self.own.flag.store(true, Ordering::Relaxed);
        for flag in self.own.below().iter().filter_map(Weak::upgrade) {
            flag.store(true, Ordering::Relaxed);
        }
    }

    /// Whether to stop.
    pub fn is_raised(&self) -> bool {
        let raised = |one: &Arc<Raised>| one.flag.load(Ordering::Relaxed);
        raised(&self.own) || self.above.as_ref().is_some_and(raised)
    }

    /// The flag itself, for who knows nothing of targets: raising it raises this one, and it is raised with the one above.
    pub fn shared(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.own.flag)
    }

    /// A flag that is raised with this one, and can be raised without raising this one. A flag has
    /// at most one above it: the child of a child stands beside it.
    pub(crate) fn below(&self) -> StopFlag {
        let above = self.above.as_ref().unwrap_or(&self.own).clone();
        let own: Arc<Raised> = Arc::default();
        let mut known = above.below();
        known.retain(|flag| flag.strong_count() > 0);
        known.push(Arc::downgrade(&own.flag));
        drop(known);
        // Who raised it meanwhile did not know of this one.
        own.flag.store(above.flag.load(Ordering::Relaxed), Ordering::Relaxed);
        StopFlag { own, above: Some(above) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_raised_downward_only() {
        let above = StopFlag::new();
        let below = above.below();
        below.raise();
        assert!(below.is_raised() && !above.is_raised());
        let below = above.below();
        let shared = below.shared();
        assert!(!shared.load(Ordering::Relaxed));
        above.clone().raise();
        assert!(below.is_raised() && shared.load(Ordering::Relaxed), "whoever looks at it");
        assert!(above.below().shared().load(Ordering::Relaxed), "from its begin");
    }
}
