//! A leaf as it lies in its block: one entry is found without decoding the others.
//!
//! A lookup goes to the bucket of the hash and down its chain, comparing hashes first and then the key's bytes, chunk by
//! chunk. Of the block only those chunks are looked at, so a leaf that is damaged elsewhere still gives what is whole;
//! where [`Leaf::decode`](super::Leaf::decode) finds no fault, both say the same.
//!
//! A chain of entries has at most as many steps as there are chunks, and an array as many as its length needs; so no bytes
//! make a lookup go round for ever.

use super::chunk::{
    ARRAY, ARRAY_BYTES, CHAIN_END, ENTRY, HEADER_BYTES, Key, LeafEntry, LeafValue, MAGIC, NAME,
    Shape, has_prefix, numbers,
};
use crate::wire::{Endian, Reader};
use crate::zap::{LEAF_WORD, flags};
use stdx::bytes::{FormatError, Problem};

/// A leaf in its block. See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct LeafView<'a> {
    pub(super) from: Reader<'a>,
    pub(super) shape: Shape,
    pub(super) number_keys: bool,
    /// The first bits of all its hashes, as a number.
    pub prefix: u64,
    /// How many bits.
    pub prefix_bits: u16,
    /// See [`FLAG_SORTED`](super::FLAG_SORTED).
    pub flags: u8,
    /// Chunks that are free, as the header says.
    pub free: u16,
    /// Entries, as the header says.
    pub entries: u16,
    pub(super) first_free: u16,
}

/// Bytes in a chain of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Array {
    pub(super) first: u16,
    pub(super) len: usize,
}

/// What an entry's own chunk says.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryChunk {
    pub(super) number_bytes: u8,
    pub(super) next: u16,
    pub(super) name: Array,
    pub(super) value: Array,
    pub(super) differentiator: u32,
    pub(super) hash: u64,
}

/// What an entry is looked up by: see [`Key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRef<'a> {
    /// A name, without its zero.
    Name(&'a [u8]),
    /// Numbers.
    Numbers(&'a [u64]),
}

impl Key {
    /// The same, borrowed.
    pub fn as_ref(&self) -> KeyRef<'_> {
        match self {
            Key::Name(name) => KeyRef::Name(name),
            Key::Numbers(key) => KeyRef::Numbers(key),
        }
    }
}

impl KeyRef<'_> {
    /// Bytes that it has in a leaf.
    pub(super) fn stored_len(self) -> usize {
        match self {
            KeyRef::Name(name) => name.len() + 1,
            KeyRef::Numbers(key) => key.len() * 8,
        }
    }

    /// What an entry's chunk counts of it: a name's bytes with the zero, or numbers.
    pub(super) fn count(self) -> usize {
        match self {
            KeyRef::Name(name) => name.len() + 1,
            KeyRef::Numbers(key) => key.len(),
        }
    }

    /// The byte of it that stands at a place in a leaf.
    pub(super) fn byte(self, at: usize) -> u8 {
        match self {
            KeyRef::Name(name) => name.get(at).copied().unwrap_or(0),
            KeyRef::Numbers(key) => key.get(at / 8).map_or(0, |n| n.to_be_bytes()[at % 8]),
        }
    }

    /// Whether this part of what is stored is its part from `at` on.
    fn has(self, at: usize, part: &[u8]) -> bool {
        match self {
            KeyRef::Name(name) if at + part.len() <= name.len() => {
                name[at..at + part.len()] == *part
            }
            _ => part.iter().zip(at..).all(|(byte, at)| *byte == self.byte(at)),
        }
    }
}

/// The value of an entry that was found, in its block.
#[derive(Clone, Copy, Debug)]
pub struct ValueView<'a> {
    leaf: LeafView<'a>,
    number_bytes: u8,
    array: Array,
}

impl ValueView<'_> {
    /// Bytes of a number: 1, 2, 4 or 8.
    pub fn number_bytes(&self) -> u8 {
        self.number_bytes
    }

    /// How many numbers it has.
    pub fn len(&self) -> usize {
        self.array.len / usize::from(self.number_bytes)
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.array.len == 0
    }

    /// The only number, if there is just one.
    ///
    /// # Errors
    /// Its chunks lead astray.
    pub fn number(&self) -> Result<Option<u64>, FormatError> {
        if self.len() != 1 {
            return Ok(None);
        }
        // A number of 8 bytes lies within one chunk.
        let part = self.leaf.chunk(self.array.first, ARRAY)?.take("array", ARRAY_BYTES)?;
        let number = part[..self.array.len].iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
        Ok(Some(number))
    }

    /// The value for itself.
    ///
    /// # Errors
    /// Its chunks lead astray.
    pub fn to_value(&self) -> Result<LeafValue, FormatError> {
        let bytes = self.leaf.bytes(self.array)?;
        let number_bytes = self.number_bytes;
        Ok(LeafValue { number_bytes, numbers: numbers(&bytes, number_bytes.into()) })
    }
}

impl<'a> LeafView<'a> {
    /// The leaf in this block, of a ZAP with these [flags].
    ///
    /// # Errors
    /// It is no leaf.
    #[inline]
    pub fn of(
        block: &'a [u8],
        endian: Endian,
        zap_flags: u64,
    ) -> Result<LeafView<'a>, FormatError> {
        let from = Reader::new(NAME, block, endian);
        let Some(shape) = Shape::of_block(block) else {
            return Err(from.wrong("block", Problem::Value(block.len() as u64)));
        };
        let kind: u64 = from.get_at("kind of block", 0)?;
        if kind != LEAF_WORD {
            return Err(from.wrong_at("kind of block", 0, Problem::Magic(kind)));
        }
        let magic: u32 = from.get_at("magic number", 24)?;
        if magic != MAGIC {
            return Err(from.wrong_at("magic number", 24, Problem::Magic(magic.into())));
        }
        let prefix_bits: u16 = from.get_at("prefix length", 32)?;
        if prefix_bits > 64 {
            return Err(from.wrong_at("prefix length", 32, Problem::Value(prefix_bits.into())));
        }
        Ok(LeafView {
            from,
            shape,
            number_keys: zap_flags & flags::UINT64_KEY != 0,
            prefix: from.get_at("prefix", 16)?,
            prefix_bits,
            flags: from.get_at("flags", 36)?,
            free: from.get_at("free chunks", 28)?,
            entries: from.get_at("entries", 30)?,
            first_free: from.get_at("first free chunk", 34)?,
        })
    }

    /// Whether a key of this hash would stand here.
    pub fn is_of(&self, hash: u64) -> bool {
        has_prefix(hash, self.prefix, self.prefix_bits)
    }

    /// The value of a key whose hash this is.
    ///
    /// # Errors
    /// The chain that it would stand in leads astray.
    pub fn get(&self, hash: u64, key: KeyRef<'_>) -> Result<Option<ValueView<'a>>, FormatError> {
        let found = self.find(hash, key)?;
        let view = |(_, entry): (u16, EntryChunk)| ValueView {
            leaf: *self,
            number_bytes: entry.number_bytes,
            array: entry.value,
        };
        Ok(found.map(view))
    }

    /// The first name of this hash, down its chain, that is one of those that are meant, and its value. Where a table normalises names,
    /// that is the one with the lowest differentiator.
    ///
    /// # Errors
    /// The chain that it would stand in leads astray.
    pub fn first_name(
        &self,
        hash: u64,
        mut is_meant: impl FnMut(&[u8]) -> bool,
    ) -> Result<Option<(Vec<u8>, ValueView<'a>)>, FormatError> {
        let mut found = None;
        self.each_of_bucket(self.shape.bucket(hash, self.prefix_bits), |_, entry| {
            if entry.hash != hash || self.number_keys {
                return Ok(true);
            }
            let name = self.name(entry)?;
            let is_it = is_meant(&name);
            if is_it {
                let (number_bytes, array) = (entry.number_bytes, entry.value);
                found = Some((name, ValueView { leaf: *self, number_bytes, array }));
            }
            Ok(!is_it)
        })?;
        Ok(found)
    }

    /// The chunk of the entry of a key, and what it says.
    pub(super) fn find(
        &self,
        hash: u64,
        key: KeyRef<'_>,
    ) -> Result<Option<(u16, EntryChunk)>, FormatError> {
        let mut found = None;
        self.each_of_bucket(self.shape.bucket(hash, self.prefix_bits), |chunk, entry| {
            let is_it = entry.hash == hash && self.is_key(entry.name, key)?;
            if is_it {
                found = Some((chunk, *entry));
            }
            Ok(!is_it)
        })?;
        Ok(found)
    }

    /// Goes down the chain of a bucket until `each` says no; each entry with its chunk.
    pub(super) fn each_of_bucket(
        &self,
        bucket: usize,
        mut each: impl FnMut(u16, &EntryChunk) -> Result<bool, FormatError>,
    ) -> Result<(), FormatError> {
        let mut next = self.first(bucket)?;
        for _ in 0..=self.shape.chunks {
            if next == CHAIN_END {
                return Ok(());
            }
            let entry = self.entry(next)?;
            if !each(next, &entry)? {
                return Ok(());
            }
            next = entry.next;
        }
        Err(self.wrong(next, "next entry", Problem::Twice))
    }

    /// The first chunk of a bucket's chain.
    pub(super) fn first(&self, bucket: usize) -> Result<u16, FormatError> {
        self.from.get_at("hash table", self.shape.bucket_at(bucket))
    }

    /// An error about a chunk.
    pub(super) fn wrong(&self, chunk: u16, field: &'static str, problem: Problem) -> FormatError {
        self.from.wrong_at(field, self.shape.chunk_at(chunk.into()), problem)
    }

    /// A chunk of a kind, past its first byte.
    #[inline]
    pub(super) fn chunk(&self, chunk: u16, kind: u8) -> Result<Reader<'a>, FormatError> {
        if usize::from(chunk) >= self.shape.chunks {
            return Err(self.from.wrong_at("chunk", HEADER_BYTES, Problem::Value(chunk.into())));
        }
        let mut from = self.from;
        from.seek("chunk", self.shape.chunk_at(chunk.into()))?;
        let found = from.u8("kind of chunk")?;
        if found != kind {
            return Err(self.wrong(chunk, "kind of chunk", Problem::Value(found.into())));
        }
        Ok(from)
    }

    /// What an entry's chunk says.
    #[inline]
    pub(super) fn entry(&self, chunk: u16) -> Result<EntryChunk, FormatError> {
        let mut from = self.chunk(chunk, ENTRY)?;
        let number_bytes = from.u8("bytes of a number")?;
        if !matches!(number_bytes, 1 | 2 | 4 | 8) {
            let problem = Problem::Value(number_bytes.into());
            return Err(self.wrong(chunk, "bytes of a number", problem));
        }
        let [next, name_chunk, name_len, value_chunk, value_len] = from.get("entry")?;
        let key_unit = if self.number_keys { 8 } else { 1 };
        let array =
            |first: u16, len: u16, unit: usize| Array { first, len: usize::from(len) * unit };
        Ok(EntryChunk {
            number_bytes,
            next,
            name: array(name_chunk, name_len, key_unit),
            value: array(value_chunk, value_len, number_bytes.into()),
            differentiator: from.u32("collision differentiator")?,
            hash: from.u64("hash")?,
        })
    }

    /// Goes through the chunks of an array, each with its part of the bytes.
    pub(super) fn each_chunk(
        &self,
        array: Array,
        mut each: impl FnMut(u16, &'a [u8]) -> Result<(), FormatError>,
    ) -> Result<(), FormatError> {
        // Longer than all chunks together: one of them would be reached twice.
        if array.len > self.shape.chunks * ARRAY_BYTES {
            return Err(self.wrong(array.first, "array", Problem::Twice));
        }
        let (mut left, mut next) = (array.len, array.first);
        while left > 0 {
            let mut from = self.chunk(next, ARRAY)?;
            let part = from.take("array", ARRAY_BYTES)?;
            let part = &part[..ARRAY_BYTES.min(left)];
            each(next, part)?;
            left -= part.len();
            next = from.u16("next chunk")?;
        }
        Ok(())
    }

    /// The bytes of an array.
    fn bytes(&self, array: Array) -> Result<Vec<u8>, FormatError> {
        let mut bytes = Vec::new();
        self.each_chunk(array, |_, part| {
            bytes.extend_from_slice(part);
            Ok(())
        })?;
        Ok(bytes)
    }

    fn is_key(&self, stored: Array, key: KeyRef<'_>) -> Result<bool, FormatError> {
        let is_numbers = matches!(key, KeyRef::Numbers(_));
        if is_numbers != self.number_keys || stored.len != key.stored_len() {
            return Ok(false);
        }
        let (mut at, mut same) = (0, true);
        self.each_chunk(stored, |_, part| {
            same = same && key.has(at, part);
            at += part.len();
            Ok(())
        })?;
        Ok(same)
    }

    /// The name of an entry, without its zero.
    fn name(&self, entry: &EntryChunk) -> Result<Vec<u8>, FormatError> {
        let mut name = self.bytes(entry.name)?;
        match name.pop() {
            Some(0) => Ok(name),
            _ => Err(self.wrong(entry.name.first, "name", Problem::Text)),
        }
    }

    /// An entry for itself.
    pub(super) fn owned(&self, entry: &EntryChunk) -> Result<LeafEntry, FormatError> {
        let key = match self.number_keys {
            true => Key::Numbers(numbers(&self.bytes(entry.name)?, 8)),
            false => Key::Name(self.name(entry)?),
        };
        let number_bytes = entry.number_bytes;
        let numbers = numbers(&self.bytes(entry.value)?, number_bytes.into());
        let value = LeafValue { number_bytes, numbers };
        Ok(LeafEntry { key, hash: entry.hash, differentiator: entry.differentiator, value })
    }
}
