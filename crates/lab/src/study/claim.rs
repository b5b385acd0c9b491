//! What a study expects to find: claims, and how its verdict is found. Only their form is here; what
//! is made of the figures is in [`crate::claims`] and [`crate::verdict`].
//!
//! Both speak of cells through a [`Selector`]: `{ workload = "random", layout = "raid5-6",
//! queue_depth = [16, 32] }` is every cell of which all of that is true. Values compare as what they
//! mean: `"4k"` is `4096`, `1` is `1.0`.

use super::error::{Fault, Path, Problem, suggest};
use super::reader::{Reader, as_number};
use super::{CellSpec, Factor, Level, StudyWorkload};
use crate::duration;
use crate::metrics::Better;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use stdx::ByteCount;
use toml::Value;

/// What a claim's `tolerance` is unless it says otherwise.
const TOLERANCE_DEFAULT: f64 = 0.10;

/// A published finding that this study checks.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Its name.
    pub id: String,
    /// The finding in words.
    pub text: String,
    /// Where it was published.
    pub source: String,
    /// What was published, in words and numbers.
    pub published: String,
    /// What the figures must show.
    pub check: Check,
    /// Why it does not hold, where it is known not to.
    pub explanation: Option<String>,
}

/// A statement about figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// Of which metric.
    pub metric: String,
    /// Of which cells.
    pub of: Selector,
    /// How it stands...
    pub relation: Relation,
    /// ...to what.
    pub against: Against,
}

/// How a figure stands to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Relation {
    /// It is larger, with confidence.
    Above,
    /// It is smaller, with confidence.
    Below,
    /// It is the same to within this share.
    About {
        /// 0.1 for 10 %.
        tolerance: f64,
    },
}

/// What a figure is held against.
#[derive(Clone, Debug, PartialEq)]
pub enum Against {
    /// A number, in the metric's unit.
    Value(f64),
    /// The figures of other cells: those that differ in nothing but what `to` names.
    Cells {
        /// Which.
        to: Selector,
        /// So many times them.
        factor: f64,
    },
}

/// A choice of cells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// By `workload`, factor or parameter: the values that will do.
    wanted: BTreeMap<String, Vec<String>>,
}

/// How the answer is found from the figures.
#[derive(Clone, Debug, PartialEq)]
pub struct VerdictRules {
    /// The factor whose levels are ranked.
    pub by: String,
    /// What the user would do with the winner: one ranking each.
    pub uses: Vec<Use>,
    /// What a level costs, for a second ranking by yield.
    pub per: Option<Per>,
}

/// One thing that the ranked levels may be used for.
#[derive(Clone, Debug, PartialEq)]
pub struct Use {
    /// In words: `random 4–32 KiB reads and writes`.
    pub name: String,
    /// The cells that stand for it.
    pub of: Selector,
    /// Ranked by this; the workload's main metric where it is not said.
    pub metric: Option<String>,
    /// Which way it is better; known from the metric's name where it is not said.
    pub better: Option<Better>,
}

/// A cost of each level, such as its number of disks.
#[derive(Clone, Debug, PartialEq)]
pub struct Per {
    /// What is counted: `disk`.
    pub unit: String,
    /// How many, by level.
    pub counts: BTreeMap<String, f64>,
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

    fn read(
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

/// Reads all `[[claim]]`s.
pub(super) fn read_claims(readers: Vec<Reader>, names: &Names<'_>) -> Result<Vec<Claim>, Fault> {
    let mut claims: Vec<Claim> = Vec::with_capacity(readers.len());
    for mut reader in readers {
        let id = reader.required_text("id", "write id = \"...\", a short name")?;
        reader.call(format!("claim '{id}'"));
        if claims.iter().any(|claim| claim.id == id) {
            let (what, within) = ("claim".to_owned(), "the study".to_owned());
            return Err(Fault::new(reader.path("id"), Problem::Twice { what, name: id, within }));
        }
        let text = reader.required_text("text", "write text = \"...\", the finding in words")?;
        let source =
            reader.required_text("source", "write source = \"...\": where it was published")?;
        let published =
            reader.required_text("published", "write published = \"...\", in words and numbers")?;
        let explanation = reader.text("explanation")?;
        let within = format!("'check' of {}", reader.within());
        let check = reader.reader("check", within)?.ok_or_else(|| {
            reader
                .missing("check", "write check = { metric = \"...\", of = {...}, relation = ... }")
        })?;
        let check = Check::read(check, names)?;
        reader.finish()?;
        claims.push(Claim { id, text, source, published, check, explanation });
    }
    Ok(claims)
}

/// Whether there are figures of this name.
fn check_metric(reader: &Reader, metric: &str) -> Result<(), Fault> {
    let value = toml::Value::String(metric.to_owned());
    crate::metrics::check_name(metric).map_err(|known| reader.bad("metric", &value, known))
}

impl Check {
    fn read(mut reader: Reader, names: &Names<'_>) -> Result<Check, Fault> {
        let metric = reader.required_text("metric", "write metric = \"iops\" or another")?;
        check_metric(&reader, &metric)?;
        let of = Selector::read(&mut reader, "of", names)?
            .ok_or_else(|| reader.missing("of", "write of = { workload = \"...\" }"))?;
        let words = [("above", "above"), ("below", "below"), ("about", "about")];
        let relation = reader
            .choice("relation", &words)?
            .ok_or_else(|| reader.missing("relation", "write \"above\", \"below\" or \"about\""))?;
        let share = |share: f64| share > 0.0 && share < 1.0;
        let tolerance = reader.number("tolerance", "a share above 0 and below 1", share)?;
        let relation = match (relation, tolerance) {
            ("above", None) => Relation::Above,
            ("below", None) => Relation::Below,
            ("about", tolerance) => {
                Relation::About { tolerance: tolerance.unwrap_or(TOLERANCE_DEFAULT) }
            }
            (word, Some(_)) => {
                return Err(reader.contradiction(
                    "tolerance",
                    format!("\"{word}\" takes no 'tolerance'"),
                    "leave it out, or write relation = \"about\"",
                ));
            }
            (word, None) => unreachable!("'{word}' is none of the words"),
        };
        let value = match reader.take("value") {
            None => None,
            Some(value) => Some(read_value(&reader, &metric, &value)?),
        };
        let to = Selector::read(&mut reader, "to", names)?;
        let positive = |number: f64| number > 0.0;
        let factor = reader.number("factor", "a number above 0", positive)?;
        let against = match (value, to) {
            (Some(value), None) if factor.is_none() => Against::Value(value),
            (None, Some(to)) => Against::Cells { to, factor: factor.unwrap_or(1.0) },
            (Some(_), None) => {
                return Err(reader.contradiction(
                    "factor",
                    "'factor' goes with 'to', not with 'value'",
                    "leave it out and write the whole value",
                ));
            }
            _ => {
                return Err(reader.contradiction(
                    "value",
                    "it needs either 'value' or 'to'",
                    "write value = a number, or to = { ... } for other cells",
                ));
            }
        };
        reader.finish()?;
        Ok(Check { metric, of, relation, against })
    }
}

/// A number in the metric's unit; a span of time may be written as one.
fn read_value(reader: &Reader, metric: &str, value: &Value) -> Result<f64, Fault> {
    if let Some(number) = as_number(value).filter(|number| number.is_finite()) {
        return Ok(number);
    }
    let scale = match metric {
        name if name.starts_with("latency_us") => Some(1e6),
        name if name.ends_with("_s") && !name.ends_with("mb_s") => Some(1.0),
        _ => None,
    };
    let span = value.as_str().and_then(|text| duration::parse(text).ok());
    match (scale, span) {
        (Some(scale), Some(span)) => Ok(span.as_secs_f64() * scale),
        (Some(_), None) => Err(reader.bad("value", value, "a number or a span such as \"8h36m\"")),
        (None, _) => {
            Err(reader.bad("value", value, format!("a number, in the unit of '{metric}'")))
        }
    }
}

/// Reads `[verdict]`.
pub(super) fn read_verdict(mut reader: Reader, names: &Names<'_>) -> Result<VerdictRules, Fault> {
    let by = reader.required_text("by", "write by = the name of the factor that is chosen")?;
    let factor = super::factor::factor_named(names.factors, &by, &reader.path("by"), "[verdict]")?;
    let betters = [("higher", Better::Higher), ("lower", Better::Lower)];
    let metric = reader.text("metric")?;
    if let Some(metric) = &metric {
        check_metric(&reader, metric)?;
    }
    let better = reader.choice("better", &betters)?;
    let mut uses = Vec::new();
    for mut used in reader.readers("use", "[[verdict.use]]")? {
        let name = used.required_text("name", "write name = \"...\", as it shall be read")?;
        used.call(format!("use '{name}' of [verdict]"));
        let of = Selector::read(&mut used, "of", names)?
            .ok_or_else(|| used.missing("of", "write of = { workload = \"...\" }"))?;
        let metric = used.text("metric")?.or_else(|| metric.clone());
        if let Some(metric) = &metric {
            check_metric(&used, metric)?;
        }
        let better = used.choice("better", &betters)?.or(better);
        used.finish()?;
        uses.push(Use { name, of, metric, better });
    }
    if uses.is_empty() {
        // A study that does not say what it is for is taken to be for each of its workloads.
        for workload in names.workloads.iter().filter(|workload| !workload.load_only) {
            let wanted = BTreeMap::from([("workload".to_owned(), vec![workload.name.clone()])]);
            let (name, of) = (workload.name.clone(), Selector { wanted });
            uses.push(Use { name, of, metric: metric.clone(), better });
        }
    }
    let per = match reader.reader("per", "[verdict.per]")? {
        None => None,
        Some(per) => Some(Per::read(per, factor)?),
    };
    reader.finish()?;
    Ok(VerdictRules { by, uses, per })
}

impl Per {
    fn read(mut reader: Reader, factor: &Factor) -> Result<Per, Fault> {
        let unit = reader.required_text("unit", "write unit = \"disk\" or what else is counted")?;
        let path = reader.path("counts");
        let table = reader
            .table("counts")?
            .ok_or_else(|| reader.missing("counts", "write counts = { LEVEL = number, ... }"))?;
        let mut counts = BTreeMap::new();
        for (name, value) in table {
            let path = path.key(&name);
            let text = Value::String(name.clone());
            let level = factor.level_named(&text, &path, "'counts' of [verdict.per]")?;
            match as_number(&value) {
                Some(count) if count.is_finite() && count > 0.0 => {
                    counts.insert(level.to_string(), count);
                }
                _ => {
                    let mut fault = reader.bad(&name, &value, "a number above 0");
                    fault.path = path;
                    return Err(fault);
                }
            }
        }
        let missing = |level: &&Level| !counts.contains_key(&level.to_string());
        if let Some(level) = factor.levels_in_file.iter().find(missing) {
            return Err(reader.contradiction(
                "counts",
                format!("'counts' has no number for '{level}'"),
                format!("give one for each level of '{}'", factor.name),
            ));
        }
        reader.finish()?;
        Ok(Per { unit, counts })
    }
}
