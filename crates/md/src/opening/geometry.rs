//! One geometry of a set, in the engine's words. A set in a reshape has two: what lies on one side of its position is in
//! the one, the rest in the other.

use super::mode::Mode;
use crate::assemble::choice::Choice;
use crate::assemble::error::AssembleError;
use crate::assemble::facts::Superblock;
use crate::spec::{ArraySpec, Layout, Level};
use crate::superblock::SECTOR;
use rt::DeviceRef;
use stdx::ByteCount;

/// What members that are half filled are in a geometry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Sectors of a chunk.
    pub(crate) chunk: u64,
    pub(crate) slots: usize,
    pub(crate) half_filled: HalfFilled,
    /// Where the data begins: before or after the reshape.
    pub(crate) offset: fn(&Superblock) -> u64,
}

impl Shape {
    /// That of a set at rest.
    pub(crate) fn at_rest(choice: &Choice, level: Level) -> Shape {
        let facts = &choice.facts;
        Shape {
            level,
            layout: facts.layout(),
            chunk: facts.chunk(),
            slots: facts.slots(),
            half_filled: HalfFilled::Part,
            offset: Superblock::data_offset,
        }
    }

    /// Slots whose member is right only before a byte of its data area, with that byte.
    pub(crate) fn recovered(&self, choice: &Choice) -> Vec<(usize, u64)> {
        if self.half_filled == HalfFilled::Absent {
            return Vec::new();
        }
        let recovered = |slot| {
            let sectors = choice.member(slot)?.superblock.recovery_offset()?;
            Some((slot, sectors.saturating_mul(SECTOR)))
        };
        (0..self.slots).filter_map(recovered).collect()
    }

    /// Whether a slot has nobody in this geometry.
    pub(crate) fn is_absent(&self, choice: &Choice, slot: usize) -> bool {
        let is_half = |superblock: &Superblock| superblock.recovery_offset().is_some();
        choice.member(slot).is_none_or(|found| {
            self.half_filled == HalfFilled::Absent && is_half(&found.superblock)
        })
    }

    /// How many slots have nobody, or somebody who has not everything.
    pub(crate) fn missing(&self, choice: &Choice) -> usize {
        let absent = (0..self.slots).filter(|slot| self.is_absent(choice, *slot)).count();
        match self.half_filled {
            HalfFilled::Part => absent + self.recovered(choice).len(),
            HalfFilled::Absent | HalfFilled::Whole => absent,
        }
    }

    /// What the set is to the engine over these members: all but whether it is clean.
    ///
    /// # Errors
    /// Where it does not say how it is laid out, or in a way that is not known.
    pub(crate) fn spec(
        &self,
        choice: &Choice,
        members: Vec<Option<DeviceRef>>,
        mode: Mode,
    ) -> Result<ArraySpec, AssembleError> {
        assert_eq!(members.len(), self.slots, "each slot has its place among the members");
        let redundant = !matches!(self.level, Level::Linear | Level::Raid0);
        let mut spec = ArraySpec::new(self.level, Vec::new());
        spec.layout = layout(choice, self, &members, mode)?;
        spec.chunk = ByteCount(self.chunk.saturating_mul(SECTOR));
        let size = choice.facts.size().saturating_mul(SECTOR);
        spec.component_size = redundant.then_some(ByteCount(size));
        spec.members = members;
        Ok(spec)
    }
}

/// The layout in the engine's words.
fn layout(
    choice: &Choice,
    shape: &Shape,
    views: &[Option<DeviceRef>],
    mode: Mode,
) -> Result<Layout, AssembleError> {
    let set = choice.set;
    let unsaid = || {
        if let Some(original) = mode.raid0_original() {
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
