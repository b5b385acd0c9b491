//! The metadata of a set that is open for writing: what its members say, and when they must say something else.
//!
//! The [`Recorder`] of the engine. All that writes goes through one lock, so everything is written whole and in
//! order: bad-block logs, then the bitmap, then superblocks. Who a device is now, a member, a replacement, a
//! spare or nobody, is asked of the engine each time. A device that can't be written has failed; then the
//! others are written again, which say so.
//! [`said`] is what superblocks say.

mod said;

use super::QUIET;
use super::area::Area;
use super::intent::Intent;
use super::kept::{JournalState, Kept, Standing};
use crate::array::Array;
use crate::level::Straggler;
use crate::loss::{Cause, Metadata};
use crate::member::MemberState;
use crate::record::{Recorder, Recording};
use crate::set::Unreadable;
use crate::superblock::v1::SuperblockV1;
use crate::superblock::{Features, Role, SECTOR, bad_blocks};
use crate::write_log::journal::Superblocks;
use rt::sync::{Mutex, Notify, oneshot};
use rt::{Buf, DeviceRef, IoError, IoErrorKind, IoFuture, Request, Rt};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use stdx::{ByteCount, Instant, Offset};

/// A device of the set, as it is listed.
pub(super) struct Listed {
    pub(super) number: usize,
    pub(super) name: Arc<str>,
    /// Its data area; none of a journal.
    pub(super) area: Option<Rc<Area>>,
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
            kept.area.is_bad(range);
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

    /// Writes everything as things are now.
    ///
    /// In a task of its own: a rebuild is dropped when its server ends, and what it had begun to write must not
    /// reach the members after what is written then.
    pub(super) async fn write(&self) -> Result<(), IoErrorKind> {
        let Some(myself) = self.myself.upgrade() else { return Err(IoErrorKind::Gone) };
        let (answer, written) = oneshot::channel();
        let write = async move {
            let _alone = myself.writing.lock().await;
            // Nobody may be left to hear it.
            let _ = answer.send(myself.write_all().await);
        };
        self.rt.spawn(write).detach();
        written.await.unwrap_or(Err(IoErrorKind::Gone))
    }

    /// With the lock held.
    async fn write_all(&self) -> Result<(), IoErrorKind> {
        let Some(array) = self.array.upgrade() else { return Err(IoErrorKind::Gone) };
        self.level(&array).await;
        // With these nothing is on disk yet, in each round until its superblocks are written.
        let mut events = self.events.get() + 1;
        // Ends: each round but the last loses a device.
        loop {
            let changes = array.set.members.changes();
            self.events.set(events);
            self.write_logs(&array).await;
            self.make_whole(&array).await;
            let mut failed = !self.write_bits(&array, true).await;
            events += u64::from(!failed);
            let all = self.all_standing(&array);
            let there = all.iter().filter(|(_, standing)| *standing != Standing::Nobody);
            let mut writes = Vec::new();
            for (kept, standing) in there.filter(|_| !failed) {
                let bytes = self.superblock_of(kept, *standing, &all).encode();
                let write = Request::write_fua(kept.at, Buf::copy_of(&bytes));
                writes.push((kept, kept.device.submit(write)));
            }
            for (kept, write) in writes {
                if let Err(error) = write.await {
                    kept.is_lost(&array, unwritten(Metadata::Superblock, &error));
                    failed = true;
                }
            }
            // Its tail leaves behind what the members' superblocks must not need any more.
            let state = self.journal();
            if let Some(journal) = state.working().filter(|_| !failed) {
                let bytes = self.superblock_of_journal(journal, &all).encode();
                let write = Request::write_fua(journal.at, Buf::copy_of(&bytes));
                if let Err(error) = journal.device.submit(write).await {
                    journal.log.fail(error.kind);
                    failed = true;
                }
            }
            if !failed {
                self.recorded.set(changes);
                let members = &array.set.members;
                let is_there = |slot: &usize| {
                    matches!(members.state(*slot), MemberState::Active | MemberState::Rebuilding)
                };
                let lost = members.len() - (0..members.len()).filter(is_there).count();
                // Mirrors know themselves when nobody is left.
                let covered = array.level().parities();
                let too_few = covered > 0 && lost > covered;
                return if too_few { Err(IoErrorKind::TooFewMembers) } else { Ok(()) };
            }
            if self.standing(&array).is_empty() {
                return Err(IoErrorKind::TooFewMembers);
            }
        }
    }

    /// Before the first pass: all that are here have the events of the freshest. Who can't be written is lost.
    async fn level(&self, array: &Rc<Array>) {
        for straggler in self.behind.take() {
            let there = self.standing(array);
            let is_it = |(kept, _): &&(Rc<Kept>, Standing)| kept.number == straggler.number;
            let journal = self.journal();
            let journal = journal.working().filter(|journal| journal.number == straggler.number);
            match (there.iter().find(is_it), journal) {
                (Some((kept, _)), _) => {
                    if let Err(error) = straggler.level().await {
                        kept.is_lost(array, unwritten(Metadata::Superblock, &error));
                    }
                }
                (None, Some(journal)) => {
                    if let Err(error) = straggler.level().await {
                        journal.log.fail(error.kind);
                    }
                }
                // It has gone meanwhile.
                (None, None) => {}
            }
        }
    }

    /// Who has got all that it should have is whole when that is durable.
    async fn make_whole(&self, array: &Rc<Array>) {
        for (kept, standing) in self.standing(array) {
            let has_all = matches!(standing, Standing::Member { whole: true, .. });
            if has_all && kept.filled.get().is_some() {
                match kept.device.submit(Request::flush()).await {
                    Ok(_) => kept.filled.set(None),
                    Err(error) => {
                        kept.is_lost(array, Cause::Io { op: error.op, kind: error.kind });
                    }
                }
            }
        }
    }

    /// A slot, or its replacement, is right up to this byte and that is durable.
    pub(super) async fn note_filled(
        &self,
        slot: usize,
        replacement: bool,
        bytes: u64,
    ) -> Result<(), IoErrorKind> {
        let Some(array) = self.array.upgrade() else { return Err(IoErrorKind::Gone) };
        for (kept, standing) in self.standing(&array) {
            let is_it = match standing {
                Standing::Member { slot: own, whole: false } => own == slot && !replacement,
                Standing::Replacement { slot: own } => own == slot && replacement,
                _ => false,
            };
            if is_it {
                kept.filled.set(Some(bytes));
            }
        }
        self.write().await
    }

    /// Writes what is to be written of the bitmap; with `superblock` its superblock in any case. False where a
    /// member could not be written, which is lost now.
    async fn write_bits(&self, array: &Rc<Array>, superblock: bool) -> bool {
        let Some(intent) = &self.intent else { return true };
        let there = self.standing(array);
        let blocks = there.iter().map(|(kept, _)| kept.block());
        let block = blocks.max().unwrap_or(ByteCount(SECTOR));
        let pages = intent.take_pages(superblock, self.events.get(), block);
        let mut writes = Vec::new();
        for (kept, _) in there.iter().filter(|(_, standing)| standing.slot().is_some()) {
            let sectors = kept.superblock.borrow().bitmap_offset().map_or(0, i64::from);
            let start = kept.at.bytes().saturating_add_signed(sectors * SECTOR as i64);
            let whole = kept.without_bitmap.get().then(|| intent.whole(block));
            for (at, bytes) in whole.as_ref().unwrap_or(&pages.pieces) {
                let write = Request::write_fua(Offset(start + at), Buf::copy_of(bytes));
                writes.push((kept, kept.device.submit(write)));
            }
        }
        let mut all = true;
        for (kept, write) in writes {
            match write.await {
                Ok(_) => kept.without_bitmap.set(false),
                Err(error) => {
                    kept.is_lost(array, unwritten(Metadata::Bitmap, &error));
                    all = false;
                }
            }
        }
        if !all {
            intent.put_back(pages);
        }
        all
    }

    /// Writes bad-block logs that changed. What was written over a bad place is flushed first.
    async fn write_logs(&self, array: &Rc<Array>) {
        for (kept, _) in self.standing(array) {
            if !kept.area.take_changed() {
                continue;
            }
            let blocks = kept.area.bad_blocks();
            let (place, start) = (kept.superblock.borrow().bad_blocks, kept.at.bytes());
            let at = start.saturating_add_signed(i64::from(place.offset) * SECTOR as i64);
            let log = (place.sectors > 0 && place.shift == 0)
                .then(|| bad_blocks::encode(&blocks, place.sectors).ok())
                .flatten();
            // Where the log does not hold it, the device is not worth keeping, as in md.
            let written = match log {
                Some(bytes) => {
                    let write = Request::write_fua(Offset(at), Buf::copy_of(&bytes));
                    let written = match kept.device.submit(Request::flush()).await {
                        Ok(_) => kept.device.submit(write).await,
                        Err(error) => Err(error),
                    };
                    written.map(|_| ()).map_err(|error| unwritten(Metadata::BadBlockLog, &error))
                }
                None if blocks.is_empty() => Ok(()),
                None => Err(Cause::TooManyBadPlaces),
            };
            let mut superblock = kept.superblock.borrow_mut();
            superblock.features =
                superblock.features.with(Features::BAD_BLOCKS, !blocks.is_empty());
            drop(superblock);
            if let Err(cause) = written {
                kept.is_lost(array, cause);
            }
        }
    }

    /// Clears the bits whose stretches were quiet since `before`. With the lock held.
    async fn clear_bits(&self, before: Instant) -> Result<(), IoErrorKind> {
        let (Some(array), Some(intent)) = (self.array.upgrade(), &self.intent) else {
            return Ok(());
        };
        let all_there = || array.degraded() == 0 && !self.is_unrecorded(&array);
        if !all_there() || intent.quiet(before).is_empty() {
            return Ok(());
        }
        if intent.cleared_as_of(self.events.get()) && !self.write_bits(&array, true).await {
            return self.write_all().await;
        }
        let cleared = intent.quiet(before);
        intent.clear(&cleared);
        self.flush_members().await;
        if !all_there() {
            intent.restore(&cleared);
            return self.write_all().await;
        }
        if self.write_bits(&array, false).await { Ok(()) } else { self.write_all().await }
    }

    /// Whether a device was lost, or came, and the superblocks don't say so.
    fn is_unrecorded(&self, array: &Array) -> bool {
        array.set.members.changes() != self.recorded.get()
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

    /// Looks now and then for bits that may go, as long as there are some.
    pub(super) fn await_clearing(&self) {
        let Some(intent) = &self.intent else { return };
        // The cheap question first: this is asked after each write.
        if self.waits_to_clear.get() || !intent.has_to_clear() {
            return;
        }
        self.waits_to_clear.set(true);
        let (myself, rt, every) = (self.myself.clone(), self.rt.clone(), intent.clear_every());
        let wait = async move {
            loop {
                let since = rt.now();
                rt.sleep(every).await;
                let Some(keeper) = myself.upgrade() else { return };
                let degraded = keeper.array.upgrade().is_none_or(|array| array.degraded() > 0);
                let has_to = keeper.intent.as_ref().is_some_and(Intent::has_to_clear);
                if keeper.stopped.get() || degraded || !has_to {
                    keeper.waits_to_clear.set(false);
                    return;
                }
                let _alone = keeper.writing.lock().await;
                // Where it can't be written a member has failed, and the next write tells.
                let _ = keeper.clear_bits(since).await;
            }
        };
        self.rt.spawn(wait).detach();
    }

    /// A write to a range may begin when this is done.
    async fn allow(&self, durable: bool) -> Result<(), IoErrorKind> {
        if !self.says_dirty.get() {
            self.set_dirty(true).await?;
        }
        if durable {
            return Ok(());
        }
        let _alone = self.writing.lock().await;
        let Some(array) = self.array.upgrade() else { return Err(IoErrorKind::Gone) };
        let pending = self.intent.as_ref().is_some_and(Intent::is_pending);
        // Whoever came first has written them.
        if !pending || self.write_bits(&array, false).await {
            Ok(())
        } else {
            self.write_all().await
        }
    }
}

fn unwritten(what: Metadata, error: &IoError) -> Cause {
    Cause::Metadata { what, kind: error.kind }
}

impl Recorder for Keeper {
    fn before_write(&self, range: Range<u64>) -> Recording {
        self.in_flight.set(self.in_flight.get() + 1);
        let now = self.rt.now();
        let durable = self.intent.as_ref().is_none_or(|intent| intent.begin(&range, now));
        if durable && self.says_dirty.get() {
            return Box::pin(std::future::ready(Ok(())));
        }
        let myself = self.myself.clone();
        Box::pin(async move {
            match myself.upgrade() {
                Some(keeper) => keeper.allow(durable).await,
                None => Err(IoErrorKind::Gone),
            }
        })
    }

    fn before_answer(&self) -> Recording {
        if !self.array.upgrade().is_some_and(|array| self.is_unrecorded(&array)) {
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

    fn after_write(&self, range: Range<u64>) {
        let now = self.rt.now();
        self.in_flight.set(self.in_flight.get() - 1);
        if self.in_flight.get() == 0 {
            self.ended.notify_waiters();
        }
        self.last_write.set(now);
        if let Some(intent) = &self.intent {
            intent.end(&range, now);
        }
        self.await_quiet();
        self.await_clearing();
    }
}

impl Superblocks for Keeper {
    fn write_superblocks(&self) -> Recording {
        let myself = self.myself.clone();
        Box::pin(async move {
            match myself.upgrade() {
                Some(keeper) => keeper.write().await,
                None => Err(IoErrorKind::Gone),
            }
        })
    }
}
