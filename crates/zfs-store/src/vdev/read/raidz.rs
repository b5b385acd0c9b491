//! Reading a block of a raidz or dRAID.
//!
//! A [`Map`] lists rows of columns. The block is the data columns put together, and one checksum covers it; so a column
//! can be missing, which is known, or wrong, which is not.
//!
//! 1. The data columns are read; where a child is absent or stale, the parities of that row too. What is contiguous
//!    on a child is one read.
//! 2. What is missing is reconstructed, if the row has enough parities. If the checksum is right, that was it.
//! 3. If not, or if too much is missing: everything else is read as well, and each combination of *suspects* is
//!    taken for missing in turn, one, then two, then three, as far as parities reach beyond what is missing
//!    already. Suspects are the children. After an expansion also the children of the narrower raidz: a disk that was
//!    wrong before it has its sectors spread over the others now.
//! 4. If that fails, stale children are believed after all, and 3 is done again.
//! 5. When the right bytes are known, all that was read is compared with them, parities with what they should be:
//!    whoever differs gets an error counted. When they are never found, everybody does, as in OpenZFS.
//!
//! The combinations are bounded by [`COMBINATIONS_MAX`]: each costs a reconstruction and a checksum.
//!
//! Source: OpenZFS, `vdev_raidz.c`.

use super::mirror::Part;
use crate::expected::Expected;
use crate::vdev::ask::{Ask, Failure};
use crate::vdev::draid::layout::ROW_BYTES;
use crate::vdev::leaf::{Leaf, on_device};
use crate::vdev::raidz::map::{Column, Map};
use crate::vdev::striped::{Striped, Suspects, parities_of};
use codec::parity::{self, Member};
use futures_util::future::join_all;
use rt::{Buf, BufMut, IoErrorKind, Work, WorkKind};
use std::rc::Rc;
use std::sync::Arc;
use stdx::ByteCount;

/// Combinations of suspects that are tried for one block: all of three among 72 children.
pub(crate) const COMBINATIONS_MAX: usize = 1 << 16;
/// Bytes by which the scratch area lies before the data area: 3.5 MiB, the room for a boot loader.
pub(in crate::vdev) const SCRATCH_BYTES: u64 = 7 << 19;

/// A piece of a block.
#[derive(Clone)]
pub(in crate::vdev) enum Cell {
    /// Not read.
    Unread,
    /// Read, from this leaf; from none where the piece is empty.
    Bytes(Buf, Option<Rc<Leaf>>),
    /// Could not be read.
    Failed(IoErrorKind),
    /// Nobody there should have it; a stale one might.
    Stale,
    /// Nobody is there.
    Absent,
}

/// Pieces by row and column, for a worker: what is there.
pub(in crate::vdev) type Pieces = Vec<Vec<Option<Buf>>>;

/// A block that is being read.
pub(in crate::vdev) struct Reading<'a> {
    pub(in crate::vdev) striped: &'a Striped,
    pub(in crate::vdev) ask: &'a Ask<'a>,
    pub(in crate::vdev) map: Arc<Map>,
    pub(in crate::vdev) cells: Vec<Vec<Cell>>,
}

impl Striped {
    /// Reads the block of this map.
    pub(crate) async fn read(
        &self,
        map: Map,
        suspects: Suspects,
        ask: &Ask<'_>,
    ) -> Result<Buf, Failure> {
        let mut reading = Reading::new(self, map, ask);
        reading.fetch(|_, column, parity| column >= parity, false).await;
        reading.complete().await;
        match reading.attempt(&[]).await {
            Some(block) => Ok(block),
            None => reading.rescue(suspects).await,
        }
    }
}

impl<'a> Reading<'a> {
    pub(in crate::vdev) fn new(striped: &'a Striped, map: Map, ask: &'a Ask<'a>) -> Reading<'a> {
        let data = map.rows.iter().flat_map(|row| row.columns.iter().skip(map.parity));
        let bytes: usize = data.map(|column| column.len).sum();
        assert!(bytes == map.size && ask.size <= bytes, "the data columns of a map are its block");
        let unread = |column: &Column| {
            if column.len == 0 {
                return Cell::Bytes(Buf::empty(), None);
            }
            let child = &striped.children[column.child];
            let (fresh, stale) = child.candidates(column.at, ask.birth);
            match (fresh.is_empty(), stale.is_empty()) {
                (false, _) => Cell::Unread,
                (true, false) => Cell::Stale,
                (true, true) => Cell::Absent,
            }
        };
        let cells = map.rows.iter().map(|row| row.columns.iter().map(unread).collect()).collect();
        Reading { striped, ask, map: Arc::new(map), cells }
    }

    /// Makes the block where the pieces as they are don't: with all that can be read, and each combination of suspects
    /// left out.
    pub(in crate::vdev) async fn rescue(&mut self, suspects: Suspects) -> Result<Buf, Failure> {
        let mut failure = self.why();
        let mut counts_stale = false;
        for stale in [false, true] {
            if self.fetch(|_, _, _| true, stale).await == 0 && stale {
                break;
            }
            counts_stale = stale;
            // What stale leaves give may be all that was lacking; without it nothing is new before a suspect is left out.
            if let Some(block) = self.combine(suspects, usize::from(!stale)).await {
                return Ok(block);
            }
            failure = self.why();
        }
        // What a stale leaf lacks is enough for that: nothing says that any of the others is wrong.
        if failure == Failure::Checksum && !counts_stale {
            self.blame_all();
        }
        Err(failure)
    }

    /// Reads what the rule (of row, column and number of parities) wants and was not read; with `stale`, what only
    /// stale leaves can give. Returns how many pieces that was.
    pub(in crate::vdev) async fn fetch(
        &mut self,
        wanted: impl Fn(usize, usize, usize) -> bool,
        stale: bool,
    ) -> usize {
        let mut pieces = Vec::new();
        for (row, cells) in self.cells.iter_mut().enumerate() {
            for (column, cell) in cells.iter_mut().enumerate() {
                let open = match cell {
                    Cell::Unread => !stale,
                    Cell::Stale => stale,
                    _ => false,
                };
                if open && wanted(row, column, self.map.parity) {
                    let from = self.map.rows[row].scratch;
                    let place = self.map.rows[row].columns[column];
                    pieces.push(Piece {
                        row,
                        column,
                        child: place.child,
                        scratch: from,
                        at: place.at,
                        len: place.len,
                    });
                }
            }
        }
        let count = pieces.len();
        pieces.sort_by_key(|piece| (piece.child, piece.scratch, piece.at));
        let mut runs: Vec<Vec<Piece>> = Vec::new();
        for piece in pieces {
            match runs.last_mut() {
                Some(run) if run.last().is_some_and(|last| last.goes_on_in(&piece)) => {
                    run.push(piece);
                }
                _ => runs.push(vec![piece]),
            }
        }
        let this = &*self;
        let answers = join_all(runs.into_iter().map(|run| this.read_run(run, stale))).await;
        for (piece, cell) in answers.into_iter().flatten() {
            self.cells[piece.row][piece.column] = cell;
        }
        count
    }

    /// Reads contiguous pieces of a child: as one; where that fails, one by one.
    async fn read_run(&self, run: Vec<Piece>, stale: bool) -> Vec<(Piece, Cell)> {
        let Some(first) = run.first().copied() else { return Vec::new() };
        let len: usize = run.iter().map(|piece| piece.len).sum();
        let whole = self.read_piece(first, len, stale, run.len() > 1).await;
        match whole {
            Cell::Bytes(bytes, leaf) => {
                let mut at = 0;
                let cut = |piece: Piece| {
                    let part = bytes.slice(at..at + piece.len);
                    at += piece.len;
                    (piece, Cell::Bytes(part, leaf.clone()))
                };
                run.into_iter().map(cut).collect()
            }
            Cell::Failed(_) if run.len() > 1 => {
                let mut answers = Vec::with_capacity(run.len());
                for piece in run {
                    answers.push((piece, self.read_piece(piece, piece.len, stale, false).await));
                }
                answers
            }
            other => run.into_iter().map(|piece| (piece, other.clone())).collect(),
        }
    }

    /// Reads a piece, or as `joined` several at once, whose failure isn't counted yet.
    async fn read_piece(&self, piece: Piece, len: usize, stale: bool, joined: bool) -> Cell {
        let child = &self.striped.children[piece.child];
        let at = on_device(piece.at);
        let at = if piece.scratch { at - SCRATCH_BYTES } else { at };
        let part = Part { offset: piece.at, at, len, stale, joined };
        match child.read_part(part, self.ask).await {
            Ok((bytes, leaf)) => Cell::Bytes(bytes, Some(leaf)),
            Err(Some(kind)) => Cell::Failed(kind),
            Err(None) => Cell::Absent,
        }
    }

    /// Reads the parities of rows that lack data; and where that is not enough, what stale leaves have.
    async fn complete(&mut self) {
        let lacking: Vec<bool> = self.rows().map(|(lost, _)| lost > 0).collect();
        if !lacking.contains(&true) {
            return;
        }
        self.fetch(|row, column, parity| lacking[row] && column < parity, false).await;
        let hopeless: Vec<bool> = self.rows().map(|(lost, parities)| lost > parities).collect();
        if hopeless.contains(&true) {
            self.fetch(|row, _, _| hopeless[row], true).await;
        }
    }

    /// For each row how many data columns are missing, and how many parities are there.
    fn rows(&self) -> impl Iterator<Item = (usize, usize)> {
        let there = |cell: &&Cell| matches!(cell, Cell::Bytes(..));
        let parity = self.map.parity;
        self.cells.iter().map(move |cells| {
            let parities = cells.iter().take(parity).filter(there).count();
            let data = cells.iter().skip(parity).filter(there).count();
            (cells.len().saturating_sub(parity + data), parities)
        })
    }

    /// Why the block can't be made of what was read.
    fn why(&self) -> Failure {
        if self.rows().all(|(lost, parities)| lost <= parities) {
            return Failure::Checksum;
        }
        let failed = self.cells.iter().flatten().find_map(|cell| match cell {
            Cell::Failed(kind) => Some(*kind),
            _ => None,
        });
        failed.map_or(Failure::Missing, Failure::Io)
    }

    /// Makes the block without the pieces of these suspects. Nothing where that can't be, or isn't right.
    pub(in crate::vdev) async fn attempt(&self, suspects: &[Suspect]) -> Option<Buf> {
        let (mut pieces, mut changes) = (Vec::with_capacity(self.cells.len()), suspects.is_empty());
        let mut lost_any = false;
        for (row, cells) in self.map.rows.iter().zip(&self.cells) {
            let mut left = Vec::with_capacity(cells.len());
            let (mut lost, mut parities, mut left_out) = (0, 0, false);
            for (number, (column, cell)) in row.columns.iter().zip(cells).enumerate() {
                let is_data = number >= self.map.parity;
                let suspect =
                    column.len > 0 && suspects.iter().any(|suspect| suspect.covers(column));
                let piece = match cell {
                    Cell::Bytes(bytes, _) if !suspect => Some(bytes.clone()),
                    Cell::Bytes(..) => {
                        left_out = true;
                        None
                    }
                    _ => None,
                };
                match (&piece, is_data) {
                    (Some(_), false) => parities += 1,
                    (None, true) => lost += 1,
                    _ => {}
                }
                left.push(piece);
            }
            if lost > parities {
                return None;
            }
            lost_any |= lost > 0;
            // Leaving out a parity matters where something is reconstructed: from another one then.
            changes |= left_out && lost > 0;
            pieces.push(left);
        }
        if !changes {
            return None;
        }
        let bytes = ByteCount(self.map.size as u64);
        let work = self.ask.expected.work(bytes);
        let work = if lost_any { work.and(WorkKind::Reconstruct, bytes) } else { work };
        let (map, expected, size) =
            (Arc::clone(&self.map), self.ask.expected.clone(), self.ask.size);
        // Here, so that the pool of this thread gets its memory back.
        let mut block = BufMut::for_overwrite(map.size);
        let job = move || {
            assemble(&map, &pieces, &mut block);
            expected.holds(block.get(..size).unwrap_or_default()).then(|| block.freeze())
        };
        self.ask.rt.compute(work, job).await
    }

    /// Takes each combination of suspects, so many at least, for missing, until the rest gives the right bytes.
    async fn combine(&self, suspects: Suspects, count_min: usize) -> Option<Buf> {
        let spare = self.rows().map(|(lost, parities)| parities.checked_sub(lost));
        let spare = spare.collect::<Option<Vec<_>>>()?.into_iter().max()?;
        // An expected nothing is what was made at first.
        if matches!(self.ask.expected, Expected::Anything) {
            return None;
        }
        let all = suspects.list(&self.map);
        let mut tries = 0;
        for count in count_min..=spare {
            let mut chosen: Vec<usize> = (0..count).collect();
            loop {
                // Others shall not wait for all of them.
                self.ask.rt.yield_now().await;
                let combination: Vec<Suspect> =
                    chosen.iter().filter_map(|at| all.get(*at).copied()).collect();
                if combination.len() == count
                    && let Some(block) = self.attempt(&combination).await
                {
                    self.blame(&block).await;
                    return Some(block);
                }
                tries += 1;
                if tries >= COMBINATIONS_MAX || !next_combination(&mut chosen, all.len()) {
                    break;
                }
            }
        }
        None
    }

    /// Counts an error on each leaf that gave anything else than it should have for this block.
    pub(in crate::vdev) async fn blame(&self, block: &Buf) {
        let pieces = self.pieces();
        let (map, block) = (Arc::clone(&self.map), block.clone());
        let work = Work::new(WorkKind::Compare, ByteCount(map.size as u64));
        let wrong =
            self.ask.rt.compute(work, move || wrong_pieces(&map, &pieces, block.bytes())).await;
        self.count(|row, column| wrong.contains(&(row, column)));
    }

    fn blame_all(&self) {
        self.count(|_, _| true);
    }

    /// Counts an error on the leaves of these pieces, one for each leaf.
    fn count(&self, wrong: impl Fn(usize, usize) -> bool) {
        let mut counted: Vec<u64> = Vec::new();
        for (row, cells) in self.cells.iter().enumerate() {
            for (column, cell) in cells.iter().enumerate() {
                if let Cell::Bytes(_, Some(leaf)) = cell
                    && wrong(row, column)
                    && !counted.contains(&leaf.guid)
                {
                    counted.push(leaf.guid);
                    self.ask.blame(leaf);
                }
            }
        }
    }

    pub(in crate::vdev) fn pieces(&self) -> Pieces {
        let piece = |cell: &Cell| match cell {
            Cell::Bytes(bytes, _) => Some(bytes.clone()),
            _ => None,
        };
        self.cells.iter().map(|cells| cells.iter().map(piece).collect()).collect()
    }
}

/// A column to be read.
#[derive(Clone, Copy)]
struct Piece {
    row: usize,
    column: usize,
    child: usize,
    scratch: bool,
    at: u64,
    len: usize,
}

impl Piece {
    fn goes_on_in(&self, next: &Piece) -> bool {
        (self.child, self.scratch) == (next.child, next.scratch)
            && self.at + self.len as u64 == next.at
            // Behind such a place another leaf may stand in for the child.
            && !next.at.is_multiple_of(ROW_BYTES)
    }
}

/// One that may have given wrong bytes: the child with this number, when there were so many.
#[derive(Clone, Copy)]
pub(in crate::vdev) struct Suspect {
    /// Nothing for the children as they are.
    width: Option<u64>,
    child: usize,
}

impl Suspect {
    fn covers(&self, column: &Column) -> bool {
        match self.width {
            None => column.child == self.child,
            Some(width) => column.sector % width == self.child as u64,
        }
    }
}

impl Suspects {
    /// All of them, those first that are likelier.
    fn list(self, map: &Map) -> Vec<Suspect> {
        let mut children: Vec<usize> =
            map.rows.iter().flat_map(|row| &row.columns).map(|column| column.child).collect();
        children.sort_unstable();
        children.dedup();
        let mut all: Vec<Suspect> =
            children.into_iter().map(|child| Suspect { width: None, child }).collect();
        if let Suspects::Past { physical, original } = self {
            for width in (original..physical).rev() {
                let past = |child| Suspect { width: Some(width as u64), child };
                all.extend((0..width).map(past));
            }
        }
        all
    }
}

/// The next choice of as many out of `count`, in the order of the last, then the one before it; false after the last
/// choice.
fn next_combination(chosen: &mut [usize], count: usize) -> bool {
    for slot in 0..chosen.len() {
        let bound = chosen.get(slot + 1).copied().unwrap_or(count);
        if chosen[slot] + 1 < bound {
            chosen[slot] += 1;
            for (first, place) in chosen[..slot].iter_mut().enumerate() {
                *place = first;
            }
            return true;
        }
    }
    false
}

/// Puts the data together into `block`, and reconstructs what is missing of it. Each row has enough parities.
fn assemble(map: &Map, pieces: &Pieces, block: &mut [u8]) {
    for (row, pieces) in map.rows.iter().zip(pieces) {
        let mut lost = false;
        for (column, piece) in row.columns.iter().zip(pieces).skip(map.parity) {
            match piece {
                Some(piece) => {
                    block[column.block_at..column.block_at + column.len]
                        .copy_from_slice(piece.bytes());
                }
                None => lost = true,
            }
        }
        if !lost {
            continue;
        }
        let mut found: Vec<(usize, Vec<u8>)> = row
            .columns
            .iter()
            .zip(pieces)
            .enumerate()
            .skip(map.parity)
            .filter(|(_, (_, piece))| piece.is_none())
            .map(|(number, (column, _))| (number, vec![0; column.len]))
            .collect();
        {
            let mut empty = found.iter_mut().rev().peekable();
            // The last column's coefficient is 1.
            let mut data: Vec<Member<'_>> = Vec::with_capacity(row.columns.len());
            for (number, piece) in pieces.iter().enumerate().skip(map.parity).rev() {
                data.push(match piece {
                    Some(piece) => Member::Present(piece.bytes()),
                    None => {
                        let (_, bytes) = empty
                            .next_if(|(wanted, _)| *wanted == number)
                            .expect("each missing column has its place");
                        Member::Lost(bytes)
                    }
                });
            }
            let mut parities: Vec<Member<'_>> = pieces
                .iter()
                .take(map.parity)
                .map(|piece| piece.as_ref().map_or(Member::Absent, |p| Member::Present(p.bytes())))
                .collect();
            parity::reconstruct(&mut data, &mut parities);
        }
        for (number, bytes) in found {
            let at = row.columns[number].block_at;
            block[at..at + bytes.len()].copy_from_slice(&bytes);
        }
    }
}

/// Which of these pieces differ from what they are in this block, by row and column.
fn wrong_pieces(map: &Map, pieces: &Pieces, block: &[u8]) -> Vec<(usize, usize)> {
    let mut wrong = Vec::new();
    for (number, (row, pieces)) in map.rows.iter().zip(pieces).enumerate() {
        let data: Vec<&[u8]> = row.columns[map.parity..]
            .iter()
            .map(|column| &block[column.block_at..column.block_at + column.len])
            .collect();
        let len = row.columns.first().map_or(0, |column| column.len);
        let parities = parities_of(&data, map.parity, len);
        let right = parities.iter().map(|parity| &parity[..]).chain(data);
        for (column, (piece, right)) in pieces.iter().zip(right).enumerate() {
            if piece.as_ref().is_some_and(|piece| piece.bytes() != right) {
                wrong.push((number, column));
            }
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_combination_comes_once() {
        let mut chosen = vec![0, 1, 2];
        let mut seen = vec![chosen.clone()];
        while next_combination(&mut chosen, 6) {
            assert!(chosen.is_sorted() && !seen.contains(&chosen));
            seen.push(chosen.clone());
        }
        assert_eq!(seen.len(), 20);
        assert!(!next_combination(&mut [], 6));
    }
}
