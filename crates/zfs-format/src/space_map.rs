//! Space maps: what was allocated and freed in a range of a vdev, in the order in which it happened.
//!
//! The header is the bonus of the object; the object is a row of words:
//!
//! ```text
//!   10 action(2) pass(10) txg(50)                  note: what follows is of this transaction group; 0 is filler
//!   0 offset(47) type(1) run−1(15)                 one word
//!   11 unused(2) run−1(36) vdev(24)                two words (feature spacemap_v2); vdev in log space maps only
//!   type(1) offset(63)
//! ```
//!
//! Offsets and runs are in units of 2^shift bytes, offsets from the start of the map's range; both are not on disk
//! but known to who owns the map (a metaslab, a vdev's DTL, a log). A two-word entry never crosses a block's end:
//! fillers come before it.
//!
//! A *log space map* (feature log_spacemap) holds the changes of all metaslabs of one transaction group; a ZAP of the
//! MOS names them by group, and each metaslab says ([`MetaslabUnflushed`]) up to which group its own map is whole.
//!
//! Source: OpenZFS, `space_map.h`, `space_map.c`, `spa_log_spacemap.c`.

use crate::wire::{Endian, Reader, Writer, record};
use stdx::bytes::{FormatError, Problem};

/// Buckets of a histogram.
pub const HISTOGRAM_BUCKETS: usize = 32;
/// Bytes of a header without a histogram.
pub const SHORT_BYTES: usize = 24;
/// Bytes of a header with a histogram.
pub const LONG_BYTES: usize = 320;

const HEADER: &str = "space map header";
const NAME: &str = "space map";

record! {
    /// Up to which transaction group a metaslab's own map is whole.
    MetaslabUnflushed = "metaslab's flushed group", 8, {
        /// The transaction group.
        txg: u64,
    }
}

/// The header of a space map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceMapHeader {
    /// The number of the object; kept for old software.
    pub object: u64,
    /// Bytes of the object that count.
    pub length: u64,
    /// Bytes that are allocated by the map; a map may begin in the middle, so it may be negative.
    pub allocated: i64,
    /// How many free stretches are of 2^(n+shift) bytes and more; where the pool keeps it.
    pub histogram: Option<[u64; HISTOGRAM_BUCKETS]>,
}

impl SpaceMapHeader {
    /// Decodes the bonus.
    ///
    /// # Errors
    /// It is too short.
    pub fn decode(bonus: &[u8], endian: Endian) -> Result<SpaceMapHeader, FormatError> {
        let mut from = Reader::new(HEADER, bonus, endian);
        let object = from.u64("object")?;
        let length = from.u64("length")?;
        let allocated = from.get("allocated")?;
        let histogram = if bonus.len() >= LONG_BYTES {
            from.seek("histogram", LONG_BYTES - HISTOGRAM_BUCKETS * 8)?;
            Some(from.get("histogram")?)
        } else {
            None
        };
        Ok(SpaceMapHeader { object, length, allocated, histogram })
    }

    /// The bonus.
    pub fn encode(&self, endian: Endian) -> Vec<u8> {
        let mut to = Writer::new(endian);
        to.put(self.object);
        to.put(self.length);
        to.put(self.allocated);
        if let Some(histogram) = self.histogram {
            to.zeros_to(LONG_BYTES - HISTOGRAM_BUCKETS * 8);
            to.put(histogram);
        }
        to.into_bytes()
    }
}

/// What happened to a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was taken.
    Allocate,
    /// It was given back.
    Free,
}

impl Change {
    fn from_bit(bit: u64) -> Change {
        if bit == 0 { Change::Allocate } else { Change::Free }
    }

    fn bit(self) -> u64 {
        u64::from(self == Change::Free)
    }
}

/// An entry of a space map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// What follows is of this transaction group; a group of 0 is filler.
    Note {
        /// The change that was being written.
        action: u8,
        /// The pass of the sync.
        pass: u16,
        /// The transaction group.
        txg: u64,
    },
    /// A range in one word.
    Short {
        /// What happened.
        change: Change,
        /// Where, in units.
        offset: u64,
        /// How much, in units.
        run: u64,
    },
    /// A range in two words.
    Long {
        /// What happened.
        change: Change,
        /// On which top-level vdev, in a log; else 0.
        vdev: u32,
        /// Where, in units.
        offset: u64,
        /// How much, in units.
        run: u64,
    },
}

/// A filler.
pub const FILLER: Entry = Entry::Note { action: 0, pass: 0, txg: 0 };

const NOTE: u64 = 2;
const LONG: u64 = 3;

fn bits(word: u64, low: u32, len: u32) -> u64 {
    word >> low & (u64::MAX >> (64 - len))
}

/// Goes through the entries of a block, or of several in a row.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    from: Reader<'a>,
}

impl<'a> Entries<'a> {
    /// The entries of these bytes.
    pub fn new(bytes: &'a [u8], endian: Endian) -> Entries<'a> {
        Entries { from: Reader::new(NAME, bytes, endian) }
    }

    fn entry(&mut self) -> Result<Entry, FormatError> {
        let word = self.from.u64("entry")?;
        Ok(match bits(word, 62, 2) {
            NOTE => Entry::Note {
                action: bits(word, 60, 2) as u8,
                pass: bits(word, 50, 10) as u16,
                txg: bits(word, 0, 50),
            },
            LONG => {
                let second = self.from.u64("second word")?;
                Entry::Long {
                    change: Change::from_bit(second >> 63),
                    vdev: bits(word, 0, 24) as u32,
                    offset: bits(second, 0, 63),
                    run: bits(word, 24, 36) + 1,
                }
            }
            _ => Entry::Short {
                change: Change::from_bit(bits(word, 15, 1)),
                offset: bits(word, 16, 47),
                run: bits(word, 0, 15) + 1,
            },
        })
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.from.left() == 0 {
            return None;
        }
        let entry = self.entry();
        if entry.is_err() {
            // Nothing after a broken entry is believed.
            self.from = Reader::new(NAME, &[], self.from.endian);
        }
        Some(entry)
    }
}

/// Writes entries.
///
/// # Errors
/// A number does not fit its bits; runs are at least 1.
pub fn encode(entries: &[Entry], endian: Endian) -> Result<Vec<u8>, FormatError> {
    let mut to = Writer::new(endian);
    for entry in entries {
        let fit = |field, value: u64, len: u32| {
            let (structure, offset, problem) = (NAME, to.at(), Problem::Value(value));
            let fits = value <= u64::MAX >> (64 - len);
            if fits { Ok(value) } else { Err(FormatError { structure, field, offset, problem }) }
        };
        let words = match *entry {
            Entry::Note { action, pass, txg } => [
                Some(
                    NOTE << 62
                        | fit("action", action.into(), 2)? << 60
                        | fit("pass", pass.into(), 10)? << 50
                        | fit("transaction group", txg, 50)?,
                ),
                None,
            ],
            Entry::Short { change, offset, run } => [
                Some(
                    fit("offset", offset, 47)? << 16
                        | change.bit() << 15
                        | fit("run", run.wrapping_sub(1), 15)?,
                ),
                None,
            ],
            Entry::Long { change, vdev, offset, run } => [
                Some(
                    LONG << 62
                        | fit("run", run.wrapping_sub(1), 36)? << 24
                        | fit("vdev", vdev.into(), 24)?,
                ),
                Some(change.bit() << 63 | fit("offset", offset, 63)?),
            ],
        };
        words.into_iter().flatten().for_each(|word| to.put(word));
    }
    Ok(to.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_words_are_entries_that_encode_to_what_they_mean(words in vec(any::<u64>(), 0..20)) {
            for endian in [Endian::Little, Endian::Big] {
                let bytes: Vec<u8> = words.iter().flat_map(|word| endian.bytes(*word)).collect();
                let entries: Vec<_> = Entries::new(&bytes, endian).collect();
                let broken = entries.iter().position(Result::is_err);
                prop_assert!(broken.is_none_or(|at| at + 1 == entries.len()));
                let good: Vec<Entry> = entries.into_iter().flatten().collect();
                let again = encode(&good, endian).expect("they fit");
                let read: Result<Vec<_>, _> = Entries::new(&again, endian).collect();
                prop_assert_eq!(read, Ok(good));
            }
        }

        #[test]
        fn headers_come_out_as_they_went_in(
            words in any::<[u64; 2]>(), allocated in any::<i64>(),
            histogram in proptest::option::of(any::<[u64; 32]>()),
        ) {
            let [object, length] = words;
            let header = SpaceMapHeader { object, length, allocated, histogram };
            for endian in [Endian::Little, Endian::Big] {
                let bonus = header.encode(endian);
                prop_assert_eq!(SpaceMapHeader::decode(&bonus, endian), Ok(header.clone()));
                prop_assert!(SpaceMapHeader::decode(&bonus[..23], endian).is_err());
            }
        }
    }

    #[test]
    fn the_bits_are_those_of_the_format() {
        let short = Entry::Short { change: Change::Free, offset: 1, run: 1 };
        let long = Entry::Long { change: Change::Free, vdev: 5, offset: 2, run: 2 };
        let note = Entry::Note { action: 1, pass: 3, txg: 7 };
        let bytes = encode(&[short, long, note, FILLER], Endian::Big).expect("they fit");
        let words: Vec<u64> =
            bytes.as_chunks::<8>().0.iter().map(|word| u64::from_be_bytes(*word)).collect();
        let expected = [
            0x0000_0000_0001_8000,
            0xc000_0000_0100_0005,
            0x8000_0000_0000_0002,
            0x900c_0000_0000_0007,
            0x8000_0000_0000_0000,
        ];
        assert_eq!(words, expected);
        for wrong in [
            Entry::Short { change: Change::Free, offset: 0, run: 0 },
            Entry::Short { change: Change::Free, offset: 0, run: 32769 },
            Entry::Long { change: Change::Free, vdev: 1 << 24, offset: 0, run: 1 },
        ] {
            assert!(encode(&[wrong], Endian::Little).is_err());
        }
        crate::wire::checks::holds_for_any_bytes::<MetaslabUnflushed>();
    }
}
