//! Parity with NEON, which every 64-bit ARM processor has.
//!
//! A product with a constant is two look-ups by nibble (`tbl`). Doubling is a shift, and the polynomial
//! where the shift dropped a bit. There are 32 registers, so blocks are as long as those of AVX-512.

use std::arch::aarch64::*;

use super::pass::{Lane, RawPass, run_in_lane};
use super::scalar;
use crate::gf256::NIBBLES;

/// 16 bytes at a time, products by look-up.
///
/// # Safety
/// `pass` is as its type says, and the processor has NEON.
#[target_feature(enable = "neon")]
pub(super) unsafe fn neon(pass: &RawPass<'_>) {
    // SAFETY: the instructions are switched on here; the rest is this function's contract.
    unsafe {
        let at = run_in_lane!(Neon, pass, 0, sum: 8, sum_and_1: 4, sum_and_2: 4,
            rows_1: 4, rows_2: 4, rows_3: 2);
        if at < pass.length {
            scalar::run(pass, at);
        }
    }
}

#[derive(Clone, Copy)]
struct Neon(uint8x16_t);

impl Lane for Neon {
    type Factor = (uint8x16_t, uint8x16_t);
    const BYTES: usize = 16;
    const PREFERS_HORNER: bool = true;

    #[inline(always)]
    unsafe fn splat(byte: u8) -> Self {
        // SAFETY: the contract of `Lane`.
        Neon(unsafe { vdupq_n_u8(byte) })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the contract of `Lane::load`.
        Neon(unsafe { vld1q_u8(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the contract of `Lane::store`.
        unsafe { vst1q_u8(to, self.0) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the contract of `Lane`.
        Neon(unsafe { veorq_u8(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn double_and_add(self, other: Self, polynomial: Self) -> Self {
        // SAFETY: the contract of `Lane`.
        unsafe {
            // A byte with its top bit set is negative.
            let overflowed = vcltzq_s8(vreinterpretq_s8_u8(self.0));
            let reduction = Neon(vandq_u8(overflowed, polynomial.0));
            Neon(vshlq_n_u8::<1>(self.0)).add_two(reduction, other)
        }
    }

    #[inline(always)]
    unsafe fn factor(coefficient: u8) -> Self::Factor {
        let products = &NIBBLES[usize::from(coefficient)];
        // SAFETY: both arrays are 16 bytes long; otherwise the contract of `Lane`.
        unsafe { (vld1q_u8(products.low.as_ptr()), vld1q_u8(products.high.as_ptr())) }
    }

    #[inline(always)]
    unsafe fn multiply(self, (low, high): Self::Factor) -> Self {
        // SAFETY: the contract of `Lane`.
        unsafe {
            let by_low = vqtbl1q_u8(low, vandq_u8(self.0, vdupq_n_u8(15)));
            Neon(veorq_u8(by_low, vqtbl1q_u8(high, vshrq_n_u8::<4>(self.0))))
        }
    }
}
