//! A study as it was read.

use super::{CellSpec, Claim, Factor, StudyWorkload, VerdictRules};
use crate::stats::IntervalMethod;
use crate::steady::SteadyRules;
use std::collections::BTreeMap;
use toml::Table;

/// The name of the factor whose levels are tables under `[layouts]`.
pub const LAYOUT: &str = "layout";

/// A study, read and checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Study {
    /// Its name: that of the file, without `.toml`.
    pub name: String,
    /// What it is called in prose.
    pub title: String,
    /// The question that it answers, in a sentence.
    pub question: String,
    /// More to say, where there is more.
    pub about: Option<String>,
    /// The text of its file, as it was read.
    pub text: String,
    /// How many independent repeats each cell has.
    pub repeats: u32,
    /// The confidence level of all intervals, 0.95 for 95 %.
    pub confidence: f64,
    /// How intervals are found.
    pub interval: IntervalMethod,
    /// What all randomness of the run is derived from.
    pub seed: u64,
    /// When a workload counts as steady.
    pub steady: SteadyRules,
    /// The machine, for the target to read.
    pub machine: Table,
    /// The layouts by name, for the target to read.
    pub layouts: BTreeMap<String, Table>,
    /// What is varied.
    pub factors: Vec<Factor>,
    /// What is run.
    pub workloads: Vec<StudyWorkload>,
    /// Published findings to be checked.
    pub claims: Vec<Claim>,
    /// How the answer is found.
    pub verdict: Option<VerdictRules>,
    /// Whether `--quick` shortened it.
    pub quick: bool,
    /// How the run departs from the file: a line each.
    pub notes: Vec<String>,
}

impl Study {
    /// The layout that a cell runs on: its name and its table; none where the study has no factor
    /// `layout`.
    pub fn layout_of(&self, cell: &CellSpec) -> Option<(&str, &Table)> {
        let name = cell.factors.get(LAYOUT)?.to_string();
        self.layouts.get_key_value(&name).map(|(name, table)| (name.as_str(), table))
    }
}
