//! The sum with which superblocks are checked: no CRC, so two words that change places go unseen.

/// The sum with which superblocks are checked: 32-bit little-endian words (a last half word counts as a
/// word) added in 64 bits, the halves added again.
pub(super) fn word_sum(bytes: &[u8]) -> u32 {
    let mut words = bytes.chunks_exact(4);
    let mut sum: u64 = words
        .by_ref()
        .filter_map(|word| word.first_chunk::<4>())
        .map(|word| u64::from(u32::from_le_bytes(*word)))
        .sum();
    if let Some(half) = words.remainder().first_chunk::<2>() {
        sum += u64::from(u16::from_le_bytes(*half));
    }
    (sum as u32).wrapping_add((sum >> 32) as u32)
}
