//! What a study varies: factors and their levels.

use super::error::{Fault, Path, Problem as P, suggest};
use std::collections::BTreeMap;
use std::fmt;
use toml::{Table, Value};

/// One value of a factor.
#[derive(Clone, Debug, PartialEq)]
pub enum Level {
    /// A word.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A broken number.
    Real(f64),
    /// Yes or no.
    Switch(bool),
}

/// Something that the study varies.
#[derive(Clone, Debug, PartialEq)]
pub struct Factor {
    /// Its name.
    pub name: String,
    /// Its levels in this run, in the study's order.
    pub levels: Vec<Level>,
    /// Its levels in the study's file, of which `--set factor.NAME=...` may take some.
    pub levels_in_file: Vec<Level>,
    /// Keys of `[machine]` that a level changes, by the level as text; for the target to read.
    pub settings: BTreeMap<String, Table>,
    /// A command of the shell that the target runs before each run of a cell with this level.
    pub before: BTreeMap<String, String>,
    /// A command that the target runs when the study is over, to undo what `before` did.
    pub after: Option<String>,
}

impl Level {
    /// The level that a TOML value stands for.
    pub(crate) fn of(value: &Value) -> Option<Level> {
        match value {
            Value::String(text) => Some(Level::Text(text.clone())),
            Value::Integer(number) => Some(Level::Integer(*number)),
            Value::Float(number) if number.is_finite() => Some(Level::Real(*number)),
            Value::Boolean(switch) => Some(Level::Switch(*switch)),
            _ => None,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Level::Text(text) => f.write_str(text),
            Level::Integer(number) => number.fmt(f),
            Level::Real(number) => number.fmt(f),
            Level::Switch(switch) => switch.fmt(f),
        }
    }
}

impl Factor {
    /// The level that a value names, or a fault that says which there are.
    pub(super) fn level_named(
        &self,
        value: &Value,
        path: &Path,
        within: &str,
    ) -> Result<Level, Fault> {
        let level = Level::of(value).map(|level| level.to_string());
        let text = level.unwrap_or_else(|| super::reader::shown(value));
        let known = self.levels_in_file.iter().find(|level| level.to_string() == text);
        known.cloned().ok_or_else(|| {
            let texts: Vec<String> = self.levels_in_file.iter().map(Level::to_string).collect();
            Fault::new(
                path.clone(),
                P::UnknownName {
                    what: "level".to_owned(),
                    mend: suggest(&text, texts.iter().map(String::as_str)),
                    name: text,
                    within: within.to_owned(),
                    scope: format!("factor '{}'", self.name),
                },
            )
        })
    }
}

/// The factor of this name, or a fault that says which there are.
pub(super) fn factor_named<'a>(
    factors: &'a [Factor],
    name: &str,
    path: &Path,
    within: &str,
) -> Result<&'a Factor, Fault> {
    factors.iter().find(|factor| factor.name == name).ok_or_else(|| {
        Fault::new(
            path.clone(),
            P::UnknownName {
                what: "factor".to_owned(),
                name: name.to_owned(),
                within: within.to_owned(),
                scope: "the study".to_owned(),
                mend: suggest(name, factors.iter().map(|factor| factor.name.as_str())),
            },
        )
    })
}
