//! A reshape that adds slots to RAID 4, 5 or 6: all data moves to its place in longer rows.
//!
//! ```text
//!            headroom    old rows
//!   before   ░░░░░░░░░░│ 0 1 2 3 4 5 6 7 8 9          each member's data area
//!   during   │ new rows ───▶  gap │ still old ───▶     position: between the two
//!   after    │ 0 1 2 3 4 5 6 ...                       the data area begins earlier
//! ```
//!
//! The data area of each member begins earlier afterwards, so the new rows run ahead of the old ones into space
//! that nobody reads. This is md's own way where there is room before the data (mdadm leaves some), and it needs
//! no backup.
//!
//! **Rules.**
//!
//! 1. *The position is durable before anything that it frees is overwritten.* Below it the data lies in the new
//!    rows, from it on in the old ones. New rows are written only as far as the position recorded last allows
//!    (`reach`); then all members are flushed, and then the position goes into all superblocks. So after a
//!    power cut each byte lies where the position says, and the parity of each row that is read is right: new
//!    rows below it are written whole, and old rows from its own on are untouched.
//! 2. *The position is a multiple of new rows*, as md demands of one that it goes on with. Each step covers
//!    whole new rows; what it reads of old rows may begin and end within one.
//! 3. *Beginning and end are [turns](super::pages)*: they change where a member's data area begins, and hold
//!    when the last superblock says so. At the beginning nothing is moved, at the end everything is, so either
//!    reading is right while the superblocks differ.
//! 4. *A member that is lost* is lost in both shapes, and is recorded with the next position at the latest. What
//!    it did not get is in the parity of rows that are written whole. When more are lost than the parity covers
//!    the position stays where it is, and a later [`Reshape::resume`] goes on from there.
//! 5. *Beyond the old end* the new rows are filled with zeros.
//!
//! The set is not served meanwhile. A reshape that md left forwards, with the same chunk, is resumed likewise;
//! one without a moved data area only behind its critical section.
//!
//! Source: Linux `drivers/md/raid5.c` (`reshape_request`, `raid5_run`, `raid5_finish_reshape`), `md.c`
//! (`md_finish_reshape`).

use super::adopt::NewMember;
use super::bitmap::Bitmap;
use super::error::GrowError;
use super::pages::{Page, Pages};
use super::raid1_slots::enlist;
use super::reach::Reach;
use super::refusal::{refuse, refuse_unsettled};
use crate::array::Array;
use crate::assemble::{AssembleError, Choice, Found, agreed};
use crate::spec::{ArraySpec, CHUNK_MIN, Layout, Level, MEMBERS_MAX};
use crate::superblock::place::Version;
use crate::superblock::v1::{ReshapeFields, SuperblockV1};
use crate::superblock::{ALL_SECTORS, Features, SECTOR, Uuid};
use crate::window::Window;
use async_recursion::async_recursion as boxed;
use rt::{Device, DeviceRef, Request, Rt, SgList};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use stdx::{ByteCount, Offset};

/// After so much of the array the position is recorded at the latest. More is done again after a power cut, less
/// flushes the members more often.
const CHECKPOINT: ByteCount = ByteCount::mib(256);
/// What is read and then written in one piece: two of them are in memory.
const STEP: ByteCount = ByteCount::mib(8);
/// The longest row: two are in memory.
const ROW_MAX: ByteCount = ByteCount::gib(1);
/// Sectors behind a superblock that md keeps free of data.
const BEHIND_SUPERBLOCK: u64 = 72;

/// A reshape under way: see the head of this file.
pub struct Reshape {
    pages: Pages,
    before: Rc<Array>,
    after: Rc<Array>,
    level: Level,
    window: Reach,
    /// Bytes of a chunk.
    chunk: u64,
    /// New rows that are written and recorded.
    recorded: u64,
}

impl Reshape {
    /// Begins a reshape to so many slots; the new ones are taken by spares and by the devices to be added. No
    /// data is moved yet.
    ///
    /// # Errors
    /// [`GrowError`]
    #[boxed(?Send)]
    pub async fn begin(
        rt: &Rt,
        choice: Choice,
        slots: usize,
        add: &[NewMember],
        unix_s: u64,
    ) -> Result<Reshape, GrowError> {
        let choice = agreed(choice);
        let set = choice.set;
        let level = refuse(&choice).await?;
        if level.parities() == 0 {
            return Err(GrowError::Level { set, level, what: "the number of members" });
        }
        refuse_unsettled(&choice)?;
        let before = choice.facts.slots();
        if slots <= before || slots > MEMBERS_MAX {
            return Err(GrowError::Slots { set, slots: before, wished: slots });
        }
        let sectors = choice.facts.chunk().max(1);
        // What no engine takes is found out before anything is written.
        if before < level.members_min() || !(sectors * SECTOR).is_multiple_of(CHUNK_MIN.bytes()) {
            let what = "a number of slots or a chunk that its level can't have";
            return Err(GrowError::Unsupported { set, what });
        }
        let mut window = Reach::of(level, before..slots, choice.facts.size() / sectors);
        refuse_long_rows(set, &window, sectors)?;
        let mut pages = Pages::of(rt, &choice, unix_s).await?;
        let bitmap = pages.bitmap.as_ref().map_or(0, Bitmap::sectors);
        moved(pages.pages.iter().filter(|page| page.is_member()), &window, sectors, bitmap)?;
        enlist(&mut pages, slots - before, add).await?;
        // Spares stay spares until the turn, which gives them these slots.
        let fits =
            |page: &&Page| page.slot.is_none() && page.superblock.data_size >= choice.facts.size();
        let numbers = pages.pages.iter().filter(fits).map(|page| page.superblock.device_number);
        let newcomers: BTreeMap<u32, usize> = numbers.zip(before..slots).collect();
        if newcomers.len() < slots - before {
            let (needed, given) = (slots - before, newcomers.len());
            return Err(GrowError::Spares { set, needed, given });
        }
        let takes_part = |page: &&Page| {
            page.slot.is_some() || newcomers.contains_key(&page.superblock.device_number)
        };
        let members = pages.pages.iter().filter(takes_part);
        window.moved = moved(members, &window, sectors, bitmap)?;
        let new_offset = -((window.moved * sectors) as i32);
        let reshape = ReshapeFields {
            new_level: choice.facts.level(),
            position: 0,
            delta_slots: (slots - before) as i32,
            new_layout: choice.facts.layout().unwrap_or(0),
            new_chunk: choice.facts.chunk() as u32,
            new_offset: 0,
        };
        let turned = |page: &mut Page| {
            let newcomer = newcomers.get(&page.superblock.device_number).copied();
            page.slot = page.slot.or(newcomer);
            let moves = page.slot.is_some();
            let superblock = &mut page.superblock;
            superblock.slots = slots as u32;
            superblock.features = superblock
                .features
                .with(Features::RESHAPE_ACTIVE, true)
                .with(Features::NEW_OFFSET, moves)
                .with(Features::RECOVERY_OFFSET, false);
            let new_offset = if moves { new_offset } else { 0 };
            superblock.reshape = ReshapeFields { new_offset, ..reshape };
        };
        let is_new = |page: &Page| newcomers.contains_key(&page.superblock.device_number);
        pages.turn(turned, is_new).await?;
        Reshape::over(rt, pages, level, window)
    }

    /// Goes on with a reshape that was left in its middle.
    ///
    /// # Errors
    /// [`GrowError`]
    #[boxed(?Send)]
    pub async fn resume(rt: &Rt, choice: Choice, unix_s: u64) -> Result<Reshape, GrowError> {
        let reshapes = |found: &Found| found.superblock.features().has(Features::RESHAPE_ACTIVE);
        let any_turned = choice.slots.iter().flatten().any(reshapes);
        let choice = agreed(choice);
        let set = choice.set;
        let level = refuse(&choice).await?;
        let facts = &choice.facts;
        let Some(reshape) = facts.reshape() else {
            if any_turned {
                // A cut left some of the beginning, where nothing is moved yet: it is taken back.
                Pages::of(rt, &choice, unix_s).await?.settle().await?;
            }
            return Err(GrowError::NothingToContinue { set });
        };
        let unsupported = |what| Err(GrowError::NotContinued { set, what });
        let parities = level.parities();
        if parities == 0 || reshape.level != facts.level() {
            return unsupported("a change of level under way");
        }
        if reshape.backwards || facts.slots() <= reshape.slots_before {
            return unsupported("a reshape to no more slots under way");
        }
        if reshape.chunk != facts.chunk() {
            return unsupported("a change of chunk under way");
        }
        let sectors = facts.chunk().max(1);
        let slots = reshape.slots_before..facts.slots();
        let mut window = Reach::of(level, slots, facts.size() / sectors);
        refuse_long_rows(set, &window, sectors)?;
        let row = window.after * sectors;
        if !reshape.position.is_multiple_of(row) || reshape.position / row > window.rows {
            return unsupported("a reshape whose position is no whole row");
        }
        choice.check_enough()?;
        let mut pages = Pages::of(rt, &choice, unix_s).await?;
        let lacked = pages.missing(facts.slots());
        for page in &mut pages.pages {
            // Half rebuilt: the reshape goes on without it, and afterwards it is a spare.
            if page.superblock.features.has(Features::RECOVERY_OFFSET) {
                page.superblock.features =
                    page.superblock.features.with(Features::RECOVERY_OFFSET, false);
                page.superblock.recovery_offset = 0;
                page.slot = None;
            }
        }
        let new_offset = |page: &Page| {
            let moves = page.superblock.features.has(Features::NEW_OFFSET);
            if moves { page.superblock.reshape.new_offset } else { 0 }
        };
        let of_old = |page: &&Page| page.slot.is_some_and(|slot| slot < reshape.slots_before);
        // The one that moves least, counted to the start.
        let least = pages.pages.iter().filter(of_old).map(new_offset).max().unwrap_or(0);
        if least > 0 {
            return unsupported("a reshape to a data area that begins later");
        }
        window.moved = u64::from(least.unsigned_abs()) / sectors;
        let missing = pages.missing(facts.slots());
        if missing > parities && lacked <= parities {
            return unsupported("a member that the reshape fills, and another one missing");
        }
        if missing > parities {
            return Err(GrowError::TooFew { set });
        }
        if missing > 0 && facts.resync_offset() != ALL_SECTORS {
            return Err(GrowError::Dirty { set });
        }
        let recorded = reshape.position / row;
        if recorded < window.rows && window.reach(recorded) <= recorded {
            return Err(AssembleError::Backup { set }.into());
        }
        pages.settle().await?;
        let mut resumed = Reshape::over(rt, pages, level, window)?;
        resumed.recorded = recorded;
        Ok(resumed)
    }

    /// Engines of both shapes over the members.
    fn over(rt: &Rt, pages: Pages, level: Level, window: Reach) -> Result<Reshape, GrowError> {
        let set = pages.set;
        let first = pages.pages.iter().find(|page| page.is_member());
        let superblock = first.ok_or(GrowError::TooFew { set })?.superblock.clone();
        let chunk = u64::from(superblock.chunk).max(1) * SECTOR;
        let engine = |name: &str, data: u64, layout: u32, offset: fn(&SuperblockV1) -> u64| {
            let slots = data as usize + level.parities();
            let mut members = Vec::new();
            for slot in 0..slots {
                let page = pages.member(slot);
                members.push(page.map(|page| area(page, offset, superblock.size)).transpose()?);
            }
            let mut spec = ArraySpec::new(level, Vec::new());
            spec.chunk = ByteCount(chunk);
            spec.component_size = Some(ByteCount(superblock.size * SECTOR));
            spec.members = members;
            let spec_error = |error| GrowError::Spec { set, error };
            spec.layout = match level {
                Level::Raid4 => Layout::Default,
                _ => Layout::from_md(level, layout as i32).map_err(spec_error)?,
            };
            Array::create(rt, name, spec).map_err(spec_error)
        };
        let before = engine("before", window.before, superblock.layout, |sb| sb.data_offset)?;
        let new_layout = superblock.reshape.new_layout;
        let after = engine("after", window.after, new_layout, |sb| {
            sb.new_data_offset().unwrap_or(sb.data_offset)
        })?;
        Ok(Reshape { pages, before, after, level, window, chunk, recorded: 0 })
    }

    /// How much of the array lies in its new place, and how much there is.
    pub fn progress(&self) -> (ByteCount, ByteCount) {
        let bytes = |rows| ByteCount(rows * self.row_bytes());
        (bytes(self.recorded), bytes(self.window.rows))
    }

    fn row_bytes(&self) -> u64 {
        self.window.after * self.chunk
    }

    /// Carries the reshape to its end; `observe` hears of each position that is recorded.
    ///
    /// # Errors
    /// [`GrowError`]. What was recorded until then holds: [`Reshape::resume`] goes on from there.
    pub async fn run(mut self, observe: impl Fn(ByteCount, ByteCount)) -> Result<(), GrowError> {
        while self.recorded < self.window.rows {
            let checkpoint = (CHECKPOINT.bytes() / self.row_bytes()).max(1);
            let to = self.window.reach(self.recorded).min(self.recorded + checkpoint);
            self.move_rows(self.recorded..to).await?;
            let flushed = self.after.submit(Request::flush()).await;
            self.follow_losses()?;
            flushed.map_err(|error| self.move_error(to, error.kind))?;
            self.recorded = to;
            self.record().await?;
            let (done, total) = self.progress();
            observe(done, total);
        }
        self.finish().await
    }

    fn move_error(&self, row: u64, kind: rt::IoErrorKind) -> GrowError {
        let at = Offset(row * self.row_bytes());
        GrowError::Move { set: self.pages.set, at, kind }
    }

    /// Writes new rows, each step being read while the one before is written: what is read lies in old rows that
    /// no write of this stretch touches.
    async fn move_rows(&mut self, rows: Range<u64>) -> Result<(), GrowError> {
        let step = (STEP.bytes() / self.row_bytes()).max(1);
        let mut at = rows.start;
        let mut held = Some(self.read(at..(at + step).min(rows.end)).await?);
        while let Some(step_rows) = held.take() {
            let next = (at + step).min(rows.end)..(at + 2 * step).min(rows.end);
            let write = self.write(at, step_rows);
            at = next.start;
            if next.is_empty() {
                write.await?;
                continue;
            }
            let (written, read) = futures_util::future::join(write, self.read(next)).await;
            self.follow_losses()?;
            written?;
            held = Some(read?);
        }
        self.follow_losses()
    }

    /// The array's bytes of new rows, from the old ones; none where all of them lie beyond the old end.
    async fn read(&self, rows: Range<u64>) -> Result<(u64, Option<SgList>), GrowError> {
        let bytes = rows.start * self.row_bytes()..rows.end * self.row_bytes();
        let end = self.before.geometry().capacity.bytes().min(bytes.end);
        if end <= bytes.start {
            return Ok((bytes.end - bytes.start, None));
        }
        let read = Request::read(Offset(bytes.start), ByteCount(end - bytes.start));
        let read = self.before.submit(read).await;
        let mut data = read.map_err(|error| self.move_error(rows.start, error.kind))?;
        data.append(SgList::zeros((bytes.end - end) as usize));
        Ok((bytes.end - bytes.start, Some(data)))
    }

    async fn write(&self, row: u64, (len, data): (u64, Option<SgList>)) -> Result<(), GrowError> {
        let at = Offset(row * self.row_bytes());
        let request = match data {
            Some(data) => Request::write(at, data),
            None => Request::write_zeroes(at, ByteCount(len)),
        };
        let written = self.after.submit(request).await;
        written.map(|_| ()).map_err(|error| self.move_error(row, error.kind))
    }

    /// A member that one of the engines has failed is lost in both, and in the superblocks. When too many are
    /// nothing more is recorded.
    fn follow_losses(&mut self) -> Result<(), GrowError> {
        let slots = self.after.members().len();
        for slot in 0..slots {
            let failed = |array: &Rc<Array>| {
                let members = &array.set.members;
                slot < members.len() && !members.is_active(slot)
            };
            if failed(&self.before) || failed(&self.after) || self.pages.member(slot).is_none() {
                self.pages.lose(slot);
                self.after.fail(slot);
                if slot < self.before.set.members.len() {
                    self.before.fail(slot);
                }
            }
        }
        match self.pages.missing(slots) > self.level.parities() {
            true => Err(GrowError::TooFew { set: self.pages.set }),
            false => Ok(()),
        }
    }

    /// Records the position; again, where a member is lost by it, until the others say so.
    async fn record(&mut self) -> Result<(), GrowError> {
        let position = self.recorded * self.row_bytes() / SECTOR;
        self.pages.pages.iter_mut().for_each(|page| page.superblock.reshape.position = position);
        while self.pages.advance().await? {
            self.follow_losses()?;
        }
        self.follow_losses()
    }

    /// Everything lies in its new place: the superblocks are those of a set at rest.
    async fn finish(mut self) -> Result<(), GrowError> {
        let end = |page: &mut Page| {
            let superblock = &mut page.superblock;
            superblock.layout = superblock.reshape.new_layout;
            superblock.end_reshape();
        };
        self.pages.turn(end, |_| false).await?;
        self.follow_losses()
    }
}

/// Refuses rows that are too long to be held in memory.
fn refuse_long_rows(set: Uuid, window: &Reach, sectors: u64) -> Result<(), GrowError> {
    let row = ByteCount(window.after.saturating_mul(sectors).saturating_mul(SECTOR));
    if row > ROW_MAX { Err(GrowError::RowTooLong { set, row, most: ROW_MAX }) } else { Ok(()) }
}

/// A member's data area as a device.
fn area(
    page: &Page,
    offset: fn(&SuperblockV1) -> u64,
    sectors: u64,
) -> Result<DeviceRef, GrowError> {
    let start = offset(&page.superblock);
    let beyond = || AssembleError::BeyondEnd {
        device: page.device.name().to_string(),
        what: "the data area",
        capacity: page.device.geometry().capacity,
    };
    let end = start.checked_add(sectors).and_then(|end| end.checked_mul(SECTOR));
    end.ok_or_else(beyond)?;
    let (start, len) = (Offset(start * SECTOR), ByteCount(sectors * SECTOR));
    if !Window::fits(&page.device, start, len) {
        return Err(beyond().into());
    }
    Ok(Window::bare(&page.device, start, len))
}

/// By how many chunks the data areas move to the start: as many as mdadm moves them, or else as many as there is
/// room for before the data of each member.
fn moved<'a>(
    members: impl Iterator<Item = &'a Page>,
    window: &Reach,
    chunk: u64,
    bitmap: u64,
) -> Result<u64, GrowError> {
    let mut moved = window.moved_wanted();
    for page in members {
        let free = headroom(&page.superblock, bitmap);
        if free < chunk {
            let device = page.device.name().to_string();
            let bytes = |sectors| ByteCount(sectors * SECTOR);
            return Err(GrowError::NoHeadroom { device, free: bytes(free), needed: bytes(chunk) });
        }
        moved = moved.min(free / chunk);
    }
    Ok(moved.min(i32::MAX as u64 / chunk.max(1)))
}

/// Sectors before the data of a member that nothing uses; so many are the bitmap's.
fn headroom(superblock: &SuperblockV1, bitmap: u64) -> u64 {
    if superblock.version() == Version::V10 {
        // What lies before the data is not ours to tell; it begins at 0 as a rule.
        return 0;
    }
    let behind = |offset: i32, sectors: u64| {
        superblock.super_offset.saturating_add_signed(i64::from(offset)).saturating_add(sectors)
    };
    let log = &superblock.bad_blocks;
    let taken = behind(0, BEHIND_SUPERBLOCK).max(match log.sectors {
        0 => 0,
        sectors => behind(log.offset, u64::from(sectors)),
    });
    let taken = superblock.bitmap_offset().map_or(taken, |at| taken.max(behind(at, bitmap)));
    superblock.data_offset.saturating_sub(taken)
}
