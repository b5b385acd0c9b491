//! Writing a block of a raidz or dRAID: parities are computed, and each column goes to its child.

use super::{Done, Lost, Put};
use crate::vdev::raidz::map::{Map, Row};
use crate::vdev::striped::{Striped, parities_of};
use futures_util::future::join_all;
use rt::{Buf, BufMut, SgList, Work, WorkKind};
use std::collections::BTreeSet;
use std::ops::Range;
use stdx::ByteCount;
use stdx::planted::{self, Bug};

impl Striped {
    pub(super) async fn write(
        &self,
        map: &Map,
        block: Buf,
        fills: bool,
        put: &Put<'_>,
    ) -> Done<'_> {
        assert_eq!(map.size, block.len(), "the map is of this block");
        let kind = match map.parity {
            1 => WorkKind::ParityP,
            2 => WorkKind::ParityPq,
            _ => WorkKind::ParityPqr,
        };
        let (data, of) = (block.clone(), map.clone());
        let work = Work::new(kind, ByteCount(block.len() as u64));
        let parities = put.rt.compute(work, move || parities(&of, &data)).await;
        let rows = map.rows.iter().zip(parities).map(|(row, mut parities)| {
            if planted::is(Bug::ParitiesSwapped) && parities.len() > 1 {
                parities.swap(0, 1);
            }
            let children: BTreeSet<_> = row.columns.iter().map(|column| column.child).collect();
            assert_eq!(children.len(), row.columns.len(), "a row has a column a child");
            assert!(!row.scratch, "nothing is written to a scratch area");
            let longest = row.columns.first().map_or(0, |column| column.len);
            let data = row.columns[map.parity..].iter().map(|column| {
                let mut data =
                    SgList::from(block.slice(column.block_at..column.block_at + column.len));
                if fills && column.len < longest {
                    data.push(Buf::zeros(longest - column.len));
                }
                data
            });
            let pieces =
                parities.into_iter().map(|parity| SgList::from(parity.freeze())).chain(data);
            let written = row.columns.iter().zip(pieces).filter(|(_, piece)| !piece.is_empty());
            let written = written
                .map(|(column, piece)| self.children[column.child].write(column.at, piece, put));
            let written: Vec<_> = written.collect();
            async move { bears(join_all(written).await, map.parity) }
        });
        Done::of_all(join_all(rows.collect::<Vec<_>>()).await)
    }

    pub(super) async fn flush(&self, txgs: &Range<u64>) -> Done<'_> {
        let flushed = self.children.iter().map(|child| child.flush(txgs));
        bears(join_all(flushed).await, self.parity)
    }

    /// Says that a stretch of a raidz is not needed any more.
    pub(super) async fn trim(&self, stretch: &Range<u64>, ashift: u32) {
        let parts = self.children.iter().enumerate().map(|(number, child)| {
            let part = on_child(stretch, number as u64, self.children.len() as u64, ashift);
            async move { child.trim(&part).await }
        });
        join_all(parts).await;
    }
}

/// So many may fail.
fn bears(parts: Vec<Done<'_>>, parity: usize) -> Done<'_> {
    let lost: Vec<Lost> = parts.iter().filter_map(|part| part.result.err()).collect();
    let missed = parts.into_iter().flat_map(|part| part.missed).collect();
    let borne = lost.len() <= parity;
    let result = if borne { Ok(()) } else { Err(lost.into_iter().flatten().next_back()) };
    Done { result, missed }
}

/// The parities of each row.
fn parities(map: &Map, block: &Buf) -> Vec<Vec<BufMut>> {
    let of_row = |row: &Row| {
        let data = row.columns[map.parity..].iter();
        let longest = row.columns.first().map_or(0, |column| column.len);
        let counts = |len| len == longest || !planted::is(Bug::ShortColumnLeftOut);
        let data: Vec<&[u8]> = data
            .filter(|column| counts(column.len))
            .map(|column| &block.bytes()[column.block_at..column.block_at + column.len])
            .collect();
        parities_of(&data, map.parity, longest)
    };
    map.rows.iter().map(of_row).collect()
}

/// The part of a stretch of a raidz that lies on one of its children.
fn on_child(stretch: &Range<u64>, child: u64, children: u64, ashift: u32) -> Range<u64> {
    // The first row in which the child's sector is not before this one.
    let row = |at: u64| (at >> ashift).saturating_sub(child).div_ceil(children) << ashift;
    row(stretch.start)..row(stretch.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What could break: a sector of a neighbour that is trimmed along, which would lose its block.
    #[test]
    fn a_stretch_on_the_children_of_a_raidz_is_just_its_sectors() {
        for children in 2..7_u64 {
            for (from, to) in (0..20_u64).flat_map(|from| (from..24).map(move |to| (from, to))) {
                let mut sectors = BTreeSet::new();
                for child in 0..children {
                    let part = on_child(&(from << 9..to << 9), child, children, 9);
                    sectors
                        .extend((part.start >> 9..part.end >> 9).map(|row| row * children + child));
                }
                assert_eq!(sectors, (from..to).collect(), "{children} children");
            }
        }
    }
}
