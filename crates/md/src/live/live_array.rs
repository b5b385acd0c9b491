//! A set that is open for writing, as who serves it sees it: it is resynchronised, rebuilt, repaired, and stopped; its
//! members are failed and replaced. The theory stands in [`live`](super).

use super::error::LiveError;
use super::fuse::{Above, Below, Fuse};
use super::keeper::Keeper;
use super::opening::{Opened, open};
use super::options::LiveOptions;
use crate::array::{Array, Engine};
use crate::assemble::{AssembleError, Choice, agreed};
use crate::member::MemberState;
use crate::ppl::log::PartialParityLog;
use crate::spec::Level;
use crate::superblock::{ALL_SECTORS, Uuid};
use crate::sync::{CheckReport, Initialise, STEP, SyncPriority};
use async_recursion::async_recursion as boxed;
use futures_util::future::{Either, select};
use rt::guarded::{Panicked, catching_panics};
use rt::{Device, DeviceRef, IoErrorKind, Request, Rt};
use std::cell::RefCell;
use std::rc::Rc;
use stdx::{ByteCount, Offset, RangeSet};

/// A resync or rebuild notes how far it is after each such part of the members, as md does. More is done
/// again after a power cut, less writes superblocks more often.
const CHECKPOINTS: u64 = 16;

/// And after this much at the latest.
const CHECKPOINT_MAX: ByteCount = ByteCount::gib(1);

/// A set that is open for writing: see [`live`](crate::live).
pub struct LiveArray {
    pub(super) set: Uuid,
    pub(super) rt: Rt,
    pub(super) fuse: Rc<Fuse>,
    pub(super) array: Rc<Array>,
    device: DeviceRef,
    pub(super) keeper: Rc<Keeper>,
    pub(super) log: Option<Rc<PartialParityLog>>,
    /// Places whose parity is to be made anew although the engine takes it as it is: see `opening`.
    pub(super) suspect: RefCell<RangeSet>,
}

impl LiveArray {
    /// Opens a set for writing. Nothing is written before the first write, the first resync, or a lost
    /// member; but what partial parity logs tell of a dirty set, and what a journal holds, is written at once.
    ///
    /// # Errors
    /// [`LiveError`]
    #[boxed(?Send)]
    pub async fn open(
        rt: &Rt,
        name: &str,
        choice: Choice,
        options: LiveOptions,
    ) -> Result<LiveArray, LiveError> {
        let mut choice = agreed(choice);
        let (fuse, task) = (Rc::<Fuse>::default(), format!("RAID set {name}"));
        choice.replace_devices(|device| Below::over(device, &fuse));
        let its_fuse = Rc::clone(&fuse);
        let rt = rt.watched(&task, move |panicked| its_fuse.blow(panicked));
        if choice.facts.reshape().is_some() {
            let what = "a reshape under way, which spindle md grow --continue ends";
            return Err(LiveError::ReadOnly { set: choice.set, what });
        }
        let Opened { array, keeper, log, suspect } = open(&rt, name, &choice, options).await?;
        let (set, suspect) = (choice.set, RefCell::new(suspect));
        let device = Above::over(array.device(), &fuse, &task);
        Ok(LiveArray { set, rt, fuse, array, device, keeper, log, suspect })
    }

    /// The executor for whatever works on the set: a task of it that panics breaks the set, and nothing else.
    pub fn rt(&self) -> &Rt {
        &self.rt
    }

    /// The bug that broke the set, where one did: nothing of it is answered or written any more.
    pub fn broken(&self) -> Option<Panicked> {
        self.fuse.blown()
    }

    /// The set's identity.
    pub fn uuid(&self) -> Uuid {
        self.set
    }

    /// The engine.
    pub fn array(&self) -> &Rc<Array> {
        &self.array
    }

    /// The set as a device.
    pub fn device(&self) -> DeviceRef {
        Rc::clone(&self.device)
    }

    pub(super) fn is_redundant(&self) -> bool {
        !matches!(self.array.level(), Level::Linear | Level::Raid0)
    }

    /// Whether parity and copies have to be made right, or the superblocks to say that they are.
    pub fn needs_resync(&self) -> bool {
        self.is_redundant() && self.keeper.resynced_sectors() != ALL_SECTORS
    }

    /// The slots that are to be rebuilt, with a spare or half filled.
    pub fn needs_rebuild(&self) -> Vec<usize> {
        let members = self.array.members();
        let mut spares = members.iter().filter(|one| one.state == MemberState::Spare).count();
        let mut slots = Vec::new();
        for slot in 0..self.array.set.members.len() {
            match self.array.set.members.state(slot) {
                MemberState::Rebuilding => slots.push(slot),
                MemberState::Failed | MemberState::Missing if spares > 0 => {
                    spares -= 1;
                    slots.push(slot);
                }
                _ => {}
            }
        }
        slots
    }

    /// The slots whose member is being replaced.
    pub fn needs_replace(&self) -> Vec<usize> {
        let members = &self.array.set.members;
        (0..members.len()).filter(|slot| members.has_replacement(*slot)).collect()
    }

    /// Makes parity and copies right where they are not known to be, and notes how far it is. With a bitmap
    /// these are the stretches whose bits are set.
    ///
    /// The set does not become dirty by it: what is noted as right is right, and what lies behind it is
    /// not believed. A write makes it dirty, and then a power cut lets the next resync begin anew.
    ///
    /// # Errors
    /// [`LiveError`]
    #[boxed(?Send)]
    pub async fn resync(&self, priority: SyncPriority) -> Result<(), LiveError> {
        let checkpoint = self.checkpoint().bytes();
        let (mut at, mut since) = (0, 0);
        while let Some(gap) = self.array.set.unclean(at) {
            let to = gap.end.min(gap.start + (checkpoint - since));
            let range = Offset(gap.start)..Offset(to);
            let done = self.array.initialise(Initialise::FromData, range, priority).await;
            done.map_err(|error| LiveError::Sync { set: self.set, error })?;
            since += to - gap.start;
            at = to;
            if since >= checkpoint {
                since = 0;
                self.flush().await?;
                let right = self.array.set.unclean(0).map_or(at, |gap| gap.start);
                let sectors = self.array.sectors_until(right);
                self.note_resynced(sectors).await?;
            }
        }
        let suspect: Vec<_> = self.suspect.borrow().iter().collect();
        for range in suspect {
            let range = Offset(range.start)..Offset(range.end);
            let done = self.array.initialise(Initialise::FromData, range, priority).await;
            done.map_err(|error| LiveError::Sync { set: self.set, error })?;
        }
        self.suspect.take();
        self.flush().await?;
        self.empty_journal().await?;
        self.note_resynced(ALL_SECTORS).await
    }

    async fn note_resynced(&self, sectors: u64) -> Result<(), LiveError> {
        self.keeper.note_resynced(sectors).await.map_err(|kind| self.superblocks(kind))
    }

    /// Rebuilds a slot on a spare, or goes on where that stopped. A member that came back gets what it missed.
    ///
    /// # Errors
    /// [`LiveError`]
    #[boxed(?Send)]
    pub async fn rebuild(&self, slot: usize, priority: SyncPriority) -> Result<(), LiveError> {
        self.empty_spares().await?;
        self.fill(slot, false, priority).await
    }

    /// Puts the first spare into a slot that lost its member, to be [rebuilt](LiveArray::rebuild). Nothing to do
    /// where the slot is being rebuilt already.
    ///
    /// # Errors
    /// Where there is no spare, or it can't be written.
    #[boxed(?Send)]
    pub async fn begin_rebuild(&self, slot: usize) -> Result<(), LiveError> {
        let (set, members) = (self.set, &self.array.set.members);
        self.empty_spares().await?;
        match slot < members.len() && members.begin_rebuild(slot) {
            true => Ok(()),
            false => Err(LiveError::NoSpare { set, slot }),
        }
    }

    /// Before a spare is taken for anything, its partial parity log is emptied: what it holds is of a time when
    /// it was no member.
    async fn empty_spares(&self) -> Result<(), LiveError> {
        match &self.log {
            Some(log) => Ok(log.empty_spares().await.map_err(AssembleError::from)?),
            None => Ok(()),
        }
    }

    /// Begins to replace the member of a slot by a spare: the one of this name, or the first.
    ///
    /// # Errors
    /// Where there is none, or the slot has no working member.
    #[boxed(?Send)]
    pub async fn begin_replace(&self, slot: usize, spare: Option<&str>) -> Result<(), LiveError> {
        let (set, members) = (self.set, &self.array.set.members);
        if !self.is_redundant() {
            return Err(LiveError::NoRedundancy { set, level: self.array.level() });
        }
        if slot >= members.len() || !members.is_active(slot) {
            return Err(LiveError::NotActive { set, slot });
        }
        if members.has_replacement(slot) {
            return Err(LiveError::Replacing { set, slot });
        }
        self.empty_spares().await?;
        let named = |name: &str| spare.is_none_or(|wanted| wanted == name);
        let reports = self.array.members();
        let names = reports.iter().filter(|one| one.state == MemberState::Spare);
        let name = names.filter_map(|one| one.name.clone()).find(|name| named(name));
        let device = name.and_then(|name| members.take_spare(&name));
        let Some(device) = device else { return Err(LiveError::NoSpare { set, slot }) };
        members.begin_replace(slot, device);
        self.keeper.write().await.map_err(|kind| self.superblocks(kind))
    }

    /// Copies the member of a slot to its replacement, which is the member then. Where the member fails
    /// meanwhile the replacement takes the slot, and is rebuilt.
    ///
    /// # Errors
    /// [`LiveError`]
    #[boxed(?Send)]
    pub async fn replace(&self, slot: usize, priority: SyncPriority) -> Result<(), LiveError> {
        self.fill(slot, true, priority).await?;
        if self.array.set.members.state(slot) == MemberState::Rebuilding {
            return self.fill(slot, false, priority).await;
        }
        Ok(())
    }

    /// Fills a slot, or its replacement, with what it does not have yet.
    async fn fill(
        &self,
        slot: usize,
        replacement: bool,
        priority: SyncPriority,
    ) -> Result<(), LiveError> {
        let (members, checkpoint) = (&self.array.set.members, self.checkpoint().bytes());
        let (mut at, mut since) = (0, 0);
        while let Some(gap) = members.missing_part(slot, replacement, at) {
            let to = gap.end.min(gap.start + (checkpoint - since));
            let range = Offset(gap.start)..Offset(to);
            let done = match replacement {
                true => self.array.copy_to_replacement(slot, range, priority).await,
                false => self.array.rebuild(slot, range, priority).await,
            };
            done.map_err(|error| LiveError::Sync { set: self.set, error })?;
            since += to - gap.start;
            at = to;
            if since >= checkpoint {
                since = 0;
                self.note_filled(slot, replacement).await?;
            }
        }
        self.note_filled(slot, replacement).await?;
        self.keeper.await_clearing();
        Ok(())
    }

    async fn note_filled(&self, slot: usize, replacement: bool) -> Result<(), LiveError> {
        // What is there now is durable after the flush; what comes meanwhile may not be.
        let members = &self.array.set.members;
        let bytes = if replacement { members.copied(slot) } else { members.recovered(slot) };
        self.flush().await?;
        let noted = self.keeper.note_filled(slot, replacement, bytes).await;
        noted.map_err(|kind| self.superblocks(kind))
    }

    /// How much of the members an operation covers before it notes how far it is.
    fn checkpoint(&self) -> ByteCount {
        let extent = self.array.component_extent();
        let part = ByteCount(extent.bytes() / CHECKPOINTS).min(CHECKPOINT_MAX);
        part.max(STEP).round_up(self.array.grain())
    }

    /// Compares copies and parity, and makes them agree with the data.
    ///
    /// # Errors
    /// [`LiveError`]
    #[boxed(?Send)]
    pub async fn repair(&self, priority: SyncPriority) -> Result<CheckReport, LiveError> {
        let done = self.array.repair(self.array.whole(), priority).await;
        let report = done.map_err(|error| LiveError::Sync { set: self.set, error })?;
        self.empty_journal().await?;
        Ok(report)
    }

    /// Whether the set can go on without the member of a slot.
    pub(super) fn can_do_without(&self, slot: usize) -> bool {
        let members = &self.array.set.members;
        match &self.array.engine {
            Engine::Striped(_) => false,
            Engine::Mirror(mirror) => !mirror.is_last(slot),
            Engine::Stripes(stripes) => {
                let others = (0..members.len()).filter(|other| *other != slot);
                let lost = others.filter(|other| !members.is_active(*other)).count();
                lost < stripes.map.parities()
            }
        }
    }

    /// Fails a member, and records it.
    ///
    /// # Errors
    /// [`LiveError::Needed`] where the set would not have enough members left; where it is not resynchronised, so that
    /// nothing tells what the member held; and where it lacks its journal: parity is all that tells then what
    /// was being written.
    #[boxed(?Send)]
    pub async fn fail(&self, slot: usize) -> Result<(), LiveError> {
        let set = self.set;
        let is_member = matches!(
            self.array.set.members.state(slot),
            MemberState::Active | MemberState::Rebuilding
        );
        let is_source = self.array.set.members.is_active(slot);
        if is_source && self.needs_resync() {
            return Err(LiveError::NeededForResync { set, slot });
        }
        if is_member && self.lacks_journal() {
            return Err(LiveError::NeededWithoutJournal { set, slot });
        }
        if is_member && !self.can_do_without(slot) {
            return Err(LiveError::Needed { set, slot });
        }
        self.array.fail(slot);
        self.keeper.write().await.map_err(|kind| self.superblocks(kind))
    }

    /// Writes down who is a member now: a device that is not here is not asked after at the next start.
    ///
    /// # Errors
    /// [`LiveError::Superblocks`]
    #[boxed(?Send)]
    pub async fn record_members(&self) -> Result<(), LiveError> {
        self.keeper.write().await.map_err(|kind| self.superblocks(kind))
    }

    /// Ends: what is being written has ended, everything is durable, bits that may go are cleared, and all
    /// members' superblocks are written, clean where nothing is left to resynchronise. Nothing may be written
    /// to the set meanwhile: this waits for it.
    ///
    /// # Errors
    /// [`LiveError`]
    #[boxed(?Send)]
    pub async fn stop(&self) -> Result<(), LiveError> {
        let task = self.array.name();
        let ending = catching_panics(task, Box::pin(self.end()));
        // What a task that panicked has counted in is never counted out.
        match select(self.fuse.wait(), ending).await {
            Either::Right((Ok(ended), _)) => ended,
            Either::Right((Err(panicked), _)) => {
                self.fuse.blow(panicked.clone());
                Err(LiveError::Broken { set: self.set, panicked })
            }
            Either::Left(_) => match self.broken() {
                Some(panicked) => Err(LiveError::Broken { set: self.set, panicked }),
                None => Err(self.gone()),
            },
        }
    }

    async fn end(&self) -> Result<(), LiveError> {
        self.keeper.idle().await;
        self.flush().await?;
        self.empty_journal().await?;
        self.keeper.stop().await.map_err(|kind| self.superblocks(kind))
    }

    async fn flush(&self) -> Result<(), LiveError> {
        let done = self.array.device().submit(Request::flush()).await;
        done.map(|_| ()).map_err(|error| LiveError::Assemble(error.into()))
    }

    pub(super) fn superblocks(&self, kind: IoErrorKind) -> LiveError {
        LiveError::Superblocks { set: self.set, kind }
    }

    /// No device is left that could be written.
    pub(super) fn gone(&self) -> LiveError {
        self.superblocks(IoErrorKind::Gone)
    }
}
