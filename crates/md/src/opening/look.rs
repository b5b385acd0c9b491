//! Opening a chosen set for reading.
//!
//! The result is a [`Device`] that answers reads and refuses writes. Nothing below it is ever written: its
//! windows keep what the opening itself writes in memory. Most arrays are one engine; during a reshape there are two, one
//! a geometry, and a read is cut where they meet.
//!
//! What it refuses besides: reshapes whose critical section lies in a backup file, and level changes under way.

use super::admission::{Admitted, admit, admit_shape};
use super::engine::{Opened, over};
use super::geometry::{HalfFilled, Shape};
use super::members::windows;
use super::mode::{Mode, OpenOptions};
use super::refusal::Refusal;
use crate::array::Array;
use crate::assemble::choice::Choice;
use crate::assemble::critical_section::needs_backup;
use crate::assemble::error::AssembleError;
use crate::assemble::facts::Superblock;
use crate::assemble::found::bitmap;
use crate::spec::Level;
use crate::superblock::{Problem, SECTOR};
use async_recursion::async_recursion as boxed;
use rt::{Device, Geometry, IoError, IoErrorKind, IoFuture, Op, Request, Rt, SgList};
use std::rc::Rc;
use std::sync::Arc;
use stdx::{ByteCount, Offset};

/// A set that is open for reading.
pub struct OpenArray {
    name: Arc<str>,
    geometry: Geometry,
    /// The engines, each up to a byte of the array, in order.
    parts: Vec<(u64, Rc<Array>)>,
    choice: Choice,
}

impl OpenArray {
    /// Opens a set under a name.
    ///
    /// # Errors
    /// What keeps it from being opened, and the mend.
    #[boxed(?Send)]
    pub async fn open(
        rt: &Rt,
        name: &str,
        choice: Choice,
        options: OpenOptions,
    ) -> Result<Rc<OpenArray>, AssembleError> {
        let (set, mode) = (choice.set, Mode::look(options));
        let admitted = admit(&choice, mode).map_err(|refusal| refusal.of_look(set))?;
        refuse_unsupported_bitmaps(&choice).await?;
        let facts = &choice.facts;
        let engine = async |shape: Shape| {
            let opened = engine(rt, name, &choice, &admitted, &shape, mode).await;
            opened.map_err(|refusal| refusal.of_look(set))
        };
        let at_rest = Shape::at_rest(&choice, admitted.level);
        let (geometry, parts) = match facts.reshape() {
            None => {
                let array = engine(at_rest).await?;
                (array.geometry(), vec![(array.geometry().capacity.bytes(), array)])
            }
            Some(reshape) => {
                let half_filled = |in_growing| match facts.slots() > reshape.slots_before {
                    true => in_growing,
                    false => HalfFilled::Part,
                };
                let before = Shape {
                    half_filled: half_filled(HalfFilled::Absent),
                    slots: reshape.slots_before,
                    ..at_rest
                };
                let old = engine(before).await?;
                if reshape.level != facts.level() {
                    let what = "a change of level under way";
                    return Err(AssembleError::Unsupported { set, what });
                }
                if needs_backup(facts, &reshape, admitted.level) {
                    return Err(AssembleError::Backup { set });
                }
                let after = Shape {
                    half_filled: half_filled(HalfFilled::Whole),
                    level: admitted.level,
                    layout: Some(reshape.layout),
                    chunk: reshape.chunk,
                    slots: facts.slots(),
                    offset: Superblock::new_data_offset,
                };
                let new = engine(after).await?;
                // md shows the smaller size until the reshape is done.
                let capacity = old.geometry().capacity.min(new.geometry().capacity);
                let split = (reshape.position * SECTOR).min(capacity.bytes());
                let geometry = Geometry { capacity, ..old.geometry() };
                let (low, high) = if reshape.backwards { (old, new) } else { (new, old) };
                (geometry, vec![(split, low), (capacity.bytes(), high)])
            }
        };
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

/// Puts an engine over the members in one geometry.
async fn engine(
    rt: &Rt,
    name: &str,
    choice: &Choice,
    set: &Admitted,
    shape: &Shape,
    mode: Mode,
) -> Result<Rc<Array>, Refusal> {
    admit_shape(choice, set, shape, mode)?;
    let windows = windows(choice, shape, set.redundant, mode).await?;
    let opened = over(rt, name, choice, (set, shape), &windows, mode).await?;
    let Opened { array, dirty, resync_offset, .. } = opened;
    for (slot, bytes) in shape.recovered(choice) {
        array.set.members.set_recovered(slot, bytes);
    }
    // RAID 10 counts its resync in sectors of the array, and in a reshape of which geometry nobody says.
    let is_told = set.level != Level::Raid10 || choice.facts.reshape().is_none();
    if dirty && is_told {
        array.set.set_clean(0..array.right_until(resync_offset));
    }
    Ok(array)
}

/// A bitmap that may mean something else than "these stretches may differ" is no array to open. One copy that
/// can't be read does no harm: an array that is only read does not need it.
async fn refuse_unsupported_bitmaps(choice: &Choice) -> Result<(), AssembleError> {
    for found in choice.slots.iter().flatten() {
        if let Err(AssembleError::Format { device, error }) = bitmap(found).await
            && matches!(error.problem, Problem::Unsupported(_))
        {
            return Err(AssembleError::Format { device, error });
        }
    }
    Ok(())
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
