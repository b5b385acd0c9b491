//! Where two lists of bytes differ, in sectors.

use super::SECTOR;
use rt::{Rt, SgList, Work, WorkKind};
use std::ops::Range;
use stdx::ByteCount;

/// Compares pairs of equally long lists in one `compute`: for each the ranges of differing sectors, joined.
pub(crate) async fn differences(rt: &Rt, pairs: Vec<(SgList, SgList)>) -> Vec<Vec<Range<u64>>> {
    let bytes = pairs.iter().map(|(a, b)| (a.len() + b.len()) as u64).sum();
    let job = move || pairs.iter().map(|(a, b)| differing(a, b)).collect();
    rt.compute(Work::new(WorkKind::Compare, ByteCount(bytes)), job).await
}

fn differing(a: &SgList, b: &SgList) -> Vec<Range<u64>> {
    assert_eq!(a.len(), b.len(), "what is compared is equally long");
    let mut found: Vec<Range<u64>> = Vec::new();
    let mut add = |range: Range<u64>| match found.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ => found.push(range),
    };
    let (mut at, total) = (0, a.len());
    let (mut left, mut right) = (Cursor::new(a), Cursor::new(b));
    while at < total {
        let len = left.rest().min(right.rest());
        let (x, y) = (left.take(len), right.take(len));
        // Buffers know how to compare fills without writing them out.
        if x != y {
            let (x, y) = (x.bytes(), y.bytes());
            let sector = SECTOR.as_usize();
            // Pieces of devices are whole sectors.
            for (n, (x, y)) in x.chunks(sector).zip(y.chunks(sector)).enumerate() {
                if x != y {
                    let from = (at + n * sector) as u64;
                    add(from..from + x.len() as u64);
                }
            }
        }
        at += len;
    }
    found
}

/// Goes through a list piece by piece.
struct Cursor<'a> {
    list: &'a SgList,
    piece: usize,
    from: usize,
}

impl<'a> Cursor<'a> {
    fn new(list: &'a SgList) -> Cursor<'a> {
        Cursor { list, piece: 0, from: 0 }
    }

    fn rest(&self) -> usize {
        self.list.pieces()[self.piece].len() - self.from
    }

    fn take(&mut self, len: usize) -> rt::Buf {
        let piece = &self.list.pieces()[self.piece];
        let part = piece.slice(self.from..self.from + len);
        self.from += len;
        if self.from == piece.len() {
            (self.piece, self.from) = (self.piece + 1, 0);
        }
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rt::Buf;

    #[test]
    fn differing_sectors_are_found_across_pieces_and_fills() {
        let mut bytes = vec![0; 4096];
        bytes[1000] = 1;
        bytes[1030] = 1;
        bytes[4000] = 1;
        let a: SgList =
            [Buf::copy_of(&bytes[..1536]), Buf::copy_of(&bytes[1536..])].into_iter().collect();
        let b = SgList::zeros(4096);
        assert_eq!(differing(&a, &b), [512..1536, 3584..4096]);
        assert!(differing(&a, &a.clone()).is_empty());
        assert!(differing(&SgList::zeros(1 << 40), &SgList::zeros(1 << 40)).is_empty());
    }
}
