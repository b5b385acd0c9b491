//! Which block a row is in: rows of neighbouring numbers lie in blocks far apart.
//!
//! SLOB loads its tables in random order, one row a block, so that a query for a range of rows reads
//! single blocks at random places. A list of random places would cost memory for each block of the
//! table; a permutation that is reckoned costs none. It is a Feistel network over the smallest even
//! number of bits that holds all rows, walked on until the result is a row (Black and Rogaway, "Ciphers
//! with arbitrary finite domains", 2002).

use stdx::Prng;

/// Rounds of the network. Four make a permutation that no disk can tell from a random one.
const ROUNDS: usize = 4;

/// A permutation of `0..count`.
#[derive(Clone, Debug)]
pub(super) struct Scatter {
    count: u64,
    /// Bits of each half.
    half: u32,
    keys: [u64; ROUNDS],
}

impl Scatter {
    /// The permutation of this seed; `count` is at least 1.
    pub(super) fn new(count: u64, seed: u64) -> Scatter {
        let bits = u64::BITS - (count - 1).leading_zeros();
        let mut prng = Prng::for_part(seed, "slob rows");
        let keys = std::array::from_fn(|_| prng.next_u64());
        Scatter { count, half: bits.div_ceil(2).max(1), keys }
    }

    /// Where `row` lies.
    pub(super) fn block_of(&self, row: u64) -> u64 {
        debug_assert!(row < self.count, "a row is one of the table's");
        let mut place = row;
        // Ends: the walk comes back to where it began, which is below the count. The domain is at most
        // four times the count, so it takes few steps.
        loop {
            place = self.network(place);
            if place < self.count {
                return place;
            }
        }
    }

    fn network(&self, value: u64) -> u64 {
        let mask = (1 << self.half) - 1;
        let (mut left, mut right) = (value >> self.half, value & mask);
        for key in self.keys {
            let mixed = (right ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (left, right) = (right, left ^ ((mixed ^ mixed >> 29) >> 17 & mask));
        }
        left << self.half | right
    }
}

#[cfg(test)]
mod tests {
    //! What could break: two rows in one block, so that part of the table is never used; an order that
    //! is nearly sequential.

    use super::*;

    #[test]
    fn every_block_is_the_place_of_one_row() {
        for count in [1, 2, 3, 22, 1000, 4096, 10_000] {
            let scatter = Scatter::new(count, 7);
            let mut blocks: Vec<u64> = (0..count).map(|row| scatter.block_of(row)).collect();
            blocks.sort_unstable();
            assert!(blocks.into_iter().eq(0..count));
        }
    }

    #[test]
    fn neighbours_lie_as_far_apart_as_random_ones() {
        let count = 100_000;
        let scatter = Scatter::new(count, 1);
        let distances: u64 =
            (1..count).map(|row| scatter.block_of(row).abs_diff(scatter.block_of(row - 1))).sum();
        let mean = distances as f64 / count as f64;
        assert!((mean / (count as f64 / 3.0) - 1.0).abs() < 0.02, "{mean}");
    }
}
