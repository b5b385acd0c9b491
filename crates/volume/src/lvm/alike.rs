//! Several devices that bear one physical volume.
//!
//! A copy of a disk beside it has its label, and so has a disk that was a member of a mirror and lost its superblock. Which of them has what
//! was written last no label tells, and no text does: a text that is newer, or as new, may lie before extents that are old. So:
//!
//! * One that [lies](Labels::alike) plainly below another, as whoever knows the devices says, is passed over where its text is not newer: the
//!   upper one is what is kept up to date ([`Beneath`]).
//! * Else nothing of the group is opened, and nothing of it changed ([`Group::alike`](super::Group::alike)): LVM activates none such either.

use super::error::LvmError;
use super::label::Id;
use super::look::{Found, Looked, look};
use async_recursion::async_recursion as boxed;
use rt::DeviceRef;
use std::cmp::Reverse;

/// A physical volume that several devices bear, and nothing tells which of them counts.
#[derive(Clone)]
pub struct Alike {
    /// Which.
    pub id: Id,
    /// The devices: the one with the newest text comes first, of equal ones the longest.
    pub devices: Vec<DeviceRef>,
}

/// A device that bears a physical volume of another, which lies on it.
#[derive(Clone)]
pub struct Beneath {
    /// The device.
    pub found: Found,
    /// The one that counts.
    pub upper: DeviceRef,
    /// The `seqno` of its own text, and of the other's, where it is older.
    pub older: Option<(u64, u64)>,
}

/// Devices with labels, not yet put together.
pub struct Labels {
    pub(super) physical: Vec<Looked>,
    /// What is wrong with others.
    pub(super) errors: Vec<LvmError>,
}

impl Labels {
    /// Of these devices: one without a label is passed over.
    #[boxed(?Send)]
    pub async fn look(devices: &[DeviceRef]) -> Labels {
        let (mut physical, mut errors) = (Vec::new(), Vec::new());
        for (place, device) in devices.iter().enumerate() {
            match look(device, place).await {
                Ok(found) => physical.extend(found),
                Err(error) => errors.push(error),
            }
        }
        Labels { physical, errors }
    }

    /// Pairs of devices that bear one physical volume, by their places, each in both orders.
    pub fn alike(&self) -> Vec<(usize, usize)> {
        let others = |one: &Looked| {
            let (id, place) = (one.found.label.id, one.place);
            let others = self.physical.iter();
            let others = others.filter(move |other| other.found.label.id == id);
            others.filter(move |other| other.place != place).map(move |other| (place, other.place))
        };
        self.physical.iter().flat_map(others).collect()
    }
}

/// Takes out those that lie below another that bears the same physical volume, by pairs of places of which the first is above.
pub(super) fn beneath(physical: &mut Vec<Looked>, above: &[(usize, usize)]) -> Vec<Beneath> {
    let below = |one: &Looked| Some((one.place, below_another(one, physical, above)?));
    let all: Vec<(usize, Beneath)> = physical.iter().filter_map(below).collect();
    physical.retain(|one| !all.iter().any(|(place, _)| *place == one.place));
    all.into_iter().map(|(_, one)| one).collect()
}

fn below_another(one: &Looked, all: &[Looked], above: &[(usize, usize)]) -> Option<Beneath> {
    let is_upper =
        |other: &&Looked| above.contains(&(other.place, one.place)) && other.seqno() >= one.seqno();
    let upper = all.iter().find(is_upper)?;
    let older = one.seqno().zip(upper.seqno()).filter(|(own, upper)| own < upper);
    Some(Beneath { found: one.found.clone(), upper: upper.found.device.clone(), older })
}

/// The devices that bear this one, the best first; `None` where none does.
pub(super) fn bearing(physical: &[Looked], id: Id) -> Option<(&Looked, Option<Alike>)> {
    let mut all: Vec<&Looked> = physical.iter().filter(|one| one.found.label.id == id).collect();
    all.sort_by_key(|one| Reverse((one.seqno(), one.found.device.geometry().capacity)));
    let first = *all.first()?;
    let devices = || all.iter().map(|one| one.found.device.clone()).collect();
    Some((first, (all.len() > 1).then(|| Alike { id, devices: devices() })))
}
