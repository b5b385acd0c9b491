//! Which sectors of which children a raidz block takes: pure arithmetic.
//!
//! # The layout
//!
//! Sectors of a raidz are numbered row by row over its children: sector b lies on child b mod n, at sector b / n
//! of it. A block of s sectors that begins at sector b takes the sectors from b on: in each of its rows first the
//! parities, then the data. But the data runs down the columns, not along the rows: the first data column
//! holds the first part of the block, the next the part after it. With r sectors in the last, incomplete row the
//! first r data columns are a sector longer.
//!
//! ```text
//!   raidz1 of 4 children, block of 5 sectors at sector 5:      child   0    1    2    3
//!                                                              row 1        P0   D0   D2
//!                                                              row 2   D4   P1   D1   D3
//! ```
//!
//! (Columns: P on child 1, then D0 D1 on child 2, D2 D3 on child 3, and D4 on child 0, a row further down.) What
//! is allocated is rounded up to a multiple of parity + 1 sectors, so that what is freed can be used
//! again; those *skip sectors* behind the block hold nothing.
//!
//! With single parity the first two columns change places where bit 20 of the block's offset is set. It was meant to
//! spread the parity; now it is the format.
//!
//! # Expanded
//!
//! Adding a child moves each sector to its place in the wider numbering; sector b stays sector b. A block
//! keeps its number of columns (its *logical width*), so its rows begin anywhere, and one of its columns is spread
//! over children: here each row is a row of its own, each column a sector. While the
//! expansion is under way, a row that ends behind what is copied still lies in the narrower numbering.
//! Right after its start what was copied may lie in the scratch area before the data area.
//!
//! # Rules
//!
//! 1. The columns' pieces cover the block exactly, without overlap, in any map.
//! 2. Within a row all columns are on different children, and no data column is longer than a parity.
//! 3. Offsets and sizes are checked by the caller: whole sectors, more children than parities, below
//!    [`OFFSET_MAX`].
//!
//! Source: OpenZFS, `vdev_raidz.c` (the two kinds of map, and the theory of expansion at its head).

/// Offsets of blocks end here: far above any vdev, and arithmetic can't overflow below. In bytes.
pub const OFFSET_MAX: u64 = 1 << 60;

/// The bit of the offset by which single parity changes its place: 1 MiB.
const SWAP_BIT: u64 = 1 << 20;

/// Where a block's pieces lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// Parities of each row.
    pub parity: usize,
    /// Bytes of the block, in whole sectors.
    pub size: usize,
    /// The rows; each can be reconstructed by itself.
    pub rows: Vec<Row>,
}

/// Columns that have their parity in common: first the parities, then the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Whether offsets count from the scratch area instead of the data area.
    pub scratch: bool,
    /// The columns. Those after the first `parity` may be empty.
    pub columns: Vec<Column>,
}

/// Contiguous bytes on a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Which child.
    pub child: usize,
    /// Where on it, in bytes from the start of its data area.
    pub at: u64,
    /// How many bytes.
    pub len: usize,
    /// Of data: where in the block, in bytes.
    pub block_at: usize,
    /// The number of its first sector in the numbering of the whole raidz, by which past layouts find its child.
    pub sector: u64,
}

/// How far an expansion that is under way came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reflow {
    /// Bytes of the raidz whose sectors have moved.
    pub synced: u64,
    /// Whether they are in the scratch area still.
    pub scratch: bool,
}

/// How many sectors of a block go where.
struct Division {
    /// Data sectors of each data column.
    quotient: u64,
    /// Sectors left over.
    remainder: u64,
    /// Columns, parities among them, that hold one of those too.
    big: u64,
    /// All sectors, parities among them.
    total: u64,
}

fn divide(sectors: u64, width: u64, parity: u64) -> Division {
    let data = width - parity;
    let (quotient, remainder) = (sectors / data, sectors % data);
    Division {
        quotient,
        remainder,
        big: if remainder == 0 { 0 } else { remainder + parity },
        total: sectors + parity * sectors.div_ceil(data),
    }
}

/// The bytes that a block of so many takes on a raidz of this width, parity and skip sectors included.
pub fn allocated(size: u64, ashift: u32, width: usize, parity: usize) -> u64 {
    let (width, parity) = (width as u64, parity as u64);
    let sectors = size.div_ceil(1 << ashift).max(1);
    divide(sectors, width, parity).total.next_multiple_of(parity + 1) << ashift
}

/// The map of a block on a raidz of so many children.
pub fn map(offset: u64, size: usize, ashift: u32, children: usize, parity: usize) -> Map {
    let mut columns = Vec::with_capacity(children);
    add_columns(&mut columns, offset, size, ashift, children, parity);
    Map { parity, size, rows: vec![Row { scratch: false, columns }] }
}

/// Adds the columns of the only row of [`map`] to a list, and says how many they are.
pub(crate) fn add_columns(
    to: &mut Vec<Column>,
    offset: u64,
    size: usize,
    ashift: u32,
    children: usize,
    parity: usize,
) -> usize {
    let (width, parities) = (children as u64, parity as u64);
    let (first, division) = (offset >> ashift, divide(size as u64 >> ashift, width, parities));
    let columns = if division.quotient == 0 { division.big } else { width };
    let mut block_at = 0;
    let before = to.len();
    to.extend((0..columns).map(|number| {
        let sector = first + number;
        let len = (division.quotient + u64::from(number < division.big)) << ashift;
        let child = (sector % width) as usize;
        let at = (sector / width) << ashift;
        let len = len as usize;
        let column = Column { child, at, len, block_at, sector };
        if number >= parities {
            block_at += len;
        }
        column
    }));
    swap(&mut to[before..], offset, parity);
    to.len() - before
}

/// The map of a block whose logical width is not that of the raidz: it was written before an expansion.
pub fn map_expanded(
    offset: u64,
    size: usize,
    ashift: u32,
    (physical, logical): (usize, usize),
    parity: usize,
    reflow: Option<Reflow>,
) -> Map {
    let (width, parities) = (logical as u64, parity as u64);
    let (first, division) = (offset >> ashift, divide(size as u64 >> ashift, width, parities));
    let rows = division.total.div_ceil(width);
    let columns = division.total.min(width);
    let one = 1_usize << ashift;
    let row = |number: u64| {
        let start = first + number * width;
        let moved = reflow.is_none_or(|reflow| start + columns <= reflow.synced >> ashift);
        let over = if moved { physical as u64 } else { physical as u64 - 1 };
        let scratch = moved && reflow.is_some_and(|reflow| reflow.scratch);
        let column = |column: u64| {
            let sector = start + column;
            let (len, at) = match column.checked_sub(parities) {
                None => (one, 0),
                // Behind the end of the block; it counts as zeros in the parity.
                Some(_) if number == rows - 1 && division.big != 0 && column >= division.big => {
                    (0, 0)
                }
                Some(data) if data < division.remainder || division.remainder == 0 => {
                    (one, data * rows + number)
                }
                Some(data) => {
                    let long = division.remainder;
                    (one, long * rows + (data - long) * (rows - 1) + number)
                }
            };
            let (child, place) = ((sector % over) as usize, (sector / over) << ashift);
            Column { child, at: place, len, block_at: (at as usize) << ashift, sector }
        };
        let mut columns: Vec<Column> = (0..columns).map(column).collect();
        swap(&mut columns, offset, parity);
        Row { scratch, columns }
    };
    Map { parity, size, rows: (0..rows).map(row).collect() }
}

/// Lets the first two columns change places, where the format wants it.
fn swap(columns: &mut [Column], offset: u64, parity: usize) {
    if parity != 1 || offset & SWAP_BIT == 0 {
        return;
    }
    if let [first, second, ..] = columns {
        std::mem::swap(&mut first.child, &mut second.child);
        std::mem::swap(&mut first.at, &mut second.at);
        std::mem::swap(&mut first.sector, &mut second.sector);
    }
}

#[cfg(test)]
mod tests;
