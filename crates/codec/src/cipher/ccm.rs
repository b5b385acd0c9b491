//! AES in counter mode with CBC-MAC (CCM), with IVs of 12 and codes of 16 bytes.
//!
//! The MAC is a chain over a first block (flags, IV, length of the text), the associated data behind its own length,
//! and the text, each filled up with zeros to whole blocks: each block is added to what the one before encrypted to.
//! The text is encrypted with the counter from 1 on, the chain's end with counter 0. With 12 bytes of IV there are 3
//! for length and counter.
//!
//! **Speed.** The chain is sequential, so the time a block takes is the time AES takes. What can be saved is all else:
//! the whole chain runs inside one call of the block cipher's backend, so that the keys stay in registers.
//!
//! **Source**: NIST SP 800-38C.

use super::{IV_BYTES, Iv, MAC_BYTES, NotAuthentic, TooLong, same_code};
use aes::cipher::consts::U16;
use aes::cipher::{
    Block, BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser,
    InnerIvInit, StreamCipher,
};
use ctr::{Ctr32BE, CtrCore};

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

/// The pieces that go into the chain, each to be filled up with zeros.
struct Chain<'a> {
    pieces: [&'a [u8]; 4],
    sum: &'a mut [u8; BLOCK_BYTES],
}

impl BlockSizeUser for Chain<'_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for Chain<'_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let mut sum = u128::from_ne_bytes(*self.sum);
        let mut add = |block: [u8; BLOCK_BYTES]| {
            let mut state = Block::<B>::from((sum ^ u128::from_ne_bytes(block)).to_ne_bytes());
            backend.encrypt_block_inplace(&mut state);
            sum = u128::from_ne_bytes(state.into());
        };
        for piece in self.pieces {
            let (blocks, rest) = piece.as_chunks::<BLOCK_BYTES>();
            blocks.iter().for_each(|block| add(*block));
            if !rest.is_empty() {
                let mut last = [0; BLOCK_BYTES];
                last[..rest.len()].copy_from_slice(rest);
                add(last);
            }
        }
        *self.sum = sum.to_ne_bytes();
    }
}

fn chain<C>(cipher: &C, iv: &Iv, associated: &[u8], text: &[u8]) -> [u8; BLOCK_BYTES]
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>,
{
    let mut first = [0; BLOCK_BYTES];
    first[0] = LENGTH_FLAG | MAC_FLAG | if associated.is_empty() { 0 } else { ASSOCIATED_FLAG };
    first[1..=IV_BYTES].copy_from_slice(iv);
    first[13..].copy_from_slice(&(text.len() as u32).to_be_bytes()[1..]);
    // The length shares the first block with the associated data's front.
    let len = associated.len();
    let (length, length_bytes) = match len {
        0 => ([0; 6], 0),
        1..LONG_ASSOCIATED => {
            let [a, b] = (len as u16).to_be_bytes();
            ([a, b, 0, 0, 0, 0], 2)
        }
        _ => {
            let [a, b, c, d] = (len as u32).to_be_bytes();
            ([0xff, 0xfe, a, b, c, d], 6)
        }
    };
    let mut second = [0; BLOCK_BYTES];
    second[..length_bytes].copy_from_slice(&length[..length_bytes]);
    let (front, rest) = associated.split_at(len.min(BLOCK_BYTES - length_bytes));
    second[length_bytes..length_bytes + front.len()].copy_from_slice(front);
    let second = if len == 0 { &[][..] } else { &second };
    let mut sum = [0; BLOCK_BYTES];
    cipher.encrypt_with_backend(Chain { pieces: [&first, second, rest, text], sum: &mut sum });
    sum
}

/// The key stream, from counter 0 on.
fn stream<'a, C>(cipher: &'a C, iv: &Iv) -> Ctr32BE<&'a C>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>,
{
    let mut counter = [0; BLOCK_BYTES];
    counter[0] = LENGTH_FLAG;
    counter[1..=IV_BYTES].copy_from_slice(iv);
    // The counter has 24 bits; a text that is not too long never carries into the IV.
    Ctr32BE::from_core(CtrCore::inner_iv_init(cipher, &counter.into()))
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
    if text.len() > CCM_BYTES_MAX || u32::try_from(associated.len()).is_err() {
        return Err(TooLong(text.len()));
    }
    let mut mac = chain(cipher, iv, associated, text);
    let mut stream = stream(cipher, iv);
    stream.apply_keystream(&mut mac);
    stream.apply_keystream(text);
    Ok(mac)
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
    if text.len() > CCM_BYTES_MAX || u32::try_from(associated.len()).is_err() {
        return Err(NotAuthentic);
    }
    let mut mac = *mac;
    let mut stream = stream(cipher, iv);
    stream.apply_keystream(&mut mac);
    stream.apply_keystream(text);
    if same_code(&mac, &chain(cipher, iv, associated, text)) { Ok(()) } else { Err(NotAuthentic) }
}
