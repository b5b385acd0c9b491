//! Who takes no part in a set, and whether it is started without them.
//!
//! As with mdadm a set that had more members when it was used last is not started unless that is asked for. Where too few
//! are left, the freshest of those that failed can be taken back.

use super::name;
use crate::error::Error;
use crate::event::{Event, Events};
use ::md::assemble::{Accepted, Choice};
use std::path::Path;

/// Takes back the freshest of the members that failed, where too few are left, to look.
pub fn take_back(events: &Events, choice: &mut Choice) {
    choice.accept_stale();
    tell_taken_back(events, choice, false);
}

/// Tells who was taken back of those that failed; that it is written down, which wants to be told when it is, or that it is only looked at.
pub fn tell_taken_back(events: &Events, choice: &Choice, writes: bool) {
    for Accepted { name, slot, events: own, of } in &choice.accepted {
        let (device, slot, own, of) = (name.clone(), *slot, *own, *of);
        events.tell(Event::TakenBack { device, slot, events: own, of, writes });
    }
}

/// Tells who takes no part, and why.
pub fn tell_left_out(events: &Events, choice: &Choice) {
    tell_apart(events, choice);
    let apart: Vec<String> = choice.apart().iter().map(|(left, _)| left.found.name()).collect();
    for left in choice.left_out.iter().filter(|left| !apart.contains(&left.found.name())) {
        events.tell(Event::LeftOut { device: left.found.name(), why: left.why });
    }
    if choice.lacks_journal() {
        events.tell(Event::NoJournal);
    }
}

/// Tells who went on without those that take part, and who is of another history.
pub fn tell_apart(events: &Events, choice: &Choice) {
    if let Some(histories) = choice.histories() {
        events.tell(Event::Histories { histories });
    }
    let apart = choice.apart();
    // All went on without the same: the freshest of those that take part.
    let Some((_, member)) = apart.first() else { return };
    let member = member.name();
    let devices = apart.iter().map(|(left, _)| left.found.name()).collect();
    let newest = apart.iter().map(|(left, _)| left.found.superblock.events()).max();
    let behind = choice.facts.events().saturating_sub(newest.unwrap_or_default());
    events.tell(Event::WentOn { devices, member, behind });
}

/// Refuses a set whose members are of copies of it that were used apart.
///
/// # Errors
/// Names both sides.
pub fn refuse_histories(choice: &Choice) -> Result<(), Error> {
    let set = name::shown(choice);
    choice.histories().map_or(Ok(()), |histories| Err(Error::Histories { set, histories }))
}

/// Why something at a path can't be said to have failed: no device of the set works there.
pub fn not_working(path: &Path) -> Error {
    let path = path.to_owned();
    if path.exists() { Error::NotWorking { path } } else { Error::NoMember { path } }
}

/// Refuses a set that lacks members that it had when it was used last, as mdadm does without `--run`, or lacks more than
/// it can do without.
///
/// # Errors
/// Says how many are there.
pub fn refuse_lacking(choice: &Choice) -> Result<(), Error> {
    refuse_lacking_beside(choice, 0)
}

/// The same, where so many members are just being brought.
///
/// # Errors
/// As [`refuse_lacking`].
pub fn refuse_lacking_beside(choice: &Choice, brought: usize) -> Result<(), Error> {
    let named = |error| Error::from(error).naming(choice.set, &name::shown(choice));
    choice.check_enough().map_err(named)?;
    let expected = choice.expected();
    let there = (0..choice.slots.len()).filter(|slot| choice.member(*slot).is_some()).count();
    if there + brought >= expected {
        return Ok(());
    }
    Err(Error::Lacking { set: name::shown(choice), there, expected })
}
