//! Edon-R with 512 bits, of which ZFS keeps the first 256, behind a block made of the pool's salt.
//!
//! The state is a *double pipe* of 16 words. A block of 16 words is mixed with it by eight quasigroup
//! operations on vectors of 8 words, in four rows of two: each operation adds five of eight words and rotates the sum,
//! for the left and for the right operand ([`left`] and [`right`]), and joins three of each by exclusive or
//! ([`join`]). What the last row gives, exclusive-or the block with its halves changed over, is mixed into the
//! state: that is the tweak that its authors added after the first round of SHA-3. The end is padded as SHA-2's is, but
//! the length is little-endian.
//!
//! **The salt.** The block in front of the message is H(salt) and H(H(salt)), 64 bytes each.
//!
//! Edon-R was never a standard; it is here because pools have it.
//!
//! **Source**: Gligoroski and others, Cryptographic Hash Function Edon-R (submission to NIST, 2008, and its tweak of
//! 2009); what ZFS does with the salt as in OpenZFS.

use super::sum::Sum;

const BLOCK_BYTES: usize = 128;
const DIGEST_BYTES: usize = 64;

/// Eight words: an operand.
type Half = [u64; 8];

/// Added to the first sum of the left operand; its complement to the right's.
const CONSTANT: u64 = 0xaaaa_aaaa_aaaa_aaaa;

/// Sums of five words each, rotated. As a macro and not as a loop over a table, so that every index is a constant
/// where it is used: that is four times as fast.
macro_rules! sums {
    ($of:ident, $constant:expr, $first:tt $(, $next:tt)*) => {
        [sums!(@sum $of, $first).wrapping_add($constant) $(, sums!(@sum $of, $next))*]
    };
    (@sum $of:ident, ($a:literal $b:literal $c:literal $d:literal $e:literal, $rotation:literal)) => {
        $of[$a]
            .wrapping_add($of[$b])
            .wrapping_add($of[$c])
            .wrapping_add($of[$d])
            .wrapping_add($of[$e])
            .rotate_left($rotation)
    };
}

/// The sums of the left operand. The first, which has the constant, is not rotated.
#[inline(always)]
fn left(x: &Half) -> Half {
    sums!(
        x,
        CONSTANT,
        (0 1 2 4 7, 0),
        (0 1 3 4 7, 5),
        (0 1 4 6 7, 15),
        (2 3 5 6 7, 22),
        (1 2 3 5 6, 31),
        (0 2 3 4 5, 40),
        (0 1 5 6 7, 50),
        (2 3 4 5 6, 59)
    )
}

/// The sums of the right operand.
#[inline(always)]
fn right(y: &Half) -> Half {
    sums!(
        y,
        !CONSTANT,
        (0 1 2 5 7, 0),
        (0 1 3 4 6, 10),
        (0 1 2 3 5, 19),
        (2 3 4 6 7, 29),
        (0 1 3 4 5, 36),
        (2 4 5 6 7, 44),
        (1 2 5 6 7, 48),
        (0 3 4 6 7, 55)
    )
}

/// The quasigroup's operation: three of the left sums and three of the right.
#[inline(always)]
fn join(x: &Half, y: &Half) -> Half {
    let (l, r) = (left(x), right(y));
    macro_rules! word {
        ($a:literal $b:literal $c:literal, $d:literal $e:literal $f:literal) => {
            (l[$a] ^ l[$b] ^ l[$c]).wrapping_add(r[$d] ^ r[$e] ^ r[$f])
        };
    }
    [
        word!(0 1 4, 0 1 5),
        word!(0 4 7, 2 6 7),
        word!(1 6 7, 0 1 3),
        word!(2 3 4, 0 3 4),
        word!(0 1 7, 1 2 5),
        word!(3 5 6, 3 4 6),
        word!(2 5 6, 2 5 7),
        word!(2 3 5, 4 6 7),
    ]
}

#[inline(always)]
fn reversed(half: &Half) -> Half {
    std::array::from_fn(|word| half[7 - word])
}

/// The double pipe.
#[derive(Clone)]
struct Pipe([Half; 2]);

impl Pipe {
    fn new() -> Pipe {
        // Bytes that count up from 0x80, read big-endian.
        let word =
            |at: usize| u64::from_be_bytes(std::array::from_fn(|b| 0x80 + (8 * at + b) as u8));
        Pipe([std::array::from_fn(word), std::array::from_fn(|at| word(8 + at))])
    }

    fn mix(&mut self, block: &[u8; BLOCK_BYTES]) {
        let (words, _) = block.as_chunks::<8>();
        let first: Half = std::array::from_fn(|at| u64::from_le_bytes(words[at]));
        let second: Half = std::array::from_fn(|at| u64::from_le_bytes(words[8 + at]));
        let p = join(&reversed(&second), &first);
        let q = join(&p, &second);
        let p = join(&self.0[1], &p);
        let q = join(&p, &q);
        let p = join(&p, &self.0[0]);
        let q = join(&q, &p);
        let p = join(&reversed(&first), &p);
        let q = join(&p, &q);
        for at in 0..8 {
            self.0[0][at] ^= second[at] ^ p[at];
            self.0[1][at] ^= first[at] ^ q[at];
        }
    }

    /// Whole blocks; what is left of the bytes.
    fn take<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
        for block in blocks {
            self.mix(block);
        }
        rest
    }

    /// The digest, where `before` bytes were taken before these.
    fn finish(mut self, before: usize, bytes: &[u8]) -> [u8; DIGEST_BYTES] {
        let rest = self.take(bytes);
        let mut padded = [0; 2 * BLOCK_BYTES];
        padded[..rest.len()].copy_from_slice(rest);
        padded[rest.len()] = 0x80;
        // The length must fit behind the mark.
        let end = if rest.len() < BLOCK_BYTES - 8 { BLOCK_BYTES } else { 2 * BLOCK_BYTES };
        let bits = (before as u64 + bytes.len() as u64) * 8;
        padded[end - 8..end].copy_from_slice(&bits.to_le_bytes());
        self.take(&padded[..end]);
        let mut digest = [0; DIGEST_BYTES];
        for (bytes, word) in digest.as_chunks_mut::<8>().0.iter_mut().zip(self.0[1]) {
            *bytes = word.to_le_bytes();
        }
        digest
    }
}

/// The first 256 bits of Edon-R-512, behind a block made of the pool's salt.
pub fn edonr(salt: &[u8; 32], bytes: &[u8]) -> Sum {
    let first = Pipe::new().finish(0, salt);
    let second = Pipe::new().finish(0, &first);
    let mut block = [0; BLOCK_BYTES];
    block[..DIGEST_BYTES].copy_from_slice(&first);
    block[DIGEST_BYTES..].copy_from_slice(&second);
    let mut pipe = Pipe::new();
    pipe.mix(&block);
    let digest = pipe.finish(BLOCK_BYTES, bytes);
    Sum(std::array::from_fn(|word| u64::from_le_bytes(digest.as_chunks::<8>().0[word])))
}

#[cfg(test)]
mod tests {
    //! What could break: a wrong number in a table, the padding at the end.

    use super::*;

    /// The first and the last word of a digest, big-endian.
    fn unsalted(bytes: &[u8]) -> (u64, u64) {
        let digest = Pipe::new().finish(0, bytes);
        let (words, _) = digest.as_chunks::<8>();
        (u64::from_be_bytes(words[0]), u64::from_be_bytes(words[7]))
    }

    #[test]
    fn the_pipe_gives_the_vectors_of_the_submission() {
        assert_eq!(unsalted(b"abc"), (0x1b14_db15_5f1d_4065, 0xadc9_0c62_8372_c22b));
        let two_blocks = "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmno\
                          ijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu";
        assert_eq!(unsalted(two_blocks.as_bytes()), (0x5351_070d_c51c_3b2b, 0xb843_6cb4_6921_583c));
    }
}
