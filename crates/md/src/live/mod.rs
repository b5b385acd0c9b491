//! An assembled set that is open for writing: the engine, with md's superblocks kept true.
//!
//! ```text
//!   LiveArray (here)       opens a choice, stops, fails and adds members, runs resync and rebuild
//!     ├─ Array             the engine; asks the keeper before it writes and before it answers
//!     └─ Keeper (keeper)   the superblocks: what they say now, and when they must say something else
//! ```
//!
//! **Clean and dirty.** Superblocks say "clean" while nothing is being written. The first write waits until
//! all members say "dirty"; when nothing was written for [`QUIET`] they say "clean" again, and so when the
//! set is stopped. What was dirty when it was opened is resynchronised first, and remembers how far that is.
//!
//! **A lost member** is recorded on the others before anything that it did not get is answered.
//!
//! **Events** count up with each time the superblocks are written. A member that is more than one behind
//! was not there, and is not believed.
//!
//! **A power cut** between the writes of two members' superblocks leaves some one event behind: they count
//! as up to date, which they are, since nothing was written to the array in between. A superblock is
//! written in one piece of 4 KiB at the most; one that is torn has a wrong checksum, and its member
//! is left out, as a lost one.
//!
//! **A partial parity log** (`write_log::ppl`) closes the write hole of RAID 5. What was dirty when it was opened
//! has its parity put right on the members first, with a member missing too; then the logs are emptied. The set
//! is clean afterwards, as md has it, where all logs were whole, had something to say, no member is missing and
//! no resync was under way.
//!
//! **Not done here**: sets with a bitmap, journal, bad-block entries, or in a reshape: they are
//! refused by name, and can be read.

mod keeper;

use crate::array::{Array, Engine};
use crate::assemble::{
    AssembleError, Choice, Found, OpenOptions, Shape, Superblock, bad_blocks, layout, level_of,
    log_parts, ppl,
};
use crate::member::MemberState;
use crate::spec::{ArraySpec, Level, Map, SpecError};
use crate::superblock::ppl::signature;
use crate::superblock::{ALL_SECTORS, Features, SECTOR, Uuid};
use crate::sync::{CheckReport, Initialise, SyncError, SyncPriority};
use crate::write_log::ppl::PartialParityLog;
use keeper::{Keeper, Kept};
use rt::filter::Slice;
use rt::{DeviceRef, IoErrorKind, Request, Rt};
use std::rc::Rc;
use std::time::Duration;
use stdx::{ByteCount, Offset};

/// After so long without a write the superblocks say "clean": md's safe mode delay. Less writes
/// superblocks more often; more resynchronises more often after a power cut.
pub const QUIET: Duration = Duration::from_millis(200);

/// A resync or rebuild notes how far it is after each such stretch of the members; more is done again
/// after a power cut, less writes superblocks more often.
const CHECKPOINT: ByteCount = ByteCount::gib(1);

/// Why a set can't be opened for writing, or something with it can't be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the texts name")]
pub enum LiveError {
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    #[error("set {set} has {what}: it can be read, and not yet written")]
    ReadOnly { set: Uuid, what: &'static str },
    #[error("set {set}: writing the superblocks: {kind}")]
    Superblocks { set: Uuid, kind: IoErrorKind },
    #[error(
        "set {set} has {missing} members less than it should and was not stopped cleanly: force it, and stripes that were being written may be wrong"
    )]
    DirtyDegraded { set: Uuid, missing: usize },
    #[error("set {set}: {error}")]
    Spec { set: Uuid, error: SpecError },
    #[error("set {set}: {error}")]
    Sync { set: Uuid, error: SyncError },
}

/// What a person may ask for beyond the rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct LiveOptions {
    /// Start a dirty and degraded set too.
    pub force: bool,
    /// Seconds since 1970 when the set is opened; moments in superblocks count from it.
    pub unix_s: u64,
}

/// See the [module](self).
pub struct LiveArray {
    set: Uuid,
    array: Rc<Array>,
    keeper: Rc<Keeper>,
    log: Option<Rc<PartialParityLog>>,
}

impl LiveArray {
    /// Opens a set for writing. Nothing is written before the first write, the first resync, or a lost
    /// member; but what a partial parity log tells of a dirty set is written at once.
    ///
    /// # Errors
    /// [`LiveError`]
    pub async fn open(
        rt: &Rt,
        name: &str,
        choice: Choice,
        options: LiveOptions,
    ) -> Result<LiveArray, LiveError> {
        let set = choice.set;
        let facts = choice.facts.clone();
        refuse(&choice).await?;
        let level = level_of(facts.level()).map_err(|name| {
            let device = choice.slots.iter().flatten().next().map_or(String::new(), Found::name);
            AssembleError::Level { device, name }
        })?;
        let redundant = !matches!(level, Level::Linear | Level::Raid0);
        let mut dirty = redundant && facts.resync_offset() != ALL_SECTORS;
        let missing = choice.degraded();
        let has_log = facts.features().has_ppl();
        if has_log && level != Level::Raid5 {
            let what = "a partial parity log at another level than 5";
            return Err(AssembleError::Unsupported { set, what }.into());
        }
        if dirty && missing > 0 && level.parities() > 0 && !has_log && !options.force {
            return Err(LiveError::DirtyDegraded { set, missing });
        }
        let mut spec = ArraySpec::new(level, Vec::new());
        spec.chunk = ByteCount(facts.chunk().saturating_mul(SECTOR));
        spec.component_size = redundant.then(|| ByteCount(facts.size().saturating_mul(SECTOR)));
        spec.clean = !dirty || missing > 0;
        let (mut kept, mut recovered) = (Vec::new(), Vec::new());
        for slot in 0..choice.slots.len() {
            let found = choice.slots[slot].as_ref();
            spec.members.push(found.map(|found| data_area(found, redundant)).transpose()?);
            let Some(found) = found else { continue };
            if let Some(sectors) = found.superblock.recovery_offset() {
                recovered.push((slot, sectors.saturating_mul(SECTOR)));
            }
            kept.push(Kept::of(found, Some(slot)));
        }
        let shape = Shape {
            level,
            layout: facts.layout(),
            chunk: facts.chunk(),
            slots: facts.slots(),
            offset: Superblock::data_offset,
        };
        spec.layout = layout(&choice, &shape, &spec.members, OpenOptions::default())?;
        let (views, mut logged) = (spec.members.clone(), false);
        let mut spaces = Vec::new();
        if has_log {
            let members = choice.slots.iter().flatten().chain(&choice.spares);
            spaces = members.map(ppl::space).collect::<Result<_, _>>()?;
            if dirty {
                let plan = spec.plan().map_err(|error| LiveError::Spec { set, error })?;
                let recovered = recover(&choice, &views, &plan.map).await?;
                let whole = recovered.entries > 0 && recovered.mismatches == 0;
                logged = whole && missing == 0 && facts.resync_offset() == 0;
            }
        }
        dirty &= !logged;
        spec.clean = !dirty || missing > 0;
        let array =
            Array::create(rt, name, spec).map_err(|error| LiveError::Spec { set, error })?;
        for (slot, bytes) in recovered {
            array.set.members.set_recovered(slot, bytes);
        }
        if dirty && level != Level::Raid10 && missing == 0 {
            let right = facts.resync_offset().saturating_mul(SECTOR);
            array.set.set_clean(0..right.min(array.component_extent().bytes()));
        }
        for spare in &choice.spares {
            let device = data_area(spare, redundant)?;
            array.add_spare(device).map_err(|error| LiveError::Spec { set, error })?;
            kept.push(Kept::of(spare, None));
        }
        let resync_sectors = if dirty { facts.resync_offset() } else { ALL_SECTORS };
        let keeper = Keeper::new(rt, &array, kept, facts.events(), resync_sectors, options.unix_s);
        if redundant {
            array.record_with(Rc::clone(&keeper) as _);
        }
        let mut log = None;
        if let Engine::Stripes(stripes) = &array.engine
            && has_log
        {
            let signature = signature(set);
            let writer = PartialParityLog::new(&array.set, &stripes.map, signature, spaces);
            stripes.log_with(Rc::clone(&writer) as _);
            log = Some(writer);
        }
        let live = LiveArray { set, array, keeper, log };
        if logged {
            let clean = live.keeper.resynced(ALL_SECTORS).await;
            clean.map_err(|kind| live.superblocks(kind))?;
        }
        Ok(live)
    }

    /// The engine.
    pub fn array(&self) -> &Rc<Array> {
        &self.array
    }

    /// The set as a device.
    pub fn device(&self) -> DeviceRef {
        self.array.device()
    }

    /// Whether parity and copies have to be made right.
    pub fn needs_resync(&self) -> bool {
        !self.array.is_clean()
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

    /// Makes parity and copies right where they are not known to be, and notes how far it is.
    ///
    /// # Errors
    /// [`LiveError`]
    pub async fn resync(&self, priority: SyncPriority) -> Result<(), LiveError> {
        self.keeper.begin().await.map_err(|kind| self.superblocks(kind))?;
        let extent = self.array.component_extent().bytes();
        let mut at = self.keeper.resync_bytes().min(extent);
        while at < extent {
            let to = at.saturating_add(CHECKPOINT.bytes()).min(extent);
            let range = Offset(at)..Offset(to);
            let done = self.array.initialise(Initialise::FromData, range, priority).await;
            done.map_err(|error| LiveError::Sync { set: self.set, error })?;
            self.flush().await?;
            at = to;
            let sectors = if at == extent { ALL_SECTORS } else { at / SECTOR };
            self.keeper.resynced(sectors).await.map_err(|kind| self.superblocks(kind))?;
        }
        Ok(())
    }

    /// Rebuilds a slot on a spare, or goes on where that stopped.
    ///
    /// # Errors
    /// [`LiveError`]
    pub async fn rebuild(&self, slot: usize, priority: SyncPriority) -> Result<(), LiveError> {
        if let Some(log) = &self.log
            && self.array.set.members.begin_rebuild(slot)
        {
            log.join(slot).await.map_err(AssembleError::from)?;
        }
        let extent = self.array.component_extent().bytes();
        let mut at = self.array.set.members.recovered(slot).min(extent);
        while at < extent {
            let to = at.saturating_add(CHECKPOINT.bytes()).min(extent);
            let done = self.array.rebuild(slot, Offset(at)..Offset(to), priority).await;
            done.map_err(|error| LiveError::Sync { set: self.set, error })?;
            self.flush().await?;
            self.keeper.write().await.map_err(|kind| self.superblocks(kind))?;
            at = to;
        }
        Ok(())
    }

    /// Compares copies and parity, and makes them agree with the data.
    ///
    /// # Errors
    /// [`LiveError`]
    pub async fn repair(&self, priority: SyncPriority) -> Result<CheckReport, LiveError> {
        self.keeper.begin().await.map_err(|kind| self.superblocks(kind))?;
        let done = self.array.repair(self.array.whole(), priority).await;
        done.map_err(|error| LiveError::Sync { set: self.set, error })
    }

    /// Fails a member, and records it.
    ///
    /// # Errors
    /// [`LiveError`]
    pub async fn fail(&self, slot: usize) -> Result<(), LiveError> {
        self.array.fail(slot);
        self.keeper.write().await.map_err(|kind| self.superblocks(kind))
    }

    /// Ends: everything durable, the superblocks clean where nothing is left to resynchronise.
    ///
    /// # Errors
    /// [`LiveError`]
    pub async fn stop(&self) -> Result<(), LiveError> {
        self.flush().await?;
        self.keeper.stop().await.map_err(|kind| self.superblocks(kind))
    }

    async fn flush(&self) -> Result<(), LiveError> {
        let done = self.array.device().submit(Request::flush()).await;
        done.map(|_| ()).map_err(|error| LiveError::Assemble(error.into()))
    }

    fn superblocks(&self, kind: IoErrorKind) -> LiveError {
        LiveError::Superblocks { set: self.set, kind }
    }
}

/// What a member's superblock must not have.
async fn refuse(choice: &Choice) -> Result<(), LiveError> {
    let read_only = |what| Err(LiveError::ReadOnly { set: choice.set, what });
    let features = choice.facts.features();
    for (feature, what) in [
        (Features::BITMAP, "a write-intent bitmap"),
        (Features::JOURNAL, "a journal"),
        (Features::RESHAPE_ACTIVE, "a reshape under way"),
    ] {
        if features.has(feature) {
            return read_only(what);
        }
    }
    if !choice.replacements.is_empty() {
        return read_only("a member that is being replaced");
    }
    for found in choice.slots.iter().flatten().chain(&choice.spares) {
        if matches!(found.superblock, Superblock::V090(_)) {
            return read_only("superblocks 0.90");
        }
        if !bad_blocks(found).await?.is_empty() {
            return read_only("bad blocks in its log");
        }
    }
    Ok(())
}

/// Puts the parity right by the partial parity logs, durably, and empties the logs.
async fn recover(
    choice: &Choice,
    views: &[Option<DeviceRef>],
    map: &Map,
) -> Result<ppl::Recovered, AssembleError> {
    let Map::Parity(map) = map else { return Ok(ppl::Recovered::default()) };
    let recovered = ppl::recover(&log_parts(choice, views), map).await?;
    for view in views.iter().flatten() {
        view.submit(Request::flush()).await?;
    }
    for found in choice.slots.iter().flatten() {
        ppl::space(found)?.empty(signature(choice.set)).await?;
    }
    Ok(recovered)
}

/// The data area of a member, as a device.
fn data_area(found: &Found, redundant: bool) -> Result<DeviceRef, AssembleError> {
    let Superblock::V1(superblock) = &found.superblock else {
        unreachable!("superblocks 0.90 were refused")
    };
    let device = &found.device;
    let (start, len) = (superblock.data_offset * SECTOR, superblock.data_size * SECTOR);
    let (start, len) = (Offset(start), ByteCount(len).round_down(device.geometry().logical_block));
    if Request::read(start, len).check(&**device).is_err() || redundant && len.is_zero() {
        let capacity = device.geometry().capacity;
        return Err(AssembleError::BeyondEnd {
            device: found.name(),
            what: "the data area",
            capacity,
        });
    }
    Ok(Slice::new(device.clone(), start, len))
}
