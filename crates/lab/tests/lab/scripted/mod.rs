//! A target whose figures a test writes down: a function of the cell and the plan.

use lab::design::CellSpec;
use lab::results::Results;
use lab::run::{NoObserver, RunError, RunOptions, run};
use lab::study::{Options, Study};
use lab::target::{CellRun, RepeatPlan, StopFlag, Target, TargetError};
use std::collections::BTreeMap;
use stdx::Prng;

type Script = dyn Fn(&CellSpec, &RepeatPlan, &StopFlag) -> Result<CellRun, TargetError> + Sync;

pub struct Scripted {
    pub simulated: bool,
    pub jobs_max: usize,
    pub script: Box<Script>,
}

impl Target for Scripted {
    fn machine(&self, _: &[CellSpec]) -> BTreeMap<String, String> {
        BTreeMap::from([("disks".to_owned(), "12 × a script".to_owned())])
    }
    fn simulated(&self) -> bool {
        self.simulated
    }
    fn jobs_max(&self) -> usize {
        self.jobs_max
    }
    fn check(&self, cell: &CellSpec) -> Result<(), TargetError> {
        match cell.factors.get("layout").map(ToString::to_string).as_deref() {
            Some("impossible") => Err(TargetError::Unfit {
                what: "layout 'impossible'".to_owned(),
                why: "it needs 13 disks and the machine has 12".to_owned(),
                mend: "give it fewer with --set layouts.impossible.disks=12".to_owned(),
            }),
            _ => Ok(()),
        }
    }
    fn run(
        &self,
        cell: &CellSpec,
        plan: &RepeatPlan,
        stop: &StopFlag,
    ) -> Result<CellRun, TargetError> {
        (self.script)(cell, plan, stop)
    }
}

/// A target that gives each cell the figures of `script`.
pub fn scripted(script: impl Fn(&CellSpec, &RepeatPlan) -> CellRun + Sync + 'static) -> Scripted {
    Scripted {
        simulated: true,
        jobs_max: 64,
        script: Box::new(move |cell, plan, _| Ok(script(cell, plan))),
    }
}

/// One metric, with so much relative noise.
pub fn noisy(metric: &str, mean: f64, noise: f64, seed: u64) -> CellRun {
    let value = mean * (1.0 + noise * (2.0 * Prng::new(seed).unit() - 1.0));
    CellRun { metrics: BTreeMap::from([(metric.to_owned(), value)]), ..CellRun::default() }
}

pub fn options(jobs: usize, only: &[&str]) -> RunOptions {
    RunOptions {
        jobs,
        only: only.iter().map(|pattern| (*pattern).to_owned()).collect(),
        stop: StopFlag::new(),
        spindle_version: "0.1.0".to_owned(),
        date: None,
    }
}

pub fn study(text: &str) -> Study {
    study_with(text, &Options::default())
}

pub fn study_with(text: &str, options: &Options) -> Study {
    Study::parse("s", "s.toml", text, options).unwrap_or_else(|error| panic!("{error}"))
}

pub fn set(settings: &[&str]) -> Options {
    let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
    Options { settings, ..Options::default() }
}

pub fn ran(study: &Study, target: &Scripted) -> Results {
    attempt(study, target, 2, &[]).unwrap_or_else(|error| panic!("{error}"))
}

pub fn attempt(
    study: &Study,
    target: &Scripted,
    jobs: usize,
    only: &[&str],
) -> Result<Results, RunError> {
    run(study, target, &options(jobs, only), &NoObserver)
}
