//! How a dRAID lies: groups of data and parity spread over all children, with spare space among them.
//!
//! # The layout
//!
//! Each child is cut into rows of 16 MiB ([`ROW_BYTES`]). A *group* is as many columns as data and parity together,
//! a row high. Groups are laid side by side over the children that are not spare, and go on in the next row where
//! the children end; after `groups` groups a whole number of rows is full: a *slice*. Offsets fill a group before
//! they go on to the next.
//!
//! Which child a column is, a permutation says, another for each slice (`maps`): slice s takes permutation s / n,
//! with s mod n added to each of its numbers, modulo n children. The last places of each permutation are the
//! spares: in the place of a lost child, *spare k* is the child that stands k places before the end, another one in
//! each slice.
//!
//! ```text
//!   5 children, 1 spare, groups of 3 (2 data, 1 parity):       group 0   group 0   group 0   group 1   spare
//!   4 groups make 3 rows                                       group 1   group 1   group 2   group 2   spare
//!                                                              group 2   group 3   group 3   group 3   spare
//! ```
//!
//! A block takes whole rows of sectors of its group, padded with zeros; it may run over from one group into the
//! next, as a second row of the map. Data runs down the columns as in raidz, and the parities are the same.
//!
//! # Rules
//!
//! 1. Numbers that don't fit together are refused when the tree is made; offsets that are no multiple of a group's
//!    sectors when they are read.
//! 2. dRAIDs with failure domains (`draid_nchildren` in the configuration; newer than this format's 2.3) are refused.
//!
//! Source: OpenZFS, `vdev_draid.c`.

use super::maps;
use crate::vdev::raidz::map::{Column, Map, Row};
use zfs_format::vdev;

/// How high a group is on each of its children, in bytes: the largest block.
pub const ROW_BYTES: u64 = 16 << 20;
/// Bytes at the end of each child that nothing is allocated in: what a later expansion would need.
const RESERVED_BYTES: u64 = 32 << 20;
/// Groups of a slice, spares: OpenZFS's limits.
const GROUPS_MAX: u64 = 255;
const SPARES_MAX: u64 = 100;

/// How a dRAID spreads its groups.
pub struct Layout {
    children: usize,
    data: u64,
    parity: u64,
    groups: u64,
    /// Children that are not spare, in each row.
    disks: u64,
    permutations: Vec<u8>,
}

/// Where a group lies.
struct Place {
    /// The slice.
    slice: u64,
    /// The first place in the permutation.
    start: u64,
    /// On the first child, in bytes from the start of the data area.
    at: u64,
}

impl Layout {
    /// The layout of these numbers over so many children; nothing where they don't fit together.
    pub fn new(config: &vdev::Draid, children: usize) -> Option<Layout> {
        let vdev::Draid { parity, data, spares, groups } = *config;
        let disks = (children as u64).checked_sub(spares)?;
        let fits = (1..=GROUPS_MAX).contains(&groups)
            && (1..=3).contains(&parity)
            && data > 0
            && spares <= SPARES_MAX
            && data.checked_add(parity)? <= disks
            && ((data + parity) * groups).is_multiple_of(disks);
        if !fits {
            return None;
        }
        let permutations = maps::permutations(children)?;
        Some(Layout { children, data, parity, groups, disks, permutations })
    }

    /// Bytes of the vdev over children of so many bytes at the least: whole groups.
    pub fn asize(&self, child: u64) -> u64 {
        let rows = child.saturating_sub(RESERVED_BYTES) / ROW_BYTES;
        rows * ROW_BYTES * self.disks / self.group_bytes() * self.group_bytes()
    }

    /// Columns of a group.
    fn width(&self) -> u64 {
        self.data + self.parity
    }

    /// Bytes of a group.
    fn group_bytes(&self) -> u64 {
        self.width() * ROW_BYTES
    }

    /// Rows of a slice.
    fn slice_rows(&self) -> u64 {
        self.width() * self.groups / self.disks
    }

    /// The child at this place of a slice's permutation.
    fn child(&self, slice: u64, place: u64) -> usize {
        let children = self.children as u64;
        let turn = slice % self.permutations.len() as u64;
        let (base, add) = (turn / children * children, turn % children);
        let number = u64::from(self.permutations[(base + place) as usize]);
        ((number + add) % children) as usize
    }

    /// The child on which spare `spare` lies at this offset of a child's data area.
    pub fn spare_child(&self, spare: u64, offset: u64) -> Option<usize> {
        let place = (self.children as u64).checked_sub(1 + spare).filter(|at| *at >= self.disks)?;
        Some(self.child(offset / (self.slice_rows() * ROW_BYTES), place))
    }

    /// Where this offset lies.
    fn place(&self, offset: u64, ashift: u32) -> Place {
        let group = offset / self.group_bytes();
        let (slice, group) = (group / self.groups, group % self.groups);
        let first = group * self.width();
        let row = slice * self.slice_rows() + first / self.disks;
        let sector = ((offset % self.group_bytes()) >> ashift) / self.width();
        Place { slice, start: first % self.disks, at: row * ROW_BYTES + (sector << ashift) }
    }

    /// Bytes that a block takes: whole rows of sectors of its group.
    pub fn allocated(&self, size: usize, ashift: u32) -> u64 {
        let rows = (size as u64).div_ceil(self.data << ashift);
        (rows * self.width()) << ashift
    }

    /// The map of a block; nothing where the offset is none at which a block can begin.
    pub fn map(&self, offset: u64, size: usize, ashift: u32) -> Option<Map> {
        if !offset.is_multiple_of(self.width() << ashift) {
            return None;
        }
        let (mut rows, mut offset, mut block_at) = (Vec::with_capacity(2), offset, 0);
        while block_at < size {
            // What is left of the group, in rows of its sectors.
            let left = self.group_bytes() - offset % self.group_bytes();
            let holds = left / self.width() * self.data;
            let part = ((size - block_at) as u64).min(holds);
            rows.push(self.row(offset, part >> ashift, ashift, block_at));
            block_at += part as usize;
            offset += left;
        }
        Some(Map { parity: self.parity as usize, size, rows })
    }

    /// The columns of so many sectors of data within one group.
    fn row(&self, offset: u64, sectors: u64, ashift: u32, mut block_at: usize) -> Row {
        let place = self.place(offset, ashift);
        let (quotient, remainder) = (sectors / self.data, sectors % self.data);
        let big = if remainder == 0 { 0 } else { remainder + self.parity };
        let column = |number: u64| {
            let at_place = place.start + number;
            let next_row = at_place >= self.disks;
            let child = self.child(place.slice, at_place % self.disks);
            let at = place.at + if next_row { ROW_BYTES } else { 0 };
            let len = ((quotient + u64::from(number < big)) << ashift) as usize;
            let mut column = Column { child, at, len, block_at: 0, sector: 0 };
            if number >= self.parity {
                column.block_at = block_at;
                block_at += len;
            }
            column
        };
        Row { scratch: false, columns: (0..self.width()).map(column).collect() }
    }
}

#[cfg(test)]
mod tests;
