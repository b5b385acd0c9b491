//! The members' data areas: a window on each.
//!
//! Where a device is cut short behind what the set uses, the window ends where the device does.

use super::geometry::Shape;
use super::mode::Mode;
use crate::assemble::choice::Choice;
use crate::assemble::error::AssembleError;
use crate::assemble::facts::Superblock;
use crate::assemble::found::{Found, bad_blocks};
use crate::superblock::SECTOR;
use crate::window::{Window, Writes};
use rt::Geometry;
use std::rc::Rc;
use stdx::{ByteCount, Offset};

/// Windows on the members of a set in one geometry, by slot.
///
/// # Errors
/// Where a data area does not lie on its device, or its bad-block log can't be read.
pub(crate) async fn windows(
    choice: &Choice,
    shape: &Shape,
    redundant: bool,
    mode: Mode,
) -> Result<Vec<Option<Rc<Window>>>, AssembleError> {
    let mut windows = Vec::with_capacity(shape.slots);
    for slot in 0..shape.slots {
        let found = choice.member(slot).filter(|_| !shape.is_absent(choice, slot));
        windows.push(match found {
            Some(found) => {
                let start = (shape.offset)(&found.superblock);
                Some(data_area(found, start, redundant, mode.writes()).await?)
            }
            None => None,
        });
    }
    Ok(windows)
}

/// The data area of a device that is, or is to be, a member of a set at rest.
///
/// # Errors
/// As [`windows`].
pub(crate) async fn window(found: &Found, redundant: bool) -> Result<Rc<Window>, AssembleError> {
    data_area(found, found.superblock.data_offset(), redundant, Writes::Through).await
}

/// The data area that begins at a sector of a device.
async fn data_area(
    found: &Found,
    start: u64,
    redundant: bool,
    writes: Writes,
) -> Result<Rc<Window>, AssembleError> {
    let Geometry { capacity, logical_block, .. } = found.device.geometry();
    let (size, end) = match &found.superblock {
        Superblock::V1(own) => (own.data_size, capacity.bytes() / SECTOR),
        // It ends where the superblock lies.
        Superblock::V090(_) => (u64::MAX, found.at.bytes() / SECTOR),
    };
    let there = size.min(end.saturating_sub(start));
    let used = match &found.superblock {
        _ if redundant => found.superblock.size(),
        Superblock::V1(own) => own.data_size,
        Superblock::V090(_) => there,
    };
    let len = ByteCount(there * SECTOR).round_down(logical_block);
    let at = start.checked_mul(SECTOR).map(Offset);
    let at = at.filter(|at| there >= used && Window::fits(&found.device, *at, len));
    match at.filter(|_| !(redundant && len.is_zero())) {
        Some(at) => Ok(Window::new(&found.device, at, len, &bad_blocks(found).await?, writes)),
        None => {
            let (device, what) = (found.name(), "the data area");
            Err(AssembleError::BeyondEnd { device, what, capacity })
        }
    }
}
