//! CRC-32C (Castagnoli, reflected polynomial 0x82f63b78), the checksum of the partial parity log and of the journal.
//!
//! By eight tables of 256 words, which take eight bytes a step. A journal has every written block pass through it;
//! a processor instruction would be faster still, and would be unsafe code, which this crate has none of.

/// The reflected polynomial.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Bytes of a step.
const STEP: usize = 8;

/// Table `n` is what a byte does to the checksum when `n` more bytes follow it.
static TABLES: [[u32; 256]; STEP] = {
    let mut tables = [[0; 256]; STEP];
    let mut byte = 0;
    while byte < 256 {
        let mut rest = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            rest = if rest & 1 == 1 { rest >> 1 ^ POLYNOMIAL } else { rest >> 1 };
            bit += 1;
        }
        tables[0][byte] = rest;
        byte += 1;
    }
    let mut behind = 1;
    while behind < STEP {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[behind - 1][byte];
            tables[behind][byte] = tables[0][(before & 0xff) as usize] ^ before >> 8;
            byte += 1;
        }
        behind += 1;
    }
    tables
};

/// Goes on with a checksum that began with all ones and is not inverted yet.
pub(super) fn update(state: u32, bytes: &[u8]) -> u32 {
    let mut steps = bytes.chunks_exact(STEP);
    let mut state = state;
    for step in steps.by_ref() {
        let first = state.to_le_bytes();
        let byte = |n: usize| step[n] ^ first.get(n).copied().unwrap_or(0);
        state = (0..STEP).fold(0, |sum, n| sum ^ TABLES[STEP - 1 - n][usize::from(byte(n))]);
    }
    let one = |state: u32, byte: &u8| TABLES[0][usize::from(state as u8 ^ byte)] ^ state >> 8;
    steps.remainder().iter().fold(state, one)
}

/// The checksum of these bytes.
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    !update(!0, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value that the CRC catalogues give.
    #[test]
    fn the_catalogues_check_value_comes_out() {
        assert_eq!(checksum(b"123456789"), 0xe306_9283);
    }

    /// Whole steps and single bytes could disagree.
    #[test]
    fn however_bytes_are_cut_the_checksum_is_the_same() {
        let bytes: Vec<u8> = (0..100_u8).map(|n| n.wrapping_mul(37)).collect();
        let whole = update(!0, &bytes);
        for cut in 0..bytes.len() {
            assert_eq!(update(update(!0, &bytes[..cut]), &bytes[cut..]), whole, "cut at {cut}");
        }
    }
}
