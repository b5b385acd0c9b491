//! What happens to the members of a running set, told by the names that mdadm's monitor has:
//! DegradedArray at the start, then Fail, FailSpare and SpareActive. What is rebuilt the caretaker says.
//!
//! Losses are told from their [log](::md::Loss), so one that a spare stood in for at once is told too.

use crate::event::{Bears, Event, Events, Left, SetEvent};
use ::md::live::{DeviceReport, LiveArray};
use ::md::{Loss, MemberState};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

/// What was told of a set.
struct Watch {
    set: Rc<LiveArray>,
    name: Arc<str>,
    events: Events,
    /// The number of the last loss that was told.
    told: u64,
    /// The numbers of the devices that stand whole in a slot.
    active: BTreeSet<usize>,
    journal_failed: bool,
    failed: bool,
}

/// Says what happens to a set, until this is dropped or a bug of ours broke the set.
pub async fn watch(set: Rc<LiveArray>, name: Arc<str>, events: Events) {
    let (told, active) = (0, active(&set.devices()).map(|(device, _)| device.number).collect());
    let (journal_failed, failed) = (false, false);
    let its = Rc::clone(&set);
    let mut watch = Watch { set: its, name, events, told, active, journal_failed, failed };
    watch.tell_start();
    loop {
        // Before the look: what changes after it ends the wait at once.
        let changed = set.changed();
        if let Some(panicked) = set.broken() {
            return watch.event(SetEvent::Broken { panicked });
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
    fn event(&self, event: SetEvent) {
        self.events.tell(Event::Set { set: Arc::clone(&self.name), event });
    }

    fn left(&self) -> Left {
        let array = self.set.array();
        let slots =
            array.members().iter().filter_map(|one| one.slot).max().map_or(0, |max| max + 1);
        Left { there: slots - array.degraded(), slots }
    }

    fn bears(&self) -> Bears {
        match () {
            () if self.set.has_failed() => Bears::Nothing,
            () if self.set.survives_another_loss() => Bears::Another,
            () => Bears::NoOther,
        }
    }

    fn tell_start(&mut self) {
        if self.set.array().degraded() == 0 {
            return;
        }
        let has_spares = !self.set.needs_rebuild().is_empty();
        let (left, bears) = (self.left(), self.bears());
        self.event(SetEvent::DegradedArray { left, has_spares, bears });
    }

    fn look(&mut self) {
        for loss in self.set.losses(self.told) {
            self.told = loss.number;
            self.tell_loss(&loss);
        }
        let devices = self.set.devices();
        for device in &devices {
            if device.is_journal && device.state == MemberState::Failed && !self.journal_failed {
                self.event(SetEvent::JournalFailed { device: Arc::clone(&device.name) });
            }
        }
        self.journal_failed =
            devices.iter().any(|one| one.is_journal && one.state == MemberState::Failed);
        for (device, slot) in active(&devices) {
            if !self.active.contains(&device.number) {
                self.event(SetEvent::SpareActive { device: Arc::clone(&device.name), slot });
            }
        }
        self.active = active(&devices).map(|(device, _)| device.number).collect();
        if self.set.has_failed() && !self.failed {
            self.failed = true;
            self.event(SetEvent::HasFailed { left: self.left() });
        }
    }

    fn tell_loss(&self, loss: &Loss) {
        let (device, slot) = (Arc::clone(&loss.device), loss.slot);
        let cause = loss.cause;
        if loss.was != MemberState::Active {
            return self.event(SetEvent::FailSpare { device, slot, cause });
        }
        let (left, bears) = (self.left(), self.bears());
        self.event(SetEvent::Fail { device, slot, cause, left, bears });
    }
}
