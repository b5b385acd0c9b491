//! Raidz: blocks over all children, each with parity of its own.
//!
//! [`map`] says where a block's pieces lie. Which map is right depends on the block's birth: an expansion widens the
//! raidz, but blocks keep the number of columns that they were written with (their *logical width*). The
//! configuration lists the transaction groups from which on blocks were written a column wider. What is done
//! with a map's pieces is the same as in dRAID (`striped`): see `read::raidz`, `write::raidz`.

pub mod map;

use super::striped::{Striped, Suspects};
use map::{Map, Reflow};
use std::cell::Cell;
use zfs_format::uberblock::RaidzReflow;
use zfs_format::vdev;

/// The uberblock's word for: what has moved is in the scratch area.
const SCRATCH_VALID: u16 = 1;

/// A raidz.
pub(crate) struct Raidz {
    pub(crate) striped: Striped,
    ashift: u32,
    /// The logical width before any expansion.
    original: usize,
    /// From this transaction group on, blocks were written so wide; sorted.
    widths: Vec<(u64, usize)>,
    /// Whether a child is being added right now.
    expanding: bool,
    reflow: Cell<Option<Reflow>>,
}

impl Raidz {
    /// Nothing where there were more expansions than there are children for.
    pub(crate) fn new(striped: Striped, config: &vdev::Raidz, ashift: u32) -> Option<Raidz> {
        // The child that is being added does not count yet.
        let widest = striped.children.len() - usize::from(config.expanding);
        let mut txgs = config.expand_txgs.clone();
        txgs.sort_unstable();
        let original = widest.checked_sub(txgs.len())?;
        if original <= striped.parity {
            return None;
        }
        let widths = txgs.into_iter().zip(original + 1..).collect();
        let (expanding, reflow) = (config.expanding, Cell::default());
        Some(Raidz { striped, ashift, original, widths, expanding, reflow })
    }

    pub(crate) fn set_reflow(&self, reflow: RaidzReflow) {
        if self.expanding {
            let scratch = reflow.scratch == SCRATCH_VALID;
            self.reflow.set(Some(Reflow { synced: reflow.offset, scratch }));
        }
    }

    /// Whether a child is being added right now.
    pub(crate) fn is_expanding(&self) -> bool {
        self.expanding
    }

    /// How many columns blocks were written with in this transaction group.
    pub(crate) fn width(&self, birth: u64) -> usize {
        let later = self.widths.iter().rev().find(|(txg, _)| *txg <= birth);
        later.map_or(self.original, |(_, width)| *width)
    }

    fn map(&self, offset: u64, size: usize, birth: u64) -> Map {
        let (physical, logical) = (self.striped.children.len(), self.width(birth));
        let (ashift, parity) = (self.ashift, self.striped.parity);
        if physical == logical {
            return map::map(offset, size, ashift, physical, parity);
        }
        // Without word from the uberblock nothing has moved.
        let start = Reflow { synced: 0, scratch: false };
        let reflow = self.expanding.then(|| self.reflow.get().unwrap_or(start));
        map::map_expanded(offset, size, ashift, (physical, logical), parity, reflow)
    }

    /// Bytes that a block takes which is written in this transaction group.
    pub(crate) fn allocated(&self, size: usize, txg: u64) -> u64 {
        map::allocated(size as u64, self.ashift, self.width(txg), self.striped.parity)
    }

    /// Adds the columns of a block to a list, where it lies in one row; nothing where an expansion divided it.
    pub(crate) fn add_columns(
        &self,
        to: &mut Vec<map::Column>,
        offset: u64,
        size: usize,
        birth: u64,
    ) -> Option<usize> {
        let children = self.striped.children.len();
        let is_whole = !self.expanding && self.width(birth) == children;
        let (ashift, parity) = (self.ashift, self.striped.parity);
        is_whole.then(|| map::add_columns(to, offset, size, ashift, children, parity))
    }

    /// Where a block lies, and who is suspect when it is wrong.
    pub(crate) fn plan(&self, offset: u64, size: usize, birth: u64) -> (Map, Suspects) {
        let map = self.map(offset, size, birth);
        // Sectors that were wrong before an expansion lie now where their numbers led them.
        let suspects = if map.rows.len() == 1 {
            Suspects::Children
        } else {
            Suspects::Past { physical: self.striped.children.len(), original: self.original }
        };
        (map, suspects)
    }
}
