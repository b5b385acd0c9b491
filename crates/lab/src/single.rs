//! Results of a tool that was run by itself, without a study's file.
//!
//! `spindle lab filebench FILE --repeats 5` runs one thing several times. Its figures go the way of a
//! study's: a study of one workload is made up, whose target hands out the runs that are there, and
//! the lab's runner makes results of them, with intervals, warnings and a report.

use crate::design::CellSpec;
use crate::results::Results;
use crate::run::{self, NoObserver, RunOptions};
use crate::stats::IntervalMethod;
use crate::steady::SteadyRules;
use crate::study::{Kind, Study, StudyWorkload, Tool, ToolKind, WorkingSet, Workload};
use crate::target::{CellRun, RepeatPlan, StopFlag, Target, TargetError};
use std::collections::BTreeMap;
use toml::Table;

/// Under which name a tool's results tell, beside the machine, what was written.
pub(crate) const WRITTEN: &str = "written";

/// What was run.
#[derive(Clone, Debug)]
pub struct Single<'a> {
    /// Names the results: `filebench`.
    pub study: &'a str,
    /// Heads the report.
    pub title: &'a str,
    /// The workload's name: `fileserver`.
    pub workload: &'a str,
    /// The tool.
    pub tool: ToolKind,
    /// What was measured, a line a part.
    pub machine: BTreeMap<String, String>,
    /// What all randomness was derived from.
    pub seed: u64,
    /// The version of Spindle.
    pub spindle_version: &'a str,
    /// What was written, in words; `None` where nothing was.
    pub content: Option<String>,
    /// The settings by which it ran, by name, those that were left at their defaults among them.
    pub settings: BTreeMap<String, String>,
    /// The command line.
    pub command: Option<String>,
    /// The job file or workload file.
    pub text: Option<String>,
    /// When it began, in seconds since 1970.
    pub began_unix_s: Option<u64>,
    /// When it ended.
    pub ended_unix_s: Option<u64>,
}

/// Hands out runs that are there.
struct Done {
    machine: BTreeMap<String, String>,
    runs: Vec<CellRun>,
}

impl Target for Done {
    fn machine(&self, _: &[CellSpec]) -> BTreeMap<String, String> {
        self.machine.clone()
    }

    fn simulated(&self) -> bool {
        false
    }

    fn jobs_max(&self) -> usize {
        1
    }

    fn check(&self, _: &CellSpec) -> Result<(), TargetError> {
        Ok(())
    }

    fn run(&self, _: &CellSpec, plan: &RepeatPlan, _: &StopFlag) -> Result<CellRun, TargetError> {
        let run = self.runs.get(plan.repeat as usize).cloned();
        Ok(run.expect("the study has as many repeats as there are runs"))
    }
}

/// Results of runs of one workload, in the order of the repeats.
///
/// # Panics
/// If there is no run.
pub fn results(single: &Single<'_>, runs: Vec<CellRun>) -> Results {
    assert!(!runs.is_empty(), "results are of something");
    let settings = single.settings.iter();
    let settings: Table =
        settings.map(|(name, value)| (name.clone(), value.clone().into())).collect();
    let workload = Workload {
        name: single.workload.to_owned(),
        kind: Kind::Tool(Tool { kind: single.tool, settings }),
        working_set: WorkingSet::Whole,
        rate: None,
    };
    let study = Study {
        name: single.study.to_owned(),
        title: single.title.to_owned(),
        question: format!("How fast is {} here?", single.workload),
        about: None,
        text: single.text.clone().unwrap_or_default(),
        repeats: u32::try_from(runs.len()).unwrap_or(u32::MAX),
        confidence: 0.95,
        interval: IntervalMethod::T,
        seed: single.seed,
        steady: SteadyRules::default(),
        machine: Table::new(),
        layouts: BTreeMap::new(),
        factors: Vec::new(),
        workloads: vec![StudyWorkload {
            name: single.workload.to_owned(),
            varying: Vec::new(),
            variants: vec![workload],
            load_only: false,
            only: BTreeMap::new(),
            except: BTreeMap::new(),
        }],
        claims: Vec::new(),
        verdict: None,
        quick: false,
        notes: Vec::new(),
    };
    let mut machine = single.machine.clone();
    if let Some(content) = &single.content {
        machine.insert(WRITTEN.to_owned(), content.clone());
    }
    let options = RunOptions {
        jobs: 1,
        only: Vec::new(),
        stop: StopFlag::new(),
        spindle_version: single.spindle_version.to_owned(),
        date: None,
    };
    let done = Done { machine, runs };
    let results = run::run(&study, &done, &options, &NoObserver);
    let mut results = results.expect("there is one cell, and handing out what is there can't fail");
    results.run.command = single.command.clone();
    results.run.set_of_tool();
    (results.run.began_unix_s, results.run.ended_unix_s) =
        (single.began_unix_s, single.ended_unix_s);
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_of_a_tool_become_a_mean_with_an_interval() {
        let single = Single {
            study: "filebench",
            title: "varmail",
            workload: "varmail",
            tool: ToolKind::Filebench,
            machine: BTreeMap::new(),
            seed: 1,
            spindle_version: "0",
            content: Some("random bytes".to_owned()),
            settings: BTreeMap::from([("run".to_owned(), "30s".to_owned())]),
            command: Some("spindle lab filebench varmail".to_owned()),
            text: None,
            began_unix_s: Some(1),
            ended_unix_s: Some(2),
        };
        let run = |value: f64| CellRun {
            metrics: BTreeMap::from([("ops_per_s".to_owned(), value)]),
            ..CellRun::default()
        };
        let results = results(&single, vec![run(100.0), run(110.0), run(90.0)]);
        let metric = &results.cells[0].metrics["ops_per_s"];
        assert_eq!(metric.samples, [100.0, 110.0, 90.0]);
        assert!(metric.ci_low < 100.0 && metric.ci_high > 100.0 && metric.mean == 100.0);
        assert_eq!(results.machine["written"], "random bytes");
        assert_eq!(results.cells[0].parameters["run"], "30s");
        assert_eq!(results.run.command.as_deref(), Some("spindle lab filebench varmail"));
        assert_eq!(results.run.began_unix_s, Some(1));
    }
}
