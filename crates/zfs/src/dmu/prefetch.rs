//! Reading ahead in one object: how far, and when.
//!
//! Reads that follow one another make a stream. The first read of a stream asks for nothing ahead; from the second
//! on the distance doubles with each, up to [`AHEAD_MAX`]. A read anywhere else begins anew. There is one stream an
//! object: two readers of one file in two places read nothing ahead, which costs them no more than waiting.

use std::cell::Cell;
use std::ops::Range;

/// Bytes that are read ahead at first.
const AHEAD_MIN: u64 = 256 << 10;
/// Bytes that are read ahead at the most: OpenZFS's 8 MiB. More holds more memory for a reader that may stop; less
/// leaves a stripe of slow disks idle.
const AHEAD_MAX: u64 = 8 << 20;

/// See the [module](self).
#[derive(Default)]
pub(super) struct Prefetch {
    /// The block that a reader in order asks for next.
    next: Cell<u64>,
    /// The first block that nobody has asked for, ahead or in earnest.
    asked: Cell<u64>,
    /// How far ahead, in bytes; 0 while there is no stream.
    distance: Cell<u64>,
}

impl Prefetch {
    /// Blocks to ask for when `first` to `last` are being read.
    pub(super) fn after(&self, first: u64, last: u64, block_bytes: u64) -> Range<u64> {
        let next = self.next.replace(last.saturating_add(1));
        // A read may begin in the block where the last one ended.
        let follows = next != 0 && (first == next || first.saturating_add(1) == next);
        if !follows {
            self.distance.set(0);
            self.asked.set(last.saturating_add(1));
            return 0..0;
        }
        let distance = (self.distance.get() * 2).clamp(AHEAD_MIN, AHEAD_MAX);
        self.distance.set(distance);
        let until = last.saturating_add(1).saturating_add(distance / block_bytes.max(1));
        let from = self.asked.get().max(last.saturating_add(1));
        self.asked.set(until.max(from));
        from..until.max(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 128 << 10;

    #[test]
    fn a_stream_reads_further_and_further_ahead() {
        let prefetch = Prefetch::default();
        assert!(prefetch.after(0, 0, BLOCK).is_empty());
        assert_eq!(prefetch.after(1, 1, BLOCK), 2..4);
        assert_eq!(prefetch.after(2, 2, BLOCK), 4..7);
        for block in 3..100 {
            let ahead = prefetch.after(block, block, BLOCK);
            assert!(ahead.end - block <= 1 + AHEAD_MAX / BLOCK);
        }
        assert_eq!(prefetch.after(100, 100, BLOCK), 164..165);
        assert!(prefetch.after(7, 7, BLOCK).is_empty());
    }

    #[test]
    fn small_reads_within_a_block_are_a_stream_too() {
        let prefetch = Prefetch::default();
        assert!(prefetch.after(4, 4, BLOCK).is_empty());
        assert_eq!(prefetch.after(4, 4, BLOCK), 5..7);
        assert_eq!(prefetch.after(5, 5, BLOCK), 7..10);
        assert!(prefetch.after(u64::MAX, u64::MAX, 0).is_empty());
    }
}
