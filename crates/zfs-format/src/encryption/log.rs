//! Blocks of the intent log: written before anyone can know the MAC, and claimed without the key.
//!
//! The MAC stands in the block, in the second half of the chain's checksum. The chain without its checksum, the header
//! of each record, and the pointers in records of writes and clones are associated data; the rest of each record is
//! encrypted.

use super::message::Parts;
use crate::wire::{Endian, Reader, Wire};
use crate::zil::Chain;
use stdx::bytes::{FormatError, Problem};

const NAME: &str = "encrypted log block";
/// Bytes of a chain before magic number and checksum.
const CHAIN_BYTES: usize = 144;
/// Where the MAC stands: the third word of the chain's checksum.
pub const LOG_MAC_AT: usize = 168;
/// Where a chain says how many bytes are used.
const USED_AT: usize = 136;
/// Bytes of a record's header: type, length, transaction group, sequence number.
const RECORD_BYTES: usize = 32;
/// Where the pointers stand in a record that has some.
const POINTERS_AT: usize = 64;
/// Where what is written begins, behind the pointer.
const WRITTEN_AT: usize = 192;
const WRITE: u64 = 9;
const CLONE_RANGE: u64 = 24;

/// What of a block of the intent log is encrypted, and its MAC.
///
/// # Errors
/// A record reaches beyond what is used, or that beyond the block.
pub fn log_block(block: &[u8], endian: Endian) -> Result<(Parts, [u8; 16]), FormatError> {
    let mut from = Reader::new(NAME, block, endian);
    from.seek("used", USED_AT)?;
    let used = from.u64("used")?;
    from.seek("MAC", LOG_MAC_AT)?;
    let mac = from.array("MAC")?;
    let end = usize::try_from(used).ok().filter(|end| (Chain::BYTES..=block.len()).contains(end));
    let end = end.ok_or_else(|| from.wrong_at("used", USED_AT, Problem::Value(used)))?;
    let mut parts = Parts { end, ..Parts::default() };
    parts.associated.extend_from_slice(&block[..CHAIN_BYTES]);
    let mut at = Chain::BYTES;
    while at < end {
        from.seek("record", at)?;
        let (kind, len) = (from.u64("record type")?, from.u64("record length")?);
        let wrong = || from.wrong_at("record length", at + 8, Problem::Value(len));
        let shortest = match kind {
            WRITE => WRITTEN_AT,
            CLONE_RANGE => POINTERS_AT,
            _ => RECORD_BYTES,
        };
        let len = usize::try_from(len).ok().filter(|len| (shortest..=end - at).contains(len));
        let len = len.ok_or_else(wrong)?;
        let clear_from = match kind {
            WRITE | CLONE_RANGE => POINTERS_AT,
            _ => len,
        };
        let clear_to = if kind == WRITE { WRITTEN_AT } else { len };
        let record = &block[at..at + len];
        parts.associated.extend_from_slice(&record[..RECORD_BYTES]);
        parts.associated.extend_from_slice(&record[clear_from..clear_to]);
        parts.encrypted.push(at + RECORD_BYTES..at + clear_from);
        parts.encrypted.push(at + clear_to..at + len);
        at += len;
    }
    Ok((parts, mac))
}
