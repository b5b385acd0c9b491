//! Micro ZAPs: names of up to 49 bytes with a number each, in one block.
//!
//! ```text
//!   0   kind of block, salt, normalisation flags, 40 unused bytes
//!   64  entries of 64 bytes: value (8), collision differentiator (4), unused (2), name (50, with its zero)
//! ```
//!
//! An entry without a name is free. Entries stand in no order, and keep their places.
//!
//! Source: OpenZFS, `zap_impl.h`.

use super::MICRO_WORD;
use crate::nvlist::Text;
use crate::wire::{Endian, Reader, Writer};
use stdx::bytes::{FormatError, Problem};

/// Bytes of an entry, and of the header.
pub const ENTRY_BYTES: usize = 64;
/// Bytes of a name, its zero included.
pub const NAME_BYTES: usize = 50;
/// Bytes of the largest micro ZAP: 16 MiB, the largest block (feature `large_microzap`).
pub const BYTES_MAX: usize = 16 << 20;
const NAME: &str = "micro ZAP";

/// A micro ZAP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MicroZap {
    /// What the hash begins with.
    pub salt: u64,
    /// See [`normalization`](super::normalization).
    pub normalization: u64,
    /// Bytes of the block.
    pub block_bytes: usize,
    /// The entries in the order of their places.
    pub entries: Vec<MicroEntry>,
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MicroEntry {
    /// Which place it has in the block.
    pub place: usize,
    /// The name.
    pub name: Text,
    /// The value.
    pub value: u64,
    /// Tells names of the same hash apart.
    pub differentiator: u32,
}

impl MicroZap {
    /// Decodes a block.
    ///
    /// # Errors
    /// It is no micro ZAP, too long, or a name does not end.
    pub fn decode(block: &[u8], endian: Endian) -> Result<MicroZap, FormatError> {
        let mut from = Reader::new(NAME, block, endian);
        if block.len() > BYTES_MAX {
            let (found, limit) = (block.len() as u64, BYTES_MAX as u64);
            return Err(from.wrong("block", Problem::Limit { found, limit }));
        }
        let kind = from.u64("kind of block")?;
        if kind != MICRO_WORD {
            return Err(from.wrong_at("kind of block", 0, Problem::Magic(kind)));
        }
        let salt = from.u64("salt")?;
        let normalization = from.u64("normalisation flags")?;
        from.seek("entries", ENTRY_BYTES)?;
        let mut entries = Vec::new();
        for place in 0..from.left() / ENTRY_BYTES {
            let value = from.u64("value")?;
            let differentiator = from.u32("collision differentiator")?;
            from.u16("unused")?;
            let bytes = from.take("name", NAME_BYTES)?;
            let name = Text::from_bytes(bytes);
            match name.as_bytes().len() {
                0 => {}
                NAME_BYTES => {
                    return Err(from.wrong_at("name", from.at() - NAME_BYTES, Problem::Text));
                }
                _ => entries.push(MicroEntry { place, name, value, differentiator }),
            }
        }
        Ok(MicroZap { salt, normalization, block_bytes: block.len(), entries })
    }

    /// Its block.
    ///
    /// # Errors
    /// A name is empty or too long, a place is beyond the block or taken twice.
    pub fn encode(&self, endian: Endian) -> Result<Vec<u8>, FormatError> {
        let mut to = Writer::new(endian);
        to.put(MICRO_WORD);
        to.put(self.salt);
        to.put(self.normalization);
        to.zeros_to(ENTRY_BYTES);
        for entry in &self.entries {
            let at = offset_of(entry.place);
            if at < to.at() {
                return Err(wrong("entry", at, Problem::Twice));
            }
            if at.saturating_add(ENTRY_BYTES) > self.block_bytes.min(BYTES_MAX) {
                return Err(wrong("entry", at, Problem::Short));
            }
            to.zeros_to(at);
            entry.encode(&mut to)?;
        }
        to.zeros_to(self.block_bytes.min(BYTES_MAX));
        Ok(to.into_bytes())
    }

    /// The value of a name, byte for byte.
    pub fn get(&self, name: &str) -> Option<u64> {
        let found = self.entries.iter().find(|entry| entry.name == *name);
        found.map(|entry| entry.value)
    }
}

fn wrong(field: &'static str, offset: usize, problem: Problem) -> FormatError {
    FormatError { structure: NAME, field, offset, problem }
}

/// Where in a block a place is.
fn offset_of(place: usize) -> usize {
    ENTRY_BYTES.saturating_mul(place.saturating_add(1))
}

impl MicroEntry {
    fn encode(&self, to: &mut Writer) -> Result<(), FormatError> {
        let (name, at) = (self.name.as_bytes(), to.at());
        if name.is_empty() || name.len() >= NAME_BYTES {
            return Err(wrong("name", at, Problem::Text));
        }
        to.put(self.value);
        to.put(self.differentiator);
        to.put(0u16);
        to.bytes(name);
        to.zeros_to(at + ENTRY_BYTES);
        Ok(())
    }

    /// Puts it into its place of a block of a table.
    ///
    /// # Errors
    /// The name is empty or too long, or the place is beyond the block.
    pub fn put(&self, block: &mut [u8], endian: Endian) -> Result<(), FormatError> {
        let mut to = Writer::new(endian);
        self.encode(&mut to)?;
        place_in(block, self.place)?.copy_from_slice(&to.into_bytes());
        Ok(())
    }
}

/// Frees a place of a block of a table.
///
/// # Errors
/// It is beyond the block.
pub fn clear(block: &mut [u8], place: usize) -> Result<(), FormatError> {
    place_in(block, place)?.fill(0);
    Ok(())
}

fn place_in(block: &mut [u8], place: usize) -> Result<&mut [u8], FormatError> {
    let at = offset_of(place);
    let bytes = block.get_mut(at..at.saturating_add(ENTRY_BYTES));
    bytes.ok_or_else(|| wrong("entry", at, Problem::Short))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn zap() -> impl Strategy<Value = MicroZap> {
        let entry = (any::<u64>(), any::<u32>(), proptest::collection::vec(1u8.., 1..NAME_BYTES));
        let entries = proptest::collection::btree_map(0usize..15, entry, 0..9);
        (any::<[u64; 2]>(), entries).prop_map(|([salt, normalization], entries)| MicroZap {
            salt,
            normalization,
            block_bytes: 1024,
            entries: entries
                .into_iter()
                .map(|(place, (value, differentiator, name))| MicroEntry {
                    place,
                    name: Text::from_bytes(&name),
                    value,
                    differentiator,
                })
                .collect(),
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn entries_keep_their_places(zap in zap(), cut in 0usize..1024, bit in 0usize..8192) {
            for endian in [Endian::Little, Endian::Big] {
                let mut block = zap.encode(endian).expect("it fits");
                prop_assert_eq!(MicroZap::decode(&block, endian), Ok(zap.clone()));
                let mut one_by_one = block.clone();
                for entry in &zap.entries {
                    clear(&mut one_by_one, entry.place).expect("it has the place");
                }
                prop_assert_eq!(MicroZap::decode(&one_by_one, endian).map(|zap| zap.entries.len()), Ok(0));
                for entry in &zap.entries {
                    entry.put(&mut one_by_one, endian).expect("it fits");
                }
                prop_assert_eq!(&one_by_one, &block);
                let _ = MicroZap::decode(&block[..cut], endian);
                block[bit / 8] ^= 1 << (bit % 8);
                if let Ok(flipped) = MicroZap::decode(&block, endian) {
                    let _ = flipped.encode(endian);
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let entry = |place, name: &str| MicroEntry {
            place,
            name: Text::from(name),
            value: 1,
            differentiator: 0,
        };
        let zap = |entries| MicroZap { salt: 1, normalization: 0, block_bytes: 512, entries };
        let long = "x".repeat(NAME_BYTES);
        for entries in [
            vec![entry(7, "beyond the block")],
            vec![entry(usize::MAX, "beyond all")],
            vec![entry(1, "a"), entry(1, "b")],
            vec![entry(0, "")],
            vec![entry(0, &long)],
        ] {
            assert!(zap(entries).encode(Endian::Little).is_err());
        }
        let fits = zap(vec![entry(6, "last")]);
        assert_eq!(fits.get("last"), Some(1));
        assert!(fits.encode(Endian::Little).is_ok());
    }
}
