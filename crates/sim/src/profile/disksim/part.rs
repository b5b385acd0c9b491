//! Blocks of parameter files, asked for their values: what is no number, no list or not there is said with file, line and key.

use super::syntax::{self, Block, Value};
use crate::profile::ProfileError;
use crate::profile::given::{Given, Origin};
use std::path::Path;

/// The file that `source NAME` names, beside another; or the one that is called like that other.
pub(super) fn named(beside: &Path, words: &str, ending: &str) -> std::path::PathBuf {
    let name = words.split_whitespace().last().unwrap_or_default().trim_matches('"');
    // Only its last part: it lies beside.
    let path = beside.with_file_name(Path::new(name).file_name().unwrap_or_default());
    if path.is_file() { path } else { beside.with_extension(ending) }
}

pub(super) fn read(path: &Path) -> Result<String, ProfileError> {
    let unreadable =
        |reason: String| ProfileError::Unreadable { file: path.display().to_string(), reason };
    std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))
}

/// A block with the name of its file.
pub(super) struct Part {
    pub(super) file: String,
    pub(super) block: Block,
}

impl Part {
    pub(super) fn open(path: &Path, kind: &str) -> Result<Part, ProfileError> {
        let file = path.display().to_string();
        let blocks = syntax::parse(&file, &read(path)?)?;
        match blocks.into_iter().find(|block| block.kind() == kind) {
            Some(block) => Ok(Part { file, block }),
            None => Err(ProfileError::Wrong {
                file,
                line: 1,
                key: "profile".to_owned(),
                mend: format!("there is no {kind} in it"),
            }),
        }
    }

    pub(super) fn wrong(&self, key: &str, mend: &str) -> ProfileError {
        let line = self.block.get(key).map_or(1, |(line, _)| line);
        let (file, key) = (self.file.clone(), key.to_owned());
        ProfileError::Wrong { file, line, key, mend: mend.to_owned() }
    }

    pub(super) fn part(&self, key: &str) -> Result<Part, ProfileError> {
        match self.block.get(key) {
            Some((_, Value::Block(block))) => {
                Ok(Part { file: self.file.clone(), block: block.clone() })
            }
            _ => Err(self.wrong(key, "write a block")),
        }
    }

    pub(super) fn number(&self, key: &str) -> Result<f64, ProfileError> {
        match self.block.get(key) {
            Some((_, Value::Number(number))) if number.is_finite() => Ok(*number),
            _ => Err(self.wrong(key, "write a number")),
        }
    }

    pub(super) fn number_or(&self, key: &str, otherwise: f64) -> Result<f64, ProfileError> {
        if self.block.get(key).is_some() { self.number(key) } else { Ok(otherwise) }
    }

    /// A whole number from 0 to 2⁴⁰.
    pub(super) fn whole(&self, key: &str) -> Result<u64, ProfileError> {
        let number = self.number(key)?;
        let sane = number.fract() == 0.0 && (0.0..=1_099_511_627_776.0).contains(&number);
        if sane { Ok(number as u64) } else { Err(self.wrong(key, "write a whole number")) }
    }

    pub(super) fn whole_or(&self, key: &str, otherwise: u64) -> Result<u64, ProfileError> {
        if self.block.get(key).is_some() { self.whole(key) } else { Ok(otherwise) }
    }

    pub(super) fn numbers(&self, key: &str) -> Result<Vec<f64>, ProfileError> {
        let Some((_, value)) = self.block.get(key) else { return Ok(Vec::new()) };
        let number = |value: &Value| match value {
            Value::Number(number) if number.is_finite() => Some(*number),
            _ => None,
        };
        let numbers = match value {
            Value::List(list) => list.iter().map(number).collect(),
            _ => None,
        };
        numbers.ok_or_else(|| self.wrong(key, "write a list of numbers"))
    }

    pub(super) fn places(&self, key: &str) -> Result<Vec<u64>, ProfileError> {
        let numbers = self.numbers(key)?;
        let sane = numbers.iter().all(|n| n.fract() == 0.0 && (0.0..1e12).contains(n));
        if !sane {
            return Err(self.wrong(key, "write whole numbers"));
        }
        Ok(numbers.into_iter().map(|number| number as u64).collect())
    }

    pub(super) fn word(&self, key: &str) -> &str {
        match self.block.get(key) {
            Some((_, Value::Word(word))) => word,
            _ => "",
        }
    }

    pub(super) fn source<T>(&self, key: &str, value: T) -> Given<T> {
        let file = Path::new(&self.file).file_name().unwrap_or_default().to_string_lossy();
        Given::of(value, Origin::Source(format!("{file}: {key}")))
    }
}
