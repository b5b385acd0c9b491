//! Skein-512 with 256 bits of output and a key, as ZFS uses it.
//!
//! A chain of Threefish-512 blocks: each block of 64 bytes is encrypted under the chaining value and a *tweak* (how
//! many bytes came so far, what kind of stage it is, whether the block is the stage's first or last), and what comes
//! out, exclusive-or the block, is the next chaining value. The stages in order: the key, the configuration (which
//! says that 256 bits are wanted), the message, the output. The last block of a stage is filled up with zeros; its
//! tweak counts only the bytes that were there.
//!
//! Cipher and chain are here because the library that has them knows no key, and its cipher, a loop over tables, takes
//! twice as long; tests hold ours to it.
//!
//! **Source**: The Skein Hash Function Family, version 1.3, sections 3.3 to 3.5.

use super::sum::Sum;

/// Of the chaining value and of a block.
const BLOCK_BYTES: usize = 64;
/// "SHA3" and the version, 1: the first word of every configuration.
const SCHEMA: u64 = 0x1_3341_4853;
/// Bytes of the configuration.
const CONFIGURATION_BYTES: usize = 32;
/// In the tweak's second word.
const FIRST: u64 = 1 << 62;
const FINAL: u64 = 1 << 63;

/// What a stage takes in: its number stands in the tweak.
#[derive(Clone, Copy)]
enum Stage {
    Key = 0,
    Configuration = 4,
    Message = 48,
    Output = 63,
}

/// The chaining value.
#[derive(Clone)]
struct Chain([u64; 8]);

impl Chain {
    /// Of so many bits of output, with a key or without.
    fn new(key: Option<&[u8]>, output_bits: u64) -> Chain {
        let mut chain = Chain([0; 8]);
        if let Some(key) = key {
            chain.take(Stage::Key, key);
        }
        let mut configuration = [0; CONFIGURATION_BYTES];
        configuration[..8].copy_from_slice(&SCHEMA.to_le_bytes());
        configuration[8..16].copy_from_slice(&output_bits.to_le_bytes());
        chain.take(Stage::Configuration, &configuration);
        chain
    }

    /// A whole stage.
    fn take(&mut self, stage: Stage, bytes: &[u8]) {
        let kind = (stage as u64) << 56;
        let whole = bytes.len().saturating_sub(1) / BLOCK_BYTES;
        let (before, last) = bytes.split_at(whole * BLOCK_BYTES);
        let mut flags = FIRST;
        let mut position = 0;
        for block in before.as_chunks::<BLOCK_BYTES>().0 {
            position += BLOCK_BYTES as u64;
            self.mix(block, [position, kind | flags]);
            flags = 0;
        }
        let mut padded = [0; BLOCK_BYTES];
        padded[..last.len()].copy_from_slice(last);
        self.mix(&padded, [bytes.len() as u64, kind | flags | FINAL]);
    }

    fn mix(&mut self, block: &[u8; BLOCK_BYTES], tweak: [u64; 2]) {
        let plain: [u64; 8] =
            std::array::from_fn(|word| u64::from_le_bytes(block.as_chunks::<8>().0[word]));
        let words = threefish(&self.0, tweak, plain);
        self.0 = std::array::from_fn(|word| words[word] ^ plain[word]);
    }

    /// The first block of the output.
    fn finish(mut self) -> [u64; 8] {
        self.take(Stage::Output, &0_u64.to_le_bytes());
        self.0
    }
}

/// What the key's words are completed with, by exclusive or, to a ninth.
const PARITY: u64 = 0x1bd1_1bda_a9fc_1a22;
/// Turns of four rounds; before each, and after the last, a part of the key is added.
const TURNS: usize = 18;

/// Four mixes: a round. Which words are mixed goes round in fours, so that no word has to be moved.
macro_rules! round {
    ($x:ident, $($a:literal $b:literal by $rotation:literal),*) => {
        $(
            $x[$a] = $x[$a].wrapping_add($x[$b]);
            $x[$b] = $x[$b].rotate_left($rotation) ^ $x[$a];
        )*
    };
}

/// A block under Threefish-512.
fn threefish(key: &[u64; 8], tweak: [u64; 2], block: [u64; 8]) -> [u64; 8] {
    // Nine words of key and three of tweak, each once more for as long as there are turns, so that no turn has to
    // divide to find its own.
    let ninth = key.iter().fold(PARITY, |all, word| all ^ word);
    let key: [u64; TURNS + 8] = std::array::from_fn(|at| key.get(at % 9).copied().unwrap_or(ninth));
    let tweak: [u64; TURNS + 2] = std::array::from_fn(|at| match at % 3 {
        0 => tweak[0],
        1 => tweak[1],
        _ => tweak[0] ^ tweak[1],
    });
    let add = |x: &mut [u64; 8], turn: usize| {
        for (word, key) in x.iter_mut().zip(&key[turn..turn + 8]) {
            *word = word.wrapping_add(*key);
        }
        x[5] = x[5].wrapping_add(tweak[turn]);
        x[6] = x[6].wrapping_add(tweak[turn + 1]);
        x[7] = x[7].wrapping_add(turn as u64);
    };
    let mut x = block;
    for turn in (0..TURNS).step_by(2) {
        add(&mut x, turn);
        round!(x, 0 1 by 46, 2 3 by 36, 4 5 by 19, 6 7 by 37);
        round!(x, 2 1 by 33, 4 7 by 27, 6 5 by 14, 0 3 by 42);
        round!(x, 4 1 by 17, 6 3 by 49, 0 5 by 36, 2 7 by 39);
        round!(x, 6 1 by 44, 0 7 by 9, 2 5 by 54, 4 3 by 56);
        add(&mut x, turn + 1);
        round!(x, 0 1 by 39, 2 3 by 30, 4 5 by 34, 6 7 by 24);
        round!(x, 2 1 by 13, 4 7 by 50, 6 5 by 10, 0 3 by 17);
        round!(x, 4 1 by 25, 6 3 by 29, 0 5 by 39, 2 7 by 43);
        round!(x, 6 1 by 8, 0 7 by 35, 2 5 by 56, 4 3 by 22);
    }
    add(&mut x, TURNS);
    x
}

/// Skein-512-256 with a key: the pool's salt.
pub fn skein(salt: &[u8; 32], bytes: &[u8]) -> Sum {
    let mut chain = Chain::new(Some(salt), 256);
    chain.take(Stage::Message, bytes);
    let [a, b, c, d, ..] = chain.finish();
    Sum([a, b, c, d])
}

#[cfg(test)]
mod tests {
    //! What could break: the order of the stages, the tweak of a last block that is full or not.

    use super::*;
    use ::threefish::Threefish512;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_cipher_is_what_another_makes_of_it(
            key in any::<[u64; 8]>(),
            tweak in any::<[u64; 2]>(),
            block in any::<[u64; 8]>(),
        ) {
            let mut theirs = block;
            Threefish512::new_with_tweak_u64(&key, &tweak).encrypt_block_u64(&mut theirs);
            prop_assert_eq!(threefish(&key, tweak, block), theirs);
        }
    }

    /// The first words, big-endian, of Skein-512-512 without a key.
    fn unkeyed(bytes: &[u8]) -> (u64, u64) {
        let mut chain = Chain::new(None, 512);
        chain.take(Stage::Message, bytes);
        let words = chain.finish();
        (words[0].swap_bytes(), words[7].swap_bytes())
    }

    #[test]
    fn the_chain_gives_the_vectors_of_appendix_c() {
        let down: Vec<u8> = (0x80..=0xff).rev().collect();
        assert_eq!(unkeyed(&down[..1]), (0x71b7_bce6_fe64_5222, 0x2a57_9102_f340_617a));
        assert_eq!(unkeyed(&down[..64]), (0x4586_3ba3_be0c_4dfc, 0xae05_0e98_9876_625b));
        assert_eq!(unkeyed(&down), (0x91cc_a510_c263_c4dd, 0x71f4_8e8b_a2a5_adb7));
    }
}
