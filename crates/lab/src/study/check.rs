//! A statement about figures: how those of some cells stand to a number, or to those of other cells.

use super::error::Fault;
use super::reader::{Reader, as_number};
use super::selector::{Names, Selector};
use crate::duration;
use toml::Value;

/// What a claim's `tolerance` is unless it says otherwise.
const TOLERANCE_DEFAULT: f64 = 0.10;

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
    /// Of several cells that are held against a value: all, or the one that did best or worst.
    pub take: Take,
}

/// Which of several cells a value is held against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Take {
    /// All of them; with "about", their mean.
    #[default]
    All,
    /// The one with the largest figure: "the best of all layouts".
    Largest,
    /// The one with the smallest figure.
    Smallest,
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
    /// Its repeats agree: the half width of its interval is at most this share of it.
    Repeatable {
        /// 0.02 for 2 %.
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
    /// One another, in this order: each is held against the one before it.
    Along(Vec<Selector>),
    /// Its own repeats.
    Itself,
}

/// Whether there are figures of this name.
pub(super) fn check_metric(reader: &Reader, metric: &str) -> Result<(), Fault> {
    let value = toml::Value::String(metric.to_owned());
    crate::metrics::check_name(metric).map_err(|known| reader.bad("metric", &value, known))
}

impl Check {
    pub(super) fn read(mut reader: Reader, names: &Names<'_>) -> Result<Check, Fault> {
        let metric = reader.required_text("metric", "write metric = \"iops\" or another")?;
        check_metric(&reader, &metric)?;
        let of = Selector::read(&mut reader, "of", names)?
            .ok_or_else(|| reader.missing("of", "write of = { workload = \"...\" }"))?;
        let words = ["above", "below", "about", "equal", "rising", "falling", "repeatable"]
            .map(|word| (word, word));
        let word = reader.choice("relation", &words)?;
        let word = word.ok_or_else(|| {
            let mend =
                "write \"above\", \"below\", \"about\", \"equal\", \"rising\", \"falling\" or \"repeatable\"";
            reader.missing("relation", mend)
        })?;
        let relation = read_relation(&mut reader, word)?;
        let against = read_against(&mut reader, word, &metric, names)?;
        let takes = [("all", Take::All), ("largest", Take::Largest), ("smallest", Take::Smallest)];
        let take = reader.choice("take", &takes)?.unwrap_or_default();
        if take != Take::All && !matches!(against, Against::Value(_)) {
            return Err(reader.contradiction(
                "take",
                "'take' goes with 'value'",
                "leave it out, or hold the cells against a value",
            ));
        }
        reader.finish()?;
        Ok(Check { metric, of, relation, against, take })
    }

    /// Which cells (that have all of the first) are held against which others; none of a check against a value.
    pub(crate) fn pairings(&self) -> Vec<(Vec<&Selector>, &Selector)> {
        match &self.against {
            Against::Value(_) | Against::Itself => Vec::new(),
            Against::Cells { to, .. } => vec![(vec![&self.of], to)],
            Against::Along(steps) => {
                let pairs = steps.iter().zip(steps.iter().skip(1));
                pairs.map(|(before, step)| (vec![&self.of, step], before)).collect()
            }
        }
    }
}

/// The relation that a word stands for, with its tolerance.
fn read_relation(reader: &mut Reader, word: &str) -> Result<Relation, Fault> {
    let share = |share: f64| share > 0.0 && share < 1.0;
    let tolerance = reader.number("tolerance", "a share above 0 and below 1", share)?;
    match (word, tolerance) {
        ("about" | "equal", tolerance) => {
            Ok(Relation::About { tolerance: tolerance.unwrap_or(TOLERANCE_DEFAULT) })
        }
        ("repeatable", Some(tolerance)) => Ok(Relation::Repeatable { tolerance }),
        ("repeatable", None) => {
            Err(reader.missing("tolerance", "write tolerance = 0.02 or another"))
        }
        (word, Some(_)) => Err(reader.contradiction(
            "tolerance",
            format!("\"{word}\" takes no 'tolerance'"),
            "leave it out, or write relation = \"about\"",
        )),
        ("below" | "falling", None) => Ok(Relation::Below),
        (_, None) => Ok(Relation::Above),
    }
}

/// What the figures are held against.
fn read_against(
    reader: &mut Reader,
    word: &str,
    metric: &str,
    names: &Names<'_>,
) -> Result<Against, Fault> {
    let value = match reader.take("value") {
        None => None,
        Some(value) => Some(read_value(reader, metric, &value)?),
    };
    let to = Selector::read(reader, "to", names)?;
    let along = Selector::read_steps(reader, "along", names)?;
    let positive = |number: f64| number > 0.0;
    let factor = reader.number("factor", "a number above 0", positive)?;
    let needs = |key: &str, mend: &str| {
        Err(reader.contradiction("relation", format!("\"{word}\" needs '{key}'"), mend))
    };
    match (word, value, to, along) {
        ("repeatable", None, None, None) if factor.is_none() => Ok(Against::Itself),
        ("repeatable", ..) => needs(
            "tolerance",
            "write that and nothing else: a figure is held against its own repeats",
        ),
        ("rising" | "falling", None, None, Some(steps)) if factor.is_none() => {
            Ok(Against::Along(steps))
        }
        ("rising" | "falling", ..) => {
            needs("along", "write along = { layout = [\"a\", \"b\"] }, and nothing else")
        }
        (_, _, _, Some(_)) => Err(reader.contradiction(
            "along",
            "'along' goes with \"rising\" and \"falling\"",
            "leave it out, or write relation = \"rising\"",
        )),
        ("equal", None, Some(to), None) if factor.is_none() => {
            Ok(Against::Cells { to, factor: 1.0 })
        }
        ("equal", ..) => {
            needs("to", "write to = { ... }, and no 'factor'; or relation = \"about\"")
        }
        (_, Some(value), None, None) if factor.is_none() => Ok(Against::Value(value)),
        (_, None, Some(to), None) => Ok(Against::Cells { to, factor: factor.unwrap_or(1.0) }),
        (_, Some(_), None, None) => Err(reader.contradiction(
            "factor",
            "'factor' goes with 'to', not with 'value'",
            "leave it out and write the whole value",
        )),
        _ => Err(reader.contradiction(
            "value",
            "it needs either 'value' or 'to'",
            "write value = a number, or to = { ... } for other cells",
        )),
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
