//! The random numbers of bonnie++: `srand` and `rand` of the GNU C library.
//!
//! With them one seed gives the same file names, the same sizes and the same places of seeks as
//! `bonnie++ -z` does on Linux. For anything else [`stdx::Prng`] is better.
//!
//! The algorithm (glibc's manual calls it the additive feedback generator of degree 31): the first 31
//! numbers come from the minimal standard generator of Park and Miller, `16807·x mod (2³¹ − 1)`; from
//! there each is the sum, modulo 2³², of those 3 and 31 places before; the first 310 sums are thrown
//! away, and the lowest bit of each number is not given out.

/// Numbers that are remembered.
const DEGREE: usize = 31;
/// The nearer of the two that are added.
const SEPARATION: usize = 3;
/// Sums thrown away at the start.
const DISCARDED: usize = 10 * DEGREE;

/// See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct GlibcRand {
    state: [u32; DEGREE],
    /// The place of the oldest number.
    oldest: usize,
}

impl GlibcRand {
    /// The generator of this seed; 0 counts as 1, as there.
    pub(super) fn new(seed: u32) -> GlibcRand {
        let mut state = [0_u32; DEGREE];
        let mut word = match seed {
            0 => 1,
            // The seed is taken for a signed number.
            seed => i64::from(seed.cast_signed()),
        };
        for place in &mut state {
            *place = word as u32;
            let (high, low) = (word / 127_773, word % 127_773);
            word = 16_807 * low - 2_836 * high;
            if word < 0 {
                word += 0x7fff_ffff;
            }
        }
        let mut rand = GlibcRand { state, oldest: SEPARATION };
        for _ in 0..DISCARDED {
            rand.next();
        }
        rand
    }

    /// The next number, of 31 bits.
    pub(super) fn next(&mut self) -> u32 {
        let nearer = (self.oldest + DEGREE - SEPARATION) % DEGREE;
        let sum = self.state[self.oldest].wrapping_add(self.state[nearer]);
        self.state[self.oldest] = sum;
        self.oldest = (self.oldest + 1) % DEGREE;
        sum >> 1
    }

    /// The next number modulo `bound`, which is not 0.
    pub(super) fn modulo(&mut self, bound: u32) -> u32 {
        self.next() % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `srand(seed)` and three calls of `rand()` print on Linux.
    #[test]
    fn the_numbers_are_those_of_the_c_library() {
        let first = |seed| {
            let mut rand = GlibcRand::new(seed);
            [rand.next(), rand.next(), rand.next()]
        };
        assert_eq!(first(1), [1_804_289_383, 846_930_886, 1_681_692_777]);
        assert_eq!(first(0), first(1));
        assert_eq!(first(42), [71_876_166, 708_592_740, 1_483_128_881]);
        assert_eq!(first(4_000_000_000), [1_111_130_805, 1_380_198_982, 1_306_113_867]);
    }
}
