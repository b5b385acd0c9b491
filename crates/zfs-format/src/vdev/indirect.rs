//! Removed vdevs: where their blocks went.
//!
//! A removed vdev is *indirect*: block pointers still name it, and its mapping says for each range of it where the
//! data lies now, sorted by the old offset. When each range was moved stands in the births, by which a block's
//! physical birth on the new vdev is known. The mapping's obsolete parts are condensed away in the background.
//!
//! The mapping is an object of [entries](MappingEntry) in a row, with the header as its bonus (32 bytes, or 24
//! without counts); births likewise.
//!
//! Source: OpenZFS, `vdev_indirect_mapping.h`, `vdev_indirect_births.h`, `vdev_removal.c`, `spa_impl.h`.

use crate::block_pointer::Dva;
use crate::wire::{Endian, Reader, Record, Wire, record};
use stdx::bytes::FormatError;

record! {
    /// A range that moved.
    MappingEntry = "mapping entry", 24, {
        /// The old offset in sectors of 512 bytes; the highest bit is a mark of `zdb`'s.
        source_sectors: u64,
        /// The new place; its allocated size is the range's length.
        target: Dva,
    }
}

impl MappingEntry {
    /// The old offset in bytes.
    pub fn source(&self) -> u64 {
        (self.source_sectors & (u64::MAX >> 1)).saturating_mul(512)
    }
}

record! {
    /// The header of a mapping.
    Mapping = "indirect mapping", 32, {
        /// Past the last old offset, in bytes.
        max_offset: u64,
        /// Bytes that moved.
        bytes_mapped: u64,
        /// How many entries.
        entries: u64,
        /// The object with the obsolete bytes of each entry (4 bytes each); 0 for none.
        counts: u64,
    }
}

impl Mapping {
    /// Decodes the bonus, which may end before `counts`.
    ///
    /// # Errors
    /// It is shorter than 24 bytes.
    pub fn from_bonus(bonus: &[u8], endian: Endian) -> Result<Mapping, FormatError> {
        if bonus.len() >= Mapping::BYTES {
            return Mapping::decode(bonus, endian);
        }
        let [max_offset, bytes_mapped, entries] =
            Reader::new(Mapping::NAME, bonus, endian).get("header")?;
        Ok(Mapping { max_offset, bytes_mapped, entries, counts: 0 })
    }
}

record! {
    /// When a part of a vdev moved.
    BirthEntry = "birth entry", 16, {
        /// The last old offset of the part, in bytes.
        offset: u64,
        /// The transaction group that moved it.
        txg: u64,
    }
}

record! {
    /// The header of births.
    Births = "indirect births", 8, {
        /// How many entries.
        entries: u64,
    }
}

record! {
    /// How far a removal came; numbers of the pool's directory.
    Removal = "removal", 56, {
        /// As in [`Scan`](crate::dsl::scan::Scan).
        state: u64,
        /// The vdev that is or was removed; −1 for none.
        vdev: u64,
        /// The vdev that was removed before; −1 for none.
        previous_vdev: u64,
        /// When it began, in seconds since 1970.
        start_time: u64,
        /// When it ended, in seconds since 1970.
        end_time: u64,
        /// Bytes to be copied.
        to_copy: u64,
        /// Bytes copied or freed.
        copied: u64,
    }
}

record! {
    /// Which mapping is being condensed; numbers of the pool's directory.
    Condensing = "condensing", 24, {
        /// The vdev.
        vdev: u64,
        /// The space map of what is obsolete.
        obsolete: u64,
        /// The new mapping.
        mapping: u64,
    }
}

/// The entries of a mapping, births or anything else in a row.
///
/// # Errors
/// The bytes are no multiple of an entry.
pub fn entries<R: Record>(content: &[u8], endian: Endian) -> Result<Vec<R>, FormatError> {
    let mut from = Reader::new(R::NAME, content, endian);
    (0..content.len().div_ceil(R::BYTES)).map(|_| from.get("entry")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::checks::holds_for_any_bytes;

    #[test]
    fn any_bytes_hold() {
        holds_for_any_bytes::<MappingEntry>();
        holds_for_any_bytes::<Mapping>();
        holds_for_any_bytes::<BirthEntry>();
        holds_for_any_bytes::<Births>();
        holds_for_any_bytes::<Removal>();
        holds_for_any_bytes::<Condensing>();
    }

    #[test]
    fn entries_follow_one_another_and_old_headers_have_no_counts() {
        let entry =
            MappingEntry { source_sectors: 1 << 63 | 4, target: Dva::new(1, 512, 1024, false) };
        assert_eq!(entry.source(), 2048);
        let bytes = [entry.encode(Endian::Little), entry.encode(Endian::Little)].concat();
        assert_eq!(entries(&bytes, Endian::Little), Ok(vec![entry.clone(), entry]));
        assert!(entries::<MappingEntry>(&bytes[1..], Endian::Little).is_err());
        let old = Mapping::from_bonus(&[0; 24], Endian::Little).expect("24 bytes");
        assert_eq!(old.counts, 0);
        assert!(Mapping::from_bonus(&[0; 23], Endian::Little).is_err());
    }
}
