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

use crate::pieces::Pieces;
use std::collections::BTreeMap;
use std::ops::Range;

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Cache {
    rows: BTreeMap<u64, CachedRow>,
    /// Rows by the moment of their last use.
    order: BTreeMap<u64, u64>,
    tick: u64,
    bytes: u64,
    bytes_max: u64,
}

struct CachedRow {
    tick: u64,
    bytes: u64,
    slots: Vec<Pieces>,
}

impl Cache {
    pub(crate) fn new(bytes_max: u64) -> Cache {
        Cache { bytes_max, ..Cache::default() }
    }

    /// Takes out what is known of a row.
    pub(crate) fn take(&mut self, row: u64) -> Option<Vec<Pieces>> {
        let cached = self.rows.remove(&row)?;
        self.order.remove(&cached.tick);
        self.bytes -= cached.bytes;
        Some(cached.slots)
    }

    /// Puts in what is known of a row, as the one used last.
    pub(crate) fn put(&mut self, row: u64, slots: Vec<Pieces>) {
        let replaced = self.take(row);
        drop(replaced);
        assert!(self.bytes <= self.bytes_max, "the cache holds what it may");
        let bytes = slots.iter().map(Pieces::len).sum();
        if bytes == 0 || bytes > self.bytes_max {
            return;
        }
        self.tick += 1;
        let tick = self.tick;
        self.rows.insert(row, CachedRow { tick, bytes, slots });
        self.order.insert(tick, row);
        self.bytes += bytes;
        while self.bytes > self.bytes_max
            && let Some((_, oldest)) = self.order.first_key_value()
        {
            let oldest = *oldest;
            self.take(oldest);
        }
    }

    /// What is known of a row, without using it.
    pub(crate) fn look(&self, row: u64) -> Option<&[Pieces]> {
        self.rows.get(&row).map(|cached| &cached.slots[..])
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
        cache.put(0, used);
        cache.put(3, row(500));
        assert!(cache.look(1).is_none() && cache.look(0).is_some() && cache.look(2).is_some());
        assert_eq!(cache.bytes, 2500);
        cache.put(4, row(4000));
        assert!(cache.look(4).is_none(), "larger than the cache");
        cache.forget(2..9);
        assert_eq!((cache.bytes, cache.rows.len(), cache.order.len()), (1000, 1, 1));
    }
}
