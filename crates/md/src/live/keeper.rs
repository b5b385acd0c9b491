//! The metadata of a set that is open for writing: what its members say, and when they must say something else.
//!
//! The [`Recorder`] of the engine. All that writes goes through one lock, so everything is written whole and in
//! order: bad-block logs, then the bitmap, then superblocks. Who a device is now, a member, a replacement, a
//! spare or nobody, is asked of the engine each time. A device that can't be written has failed; then the
//! others are written again, which say so.
//!
//! | file | holds |
//! |---|---|
//! | `recording` | what the engine asks before it writes and before it answers |
//! | `writing` | bad-block logs, bitmap and superblocks, one after another |
//! | `superblocks` | what superblocks say |
//! | `quiet` | what is written when nothing was written for a while |

mod quiet;
mod recording;
mod superblocks;
mod writing;

use super::kept::{JournalState, Kept, Standing};
use super::write_intent::Intent;
use crate::array::Array;
use crate::loss::Cause;
use crate::set::Unreadable;
use crate::stragglers::Straggler;
use crate::superblock::Role;
use crate::superblock::v1::SuperblockV1;
use crate::window::Window;
use rt::sync::{Mutex, Notify};
use rt::{DeviceRef, IoErrorKind, IoFuture, Request, Rt};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;
use stdx::{Instant, Offset};

/// After so long without a write the superblocks say "clean": md's safe mode delay. Less writes
/// superblocks more often; more resynchronises more often after a power cut.
pub const QUIET: Duration = Duration::from_millis(200);

/// A device of the set, as it is listed.
pub(super) struct Listed {
    pub(super) number: usize,
    pub(super) name: Arc<str>,
    /// Its data area; none of a journal.
    pub(super) area: Option<Rc<Window>>,
    /// It is a member, a replacement, a spare or the journal; else it failed.
    pub(super) is_here: bool,
}

/// See the [module](self).
pub(super) struct Keeper {
    rt: Rt,
    array: Weak<Array>,
    kept: RefCell<Vec<Rc<Kept>>>,
    journal: RefCell<JournalState>,
    intent: Option<Intent>,
    /// Who is to be levelled before the first pass.
    behind: RefCell<Vec<Straggler>>,
    events: Cell<u64>,
    /// Below this sector copies and parity are right, as superblocks count.
    resynced: Cell<u64>,
    dirty: Cell<bool>,
    /// The superblocks on the members say that it is dirty.
    says_dirty: Cell<bool>,
    /// How often the members had changed when the superblocks were written last.
    recorded: Cell<u64>,
    in_flight: Cell<u32>,
    /// Wakes who waits until nothing is being written.
    ended: Notify,
    last_write: Cell<Instant>,
    waits_for_quiet: Cell<bool>,
    waits_to_clear: Cell<bool>,
    stopped: Cell<bool>,
    writing: Mutex<()>,
    opened: Instant,
    unix_s: u64,
    myself: Weak<Keeper>,
}

/// What a keeper begins with.
pub(super) struct Beginning {
    pub(super) kept: Vec<Rc<Kept>>,
    pub(super) intent: Option<Intent>,
    pub(super) behind: Vec<Straggler>,
    pub(super) events: u64,
    /// Below this sector copies and parity are right.
    pub(super) resynced: u64,
    pub(super) unix_s: u64,
}

impl Keeper {
    pub(super) fn new(rt: &Rt, array: &Rc<Array>, beginning: Beginning) -> Rc<Keeper> {
        let now = rt.now();
        Rc::new_cyclic(|myself| Keeper {
            rt: rt.clone(),
            array: Rc::downgrade(array),
            kept: RefCell::new(beginning.kept),
            journal: RefCell::new(JournalState::None),
            intent: beginning.intent,
            behind: RefCell::new(beginning.behind),
            events: Cell::new(beginning.events),
            resynced: Cell::new(beginning.resynced),
            dirty: Cell::new(false),
            says_dirty: Cell::new(false),
            recorded: Cell::new(array.set.members.changes()),
            in_flight: Cell::new(0),
            ended: Notify::new(),
            last_write: Cell::new(now),
            waits_for_quiet: Cell::new(false),
            waits_to_clear: Cell::new(false),
            stopped: Cell::new(false),
            writing: Mutex::default(),
            opened: now,
            unix_s: beginning.unix_s,
            myself: myself.clone(),
        })
    }

    /// What the set has of a journal from now on.
    pub(super) fn keep_journal(self: &Rc<Self>, journal: JournalState) {
        if let JournalState::Here(journal) = &journal {
            journal.log.record_with(Rc::downgrade(self) as _);
        }
        *self.journal.borrow_mut() = journal;
    }

    /// What the set has of a journal.
    pub(super) fn journal(&self) -> JournalState {
        self.journal.borrow().clone()
    }

    /// The write-intent bitmap.
    pub(super) fn intent(&self) -> Option<&Intent> {
        self.intent.as_ref()
    }

    /// Counts up. No superblock is ever written with less events than one before it: who has it would look fresher than
    /// those who know better.
    fn count_to(&self, events: u64) {
        assert!(events >= self.events.get(), "events never fall");
        self.events.set(events);
    }

    /// How often the set's state changed.
    pub(super) fn events(&self) -> u64 {
        self.events.get()
    }

    /// Up to which sector copies and parity are known to be right, as superblocks count.
    pub(super) fn resynced_sectors(&self) -> u64 {
        self.resynced.get()
    }

    /// Copies and parity are right, and durable, before this sector from now on.
    pub(super) async fn note_resynced(&self, sectors: u64) -> Result<(), IoErrorKind> {
        self.resynced.set(sectors);
        if let Some(intent) = &self.intent {
            intent.right_before(sectors);
        }
        self.write().await?;
        self.await_clearing();
        Ok(())
    }

    /// A device that joins the set. It is written with the next superblocks.
    pub(super) fn join(&self, kept: Rc<Kept>) {
        self.kept.borrow_mut().push(kept);
    }

    /// Forgets a device; its number is free again. Its superblock stays as it is.
    pub(super) fn forget(&self, number: usize) {
        self.kept.borrow_mut().retain(|kept| kept.number != number);
        let mut journal = self.journal.borrow_mut();
        if matches!(&*journal, JournalState::Here(journal) if journal.number == number) {
            *journal = JournalState::Lost;
        }
        drop(journal);
        for kept in &*self.kept.borrow() {
            if let Some(role) = kept.superblock.borrow_mut().roles.get_mut(number) {
                *role = Role::Spare;
            }
        }
    }

    /// The devices that were here when the set was opened, or came.
    pub(super) fn devices(&self) -> Vec<Listed> {
        let Some(array) = self.array.upgrade() else { return Vec::new() };
        let listed = |(kept, standing): (Rc<Kept>, Standing)| Listed {
            number: kept.number,
            name: kept.device.name(),
            area: Some(Rc::clone(&kept.area)),
            is_here: standing != Standing::Nobody,
        };
        let mut all: Vec<Listed> = self.all_standing(&array).into_iter().map(listed).collect();
        if let JournalState::Here(journal) = &*self.journal.borrow() {
            all.push(Listed {
                number: journal.number,
                name: journal.device.name(),
                area: None,
                is_here: !journal.log.has_failed(),
            });
        }
        all
    }

    /// The same, with what each is to the engine; the journal's is not among them.
    pub(super) fn stands(&self) -> Vec<(usize, Arc<str>, Standing)> {
        let Some(array) = self.array.upgrade() else { return Vec::new() };
        let each = self.all_standing(&array).into_iter();
        each.map(|(kept, standing)| (kept.number, kept.device.name(), standing)).collect()
    }

    /// Who notes places in the bad-block log of a device that is filled.
    pub(super) fn log_keeper(&self) -> Unreadable {
        let myself = self.myself.clone();
        Rc::new(move |slot, replacement, range| {
            let note = |keeper: Rc<Keeper>| keeper.note_bad(slot, replacement, &range);
            myself.upgrade().is_some_and(note)
        })
    }

    /// Notes a bad place of a device that is filled. False where it has no log.
    fn note_bad(&self, slot: usize, replacement: bool, range: &Range<u64>) -> bool {
        let Some(array) = self.array.upgrade() else { return false };
        let is_it = |(_, standing): &(Rc<Kept>, Standing)| match standing {
            Standing::Member { slot: own, .. } => *own == slot && !replacement,
            Standing::Replacement { slot: own } => *own == slot && replacement,
            _ => false,
        };
        let Some((kept, _)) = self.standing(&array).into_iter().find(is_it) else { return false };
        let place = kept.superblock.borrow().bad_blocks;
        let has_log = place.sectors > 0 && place.shift == 0;
        if has_log {
            kept.area.note_bad(range);
        }
        has_log
    }

    /// Where the superblock of a device lies.
    pub(super) fn superblock_place(&self, number: usize) -> Option<(DeviceRef, Offset)> {
        let kept = self.kept.borrow();
        let own = kept.iter().find(|kept| kept.number == number)?;
        Some((Rc::clone(&own.device), own.at))
    }

    /// A superblock from which that of a new device can be made, and the roles by number.
    pub(super) fn template(&self) -> Option<SuperblockV1> {
        self.kept.borrow().first().map(|kept| kept.superblock.borrow().clone())
    }

    /// Ends when no write is under way, also none whose answer nobody waits for.
    pub(super) async fn idle(&self) {
        while self.in_flight.get() > 0 {
            self.ended.notified().await;
        }
    }

    /// The set ends: bits that may go are cleared, and it is clean.
    ///
    /// What is to be written is asked with the lock held: the quiet timer says "clean" here before the
    /// superblocks do, and who stops must wait for them.
    pub(super) async fn stop(&self) -> Result<(), IoErrorKind> {
        self.stopped.set(true);
        // Ends: who stops a set writes nothing more to it.
        let _alone = loop {
            self.idle().await;
            let alone = self.writing.lock().await;
            if self.in_flight.get() == 0 {
                break alone;
            }
        };
        if self.intent.as_ref().is_some_and(Intent::has_to_clear) {
            self.clear_bits(self.rt.now()).await?;
        }
        // Also where the set is not dirty: what was found bad, or good again, is not on disk yet.
        let logs = self.kept.borrow().iter().any(|kept| kept.area.is_changed());
        if self.dirty.get() {
            self.say_dirty(false).await
        } else if logs {
            self.write_all().await
        } else {
            Ok(())
        }
    }

    async fn set_dirty(&self, dirty: bool) -> Result<(), IoErrorKind> {
        let _alone = self.writing.lock().await;
        // Whoever came first has done it.
        if self.dirty.get() == dirty && self.says_dirty.get() == dirty {
            return Ok(());
        }
        if !dirty && self.in_flight.get() > 0 {
            return Ok(());
        }
        self.say_dirty(dirty).await
    }

    /// With the lock held.
    async fn say_dirty(&self, dirty: bool) -> Result<(), IoErrorKind> {
        // Whoever comes to write from here on waits, and makes it dirty again.
        let before = self.dirty.replace(dirty);
        self.says_dirty.set(false);
        if !dirty {
            self.flush_members().await;
        }
        let written = self.write_all().await;
        if written.is_err() {
            self.dirty.set(before);
        }
        self.says_dirty.set(dirty && written.is_ok());
        written
    }

    /// The devices that stand somewhere, with where that is.
    fn standing(&self, array: &Array) -> Vec<(Rc<Kept>, Standing)> {
        let each = self.all_standing(array).into_iter();
        each.filter(|(_, standing)| *standing != Standing::Nobody).collect()
    }

    /// All devices, with where they stand.
    fn all_standing(&self, array: &Array) -> Vec<(Rc<Kept>, Standing)> {
        let (members, kept) = (array.members(), self.kept.borrow());
        kept.iter().map(|kept| (Rc::clone(kept), kept.standing(&members))).collect()
    }

    /// Makes durable what was written to the members. Who can't has failed.
    async fn flush_members(&self) {
        let Some(array) = self.array.upgrade() else { return };
        let there = self.standing(&array);
        let flushes: Vec<IoFuture> =
            there.iter().map(|(kept, _)| kept.device.submit(Request::flush())).collect();
        for ((kept, _), flush) in there.iter().zip(flushes) {
            if let Err(error) = flush.await {
                kept.is_lost(&array, Cause::Io { op: error.op, kind: error.kind });
            }
        }
    }

    /// Whether a device was lost, or came, and the superblocks don't say so.
    fn is_unrecorded(&self, array: &Array) -> bool {
        array.set.members.changes() != self.recorded.get()
    }
}
