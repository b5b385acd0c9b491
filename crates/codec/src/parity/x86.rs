//! Parity with the vector instructions of x86-64: SSSE3, AVX2, AVX-512, and GFNI with the latter two.
//!
//! Without GFNI, a product with a constant is two look-ups by nibble (`pshufb`), and doubling is an
//! addition and one look-up (see `SHUFFLE_BIAS`). With GFNI (Intel since Ice Lake and Tremont, AMD since
//! Zen 4) a product is one `gf2p8affineqb`. AVX-512 adds three vectors in one `vpternlog` and has twice
//! the registers, so its blocks are longer.
//!
//! The numbers of vectors a block were measured with `cargo xtask bench parity`; more would spill
//! registers, fewer leave the multiplier waiting.

use std::arch::x86_64::*;

use super::pass::{Lane, RawPass, run_in_lane};
use super::scalar;
use crate::gf256::{MATRICES, NIBBLES, POLYNOMIAL};

/// Makes a kernel: the loops of `pass` over a lane, with the lane's instructions switched on.
macro_rules! kernel {
    ($(#[$doc:meta])* $name:ident, $features:literal, $lane:ty, $($blocks:tt)*) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// `pass` is as its type says, and the processor has the instruction set.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn $name(pass: &RawPass<'_>) {
            // SAFETY: the instructions are switched on here; the rest is this function's contract.
            unsafe {
                let at = run_in_lane!($lane, pass, 0, $($blocks)*);
                if at < pass.length {
 scalar::run(pass, at);
 }
            }
        }
    };
}

kernel!(
    /// 16 bytes at a time, products by look-up.
    ssse3, "ssse3", Ssse3,
    sum: 8, sum_and_1: 2, sum_and_2: 2, rows_1: 2, rows_2: 2, rows_3: 1
);
kernel!(
    /// 32 bytes at a time, products by look-up.
    avx2, "avx2", Avx2,
    sum: 8, sum_and_1: 2, sum_and_2: 2, rows_1: 2, rows_2: 2, rows_3: 1
);
kernel!(
    /// 32 bytes at a time, products by GFNI.
    avx2_gfni, "avx2,gfni", Avx2Gfni,
    sum: 8, sum_and_1: 4, sum_and_2: 2, rows_1: 4, rows_2: 2, rows_3: 2
);
kernel!(
    /// 64 bytes at a time, products by look-up.
    avx512, "avx512f,avx512bw", Avx512,
    sum: 16, sum_and_1: 4, sum_and_2: 4, rows_1: 4, rows_2: 4, rows_3: 2
);
kernel!(
    /// 64 bytes at a time, products by GFNI.
    avx512_gfni, "avx512f,avx512bw,gfni", Avx512Gfni,
    sum: 16, sum_and_1: 4, sum_and_2: 4, rows_1: 4, rows_2: 4, rows_3: 4
);

#[derive(Clone, Copy)]
struct Ssse3(__m128i);

impl Lane for Ssse3 {
    type Factor = (__m128i, __m128i);
    const BYTES: usize = 16;
    const PREFERS_HORNER: bool = true;
    const HORNER_BIAS: u8 = SHUFFLE_BIAS;

    #[inline(always)]
    unsafe fn splat(byte: u8) -> Self {
        // SAFETY: the contract of `Lane`.
        Ssse3(unsafe { _mm_set1_epi8(byte as i8) })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the contract of `Lane::load`.
        Ssse3(unsafe { _mm_loadu_si128(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the contract of `Lane::store`.
        unsafe { _mm_storeu_si128(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the contract of `Lane`.
        Ssse3(unsafe { _mm_xor_si128(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn double_and_add(self, other: Self, polynomial: Self) -> Self {
        // SAFETY: the contract of `Lane`.
        unsafe {
            let reduction = _mm_shuffle_epi8(polynomial.0, self.0);
            Ssse3(_mm_add_epi8(self.0, self.0)).add_two(Ssse3(reduction), other)
        }
    }

    #[inline(always)]
    unsafe fn factor(coefficient: u8) -> Self::Factor {
        let products = &NIBBLES[usize::from(coefficient)];
        // SAFETY: both arrays are 16 bytes long; otherwise the contract of `Lane`.
        unsafe {
            (
                _mm_loadu_si128(products.low.as_ptr().cast()),
                _mm_loadu_si128(products.high.as_ptr().cast()),
            )
        }
    }

    #[inline(always)]
    unsafe fn multiply(self, (low, high): Self::Factor) -> Self {
        // SAFETY: the contract of `Lane`.
        unsafe {
            let nibble = _mm_set1_epi8(15);
            let by_low = _mm_shuffle_epi8(low, _mm_and_si128(self.0, nibble));
            let high_nibbles = _mm_and_si128(_mm_srli_epi64::<4>(self.0), nibble);
            Ssse3(_mm_xor_si128(by_low, _mm_shuffle_epi8(high, high_nibbles)))
        }
    }
}

#[derive(Clone, Copy)]
struct Avx2(__m256i);

impl Lane for Avx2 {
    type Factor = (__m256i, __m256i);
    const BYTES: usize = 32;
    const PREFERS_HORNER: bool = true;
    const HORNER_BIAS: u8 = SHUFFLE_BIAS;

    #[inline(always)]
    unsafe fn splat(byte: u8) -> Self {
        // SAFETY: the contract of `Lane`.
        Avx2(unsafe { _mm256_set1_epi8(byte as i8) })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the contract of `Lane::load`.
        Avx2(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the contract of `Lane::store`.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the contract of `Lane`.
        Avx2(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn double_and_add(self, other: Self, polynomial: Self) -> Self {
        // SAFETY: the contract of `Lane`.
        unsafe {
            let reduction = _mm256_shuffle_epi8(polynomial.0, self.0);
            Avx2(_mm256_add_epi8(self.0, self.0)).add_two(Avx2(reduction), other)
        }
    }

    #[inline(always)]
    unsafe fn factor(coefficient: u8) -> Self::Factor {
        let products = &NIBBLES[usize::from(coefficient)];
        // SAFETY: both arrays are 16 bytes long; otherwise the contract of `Lane`.
        unsafe {
            (
                _mm256_broadcastsi128_si256(_mm_loadu_si128(products.low.as_ptr().cast())),
                _mm256_broadcastsi128_si256(_mm_loadu_si128(products.high.as_ptr().cast())),
            )
        }
    }

    #[inline(always)]
    unsafe fn multiply(self, (low, high): Self::Factor) -> Self {
        // SAFETY: the contract of `Lane`.
        unsafe {
            let nibble = _mm256_set1_epi8(15);
            let by_low = _mm256_shuffle_epi8(low, _mm256_and_si256(self.0, nibble));
            let high_nibbles = _mm256_and_si256(_mm256_srli_epi64::<4>(self.0), nibble);
            Avx2(_mm256_xor_si256(by_low, _mm256_shuffle_epi8(high, high_nibbles)))
        }
    }
}

#[derive(Clone, Copy)]
struct Avx2Gfni(__m256i);

impl Lane for Avx2Gfni {
    type Factor = __m256i;
    const BYTES: usize = 32;
    const PREFERS_HORNER: bool = false;

    #[inline(always)]
    unsafe fn splat(byte: u8) -> Self {
        // SAFETY: the contract of `Lane`.
        Avx2Gfni(unsafe { _mm256_set1_epi8(byte as i8) })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the contract of `Lane::load`.
        Avx2Gfni(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the contract of `Lane::store`.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the contract of `Lane`.
        Avx2Gfni(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn double_and_add(self, other: Self, _: Self) -> Self {
        // SAFETY: the contract of `Lane`.
        unsafe { self.multiply(Self::factor(2)).add(other) }
    }

    #[inline(always)]
    unsafe fn factor(coefficient: u8) -> Self::Factor {
        // SAFETY: the contract of `Lane`.
        unsafe { _mm256_set1_epi64x(MATRICES[usize::from(coefficient)] as i64) }
    }

    #[inline(always)]
    unsafe fn multiply(self, factor: Self::Factor) -> Self {
        // SAFETY: the contract of `Lane`.
        Avx2Gfni(unsafe { _mm256_gf2p8affine_epi64_epi8::<0>(self.0, factor) })
    }
}

#[derive(Clone, Copy)]
struct Avx512(__m512i);

impl Lane for Avx512 {
    type Factor = (__m512i, __m512i);
    const BYTES: usize = 64;
    const PREFERS_HORNER: bool = true;
    const HORNER_BIAS: u8 = SHUFFLE_BIAS;

    #[inline(always)]
    unsafe fn splat(byte: u8) -> Self {
        // SAFETY: the contract of `Lane`.
        Avx512(unsafe { _mm512_set1_epi8(byte as i8) })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the contract of `Lane::load`.
        Avx512(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the contract of `Lane::store`.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the contract of `Lane`.
        Avx512(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn add_two(self, a: Self, b: Self) -> Self {
        // SAFETY: the contract of `Lane`.
        Avx512(unsafe { _mm512_ternarylogic_epi64::<XOR_OF_THREE>(self.0, a.0, b.0) })
    }

    #[inline(always)]
    unsafe fn double_and_add(self, other: Self, polynomial: Self) -> Self {
        // SAFETY: the contract of `Lane`.
        unsafe {
            let reduction = _mm512_shuffle_epi8(polynomial.0, self.0);
            Avx512(_mm512_add_epi8(self.0, self.0)).add_two(Avx512(reduction), other)
        }
    }

    #[inline(always)]
    unsafe fn factor(coefficient: u8) -> Self::Factor {
        let products = &NIBBLES[usize::from(coefficient)];
        // SAFETY: both arrays are 16 bytes long; otherwise the contract of `Lane`.
        unsafe {
            (
                _mm512_broadcast_i32x4(_mm_loadu_si128(products.low.as_ptr().cast())),
                _mm512_broadcast_i32x4(_mm_loadu_si128(products.high.as_ptr().cast())),
            )
        }
    }

    #[inline(always)]
    unsafe fn multiply(self, (low, high): Self::Factor) -> Self {
        // SAFETY: the contract of `Lane`.
        unsafe {
            let nibble = _mm512_set1_epi8(15);
            let by_low = _mm512_shuffle_epi8(low, _mm512_and_si512(self.0, nibble));
            let high_nibbles = _mm512_and_si512(_mm512_srli_epi64::<4>(self.0), nibble);
            Avx512(_mm512_xor_si512(by_low, _mm512_shuffle_epi8(high, high_nibbles)))
        }
    }
}

#[derive(Clone, Copy)]
struct Avx512Gfni(__m512i);

impl Lane for Avx512Gfni {
    type Factor = __m512i;
    const BYTES: usize = 64;
    const PREFERS_HORNER: bool = false;

    #[inline(always)]
    unsafe fn splat(byte: u8) -> Self {
        // SAFETY: the contract of `Lane`.
        Avx512Gfni(unsafe { _mm512_set1_epi8(byte as i8) })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the contract of `Lane::load`.
        Avx512Gfni(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the contract of `Lane::store`.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the contract of `Lane`.
        Avx512Gfni(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn add_two(self, a: Self, b: Self) -> Self {
        // SAFETY: the contract of `Lane`.
        Avx512Gfni(unsafe { _mm512_ternarylogic_epi64::<XOR_OF_THREE>(self.0, a.0, b.0) })
    }

    #[inline(always)]
    unsafe fn double_and_add(self, other: Self, _: Self) -> Self {
        // SAFETY: the contract of `Lane`.
        unsafe { self.multiply(Self::factor(2)).add(other) }
    }

    #[inline(always)]
    unsafe fn factor(coefficient: u8) -> Self::Factor {
        // SAFETY: the contract of `Lane`.
        unsafe { _mm512_set1_epi64(MATRICES[usize::from(coefficient)] as i64) }
    }

    #[inline(always)]
    unsafe fn multiply(self, factor: Self::Factor) -> Self {
        // SAFETY: the contract of `Lane`.
        Avx512Gfni(unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(self.0, factor) })
    }
}

/// The truth table of a ⊕ b ⊕ c for `vpternlog`: the value at place `4a + 2b + c`.
const XOR_OF_THREE: i32 = 0b1001_0110;

/// The bias with which doubling takes one instruction less.
///
/// `pshufb` gives 0 for an index whose top bit is set. So looking x up in a table that is full of the
/// polynomial gives the polynomial just where doubling x does *not* reduce, and 2x is (x + x) ⊕ look-up ⊕
/// polynomial. Now hold accumulators as s = x ⊕ b, with a b whose top bit is clear, so that looking s up
/// gives the same, and with b ⊕ (b << 1) = polynomial. Then (s + s) ⊕ look-up is 2x ⊕ b: the bias stands in
/// for the third term. That leaves one b: the polynomial divided by 1 + x, as power series, up to x⁷.
const SHUFFLE_BIAS: u8 = 0x0b;
const _: () = assert!(SHUFFLE_BIAS ^ (SHUFFLE_BIAS << 1) == POLYNOMIAL && SHUFFLE_BIAS < 0x80);
