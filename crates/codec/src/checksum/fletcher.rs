//! Fletcher's sums, as ZFS has them.
//!
//! **fletcher 4**: for each 32-bit word *w*: a += w, b += a, c += b, d += c, in 64 bits.
//!
//! **In lanes.** Each addition waits for the one before, so a processor does one word at a time. With L
//! lanes, lane j takes the words L·m + j and keeps sums of its own, all lanes at once in one register
//! each. With N = L·n words in all, word i counts (N − i) times in b, C(N − i + 1, 2) times in c and
//! C(N − i + 2, 3) times in d. In lane j, N − i is L·r − j, where r = n − m is the lane's own count; so
//! each of those polynomials in r is a sum of the lane's 1, r, C(r + 1, 2), C(r + 2, 3), which are its
//! a, b, c, d. `Weights` computes the coefficients from the polynomials' values at r = 0, 1, 2; all
//! arithmetic wraps, as the sums do.
//!
//! **fletcher 2**: the same with two orders, over 64-bit words, even and odd ones apart.

use super::sum::Sum;

/// How many lanes a form has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// One word after another.
    One,
    /// Four lanes: AVX2.
    Four,
    /// Eight lanes: AVX-512.
    Eight,
}

impl Width {
    /// The forms that this processor can run, the fastest last.
    pub fn all() -> Vec<Width> {
        let mut all = vec![Width::One];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") {
                all.push(Width::Four);
            }
            if super::fletcher_x86::has_eight() {
                all.push(Width::Eight);
            }
        }
        all
    }

    fn best() -> Width {
        use std::sync::OnceLock;
        static BEST: OnceLock<Width> = OnceLock::new();
        *BEST.get_or_init(|| Width::all().pop().unwrap_or(Width::One))
    }
}

/// fletcher 4 of whole words; bytes beyond the last whole word do not count.
pub fn fletcher4(bytes: &[u8]) -> Sum {
    fletcher4_of(Width::best(), bytes, false)
}

/// fletcher 4 by one form, which the processor must have ([`Width::all`]); `swapped` for words in
/// big-endian order.
///
/// # Panics
/// Where the processor lacks the form.
pub fn fletcher4_of(width: Width, bytes: &[u8], swapped: bool) -> Sum {
    let mut sum = Fletcher4 { width: Some(width), swapped, ..Fletcher4::default() };
    sum.update(bytes);
    sum.sum()
}

/// fletcher 4 under way: of several pieces, each of whole words but the last.
#[derive(Clone, Debug, Default)]
pub struct Fletcher4 {
    sums: [u64; 4],
    swapped: bool,
    width: Option<Width>,
}

impl Fletcher4 {
    /// Words in big-endian order.
    pub fn of_big_endian() -> Fletcher4 {
        Fletcher4 { swapped: true, ..Fletcher4::default() }
    }

    /// Takes more bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        let width = self.width.unwrap_or_else(Width::best);
        let rest = match width {
            Width::One => bytes,
            #[cfg(target_arch = "x86_64")]
            Width::Four => self.in_lanes(bytes, super::fletcher_x86::four(bytes, self.swapped)),
            #[cfg(target_arch = "x86_64")]
            Width::Eight => self.in_lanes(bytes, super::fletcher_x86::eight(bytes, self.swapped)),
            #[cfg(not(target_arch = "x86_64"))]
            Width::Four | Width::Eight => panic!("this processor has no such lanes"),
        };
        let [mut a, mut b, mut c, mut d] = self.sums;
        for word in rest.chunks_exact(4) {
            let word = u32::from_le_bytes(word.try_into().expect("a chunk has four bytes"));
            let word = if self.swapped { word.swap_bytes() } else { word };
            a = a.wrapping_add(word.into());
            b = b.wrapping_add(a);
            c = c.wrapping_add(b);
            d = d.wrapping_add(c);
        }
        self.sums = [a, b, c, d];
    }

    /// The sum of what was taken.
    pub fn sum(&self) -> Sum {
        Sum(self.sums)
    }

    /// Takes what lanes have summed up of whole groups of words; what is left of the bytes comes back.
    fn in_lanes<'a, const L: usize>(&mut self, bytes: &'a [u8], lanes: [[u64; L]; 4]) -> &'a [u8] {
        let group = 4 * L;
        let done = bytes.len() / group * group;
        self.join((done / 4) as u64, combined(&lanes));
        &bytes[done..]
    }

    /// Puts the sums of `count` further words behind those that are here.
    fn join(&mut self, count: u64, next: [u64; 4]) {
        // A word that is here counts for each of the further ones once more: with x of them, b gains
        // x·a, c gains x·b + C(x + 1, 2)·a, d gains x·c + C(x + 1, 2)·b + C(x + 2, 3)·a.
        let [a, b, c, d] = self.sums;
        let x = u128::from(count);
        let (one, two, three) =
            (x as u64, (x * (x + 1) / 2) as u64, (x * (x + 1) / 2 * (x + 2) / 3) as u64);
        let times = u64::wrapping_mul;
        let add = |terms: &[u64]| terms.iter().fold(0, |sum: u64, term| sum.wrapping_add(*term));
        self.sums = [
            add(&[a, next[0]]),
            add(&[b, times(one, a), next[1]]),
            add(&[c, times(one, b), times(two, a), next[2]]),
            add(&[d, times(one, c), times(two, b), times(three, a), next[3]]),
        ];
    }
}

/// The sums of all words from those of L lanes.
fn combined<const L: usize>(lanes: &[[u64; L]; 4]) -> [u64; 4] {
    let mut sums = [0_u64; 4];
    let [a, b, c, d] = lanes;
    let each = a.iter().zip(b).zip(c).zip(d);
    for (lane, (((a, b), c), d)) in each.enumerate() {
        let own = [*a, *b, *c, *d];
        for (order, sum) in sums.iter_mut().enumerate() {
            for (own, weight) in own.iter().zip(weights(L as i64, lane as i64, order)) {
                *sum = sum.wrapping_add(own.wrapping_mul(weight as u64));
            }
        }
    }
    sums
}

/// What a lane's a, b, c, d count in the sum of this order.
fn weights(lanes: i64, lane: i64, order: usize) -> [i64; 4] {
    // How often a word counts whose lane has r words to go, itself among them.
    let times = |r: i64| {
        let x = lanes * r - lane;
        match order {
            0 => 1,
            1 => x,
            2 => x * (x + 1) / 2,
            _ => x * (x + 1) * (x + 2) / 6,
        }
    };
    // In the basis 1, r, C(r + 1, 2), C(r + 2, 3), whose values are 1 0 0 0 at r = 0, 1 1 1 1 at 1,
    // 1 2 3 4 at 2.
    let cubic = if order == 3 { lanes.pow(3) } else { 0 };
    let constant = times(0);
    let square = times(2) - 2 * times(1) + times(0) - 2 * cubic;
    let linear = times(1) - constant - square - cubic;
    [constant, linear, square, cubic]
}

/// fletcher 2 of pairs of 64-bit words; bytes beyond the last whole pair do not count.
pub fn fletcher2(bytes: &[u8]) -> Sum {
    let mut sums = [0_u64; 4];
    for pair in bytes.chunks_exact(16) {
        let word =
            |at: usize| u64::from_le_bytes(pair[at..at + 8].try_into().expect("eight bytes"));
        sums[0] = sums[0].wrapping_add(word(0));
        sums[1] = sums[1].wrapping_add(word(8));
        sums[2] = sums[2].wrapping_add(sums[0]);
        sums[3] = sums[3].wrapping_add(sums[1]);
    }
    Sum(sums)
}
