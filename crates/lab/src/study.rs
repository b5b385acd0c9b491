//! A study: the question, the machine, what is varied, what is run, and what should come out.
//!
//! It is a TOML file that a person writes (`docs/guide/studies.md` explains each key). Reading it:
//!
//! 1. The file is read as it stands and checked as a whole, claims and verdict included: what is
//!    wrong with a study is wrong however it is run.
//! 2. The `--set` options replace values and it is read again. A claim may now speak of cells that
//!    this run leaves out; it is reported as not measured.
//! 3. `--quick` shortens what no `--set` has fixed.
//!
//! What a table means that belongs to the target (`[machine]`, `[layouts.NAME]`) is not known here:
//! the target reads it.

mod cell;
mod check;
mod claim;
mod definition;
mod error;
mod factor;
mod reader;
mod selector;
mod settings;
mod variants;
mod workload;

pub use cell::CellSpec;
pub use check::{Against, Check, Relation, Take};
pub use claim::{Claim, ClaimKind, Per, Suspect, Use, VerdictRules};
pub use definition::{LAYOUT, Study};
pub use error::{Problem, StudyError, suggest};
pub use factor::{Factor, Level};
pub use reader::size_text;
pub use selector::Selector;
pub use settings::Options;
pub use variants::{StudyWorkload, VARIANTS_MAX};
pub use workload::{
    BLOCK_SIZE_MAX, DiskChange, IDLE, InitialiseMethod, KINDS, Kind, Op, Operation, OperationKind,
    PROBE_TIME_DEFAULT, Position, Priority, Probe, ProbeExtent, QUEUE_DEPTH_MAX, Random, Rate,
    Rebalance, SECTOR, STREAM_DEPTH_DEFAULT, Sampling, Slob, Stream, Tool, ToolKind, WorkingSet,
    Workload,
};
pub(crate) use workload::{LOAD, OF_LOAD};

use crate::design;
use crate::stats::IntervalMethod;
use crate::steady::SteadyRules;
use error::{Fault, Path, Problem as P};
use reader::{Reader, check_name};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path as FilePath;
use std::time::Duration;
use toml::{Table, Value};

/// The most repeats: beyond it an interval narrows by less than a hundredth for double the time.
pub const REPEATS_MAX: u32 = 1000;
/// The longest study file, in bytes; what is larger was named by mistake.
const STUDY_BYTES_MAX: u64 = 4 << 20;

impl Study {
    /// Reads a study file. Its name without `.toml` is the study's name.
    pub fn load(file: &FilePath, options: &Options) -> Result<Study, StudyError> {
        let place = file.display().to_string();
        let unreadable = |why: String| StudyError {
            place: place.clone(),
            problem: Box::new(P::Unreadable { why }),
        };
        let mut text = String::new();
        let opened = std::fs::File::open(file);
        opened
            .and_then(|file| file.take(STUDY_BYTES_MAX + 1).read_to_string(&mut text))
            .map_err(|error| unreadable(error.to_string()))?;
        if text.len() as u64 > STUDY_BYTES_MAX {
            return Err(unreadable(format!("it has more than {STUDY_BYTES_MAX} bytes")));
        }
        let name = file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        Study::parse(&name.unwrap_or_default(), &place, &text, options)
    }

    /// Reads a study from its text; `place` is what errors call the file.
    pub fn parse(
        name: &str,
        place: &str,
        text: &str,
        options: &Options,
    ) -> Result<Study, StudyError> {
        let mut table: Table =
            text.parse().map_err(|error| settings::syntax(place, text, &error))?;
        let mut as_written = Study::read(name, table.clone())
            .and_then(|study| study.check_selectors().map(|()| study))
            .map_err(|fault| settings::locate(place, text, &[], fault))?;
        as_written.text = text.to_owned();
        if options.settings.is_empty() && !options.quick && options.seed.is_none() {
            return Ok(as_written);
        }
        let changes = settings::put_all(&as_written, place, &mut table, options)?;
        let mut study = Study::read(&as_written.name, table)
            .map_err(|fault| settings::locate(place, text, &changes.placed, fault))?;
        study.text = text.to_owned();
        changes.apply(&mut study, options);
        Ok(study)
    }

    /// Reads a study from its table, without looking whether claims match cells.
    fn read(name: &str, table: Table) -> Result<Study, Fault> {
        let mut top = Reader::new(table, Path::default(), "the study");
        let title =
            top.required_text("title", "write title = \"...\", as it shall head the report")?;
        let question =
            top.required_text("question", "write question = \"...?\", which the study answers")?;
        let about = top.text("about")?;
        read_design(&mut top)?;
        let repeats = top.count("repeats", 1..=REPEATS_MAX)?.unwrap_or(5);
        let level = |level| (0.5..=0.999).contains(&level);
        let confidence = top.number("confidence", "from 0.5 to 0.999, as 0.95", level)?;
        let methods = [("t", IntervalMethod::T), ("bootstrap", IntervalMethod::Bootstrap)];
        let interval = top.choice("interval", &methods)?.unwrap_or(IntervalMethod::T);
        let seed = top.whole("seed", 0..=i64::MAX as u64)?.unwrap_or(1);
        let steady = match top.reader("steady", "[steady]")? {
            Some(reader) => read_steady(reader)?,
            None => SteadyRules::default(),
        };
        let machine = top.table("machine")?.ok_or_else(|| {
            top.missing("machine", "write [machine] and under it kind = \"simulated\" or \"host\"")
        })?;
        let layouts = read_layouts(&mut top)?;
        let factors = read_factors(&mut top, &layouts)?;
        let workloads = top.readers("workload", "workload")?;
        if workloads.is_empty() {
            return Err(top.missing("workload", "write [[workload]] with a name and a kind"));
        }
        let workloads = variants::read_all(workloads, &factors)?;
        for factor in &factors {
            let same = |workload: &&StudyWorkload| {
                let first = workload.variants.first();
                first.is_some_and(|first| first.parameter(&factor.name).is_some())
            };
            if let Some(workload) = workloads.iter().find(same) {
                return Err(top.contradiction(
                    "factor",
                    format!(
                        "the factor '{}' has the name of a parameter of workload '{}'",
                        factor.name, workload.name
                    ),
                    "vary the parameter there, as a list, or take another name",
                ));
            }
        }
        let names = selector::Names { factors: &factors, workloads: &workloads };
        let claims = claim::read_claims(top.readers("claim", "claim")?, &names)?;
        let verdict = match top.reader("verdict", "[verdict]")? {
            Some(reader) => Some(claim::read_verdict(reader, &names)?),
            None => None,
        };
        top.finish()?;
        Ok(Study {
            name: name.to_owned(),
            title,
            question,
            about,
            text: String::new(),
            repeats,
            confidence: confidence.unwrap_or(0.95),
            interval,
            seed,
            steady,
            machine,
            layouts,
            factors,
            workloads,
            claims,
            verdict,
            quick: false,
            notes: Vec::new(),
        })
    }

    /// Refuses a claim or a use of the verdict that speaks of no cell at all.
    fn check_selectors(&self) -> Result<(), Fault> {
        let top = Path::default();
        let cells = design::cells(self).map_err(|error| {
            let what = "the study".to_owned();
            let mend = "shorten a list or leave out levels".to_owned();
            Fault::new(top.clone(), P::Contradiction { what, why: error.to_string(), mend })
        })?;
        let none = |path: Path, what: String, selector: &Selector| {
            let why = format!("no cell of the study has {selector}");
            let mend =
                "correct it; `spindle lab show STUDY` lists the cells and their names".to_owned();
            Fault::new(path, P::Contradiction { what, why, mend })
        };
        for (index, claim) in self.claims.iter().enumerate() {
            let path = top.key("claim").index(index).key("check");
            let what = format!("claim '{}'", claim.id);
            for check in &claim.checks {
                if !cells.iter().any(|cell| check.of.matches(cell)) {
                    return Err(none(path.key("of"), what.clone(), &check.of));
                }
                for (of, to) in check.pairings() {
                    for cell in cells.iter().filter(|cell| of.iter().all(|of| of.matches(cell))) {
                        if !cells.iter().any(|other| to.pairs(cell, other)) {
                            let why = format!("no cell that has {to} stands against {}", cell.id);
                            let mend = "narrow 'of', or name in 'to' all that shall differ";
                            let (what, mend) = (what.clone(), mend.to_owned());
                            return Err(Fault::new(
                                path.key("to"),
                                P::Contradiction { what, why, mend },
                            ));
                        }
                    }
                }
            }
        }
        for (index, used) in self.verdict.iter().flat_map(|verdict| &verdict.uses).enumerate() {
            if !cells.iter().any(|cell| used.of.matches(cell)) {
                let path = top.key("verdict").key("use").index(index).key("of");
                return Err(none(path, format!("use '{}' of [verdict]", used.name), &used.of));
            }
        }
        Ok(())
    }
}

fn read_design(top: &mut Reader) -> Result<(), Fault> {
    // The other designs of the plan have names already, so that a study that asks for one is told
    // that it is not there yet rather than that it can't spell.
    match top.text("design")?.as_deref() {
        None | Some("full") => Ok(()),
        Some(later @ ("fractional" | "plackett-burman" | "robust")) => Err(top.contradiction(
            "design",
            format!("the design \"{later}\" is planned but not there yet"),
            "write design = \"full\", and shorten lists if that takes too long",
        )),
        Some(other) => Err(top.bad(
            "design",
            &Value::String(other.to_owned()),
            "\"full\", which runs every combination of the levels",
        )),
    }
}

fn read_steady(mut reader: Reader) -> Result<SteadyRules, Fault> {
    let default = SteadyRules::default();
    let share = |share: f64| share > 0.0 && share <= 1.0;
    let expected = "a share above 0 and up to 1 of the window's average";
    let rules = SteadyRules {
        round: reader.span("round")?.unwrap_or(default.round),
        window: reader.count("window", 2..=100)?.unwrap_or(default.window),
        rounds_max: reader.count("rounds_max", 2..=10_000)?.unwrap_or(default.rounds_max),
        range: reader.number("range", expected, share)?.unwrap_or(default.range),
        slope: reader.number("slope", expected, share)?.unwrap_or(default.slope),
    };
    if rules.rounds_max < rules.window {
        return Err(reader.contradiction(
            "rounds_max",
            format!(
                "'rounds_max' is {}, fewer than the {} rounds of the window",
                rules.rounds_max, rules.window
            ),
            "give it at least as many",
        ));
    }
    if rules.round > Duration::from_secs(3600) {
        let value = Value::String(crate::duration::compact(rules.round));
        return Err(reader.bad("round", &value, "an hour at most"));
    }
    reader.finish()?;
    Ok(rules)
}

fn read_layouts(top: &mut Reader) -> Result<BTreeMap<String, Table>, Fault> {
    let Some(reader) = top.reader("layouts", "[layouts]")? else { return Ok(BTreeMap::new()) };
    let mut reader = reader;
    let path = reader.here().clone();
    let mut layouts = BTreeMap::new();
    for (name, value) in reader.take_rest() {
        match value {
            Value::Table(table) => layouts.insert(name, table),
            other => {
                let expected = format!("a table: [layouts.{name}]");
                let mut fault = reader.bad(&name, &other, expected);
                fault.path = path.key(&name);
                return Err(fault);
            }
        };
    }
    Ok(layouts)
}

fn read_factors(top: &mut Reader, layouts: &BTreeMap<String, Table>) -> Result<Vec<Factor>, Fault> {
    let mut factors: Vec<Factor> = Vec::new();
    for mut reader in top.readers("factor", "factor")? {
        let name = reader.required_text("name", "write name = \"...\"")?;
        check_name(&reader, "name", &name)?;
        reader.call(format!("factor '{name}'"));
        let twice = |what: &str, name: &str, within: &str, key: &str| {
            Fault::new(
                reader.path(key),
                P::Twice {
                    what: what.to_owned(),
                    name: name.to_owned(),
                    within: within.to_owned(),
                },
            )
        };
        if factors.iter().any(|factor| factor.name == name) {
            return Err(twice("factor", &name, "the study", "name"));
        }
        if name == "workload" {
            return Err(reader.contradiction(
                "name",
                "the workloads are a factor already",
                "take another name",
            ));
        }
        let expected = "a list of words, numbers or true and false";
        let levels = match reader.take("levels") {
            Some(Value::Array(values)) if !values.is_empty() => values,
            Some(value) => return Err(reader.bad("levels", &value, expected)),
            None => return Err(reader.missing("levels", "write levels = [\"...\", \"...\"]")),
        };
        let mut read: Vec<Level> = Vec::with_capacity(levels.len());
        for value in levels {
            let level = Level::of(&value).ok_or_else(|| reader.bad("levels", &value, expected))?;
            let text = level.to_string();
            check_name(&reader, "levels", &text)?;
            if read.iter().any(|other| other.to_string() == text) {
                let within = reader.within().to_owned();
                return Err(Fault::new(
                    reader.path("levels"),
                    P::Twice { what: "level".to_owned(), name: text, within },
                ));
            }
            if name == LAYOUT && !layouts.contains_key(&text) {
                return Err(Fault::new(
                    reader.path("levels"),
                    P::UnknownName {
                        what: "layout".to_owned(),
                        mend: suggest(&text, layouts.keys().map(String::as_str)),
                        name: text,
                        within: "factor 'layout'".to_owned(),
                        scope: "[layouts]".to_owned(),
                    },
                ));
            }
            read.push(level);
        }
        let mut settings = BTreeMap::new();
        for (level, value) in of_levels(&mut reader, "settings", &read)? {
            let Value::Table(table) = value else {
                return Err(reader.bad("settings", &value, "a table of keys of [machine] a level"));
            };
            settings.insert(level, table);
        }
        let mut before = BTreeMap::new();
        for (level, value) in of_levels(&mut reader, "before", &read)? {
            let Some(command) = value.as_str().filter(|command| !command.trim().is_empty()) else {
                return Err(reader.bad("before", &value, "a command of the shell a level"));
            };
            before.insert(level, command.to_owned());
        }
        let after = reader.text("after")?.filter(|command| !command.trim().is_empty());
        if after.is_some() && before.is_empty() {
            return Err(reader.contradiction(
                "after",
                "it has 'after' and no 'before'",
                "leave it out: there is nothing to undo",
            ));
        }
        if name == LAYOUT && !(settings.is_empty() && before.is_empty()) {
            return Err(reader.contradiction(
                "name",
                "the levels of 'layout' are tables under [layouts]",
                "put 'settings' and 'before' on a factor of another name",
            ));
        }
        reader.finish()?;
        let levels_in_file = read.clone();
        factors.push(Factor { name, levels: read, levels_in_file, settings, before, after });
    }
    Ok(factors)
}

/// A table whose keys are levels of the factor that is being read.
fn of_levels(
    reader: &mut Reader,
    key: &'static str,
    levels: &[Level],
) -> Result<Vec<(String, Value)>, Fault> {
    let path = reader.path(key);
    let entries: Vec<(String, Value)> =
        reader.table(key)?.unwrap_or_default().into_iter().collect();
    let names: Vec<String> = levels.iter().map(ToString::to_string).collect();
    for (name, _) in &entries {
        if !names.contains(name) {
            return Err(Fault::new(
                path.key(name),
                P::UnknownName {
                    what: "level".to_owned(),
                    mend: suggest(name, names.iter().map(String::as_str)),
                    name: name.clone(),
                    within: format!("'{key}' of {}", reader.within()),
                    scope: reader.within().to_owned(),
                },
            ));
        }
    }
    Ok(entries)
}
