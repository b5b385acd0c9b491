//! What happens to the members of a running set, one line each on standard error, by the names that mdadm's monitor has:
//! DegradedArray at the start, then Fail, FailSpare and SpareActive. What is rebuilt the caretaker says.
//!
//! Losses are told from their [log](::md::Loss), so one that a spare stood in for at once is told too.

use crate::commands::say;
use ::md::live::{DeviceReport, LiveArray};
use ::md::{Loss, MemberState};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

/// What was told of a set.
struct Watch {
    set: Rc<LiveArray>,
    name: Arc<str>,
    /// The number of the last loss that was told.
    told: u64,
    /// The numbers of the devices that stand whole in a slot.
    active: BTreeSet<usize>,
    journal_failed: bool,
    failed: bool,
}

/// Says what happens to a set, until this is dropped or a bug of ours broke the set.
pub async fn watch(set: Rc<LiveArray>, name: Arc<str>) {
    let (told, active) = (0, active(&set.devices()).map(|(device, _)| device.number).collect());
    let mut watch =
        Watch { set: Rc::clone(&set), name, told, active, journal_failed: false, failed: false };
    watch.tell_start();
    loop {
        // Before the look: what changes after it ends the wait at once.
        let changed = set.changed();
        if let Some(panicked) = set.broken() {
            let text = "nothing more of it is answered or written; end its server, and the next start makes it right";
            return say(&format!("spindle: {panicked}: {text}"));
        }
        watch.look();
        changed.await;
    }
}

/// Who stands whole in which slot.
fn active(devices: &[DeviceReport]) -> impl Iterator<Item = (&DeviceReport, usize)> {
    let whole = devices.iter().filter(|one| one.state == MemberState::Active);
    whole.filter_map(|one| Some((one, one.slot?)))
}

impl Watch {
    fn event(&self, event: &str, text: &str) {
        say(&format!("spindle: {}: {event}: {text}", self.name));
    }

    /// `3 of 4 members are left`.
    fn left(&self) -> String {
        let array = self.set.array();
        let slots =
            array.members().iter().filter_map(|one| one.slot).max().map_or(0, |max| max + 1);
        format!("{} of {slots} members are left", slots - array.degraded())
    }

    fn tell_start(&mut self) {
        if self.set.array().degraded() == 0 {
            return;
        }
        let spares = !self.set.needs_rebuild().is_empty();
        let then = match () {
            () if spares => "it is made whole now",
            () if self.set.survives_another_loss() => "another loss is survived; add a device",
            () => "another loss is not survived: add a device",
        };
        self.event("DegradedArray", &format!("{}; {then}", self.left()));
    }

    fn look(&mut self) {
        for loss in self.set.losses(self.told) {
            self.told = loss.number;
            self.tell_loss(&loss);
        }
        let devices = self.set.devices();
        for device in &devices {
            if device.is_journal && device.state == MemberState::Failed && !self.journal_failed {
                let text = "the journal; nothing is written any more: stop the server and add another (spindle md add --journal)";
                self.event("Fail", &format!("{}: {text}", device.name));
            }
        }
        self.journal_failed =
            devices.iter().any(|one| one.is_journal && one.state == MemberState::Failed);
        for (device, slot) in active(&devices) {
            if !self.active.contains(&device.number) {
                self.event("SpareActive", &format!("{} (slot {slot})", device.name));
            }
        }
        self.active = active(&devices).map(|(device, _)| device.number).collect();
        if self.set.has_failed() && !self.failed {
            self.failed = true;
            let text = "more than it can do without: writes are refused, and reads of what is lost; stop the server (spindle md stop), make room or bring members back, and spindle md assemble says what helps";
            let left = self.left();
            say(&format!("spindle: {}: has failed: {left}, {text}", self.name));
        }
    }

    fn tell_loss(&self, loss: &Loss) {
        let place = loss.slot.map_or(String::new(), |slot| format!(" (slot {slot})"));
        let text = format!("{}{place}: {}", loss.device, loss.cause);
        if loss.was != MemberState::Active {
            return self.event("FailSpare", &text);
        }
        let then = match () {
            () if self.set.has_failed() => "that is too few",
            () if self.set.survives_another_loss() => "another loss is survived",
            () => "another loss is not survived",
        };
        self.event("Fail", &format!("{text}; {}; {then}", self.left()));
    }
}
