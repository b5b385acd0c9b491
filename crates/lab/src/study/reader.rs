//! Reads a TOML table key by key, so that every refusal can name the key, the table and the mend.
//!
//! serde would stop at "unknown field, expected one of" with neither a place nor a suggestion, and
//! it can't read a table in which `--set` has replaced a value. Here a key is known because
//! something asked for it: [`Reader::finish`] refuses what nobody took, so a key can't be documented
//! and unread, or read and refused.

use super::error::{Fault, Path, Problem, suggest};
use crate::duration;
use std::ops::RangeInclusive;
use std::time::Duration;
use stdx::ByteCount;
use toml::{Table, Value};

/// How much of a wrong value an error shows, in characters.
const VALUE_SHOWN_MAX: usize = 60;

/// A table that is being read.
pub(crate) struct Reader {
    table: Table,
    path: Path,
    within: String,
    asked: Vec<&'static str>,
}

impl Reader {
    /// Reads `table`, which lies at `path` and is called `within` in errors (`workload 'random'`).
    pub(crate) fn new(table: Table, path: Path, within: impl Into<String>) -> Reader {
        Reader { table, path, within: within.into(), asked: Vec::new() }
    }

    /// Where this table lies.
    pub(crate) fn here(&self) -> &Path {
        &self.path
    }

    /// Where a key of this table lies.
    pub(crate) fn path(&self, key: &str) -> Path {
        self.path.key(key)
    }

    /// Calls the table by a better name, now that it is known.
    pub(crate) fn call(&mut self, within: impl Into<String>) {
        self.within = within.into();
    }

    /// What the table is called.
    pub(crate) fn within(&self) -> &str {
        &self.within
    }

    /// The value of a key, whatever it is.
    pub(crate) fn take(&mut self, key: &'static str) -> Option<Value> {
        self.knows(&[key]);
        self.table.remove(key)
    }

    /// Keys that may stand here, be they read here or by someone before.
    pub(crate) fn knows(&mut self, keys: &[&'static str]) {
        for key in keys {
            if !self.asked.contains(key) {
                self.asked.push(key);
            }
        }
    }

    /// Whether a key that is not read yet is there.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// All that is not read yet; nothing is left.
    pub(crate) fn take_rest(&mut self) -> Table {
        std::mem::take(&mut self.table)
    }

    /// "The key is this; it must be that."
    pub(crate) fn bad(&self, key: &str, value: &Value, expected: impl Into<String>) -> Fault {
        Fault::new(
            self.path(key),
            Problem::BadValue {
                key: key.to_owned(),
                within: self.within.clone(),
                value: shown(value),
                expected: expected.into(),
            },
        )
    }

    /// "The table has no such key; write this."
    pub(crate) fn missing(&self, key: &str, mend: impl Into<String>) -> Fault {
        Fault::new(
            self.path.clone(),
            Problem::MissingKey {
                key: key.to_owned(),
                within: self.within.clone(),
                mend: mend.into(),
            },
        )
    }

    /// "This and that do not go together; do this."
    pub(crate) fn contradiction(
        &self,
        key: &str,
        why: impl Into<String>,
        mend: impl Into<String>,
    ) -> Fault {
        Fault::new(
            self.path(key),
            Problem::Contradiction {
                what: self.within.clone(),
                why: why.into(),
                mend: mend.into(),
            },
        )
    }

    /// A text.
    pub(crate) fn text(&mut self, key: &'static str) -> Result<Option<String>, Fault> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(value) => Err(self.bad(key, &value, "a text in quotation marks")),
        }
    }

    /// A text that must be there.
    pub(crate) fn required_text(&mut self, key: &'static str, mend: &str) -> Result<String, Fault> {
        self.text(key)?.ok_or_else(|| self.missing(key, mend))
    }

    /// A whole number within limits.
    pub(crate) fn whole(
        &mut self,
        key: &'static str,
        limits: RangeInclusive<u64>,
    ) -> Result<Option<u64>, Fault> {
        let Some(value) = self.take(key) else { return Ok(None) };
        match value.as_integer().and_then(|number| u64::try_from(number).ok()) {
            Some(number) if limits.contains(&number) => Ok(Some(number)),
            _ => {
                let expected =
                    format!("a whole number from {} to {}", limits.start(), limits.end());
                Err(self.bad(key, &value, expected))
            }
        }
    }

    /// A whole number within limits, as 32 bits.
    pub(crate) fn count(
        &mut self,
        key: &'static str,
        limits: RangeInclusive<u32>,
    ) -> Result<Option<u32>, Fault> {
        let limits = u64::from(*limits.start())..=u64::from(*limits.end());
        let count = self.whole(key, limits)?;
        Ok(count.map(|count| u32::try_from(count).expect("the limits are of 32 bits")))
    }

    /// A number that `fits`, which `expected` says in words.
    pub(crate) fn number(
        &mut self,
        key: &'static str,
        expected: &str,
        fits: impl Fn(f64) -> bool,
    ) -> Result<Option<f64>, Fault> {
        let Some(value) = self.take(key) else { return Ok(None) };
        match as_number(&value) {
            Some(number) if number.is_finite() && fits(number) => Ok(Some(number)),
            _ => Err(self.bad(key, &value, expected)),
        }
    }

    /// A size such as `"64k"`, not 0.
    pub(crate) fn size(&mut self, key: &'static str) -> Result<Option<ByteCount>, Fault> {
        let Some(value) = self.take(key) else { return Ok(None) };
        match as_size(&value) {
            Some(size) if !size.is_zero() => Ok(Some(size)),
            _ => Err(self.bad(key, &value, "a size above 0 such as \"64k\"")),
        }
    }

    /// A span of time such as `"500ms"`, not 0.
    pub(crate) fn span(&mut self, key: &'static str) -> Result<Option<Duration>, Fault> {
        let Some(value) = self.take(key) else { return Ok(None) };
        match value.as_str().map(duration::parse) {
            Some(Ok(span)) if !span.is_zero() => Ok(Some(span)),
            _ => Err(self.bad(key, &value, "a span of time above 0 such as \"500ms\" or \"2m\"")),
        }
    }

    /// One of several words.
    pub(crate) fn choice<T: Copy>(
        &mut self,
        key: &'static str,
        choices: &[(&str, T)],
    ) -> Result<Option<T>, Fault> {
        let Some(value) = self.take(key) else { return Ok(None) };
        match choices.iter().find(|(word, _)| value.as_str() == Some(*word)) {
            Some((_, choice)) => Ok(Some(*choice)),
            None => {
                let words: Vec<String> =
                    choices.iter().map(|(word, _)| format!("\"{word}\"")).collect();
                Err(self.bad(key, &value, words.join(" or ")))
            }
        }
    }

    /// A table, as it is.
    pub(crate) fn table(&mut self, key: &'static str) -> Result<Option<Table>, Fault> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Table(table)) => Ok(Some(table)),
            Some(value) => Err(self.bad(key, &value, format!("a table: [{key}]"))),
        }
    }

    /// A table, to be read key by key.
    pub(crate) fn reader(
        &mut self,
        key: &'static str,
        within: impl Into<String>,
    ) -> Result<Option<Reader>, Fault> {
        let path = self.path(key);
        Ok(self.table(key)?.map(|table| Reader::new(table, path, within)))
    }

    /// Whether the value of a key that is not read yet is a list.
    pub(crate) fn is_list(&self, key: &str) -> bool {
        self.table.get(key).is_some_and(Value::is_array)
    }

    /// A list of tables (`[[key]]`), each to be read key by key and called `kind n`.
    pub(crate) fn readers(&mut self, key: &'static str, kind: &str) -> Result<Vec<Reader>, Fault> {
        let path = self.path(key);
        let expected = format!("a list of tables: [[{key}]]");
        let items = match self.take(key) {
            None => return Ok(Vec::new()),
            Some(Value::Array(items)) => items,
            Some(value) => return Err(self.bad(key, &value, expected)),
        };
        let mut readers = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            match item {
                Value::Table(table) => readers.push(Reader::new(
                    table,
                    path.index(index),
                    format!("{kind} {}", index + 1),
                )),
                value => return Err(self.bad(key, &value, expected)),
            }
        }
        Ok(readers)
    }

    /// Refuses the keys that nobody asked for.
    pub(crate) fn finish(self) -> Result<(), Fault> {
        match self.table.keys().next() {
            None => Ok(()),
            Some(key) => Err(Fault::new(
                self.path.key(key),
                Problem::UnknownKey {
                    key: key.clone(),
                    within: self.within,
                    mend: suggest(key, self.asked),
                },
            )),
        }
    }
}

/// A whole or broken number.
pub(crate) fn as_number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|number| number as f64))
}

/// A size: a text such as `"64k"`, or a number of bytes.
pub(crate) fn as_size(value: &Value) -> Option<ByteCount> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Integer(bytes) => u64::try_from(*bytes).ok().map(ByteCount),
        _ => None,
    }
}

/// A size as a study writes it, in the largest unit that divides it: `4k`, `256m`, `512`.
pub fn size_text(size: ByteCount) -> String {
    let bytes = size.bytes();
    let units = [(stdx::TIB, "t"), (stdx::GIB, "g"), (stdx::MIB, "m"), (stdx::KIB, "k")];
    match units.into_iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", bytes / unit),
        None => bytes.to_string(),
    }
}

/// A value in one line, cut short.
pub(crate) fn shown(value: &Value) -> String {
    let text = match value {
        Value::Table(_) => "a table".to_owned(),
        value => value.to_string().split_whitespace().collect::<Vec<_>>().join(" "),
    };
    if text.chars().count() <= VALUE_SHOWN_MAX {
        return text;
    }
    text.chars().take(VALUE_SHOWN_MAX).chain(['…']).collect()
}

/// Names stand in the names of cells, where these signs part them, and in file names of plots.
pub(super) fn check_name(reader: &Reader, key: &str, name: &str) -> Result<(), Fault> {
    let barred = |c: char| "/,=*?\"'".contains(c) || c.is_control();
    if !name.is_empty() && name.trim() == name && !name.contains(barred) {
        return Ok(());
    }
    let value = Value::String(name.to_owned());
    Err(reader.bad(key, &value, "a name without any of / , = * ? and quotation marks"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(text: &str) -> Reader {
        Reader::new(text.parse().expect("a table"), Path::default(), "the study")
    }

    #[test]
    fn what_nobody_asked_for_is_refused_with_the_name_that_was_meant() {
        let mut reader = reader("repeat = 3");
        assert_eq!(reader.whole("repeats", 1..=9), Ok(None));
        let fault = reader.finish().expect_err("'repeat' is unknown");
        assert_eq!(
            fault.problem.to_string(),
            "unknown key 'repeat' in the study; did you mean 'repeats'?"
        );
    }

    #[test]
    fn a_wrong_value_is_shown_beside_what_it_could_be() {
        let problem = |text: &str, read: &dyn Fn(&mut Reader) -> Option<Fault>| {
            read(&mut reader(text)).expect("it is wrong").problem.to_string()
        };
        for (text, expected) in [
            ("x = -1", "'x' in the study is -1; it must be a whole number from 1 to 9"),
            ("x = \"a\"", "'x' in the study is \"a\"; it must be a whole number from 1 to 9"),
            ("x = 10", "'x' in the study is 10; it must be a whole number from 1 to 9"),
        ] {
            assert_eq!(problem(text, &|reader| reader.whole("x", 1..=9).err()), expected);
        }
        assert_eq!(
            problem("x = \"4q\"", &|reader| reader.size("x").err()),
            "'x' in the study is \"4q\"; it must be a size above 0 such as \"64k\""
        );
        assert_eq!(
            problem("x = 5", &|reader| reader.span("x").err()),
            "'x' in the study is 5; it must be a span of time above 0 such as \"500ms\" or \"2m\""
        );
        assert_eq!(
            problem("x = \"up\"", &|reader| reader.choice("x", &[("read", 1), ("write", 2)]).err()),
            "'x' in the study is \"up\"; it must be \"read\" or \"write\""
        );
    }

    #[test]
    fn sizes_are_written_in_the_largest_unit_that_divides_them() {
        for (bytes, text) in
            [(0, "0"), (512, "512"), (4096, "4k"), (3 << 20, "3m"), (1 << 40, "1t")]
        {
            assert_eq!(size_text(ByteCount(bytes)), text);
        }
    }
}
