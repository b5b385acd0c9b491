//! Checking every piece of a block of a raidz or dRAID: data, parities, and what stands twice.
//!
//! Everything that should be right is read at once. As a rule it is: the data has the block's checksum, and the parities
//! are those of the data. This is found out with the pieces where they lie. If not, the block is made as when it is
//! read, and whoever differs from it is found by that.

use crate::expected::Expected;
use crate::vdev::ask::{Ask, Failure};
use crate::vdev::leaf::on_device;
use crate::vdev::raidz::map::Map;
use crate::vdev::read::raidz::{Cell, Pieces, Reading, SCRATCH_BYTES};
use crate::vdev::striped::{Striped, Suspects, parities_of};
use rt::{SgList, WorkKind};
use std::sync::Arc;
use stdx::ByteCount;

impl Striped {
    /// Reads all pieces of the block of this map, and counts errors on the leaves whose pieces are wrong.
    pub(crate) async fn verify(
        &self,
        map: Map,
        suspects: Suspects,
        ask: &Ask<'_>,
    ) -> Result<SgList, Failure> {
        let mut reading = Reading::new(self, map, ask);
        reading.fetch(|_, _, _| true, false).await;
        let block = match reading.all_right().await {
            Some(block) => block,
            None => match reading.attempt(&[]).await {
                Some(block) => {
                    reading.blame(&block).await;
                    block.into()
                }
                None => reading.rescue(suspects).await?.into(),
            },
        };
        reading.check_twins().await;
        reading.check_away(&block).await;
        Ok(block)
    }
}

impl Reading<'_> {
    /// Counts the pieces of the block that leaves lack which were away when it was written.
    async fn check_away(&self, block: &SgList) {
        let mut away = Vec::new();
        for (number, row) in self.map.rows.iter().enumerate() {
            for (place, column) in row.columns.iter().enumerate().filter(|(_, one)| one.len > 0) {
                let (_, stale) =
                    self.striped.children[column.child].candidates(column.at, self.ask.birth);
                let leaves = stale.into_iter().filter(|leaf| leaf.was_away(self.ask.birth));
                away.extend(leaves.map(|leaf| (number, place, leaf)));
            }
        }
        if away.is_empty() {
            return;
        }
        let block = block.to_vec();
        for (number, place, leaf) in away {
            let row = &self.map.rows[number];
            let column = row.columns[place];
            let at = on_device(column.at);
            let at = if row.scratch { at - SCRATCH_BYTES } else { at };
            let Ok(found) = leaf.read(at, column.len, self.ask.class).await else { continue };
            let data: Vec<&[u8]> = row.columns[self.map.parity..]
                .iter()
                .map(|column| &block[column.block_at..column.block_at + column.len])
                .collect();
            let is_right = match place.checked_sub(self.map.parity) {
                Some(place) => found.bytes() == data[place],
                None => {
                    let len = row.columns.first().map_or(0, |column| column.len);
                    parities_of(&data, self.map.parity, len)[place][..] == *found.bytes()
                }
            };
            if !is_right {
                leaf.lacks_copy();
            }
        }
    }

    /// The block, if all its pieces are there and right.
    async fn all_right(&self) -> Option<SgList> {
        let pieces = self.pieces();
        if pieces.iter().flatten().any(Option::is_none) {
            return None;
        }
        let (map, expected, size) =
            (Arc::clone(&self.map), self.ask.expected.clone(), self.ask.size);
        let bytes = ByteCount(self.map.size as u64);
        let job = move || (is_right(&map, &pieces, &expected, size), pieces);
        let parity = match self.map.parity {
            1 => WorkKind::ParityP,
            2 => WorkKind::ParityPq,
            _ => WorkKind::ParityPqr,
        };
        let work = self.ask.expected.work(bytes).and(parity, bytes);
        let (is_right, pieces) = self.ask.rt.compute(work, job).await;
        if !is_right {
            return None;
        }
        let mut block = SgList::new();
        let data = pieces.into_iter().flat_map(|row| row.into_iter().skip(self.map.parity));
        data.flatten().for_each(|piece| block.push(piece));
        Some(block)
    }

    /// Reads what further leaves hold of the pieces, where children have several, and compares it. Which of two is wrong
    /// was found with the block; here the one that was read for it counts as right, unless it lied itself.
    async fn check_twins(&self) {
        for (row, cells) in self.map.rows.iter().zip(&self.cells) {
            for (column, cell) in row.columns.iter().zip(cells) {
                let Cell::Bytes(bytes, Some(read)) = cell else { continue };
                let child = &self.striped.children[column.child];
                if child.is_one() {
                    continue;
                }
                let (fresh, _) = child.candidates(column.at, self.ask.birth);
                for leaf in fresh.iter().filter(|leaf| leaf.guid != read.guid) {
                    let at = on_device(column.at);
                    let twin = leaf.read(at, column.len, self.ask.class).await;
                    if twin.is_ok_and(|twin| twin != *bytes) {
                        self.ask.blame(leaf);
                    }
                }
            }
        }
    }
}

/// Whether the data is what is expected, and each parity that of the data. All pieces are there.
fn is_right(map: &Map, pieces: &Pieces, expected: &Expected, size: usize) -> bool {
    let rows: Vec<Vec<&[u8]>> = pieces
        .iter()
        .map(|row| row.iter().flatten().map(|piece| piece.bytes()).collect())
        .collect();
    let mut left = size;
    let mut data = Vec::with_capacity(rows.len() * map.parity.max(4));
    for piece in rows.iter().flat_map(|row| &row[map.parity..]) {
        let len = piece.len().min(left);
        data.push(&piece[..len]);
        left -= len;
    }
    if !expected.holds_together(&data) {
        return false;
    }
    rows.iter().all(|row| {
        let (parities, data) = row.split_at(map.parity);
        let len = parities.iter().map(|parity| parity.len()).max().unwrap_or(0);
        let made = parities_of(data, map.parity, len);
        parities.iter().zip(&made).all(|(parity, made)| **parity == made[..parity.len()])
    })
}
