//! What each option of a job file means: from text to the fields of a [`Spec`].
//!
//! Three files hold the options by subject: `what` (direction, places, blocks, files), `when` (order,
//! time, rates, ends) and `content` (bytes, verification, figures). Each knows its options by name and
//! says of any other that it is not its own; what none of them knows is refused, by name.
//!
//! An option that fio takes and that changes nothing here is taken too, where ignoring it can't make a
//! figure mean something else; `docs/guide/fio.md` lists those.

mod content;
mod what;
mod when;

use super::error::{JobError, Place};
use super::figures::Each;
use super::ini::Written;
use super::names;
use super::spec::Spec;
use super::value::{Reading, TimeUnit, Wanted, flag};
use std::time::Duration;

/// What became of an option.
#[derive(Debug)]
enum Trouble {
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
struct Value<'a> {
    text: Option<&'a str>,
    reading: Reading<'a>,
}

impl<'a> Value<'a> {
    /// The text; an option without one is in error.
    fn text(&self) -> Result<&'a str, Wanted> {
        self.text.filter(|text| !text.is_empty()).ok_or("a value")
    }

    fn flag(&self) -> Result<bool, Wanted> {
        flag(self.text)
    }

    fn size(&self) -> Result<u64, Wanted> {
        self.reading.size(self.text()?)
    }

    fn number(&self) -> Result<u64, Wanted> {
        self.reading.number(self.text()?)
    }

    /// A number within limits.
    fn number_in(&self, low: u64, high: u64, wanted: Wanted) -> Result<u64, Wanted> {
        let number = self.number()?;
        if (low..=high).contains(&number) { Ok(number) } else { Err(wanted) }
    }

    fn time(&self, bare: TimeUnit) -> Result<Duration, Wanted> {
        self.reading.time(self.text()?, bare)
    }

    fn percent(&self) -> Result<u32, Wanted> {
        super::value::percent(self.text()?)
    }

    /// One of a few words.
    fn one_of<T: Copy>(&self, words: &[(&str, T)], wanted: Wanted) -> Result<T, Wanted> {
        let text = self.text()?;
        words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or(wanted)
    }

    /// Values of the three directions, `read,write,trim`: one stands for all, of two the second for
    /// writes and trims; an empty one leaves what was.
    fn each<T: Clone>(
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

/// Applies one option to a job.
///
/// # Errors
/// What is wrong with it, with its place.
pub(super) fn apply(spec: &mut Spec, written: &Written, reading: Reading) -> Result<(), JobError> {
    let name = names::canonical(&written.name);
    let place = || written.place.clone();
    if let Some(name) = &written.unset {
        return Err(JobError::NoVariable { place: place(), name: name.clone() });
    }
    let value = Value { text: written.value.as_deref(), reading };
    let mut outcome = Err(Trouble::Unknown);
    for group in [what::apply, when::apply, content::apply] {
        outcome = group(spec, &name, &value);
        if !matches!(outcome, Err(Trouble::Unknown)) {
            break;
        }
    }
    let text = || written.value.clone().unwrap_or_default();
    outcome.map_err(|trouble| match trouble {
        Trouble::Bad(wanted) => JobError::BadValue {
            place: place(),
            option: written.name.clone(),
            value: text(),
            wanted,
        },
        Trouble::Refused(why) => JobError::RefusedValue {
            place: place(),
            option: written.name.clone(),
            value: text(),
            why,
        },
        Trouble::Unknown => unknown(&name, &written.name, place()),
    })
}

fn unknown(name: &str, written: &str, place: Place) -> JobError {
    match names::refused(name) {
        Some(why) => JobError::RefusedOption { place, option: written.into(), why },
        None => {
            JobError::UnknownOption { place, option: written.into(), nearest: names::nearest(name) }
        }
    }
}

#[cfg(test)]
mod tests;
