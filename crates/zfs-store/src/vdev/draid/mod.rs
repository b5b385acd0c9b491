//! dRAID: groups of data and parity spread over all children ([`layout`]), with spare space among them.
//!
//! How its map is read, and what is done about missing and wrong pieces, is the same as in raidz (`striped`). Spare space
//! stands in the place of a lost child, as a side of its mirror (`mirror`).

pub mod layout;
pub(crate) mod maps;

pub use layout::{Layout, ROW_BYTES};

use super::ask::{Ask, Failure};
use super::striped::{Striped, Suspects};
use rt::Buf;
use std::rc::Rc;

/// A dRAID.
pub(crate) struct Draid {
    pub(crate) striped: Striped,
    pub(crate) layout: Rc<layout::Layout>,
    pub(crate) ashift: u32,
}

impl Draid {
    /// Reads a block; nothing where none can begin there.
    pub(crate) async fn read(
        &self,
        offset: u64,
        size: usize,
        ask: &Ask<'_>,
    ) -> Option<Result<Buf, Failure>> {
        let map = self.layout.map(offset, size, self.ashift)?;
        Some(self.striped.read(map, Suspects::Children, ask).await)
    }
}
