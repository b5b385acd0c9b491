//! Bookmarks: what is left of a snapshot when only its moment matters, and redaction lists.
//!
//! A bookmark is the value of its name in the dataset's ZAP of bookmarks: 3 numbers of 8 bytes, or with the feature
//! `bookmark_v2` up to 12. A redaction list is an object: the header as the bonus, then blocks in order.
//!
//! Source: OpenZFS, `dsl_bookmark.h`.

use crate::wire::{Endian, Reader, Record, Wire, Writer, record};
use stdx::bytes::FormatError;

/// Numbers of a bookmark from before `bookmark_v2`.
pub const SHORT_NUMBERS: usize = 3;

/// What was freed before the next snapshot is counted.
pub const FLAG_HAS_FREED: u64 = 1;
/// The snapshot is still there.
pub const FLAG_SNAPSHOT_EXISTS: u64 = 2;

record! {
    /// A bookmark; [`Record::from_numbers`] takes it from a ZAP.
    Bookmark = "bookmark", 96, {
        /// The GUID of the snapshot.
        guid: u64,
        /// The transaction group that made it.
        creation_txg: u64,
        /// When it was made, in seconds since 1970.
        creation_time: u64,
        /// The redaction list's object.
        redaction: u64,
        /// [`FLAG_HAS_FREED`], [`FLAG_SNAPSHOT_EXISTS`].
        flags: u64,
        /// Bytes that the snapshot reached: referenced, compressed, uncompressed.
        referenced: [u64; 3],
        /// Bytes freed before the next snapshot: referenced, compressed, uncompressed.
        freed_before_next: [u64; 3],
        /// The set of initialisation vectors.
        ivset_guid: u64,
    }
}

record! {
    /// A run of blocks of an object that were redacted.
    RedactedBlocks = "redacted blocks", 32, {
        /// The object.
        object: u64,
        /// The first block.
        block: u64,
        /// Size and count: see [`RedactedBlocks::block_bytes`] and [`RedactedBlocks::count`].
        size_and_count: u64,
    }
}

impl RedactedBlocks {
    /// Bytes of each block.
    pub fn block_bytes(&self) -> u64 {
        (self.size_and_count >> 48) << 9
    }

    /// How many blocks.
    pub fn count(&self) -> u64 {
        self.size_and_count & (u64::MAX >> 16)
    }
}

/// The header of a redaction list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedactionList {
    /// The last object that was gone through.
    pub last_object: u64,
    /// The last block of that.
    pub last_block: u64,
    /// Entries in the object.
    pub entries: u64,
    /// How many snapshots it was made for.
    pub snapshot_count: u64,
    /// Their GUIDs, as many as stand in the bonus: with `redaction_list_spill` they are in the spill block.
    pub snapshots: Vec<u64>,
}

impl RedactionList {
    /// Decodes the bonus.
    ///
    /// # Errors
    /// It is too short.
    pub fn decode(bonus: &[u8], endian: Endian) -> Result<RedactionList, FormatError> {
        let mut from = Reader::new("redaction list", bonus, endian);
        let [last_object, last_block, entries, snapshot_count]: [u64; 4] = from.get("header")?;
        let there = (from.left() / 8) as u64;
        let snapshots = (0..snapshot_count.min(there)).map(|_| from.get("snapshots"));
        let snapshots = snapshots.collect::<Result<_, _>>()?;
        Ok(RedactionList { last_object, last_block, entries, snapshot_count, snapshots })
    }

    /// The bonus.
    pub fn encode(&self, endian: Endian) -> Vec<u8> {
        let mut to = Writer::new(endian);
        [self.last_object, self.last_block, self.entries, self.snapshot_count].write(&mut to);
        self.snapshots.iter().for_each(|guid| to.put(*guid));
        to.into_bytes()
    }
}

impl Bookmark {
    /// The numbers of the ZAP's value, no more than are needed.
    pub fn to_value(&self) -> Vec<u64> {
        let mut numbers = self.to_numbers();
        if numbers.iter().skip(SHORT_NUMBERS).all(|number| *number == 0) {
            numbers.truncate(SHORT_NUMBERS);
        }
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_bookmarks_are_the_same_structure() {
        crate::wire::checks::holds_for_any_bytes::<Bookmark>();
        crate::wire::checks::holds_for_any_bytes::<RedactedBlocks>();
        for numbers in [vec![1, 2, 3], (1..=12).collect::<Vec<u64>>()] {
            let bookmark = Bookmark::from_numbers(&numbers).expect("a bookmark");
            assert_eq!((bookmark.guid, bookmark.creation_time), (1, 3));
            assert_eq!(bookmark.to_value(), numbers);
        }
        assert!(Bookmark::from_numbers(&[]).is_err());
        let blocks = RedactedBlocks { object: 1, block: 2, size_and_count: 256 << 48 | 3 };
        assert_eq!((blocks.block_bytes(), blocks.count()), (128 << 10, 3));
    }

    #[test]
    fn a_redaction_list_has_the_snapshots_that_stand_in_it() {
        let list = RedactionList {
            last_object: 1,
            last_block: 2,
            entries: 3,
            snapshot_count: 2,
            snapshots: vec![4, 5],
        };
        for endian in [Endian::Little, Endian::Big] {
            let bonus = list.encode(endian);
            assert_eq!(RedactionList::decode(&bonus, endian), Ok(list.clone()));
            assert!(RedactionList::decode(&bonus[..31], endian).is_err());
            let spilled = RedactionList::decode(&bonus[..32], endian).expect("the header");
            assert_eq!((spilled.snapshot_count, spilled.snapshots.len()), (2, 0));
        }
    }
}
