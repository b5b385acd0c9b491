//! The superblocks of a set that is open for writing: what they say, and when they are written.
//!
//! The [`Recorder`] of the engine. All that writes goes through one lock, so superblocks are written whole
//! and in order. A member whose superblock can't be written has failed; then the others are written again,
//! which say so.

use super::QUIET;
use crate::array::Array;
use crate::assemble::{Found, Superblock, ppl};
use crate::member::MemberState;
use crate::record::{Recorder, Recording};
use crate::superblock::v1::SuperblockV1;
use crate::superblock::{Features, Role, SECTOR, Stamp};
use rt::sync::Mutex;
use rt::{Buf, DeviceRef, IoErrorKind, Request, Rt};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::{Rc, Weak};
use stdx::{Instant, Offset};

/// A device of the set that was there when it was opened.
pub(super) struct Kept {
    device: DeviceRef,
    at: Offset,
    /// The device's number, by which the superblocks list its role.
    number: usize,
    superblock: RefCell<SuperblockV1>,
    /// The slot, as the superblocks say.
    slot: Cell<Option<usize>>,
    /// It can't be written any more.
    lost: Cell<bool>,
}

impl Kept {
    pub(super) fn of(found: &Found, slot: Option<usize>) -> Kept {
        let Superblock::V1(superblock) = &found.superblock else {
            unreachable!("superblocks 0.90 were refused")
        };
        let mut superblock = (**superblock).clone();
        // Before several records are written the superblocks say that there may be several.
        if superblock.features.has(Features::PPL)
            && ppl::space(found).is_ok_and(|space| space.holds_several())
        {
            superblock.features = superblock.features.with(Features::PPL, false);
            superblock.features = superblock.features.with(Features::MULTIPLE_PPLS, true);
        }
        Kept {
            device: found.device.clone(),
            at: found.at,
            number: superblock.device_number as usize,
            superblock: RefCell::new(superblock),
            slot: Cell::new(slot),
            lost: Cell::new(false),
        }
    }

    /// Whether the engine's device is ours: it is a slice of it, and bears its name.
    fn is_called(&self, name: &str) -> bool {
        name.strip_prefix(&*self.device.name()).is_some_and(|rest| rest.starts_with('['))
    }
}

/// See the [module](self).
pub(super) struct Keeper {
    rt: Rt,
    array: Weak<Array>,
    kept: Vec<Kept>,
    events: Cell<u64>,
    /// Below this sector of the members, copies and parity are right.
    resynced: Cell<u64>,
    dirty: Cell<bool>,
    /// What the superblocks say of each slot.
    recorded: RefCell<Vec<MemberState>>,
    in_flight: Cell<u32>,
    /// How many writes have begun.
    begun: Cell<u64>,
    last_write: Cell<Instant>,
    waits_for_quiet: Cell<bool>,
    stopped: Cell<bool>,
    writing: Mutex<()>,
    opened: Instant,
    unix_s: u64,
    myself: Weak<Keeper>,
}

impl Keeper {
    pub(super) fn new(
        rt: &Rt,
        array: &Rc<Array>,
        kept: Vec<Kept>,
        events: u64,
        resynced: u64,
        unix_s: u64,
    ) -> Rc<Keeper> {
        let now = rt.now();
        Rc::new_cyclic(|myself| Keeper {
            rt: rt.clone(),
            array: Rc::downgrade(array),
            kept,
            events: Cell::new(events),
            resynced: Cell::new(resynced),
            dirty: Cell::new(false),
            recorded: RefCell::new(states(array)),
            in_flight: Cell::new(0),
            begun: Cell::new(0),
            last_write: Cell::new(now),
            waits_for_quiet: Cell::new(false),
            stopped: Cell::new(false),
            writing: Mutex::default(),
            opened: now,
            unix_s,
            myself: myself.clone(),
        })
    }

    /// How many bytes of the members are known to be right.
    pub(super) fn resync_bytes(&self) -> u64 {
        self.resynced.get().saturating_mul(SECTOR)
    }

    /// Something begins that leaves copies different until it is done.
    pub(super) async fn begin(&self) -> Result<(), IoErrorKind> {
        if self.dirty.get() { Ok(()) } else { self.set_dirty(true).await }
    }

    /// So far copies and parity are right and durable now.
    pub(super) async fn resynced(&self, sectors: u64) -> Result<(), IoErrorKind> {
        self.resynced.set(sectors);
        self.write().await
    }

    /// The set ends.
    pub(super) async fn stop(&self) -> Result<(), IoErrorKind> {
        self.stopped.set(true);
        if self.dirty.get() { self.set_dirty(false).await } else { Ok(()) }
    }

    async fn set_dirty(&self, dirty: bool) -> Result<(), IoErrorKind> {
        let _alone = self.writing.lock().await;
        // Whoever came first has done it.
        if self.dirty.get() == dirty {
            return Ok(());
        }
        if !dirty {
            // "Clean" says that copies and parity agree on the media, not in the members' caches.
            let before = self.begun.get();
            self.flush_members().await;
            if self.in_flight.get() > 0 || self.begun.get() != before {
                return Ok(());
            }
        }
        let before = self.dirty.replace(dirty);
        let written = self.write_all().await;
        if written.is_err() {
            self.dirty.set(before);
        }
        written
    }

    /// What was written is durable on all members afterwards; who can't has failed.
    async fn flush_members(&self) {
        let Some(array) = self.array.upgrade() else { return };
        let there = self.kept.iter().filter(|kept| self.takes_part(kept, &array));
        let flushes: Vec<_> =
            there.map(|kept| (kept, kept.device.submit(Request::flush()))).collect();
        for (kept, flush) in flushes {
            if flush.await.is_err() {
                kept.lost.set(true);
                if let Some(slot) = kept.slot.get() {
                    array.fail(slot);
                }
            }
        }
    }

    /// Writes the superblocks as things are now.
    pub(super) async fn write(&self) -> Result<(), IoErrorKind> {
        let _alone = self.writing.lock().await;
        self.write_all().await
    }

    /// With the lock held.
    async fn write_all(&self) -> Result<(), IoErrorKind> {
        let Some(array) = self.array.upgrade() else { return Err(IoErrorKind::Gone) };
        loop {
            let states = states(&array);
            self.follow(&array);
            self.events.set(self.events.get() + 1);
            let mut writes = Vec::new();
            for kept in self.kept.iter().filter(|kept| self.takes_part(kept, &array)) {
                let bytes = self.superblock_of(kept, &states, &array).encode();
                let write = Request::write_fua(kept.at, Buf::copy_of(&bytes));
                writes.push((kept, kept.device.submit(write)));
            }
            let mut failed = false;
            for (kept, write) in writes {
                if write.await.is_err() {
                    kept.lost.set(true);
                    failed = true;
                    if let Some(slot) = kept.slot.get() {
                        array.fail(slot);
                    }
                }
            }
            if !failed {
                *self.recorded.borrow_mut() = states;
                let lost = self.recorded.borrow().iter().filter(|state| !is_there(**state)).count();
                let without =
                    array.level().parities().max(usize::from(array.level().parities() == 0));
                // Mirrors know themselves when nobody is left.
                let too_few = array.level().parities() > 0 && lost > without;
                return if too_few { Err(IoErrorKind::TooFewMembers) } else { Ok(()) };
            }
            if self.kept.iter().all(|kept| kept.lost.get()) {
                return Err(IoErrorKind::TooFewMembers);
            }
        }
    }

    /// A spare that the engine has brought into a slot holds it from now on.
    fn follow(&self, array: &Rc<Array>) {
        for report in array.members() {
            let (Some(slot), Some(name)) = (report.slot, report.name) else { continue };
            if report.state != MemberState::Rebuilding && report.state != MemberState::Active {
                continue;
            }
            for kept in &self.kept {
                if kept.slot.get().is_none() && kept.is_called(&name) {
                    kept.slot.set(Some(slot));
                }
            }
        }
    }

    /// Whether a device is a spare, or stands in its slot: another one may stand there now.
    fn takes_part(&self, kept: &Kept, array: &Rc<Array>) -> bool {
        let stands = |slot: usize| {
            array.members().iter().any(|report| {
                let is_it = report.name.as_ref().is_some_and(|name| kept.is_called(name));
                report.slot == Some(slot) && is_it && is_there(report.state)
            })
        };
        !kept.lost.get() && kept.slot.get().is_none_or(stands)
    }

    /// What a device's superblock says now.
    fn superblock_of(
        &self,
        kept: &Kept,
        states: &[MemberState],
        array: &Rc<Array>,
    ) -> SuperblockV1 {
        let mut superblock = kept.superblock.borrow_mut();
        for other in &self.kept {
            let role = match other.slot.get() {
                _ if other.lost.get() => Role::Faulty,
                None => Role::Spare,
                Some(slot) if self.takes_part(other, array) => Role::Slot(slot as u16),
                Some(_) => Role::Faulty,
            };
            if superblock.roles.len() <= other.number {
                superblock.roles.resize(other.number + 1, Role::Spare);
            }
            superblock.roles[other.number] = role;
        }
        // Who holds a slot by the table and is not here was missing when the set was opened.
        let known: Vec<usize> = self.kept.iter().map(|kept| kept.number).collect();
        for (number, role) in superblock.roles.iter_mut().enumerate() {
            if !known.contains(&number) && role.slot().is_some() {
                *role = Role::Faulty;
            }
        }
        let rebuilding =
            kept.slot.get().filter(|slot| states.get(*slot) == Some(&MemberState::Rebuilding));
        superblock.features =
            superblock.features.with(Features::RECOVERY_OFFSET, rebuilding.is_some());
        superblock.recovery_offset =
            rebuilding.map_or(0, |slot| array.set.members.recovered(slot) / SECTOR);
        // As md has it: while something is being written nothing is known to be right everywhere.
        superblock.resync_offset = if self.dirty.get() { 0 } else { self.resynced.get() };
        superblock.events = self.events.get();
        let seconds = self.unix_s + self.rt.now().since(self.opened).as_secs();
        superblock.updated = Stamp::from_seconds(seconds);
        superblock.clone()
    }

    /// When nothing was written for a while, the superblocks say so.
    fn await_quiet(&self) {
        if self.waits_for_quiet.replace(true) {
            return;
        }
        let (myself, rt) = (self.myself.clone(), self.rt.clone());
        let wait = async move {
            loop {
                let Some(keeper) = myself.upgrade() else { return };
                let until = keeper.last_write.get() + QUIET;
                if keeper.in_flight.get() == 0 && rt.now() >= until {
                    keeper.waits_for_quiet.set(false);
                    if !keeper.stopped.get() {
                        // Where it can't be written a member has failed, and the next write tells.
                        let _ = keeper.set_dirty(false).await;
                    }
                    return;
                }
                drop(keeper);
                rt.sleep_until(until.max(rt.now() + QUIET / 4)).await;
            }
        };
        self.rt.spawn(wait).detach();
    }
}

fn is_there(state: MemberState) -> bool {
    matches!(state, MemberState::Active | MemberState::Rebuilding)
}

fn states(array: &Rc<Array>) -> Vec<MemberState> {
    (0..array.set.members.len()).map(|slot| array.set.members.state(slot)).collect()
}

impl Recorder for Keeper {
    fn before_write(&self, _: Range<u64>) -> Recording {
        self.in_flight.set(self.in_flight.get() + 1);
        self.begun.set(self.begun.get() + 1);
        if self.dirty.get() {
            return Box::pin(std::future::ready(Ok(())));
        }
        let myself = self.myself.clone();
        Box::pin(async move {
            match myself.upgrade() {
                Some(keeper) => keeper.set_dirty(true).await,
                None => Err(IoErrorKind::Gone),
            }
        })
    }

    fn before_answer(&self) -> Recording {
        let unrecorded = |array: Rc<Array>| {
            let (now, said) = (states(&array), self.recorded.borrow());
            now.iter().zip(&*said).any(|(now, said)| is_there(*said) && !is_there(*now))
        };
        if !self.array.upgrade().is_some_and(unrecorded) {
            return Box::pin(std::future::ready(Ok(())));
        }
        let myself = self.myself.clone();
        Box::pin(async move {
            match myself.upgrade() {
                Some(keeper) => keeper.write().await,
                None => Err(IoErrorKind::Gone),
            }
        })
    }

    fn after_write(&self, _: Range<u64>) {
        self.in_flight.set(self.in_flight.get() - 1);
        self.last_write.set(self.rt.now());
        self.await_quiet();
    }
}
