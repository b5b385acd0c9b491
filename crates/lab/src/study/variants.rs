//! A workload as the study writes it: a parameter that is a list stands for all its values.
//!
//! `block_size = ["4k", "32k"]` makes two workloads of one; two lists make every combination of
//! their values (a full factorial). A list of one value is a list all the same: it stands in the
//! names of the cells, so that `--set workload.random.queue_depth=16` picks cells without renaming
//! them, and they keep their seeds and figures.

use super::error::{Fault, Path, Problem, suggest};
use super::reader::Reader;
use super::workload::{IDLE, KINDS, OPERATIONS, ToolKind, Workload};
use super::{Factor, Level};
use std::collections::{BTreeMap, BTreeSet};
use toml::{Table, Value};

/// The most workloads that the lists of one workload may make.
pub const VARIANTS_MAX: usize = 10_000;

/// A workload of the study, with all its variants.
#[derive(Clone, Debug, PartialEq)]
pub struct StudyWorkload {
    /// Its name.
    pub name: String,
    /// The parameters that are lists, in the order in which they stand in the name of a cell.
    pub varying: Vec<String>,
    /// Every combination of the lists' values; the last list changes fastest.
    pub variants: Vec<Workload>,
    /// Whether it is only the load of an operation and no cell of its own.
    pub load_only: bool,
    /// The levels of factors that it runs with; a factor that is not named does not matter.
    pub only: BTreeMap<String, Vec<Level>>,
    /// The levels of factors that it does not run with.
    pub except: BTreeMap<String, Vec<Level>>,
}

impl StudyWorkload {
    /// Whether it runs with these levels of the factors.
    pub fn admits(&self, factors: &BTreeMap<String, Level>) -> bool {
        let named = |list: &BTreeMap<String, Vec<Level>>, name: &String, level: &Level| {
            list.get(name).map(|levels| levels.contains(level))
        };
        factors.iter().all(|(name, level)| {
            named(&self.only, name, level) != Some(false)
                && named(&self.except, name, level) != Some(true)
        })
    }
}

/// A workload whose name and kind are known and whose parameters are not read yet.
struct Head {
    name: String,
    kind: &'static str,
    only: BTreeMap<String, Vec<Level>>,
    except: BTreeMap<String, Vec<Level>>,
    parameters: Table,
    path: Path,
}

/// Reads all `[[workload]]`s of a study. `factors` are those that `only` and `except` may name, with
/// every level that the study gives them.
pub(crate) fn read_all(
    readers: Vec<Reader>,
    factors: &[Factor],
) -> Result<Vec<StudyWorkload>, Fault> {
    let mut heads: Vec<Head> = Vec::with_capacity(readers.len());
    for mut reader in readers {
        let head = Head::read(&mut reader, factors)?;
        if heads.iter().any(|other| other.name == head.name) {
            return Err(Fault::new(
                reader.path("name"),
                Problem::Twice {
                    what: "workload".to_owned(),
                    name: head.name,
                    within: "the study".to_owned(),
                },
            ));
        }
        heads.push(head);
    }
    let loads = read_loads(&heads)?;
    heads.into_iter().map(|head| head.expand(&loads)).collect()
}

/// The workloads that are another's load, each concrete.
fn read_loads(heads: &[Head]) -> Result<BTreeMap<String, Workload>, Fault> {
    let mut loads = BTreeMap::new();
    for operation in heads.iter().filter(|head| head.is_operation()) {
        for value in listed(operation.parameters.get("load")) {
            let Some(name) = value.as_str().filter(|name| *name != IDLE) else { continue };
            let within = format!("workload '{}'", operation.name);
            let path = operation.path.key("load");
            let Some(load) = heads.iter().find(|head| head.name == name) else {
                return Err(Fault::new(
                    path,
                    Problem::UnknownName {
                        what: "workload".to_owned(),
                        name: name.to_owned(),
                        within,
                        scope: "the study".to_owned(),
                        mend: suggest(name, heads.iter().map(|head| head.name.as_str())),
                    },
                ));
            };
            let contradiction = |why: String, mend: &str| {
                let mend = mend.to_owned();
                Fault::new(path.clone(), Problem::Contradiction { what: within.clone(), why, mend })
            };
            if load.is_operation() || load.kind == "probe" || ToolKind::named(load.kind).is_some() {
                return Err(contradiction(
                    format!(
                        "its load '{name}' is of the kind \"{}\", which ends by itself",
                        load.kind
                    ),
                    "take one of the kind \"stream\", \"random\" or \"slob\"",
                ));
            }
            if let Some(list) = load.parameters.iter().find(|(_, value)| value.is_array()) {
                return Err(contradiction(
                    format!("its load '{name}' has a list as '{}'", list.0),
                    "give a load one value for each parameter",
                ));
            }
            if !load.only.is_empty() || !load.except.is_empty() {
                return Err(contradiction(
                    format!("its load '{name}' has 'only' or 'except'"),
                    "put it on the operation: a load runs wherever its operation runs",
                ));
            }
            let workload = Workload::read(
                &load.name,
                load.kind,
                load.reader(load.parameters.clone()),
                &BTreeMap::new(),
            )?;
            loads.insert(name.to_owned(), workload);
        }
    }
    Ok(loads)
}

impl Head {
    fn read(reader: &mut Reader, factors: &[Factor]) -> Result<Head, Fault> {
        let name =
            reader.required_text("name", "write name = \"...\", as it shall stand in reports")?;
        super::reader::check_name(reader, "name", &name)?;
        if name == IDLE {
            return Err(reader.contradiction(
                "name",
                "the name \"idle\" means that no load runs",
                "take another name",
            ));
        }
        reader.call(format!("workload '{name}'"));
        let kinds = KINDS.map(|kind| (kind, kind));
        let kind = reader
            .choice("kind", &kinds)?
            .ok_or_else(|| reader.missing("kind", format!("there are: {}", KINDS.join(", "))))?;
        let only = restriction(reader, "only", factors)?;
        let except = restriction(reader, "except", factors)?;
        let path = reader.here().clone();
        Ok(Head { name, kind, only, except, parameters: reader.take_rest(), path })
    }

    fn is_operation(&self) -> bool {
        OPERATIONS.contains(&self.kind)
    }

    fn reader(&self, parameters: Table) -> Reader {
        Reader::new(parameters, self.path.clone(), format!("workload '{}'", self.name))
    }

    /// Every combination of the values of the lists.
    fn expand(self, loads: &BTreeMap<String, Workload>) -> Result<StudyWorkload, Fault> {
        let lists: BTreeMap<&String, &Vec<Value>> = self
            .parameters
            .iter()
            .filter_map(|(key, value)| Some((key, value.as_array()?)))
            .collect();
        let mut combinations: usize = 1;
        for (key, values) in &lists {
            if values.is_empty() {
                let value = Value::Array(Vec::new());
                let reader = self.reader(Table::new());
                return Err(reader.bad(key, &value, "a value or a list of some"));
            }
            combinations = combinations.saturating_mul(values.len());
        }
        if combinations > VARIANTS_MAX {
            return Err(Fault::new(
                self.path.clone(),
                Problem::Contradiction {
                    what: format!("workload '{}'", self.name),
                    why: format!(
                        "its lists make {combinations} combinations, over the limit of {VARIANTS_MAX}"
                    ),
                    mend: "shorten a list".to_owned(),
                },
            ));
        }
        // The order of the lists is the order of the parameters in a cell's name, which the kind
        // knows: so read one combination first.
        let first = lists.iter().map(|(key, values)| ((*key).clone(), values[0].clone())).collect();
        let first = self.concrete(&first, loads)?;
        let varying: Vec<String> = first
            .parameters()
            .into_iter()
            .map(|(name, _)| name)
            .filter(|name| lists.contains_key(name))
            .collect();
        let mut variants = Vec::with_capacity(combinations);
        let mut seen = BTreeSet::new();
        for number in 0..combinations {
            let mut rest = number;
            let mut chosen = Table::new();
            for name in varying.iter().rev() {
                let values = lists[name];
                chosen.insert(name.clone(), values[rest % values.len()].clone());
                rest /= values.len();
            }
            let workload = self.concrete(&chosen, loads)?;
            let levels: Vec<Option<String>> =
                varying.iter().map(|name| workload.parameter(name)).collect();
            if !seen.insert(levels.clone()) {
                // Some list has one value twice; find which, for the message.
                let twice = varying.iter().find(|name| {
                    let texts: BTreeSet<String> =
                        lists[*name].iter().map(Value::to_string).collect();
                    texts.len() < lists[*name].len()
                });
                let key = twice.or(varying.first()).map_or("", String::as_str);
                return Err(Fault::new(
                    self.path.key(key),
                    Problem::Twice {
                        what: "level".to_owned(),
                        name: workload.parameter(key).unwrap_or_default(),
                        within: format!("'{key}' of workload '{}'", self.name),
                    },
                ));
            }
            variants.push(workload);
        }
        let load_only = loads.contains_key(&self.name);
        let Head { name, only, except, .. } = self;
        Ok(StudyWorkload { name, varying, variants, load_only, only, except })
    }

    fn concrete(
        &self,
        chosen: &Table,
        loads: &BTreeMap<String, Workload>,
    ) -> Result<Workload, Fault> {
        let mut parameters = self.parameters.clone();
        for (key, value) in chosen {
            parameters.insert(key.clone(), value.clone());
        }
        Workload::read(&self.name, self.kind, self.reader(parameters), loads)
    }
}

/// The values of a list, or the one value.
fn listed(value: Option<&Value>) -> &[Value] {
    match value {
        None => &[],
        Some(Value::Array(values)) => values,
        Some(value) => std::slice::from_ref(value),
    }
}

/// `only = { layout = ["disk", "raid10-4"] }`
fn restriction(
    reader: &mut Reader,
    key: &'static str,
    factors: &[Factor],
) -> Result<BTreeMap<String, Vec<Level>>, Fault> {
    let path = reader.path(key);
    let within = format!("'{key}' of {}", reader.within());
    let mut restriction = BTreeMap::new();
    for (name, value) in reader.table(key)?.unwrap_or_default() {
        let path = path.key(&name);
        let factor = super::factor::factor_named(factors, &name, &path, &within)?;
        let mut levels = Vec::new();
        for value in listed(Some(&value)) {
            levels.push(factor.level_named(value, &path, &within)?);
        }
        restriction.insert(name, levels);
    }
    Ok(restriction)
}
