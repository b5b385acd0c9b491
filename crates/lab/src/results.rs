//! `results.json`: what a run of a study found. This file is a contract.
//!
//! Other programs read it, and `spindle lab report` and `lab compare` have nothing else to go by, so
//! everything that a report shows stands here. Keys are only ever added; [`FORMAT`] counts the
//! changes that an old reader would trip over.
//!
//! Simulated runs of one seed and one version give the same bytes: no wall-clock time, no path of
//! the machine and no order of completion goes into it. (When a real run was made stands there: it is a
//! part of what was measured.)

use crate::study::{LOAD, OF_LOAD};
use crate::words;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The version of the format of `results.json`.
pub const FORMAT: u32 = 1;

/// The whole answer of one run of a study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`FORMAT`] at the time of writing.
    pub format: u32,
    /// The study's name, its file name without `.toml`.
    pub study: String,
    /// What the study is called in prose.
    pub title: String,
    /// The question that the study answers, in a sentence.
    pub question: String,
    /// What all randomness of the run was derived from.
    pub seed: u64,
    /// The version of Spindle that ran it.
    pub spindle_version: String,
    /// Whether the figures were computed on simulated hardware. Simulated and real figures never
    /// share a column.
    pub simulated: bool,
    /// Whether the run was shortened with `--quick`; its intervals are wide and it is no basis for a
    /// decision.
    pub quick: bool,
    /// The machine that was measured, a line a part: `"disks"` → `"12 × Seagate ST3750640AS"`.
    pub machine: BTreeMap<String, String>,
    /// The confidence level of all intervals, 0.95 for 95 %.
    pub confidence: f64,
    /// A cell for each combination of levels and workload, in the study's order.
    pub cells: Vec<Cell>,
    /// Published findings, and what was measured here.
    pub claims: Vec<ClaimResult>,
    /// The answer in a sentence or two.
    pub verdict: String,
    /// How the run departs from what the study asked for (`--quick`, `--only`, `--set`): a line each.
    pub notes: Vec<String>,
    /// How much of the run is done, where it ended before its end. The cells then have fewer repeats than
    /// they should, or are missing. Absent in whole results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<Partial>,
    /// What was run, beside the machine and the cells.
    #[serde(default)]
    pub run: RunFacts,
    /// The verdict as tables: who stands where, a table a use.
    #[serde(default)]
    pub rankings: Vec<Ranking>,
    /// What each layout is worth beside its speed: room, losses that it survives, rebuild, risk.
    #[serde(default)]
    pub layouts: Vec<LayoutFigures>,
}

/// How a tool's load is said to have been steady.
const TOOL_STEADY: &str = "the tool's own length";

impl RunFacts {
    /// Says that a tool was run by itself, as long as it takes.
    pub fn set_of_tool(&mut self) {
        self.steady = TOOL_STEADY.to_owned();
    }

    /// Whether a tool was run by itself, and no study.
    pub fn is_of_tool(&self) -> bool {
        self.steady == TOOL_STEADY
    }
}

/// How much of a run is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partial {
    /// How many are done.
    pub done: usize,
    /// How many there are in all.
    pub total: usize,
    /// Of what.
    #[serde(default, skip_serializing_if = "PartialOf::is_runs")]
    pub of: PartialOf,
}

/// What is counted of a run that ended before its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PartialOf {
    /// Repeats of cells.
    #[default]
    Runs,
    /// Cases of a tool's first run.
    Cases,
    /// Jobs of fio's first run.
    Jobs,
    /// Phases of a tool's first run.
    Phases,
}

impl PartialOf {
    fn is_runs(&self) -> bool {
        *self == PartialOf::Runs
    }
}

impl Partial {
    /// The verdict on what is done, and that it is a part: of these levels nothing was run.
    pub fn verdict(&self, verdict: &str, not_run: &[String]) -> String {
        let figures = match self.of {
            PartialOf::Runs => "",
            PartialOf::Cases => ", and figures of several cases are of those that are done",
            PartialOf::Jobs => ", and figures of several jobs are of those that are done",
            PartialOf::Phases => ", and figures of several phases are of those that are done",
        };
        let not_run = match not_run {
            [] => String::new(),
            levels => format!(" Nothing was run yet of {}.", words::listed(levels)),
        };
        format!(
            "This is a part of the run, {self}: what follows may turn with the rest{figures}.{not_run} {verdict}"
        )
    }
}

impl fmt::Display for Partial {
    /// `2 of 5 runs`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = match self.of {
            PartialOf::Runs => "runs",
            PartialOf::Cases => "cases of the first run",
            PartialOf::Jobs => "jobs of the first run",
            PartialOf::Phases => "phases of the first run",
        };
        write!(f, "{} of {} {of}", self.done, self.total)
    }
}

/// What was run and when.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFacts {
    /// The text of the study's file, of the job file or of the workload file, as it was read; what the command line
    /// changed stands in [`Results::notes`].
    pub text: String,
    /// The command line that started a tool; none for studies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// When a load counts as steady, in words.
    pub steady: String,
    /// How intervals are found, in words.
    pub interval: String,
    /// When a real run began: seconds since 1970 (UTC). Simulated runs have no date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_unix_s: Option<u64>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_unix_s: Option<u64>,
}

/// The levels of a factor in the order in which they did, for one use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranking {
    /// The use, in words.
    pub name: String,
    /// The metric by which they are ranked.
    pub metric: String,
    /// The factor.
    pub by: String,
    /// How many cells each level's score is the geometric mean of; 0 in results that do not tell.
    #[serde(default)]
    pub cells: usize,
    /// Best first.
    pub rows: Vec<Ranked>,
    /// For which settings the order is another, a sentence each.
    pub turns: Vec<String>,
}

/// A level in a ranking.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranked {
    /// The level.
    pub level: String,
    /// Its score: the geometric mean of its cells.
    pub score: Metric,
    /// The lowest mean among those cells.
    #[serde(default)]
    pub lowest_cell: f64,
    /// The highest.
    #[serde(default)]
    pub highest_cell: f64,
    /// How it stands: `best`, `not told from the best`, `0.53 × the best`, `too uncertain to place`, `one repeat: no
    /// interval`.
    pub standing: String,
}

/// What a layout is worth beside its speed, by the formulas of `docs/theory/losses.md`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LayoutFigures {
    /// The layout's name, and other factors where they change these figures: `raid6-8`, `raid6-8, disk=exos-x20`.
    pub name: String,
    /// What it is: `RAID 6 of 8 disks, chunk 64 KiB`.
    pub what: String,
    /// Disks that it takes.
    pub disks: u64,
    /// What the disks hold.
    pub raw_bytes: u64,
    /// What the volume holds.
    pub usable_bytes: u64,
    /// Disks of which any may be lost.
    pub survives_any: u64,
    /// Disks that may be lost where they are the right ones.
    pub survives_at_best: u64,
    /// Whether its disks were files, or parts of fewer disks: the losses are 0 then and are not told.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shares_disks: bool,
    /// How long a disk is rebuilt on an idle set; none where nothing can be rebuilt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuild_idle_s: Option<f64>,
    /// How long beside a load of this study ([`LayoutFigures::loaded_by`]), the same for all layouts: of those that all of them have
    /// the one that makes it longest; where it is measured, of those that it is measured beside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuild_loaded_s: Option<f64>,
    /// Where that is worked out and not measured, the range in which it lies: its lower end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuild_loaded_low_s: Option<f64>,
    /// The upper end; none where nothing that was measured bounds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuild_loaded_high_s: Option<f64>,
    /// The cell of that load; the load's name where the rebuild was measured beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loaded_by: Option<String>,
    /// The priority of the rebuild beside that load, where it is not `normal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuild_priority: Option<String>,
    /// Whether the rebuild times are measured in this run (a `rebuild` in the study) or worked out.
    #[serde(default)]
    pub rebuild_measured: bool,
    /// What the load moved beside a rebuild that was measured (10⁶ B/s): a rebuild that takes longer may be the one whose
    /// load got more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_mb_s: Option<f64>,
    /// The standard error of the time on an idle set, where it was measured by samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuild_idle_error_s: Option<f64>,
    /// That of the time beside the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuild_loaded_error_s: Option<f64>,
    /// Half the interval of the time on an idle set, over the repeats, as it stands with the rebuild's own figures; none of one
    /// repeat, or of repeats that are all alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuild_idle_interval_s: Option<f64>,
    /// That of the time beside the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuild_loaded_interval_s: Option<f64>,
    /// The chance that one more of the disks whose loss matters is lost meanwhile, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_loss: Option<f64>,
    /// The chance that some sector that the rebuild reads can't be read, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<f64>,
    /// The chance that data is lost meanwhile by one or the other, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_loss: Option<f64>,
    /// The chance of that in a year: the disks' yearly losses times the chance above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_loss_a_year: Option<f64>,
    /// What the disks cost, in whatever money `disk_price` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<f64>,
    /// Where the rates stand that the risk is worked out from.
    pub basis: String,
    /// What should keep one from it, a sentence each.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// One combination of levels under one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The cell's name, unique in the run: `layout=raid5-6/random/block_size=4k,...`.
    pub id: String,
    /// Level of each factor of the study and of the workload's own parameters that vary, by name.
    pub factors: BTreeMap<String, String>,
    /// The workload's name.
    pub workload: String,
    /// How many independent repeats stand behind the figures.
    pub repeats: u32,
    /// By name: `iops`, `throughput_mb_s` (10⁶ bytes a second), `latency_us_mean`, `latency_us_p50`,
    /// `latency_us_p99`, `cpu_us_per_io`, `duration_s`, ...
    pub metrics: BTreeMap<String, Metric>,
    /// Mean share of the measured time in which each disk was busy, 0 to 1, by the disk's name.
    pub disk_utilisation: BTreeMap<String, f64>,
    /// The distribution of latencies over all repeats; empty where the workload has none.
    pub latency: Vec<LatencyPoint>,
    /// Progress over time of an array operation (first repeat); empty for other workloads.
    pub progress: Vec<ProgressPoint>,
    /// What a reader must know before believing the figures: a sentence each, the pitfalls' among them.
    pub warnings: Vec<String>,
    /// The pitfalls that the cell ran into, for programs; the same as sentences are in `warnings`.
    /// Spindle before 0.2 did not write them.
    #[serde(default)]
    pub pitfalls: Vec<FoundPitfall>,
    /// Why the cell failed, where it did. `metrics` is empty then, or holds what a tool gave although jobs of it failed: figures
    /// to look at, and no ground for a verdict.
    pub error: Option<String>,
    /// Every parameter of the workload, those that the study leaves at their defaults among them.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
    /// The metric that a tool's cell is judged by, in report and comparison; none where the figures decide, and
    /// of results from before it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main_metric: Option<String>,
    /// The rounds of each repeat, the window's among them, so that "steady" can be looked at; empty of
    /// workloads without rounds.
    #[serde(default)]
    pub rounds: Vec<Vec<RoundPoint>>,
}

impl Cell {
    /// What the load of an operation was asked, each by the load's own name of it; nothing of what has none, and of results from
    /// before it was written.
    pub(crate) fn asked_of_load(&self) -> impl Iterator<Item = (&str, &String)> {
        let pairs = self.parameters.iter();
        pairs.filter_map(|(name, value)| self.own_of_load(name).map(|own| (own, value)))
    }

    /// The load's own name of a parameter of this operation; none where it is no load's. (A tool may have a job called `load`.)
    pub(crate) fn own_of_load<'a>(&self, name: &'a str) -> Option<&'a str> {
        name.strip_prefix(OF_LOAD).filter(|_| self.parameters.contains_key(LOAD))
    }
}

/// One round of a load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundPoint {
    /// Seconds from the first counted round to this one's end.
    pub time_s: f64,
    /// I/Os a second.
    pub iops: f64,
    /// Whether the figures are of it: it lies in the window.
    pub counted: bool,
}

/// A pitfall that a cell ran into. See [`crate::pitfalls`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundPitfall {
    /// Its name, which stays the same over versions: `cached`, `misaligned`, ...
    pub id: String,
    /// What was seen, and in how many repeats where not all saw it.
    pub text: String,
    /// What to do about it.
    pub mend: String,
    /// The phase of a tool that ran into it; absent where it is the whole run, and in results from before it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Of a saturated processor the part that was full ([`crate::pitfalls::ProcessorPart::word`]); absent of all else, and in
    /// results from before it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<String>,
}

impl Cell {
    /// Whether it has figures that a verdict may be made of: none that failed.
    pub fn is_sound(&self) -> bool {
        self.error.is_none()
    }
}

impl FoundPitfall {
    /// Whether the other is the same pitfall in the same place, whatever its numbers.
    pub(crate) fn is_like(&self, other: &FoundPitfall) -> bool {
        (&self.id, &self.phase, &self.processor) == (&other.id, &other.phase, &other.processor)
    }

    /// The sentence in [`Cell::warnings`].
    pub fn warning(&self) -> String {
        format!("{}; {}", self.text, self.mend)
    }
}

/// One figure with its uncertainty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Mean of the samples.
    pub mean: f64,
    /// Lower end of the confidence interval of the mean; equals the mean if there is one sample.
    pub ci_low: f64,
    /// Upper end.
    pub ci_high: f64,
    /// One value a repeat, in the order of the repeats.
    pub samples: Vec<f64>,
}

/// One point of a latency distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyPoint {
    /// The share of I/Os that took no longer, 0 to 1.
    pub quantile: f64,
    /// Microseconds.
    pub latency_us: f64,
}

/// One point of an operation's progress.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgressPoint {
    /// Seconds since the operation began (of the whole operation, where it was sampled).
    pub time_s: f64,
    /// The share that is done, 0 to 1.
    pub done: f64,
    /// The rate at this point, 10⁶ bytes of one member a second.
    pub rate_mb_s: f64,
}

/// A published finding and what this run says of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClaimResult {
    /// The claim's name in the study.
    pub id: String,
    /// The finding in words.
    pub text: String,
    /// Where it was published.
    pub source: String,
    /// What was published, in words and numbers.
    pub published: String,
    /// What was measured here, in words and numbers.
    pub measured: String,
    /// Whether the statement holds here.
    pub reproduced: bool,
    /// It does not hold here, and does not fail either: the figures agree with it, or may, and are too few or too uncertain
    /// to tell.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsure: bool,
    /// Why not, in words, where the study explains a claim that does not hold.
    pub explanation: Option<String>,
    /// `quantity`, `direction`, `ratio` or `conjecture`; empty in results of Spindle before 0.3.
    #[serde(default)]
    pub kind: String,
    /// Why it is not counted among the claims that are or are not reproduced: it is a conjecture of its author, or a
    /// parameter of the model was taken from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncounted: Option<String>,
    /// How near the figures must come, and where that comes from: `10 %: the source's runs differ by 1 %`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<String>,
    /// The parameter that is most to blame where it does not hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspect: Option<SuspectParameter>,
}

/// The parameter of the model that is most to blame where a claim does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspectParameter {
    /// Its name.
    pub parameter: String,
    /// What it is.
    pub value: String,
    /// What it would have to be for the claim to hold.
    pub needs: String,
    /// Whether that is plausible, and why.
    pub judgement: String,
}

impl SuspectParameter {
    /// In a sentence.
    pub fn sentence(&self) -> String {
        let SuspectParameter { parameter, value, needs, judgement } = self;
        format!("{parameter} is {value} and would have to be {needs}. {judgement}")
    }
}

/// How many claims are reproduced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClaimCount {
    /// Reproduced, of those that count.
    pub held: usize,
    /// Those that count.
    pub counted: usize,
    /// Those that do not.
    pub uncounted: usize,
}

impl ClaimCount {
    /// Counts.
    pub fn of(claims: &[ClaimResult]) -> ClaimCount {
        let mut count = ClaimCount::default();
        for claim in claims {
            match claim.uncounted {
                Some(_) => count.uncounted += 1,
                None => {
                    count.counted += 1;
                    count.held += usize::from(claim.reproduced);
                }
            }
        }
        count
    }

    /// Behind "3 of 4 reproduced": `; 2 more are not counted`; nothing where all are.
    pub fn more(&self) -> String {
        match self.uncounted {
            0 => String::new(),
            1 => "; 1 more is not counted".to_owned(),
            more => format!("; {more} more are not counted"),
        }
    }
}
