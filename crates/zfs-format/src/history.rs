//! The pool's history: what was done to it, as a ring of records.
//!
//! The object's bytes begin with the record of the pool's creation, which stays; after it comes a ring. A record is
//! its length (8 bytes, little-endian always) and a packed nvlist, native or XDR. The header is the bonus of the
//! object. Offsets in it are *logical*: they only grow, and are taken modulo the ring.
//!
//! Source: OpenZFS, `spa_history.c`.

use crate::nvlist::{Encoding, NvList};
use crate::wire::{Endian, Reader, record};
use stdx::bytes::{FormatError, Problem};

record! {
    /// Where the records lie.
    History = "history", 40, {
        /// Bytes of the record of the pool's creation.
        create_bytes: u64,
        /// Bytes of the object at the most.
        bytes_max: u64,
        /// The first record that is left.
        begin: u64,
        /// Past the last record.
        end: u64,
        /// Records that were overwritten.
        lost: u64,
    }
}

impl History {
    /// Where a logical offset lies in the object; nothing where the header can't be.
    pub fn physical(&self, logical: u64) -> Option<u64> {
        let ring = self.bytes_max.checked_sub(self.create_bytes)?;
        match logical.checked_sub(self.create_bytes) {
            None => Some(logical),
            Some(after) => after.checked_rem(ring)?.checked_add(self.create_bytes),
        }
    }
}

/// The records of a stretch of the history, in order. An unfinished one at the end is left alone.
///
/// # Errors
/// A record is no list.
pub fn records(bytes: &[u8]) -> Result<Vec<(NvList, Encoding)>, FormatError> {
    let mut from = Reader::new("history", bytes, Endian::Little);
    let mut found = Vec::new();
    while from.left() >= 8 {
        let len = from.u64("length")?;
        let len = usize::try_from(len).map_err(|_| from.wrong("length", Problem::Value(len)))?;
        if len > from.left() {
            break;
        }
        if len == 0 {
            return Err(from.wrong("length", Problem::Value(0)));
        }
        let (list, encoding, _) = NvList::decode(from.take("record", len)?)?;
        found.push((list, encoding));
    }
    Ok(found)
}

/// A record's bytes.
pub fn record(list: &NvList, encoding: Encoding) -> Vec<u8> {
    let packed = list.encode(encoding);
    [&(packed.len() as u64).to_le_bytes(), packed.as_slice()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvlist::Value;

    #[test]
    fn offsets_run_round_after_the_creation() {
        crate::wire::checks::holds_for_any_bytes::<History>();
        let mut header = History { create_bytes: 10, bytes_max: 110, begin: 10, end: 10, lost: 0 };
        let places = [5, 10, 109, 110, 215].map(|offset| header.physical(offset));
        assert_eq!(places, [5, 10, 109, 10, 15].map(Some));
        header.bytes_max = 10;
        assert_eq!(header.physical(20), None);
    }

    #[test]
    fn records_follow_one_another() {
        let mut list = NvList::default();
        list.set("history command", Value::String("zpool create".into()));
        let encodings = [Encoding::Native(Endian::Little), Encoding::Xdr(Endian::Little)];
        let bytes: Vec<u8> = encodings.iter().flat_map(|e| record(&list, *e)).collect();
        let expected: Vec<_> = encodings.iter().map(|encoding| (list.clone(), *encoding)).collect();
        assert_eq!(records(&bytes), Ok(expected.clone()));
        assert_eq!(records(&bytes[..bytes.len() - 1]), Ok(expected[..1].to_vec()));
        assert!(records(&[0; 8]).is_err());
    }
}
