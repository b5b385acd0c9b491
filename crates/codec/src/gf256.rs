//! Arithmetic in GF(2⁸), the field of RAID parity.
//!
//! An element is a byte, read as a polynomial over GF(2) of degree 7 or less. Addition is exclusive
//! or (so subtraction is too). Multiplication is that of polynomials modulo
//! x⁸ + x⁴ + x³ + x² + 1, which is written 0x11d. Linux md and OpenZFS both use this field, with the
//! generator 2 (the polynomial x): its powers 2⁰ … 2²⁵⁴ are all the 255 elements other than 0, and
//! 2²⁵⁵ = 1.
//!
//! Multiplication by a fixed element is linear over GF(2), and processors have two instructions that
//! evaluate such a map on a whole vector. So this module has each element's map in both forms, in
//! tables that the compiler works out:
//!
//! * [`NIBBLES`]: the products with the 16 low nibbles and with the 16 high nibbles. A product is two
//!   look-ups (`pshufb`, `tbl`) and an exclusive or.
//! * [`MATRICES`]: the map as an 8 × 8 bit matrix for `gf2p8affineqb`. (GFNI's own multiplication,
//!   `gf2p8mulb`, is no use here: it is fixed to AES's polynomial, 0x11b.)
//!
//! It doesn't do vectors; those are in `parity`.
//!
//! Sources: H. Peter Anvin, "The mathematics of RAID-6" (2004–2011); Intel, "Galois Field New
//! Instructions" (2018), for the order of the matrix's rows.

/// The low byte of the field's polynomial: what is left of x⁸ after reduction.
pub(crate) const POLYNOMIAL: u8 = 0x1d;

/// The number of elements other than 0; powers of the generator repeat after so many.
pub(crate) const ORDER: usize = 255;

/// `a` times 2.
pub(crate) const fn double(a: u8) -> u8 {
    (a << 1) ^ (if a & 0x80 == 0 { 0 } else { POLYNOMIAL })
}

/// The product of two elements.
pub(crate) const fn multiply(a: u8, b: u8) -> u8 {
    // Russian peasant: the sum of a·2ⁱ over the bits i that are set in b.
    let mut product = 0;
    let mut shifted = a;
    let mut rest = b;
    while rest != 0 {
        if rest & 1 != 0 {
            product ^= shifted;
        }
        shifted = double(shifted);
        rest >>= 1;
    }
    product
}

/// The products of `factor` and each of the 8 bytes of `word`.
pub(crate) const fn multiply_word(factor: u8, word: u64) -> u64 {
    let mut product = 0;
    let mut shifted = word;
    let mut rest = factor;
    while rest != 0 {
        if rest & 1 != 0 {
            product ^= shifted;
        }
        shifted = double_word(shifted);
        rest >>= 1;
    }
    product
}

/// Each of the 8 bytes of `word` times 2.
pub(crate) const fn double_word(word: u64) -> u64 {
    const TOP_BITS: u64 = 0x8080_8080_8080_8080;
    let tops = word & TOP_BITS;
    // 0xff in each byte whose top bit was set: 2⁸ − 2⁰ of it, which never borrows across bytes.
    let overflowed = (tops << 1).wrapping_sub(tops >> 7);
    ((word & !TOP_BITS) << 1) ^ (overflowed & (POLYNOMIAL as u64 * 0x0101_0101_0101_0101))
}

/// 2 to the power of `exponent`.
pub(crate) const fn power_of_two(exponent: usize) -> u8 {
    POWERS[exponent % ORDER]
}

/// The element whose product with `a` is 1.
///
/// # Panics
/// If `a` is 0, which has none.
pub(crate) fn inverse(a: u8) -> u8 {
    assert!(a != 0, "0 has no inverse");
    INVERSES[usize::from(a)]
}

static POWERS: [u8; ORDER] = {
    let mut powers = [0; ORDER];
    let mut power = 1;
    let mut i = 0;
    while i < ORDER {
        powers[i] = power;
        power = double(power);
        i += 1;
    }
    powers
};

/// Of each element, its inverse; of 0, 0.
static INVERSES: [u8; 256] = {
    let mut inverses = [0; 256];
    let mut i = 0;
    while i < ORDER {
        // 2ⁱ · 2²⁵⁵⁻ⁱ = 2²⁵⁵ = 1.
        inverses[POWERS[i] as usize] = POWERS[(ORDER - i) % ORDER];
        i += 1;
    }
    inverses
};

/// The products of one element with the low and with the high nibbles.
#[repr(C, align(32))]
pub(crate) struct NibbleProducts {
    /// `low[n]` is the product with `n`.
    pub(crate) low: [u8; 16],
    /// `high[n]` is the product with `n << 4`.
    pub(crate) high: [u8; 16],
}

/// Of each element, its products with nibbles.
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code))]
pub(crate) static NIBBLES: [NibbleProducts; 256] = {
    let mut tables = [const { NibbleProducts { low: [0; 16], high: [0; 16] } }; 256];
    let mut factor = 0;
    while factor < 256 {
        let mut nibble = 0;
        while nibble < 16 {
            tables[factor].low[nibble] = multiply(factor as u8, nibble as u8);
            tables[factor].high[nibble] = multiply(factor as u8, (nibble as u8) << 4);
            nibble += 1;
        }
        factor += 1;
    }
    tables
};

/// Of each element, multiplication by it as the bit matrix that `gf2p8affineqb` takes: byte `7 − i`
/// of the word has in its bit `j` the bit `i` of the product with `1 << j`.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(crate) static MATRICES: [u64; 256] = {
    let mut matrices = [0; 256];
    let mut factor = 0;
    while factor < 256 {
        let mut j = 0;
        while j < 8 {
            let column = multiply(factor as u8, 1 << j);
            let mut i = 0;
            while i < 8 {
                let bit = (column >> i) as u64 & 1;
                matrices[factor] |= bit << (8 * (7 - i) + j);
                i += 1;
            }
            j += 1;
        }
        factor += 1;
    }
    matrices
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Parity on disk is defined by these: a wrong field rebuilds our own arrays and nobody else's.
    /// The values are those of the tables in Anvin's paper.
    #[test]
    fn powers_of_two_are_those_of_the_polynomial_0x11d() {
        let powers: Vec<u8> = (0..12).map(power_of_two).collect();
        assert_eq!(powers, [1, 2, 4, 8, 16, 32, 64, 128, 0x1d, 0x3a, 0x74, 0xe8]);
        assert_eq!(power_of_two(254), 0x8e);
        assert_eq!(power_of_two(255), 1);
    }

    /// Rebuilding divides by sums of coefficients; if a power came back early, two members would
    /// have the same coefficient and could not be told apart.
    #[test]
    fn the_255_powers_of_two_are_all_different() {
        let mut seen = [false; 256];
        for i in 0..ORDER {
            assert!(!std::mem::replace(&mut seen[usize::from(power_of_two(i))], true));
        }
        assert!(!seen[0]);
    }

    #[test]
    fn an_element_times_its_inverse_is_one() {
        for a in 1..=255 {
            assert_eq!(multiply(a, inverse(a)), 1, "inverse of {a}");
        }
    }

    /// The vector kernels only look up; the tables are where they could all be wrong alike.
    #[test]
    fn nibble_tables_and_bit_matrices_multiply() {
        for factor in 0..=255_u8 {
            let table = &NIBBLES[usize::from(factor)];
            let rows = MATRICES[usize::from(factor)].to_be_bytes();
            for byte in 0..=255_u8 {
                let product = multiply(factor, byte);
                let (low, high) = (usize::from(byte & 15), usize::from(byte >> 4));
                assert_eq!(table.low[low] ^ table.high[high], product);
                // to_be_bytes puts byte 7 − i of the word at place i: the row of the result's bit i.
                let by_matrix =
                    (0..8).fold(0, |sum, i| sum | ((rows[i] & byte).count_ones() as u8 & 1) << i);
                assert_eq!(by_matrix, product);
            }
        }
    }

    #[test]
    fn words_multiply_byte_by_byte() {
        let word = 0x0180_ff7f_1d00_a5c3_u64;
        for factor in 0..=255 {
            let expected = word.to_le_bytes().map(|byte| multiply(factor, byte));
            assert_eq!(multiply_word(factor, word).to_le_bytes(), expected);
        }
        assert_eq!(double_word(word), multiply_word(2, word));
    }
}
