//! The intent log: blocks whose checksum fits, and their records.

use super::{order, words};
use crate::machine::Input;
use zfs_format::block_pointer::BlockPointer;
use zfs_format::checksum::{Checksum, ChecksumFunction};
use zfs_format::zil::{LogBlock, record};
use zfs_format::{Endian, encryption};

/// A block of a log with any records, and records by themselves: each decodes to something that encodes to it.
pub fn intent_log(input: &[u8]) {
    let mut input = Input::new(input);
    let (endian, bits) = order(&mut input);
    let bytes = input.rest();
    if let Ok(records) = record::records(bytes, endian) {
        for record in &records {
            let again = record.encode(endian);
            let (decoded, used) =
                record::LogRecord::decode(&again, endian).expect("what was decoded is encoded");
            assert_eq!((&decoded, used), (record, again.len()));
            let _ = record.cloned(endian);
        }
    }
    let _ = record::written(bytes, endian);
    let _ = (record::strings(bytes), encryption::log_block(bytes, endian));
    let _ = record::OptionalAttributes::decode(bytes, endian);
    let mut pointer = BlockPointer::HOLE;
    let functions = [ChecksumFunction::Zilog, ChecksumFunction::Zilog2];
    pointer.set_checksum_function(functions[usize::from(bits & 1)]);
    pointer.set_endian(endian);
    // The hash says yes to everything: what is behind the checksum is looked for.
    if let Ok(block) = LogBlock::decode(bytes, &pointer, |_, _| stored(bytes, bits & 1 == 1)) {
        let _ = record::records(&block.records, block.endian);
    }
    if let Ok(block) = LogBlock::decode_checked(bytes, &pointer) {
        let _ = record::records(&block.records, block.endian);
    }
}

/// The checksum that a block carries, at the front (zilog2) or at the end.
fn stored(bytes: &[u8], slim: bool) -> Checksum {
    const CHAIN_BYTES: usize = 184;
    let at = if slim { 0 } else { bytes.len().saturating_sub(CHAIN_BYTES) };
    let mut input = Input::new(bytes.get(at + CHAIN_BYTES - 32..).unwrap_or_default());
    Checksum { words: std::array::from_fn(|_| input.number::<8>()) }
}

/// Seeds of [`intent_log`]: a write and a removal; whole blocks come from pools.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut write = words(&[9, 200, 3, 1, 5, 0, 8, 0, 0]);
    write.extend(words(&[0; 16]));
    write.truncate(192);
    write.extend([7; 8]);
    let mut remove = words(&[6, 48, 4, 2, 5]);
    remove.extend(b"a name\0\0");
    let both = [write, remove].concat();
    let mut big = both.clone();
    for word in big.chunks_exact_mut(8) {
        word.reverse();
    }
    vec![
        super::little(&both),
        [&[1], &big[..]].concat(),
        vec![2; 4097],
        [&[Endian::Big as u8], &both[..]].concat(),
    ]
}
