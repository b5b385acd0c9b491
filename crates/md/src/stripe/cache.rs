//! The stripe cache: data and parity of rows that partial writes touched lately.
//!
//! A writer that comes in pieces, one after the other, needs the parity that the last piece left and
//! the data that the pieces before brought: here they are, so it reads each old byte once at the most.
//! What is held is what the members hold too; losing it loses nothing but time. Reads of the host don't
//! look here (as long as no member is missing): the members are as good.
//!
//! **Bound**: a number of bytes, counted by length whether they take memory or are fills, so that
//! simulated and real runs hold the same. The row used least recently goes first. A row is held while
//! its lock is held by who uses it; `forget` takes out rows that were written by another path.
//!
//! Of a row are kept the slots of which something is known, mostly one of data and the parity: rows are many, and it is the one
//! that was in nobody's hands for longest that goes.

use crate::pieces::Pieces;
use slab::Slab;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Range;

/// What is known of a row, by slot.
pub(crate) type KnownSlots = SmallVec<[(usize, Pieces); 2]>;

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Cache {
    /// Where a row is kept.
    rows: BTreeMap<u64, usize>,
    kept: Slab<CachedRow>,
    /// Where those are that were used least recently and last.
    oldest: Option<usize>,
    newest: Option<usize>,
    bytes: u64,
    bytes_max: u64,
}

struct CachedRow {
    row: u64,
    /// The one that was used before this one, and the one after it.
    older: Option<usize>,
    newer: Option<usize>,
    bytes: u64,
    slots: KnownSlots,
}

impl Cache {
    pub(crate) fn new(bytes_max: u64) -> Cache {
        Cache { bytes_max, ..Cache::default() }
    }

    /// Takes out what is known of a row.
    pub(crate) fn take(&mut self, row: u64) -> Option<KnownSlots> {
        let place = self.rows.remove(&row)?;
        Some(self.take_out(place))
    }

    /// Takes out a row that is not found by its number any more.
    fn take_out(&mut self, place: usize) -> KnownSlots {
        let cached = self.kept.remove(place);
        match cached.older {
            Some(older) => self.kept[older].newer = cached.newer,
            None => self.oldest = cached.newer,
        }
        match cached.newer {
            Some(newer) => self.kept[newer].older = cached.older,
            None => self.newest = cached.older,
        }
        self.bytes -= cached.bytes;
        cached.slots
    }

    /// Puts in what is known of a row, as the one used last.
    pub(crate) fn put(&mut self, row: u64, slots: Vec<Pieces>) {
        assert!(self.bytes <= self.bytes_max, "the cache holds what it may");
        let bytes = slots.iter().map(Pieces::len).sum();
        if bytes == 0 || bytes > self.bytes_max {
            self.take(row);
            return;
        }
        let slots = slots.into_iter().enumerate().filter(|(_, pieces)| !pieces.is_empty());
        let (older, newer) = (self.newest, None);
        let cached = CachedRow { row, older, newer, bytes, slots: slots.collect() };
        let place = self.kept.insert(cached);
        match older {
            Some(older) => self.kept[older].newer = Some(place),
            None => self.oldest = Some(place),
        }
        self.newest = Some(place);
        self.bytes += bytes;
        if let Some(replaced) = self.rows.insert(row, place) {
            self.take_out(replaced);
        }
        while self.bytes > self.bytes_max
            && let Some(oldest) = self.oldest
        {
            self.rows.remove(&self.kept[oldest].row);
            self.take_out(oldest);
        }
    }

    /// What is known of a row, without using it.
    pub(crate) fn look(&self, row: u64) -> Option<&KnownSlots> {
        self.rows.get(&row).map(|place| &self.kept[*place].slots)
    }

    /// Forgets rows.
    pub(crate) fn forget(&mut self, rows: Range<u64>) {
        while let Some((row, _)) = self.rows.range(rows.clone()).next() {
            let row = *row;
            self.take(row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rt::SgList;

    fn row(bytes: usize) -> Vec<Pieces> {
        let mut pieces = Pieces::default();
        pieces.insert(0, SgList::zeros(bytes));
        vec![pieces]
    }

    #[test]
    fn the_row_used_least_recently_goes_first_and_the_bound_holds() {
        let mut cache = Cache::new(3000);
        for number in 0..3 {
            cache.put(number, row(1000));
        }
        let used = cache.take(0).expect("held");
        cache.put(0, used.into_iter().map(|(_, pieces)| pieces).collect());
        cache.put(3, row(500));
        assert!(cache.look(1).is_none() && cache.look(0).is_some() && cache.look(2).is_some());
        assert_eq!(cache.bytes, 2500);
        cache.put(4, row(4000));
        assert!(cache.look(4).is_none(), "larger than the cache");
        cache.forget(2..9);
        assert_eq!((cache.bytes, cache.rows.len(), cache.kept.len()), (1000, 1, 1));
        assert_eq!((cache.oldest, cache.newest), (cache.rows.get(&0).copied(), cache.oldest));
    }

    /// A row that is put in again must not be found where it was, nor counted twice, nor keep its old age.
    #[test]
    fn rows_go_in_the_order_of_their_last_use_whatever_is_done_to_them() {
        let mut prng = stdx::Prng::new(3);
        let (mut cache, mut plain) = (Cache::new(10_000), Vec::<(u64, usize)>::new());
        for _ in 0..5000 {
            let (number, len) = (prng.below(12), 1 + prng.below(3000) as usize);
            match prng.below(8) {
                0 => {
                    cache.forget(number..number + 2);
                    plain.retain(|(row, _)| !(number..number + 2).contains(row));
                }
                1 => {
                    cache.take(number);
                    plain.retain(|(row, _)| *row != number);
                }
                _ => {
                    cache.put(number, row(len));
                    plain.retain(|(row, _)| *row != number);
                    plain.push((number, len));
                    while plain.iter().map(|(_, len)| len).sum::<usize>() > 10_000 {
                        plain.remove(0);
                    }
                }
            }
            for number in 0..14 {
                let kept = plain.iter().find(|(row, _)| *row == number).map(|(_, len)| *len as u64);
                let found = cache.look(number);
                assert_eq!(found.map(|slots| slots.iter().map(|(_, p)| p.len()).sum()), kept);
            }
            assert_eq!((cache.rows.len(), cache.kept.len()), (plain.len(), plain.len()));
        }
    }
}
