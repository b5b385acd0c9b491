//! What the superblocks of one set must agree about. This is the one place that lists it.
//!
//! Every superblock tells of the whole set, and a set is written by what one of them says. One that says something else
//! with a right checksum (a tool that went wrong, a device of another set that got this one's UUID, a bit that tipped
//! before the checksum was made) would have all content read at the wrong places, and the next write would copy it to
//! the others. So nothing is opened, for reading or for writing, before all agree whose superblocks count.
//!
//! [`SHAPE`] and [`STATE`] are the list, and say how widely each fact is shared:
//!
//! * *By all*: it never changes while a set lives. A device that differs is none of this set, however old it is.
//! * *By the fresh*: those whose events count. What a set may become while it lives is left out of this.
//! * *By equals*: those with the same number of events. A set is changed by superblocks with another number of events,
//!   written one after another, so between two of these it may be cut off. What differs then must be *one step* of a
//!   set's life ([`is_step`]): a larger size, more mirrors, a bitmap that came or went, a reshape that began, moved on or
//!   ended, a device that came, failed or went.
//!
//! Who is older than that is left out as old, and compared no more: it may be of before a reshape.
//!
//! **Who is the odd one** is said by a majority of those that are compared. Where there is none, as with two devices,
//! both sides are named, and nothing chooses: a person does, who takes one side alone. Force does not change that: it
//! accepts what is lost, and this would be content that was never there.
//!
//! **Not compared**: the set's name, which mdadm changes on one device after another and which says nothing of the
//! content. What a device says of itself: where its data begins and how much of it is right. And below which sector
//! parity is right: spares may be written less often; the lowest that a member of the latest events says counts
//! ([`Superblock::heed_resync`]).
//!
//! Source: mdadm `super1.c`, `super0.c` (`compare_super1`, `compare_super0`: creation time, level, layout, size, chunk,
//! number of disks, of all devices), Linux `drivers/md/md.c` (`super_1_load`: version, UUID and creation time of all;
//! `super_1_validate` takes the rest from the freshest, and believes it).

use super::choice::{EVENTS_BEHIND_MAX, cut_short};
use super::error::AssembleError;
use super::facts::{Superblock, level_of};
use super::found::Found;
use crate::superblock::{Features, Role, SECTOR, Uuid};
use std::collections::BTreeMap;

/// How widely a fact is shared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Among {
    All,
    Fresh,
    Equals,
}

/// A fact about the set: its name, who must agree about it, and what a superblock says of it. Two that say the same text
/// agree. The numbers are those of the devices that are compared.
type Fact = (&'static str, Among, fn(&Superblock, &[u32]) -> String);

/// What makes the shape of a set, so that content that was written by one superblock is read by another.
const SHAPE: [Fact; 7] = [
    ("metadata version", Among::All, |own, _| own.version().to_string()),
    ("creation time", Among::All, |own, _| match own {
        Superblock::V1(sb) => {
            format!("{} s {} us", sb.created.seconds(), sb.created.microseconds())
        }
        Superblock::V090(sb) => format!("{} s", sb.created_s),
    }),
    ("level", Among::Fresh, |own, _| {
        level_of(own.level()).map_or_else(|name| name, |level| level.to_string())
    }),
    ("chunk", Among::Equals, |own, _| bytes(own.chunk())),
    ("layout", Among::Equals, |own, _| {
        own.layout().map_or("unsaid".to_owned(), |layout| layout.to_string())
    }),
    ("number of slots", Among::Equals, |own, _| own.slots().to_string()),
    ("size of each member", Among::Equals, |own, _| bytes(own.size())),
];

/// What state it is in.
const STATE: [Fact; 4] = [
    ("reshape", Among::Equals, |own, _| match own.reshape() {
        None => "none".to_owned(),
        Some(to) => {
            let (before, after, at) = (to.slots_before, own.slots(), to.position);
            let way = if to.backwards { "backwards" } else { "forwards" };
            let (level, layout, chunk) = (to.level, to.layout, bytes(to.chunk));
            format!(
                "{before} to {after} slots, to level {level}, layout {layout}, chunk {chunk}, {way} at sector {at}"
            )
        }
    }),
    ("consistency policy", Among::Equals, |own, _| policy(own)),
    ("write-intent bitmap's place", Among::Equals, |own, _| match own {
        Superblock::V1(sb) => sb.bitmap_offset().map_or("none".to_owned(), |at| at.to_string()),
        Superblock::V090(_) => "behind the superblock".to_owned(),
    }),
    ("table of roles", Among::Equals, roles),
];

/// Sectors as bytes, not rounded: what differs must be seen.
fn bytes(sectors: u64) -> String {
    let bytes = u128::from(sectors) * u128::from(SECTOR);
    if bytes.is_multiple_of(1024) {
        format!("{} KiB", bytes / 1024)
    } else {
        format!("{bytes} bytes")
    }
}

fn policy(own: &Superblock) -> String {
    let features = own.features();
    let mut words = Vec::new();
    for (is_kept, word) in [
        (features.has(Features::BITMAP), "bitmap"),
        (features.has_ppl(), "ppl"),
        (features.has(Features::JOURNAL), "journal"),
    ] {
        words.extend(is_kept.then_some(word));
    }
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

/// Who holds which slot, of the devices that are compared. (Tables may have entries of nobody in different words, and
/// may be of different lengths.)
fn roles(own: &Superblock, numbers: &[u32]) -> String {
    let role = |number: &u32| match own.role_of(*number) {
        Some(Role::Slot(slot)) => format!("{number} in slot {slot}"),
        Some(Role::Journal) => format!("{number} the journal"),
        Some(Role::Spare | Role::Faulty) | None => format!("{number} in none"),
    };
    let each: Vec<String> = numbers.iter().map(role).collect();
    format!("device {}", each.join(", "))
}

/// Refuses devices of a set whose superblocks contradict each other. `facts` is the superblock that counts.
///
/// # Errors
/// Names the odd one, or both sides.
pub(super) fn check(set: Uuid, facts: &Superblock, devices: &[Found]) -> Result<(), AssembleError> {
    let latest = facts.events();
    let events = |found: &Found| found.superblock.events();
    // A journal is written before any member names it: until then it takes no part. Nor does what is cut short.
    let is_named = |found: &Found| {
        let number = found.superblock.device_number();
        found.superblock.role() != Some(Role::Journal)
            || facts.role_of(number) == Some(Role::Journal)
    };
    let is_fresh = |found: &&Found| {
        cut_short(found).is_none()
            && is_named(found)
            && latest.saturating_sub(events(found)) <= EVENTS_BEHIND_MAX
    };
    let all: Vec<&Found> = devices.iter().collect();
    let fresh: Vec<&Found> = devices.iter().filter(is_fresh).collect();
    // A spare may say that it is newer than all members.
    let (equals, behind): (Vec<&Found>, Vec<&Found>) =
        fresh.iter().copied().partition(|found| events(found) >= latest);
    let numbers: Vec<u32> = equals.iter().map(|found| found.superblock.device_number()).collect();
    let facts_compared = || SHAPE.iter().chain(&STATE);
    for fact in facts_compared() {
        let group = match fact.1 {
            Among::All => &all,
            Among::Fresh => &fresh,
            Among::Equals => &equals,
        };
        agree(set, fact, group, &numbers)?;
    }
    for found in behind {
        if !is_step(&found.superblock, facts) {
            // What differs is named by all that count.
            for fact in facts_compared() {
                agree(set, fact, &fresh, &numbers)?;
            }
        }
    }
    Ok(())
}

/// Whether two superblocks of a set say the same of everything that makes its shape, so that the content of one can be
/// read by what the other says.
pub(crate) fn is_same_shape(one: &Superblock, other: &Superblock) -> bool {
    let same = |(_, _, says): &Fact| says(one, &[]) == says(other, &[]);
    one.set_uuid() == other.set_uuid() && SHAPE.iter().all(same)
}

/// Whether all of a group say the same.
fn agree(
    set: Uuid,
    (name, _, says): &Fact,
    group: &[&Found],
    numbers: &[u32],
) -> Result<(), AssembleError> {
    let mut sides: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for found in group {
        sides.entry(says(&found.superblock, numbers)).or_default().push(found.name());
    }
    let largest = sides.iter().max_by_key(|(_, names)| names.len());
    let Some((said, most)) = largest.map(|(said, names)| (said.clone(), names.clone())) else {
        return Ok(());
    };
    sides.remove(&said);
    if sides.is_empty() {
        return Ok(());
    }
    let is_majority = most.len() * 2 > group.len();
    let odd = sides.into_iter().collect();
    Err(AssembleError::Contradiction { set, fact: name, odd, most, said, is_majority })
}

/// Whether what two superblocks say differs by no more than one step of a set's life, whose writing was cut off. Level,
/// version and creation time were compared.
fn is_step(older: &Superblock, newer: &Superblock) -> bool {
    let form = |one: &Superblock| (one.layout(), one.chunk());
    match (older.reshape(), newer.reshape()) {
        (None, None) => {
            let grew = newer.size() > older.size() && newer.resync_offset() <= older.size();
            let mirrors = newer.level() == 1;
            form(older) == form(newer)
                && (older.slots() == newer.slots() || mirrors)
                && (older.size() == newer.size() || grew)
        }
        (Some(one), Some(other)) => {
            let plan = |sb: &Superblock, to: &super::ReshapeFacts| {
                let after = (to.level, to.layout, to.chunk, to.backwards);
                (form(sb), sb.slots(), sb.size(), to.slots_before, after)
            };
            let (from, to) = (one.position, other.position);
            plan(older, &one) == plan(newer, &other)
                && if one.backwards { to <= from } else { from <= to }
        }
        (Some(reshape), None) => begins_or_ends(newer, older, &reshape),
        (None, Some(reshape)) => begins_or_ends(older, newer, &reshape),
    }
}

/// Whether a reshape leads from or to a set at rest. (Its beginning and end may be written with less events: see
/// `grow::pages`.)
fn begins_or_ends(rest: &Superblock, moves: &Superblock, reshape: &super::ReshapeFacts) -> bool {
    let form = |one: &Superblock| (one.layout(), one.chunk(), one.slots());
    let nothing_moved = reshape.backwards || reshape.position == 0;
    let begins =
        nothing_moved && form(rest) == (moves.layout(), moves.chunk(), reshape.slots_before);
    let ends = form(rest) == (Some(reshape.layout), reshape.chunk, moves.slots());
    rest.size() == moves.size() && (begins || ends)
}

impl Superblock {
    /// Takes the place below which parity is right from members with as many events, where theirs is lower: to make
    /// right what is right costs time only.
    pub(super) fn heed_resync<'a>(&mut self, members: impl Iterator<Item = &'a Found>) {
        let events = self.events();
        let same = members.filter(|found| found.superblock.events() == events);
        let lowest = same.map(|found| found.superblock.resync_offset()).min();
        if let (Superblock::V1(own), Some(lowest)) = (self, lowest) {
            own.resync_offset = own.resync_offset.min(lowest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_by_little_is_told_in_full() {
        assert_eq!(bytes(128), "64 KiB");
        assert_eq!(bytes(129_023), "66059776 bytes");
        assert_eq!(bytes(u64::MAX), "9444732965739290426880 bytes");
    }
}
