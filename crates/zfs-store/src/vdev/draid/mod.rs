//! dRAID: groups of data and parity spread over all children ([`layout`]), with spare space among them.
//!
//! What is done with its map's pieces is the same as in raidz (`striped`): see `read::raidz`, `write::raidz`. Spare space
//! stands in the place of a lost child, as a side of its mirror (`mirror`).

pub mod layout;
pub(crate) mod maps;

pub use layout::{Layout, ROW_BYTES};

use super::striped::Striped;
use std::rc::Rc;

/// The configuration's name for which of its dRAID's spares a leaf is.
pub const SPARE_NUMBER: &str = "spareid";

/// A dRAID.
pub(crate) struct Draid {
    pub(crate) striped: Striped,
    pub(crate) layout: Rc<layout::Layout>,
    pub(crate) ashift: u32,
}
