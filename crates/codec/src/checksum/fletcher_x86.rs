//! fletcher 4 in the lanes of AVX2 and AVX-512. Only whole groups of words are taken.

use std::arch::x86_64::*;

/// Sums of four lanes: a, b, c, d of each.
///
/// # Panics
/// Where the processor has no AVX2.
pub(super) fn four(bytes: &[u8], swapped: bool) -> [[u64; 4]; 4] {
    assert!(is_x86_feature_detected!("avx2"), "AVX2 is there");
    // SAFETY: the processor has the instructions.
    unsafe { four_avx2(bytes, swapped) }
}

/// Whether the processor has what [`eight`] takes. The list is that of `eight_avx512`, whole: what one instruction set
/// says of another is not asked, since a hypervisor may mask any of them.
pub(super) fn has_eight() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx2")
}

/// Sums of eight lanes.
///
/// # Panics
/// Where the processor has no AVX-512 (F) or no AVX2.
pub(super) fn eight(bytes: &[u8], swapped: bool) -> [[u64; 8]; 4] {
    assert!(has_eight(), "AVX-512 is there");
    // SAFETY: the processor has all that the function switches on.
    unsafe { eight_avx512(bytes, swapped) }
}

#[target_feature(enable = "avx2")]
fn four_avx2(bytes: &[u8], swapped: bool) -> [[u64; 4]; 4] {
    let mut sums = [_mm256_setzero_si256(); 4];
    // Turns the bytes of each word round where the words are big-endian.
    let order = match swapped {
        true => _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12),
        false => _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
    };
    for group in bytes.chunks_exact(16) {
        // SAFETY: the group has sixteen bytes; the load needs no alignment.
        let words = unsafe { _mm_loadu_si128(group.as_ptr().cast()) };
        let words = if swapped { _mm_shuffle_epi8(words, order) } else { words };
        sums[0] = _mm256_add_epi64(sums[0], _mm256_cvtepu32_epi64(words));
        sums[1] = _mm256_add_epi64(sums[1], sums[0]);
        sums[2] = _mm256_add_epi64(sums[2], sums[1]);
        sums[3] = _mm256_add_epi64(sums[3], sums[2]);
    }
    sums.map(|sum| {
        let mut lanes = [0; 4];
        // SAFETY: the lanes have thirty-two bytes; the store needs no alignment.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), sum) };
        lanes
    })
}

#[target_feature(enable = "avx512f,avx2")]
fn eight_avx512(bytes: &[u8], swapped: bool) -> [[u64; 8]; 4] {
    let mut sums = [_mm512_setzero_si512(); 4];
    let order = _mm256_setr_epi8(
        3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12, 3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8,
        15, 14, 13, 12,
    );
    for group in bytes.chunks_exact(32) {
        // SAFETY: the group has thirty-two bytes; the load needs no alignment.
        let words = unsafe { _mm256_loadu_si256(group.as_ptr().cast()) };
        let words = if swapped { _mm256_shuffle_epi8(words, order) } else { words };
        sums[0] = _mm512_add_epi64(sums[0], _mm512_cvtepu32_epi64(words));
        sums[1] = _mm512_add_epi64(sums[1], sums[0]);
        sums[2] = _mm512_add_epi64(sums[2], sums[1]);
        sums[3] = _mm512_add_epi64(sums[3], sums[2]);
    }
    sums.map(|sum| {
        let mut lanes = [0; 8];
        // SAFETY: the lanes have sixty-four bytes; the store needs no alignment.
        unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), sum) };
        lanes
    })
}
