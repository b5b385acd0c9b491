//! Leaves of fat ZAPs: entries in chunks of 24 bytes, found by a small hash table.
//!
//! ```text
//!   0    kind of block, unused, prefix of the hashes, magic number 0x2ab1eaf
//!   28   free chunks (2), entries (2), bits of the prefix (2), first free chunk (2), flags (1)
//!   48   hash table: block / 32 numbers of chunks (2 each), 0xffff for none
//!   …    chunks
//!
//!   entry (252):  bytes of a value's number, next entry, name's chunk and length, value's chunk and length,
//!                 collision differentiator, hash
//!   array (251):  21 bytes, next chunk
//!   free (253):   next free chunk
//! ```
//!
//! Numbers in arrays stand with the most significant byte first, whatever the block's order. A name's length counts
//! its zero; a key of numbers counts numbers of 8 bytes.
//!
//! Three forms of one leaf:
//!
//! * [`view`]: an entry is looked up in the block as it lies, by its bucket's chain; nothing is copied but what is found.
//! * [`change`]: an entry is put in, taken out or changed in the block, as OpenZFS does it, chunk by chunk.
//! * [`Leaf`], here: all entries as values. Reading follows the hash table's chains, since free chunks keep old bytes. A
//!   chunk that is reached twice is an error. Writing lays entries out anew, chains in the order of the
//!   differentiators, so that a leaf that is read and written says the same in other places.
//!
//! Source: OpenZFS, `zap_leaf.h`, `zap_leaf.c`.

pub mod change;
mod chunk;
pub mod view;

pub use chunk::{ARRAY_BYTES, CHUNK_BYTES, FLAG_SORTED, Key, LeafEntry, LeafValue, MAGIC};

use super::LEAF_WORD;
use super::fat::BLOCK_SHIFTS;
use crate::wire::{Endian, Writer};
use chunk::{ARRAY, CHAIN_END, ENTRY, FREE, HEADER_BYTES, NAME, Shape, has_prefix};
use stdx::bytes::{FormatError, Problem};
use view::LeafView;

/// A leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Bytes of the block, as a power of two.
    pub block_shift: u32,
    /// The first bits of all its hashes, as a number.
    pub prefix: u64,
    /// How many bits.
    pub prefix_bits: u16,
    /// See [`FLAG_SORTED`].
    pub flags: u8,
    /// The entries, chain by chain.
    pub entries: Vec<LeafEntry>,
}

impl Leaf {
    /// Whether a key of this hash would stand here.
    pub fn is_of(&self, hash: u64) -> bool {
        has_prefix(hash, self.prefix, self.prefix_bits)
    }

    /// Decodes a leaf of a ZAP with these [flags](super::flags).
    ///
    /// # Errors
    /// It is no leaf, or a chain in it leads astray.
    pub fn decode(block: &[u8], endian: Endian, zap_flags: u64) -> Result<Leaf, FormatError> {
        let view = LeafView::of(block, endian, zap_flags)?;
        let mut reached = vec![false; view.shape.chunks];
        let mut once = |chunk: u16| match reached.get_mut(usize::from(chunk)) {
            Some(reached) if *reached => Err(view.wrong(chunk, "chunk", Problem::Twice)),
            Some(reached) => {
                *reached = true;
                Ok(())
            }
            None => Err(view.wrong(chunk, "chunk", Problem::Value(chunk.into()))),
        };
        let mut entries = Vec::new();
        for bucket in 0..view.shape.buckets {
            let mut next = view.first(bucket)?;
            while next != CHAIN_END {
                let entry = view.entry(next)?;
                once(next)?;
                for array in [entry.name, entry.value] {
                    view.each_chunk(array, |chunk, _| once(chunk))?;
                }
                entries.push(view.owned(&entry)?);
                next = entry.next;
            }
        }
        if entries.len() != usize::from(view.entries) {
            return Err(view.from.wrong_at("entries", 30, Problem::Value(view.entries.into())));
        }
        let LeafView { prefix, prefix_bits, flags, .. } = view;
        Ok(Leaf { block_shift: view.shape.block_shift(), prefix, prefix_bits, flags, entries })
    }

    /// Its block, entries laid out anew.
    ///
    /// # Errors
    /// The entries don't fit, or a value's numbers don't fit their bytes.
    pub fn encode(&self, endian: Endian) -> Result<Vec<u8>, FormatError> {
        let wrong = |field, problem| FormatError { structure: NAME, field, offset: 0, problem };
        if !BLOCK_SHIFTS.contains(&self.block_shift) || self.prefix_bits > 64 {
            return Err(wrong("block", Problem::Value(self.block_shift.into())));
        }
        let shape = Shape::of(self.block_shift);
        // Each takes a chunk at the least, and a chunk's number has 16 bits.
        if self.entries.len() > shape.chunks {
            let (found, limit) = (self.entries.len() as u64, shape.chunks as u64);
            return Err(wrong("entries", Problem::Limit { found, limit }));
        }
        let mut chunks: Vec<Vec<u8>> = Vec::new();
        let mut chains: Vec<Vec<(u32, u16)>> = vec![Vec::new(); shape.buckets];
        // First the entries, so that the chains are known before they are written.
        for (place, entry) in self.entries.iter().enumerate() {
            let chain = &mut chains[shape.bucket(entry.hash, self.prefix_bits)];
            let at = chain.partition_point(|(other, _)| *other <= entry.differentiator);
            chain.insert(at, (entry.differentiator, place as u16));
        }
        let mut next_of = vec![CHAIN_END; self.entries.len()];
        for pair in chains.iter().flat_map(|chain| chain.windows(2)) {
            next_of[usize::from(pair[0].1)] = pair[1].1;
        }
        let mut arrays: Vec<Vec<u8>> = Vec::new();
        for (entry, next) in self.entries.iter().zip(next_of) {
            let (key, key_len) = match &entry.key {
                Key::Name(name) => ([name.as_slice(), &[0]].concat(), name.len() + 1),
                Key::Numbers(key) => (big_endian(key, 8), key.len()),
            };
            let LeafValue { number_bytes, numbers } = &entry.value;
            let fits = matches!(number_bytes, 1 | 2 | 4 | 8)
                && numbers.iter().all(|number| {
                    *number_bytes == 8 || number >> (u32::from(*number_bytes) * 8) == 0
                })
                && key_len.max(numbers.len()) <= usize::from(u16::MAX);
            if !fits {
                return Err(wrong("value", Problem::Value(numbers.len() as u64)));
            }
            let value = big_endian(numbers, (*number_bytes).into());
            let key_chunk = put_array(&key, self.entries.len(), &mut arrays, endian);
            let value_chunk = put_array(&value, self.entries.len(), &mut arrays, endian);
            if self.entries.len() + arrays.len() > shape.chunks {
                return Err(wrong("entries", Problem::Short));
            }
            let mut to = Writer::new(endian);
            to.bytes(&[ENTRY, *number_bytes]);
            for word in [next, key_chunk, key_len as u16, value_chunk, numbers.len() as u16] {
                to.put(word);
            }
            to.put(entry.differentiator);
            to.put(entry.hash);
            chunks.push(to.into_bytes());
        }
        chunks.append(&mut arrays);
        let limit = shape.chunks;
        let free = limit.checked_sub(chunks.len()).ok_or_else(|| {
            wrong("entries", Problem::Limit { found: chunks.len() as u64, limit: limit as u64 })
        })?;
        let used = chunks.len();
        let mut to = Writer::new(endian);
        to.put(LEAF_WORD);
        to.put(0u64);
        to.put(self.prefix);
        to.put(MAGIC);
        to.put(free as u16);
        to.put(self.entries.len() as u16);
        to.put(self.prefix_bits);
        to.put(if free == 0 { CHAIN_END } else { used as u16 });
        to.put(self.flags);
        to.zeros_to(HEADER_BYTES);
        for chain in &chains {
            to.put(chain.first().map_or(CHAIN_END, |(_, place)| *place));
        }
        chunks.iter().for_each(|chunk| to.bytes(chunk));
        for chunk in used..limit {
            let start = to.at();
            to.put(FREE);
            to.zeros_to(start + CHUNK_BYTES - 2);
            to.put(if chunk + 1 == limit { CHAIN_END } else { chunk as u16 + 1 });
        }
        to.zeros_to(1 << self.block_shift);
        Ok(to.into_bytes())
    }
}

fn big_endian(numbers: &[u64], unit: usize) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes().into_iter().skip(8 - unit)).collect()
}

/// Adds the chunks of an array, the first of which gets this number or follows what is there.
fn put_array(bytes: &[u8], before: usize, arrays: &mut Vec<Vec<u8>>, endian: Endian) -> u16 {
    if bytes.is_empty() {
        return CHAIN_END;
    }
    let first = before + arrays.len();
    let parts = bytes.chunks(ARRAY_BYTES);
    let many = parts.len();
    for (n, part) in parts.enumerate() {
        let mut to = Writer::new(endian);
        to.put(ARRAY);
        to.bytes(part);
        to.zeros_to(ARRAY_BYTES + 1);
        to.put(if n + 1 == many { CHAIN_END } else { (first + n + 1) as u16 });
        arrays.push(to.into_bytes());
    }
    first as u16
}

#[cfg(test)]
mod tests;
