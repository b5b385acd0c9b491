//! AES in counter mode with CBC-MAC (CCM), with IVs of 12 and codes of 16 bytes.
//!
//! The MAC is a chain over a first block (flags, IV, length of the text), the associated data behind its own length,
//! and the text, each filled up with zeros to whole blocks: each block is added to what the one before encrypted to.
//! The text is encrypted with the counter from 1 on, the chain's end with counter 0. With 12 bytes of IV there are 3
//! for length and counter.
//!
//! **Speed.** The chain is sequential, so a block takes at least the time from AES's beginning to its end. What can be
//! saved is all else: chain and counter run together inside one call of the block cipher's backend, so that keys
//! stay in registers, and the processor works on the counter's block while it waits for the chain's.
//!
//! **Source**: NIST SP 800-38C.

use super::mac::{IV_BYTES, Iv, MAC_BYTES, NotAuthentic, TooLong, same_code};
use aes::cipher::consts::U16;
use aes::cipher::{
    Block, BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser,
};

/// Bytes of the longest text: one less than 16 MiB, for its length is told in three bytes.
pub const CCM_BYTES_MAX: usize = (1 << 24) - 1;

const BLOCK_BYTES: usize = 16;
/// Three bytes for the length, as the flags say it: one less.
const LENGTH_FLAG: u8 = 2;
/// 16 bytes of code, as the flags say it: half of what is beyond 2.
const MAC_FLAG: u8 = 7 << 3;
const ASSOCIATED_FLAG: u8 = 1 << 6;
/// From this length on, the associated data's length takes six bytes.
const LONG_ASSOCIATED: usize = 0xff00;

/// Which way the text goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Seal,
    Open,
}

/// One text: what is added to the chain before it, the text itself, and the code that comes out.
struct Pass<'a> {
    way: Way,
    /// Each to be filled up with zeros.
    before: [&'a [u8]; 3],
    /// Flags and IV; the counter is added.
    counter: [u8; BLOCK_BYTES],
    text: &'a mut [u8],
    code: &'a mut [u8; MAC_BYTES],
}

impl BlockSizeUser for Pass<'_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for Pass<'_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        // Blocks as big-endian numbers, so that the counter is their end.
        let encrypt = |block: u128| {
            let mut state = Block::<B>::from(block.to_be_bytes());
            backend.encrypt_block_inplace(&mut state);
            u128::from_be_bytes(state.into())
        };
        let mut sum = 0;
        for piece in self.before {
            let (blocks, rest) = piece.as_chunks::<BLOCK_BYTES>();
            for block in blocks {
                sum = encrypt(sum ^ u128::from_be_bytes(*block));
            }
            if !rest.is_empty() {
                sum = encrypt(sum ^ padded(rest));
            }
        }
        let zero = u128::from_be_bytes(self.counter);
        let mut counter = zero;
        let (blocks, rest) = self.text.as_chunks_mut::<BLOCK_BYTES>();
        for block in blocks {
            counter += 1;
            let text = u128::from_be_bytes(*block);
            let other = text ^ encrypt(counter);
            *block = other.to_be_bytes();
            sum = encrypt(sum ^ if self.way == Way::Seal { text } else { other });
        }
        if !rest.is_empty() {
            let text = padded(rest);
            let other = (text ^ encrypt(counter + 1)).to_be_bytes();
            let len = rest.len();
            rest.copy_from_slice(&other[..len]);
            sum = encrypt(sum ^ if self.way == Way::Seal { text } else { padded(rest) });
        }
        *self.code = (sum ^ encrypt(zero)).to_be_bytes();
    }
}

fn padded(bytes: &[u8]) -> u128 {
    let mut block = [0; BLOCK_BYTES];
    block[..bytes.len()].copy_from_slice(bytes);
    u128::from_be_bytes(block)
}

/// The text the one way or the other, in place, and its code; nothing where it or the associated data is too long.
fn pass<C>(
    way: Way,
    cipher: &C,
    iv: &Iv,
    associated: &[u8],
    text: &mut [u8],
) -> Option<[u8; MAC_BYTES]>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>,
{
    let long = u32::try_from(associated.len()).ok()?;
    if text.len() > CCM_BYTES_MAX {
        return None;
    }
    let mut first = [0; BLOCK_BYTES];
    first[0] = LENGTH_FLAG | MAC_FLAG | if associated.is_empty() { 0 } else { ASSOCIATED_FLAG };
    first[1..=IV_BYTES].copy_from_slice(iv);
    first[13..].copy_from_slice(&(text.len() as u32).to_be_bytes()[1..]);
    // The length shares a block with the associated data's front.
    let [a, b, c, d] = long.to_be_bytes();
    let (length, length_bytes) = match associated.len() {
        0 => ([0; 6], 0),
        1..LONG_ASSOCIATED => ([c, d, 0, 0, 0, 0], 2),
        _ => ([0xff, 0xfe, a, b, c, d], 6),
    };
    let (front, rest) = associated.split_at(associated.len().min(BLOCK_BYTES - length_bytes));
    let mut second = [0; BLOCK_BYTES];
    second[..length_bytes].copy_from_slice(&length[..length_bytes]);
    second[length_bytes..length_bytes + front.len()].copy_from_slice(front);
    let second = if associated.is_empty() { &[][..] } else { &second };

    let mut counter = [0; BLOCK_BYTES];
    counter[0] = LENGTH_FLAG;
    counter[1..=IV_BYTES].copy_from_slice(iv);
    let mut code = [0; MAC_BYTES];
    let before = [&first[..], second, rest];
    cipher.encrypt_with_backend(Pass { way, before, counter, text, code: &mut code });
    Some(code)
}

pub(super) fn seal<C>(
    cipher: &C,
    iv: &Iv,
    associated: &[u8],
    text: &mut [u8],
) -> Result<[u8; MAC_BYTES], TooLong>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>,
{
    pass(Way::Seal, cipher, iv, associated, text).ok_or(TooLong(text.len()))
}

pub(super) fn open<C>(
    cipher: &C,
    iv: &Iv,
    associated: &[u8],
    text: &mut [u8],
    mac: &[u8; MAC_BYTES],
) -> Result<(), NotAuthentic>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>,
{
    let code = pass(Way::Open, cipher, iv, associated, text).ok_or(NotAuthentic)?;
    if same_code(mac, &code) { Ok(()) } else { Err(NotAuthentic) }
}
