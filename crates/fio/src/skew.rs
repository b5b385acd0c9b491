//! Random places that are not equally likely: Zipf, Pareto and normal, as fio draws them, and an order
//! in which each place comes once without a map (`random_generator=lfsr`).
//!
//! Zipf is drawn by the method of Gray et al. ("Quickly generating billion-record synthetic databases",
//! SIGMOD 1994), Pareto by its inverse: the formulas of fio's lib/zipf.c. As in fio the popular places
//! are scattered over the file by a hash, unless a center is given: then they lie around it in order.

use super::spec::Distribution;
use stdx::Prng;

/// Terms of the zeta sum that are added one by one; the rest is an integral, exact to 10⁻⁶.
const ZETA_TERMS: u64 = 10_000;

enum Shape {
    Zipf { theta: f64, zeta: f64, alpha: f64, eta: f64 },
    Pareto { power: f64 },
    Normal { deviation: f64 },
}

/// Draws places `0..count`. See the [module](self).
pub(super) struct Skew {
    shape: Shape,
    count: u64,
    /// Added to each place.
    shift: u64,
    scattered: bool,
}

impl Skew {
    /// For a distribution that is neither uniform nor zoned.
    pub(super) fn new(distribution: &Distribution, count: u64, prng: &mut Prng) -> Option<Skew> {
        let count = count.max(1);
        let (shape, center) = match *distribution {
            Distribution::Zipf { theta, center } => {
                let zeta = zeta(count, theta);
                let two = 1.0 + 0.5_f64.powf(theta);
                let eta = (1.0 - (2.0 / count as f64).powf(1.0 - theta)) / (1.0 - two / zeta);
                (Shape::Zipf { theta, zeta, alpha: 1.0 / (1.0 - theta), eta }, center)
            }
            Distribution::Pareto { power, center } => {
                (Shape::Pareto { power: power.ln() / (1.0 - power).ln() }, center)
            }
            Distribution::Normal { deviation_percent, center } => {
                (Shape::Normal { deviation: deviation_percent / 100.0 * count as f64 }, center)
            }
            _ => return None,
        };
        let shift = match center {
            Some(center) => (center * count as f64) as u64,
            None => prng.below(count),
        };
        Some(Skew { shape, count, shift: shift.min(count), scattered: center.is_none() })
    }

    pub(super) fn draw(&self, prng: &mut Prng) -> u64 {
        let uniform = prng.unit();
        let count = self.count as f64;
        let rank = match self.shape {
            Shape::Zipf { theta, zeta, alpha, eta } => {
                let scaled = uniform * zeta;
                if scaled < 1.0 {
                    0
                } else if scaled < 1.0 + 0.5_f64.powf(theta) {
                    1
                } else {
                    (count * (eta * uniform - eta + 1.0).powf(alpha)) as u64
                }
            }
            Shape::Pareto { power } => ((count - 1.0) * uniform.powf(power)) as u64,
            Shape::Normal { deviation } => {
                // The sum of twelve uniform numbers is normal enough, with variance 1.
                let sum: f64 = uniform + (1..12).map(|_| prng.unit()).sum::<f64>() - 6.0;
                let place = (sum * deviation).round().rem_euclid(count);
                place as u64
            }
        };
        let rank = if self.scattered { scatter(rank) } else { rank };
        (rank % self.count + self.shift) % self.count
    }
}

fn scatter(rank: u64) -> u64 {
    // The finaliser of SplitMix64: any good mixing of 64 bits does.
    let mixed = (rank ^ (rank >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Σ 1/iᵗ for i from 1 to `count`.
fn zeta(count: u64, theta: f64) -> f64 {
    let terms = count.min(ZETA_TERMS);
    let sum: f64 = (1..=terms).map(|i| (i as f64).powf(-theta)).sum();
    if count == terms {
        return sum;
    }
    let power = 1.0 - theta;
    let whole = |at: f64| at.powf(power) / power;
    sum + whole(count as f64 + 0.5) - whole(terms as f64 + 0.5)
}

/// The numbers `0..count` in a mixed order, each once: a Feistel network over a power of four, walked
/// until it falls within.
pub(super) struct Walk {
    count: u64,
    half_bits: u32,
    keys: [u64; 4],
    at: u64,
}

impl Walk {
    pub(super) fn new(count: u64, prng: &mut Prng) -> Walk {
        let bits = 64 - count.max(2).saturating_sub(1).leading_zeros();
        let keys = std::array::from_fn(|_| prng.next_u64());
        Walk { count, half_bits: bits.div_ceil(2), keys, at: 0 }
    }

    /// The next number; `None` after all.
    pub(super) fn next(&mut self) -> Option<u64> {
        if self.at >= self.count {
            return None;
        }
        let mut place = self.at;
        self.at += 1;
        // The network is at most four times as large as the count, so this ends soon.
        loop {
            place = self.permute(place);
            if place < self.count {
                return Some(place);
            }
        }
    }

    /// From the start, in the same order.
    pub(super) fn rewind(&mut self) {
        self.at = 0;
    }

    fn permute(&self, place: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (place >> self.half_bits, place & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (scatter(right ^ key) & mask));
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    //! What could break: a distribution that is flatter or steeper than it says; an order that skips.

    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_walk_reaches_each_number_once() {
        for count in [1, 2, 3, 1000, 4097] {
            let mut walk = Walk::new(count, &mut Prng::new(5));
            let mut seen: Vec<u64> = std::iter::from_fn(|| walk.next()).collect();
            assert!(count < 10 || seen.windows(2).any(|pair| pair[0] > pair[1]));
            seen.sort_unstable();
            assert_eq!(seen, (0..count).collect::<Vec<_>>());
            walk.rewind();
            assert!(walk.next().is_some());
        }
    }

    #[test]
    fn zipf_gives_the_first_place_its_share() {
        let distribution = Distribution::Zipf { theta: 1.2, center: Some(0.0) };
        let mut prng = Prng::new(1);
        let skew = Skew::new(&distribution, 100_000, &mut prng).expect("skewed");
        let mut counts: BTreeMap<u64, u32> = BTreeMap::new();
        for _ in 0..100_000 {
            *counts.entry(skew.draw(&mut prng)).or_default() += 1;
        }
        let first = f64::from(counts[&0]) / 1e5;
        assert!((first - 1.0 / zeta(100_000, 1.2)).abs() < 0.005, "{first}");
        assert!(counts.keys().all(|place| *place < 100_000));
    }

    #[test]
    fn pareto_keeps_its_promise_of_shares() {
        // power 0.2: 80 % of the accesses go to 20 % of the places.
        let distribution = Distribution::Pareto { power: 0.2, center: Some(0.0) };
        let mut prng = Prng::new(1);
        let skew = Skew::new(&distribution, 10_000, &mut prng).expect("skewed");
        let low = (0..50_000).filter(|_| skew.draw(&mut prng) < 2000).count() as f64 / 5e4;
        assert!((low - 0.8).abs() < 0.01, "{low}");
    }

    #[test]
    fn zetas_tail_is_exact_enough() {
        let plain: f64 = (1..=200_000).map(|i| f64::from(i).powf(-0.7)).sum();
        assert!((zeta(200_000, 0.7) / plain - 1.0).abs() < 1e-6);
    }
}
