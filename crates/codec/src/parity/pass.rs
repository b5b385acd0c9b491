//! The one loop behind all of parity: several sums of products, in one pass over the inputs.
//!
//! Making parity and rebuilding members are the same thing to a processor. Each output byte is a sum
//! over the inputs of (input byte × coefficient), with coefficients that are fixed for the whole call.
//! So there is one loop, [`combine`], and what differs between P+Q and "two members lost, P gone" is
//! the table of coefficients it is handed. It reads each input byte once and writes each output byte
//! once; the sums stay in registers.
//!
//! # What makes it fast
//!
//! * The **plain sum**. One output may be a sum with all coefficients 1, which costs no multiplication.
//!   P is one; and when members are lost, "P and all data sum to 0" gives the last of them as a plain
//!   sum of everything else, *including the other outputs of the same pass*, which are still in
//!   registers: those are **folded** in at the end of each block. So rebuilding k members through P
//!   costs the multiplications of k − 1.
//! * A block is several vectors long, so that there are enough independent sums to hide the latency
//!   of the multiplication, and inputs are taken two at a time, for processors that add three vectors
//!   in one instruction.
//! * [`horner`] makes parity (only) on processors where multiplying by 2 is much cheaper than by another
//!   constant: Q = (…(dₙ₋₁·2 + dₙ₋₂)·2 + …)·2 + d₀. With GFNI any product is one instruction, and
//!   `combine` is the faster, because its products don't wait for one another.
//!
//! # Layers
//!
//! A [`Lane`] is a vector of some instruction set, with the few operations that the loops need. The
//! loops are generic over it and always inlined, so they take on the instruction set of the function
//! that they are expanded in; that function (one a kernel, in `scalar`, `x86`, `neon`) carries the
//! `#[target_feature]`. A loop works from a given place in whole blocks and returns how far it came;
//! whoever drives it hands what is left to a narrower loop, and the last bytes to that of single bytes.

#![allow(
    clippy::needless_range_loop,
    reason = "the vectors of a block and the rows are indexed alike in several arrays and addresses"
)]

use crate::gf256;

/// The most outputs with coefficients that one pass has: as many as there are parities.
pub(super) const ROWS_MAX: usize = 3;

/// One pass: what to read, what to write, and the sums that lead from one to the other.
///
/// The pointers may be read (`inputs`) and written (`sum`, `rows`) for `length` bytes, and nothing
/// else refers to what is written. `Kernel::run` is the only maker and sees to that.
pub(super) struct RawPass<'a> {
    /// What to read; each is at least `length` long.
    pub(super) inputs: &'a [&'a [u8]],
    /// Of each input, its coefficient in each row.
    pub(super) coefficients: &'a [[u8; ROWS_MAX]],
    /// So many inputs, from the first, are in the plain sum.
    pub(super) inputs_in_sum: usize,
    /// Where the plain sum goes, or null if there is none.
    pub(super) sum: *mut u8,
    /// Where the rows go.
    pub(super) rows: [*mut u8; ROWS_MAX],
    /// How many rows there are.
    pub(super) row_count: usize,
    /// So many rows, from the first, are added to the plain sum.
    pub(super) folded: usize,
    /// Whether the outputs' old content is added to the new.
    pub(super) accumulate: bool,
    /// Whether this is the making of parity: every input is in the sum, and input `i` has the
    /// coefficients 2ⁱ and 4ⁱ.
    pub(super) powers: bool,
    /// The length of every input and output.
    pub(super) length: usize,
}

/// A vector of bytes of some instruction set.
///
/// # Safety
///
/// The functions are to be called only where the processor has that instruction set; they are
/// expanded in a function that has it switched on.
pub(super) trait Lane: Copy {
    /// A coefficient, in the form that [`Lane::multiply`] wants.
    type Factor: Copy;
    /// The bytes in a vector.
    const BYTES: usize;
    /// Whether doubling is much cheaper than multiplying.
    const PREFERS_HORNER: bool;
    /// What is added to each byte of an accumulator in [`horner`], for lanes to which that is a help.
    const HORNER_BIAS: u8 = 0;

    /// A vector of this byte.
    /// # Safety
    /// See the trait.
    unsafe fn splat(byte: u8) -> Self;
    /// # Safety
    /// See the trait; and `BYTES` bytes at `from` may be read. It need not be aligned.
    unsafe fn load(from: *const u8) -> Self;
    /// # Safety
    /// See the trait; and `BYTES` bytes at `to` may be written. It need not be aligned.
    unsafe fn store(self, to: *mut u8);
    /// # Safety
    /// See the trait.
    unsafe fn add(self, other: Self) -> Self;
    /// `2·self + other`, of accumulators that carry [`Lane::HORNER_BIAS`] and an `other` that doesn't.
    /// `polynomial` is a vector of the field's polynomial.
    /// # Safety
    /// See the trait.
    unsafe fn double_and_add(self, other: Self, polynomial: Self) -> Self;
    /// # Safety
    /// See the trait.
    unsafe fn factor(coefficient: u8) -> Self::Factor;
    /// # Safety
    /// See the trait.
    unsafe fn multiply(self, factor: Self::Factor) -> Self;

    /// `self + a + b`.
    /// # Safety
    /// See the trait.
    #[inline(always)]
    unsafe fn add_two(self, a: Self, b: Self) -> Self {
        // SAFETY: this function's own contract.
        unsafe { self.add(a).add(b) }
    }
}

/// Works off `pass` from byte `at` on in blocks of `BLOCK` vectors, and returns where it stopped: less
/// than a block before the end. `SUM` says whether there is a plain sum, `ROWS` is the number of rows.
///
/// # Safety
/// `pass` is as its type says, `at` isn't past the end, and the processor has the lane's instructions.
#[inline(always)]
pub(super) unsafe fn combine<L: Lane, const SUM: bool, const ROWS: usize, const BLOCK: usize>(
    pass: &RawPass<'_>,
    mut at: usize,
) -> usize {
    let in_sum = if SUM { pass.inputs_in_sum } else { pass.inputs.len() };
    let (inputs, more_inputs) = pass.inputs.split_at(in_sum);
    let (coefficients, more_coefficients) = pass.coefficients.split_at(in_sum);
    let pairs = inputs.chunks_exact(2);
    let pair_coefficients = coefficients.chunks_exact(2);
    while at + BLOCK * L::BYTES <= pass.length {
        // SAFETY: the loop's condition keeps every access below the pass's length; the rest is this
        // function's contract.
        unsafe {
            let mut sum = [L::splat(0); BLOCK];
            let mut rows = [[L::splat(0); BLOCK]; ROWS];
            if pass.accumulate {
                for v in 0..BLOCK {
                    if SUM {
                        sum[v] = L::load(pass.sum.add(at + v * L::BYTES));
                    }
                    for row in 0..ROWS {
                        rows[row][v] = L::load(pass.rows[row].add(at + v * L::BYTES));
                    }
                }
            }
            for (pair, coefficients) in pairs.clone().zip(pair_coefficients.clone()) {
                let a = pair[0].as_ptr().add(at);
                let b = pair[1].as_ptr().add(at);
                let a: [L; BLOCK] = std::array::from_fn(|v| L::load(a.add(v * L::BYTES)));
                let b: [L; BLOCK] = std::array::from_fn(|v| L::load(b.add(v * L::BYTES)));
                for row in 0..ROWS {
                    let factor_a = L::factor(coefficients[0][row]);
                    let factor_b = L::factor(coefficients[1][row]);
                    for v in 0..BLOCK {
                        rows[row][v] =
                            rows[row][v].add_two(a[v].multiply(factor_a), b[v].multiply(factor_b));
                    }
                }
                if SUM {
                    for v in 0..BLOCK {
                        sum[v] = sum[v].add_two(a[v], b[v]);
                    }
                }
            }
            let odd = pairs.remainder().iter().zip(pair_coefficients.remainder());
            let odd = odd.map(|(input, coefficients)| (input, coefficients, true));
            let more = more_inputs.iter().zip(more_coefficients);
            let more = more.map(|(input, coefficients)| (input, coefficients, false));
            for (input, coefficients, is_in_sum) in odd.chain(more) {
                let input = input.as_ptr().add(at);
                let input: [L; BLOCK] = std::array::from_fn(|v| L::load(input.add(v * L::BYTES)));
                for row in 0..ROWS {
                    let factor = L::factor(coefficients[row]);
                    for v in 0..BLOCK {
                        rows[row][v] = rows[row][v].add(input[v].multiply(factor));
                    }
                }
                if SUM && is_in_sum {
                    for v in 0..BLOCK {
                        sum[v] = sum[v].add(input[v]);
                    }
                }
            }
            for row in 0..ROWS {
                for v in 0..BLOCK {
                    rows[row][v].store(pass.rows[row].add(at + v * L::BYTES));
                }
                if SUM && row < pass.folded {
                    for v in 0..BLOCK {
                        sum[v] = sum[v].add(rows[row][v]);
                    }
                }
            }
            if SUM {
                for v in 0..BLOCK {
                    sum[v].store(pass.sum.add(at + v * L::BYTES));
                }
            }
        }
        at += BLOCK * L::BYTES;
    }
    at
}

/// As [`combine`], for a pass that makes parity (`pass.powers`): P, and Q and R by Horner's scheme.
///
/// # Safety
/// As for [`combine`]; `pass.powers` is set, and `pass.row_count` is `ROWS`, 1 or 2.
#[inline(always)]
pub(super) unsafe fn horner<L: Lane, const ROWS: usize, const BLOCK: usize>(
    pass: &RawPass<'_>,
    mut at: usize,
) -> usize {
    // If the compiler knew this byte, it would turn the look-up of `SHUFFLE_BIAS` (in `x86`) back into a
    // comparison and a selection, which are slower.
    let polynomial = std::hint::black_box(gf256::POLYNOMIAL);
    // SAFETY: this function's contract.
    let polynomial = unsafe { L::splat(polynomial) };
    while at + BLOCK * L::BYTES <= pass.length {
        // SAFETY: the loop's condition keeps every access below the pass's length; the rest is this
        // function's contract.
        unsafe {
            let mut sum = [L::splat(0); BLOCK];
            let mut rows = [[L::splat(L::HORNER_BIAS); BLOCK]; ROWS];
            for input in pass.inputs.iter().rev() {
                let input = input.as_ptr().add(at);
                for v in 0..BLOCK {
                    let input = L::load(input.add(v * L::BYTES));
                    sum[v] = sum[v].add(input);
                    for row in 0..ROWS {
                        let mut so_far = rows[row][v];
                        for _ in 0..row {
                            so_far = so_far.double_and_add(L::splat(0), polynomial);
                        }
                        rows[row][v] = so_far.double_and_add(input, polynomial);
                    }
                }
            }
            for v in 0..BLOCK {
                sum[v].store(pass.sum.add(at + v * L::BYTES));
                for row in 0..ROWS {
                    let unbiased = rows[row][v].add(L::splat(L::HORNER_BIAS));
                    unbiased.store(pass.rows[row].add(at + v * L::BYTES));
                }
            }
        }
        at += BLOCK * L::BYTES;
    }
    at
}

/// Runs a pass in a lane, from byte `$at` on: the widest blocks that registers allow, then single
/// vectors. The numbers are vectors a block, for each shape of pass.
macro_rules! run_in_lane {
    (
        $lane:ty, $pass:expr, $at:expr,
        sum: $sum:literal, sum_and_1: $sum_and_1:literal, sum_and_2: $sum_and_2:literal,
        rows_1: $rows_1:literal, rows_2: $rows_2:literal, rows_3: $rows_3:literal
    ) => {{
        use $crate::parity::pass::{Lane, combine, horner};
        let (pass, at) = ($pass, $at);
        let has_sum = !pass.sum.is_null();
        match (has_sum, pass.row_count) {
            (true, 1) if pass.powers && <$lane>::PREFERS_HORNER => {
                let at = horner::<$lane, 1, $sum_and_1>(pass, at);
                horner::<$lane, 1, 1>(pass, at)
            }
            (true, 2) if pass.powers && <$lane>::PREFERS_HORNER => {
                let at = horner::<$lane, 2, $sum_and_2>(pass, at);
                horner::<$lane, 2, 1>(pass, at)
            }
            (true, 0) => {
                let at = combine::<$lane, true, 0, $sum>(pass, at);
                combine::<$lane, true, 0, 1>(pass, at)
            }
            (true, 1) => {
                let at = combine::<$lane, true, 1, $sum_and_1>(pass, at);
                combine::<$lane, true, 1, 1>(pass, at)
            }
            (true, 2) => {
                let at = combine::<$lane, true, 2, $sum_and_2>(pass, at);
                combine::<$lane, true, 2, 1>(pass, at)
            }
            (false, 1) => {
                let at = combine::<$lane, false, 1, $rows_1>(pass, at);
                combine::<$lane, false, 1, 1>(pass, at)
            }
            (false, 2) => {
                let at = combine::<$lane, false, 2, $rows_2>(pass, at);
                combine::<$lane, false, 2, 1>(pass, at)
            }
            (false, 3) => {
                let at = combine::<$lane, false, 3, $rows_3>(pass, at);
                combine::<$lane, false, 3, 1>(pass, at)
            }
            (has_sum, rows) => unreachable!("a pass with sum {has_sum} and {rows} rows"),
        }
    }};
}
pub(super) use run_in_lane;

/// One byte: what is left at the end of a pass whose length isn't a multiple of anything.
impl Lane for u8 {
    type Factor = u8;
    const BYTES: usize = 1;
    const PREFERS_HORNER: bool = true;

    #[inline(always)]
    unsafe fn splat(byte: u8) -> u8 {
        byte
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> u8 {
        // SAFETY: the contract of `Lane::load`.
        unsafe { from.read() }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the contract of `Lane::store`.
        unsafe { to.write(self) }
    }

    #[inline(always)]
    unsafe fn add(self, other: u8) -> u8 {
        self ^ other
    }

    #[inline(always)]
    unsafe fn double_and_add(self, other: u8, _: u8) -> u8 {
        gf256::double(self) ^ other
    }

    #[inline(always)]
    unsafe fn factor(coefficient: u8) -> u8 {
        coefficient
    }

    #[inline(always)]
    unsafe fn multiply(self, factor: u8) -> u8 {
        gf256::multiply(self, factor)
    }
}
