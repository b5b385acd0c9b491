//! Parity without vector instructions: 8 bytes at a time in a general register.
//!
//! This is the portable form, and the end of every other: it takes the bytes that are too few for a
//! vector. It works on words because exclusive or and doubling treat the 8 bytes of a word alike;
//! a product with another constant is a sum of doublings. (On x86-64 the compiler turns blocks of four
//! such words into SSE2, which every such processor has, by itself.)

use super::pass::{Lane, RawPass, run_in_lane};
use crate::gf256;

/// # Safety
/// `pass` is as its type says, and `at` isn't past its end.
pub(super) unsafe fn run(pass: &RawPass<'_>, at: usize) {
    // SAFETY: these lanes need no special instructions; the rest is this function's contract.
    unsafe {
        let at = run_in_lane!(u64, pass, at, sum: 4, sum_and_1: 4, sum_and_2: 4,
            rows_1: 4, rows_2: 4, rows_3: 4);
        let at = run_in_lane!(u8, pass, at, sum: 1, sum_and_1: 1, sum_and_2: 1,
            rows_1: 1, rows_2: 1, rows_3: 1);
        assert_eq!(at, pass.length, "a pass in single bytes leaves nothing over");
    }
}

impl Lane for u64 {
    type Factor = u8;
    const BYTES: usize = 8;
    const PREFERS_HORNER: bool = true;

    #[inline(always)]
    unsafe fn splat(byte: u8) -> u64 {
        u64::from_ne_bytes([byte; 8])
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> u64 {
        // SAFETY: the contract of `Lane::load`.
        unsafe { from.cast::<u64>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the contract of `Lane::store`.
        unsafe { to.cast::<u64>().write_unaligned(self) }
    }

    #[inline(always)]
    unsafe fn add(self, other: u64) -> u64 {
        self ^ other
    }

    #[inline(always)]
    unsafe fn double_and_add(self, other: u64, _: u64) -> u64 {
        gf256::double_word(self) ^ other
    }

    #[inline(always)]
    unsafe fn factor(coefficient: u8) -> u8 {
        coefficient
    }

    #[inline(always)]
    unsafe fn multiply(self, factor: u8) -> u64 {
        // No early end, unlike `gf256::multiply_word`: without branches it becomes vector code.
        let (mut product, mut shifted) = (0, self);
        for bit in 0..8 {
            product ^= shifted & (u64::from(factor >> bit & 1)).wrapping_neg();
            shifted = gf256::double_word(shifted);
        }
        product
    }
}
