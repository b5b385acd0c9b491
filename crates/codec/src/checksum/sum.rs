//! A checksum, whatever function it is of: four words, and how a digest's bytes become words.

/// A checksum: four words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sum(pub [u64; 4]);

impl Sum {
    /// The words of a digest, read little-endian.
    pub fn of_le_bytes(bytes: &[u8; 32]) -> Sum {
        Sum(std::array::from_fn(|word| u64::from_le_bytes(cut(bytes, word))))
    }

    /// The words of a digest, read big-endian.
    pub fn of_be_bytes(bytes: &[u8; 32]) -> Sum {
        Sum(std::array::from_fn(|word| u64::from_be_bytes(cut(bytes, word))))
    }

    /// With the bytes of each word in the other order.
    #[must_use]
    pub fn swapped(self) -> Sum {
        Sum(self.0.map(u64::swap_bytes))
    }
}

fn cut(bytes: &[u8; 32], word: usize) -> [u8; 8] {
    std::array::from_fn(|byte| bytes[8 * word + byte])
}
