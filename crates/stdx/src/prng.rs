//! Seeded randomness, the same on every machine and in every version.
//!
//! The generator is xoshiro256++ (Blackman and Vigna, 2019), seeded through SplitMix64, from the
//! crate `rand_xoshiro`, whose stream is documented never to change.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A source of random numbers. Two generators of one seed give the same numbers.
#[derive(Clone, Debug)]
pub struct Prng(Xoshiro256PlusPlus);

impl Prng {
    /// The generator of this seed.
    pub fn new(seed: u64) -> Prng {
        Prng(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// A generator for a part of the run that is called `name`. It depends on the seed and the name
    /// only, not on what was drawn before.
    pub fn for_part(seed: u64, name: &str) -> Prng {
        // FNV-1a, 64 bit: any fixed, well spread hash does.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Prng::new(seed ^ hash.rotate_left(17))
    }

    /// A child with a stream of its own; takes one draw.
    pub fn fork(&mut self) -> Prng {
        Prng::new(self.next_u64())
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number in `0..bound`, each equally likely (to within 2⁻⁶⁴ of `bound`).
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number lies below 0");
        // Lemire's multiply-shift, without the rejection step.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `[0, 1)`, of 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True with this probability (0 to 1).
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Puts the items in a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = self.below(i as u64 + 1) as usize;
            items.swap(i, j);
        }
    }

    /// Fills `bytes` with random ones.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }

    /// So many random bytes, each of a number of its own: data that doesn't compress.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        for byte in &mut bytes {
            *byte = self.next_u64() as u8;
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results carry seeds; a changed stream would make every stored result unrepeatable.
    #[test]
    fn the_stream_of_a_seed_never_changes() {
        let mut prng = Prng::new(1);
        assert_eq!(prng.next_u64(), 14_971_601_782_005_023_387);
    }

    #[test]
    fn parts_with_different_names_draw_differently() {
        assert_ne!(Prng::for_part(7, "disk0").next_u64(), Prng::for_part(7, "disk1").next_u64());
        assert_eq!(Prng::for_part(7, "disk0").next_u64(), Prng::for_part(7, "disk0").next_u64());
    }

    #[test]
    fn below_stays_below_and_reaches_both_ends() {
        let mut prng = Prng::new(3);
        let draws: Vec<u64> = (0..1000).map(|_| prng.below(5)).collect();
        assert!(draws.iter().all(|draw| *draw < 5));
        assert!(draws.contains(&0) && draws.contains(&4));
    }
}
