//! An option's value as it is given, and what can be wrong with it.

use crate::figures::Each;
use crate::value::{Reading, TimeUnit, Wanted, flag};
use std::time::Duration;

/// What became of an option.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The value is none that the option takes.
    Bad(Wanted),
    /// fio takes this value; this program does not.
    Refused(&'static str),
    /// The option is of another file.
    Unknown,
}

impl From<Wanted> for Trouble {
    fn from(wanted: Wanted) -> Trouble {
        Trouble::Bad(wanted)
    }
}

/// An option's value while it is read.
#[derive(Clone, Copy)]
pub(super) struct Value<'a> {
    pub(super) text: Option<&'a str>,
    pub(super) reading: Reading<'a>,
}

impl<'a> Value<'a> {
    /// The text; an option without one is in error.
    pub(super) fn text(&self) -> Result<&'a str, Wanted> {
        self.text.filter(|text| !text.is_empty()).ok_or("a value")
    }

    pub(super) fn flag(&self) -> Result<bool, Wanted> {
        flag(self.text)
    }

    pub(super) fn size(&self) -> Result<u64, Wanted> {
        self.reading.size(self.text()?)
    }

    pub(super) fn number(&self) -> Result<u64, Wanted> {
        self.reading.number(self.text()?)
    }

    /// A number within limits.
    pub(super) fn number_in(&self, low: u64, high: u64, wanted: Wanted) -> Result<u64, Wanted> {
        let number = self.number()?;
        if (low..=high).contains(&number) { Ok(number) } else { Err(wanted) }
    }

    pub(super) fn time(&self, bare: TimeUnit) -> Result<Duration, Wanted> {
        self.reading.time(self.text()?, bare)
    }

    pub(super) fn percent(&self) -> Result<u32, Wanted> {
        crate::value::percent(self.text()?)
    }

    /// One of a few words.
    pub(super) fn one_of<T: Copy>(&self, words: &[(&str, T)], wanted: Wanted) -> Result<T, Wanted> {
        let text = self.text()?;
        words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or(wanted)
    }

    /// Values of the three directions, `read,write,trim`: one stands for all, of two the second for
    /// writes and trims; an empty one leaves what was.
    pub(super) fn each<T: Clone>(
        &self,
        into: &mut Each<T>,
        parse: impl Fn(&str) -> Result<T, Wanted>,
    ) -> Result<(), Wanted> {
        let text = self.text()?;
        let parts: Vec<&str> = text.split(',').map(str::trim).collect();
        if parts.len() > into.len() {
            return Err("at most three values: read,write,trim");
        }
        for (index, slot) in into.iter_mut().enumerate() {
            match parts.get(index).or(parts.last()) {
                Some(part) if !part.is_empty() => *slot = parse(part)?,
                _ => {}
            }
        }
        Ok(())
    }
}
