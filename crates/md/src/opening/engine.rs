//! The last step that both ways of opening share: an array over the windows, which knows what is not right yet.

use super::admission::Admitted;
use super::geometry::Shape;
use super::logs::{Brought, bring_in};
use super::mode::Mode;
use super::refusal::Refusal;
use crate::array::Array;
use crate::assemble::choice::Choice;
use crate::spec::Map;
use crate::window::Window;
use rt::{DeviceRef, Rt};
use std::rc::Rc;

/// An array over the members, and what its opening found out.
pub(crate) struct Opened {
    pub(crate) array: Rc<Array>,
    pub(crate) brought: Brought,
    /// Below this sector copies and parity are right, as superblocks count.
    pub(crate) resync_offset: u64,
    /// Parity was not right everywhere, and the logs did not put it right.
    pub(crate) was_dirty: bool,
    /// The engine itself takes it for not right everywhere.
    pub(crate) dirty: bool,
    /// How many slots have nobody, or somebody who has not everything.
    pub(crate) missing: usize,
}

/// Admits a shape of a set, and puts an array over its windows.
///
/// # Errors
/// What keeps it from being opened like this.
pub(crate) async fn over(
    rt: &Rt,
    name: &str,
    choice: &Choice,
    (set, shape): (&Admitted, &Shape),
    windows: &[Option<Rc<Window>>],
    mode: Mode,
) -> Result<Opened, Refusal> {
    let members: Vec<Option<DeviceRef>> =
        windows.iter().map(|one| one.clone().map(|window| window as DeviceRef)).collect();
    let mut spec = shape.spec(choice, members.clone(), mode)?;
    let map = spec.plan().map_err(Refusal::Spec)?.map;
    let brought = match &map {
        Map::Parity(map) => bring_in(choice, set, shape, (&members, map), mode).await?,
        Map::Striped(_) | Map::Mirrored(_) => Brought::default(),
    };
    // Nothing tells any more where parity may be wrong.
    let in_doubt = mode.is_live()
        && (choice.lacks_journal() && set.force
            || brought.journal.is_some_and(|replayed| replayed.was_new));
    let was_dirty = (set.dirty || in_doubt) && !brought.all_right;
    let missing = shape.missing(choice);
    // With a parity too few nothing better than what is there can be made: a log told, or somebody asked for it.
    let dirty = was_dirty && !(missing > 0 && set.level.parities() > 0);
    spec.clean = !dirty;
    Ok(Opened {
        array: Array::create(rt, name, spec).map_err(Refusal::Spec)?,
        brought,
        resync_offset: if in_doubt { 0 } else { choice.resync_offset() },
        was_dirty,
        dirty,
        missing,
    })
}
