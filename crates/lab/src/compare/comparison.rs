//! What is said of two runs that are held against each other, cell by cell and metric by metric.

use crate::results::Metric;
use serde::Serialize;

/// What is said of a metric of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// B is better.
    Better,
    /// B is worse.
    Worse,
    /// No difference could be shown.
    None,
    /// Each repeat of B lies on the same side of all of A's, and they are too few for the test to tell.
    Unsure,
    /// Nothing is said of the better, whether they differ or not: see [`Comparison::reason`].
    Undecided,
    /// One repeat does not tell.
    Unknown,
}

/// One metric of one cell in both runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The cell.
    pub id: String,
    /// The metric.
    pub metric: String,
    /// In A.
    pub a: Metric,
    /// In B.
    pub b: Metric,
    /// How much more B has than A, in %.
    pub change_percent: f64,
    /// The confidence interval of that, before Holm's correction; none with one repeat.
    pub change_percent_low: Option<f64>,
    /// Its upper end.
    pub change_percent_high: Option<f64>,
    /// How likely a difference as large would be if there were none; after Holm.
    pub p: Option<f64>,
    /// The same before it, of this comparison by itself.
    pub p_alone: Option<f64>,
    /// Whether it would be told as a difference by itself, as its interval has it, and is not among all comparisons of its metric:
    /// of so many some look like one by chance, for which Holm's correction makes up.
    pub told_alone: bool,
    /// What is said of it.
    pub difference: Difference,
    /// Whether it is the cell's main metric.
    pub main: bool,
    /// Why there is no verdict, where there is none.
    pub reason: Option<String>,
    /// In what the two cells differ beside their figures: `streams.streams`, `layout raid5-8`.
    pub parameters: Vec<String>,
    /// Whether nothing is to be said of them, because they did not run alike.
    #[serde(skip)]
    pub(super) unlike: bool,
    /// Whether the cell failed in either run: its figures are shown, and nothing else is said of them.
    #[serde(skip)]
    pub(super) failed: bool,
    /// The reason as several cells share it, without what is of this one alone.
    #[serde(skip)]
    pub(super) shared_reason: String,
}

/// Two runs side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunComparison {
    /// The confidence level, the higher of the two runs'.
    pub confidence: f64,
    /// Every metric that a cell has in both; cells in A's order, a cell's main metric first.
    pub comparisons: Vec<Comparison>,
    /// Names of cells that only A has figures of.
    pub only_a: Vec<String>,
    /// Names of cells that only B has figures of.
    pub only_b: Vec<String>,
    /// What a reader must know: differing seeds, versions, machines.
    pub notes: Vec<String>,
    /// The answer in a sentence, by each cell's main metric.
    pub verdict: String,
}

impl Comparison {
    /// The same with its figures alone, for a cell that failed.
    pub(super) fn without_test(self, reason: String) -> Comparison {
        Comparison {
            change_percent_low: None,
            change_percent_high: None,
            p: None,
            p_alone: None,
            difference: Difference::Undecided,
            reason: Some(reason),
            failed: true,
            ..self
        }
    }
}
