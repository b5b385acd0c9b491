//! Who is in a set: its slots, and the devices that are in none.

use crate::event::Event;
use ::md::assemble::{Choice, Found, Superblock};
use ::md::superblock::{ALL_SECTORS, Role};

/// A slot of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Who is in it; nobody where the member is missing.
    pub device: Option<String>,
    /// Whether that one has not all of its content yet.
    pub rebuilding: bool,
    /// So many events that one is behind, where it was taken back by force.
    pub behind: Option<u64>,
}

/// The slots of a set as it was put together.
pub(super) fn slots(choice: &Choice) -> Vec<Slot> {
    let slot = |number: usize| {
        let found = choice.member(number);
        let rebuilding = found.is_some_and(|found| found.superblock.recovery_offset().is_some());
        let taken = found.and_then(|found| {
            let name = found.name();
            choice.accepted.iter().find(|one| one.name == name)
        });
        let behind = taken.map(|one| one.of.saturating_sub(one.events));
        Slot { device: found.map(Found::name), rebuilding, behind }
    };
    (0..choice.slots.len()).map(slot).collect()
}

/// Whether it was not stopped cleanly; or is to be resynchronised otherwise, and per cent of what was. Whoever stops a set cleanly puts
/// down how far that is; one that nobody has started since it was made counts no events.
pub(super) fn not_in_sync(facts: &Superblock) -> (bool, Option<u64>) {
    match facts.resync_offset() {
        ALL_SECTORS => (false, None),
        0 if facts.events() > 0 => (true, None),
        done => {
            let percent = u128::from(done) * 100 / u128::from(facts.size().max(1));
            (false, Some(percent.min(100) as u64))
        }
    }
}

/// Devices of a set that are in no slot, each with what it is.
pub(super) fn beside(choice: &Choice) -> Vec<(String, String)> {
    let spares = choice.spares.iter().map(|found| (found.name(), "spare".to_owned()));
    let journal = choice.journal.iter().map(|found| (found.name(), "journal".to_owned()));
    let replacements = choice
        .replacements
        .iter()
        .filter(|(slot, _)| choice.slots.get(*slot).is_some_and(Option::is_some));
    let replacements =
        replacements.map(|(slot, found)| (found.name(), format!("replacement of slot {slot}")));
    let apart = choice.apart();
    let left = choice.left_out.iter().map(|left| {
        let device = left.found.name();
        if let Some((_, member)) = apart.iter().find(|(one, _)| std::ptr::eq(*one, left)) {
            return (device, format!("left out: it went on without {}", member.name()));
        }
        let text = Event::LeftOut { device: device.clone(), why: left.why }.to_string();
        let why = text.replacen(&format!("{device}: "), "", 1);
        (device, why)
    });
    spares.chain(journal).chain(replacements).chain(left).collect()
}

/// What a device says of itself.
pub(super) fn said_role(superblock: &Superblock) -> String {
    match superblock.role() {
        Some(Role::Slot(slot)) => format!("says that it is slot {slot}"),
        Some(Role::Spare) => "spare".to_owned(),
        Some(Role::Journal) => "journal".to_owned(),
        Some(Role::Faulty) | None => "takes no part".to_owned(),
    }
}
