//! What happened in a pool since it is held, kept for `zpool events`: a ring in memory, in OpenZFS's classes and fields.
//!
//! The engine [tells](::zfs::spa::events) what it does, and the vdevs what fails; who holds the pool sees devices taken out and the pool
//! suspended. Each comes with a number (`eid`) and the time. The oldest give way, and so does what one second has too much of: a device
//! that fails must not push out everything else.
//!
//! What OpenZFS knows of the request behind a failure (its flags, stages, priorities) is left out, since there is no such thing here.
//!
//! Source: OpenZFS, `zfs_fm.c` (`zfs_event_create`, `zfs_ereport_start`), `spa_history.c` (`spa_history_log_notify`).

use super::protocol::{EventPage, FieldValue, PoolEvent};
use ::zfs::spa::events::{Deed, Happening};
use ::zfs::spa::live::Live;
use rt::IoErrorKind;
use rt::sync::Notify;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::time::{SystemTime, UNIX_EPOCH};
use zfs_format::vdev::VdevKind;
use zfs_store::{LeafDeed, LeafFailure, OnFailure};

/// Events that are kept: as many as OpenZFS keeps (`zfs_zevent_len_max`).
pub const EVENTS_MAX: usize = 512;
/// Failures of devices that are kept of one second: as OpenZFS has it (`zfs_checksum_events_per_second`).
pub const FAILURES_A_SECOND_MAX: u32 = 20;
/// Events that are sent at once: they fit a line of the [frame](crate::control::message).
const PAGE_MAX: usize = 128;

/// States of vdevs, by their numbers in OpenZFS.
const FAULTED: u64 = 5;
const HEALTHY: u64 = 7;
/// What a checksum that is wrong is as an error number of Linux (`EBADE`).
const ECKSUM: u64 = 52;

type Fields = Vec<(String, FieldValue)>;

/// See the [module](self).
pub struct PoolEvents {
    live: Weak<Live>,
    ring: RefCell<VecDeque<PoolEvent>>,
    /// The number of the last one.
    last: Cell<u64>,
    /// A second, and failures of it.
    failures: Cell<(u64, u32)>,
    changed: Notify,
}

fn field(name: &str, value: FieldValue) -> (String, FieldValue) {
    (name.to_owned(), value)
}

fn number(name: &str, number: u64) -> (String, FieldValue) {
    field(name, FieldValue::Number(number))
}

fn text(name: &str, text: impl Into<String>) -> (String, FieldValue) {
    field(name, FieldValue::Text(text.into()))
}

impl PoolEvents {
    /// Keeps what happens in a pool from here on, beginning with that it was imported.
    pub fn of(live: &Rc<Live>) -> Rc<PoolEvents> {
        let (ring, last, failures, changed) = Default::default();
        let events =
            Rc::new(PoolEvents { live: Rc::downgrade(live), ring, last, failures, changed });
        let its = Rc::downgrade(&events);
        live.syncer().told().set(Rc::new(move |happening: &Happening| {
            if let Some(events) = its.upgrade() {
                events.happened(happening);
            }
        }));
        events.watch_leaves();
        events.post_system("pool_import", Vec::new());
        events
    }

    /// Hears of what fails: of leaves that were added, too.
    fn watch_leaves(self: &Rc<Self>) {
        let Some(live) = self.live.upgrade() else { return };
        let its = Rc::downgrade(self);
        let sink = move |failure: &LeafFailure| {
            if let Some(events) = its.upgrade() {
                events.failed(failure);
            }
        };
        live.spa().tree().tell_failures(&(Rc::new(sink) as _));
    }

    fn happened(self: &Rc<Self>, happening: &Happening) {
        match happening {
            Happening::Deed(deed) => self.post_system("history_event", of_deed(deed)),
            Happening::ConfigSync => self.post_system("config_sync", Vec::new()),
            Happening::VdevAdd => {
                self.watch_leaves();
                self.post_system("vdev_add", Vec::new());
            }
            Happening::Reguid => self.post_system("pool_reguid", Vec::new()),
        }
    }

    /// A device was taken out, or is used again.
    pub fn state_changed(&self, leaf: u64, is_faulted: bool) {
        let (state, last) = if is_faulted { (FAULTED, HEALTHY) } else { (HEALTHY, FAULTED) };
        let mut fields = self.of_leaf(leaf, state);
        fields.push(number("vdev_laststate", last));
        self.post("resource", "statechange", fields);
        if !is_faulted {
            self.post_system("vdev_clear", self.of_leaf(leaf, state));
        }
    }

    /// The pool is suspended.
    pub fn suspended(&self) {
        self.post_report("io_failure", None, Vec::new());
    }

    fn failed(&self, failure: &LeafFailure) {
        let (second, count) = self.failures.get();
        let (now, _) = now();
        let count = if now == second { count + 1 } else { 1 };
        self.failures.set((now, count));
        if count > FAILURES_A_SECOND_MAX {
            return;
        }
        let LeafFailure { leaf, deed, place, error, errors } = *failure;
        let mut fields = vec![
            number("vdev_read_errors", errors.read),
            number("vdev_write_errors", errors.write),
            number("vdev_cksum_errors", errors.checksum),
            number("zio_err", error.map_or(ECKSUM, error_number)),
        ];
        if let Some((at, len)) = place {
            fields.extend([number("zio_offset", at), number("zio_size", len)]);
        }
        let name = if deed == LeafDeed::Checksum { "checksum" } else { "io" };
        self.post_report(name, Some(leaf), fields);
    }

    /// What is said of a leaf in a state.
    fn of_leaf(&self, leaf: u64, state: u64) -> Fields {
        let mut fields = vec![number("vdev_guid", leaf), number("vdev_state", state)];
        fields.extend(self.path_of(leaf).map(|path| text("vdev_path", path)));
        fields
    }

    fn path_of(&self, leaf: u64) -> Option<String> {
        let live = self.live.upgrade()?;
        let root = live.spa().vdevs();
        let leaf = root.leaves().into_iter().find(|known| known.guid == leaf)?;
        leaf.path.as_ref().map(ToString::to_string)
    }

    fn of_pool(&self) -> Fields {
        let Some(live) = self.live.upgrade() else { return Vec::new() };
        let spa = live.spa();
        vec![
            text("pool", spa.name()),
            number("pool_guid", spa.guid()),
            number("pool_state", 0),
            field("pool_context", FieldValue::Number(0)),
        ]
    }

    fn post_system(&self, name: &str, fields: Fields) {
        self.post("sysevent", name, fields);
    }

    fn post(&self, kind: &str, name: &str, more: Fields) {
        let class = format!("{kind}.fs.zfs.{name}");
        let mut fields = vec![number("version", 0), text("class", class.as_str())];
        fields.extend(self.of_pool());
        fields.extend(more);
        self.put(class, fields);
    }

    /// A report of something that failed, on a leaf or in the pool.
    fn post_report(&self, name: &str, leaf: Option<u64>, more: Fields) {
        let Some(live) = self.live.upgrade() else { return };
        let class = format!("ereport.fs.zfs.{name}");
        let mut detector =
            vec![number("version", 0), text("scheme", "zfs"), number("pool", live.spa().guid())];
        detector.extend(leaf.map(|leaf| number("vdev", leaf)));
        // The number that ties reports of one fault together: each is a fault of its own.
        let ena = number("ena", self.last.get() + 1);
        let mut fields =
            vec![text("class", class.as_str()), ena, field("detector", FieldValue::List(detector))];
        fields.extend(self.of_pool());
        let failmode = match live.suspension().on_failure() {
            OnFailure::Continue => "continue",
            OnFailure::Wait => "wait",
            OnFailure::Stop => "panic",
        };
        fields.push(text("pool_failmode", failmode));
        if let Some(leaf) = leaf {
            fields.push(number("vdev_guid", leaf));
            let root = live.spa().vdevs();
            let known = root.leaves().into_iter().find(|known| known.guid == leaf);
            if let Some(known) = known {
                let kind = if known.kind == VdevKind::Disk { "disk" } else { "file" };
                fields.push(text("vdev_type", kind));
                fields.extend(known.path.as_ref().map(|path| text("vdev_path", path.to_string())));
            }
        }
        fields.extend(more);
        self.put(class, fields);
    }

    fn put(&self, class: String, mut fields: Fields) {
        let number = self.last.get() + 1;
        self.last.set(number);
        let (seconds, nanoseconds) = now();
        let time = vec![seconds, u64::from(nanoseconds)];
        fields.push(field("time", FieldValue::Numbers(time)));
        fields.push(field("eid", FieldValue::Number(number)));
        let mut ring = self.ring.borrow_mut();
        ring.push_back(PoolEvent { number, seconds, nanoseconds, class, fields });
        while ring.len() > EVENTS_MAX {
            ring.pop_front();
        }
        drop(ring);
        self.changed.notify_waiters();
    }

    /// Those that came after the one of this number, as many as are sent at once; where there are none yet, the next, if that is
    /// to be waited for.
    pub async fn after(&self, number: u64, waits: bool) -> EventPage {
        loop {
            let changed = self.changed.notified();
            let has_newer = self.ring.borrow().back().is_some_and(|newest| newest.number > number);
            if !waits || has_newer {
                return self.page(number);
            }
            changed.await;
        }
    }

    fn page(&self, after: u64) -> EventPage {
        let ring = self.ring.borrow();
        let first = ring.front().map_or(self.last.get() + 1, |event| event.number);
        let new = ring.iter().filter(|event| event.number > after);
        let events = new.take(PAGE_MAX).cloned().collect();
        EventPage { lost: first.saturating_sub(after + 1), events }
    }

    /// Forgets them; says how many there were.
    pub fn clear(&self) -> usize {
        std::mem::take(&mut *self.ring.borrow_mut()).len()
    }
}

fn now() -> (u64, u32) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_secs(), since.subsec_nanos())
}

fn of_deed(deed: &Deed) -> Fields {
    let Deed { name, text: more, dataset, host, txg, time } = deed;
    let mut fields = vec![text("history_hostname", host.as_str())];
    if let Some((dataset, _)) = dataset {
        fields.push(text("history_dsname", dataset.as_str()));
    }
    fields.push(text("history_internal_str", more.as_str()));
    fields.push(text("history_internal_name", name.as_str()));
    if let Some((_, object)) = dataset {
        fields.push(number("history_dsid", *object));
    }
    fields.extend([number("history_txg", *txg), number("history_time", *time)]);
    fields
}

/// The error number that Linux has for what a device answered.
fn error_number(kind: IoErrorKind) -> u64 {
    match kind {
        IoErrorKind::Gone => 6,
        IoErrorKind::NoSpace => 28,
        IoErrorKind::Os(number) => number.unsigned_abs().into(),
        _ => 5,
    }
}
