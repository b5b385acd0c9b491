//! How a run departs from the study's file: `--set`, `--seed`, `--quick`.
//!
//! `--set KEY=VALUE` names a key by its dotted path. The forms:
//!
//! * `repeats=3`, `steady.round=1s`, `machine.disks=6`, `layouts.raid5-6.chunk=64k`: the value takes
//!   the key's place. The value is TOML where it can be read as TOML, else a text.
//! * `factor.layout=raid5-6,raid10-4`: only these of the factor's levels.
//! * `workload.random.queue_depth=1,4`: these values of a workload's parameter.
//! * `workload.rebuild.sampled.sample=64m`: a key of a table of a workload's.
//!
//! A key that nothing reads is refused like one in the file, since the table is read again with the
//! value in it; only the place differs: the option, not a line.

use super::error::{Fault, Path, Problem, Step, StudyError, suggest};
use super::{Factor, Kind, Level, Study};
use crate::duration;
use std::time::Duration;
use toml::{Table, Value};

/// What errors call the table of layouts.
const LAYOUTS: &str = "[layouts]";
/// Repeats of a run with `--quick`: the fewest that show a spread.
const QUICK_REPEATS: u32 = 2;
/// Rounds of the steady-state window with `--quick`.
const QUICK_WINDOW: u32 = 3;
/// Rounds at most with `--quick`.
const QUICK_ROUNDS_MAX: u32 = 6;
/// With `--quick` a round is shorter by this factor...
const QUICK_ROUND_DIVISOR: u32 = 4;
/// ...but no shorter than this, in which a disk still makes some ten random I/Os.
const QUICK_ROUND_MIN: Duration = Duration::from_millis(100);

/// What the command line changes about a study.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The `--set` options, as given: `KEY=VALUE`.
    pub settings: Vec<String>,
    /// `--seed`: in place of the study's.
    pub seed: Option<u64>,
    /// `--quick`: shorten it for a first look.
    pub quick: bool,
}

/// A `--set` option that has been put in its place.
pub(crate) struct Placed<'a> {
    /// Where its value stands now.
    path: Path,
    /// The option as given.
    text: &'a str,
}

/// What the options change.
pub(super) struct Changes<'a> {
    /// The study without the options.
    as_written: &'a Study,
    /// What stands in the study's table now.
    pub(super) placed: Vec<Placed<'a>>,
    /// Factors, and the levels that are left of them.
    levels: Vec<(&'a str, Vec<Level>)>,
}

/// Puts the options into the study's table, which is then read again, and says which and where.
pub(super) fn put_all<'a>(
    as_written: &'a Study,
    place: &str,
    table: &mut Table,
    options: &'a Options,
) -> Result<Changes<'a>, StudyError> {
    let mut placed: Vec<Placed<'_>> = Vec::new();
    let mut levels: Vec<(&str, Vec<Level>)> = Vec::new();
    for setting in &options.settings {
        let refuse =
            |problem: Box<Problem>| StudyError { place: format!("--set {setting}"), problem };
        let (key, value) = setting.split_once('=').ok_or_else(|| {
            refuse(Box::new(Problem::Contradiction {
                what: "the option".to_owned(),
                why: "there is no '='".to_owned(),
                mend: "write --set KEY=VALUE, as --set repeats=3".to_owned(),
            }))
        })?;
        let keys: Vec<&str> = key.trim().split('.').collect();
        if let ["factor", name @ ..] = keys.as_slice() {
            let chosen = some_levels(&as_written.factors, &name.join("."), value);
            levels.push(chosen.map_err(|fault| refuse(more(fault.problem, as_written, place)))?);
        } else {
            let path = put(table, as_written, &keys, value);
            let path = path.map_err(|fault| refuse(more(fault.problem, as_written, place)))?;
            placed.push(Placed { path, text: setting });
        }
    }
    Ok(Changes { as_written, placed, levels })
}

/// A layout or a level that the study does not have: `--set` adds none, and what does is said.
fn more(mut problem: Box<Problem>, study: &Study, place: &str) -> Box<Problem> {
    // Names of layouts are alike by nature (raid6-8, raid1-2): only one that begins so was meant.
    let there_are = |name: &str, known: Vec<String>| {
        let is_meant = known.iter().any(|one| one.starts_with(name));
        (!is_meant).then(|| format!("there are: {}", known.join(", ")))
    };
    let (mend, what, names) = match &mut *problem {
        Problem::UnknownKey { mend, within, key } if within == LAYOUTS => {
            let what =
                format!("layout; write [layouts.{key}], and its name among the factor's levels,");
            (mend, what, there_are(key, study.layouts.keys().cloned().collect()))
        }
        Problem::UnknownName { mend, what, name, scope, .. } if what == "level" => {
            let factor =
                study.factors.iter().find(|one| *scope == format!("factor '{}'", one.name));
            let levels = factor.map_or(Vec::new(), |factor| {
                factor.levels_in_file.iter().map(ToString::to_string).collect()
            });
            (mend, "level; write it".to_owned(), there_are(name, levels))
        }
        _ => return problem,
    };
    if let Some(names) = names {
        *mend = names;
    }
    // A study that ships has its name for a place.
    let file = match place == study.name {
        true => {
            format!("a file of your own, begun with `spindle lab show {place} --text > mine.toml`")
        }
        false => place.to_owned(),
    };
    *mend += &format!("; --set adds no {what} into {file}");
    problem
}

impl Changes<'_> {
    /// Changes the study that was read again: levels, seed, length.
    pub(super) fn apply(self, study: &mut Study, options: &Options) {
        for (name, chosen) in self.levels {
            for factor in study.factors.iter_mut().filter(|factor| factor.name == name) {
                factor.levels.retain(|level| chosen.contains(level));
            }
        }
        study.notes.extend(options.settings.iter().map(|setting| format!("--set {setting}")));
        drop_claims(study, self.as_written, &self.placed);
        drop_price(study, self.as_written, &self.placed);
        note_names(study, &self.placed);
        if let Some(seed) = options.seed {
            study.seed = seed;
        }
        if options.quick {
            shorten(study, &self.placed);
        }
    }
}

/// Claims and their explanations are of the machine that the study is about. On another simulated one they say
/// nothing, and fall away. (What a study of a real host claims, it claims of whatever host it runs on.)
fn drop_claims(study: &mut Study, as_written: &Study, placed: &[Placed<'_>]) {
    let is_simulated = study.machine.get("kind").and_then(Value::as_str) == Some("simulated");
    if !is_simulated || study.claims.is_empty() || study.machine == as_written.machine {
        return;
    }
    study.notes.push(format!(
        "its claims ({}) are of another machine and fall away: {} was changed",
        study.claims.len(),
        below(placed, "machine").join(", ")
    ));
    study.claims.clear();
}

/// A price is of the disk that the file names. Of another one it says nothing, unless it is given anew.
fn drop_price(study: &mut Study, as_written: &Study, placed: &[Placed<'_>]) {
    let is_changed = |key| study.machine.get(key) != as_written.machine.get(key);
    let is_given = below(placed, "machine").contains(&"machine.disk_price");
    if is_changed("disk") && !is_given && study.machine.remove("disk_price").is_some() {
        study.notes.push(
            "its disk_price is of another disk and falls away: machine.disk was changed; --set machine.disk_price=… gives this one's"
                .to_owned(),
        );
    }
}

/// The options that changed something below this key, without their values.
fn below<'a>(placed: &[Placed<'a>], top: &str) -> Vec<&'a str> {
    let is_below = |setting: &&Placed<'_>| matches!(setting.path.0.first(), Some(Step::Key(key)) if key == top);
    let key = |setting: &Placed<'a>| setting.text.split('=').next().unwrap_or(setting.text);
    placed.iter().filter(is_below).map(key).collect()
}

/// Title, question and layouts' names are words of the file, and stay where what they speak of is changed.
fn note_names(study: &mut Study, placed: &[Placed<'_>]) {
    let is_simulated = study.machine.get("kind").and_then(Value::as_str) == Some("simulated");
    let machine = below(placed, "machine");
    if is_simulated && !machine.is_empty() {
        study.notes.push(format!(
            "title and question are the file's and may speak of another machine: {} was changed",
            machine.join(", ")
        ));
    }
    let layouts = below(placed, "layouts");
    if !layouts.is_empty() {
        study.notes.push(format!(
            "layouts keep the names that the file gives them, whatever those say: {} was changed",
            layouts.join(", ")
        ));
    }
}

/// `raid5-6,raid10-4` as levels of the factor of this name.
fn some_levels<'a>(
    factors: &'a [Factor],
    name: &str,
    value: &str,
) -> Result<(&'a str, Vec<Level>), Fault> {
    let path = Path::default();
    let factor = super::factor::factor_named(factors, name, &path, "the option")?;
    let mut levels = Vec::new();
    for word in value.split(',') {
        let value = Value::String(word.trim().to_owned());
        levels.push(factor.level_named(&value, &path, "the option")?);
    }
    Ok((&factor.name, levels))
}

/// Puts the value into the study's table and says where.
fn put(table: &mut Table, study: &Study, keys: &[&str], value: &str) -> Result<Path, Fault> {
    let unknown = |key: &str, within: &str, known: Vec<&str>| {
        Fault::new(
            Path::default(),
            Problem::UnknownKey {
                key: key.to_owned(),
                within: within.to_owned(),
                mend: suggest(key, known),
            },
        )
    };
    match keys {
        ["workload", name, parameter, rest @ ..] => {
            let names = study.workloads.iter().map(|workload| workload.name.as_str());
            let index = study.workloads.iter().position(|workload| workload.name == *name);
            let found = index.and_then(|index| {
                let item = table.get_mut("workload")?.as_array_mut()?.get_mut(index)?;
                Some((index, item.as_table_mut()?))
            });
            let Some((index, workload)) = found else {
                return Err(unknown(name, "the workloads", names.collect()));
            };
            if ["name", "kind", "only", "except"].contains(parameter) {
                let why = format!("'{parameter}' of a workload can't be set");
                return Err(Fault::new(
                    Path::default(),
                    Problem::Contradiction {
                        what: "the option".to_owned(),
                        why,
                        mend: "change the study, or choose cells with --only".to_owned(),
                    },
                ));
            }
            let path = Path::default().key("workload").index(index).key(parameter);
            if !rest.is_empty() {
                // A key of a table that the workload has, or begins to have: sampled.sample.
                let inner = workload.entry(*parameter);
                return insert(
                    inner.or_insert_with(|| Value::Table(Table::new())),
                    path,
                    rest,
                    value,
                );
            }
            let whole = read_value(value);
            let mut values: Vec<Value> = match whole.is_table() {
                true => vec![whole],
                false => value.split(',').map(read_value).collect(),
            };
            let was_list = workload.get(*parameter).is_some_and(Value::is_array);
            let value = match values.pop() {
                Some(one) if values.is_empty() && !was_list => one,
                last => Value::Array(values.into_iter().chain(last).collect()),
            };
            workload.insert((*parameter).to_owned(), value);
            Ok(path)
        }
        // Under these two, a new key may be one that the target knows; it refuses those it does not.
        [top @ ("machine" | "steady"), rest @ ..] if !rest.is_empty() => {
            let inner = table.entry(*top).or_insert_with(|| Value::Table(Table::new()));
            insert(inner, Path::default().key(top), rest, value)
        }
        ["layouts", name, rest @ ..] if !rest.is_empty() => {
            let known = study.layouts.keys().map(String::as_str).collect();
            let layouts = table.get_mut("layouts").and_then(Value::as_table_mut);
            match layouts.and_then(|layouts| layouts.get_mut(*name)) {
                Some(layout) => {
                    insert(layout, Path::default().key("layouts").key(name), rest, value)
                }
                None => Err(unknown(name, LAYOUTS, known)),
            }
        }
        ["machine" | "steady" | "layouts" | "workload" | "claim" | "verdict", ..] => {
            let mend = "write steady.KEY, machine.KEY, layouts.NAME.KEY, factor.NAME or \
                        workload.NAME.PARAMETER";
            Err(Fault::new(
                Path::default(),
                Problem::Contradiction {
                    what: "the option".to_owned(),
                    why: format!("'{}' is no single value", keys.join(".")),
                    mend: mend.to_owned(),
                },
            ))
        }
        [key] => {
            table.insert((*key).to_owned(), read_value(value));
            Ok(Path::default().key(key))
        }
        [key, ..] => Err(unknown(
            key,
            "the study",
            vec!["steady", "machine", "layouts", "factor", "workload", "repeats", "confidence"],
        )),
        [] => unreachable!("splitting a text gives one part at least"),
    }
}

/// Puts the value at `keys` below `inner`, making tables on the way.
fn insert(inner: &mut Value, path: Path, keys: &[&str], value: &str) -> Result<Path, Fault> {
    let Some(table) = inner.as_table_mut() else {
        return Err(Fault::new(
            Path::default(),
            Problem::Contradiction {
                what: "the option".to_owned(),
                why: format!("'{path}' is no table"),
                mend: "name a key of a table".to_owned(),
            },
        ));
    };
    match keys {
        [] => Ok(path),
        [key] => {
            table.insert((*key).to_owned(), read_value(value));
            Ok(path.key(key))
        }
        [key, rest @ ..] => {
            let inner = table.entry(*key).or_insert_with(|| Value::Table(Table::new()));
            insert(inner, path.key(key), rest, value)
        }
    }
}

/// As TOML where it can be read as TOML, else as a text.
fn read_value(text: &str) -> Value {
    let text = text.trim();
    let table: Option<Table> = format!("value = {text}").parse().ok();
    let value = table.filter(|table| table.len() == 1).and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| Value::String(text.to_owned()))
}

/// Shortens what no option has fixed, and says so.
fn shorten(study: &mut Study, placed: &[Placed<'_>]) {
    let fixed = |keys: &[&str]| {
        let path = Path(keys.iter().map(|key| Step::Key((*key).to_owned())).collect());
        placed.iter().any(|setting| setting.path == path)
    };
    let mut said: Vec<String> = Vec::new();
    let fewer = |number: &mut u32, limit: u32, what: &str, said: &mut Vec<String>| {
        if *number > limit {
            said.push(format!("{limit} {what} instead of {number}"));
            *number = limit;
        }
    };
    if !fixed(&["repeats"]) {
        fewer(&mut study.repeats, QUICK_REPEATS, "repeats", &mut said);
    }
    let steady = &mut study.steady;
    if !fixed(&["steady", "round"]) {
        let shorter = (steady.round / QUICK_ROUND_DIVISOR).max(QUICK_ROUND_MIN).min(steady.round);
        if shorter < steady.round {
            let (new, old) = (duration::compact(shorter), duration::compact(steady.round));
            said.push(format!("rounds of {new} instead of {old}"));
            steady.round = shorter;
        }
    }
    if !fixed(&["steady", "window"]) {
        fewer(&mut steady.window, QUICK_WINDOW, "rounds in the window", &mut said);
    }
    if !fixed(&["steady", "rounds_max"]) {
        fewer(&mut steady.rounds_max, QUICK_ROUNDS_MAX, "rounds at most", &mut said);
        steady.rounds_max = steady.rounds_max.max(steady.window);
    }
    let operations = study.workloads.iter_mut().flat_map(|workload| &mut workload.variants);
    let mut stretches = false;
    for workload in operations {
        if let Kind::Operation(operation) = &mut workload.kind
            && let Some(sampling) = &mut operation.sampled
            && sampling.per_stratum > 2
        {
            sampling.per_stratum = 2;
            stretches = true;
        }
    }
    if stretches {
        said.push("2 stretches a stratum of sampled operations".to_owned());
    }
    study.quick = true;
    let said = if said.is_empty() { "nothing to shorten".to_owned() } else { said.join(", ") };
    study.notes.push(format!("--quick: {said}; a first look, no basis for a decision"));
}

/// What the TOML parser refused, with its line.
pub(super) fn syntax(file: &str, text: &str, error: &toml::de::Error) -> StudyError {
    let line = error.span().map(|span| line_of(text, span.start));
    let place = line.map_or_else(|| file.to_owned(), |line| format!("{file}:{line}"));
    let why = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
    StudyError { place, problem: Box::new(Problem::Syntax { why }) }
}

/// Finds where a fault can be mended: at an option, or in a line of the file.
pub(super) fn locate(file: &str, text: &str, placed: &[Placed<'_>], fault: Fault) -> StudyError {
    let option = placed.iter().rev().find(|setting| fault.path.is_within(&setting.path));
    let place = match option {
        Some(setting) => format!("--set {}", setting.text),
        None => match position(text, &fault.path) {
            Some(at) => format!("{file}:{}", line_of(text, at)),
            None => file.to_owned(),
        },
    };
    StudyError { place, problem: fault.problem }
}

/// Where in the text the deepest known part of the path stands.
fn position(text: &str, path: &Path) -> Option<usize> {
    let root = toml::de::DeTable::parse(text).ok()?.into_inner();
    let mut value = &toml::de::DeValue::Table(root);
    let mut found = None;
    for step in &path.0 {
        let next = match step {
            Step::Key(key) => {
                let entry = value.as_table()?.iter().find(|(name, _)| name.get_ref() == key);
                entry.map(|(name, inner)| (name.span().start, inner))
            }
            Step::Index(index) => value
                .as_array()
                .and_then(|items| items.get(*index))
                .map(|inner| (inner.span().start, inner)),
        };
        let Some((at, inner)) = next else { break };
        found = Some(at);
        value = inner.get_ref();
    }
    found
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}
