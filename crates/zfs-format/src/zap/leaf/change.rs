//! Changes of a leaf in its block: chunks are taken from the list of free ones, and given back to it.
//!
//! What is done is what OpenZFS does: an entry enters its bucket's chain behind those whose differentiator is not
//! greater; the first free chunk is the next one taken, and the one given back last is the first. So a leaf that both
//! change looks the same, free chunks included.
//!
//! **Nothing is half done.** The block came from a disk: each chunk that a change needs, free or in use, is looked at
//! before the first byte is written, and a list that leads astray is an error that leaves the block as it was. From then
//! on nothing can fail. Where chunks don't suffice that is said, too, and nothing is changed: a leaf is split by its owner.
//!
//! Source: OpenZFS, `zap_leaf.c` (`zap_entry_create`, `zap_entry_update`, `zap_entry_remove`).

use super::chunk::{ARRAY, ARRAY_BYTES, CHAIN_END, CHUNK_BYTES, ENTRY, FREE, LeafValue, Shape};
use super::view::{Array, EntryChunk, KeyRef, LeafView};
use crate::wire::{Endian, Number};
use stdx::bytes::{FormatError, Problem};

/// Where the header counts free chunks, and entries, and where it has the first free chunk.
const FREE_AT: usize = 28;
const ENTRIES_AT: usize = 30;
const FIRST_FREE_AT: usize = 34;
/// Where in a chunk its successor stands: of an entry, and of all others.
const NEXT_ENTRY_AT: usize = 2;
const NEXT_AT: usize = CHUNK_BYTES - 2;

/// A leaf in a block that may be written. See the [module](self).
#[derive(Debug)]
pub struct LeafMut<'a> {
    block: &'a mut [u8],
    endian: Endian,
    zap_flags: u64,
    shape: Shape,
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// Too few chunks are free; nothing was changed.
    NoRoom,
    /// The key is there already; nothing was changed.
    Exists,
    /// There is no such key; nothing was changed.
    Absent,
}

impl<'a> LeafMut<'a> {
    /// The leaf in this block, of a ZAP with these [flags](crate::zap::flags).
    ///
    /// # Errors
    /// It is no leaf.
    pub fn of(
        block: &'a mut [u8],
        endian: Endian,
        zap_flags: u64,
    ) -> Result<LeafMut<'a>, FormatError> {
        let shape = LeafView::of(block, endian, zap_flags)?.shape;
        Ok(LeafMut { block, endian, zap_flags, shape })
    }

    /// The leaf as it is now.
    pub fn view(&self) -> LeafView<'_> {
        let view = LeafView::of(self.block, self.endian, self.zap_flags);
        view.expect("a leaf stays one whatever is changed in it")
    }

    /// Puts an entry in. Without a differentiator it gets the lowest that no key of the same hash has.
    ///
    /// # Errors
    /// A chain that is needed leads astray; nothing was changed.
    ///
    /// # Panics
    /// The key is not of the ZAP's kind, or a number doesn't fit its bytes.
    pub fn insert(
        &mut self,
        hash: u64,
        key: KeyRef<'_>,
        differentiator: Option<u32>,
        value: &LeafValue,
    ) -> Result<Outcome, FormatError> {
        let view = self.view();
        assert_eq!(
            matches!(key, KeyRef::Numbers(_)),
            view.number_keys,
            "the key is of the ZAP's kind"
        );
        assert_fits(key, value);
        if view.find(hash, key)?.is_some() {
            return Ok(Outcome::Exists);
        }
        let bucket = view.shape.bucket(hash, view.prefix_bits);
        let differentiator = match differentiator {
            Some(given) => given,
            None => unused_differentiator(&view, bucket, hash)?,
        };
        // Behind the last whose differentiator is not greater.
        let mut place = view.shape.bucket_at(bucket);
        let mut next = view.first(bucket)?;
        view.each_of_bucket(bucket, |chunk, entry| {
            let is_before = entry.differentiator <= differentiator;
            if is_before {
                place = view.shape.chunk_at(chunk.into()) + NEXT_ENTRY_AT;
                next = entry.next;
            }
            Ok(is_before)
        })?;
        let (of_key, of_value) = (chunks_of(key.stored_len()), chunks_of(value_len(value)));
        let Some(free) = free_chunks(&view, 1 + of_key + of_value)? else {
            return Ok(Outcome::NoRoom);
        };
        let entries = view.entries.checked_add(1);
        let wrong =
            || view.from.wrong_at("entries", ENTRIES_AT, Problem::Value(view.entries.into()));
        let entries = entries.ok_or_else(wrong)?;
        let (chunk, arrays) = free.split_first().expect("an entry takes a chunk");
        let (for_key, for_value) = arrays.split_at(of_key);
        self.take_free(free.len());
        let entry = EntryChunk {
            number_bytes: value.number_bytes,
            next,
            name: self.put_array(for_key, key.bytes()),
            value: self.put_array(for_value, value_bytes(value)),
            differentiator,
            hash,
        };
        self.put_entry(*chunk, &entry, key.count() as u16, value.numbers.len() as u16);
        self.put(place, *chunk);
        self.put(ENTRIES_AT, entries);
        let found = self.view().find(hash, key)?;
        assert_eq!(found.map(|(chunk, _)| chunk), Some(*chunk), "what was put in is found");
        Ok(Outcome::Done)
    }

    /// Takes an entry out.
    ///
    /// # Errors
    /// A chain that is needed leads astray; nothing was changed.
    pub fn remove(&mut self, hash: u64, key: KeyRef<'_>) -> Result<Outcome, FormatError> {
        let view = self.view();
        let Some((chunk, entry)) = view.find(hash, key)? else { return Ok(Outcome::Absent) };
        let bucket = view.shape.bucket(hash, view.prefix_bits);
        let mut place = view.shape.bucket_at(bucket);
        view.each_of_bucket(bucket, |other, _| {
            if other != chunk {
                place = view.shape.chunk_at(other.into()) + NEXT_ENTRY_AT;
            }
            Ok(other != chunk)
        })?;
        let chunks = used_chunks(&view, &[entry.name, entry.value], chunk)?;
        let entries = view.entries.checked_sub(1);
        let wrong = || view.from.wrong_at("entries", ENTRIES_AT, Problem::Value(0));
        let entries = entries.ok_or_else(wrong)?;
        self.put(place, entry.next);
        self.put(ENTRIES_AT, entries);
        self.give_back(&chunks);
        Ok(Outcome::Done)
    }

    /// Gives a key another value.
    ///
    /// # Errors
    /// A chain that is needed leads astray; nothing was changed.
    ///
    /// # Panics
    /// A number doesn't fit its bytes.
    pub fn update(
        &mut self,
        hash: u64,
        key: KeyRef<'_>,
        value: &LeafValue,
    ) -> Result<Outcome, FormatError> {
        assert_fits(key, value);
        let view = self.view();
        let Some((chunk, entry)) = view.find(hash, key)? else { return Ok(Outcome::Absent) };
        let mut old = used_chunks(&view, &[entry.value], chunk)?;
        // The entry itself stays.
        old.pop();
        let needed = chunks_of(value_len(value));
        if free_chunks(&view, needed.saturating_sub(old.len()))?.is_none() {
            return Ok(Outcome::NoRoom);
        }
        let at = view.shape.chunk_at(chunk.into());
        let name_count: u16 = view.from.get_at("name's length", at + 6)?;
        self.give_back(&old);
        let chunks = free_chunks(&self.view(), needed)?.expect("so many are free");
        self.take_free(needed);
        let array = self.put_array(&chunks, value_bytes(value));
        let entry = EntryChunk { number_bytes: value.number_bytes, value: array, ..entry };
        self.put_entry(chunk, &entry, name_count, value.numbers.len() as u16);
        Ok(Outcome::Done)
    }

    fn put<T: Number>(&mut self, at: usize, number: T) {
        number.put(self.block, at, self.endian);
    }

    fn at(&self, chunk: u16) -> usize {
        self.shape.chunk_at(chunk.into())
    }

    fn put_entry(&mut self, chunk: u16, entry: &EntryChunk, name_count: u16, value_count: u16) {
        let at = self.at(chunk);
        let EntryChunk { number_bytes, next, name, value, differentiator, hash } = *entry;
        self.put(at, ENTRY);
        self.put(at + 1, number_bytes);
        let words = [next, name.first, name_count, value.first, value_count];
        for (word, place) in words.into_iter().zip((at + NEXT_ENTRY_AT..).step_by(2)) {
            self.put(place, word);
        }
        self.put(at + 12, differentiator);
        self.put(at + 16, hash);
    }

    /// Puts bytes into chunks, which are as many as they need.
    fn put_array(&mut self, chunks: &[u16], mut bytes: impl ExactSizeIterator<Item = u8>) -> Array {
        let len = bytes.len();
        let nexts = chunks.iter().skip(1).copied().chain([CHAIN_END]);
        for (chunk, next) in chunks.iter().zip(nexts) {
            let at = self.at(*chunk);
            self.put(at, ARRAY);
            for place in at + 1..at + 1 + ARRAY_BYTES {
                self.put(place, bytes.next().unwrap_or(0));
            }
            self.put(at + NEXT_AT, next);
        }
        assert_eq!(bytes.len(), 0, "an array has the chunks that it needs");
        Array { first: chunks.first().copied().unwrap_or(CHAIN_END), len }
    }

    /// Takes the first chunks off the list of free ones: those that [`free_chunks`] named.
    fn take_free(&mut self, many: usize) {
        let view = self.view();
        let (mut next, free) = (view.first_free, view.free);
        for _ in 0..many {
            let at = view.shape.chunk_at(next.into()) + NEXT_AT;
            next = view.from.get_at("next free chunk", at).expect("it was looked at");
        }
        self.put(FIRST_FREE_AT, next);
        self.put(FREE_AT, free - many as u16);
    }

    fn give_back(&mut self, chunks: &[u16]) {
        let view = self.view();
        let (mut first, free) = (view.first_free, view.free);
        for chunk in chunks {
            let at = self.at(*chunk);
            self.block[at..at + CHUNK_BYTES].fill(0);
            self.put(at, FREE);
            self.put(at + NEXT_AT, first);
            first = *chunk;
        }
        self.put(FIRST_FREE_AT, first);
        // No more than there are: each was in use.
        self.put(FREE_AT, free.saturating_add(chunks.len() as u16));
    }
}

impl KeyRef<'_> {
    fn bytes(&self) -> impl ExactSizeIterator<Item = u8> {
        (0..self.stored_len()).map(|at| self.byte(at))
    }
}

fn value_len(value: &LeafValue) -> usize {
    value.numbers.len() * usize::from(value.number_bytes)
}

fn value_bytes(value: &LeafValue) -> impl ExactSizeIterator<Item = u8> {
    let unit = usize::from(value.number_bytes);
    (0..value_len(value))
        .map(move |at| value.numbers[at / unit].to_be_bytes()[8 - unit + at % unit])
}

fn chunks_of(len: usize) -> usize {
    len.div_ceil(ARRAY_BYTES)
}

fn assert_fits(key: KeyRef<'_>, value: &LeafValue) {
    let LeafValue { number_bytes, numbers } = value;
    assert!(matches!(number_bytes, 1 | 2 | 4 | 8), "numbers have 1, 2, 4 or 8 bytes");
    let bits = u32::from(*number_bytes) * 8;
    let fits = |number: &u64| number.checked_shr(bits).unwrap_or(0) == 0;
    assert!(numbers.iter().all(fits), "the numbers of a value fit their bytes");
    let longest = key.count().max(numbers.len());
    assert!(longest <= usize::from(u16::MAX), "keys and values are counted in 16 bits");
}

/// The lowest differentiator that no key of this hash has.
fn unused_differentiator(
    view: &LeafView<'_>,
    bucket: usize,
    hash: u64,
) -> Result<u32, FormatError> {
    let mut taken = Vec::new();
    view.each_of_bucket(bucket, |_, entry| {
        if entry.hash == hash {
            taken.push(entry.differentiator);
        }
        Ok(true)
    })?;
    let free = (0..=taken.len() as u32).find(|number| !taken.contains(number));
    Ok(free.expect("of one number more than are taken one is free"))
}

/// The first chunks of the list of free ones; nothing where there are fewer.
fn free_chunks(view: &LeafView<'_>, many: usize) -> Result<Option<Vec<u16>>, FormatError> {
    if usize::from(view.free) < many {
        return Ok(None);
    }
    let mut chunks = Vec::with_capacity(many);
    let mut next = view.first_free;
    while chunks.len() < many {
        let mut from = view.chunk(next, FREE)?;
        if chunks.contains(&next) {
            return Err(view.wrong(next, "next free chunk", Problem::Twice));
        }
        chunks.push(next);
        from.take("free chunk", ARRAY_BYTES)?;
        next = from.u16("next free chunk")?;
    }
    Ok(Some(chunks))
}

/// The chunks of these arrays, and last the entry's.
fn used_chunks(view: &LeafView<'_>, arrays: &[Array], entry: u16) -> Result<Vec<u16>, FormatError> {
    let mut chunks = Vec::new();
    for array in arrays {
        view.each_chunk(*array, |chunk, _| {
            if chunks.contains(&chunk) {
                return Err(view.wrong(chunk, "next chunk", Problem::Twice));
            }
            chunks.push(chunk);
            Ok(())
        })?;
    }
    chunks.push(entry);
    Ok(chunks)
}

#[cfg(test)]
mod tests {
    //! What could break: a chunk that is lost or given away twice, an entry at a wrong place of its chain, a change of a
    //! damaged leaf that makes it worse.

    use super::super::{FLAG_SORTED, Key, Leaf};
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const SHIFT: u32 = 12;

    fn empty(endian: Endian) -> Vec<u8> {
        let leaf = Leaf {
            block_shift: SHIFT,
            prefix: 0,
            prefix_bits: 3,
            flags: FLAG_SORTED,
            entries: vec![],
        };
        leaf.encode(endian).expect("it is empty")
    }

    /// Few names and hashes, so that chains are long.
    fn named(name: u8) -> (u64, Vec<u8>) {
        let bytes = format!("{}{name}", "x".repeat(usize::from(name) % 50)).into_bytes();
        (u64::from(name % 5) << 50, bytes)
    }

    fn value() -> impl Strategy<Value = LeafValue> {
        (prop::sample::select(vec![1u8, 2, 4, 8]), vec(any::<u64>(), 0..20)).prop_map(
            |(number_bytes, numbers)| {
                let shift = 64 - u32::from(number_bytes) * 8;
                LeafValue {
                    number_bytes,
                    numbers: numbers.into_iter().map(|n| n >> shift).collect(),
                }
            },
        )
    }

    fn entries(block: &[u8], endian: Endian) -> BTreeMap<Vec<u8>, LeafValue> {
        let leaf = Leaf::decode(block, endian, 0).expect("the leaf is whole");
        let entry = |entry: super::super::LeafEntry| match entry.key {
            Key::Name(name) => (name, entry.value),
            Key::Numbers(_) => unreachable!("this ZAP has names"),
        };
        leaf.entries.into_iter().map(entry).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn a_leaf_changed_in_place_is_the_table_that_it_stands_for(
            steps in vec((0u8..3, 0u8..40, value()), 1..80), big in any::<bool>(),
        ) {
            let endian = if big { Endian::Big } else { Endian::Little };
            let mut block = empty(endian);
            let chunks = LeafView::of(&block, endian, 0).expect("a leaf").shape.chunks;
            let mut model = BTreeMap::new();
            for (step, name, value) in steps {
                let (hash, name) = named(name);
                let key = KeyRef::Name(&name);
                let mut leaf = LeafMut::of(&mut block, endian, 0).expect("a leaf");
                let outcome = match step {
                    0 => leaf.insert(hash, key, None, &value),
                    1 => leaf.update(hash, key, &value),
                    _ => leaf.remove(hash, key),
                };
                match (step, outcome.expect("the leaf is whole"), model.contains_key(&name)) {
                    (0, Outcome::Done, false) | (1, Outcome::Done, true) => {
                        model.insert(name, value);
                    }
                    (2, Outcome::Done, true) => drop(model.remove(&name)),
                    (0, Outcome::Exists, true) | (1 | 2, Outcome::Absent, false) => {}
                    (0, Outcome::NoRoom, false) | (1, Outcome::NoRoom, true) => {
                        prop_assert!(usize::from(leaf.view().free) < 1 + 3 + 8);
                    }
                    other => prop_assert!(false, "{:?}", other),
                }
                prop_assert_eq!(&entries(&block, endian), &model);
                let view = LeafView::of(&block, endian, 0).expect("a leaf");
                let used: usize = model
                    .iter()
                    .map(|(name, value)| 1 + chunks_of(name.len() + 1) + chunks_of(value_len(value)))
                    .sum();
                prop_assert_eq!(usize::from(view.free) + used, chunks);
                prop_assert_eq!(
                    free_chunks(&view, view.free.into()).expect("a list").map(|list| list.len()),
                    Some(view.free.into())
                );
                for number in 0..40 {
                    let (hash, name) = named(number);
                    let found = view.get(hash, KeyRef::Name(&name)).expect("the leaf is whole");
                    let found = found.map(|value| value.to_value().expect("it is whole"));
                    prop_assert_eq!(found.as_ref(), model.get(&name));
                }
            }
            // Nothing is lost: emptied, all chunks are free again.
            for name in model.into_keys() {
                let hash = (0..40).map(named).find(|(_, known)| *known == name).expect("known").0;
                let mut leaf = LeafMut::of(&mut block, endian, 0).expect("a leaf");
                prop_assert_eq!(leaf.remove(hash, KeyRef::Name(&name)), Ok(Outcome::Done));
            }
            prop_assert_eq!(usize::from(LeafView::of(&block, endian, 0).expect("a leaf").free), chunks);
        }

        #[test]
        fn a_damaged_leaf_is_left_as_it_was(
            names in vec(0u8..40, 1..12), value in value(), changed in 0u8..40,
            flips in vec((any::<prop::sample::Index>(), 0u8..8), 1..6),
        ) {
            let endian = Endian::Little;
            let mut block = empty(endian);
            for name in names {
                let (hash, name) = named(name);
                let mut leaf = LeafMut::of(&mut block, endian, 0).expect("a leaf");
                let _ = leaf.insert(hash, KeyRef::Name(&name), None, &value).expect("it is whole");
            }
            for (at, bit) in flips {
                // The header and the first chunks, where something stands.
                let at = 26 + at.index(1400);
                block[at] ^= 1 << bit;
            }
            let (hash, name) = named(changed);
            for step in 0..3 {
                let before = block.clone();
                let Ok(mut leaf) = LeafMut::of(&mut block, endian, 0) else { break };
                let key = KeyRef::Name(&name);
                let outcome = match step {
                    0 => leaf.insert(hash, key, None, &value),
                    1 => leaf.update(hash, key, &value),
                    _ => leaf.remove(hash, key),
                };
                if outcome != Ok(Outcome::Done) {
                    prop_assert_eq!(&block, &before);
                }
            }
        }
    }

    #[test]
    fn entries_of_one_hash_get_the_lowest_free_differentiator_and_stand_in_its_order() {
        let mut block = empty(Endian::Little);
        let mut leaf = LeafMut::of(&mut block, Endian::Little, 0).expect("a leaf");
        let value = LeafValue { number_bytes: 8, numbers: vec![1] };
        for name in [b"a", b"b", b"c"] {
            assert_eq!(leaf.insert(7, KeyRef::Name(name), None, &value), Ok(Outcome::Done));
        }
        assert_eq!(leaf.remove(7, KeyRef::Name(b"b")), Ok(Outcome::Done));
        assert_eq!(leaf.insert(7, KeyRef::Name(b"d"), None, &value), Ok(Outcome::Done));
        let decoded = Leaf::decode(&block, Endian::Little, 0).expect("it is whole");
        let order: Vec<_> =
            decoded.entries.iter().map(|entry| (entry.differentiator, entry.key.clone())).collect();
        let name = |name: &[u8]| Key::Name(name.to_vec());
        assert_eq!(order, [(0, name(b"a")), (1, name(b"d")), (2, name(b"c"))]);
    }
}
