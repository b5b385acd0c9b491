//! Small changes to bytes, as an input asks for them.
//!
//! A target that flips bytes of a whole disk finds nothing: one byte in thousands means something. Here the input says
//! what to do: which of the places, and what to put there. libFuzzer learns which of them lead to new code.

use crate::machine::Input;

/// What a change is described by, in bytes of input.
pub const CHANGE_BYTES: usize = 11;

/// Numbers where lengths, counts and shifts go wrong.
const EDGES: [u64; 12] = [
    0,
    1,
    0x7f,
    0xff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 32,
    1 << 47,
    1 << 63,
    (1 << 63) - 1,
    u64::MAX,
];

/// A change of a block.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    kind: u8,
    at: u16,
    value: u64,
}

impl Change {
    /// The next of an input.
    pub fn of(input: &mut Input<'_>) -> Change {
        Change { kind: input.byte(), at: input.number::<2>() as u16, value: input.number::<8>() }
    }

    /// Its bytes of input.
    pub fn bytes(kind: u8, at: u16, value: u64) -> [u8; CHANGE_BYTES] {
        let mut bytes = [0; CHANGE_BYTES];
        bytes[0] = kind;
        bytes[1..3].copy_from_slice(&at.to_le_bytes());
        bytes[3..].copy_from_slice(&value.to_le_bytes());
        bytes
    }

    /// Changes a block.
    pub fn apply(self, block: &mut [u8]) {
        let len = block.len();
        if len == 0 {
            return;
        }
        let at = usize::from(self.at) % len;
        let word = at / 8 * 8..len.min(at / 8 * 8 + 8);
        let value = self.value.to_le_bytes();
        match self.kind % 8 {
            0 => block[at] = value[0],
            1 => block[at] ^= value[0],
            2 => {
                let width = word.len();
                block[word].copy_from_slice(&value[..width]);
            }
            3 => {
                let edge = EDGES[self.value as usize % EDGES.len()].to_le_bytes();
                let width = word.len();
                block[word].copy_from_slice(&edge[..width]);
            }
            4 => {
                for byte in &mut block[word] {
                    *byte = byte.wrapping_add(value[0]);
                }
            }
            5 => {
                // Pointers, entries and records of one place at another.
                let (from, count) = ((self.value as u32) as usize % len, value[4]);
                let count = usize::from(count).min(len - at).min(len - from);
                block.copy_within(from..from + count, at);
            }
            6 => {
                let to = len.min(at + 1 + (self.value as u16) as usize);
                block[at..to].fill(value[7]);
            }
            _ => {
                let half = at / 2 * 2;
                let to = len.min(half + 2);
                block[half..to].copy_from_slice(&value[..to - half]);
            }
        }
    }
}
