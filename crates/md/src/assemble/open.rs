//! Opening a chosen set for reading.
//!
//! The result is a [`Device`] that answers reads and refuses writes. Nothing below it is ever written: see
//! [`View`]. Most arrays are one engine; during a reshape there are two, one a geometry, and a read is
//! cut where they meet.

use super::choice::Choice;
use super::error::AssembleError;
use super::facts::{Superblock, level_of};
use super::found::{Found, bad_blocks, bitmap};
use super::journal::Doubt;
use super::view::View;
use super::{journal, ppl, reshape};
use crate::array::Array;
use crate::spec::{ArraySpec, Layout, Level, Map};
use crate::superblock::journal::BLOCK_BYTES;
use crate::superblock::{ALL_SECTORS, Features, SECTOR};
use rt::{Device, DeviceRef, Geometry, IoError, IoErrorKind, IoFuture, Op, Request, Rt, SgList};
use std::rc::Rc;
use std::sync::Arc;
use stdx::{ByteCount, Offset};

/// What a person may ask for beyond the rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// Open a dirty and degraded array too: stripes that were being written may come back wrong.
    pub force: bool,
    /// RAID 0 of several zones that does not say its rule: `true` is the one of kernels up to 3.13.
    pub raid0_original: Option<bool>,
}

/// A set that is open for reading.
pub struct OpenArray {
    name: Arc<str>,
    geometry: Geometry,
    /// The engines, each up to a byte of the array, in order.
    parts: Vec<(u64, Rc<Array>)>,
    choice: Choice,
}

/// What members that are half filled are in a geometry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum HalfFilled {
    /// Right up to where they are filled.
    Part,
    /// A reshape to more slots fills them: of the old geometry they have nothing.
    Absent,
    /// And of the new one all that lies there.
    Whole,
}

/// One geometry of a set.
pub(crate) struct Shape {
    pub(crate) level: Level,
    pub(crate) layout: Option<u32>,
    pub(crate) chunk: u64,
    pub(crate) slots: usize,
    pub(crate) half_filled: HalfFilled,
    /// Where the data begins: before or after the reshape.
    pub(crate) offset: fn(&Superblock) -> u64,
}

impl OpenArray {
    /// Opens a set under a name.
    ///
    /// # Errors
    /// What keeps it from being opened, and the mend.
    pub async fn open(
        rt: &Rt,
        name: &str,
        choice: Choice,
        options: OpenOptions,
    ) -> Result<Rc<OpenArray>, AssembleError> {
        let (set, facts) = (choice.set, &choice.facts);
        let level = level_of(facts.level()).map_err(|name| AssembleError::Level {
            device: choice.slots.iter().flatten().next().map_or(String::new(), Found::name),
            name,
        })?;
        if facts.features().has(Features::JOURNAL) {
            check_journal(&choice, level)?;
        }
        choice.check_enough()?;
        refuse_unsupported_bitmaps(&choice).await?;
        let reshape = facts.reshape();
        let grows = reshape.is_some_and(|reshape| facts.slots() > reshape.slots_before);
        let half_filled = |in_growing| if grows { in_growing } else { HalfFilled::Part };
        let before = Shape {
            half_filled: half_filled(HalfFilled::Absent),
            level,
            layout: facts.layout(),
            chunk: facts.chunk(),
            slots: reshape.map_or(facts.slots(), |reshape| reshape.slots_before),
            offset: Superblock::data_offset,
        };
        let old = engine(rt, name, &choice, &before, options).await?;
        let mut parts = vec![(old.geometry().capacity.bytes(), Rc::clone(&old))];
        let mut geometry = old.geometry();
        if let Some(reshape) = reshape {
            if reshape.level != facts.level() {
                return Err(AssembleError::Unsupported {
                    set,
                    what: "a change of level under way",
                });
            }
            if reshape::needs_backup(facts, &reshape, level) {
                return Err(AssembleError::Backup { set });
            }
            let after = Shape {
                half_filled: half_filled(HalfFilled::Whole),
                level,
                layout: Some(reshape.layout),
                chunk: reshape.chunk,
                slots: facts.slots(),
                offset: Superblock::new_data_offset,
            };
            let new = engine(rt, name, &choice, &after, options).await?;
            // md shows the smaller size until the reshape is done.
            let capacity = geometry.capacity.min(new.geometry().capacity);
            let split = (reshape.position * SECTOR).min(capacity.bytes());
            let (low, high) = if reshape.backwards { (old, new) } else { (new, old) };
            parts = vec![(split, low), (capacity.bytes(), high)];
            geometry = Geometry { capacity, ..geometry };
        }
        Ok(Rc::new(OpenArray { name: name.into(), geometry, parts, choice }))
    }

    /// Who takes part.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// The engines: one, or during a reshape the one below the position and the one above it.
    pub fn engines(&self) -> impl Iterator<Item = &Rc<Array>> {
        self.parts.iter().map(|(_, array)| array)
    }
}

/// What a set with a journal can't be.
///
/// # Errors
/// Which of it this one is.
pub(crate) fn check_journal(choice: &Choice, level: Level) -> Result<(), AssembleError> {
    let unsupported = |what| Err(AssembleError::Unsupported { set: choice.set, what });
    let chunk = choice.facts.chunk().saturating_mul(SECTOR);
    if level.parities() == 0 {
        return unsupported("a journal at a level without parity");
    }
    if choice.facts.reshape().is_some() {
        return unsupported("a journal in a reshape");
    }
    if !chunk.is_multiple_of(BLOCK_BYTES as u64) {
        return unsupported("a journal with chunks that are not whole pages of 4 KiB");
    }
    Ok(())
}

/// A bitmap that may mean something else than "these stretches may differ" is no array to open. One copy that
/// can't be read does no harm: an array that is only read does not need it.
async fn refuse_unsupported_bitmaps(choice: &Choice) -> Result<(), AssembleError> {
    for found in choice.slots.iter().flatten() {
        if let Err(AssembleError::Format { device, error }) = bitmap(found).await
            && matches!(error.problem, crate::superblock::Problem::Unsupported(_))
        {
            return Err(AssembleError::Format { device, error });
        }
    }
    Ok(())
}

/// Puts an engine over the members in one geometry.
async fn engine(
    rt: &Rt,
    name: &str,
    choice: &Choice,
    shape: &Shape,
    options: OpenOptions,
) -> Result<Rc<Array>, AssembleError> {
    let (set, facts, level) = (choice.set, &choice.facts, shape.level);
    let dirty = choice.resync_offset() != ALL_SECTORS;
    let force = options.force || choice.is_forced();
    let redundant = !matches!(level, Level::Linear | Level::Raid0);
    let spec_error = |error| AssembleError::Spec { set, error };
    let mut recovered = recovered(choice, shape.slots);
    let mut absent = Vec::new();
    if shape.half_filled == HalfFilled::Absent {
        absent = std::mem::take(&mut recovered);
    }
    let mut views = Vec::new();
    for slot in 0..shape.slots {
        let is_absent = absent.iter().any(|(other, _)| *other == slot);
        views.push(match choice.member(slot).filter(|_| !is_absent) {
            Some(found) => Some(view(found, facts, shape, redundant).await? as DeviceRef),
            None => None,
        });
    }
    let parts = if shape.half_filled == HalfFilled::Part { recovered.len() } else { 0 };
    let missing = views.iter().filter(|view| view.is_none()).count() + parts;
    let mut spec = spec(choice, shape, views.clone(), options)?;
    spec.clean = !dirty;
    if level.parities() > 0 && dirty && missing > 0 {
        if !facts.features().has_ppl() && !force {
            return Err(AssembleError::DirtyDegraded { set, missing });
        }
        // Nothing better than the parity is there, and nothing is written.
        spec.clean = true;
    }
    if level.parities() > 0 && missing > 0 && choice.lacks_journal() && !force {
        return Err(AssembleError::NoJournal { set, missing });
    }
    if missing > level.parities() && level.parities() > 0 {
        return Err(choice.too_few(level, missing));
    }
    let plan = spec.plan().map_err(spec_error)?;
    if let Map::Parity(map) = &plan.map {
        let parts = log_parts(choice, &views);
        if !choice.says_clean() && facts.features().has_ppl() {
            ppl::recover(&parts, map).await?;
        }
        if let Some(found) = &choice.journal {
            let doubt = if force { Doubt::TakeAsNew } else { Doubt::Refuse };
            journal::replay(found, &parts, map, doubt).await?;
        }
    }
    let array = Array::create(rt, name, spec).map_err(spec_error)?;
    for (slot, bytes) in recovered {
        array.set.members.set_recovered(slot, bytes);
    }
    // RAID 10 counts its resync in sectors of the array, the engine in bytes of a member.
    if dirty && level != Level::Raid10 {
        let right = choice.resync_offset().saturating_mul(SECTOR);
        array.set.set_clean(0..right.min(array.component_extent().bytes()));
    }
    Ok(array)
}

/// What a set in one geometry is to the engine, over these members: all but whether it is clean.
pub(crate) fn spec(
    choice: &Choice,
    shape: &Shape,
    members: Vec<Option<DeviceRef>>,
    options: OpenOptions,
) -> Result<ArraySpec, AssembleError> {
    let redundant = !matches!(shape.level, Level::Linear | Level::Raid0);
    let mut spec = ArraySpec::new(shape.level, Vec::new());
    spec.layout = layout(choice, shape, &members, options)?;
    spec.chunk = ByteCount(shape.chunk.saturating_mul(SECTOR));
    let size = choice.facts.size().saturating_mul(SECTOR);
    spec.component_size = redundant.then_some(ByteCount(size));
    spec.members = members;
    Ok(spec)
}

/// Slots whose member is right only before a byte of its data area, with that byte.
pub(crate) fn recovered(choice: &Choice, slots: usize) -> Vec<(usize, u64)> {
    let recovered = |slot| {
        let sectors = choice.member(slot)?.superblock.recovery_offset()?;
        Some((slot, sectors.saturating_mul(SECTOR)))
    };
    (0..slots).filter_map(recovered).collect()
}

/// The members as the recovery from logs wants them.
pub(crate) fn log_parts<'a>(
    choice: &'a Choice,
    views: &[Option<DeviceRef>],
) -> Vec<Option<ppl::Part<'a>>> {
    let part = |(slot, view): (usize, &Option<DeviceRef>)| {
        let (found, data) = (choice.member(slot)?, view.clone()?);
        let sectors = found.superblock.recovery_offset();
        let recovered = sectors.map_or(u64::MAX, |sectors| sectors.saturating_mul(SECTOR));
        let has_log = choice.was_there_to_the_end(slot, found);
        Some(ppl::Part { found, data, recovered, has_log })
    };
    views.iter().enumerate().map(part).collect()
}

/// The data area of a member in one geometry.
async fn view(
    found: &Found,
    facts: &Superblock,
    shape: &Shape,
    redundant: bool,
) -> Result<Rc<View>, AssembleError> {
    let sectors = match &found.superblock {
        _ if redundant => facts.size(),
        Superblock::V1(sb) => sb.data_size,
        Superblock::V090(_) => found.at.bytes() / SECTOR,
    };
    let capacity = found.device.geometry().capacity;
    let start = (shape.offset)(&found.superblock);
    let end = start.checked_add(sectors).and_then(|end| end.checked_mul(SECTOR));
    if end.is_none_or(|end| end > capacity.bytes()) {
        let device = found.name();
        return Err(AssembleError::BeyondEnd { device, what: "the data area", capacity });
    }
    let bad = bad_blocks(found).await?;
    let (start, len) = (Offset(start * SECTOR), ByteCount(sectors * SECTOR));
    Ok(View::new(Rc::clone(&found.device), start, len, &bad))
}

/// The layout in the engine's words.
fn layout(
    choice: &Choice,
    shape: &Shape,
    views: &[Option<DeviceRef>],
    options: OpenOptions,
) -> Result<Layout, AssembleError> {
    let set = choice.set;
    let unsaid = || {
        if let Some(original) = options.raid0_original {
            return Ok(Layout::Raid0 { original });
        }
        let chunk = shape.chunk.saturating_mul(SECTOR).max(1);
        let rows = |view: &DeviceRef| view.geometry().capacity.bytes() / chunk;
        let rows: Vec<u64> = views.iter().flatten().map(rows).collect();
        let shortest = rows.iter().min().copied().unwrap_or(0);
        // The rules differ where a later zone has several members.
        match rows.iter().filter(|rows| **rows > shortest).count() {
            0 | 1 => Ok(Layout::Raid0 { original: false }),
            _ => Err(AssembleError::Raid0Layout { set }),
        }
    };
    match (shape.level, shape.layout) {
        (Level::Raid0, None | Some(0)) => unsaid(),
        (Level::Linear | Level::Raid1 | Level::Raid4, _) | (_, None) => Ok(Layout::Default),
        (level, Some(number)) => Layout::from_md(level, number as i32)
            .map_err(|error| AssembleError::Spec { set, error }),
    }
}

impl Device for OpenArray {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn begin(&self, request: Request) -> IoFuture {
        match request.op {
            Op::Flush => return IoFuture::ready(Ok(SgList::new())),
            Op::Read(_) => {}
            _ => return IoFuture::ready(Err(IoError::of(&request, self, IoErrorKind::ReadOnly))),
        }
        let (mut at, end) = (request.offset.bytes(), (request.offset + request.len()).bytes());
        let mut reads = Vec::new();
        for (until, array) in &self.parts {
            let to = end.min(*until);
            if at < to {
                let read = Request::read(Offset(at), ByteCount(to - at));
                reads.push(array.submit(read.with_priority(request.priority)));
                at = to;
            }
        }
        IoFuture::new(async move {
            let mut whole = SgList::new();
            for read in reads {
                whole.append(read.await?);
            }
            Ok(whole)
        })
    }
}
