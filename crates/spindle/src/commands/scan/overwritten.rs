//! What may be part of something, and does not say so any more: what was written at its start was written over.
//!
//! Its size tells. More can only be tried, on a copy.

use super::seen::Scan;
use crate::printable;
use attach::survey::{GroupSeen, Holds, Place, SetSeen};
use std::collections::BTreeSet;

/// Where it is told what can be tried.
const GUIDE: &str = "the guide's page \"My NAS died\" says what can be tried";

/// Whether it says nothing of itself.
fn is_silent(place: &Place) -> bool {
    matches!(place.holds, Holds::Unknown | Holds::Nothing)
}

/// `a is`, `a, b are`; nothing for none.
fn are(names: &[String]) -> Option<String> {
    let verb = if names.len() == 1 { "is" } else { "are" };
    (!names.is_empty()).then(|| format!("{} {verb}", names.join(", ")))
}

fn shown(place: &Place) -> String {
    printable::word(&place.name).into_owned()
}

impl Scan {
    /// The devices and their partitions.
    fn places(&self) -> impl Iterator<Item = &Place> {
        self.survey.devices.iter().flat_map(|place| std::iter::once(place).chain(&place.parts))
    }

    /// Devices that may be members of a set although their superblocks don't say so.
    pub fn may_be_members(&self, set: &SetSeen) -> Option<String> {
        let is_of = |place: &&Place| matches!(&place.holds, Holds::Member(of) if *of == set.name);
        let sizes: BTreeSet<u64> =
            self.places().filter(is_of).map(|place| place.size.bytes()).collect();
        let may_be =
            self.places().filter(|place| is_silent(place) && sizes.contains(&place.size.bytes()));
        let are = are(&may_be.map(shown).collect::<Vec<_>>())?;
        Some(format!(
            "{are} as large as its members, and without a superblock: {GUIDE} where it was overwritten"
        ))
    }

    /// Devices, partitions and RAID sets that may be physical volumes that a group lacks although they have no label: a line for each that
    /// is missing.
    pub fn may_be_physical(&self, group: &GroupSeen) -> Vec<String> {
        let sets = self.survey.sets.iter().filter_map(|set| set.place.as_ref().ok());
        let on_sets = sets.flat_map(|place| std::iter::once(place).chain(&place.parts));
        let silent: Vec<&Place> =
            self.places().chain(on_sets).filter(|place| is_silent(place)).collect();
        let line = |(id, sizes): &(String, std::ops::RangeInclusive<u64>)| {
            let may_be = silent.iter().filter(|place| sizes.contains(&place.size.bytes()));
            let are = are(&may_be.map(|place| shown(place)).collect::<Vec<_>>())?;
            Some(format!(
                "{are} as large as the one with UUID {id} was, and without a label: {GUIDE} where it was overwritten (on a copy, lvm pvcreate \
                 --uuid)"
            ))
        };
        group.missing.iter().filter_map(line).collect()
    }

    /// A disk that is divided, where one that is not known to hold anything may have been divided alike.
    pub fn divided_like(&self, place: &Place) -> Option<String> {
        let is_whole = self.survey.devices.iter().any(|one| one.name == place.name);
        if !is_whole || !is_silent(place) {
            return None;
        }
        let alike = self.survey.devices.iter().filter(|one| one.size == place.size);
        let mut divided = alike.filter_map(|one| match one.holds {
            Holds::Partitions(form) => Some((shown(one), form)),
            _ => None,
        });
        let (other, form) = divided.next()?;
        Some(format!(
            "as large as {other}, which has a partition table ({form}): {GUIDE} where its own was overwritten"
        ))
    }
}
