//! CRC-32C (Castagnoli, reflected polynomial 0x82f63b78), the checksum of the partial parity log.
//!
//! By a table of 256 words: a header is 4 KiB and is checked once an assembly, so no processor
//! instruction is asked for.

/// The reflected polynomial.
const POLYNOMIAL: u32 = 0x82f6_3b78;

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut rest = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            rest = if rest & 1 == 1 { rest >> 1 ^ POLYNOMIAL } else { rest >> 1 };
            bit += 1;
        }
        table[byte] = rest;
        byte += 1;
    }
    table
};

/// Goes on with a checksum that began with all ones and is not inverted yet.
pub(super) fn update(state: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(state, |state, byte| TABLE[usize::from(state as u8 ^ byte)] ^ state >> 8)
}

/// The checksum of these bytes.
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    !update(!0, bytes)
}

#[cfg(test)]
mod tests {
    /// The check value that the CRC catalogues give.
    #[test]
    fn the_catalogues_check_value_comes_out() {
        assert_eq!(super::checksum(b"123456789"), 0xe306_9283);
    }
}
