//! A choice of cells: `{ workload = "random", layout = "raid5-6", queue_depth = [16, 32] }` is every cell of
//! which all of that is true. Values compare as what they mean: `"4k"` is `4096`, `1` is `1.0`.

use super::error::{Fault, Path, Problem, suggest};
use super::reader::Reader;
use super::{CellSpec, Factor, Level, StudyWorkload};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use stdx::ByteCount;
use toml::Value;

/// A choice of cells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// By `workload`, factor or parameter: the values that will do.
    wanted: BTreeMap<String, Vec<String>>,
}

/// What a selector may name.
pub(super) struct Names<'a> {
    pub(super) factors: &'a [Factor],
    pub(super) workloads: &'a [StudyWorkload],
}

impl Selector {
    /// Whether a cell is among those meant.
    pub fn matches(&self, cell: &CellSpec) -> bool {
        self.wanted.iter().all(|(key, values)| {
            let property = cell.property(key);
            property.is_some_and(|property| values.iter().any(|value| means(value, &property)))
        })
    }

    /// Whether `other`, which this selector chooses, is what `cell` is held against: the two agree in
    /// all that this selector does not name.
    pub fn pairs(&self, cell: &CellSpec, other: &CellSpec) -> bool {
        if !self.matches(other) || cell.id == other.id {
            return false;
        }
        let varied = cell.varying.iter().chain(&other.varying).map(String::as_str);
        let factors = cell.factors.keys().map(String::as_str);
        let mut keys: BTreeSet<&str> = varied.chain(factors).chain(["workload"]).collect();
        keys.retain(|key| !self.wanted.contains_key(*key));
        keys.iter().all(|key| match (cell.property(key), other.property(key)) {
            (Some(one), Some(two)) => one == two,
            _ => true, // Only one of two workloads has this parameter: it can't agree.
        })
    }

    pub(super) fn read(
        reader: &mut Reader,
        key: &'static str,
        names: &Names<'_>,
    ) -> Result<Option<Selector>, Fault> {
        let path = reader.path(key);
        let within = format!("'{key}' of {}", reader.within());
        let Some(table) = reader.table(key)? else { return Ok(None) };
        let mut wanted = BTreeMap::new();
        for (key, value) in table {
            let path = path.key(&key);
            let values = match &value {
                Value::Array(values) => values.as_slice(),
                one => std::slice::from_ref(one),
            };
            let texts = values.iter().map(|value| names.value(&key, value, &path, &within));
            wanted.insert(key.clone(), texts.collect::<Result<_, Fault>>()?);
        }
        Ok(Some(Selector { wanted }))
    }

    /// The cells of this workload.
    pub(super) fn of_workload(name: &str) -> Selector {
        Selector { wanted: BTreeMap::from([("workload".to_owned(), vec![name.to_owned()])]) }
    }

    /// One selector for each value of the one key of a table: `{ layout = ["one", "two", "four"] }`.
    pub(super) fn read_steps(
        reader: &mut Reader,
        key: &'static str,
        names: &Names<'_>,
    ) -> Result<Option<Vec<Selector>>, Fault> {
        let expected = "a table with one key and its values in order: { layout = [\"a\", \"b\"] }";
        let path = reader.path(key);
        let within = format!("'{key}' of {}", reader.within());
        let Some(table) = reader.table(key)? else { return Ok(None) };
        let whole = Value::Table(table.clone());
        let mut entries = table.into_iter();
        let (Some((name, Value::Array(values))), None) = (entries.next(), entries.next()) else {
            return Err(reader.bad(key, &whole, expected));
        };
        if values.len() < 2 {
            return Err(reader.bad(key, &whole, expected));
        }
        let path = path.key(&name);
        let step = |value: &Value| {
            let text = names.value(&name, value, &path, &within)?;
            Ok(Selector { wanted: BTreeMap::from([(name.clone(), vec![text])]) })
        };
        values.iter().map(step).collect::<Result<_, Fault>>().map(Some)
    }

    /// The values that will do, for people: `one-lun`.
    pub(crate) fn values(&self) -> String {
        let values: Vec<&str> = self.wanted.values().flatten().map(String::as_str).collect();
        values.join(", ")
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.wanted.is_empty() {
            return f.write_str("anything");
        }
        for (at, (key, values)) in self.wanted.iter().enumerate() {
            let and = if at == 0 { "" } else { " and " };
            write!(f, "{and}{key} {}", values.join(" or "))?;
        }
        Ok(())
    }
}

impl Names<'_> {
    /// A value that a selector gives for a key, checked as far as the study knows the key.
    fn value(&self, key: &str, value: &Value, path: &Path, within: &str) -> Result<String, Fault> {
        if let Some(factor) = self.factors.iter().find(|factor| factor.name == key) {
            return Ok(factor.level_named(value, path, within)?.to_string());
        }
        let text = Level::of(value).map(|level| level.to_string());
        let text = text.ok_or_else(|| {
            Fault::new(
                path.clone(),
                Problem::BadValue {
                    key: key.to_owned(),
                    within: within.to_owned(),
                    value: super::reader::shown(value),
                    expected: "a value or a list of some".to_owned(),
                },
            )
        })?;
        if key == "workload" {
            let mut cells = self.workloads.iter().filter(|workload| !workload.load_only);
            if cells.any(|workload| workload.name == text) {
                return Ok(text);
            }
            let names = self.workloads.iter().map(|workload| workload.name.as_str());
            return Err(Fault::new(
                path.clone(),
                Problem::UnknownName {
                    what: "workload".to_owned(),
                    mend: suggest(&text, names),
                    name: text,
                    within: within.to_owned(),
                    scope: "the study, as one with cells of its own,".to_owned(),
                },
            ));
        }
        let parameters: BTreeSet<String> = self
            .workloads
            .iter()
            .filter_map(|workload| workload.variants.first())
            .flat_map(|workload| workload.parameters().into_iter().map(|(name, _)| name))
            .collect();
        if parameters.contains(key) {
            return Ok(text);
        }
        let factors = self.factors.iter().map(|factor| factor.name.as_str());
        Err(Fault::new(
            path.clone(),
            Problem::UnknownKey {
                key: key.to_owned(),
                within: within.to_owned(),
                mend: suggest(
                    key,
                    ["workload"]
                        .into_iter()
                        .chain(factors)
                        .chain(parameters.iter().map(String::as_str)),
                ),
            },
        ))
    }
}

/// Whether two texts mean the same: as texts, as numbers, or as sizes.
fn means(one: &str, two: &str) -> bool {
    let sizes = || Some((one.parse::<ByteCount>().ok()?, two.parse::<ByteCount>().ok()?));
    let numbers = || Some((one.parse::<f64>().ok()?, two.parse::<f64>().ok()?));
    one == two
        || sizes().is_some_and(|(one, two)| one == two)
        || numbers().is_some_and(|(one, two)| one == two)
}
