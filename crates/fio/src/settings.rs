//! What each option of a job file means: from text to the fields of a [`Spec`].
//!
//! Three files hold the options by subject: `what` (direction, places, blocks, files), `when` (order,
//! time, rates, ends) and `content` (bytes, verification, figures). Each knows its options by name and
//! says of any other that it is not its own; what none of them knows is refused, by name.
//!
//! An option that fio takes and that changes nothing here is taken too, where ignoring it can't make a
//! figure mean something else; `docs/guide/fio.md` lists those.

mod content;
mod given;
mod what;
mod when;

use super::error::JobError;
use super::ini::Written;
use super::names;
use super::spec::Spec;
use super::value::Reading;
use given::{Trouble, Value};

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
        Trouble::Unknown => names::refusal(&name, &written.name, place()),
    })
}

#[cfg(test)]
mod tests;
