//! Lists of block pointers that grow, and what the blocks in them take.
//!
//! Source: OpenZFS, `bpobj.c` (`bpobj_enqueue`), `dsl_dataset.c` (what is counted).

use crate::dmu::{Dnode, Objset};
use crate::error::ZfsError;
use rt::Buf;
use zfs_format::block_pointer::BlockPointer;
use zfs_format::checksum::Checksum;
use zfs_format::dsl::bpobj::BpObj;
use zfs_format::wire::Wire;
use zfs_store::Tree;

/// How a pool's blocks are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Bytes as people are told them.
    pub used: i64,
    /// As compressed.
    pub compressed: i64,
    /// Before compression.
    pub uncompressed: i64,
}

impl Sums {
    /// What a block counts.
    pub fn of(tree: &Tree, pointer: &BlockPointer) -> Sums {
        let is_metadata = pointer.level() > 0 || pointer.object_type().is_metadata();
        let physical = if pointer.is_embedded() { 0 } else { pointer.physical_size() };
        let logical = if is_metadata { physical } else { pointer.logical_size() };
        Sums {
            used: tree.deflated_size(pointer) as i64,
            compressed: physical as i64,
            uncompressed: logical as i64,
        }
    }

    /// Adds, or takes away.
    pub fn add(&mut self, other: Sums, sign: i64) {
        self.used += sign * other.used;
        self.compressed += sign * other.compressed;
        self.uncompressed += sign * other.uncompressed;
    }
}

/// Puts pointers onto a bpobj.
///
/// # Errors
/// What is needed can't be had.
pub async fn append_pointers(
    mos: &Objset,
    object: &Dnode,
    pointers: &[BlockPointer],
    tree: &Tree,
) -> Result<(), ZfsError> {
    let wrong = |error| object.wrong(error);
    let endian = object.endian();
    let mut list = BpObj::decode(&object.phys().bonus, endian).map_err(wrong)?;
    let at = list.pointers * BlockPointer::BYTES as u64;
    let mut bytes = Vec::with_capacity(pointers.len() * BlockPointer::BYTES);
    for pointer in pointers {
        let mut kept = *pointer;
        // What only who reads the block needs is left out.
        if !kept.is_embedded() {
            kept.set_checksum(Checksum::default());
            // In a list its lowest bit says that the block was freed.
            kept.set_fill(0);
        }
        bytes.extend(kept.words.iter().flat_map(|word| endian.bytes(*word)));
        let sums = Sums::of(tree, pointer);
        list.bytes = list.bytes.wrapping_add_signed(sums.used);
        list.compressed = list.compressed.wrapping_add_signed(sums.compressed);
        list.uncompressed = list.uncompressed.wrapping_add_signed(sums.uncompressed);
    }
    list.pointers += pointers.len() as u64;
    let (bytes, bonus) = (Buf::copy_of(&bytes), list.encode(endian));
    mos.change(|tx| {
        object.plan_write(at..at + bytes.len() as u64)?;
        object.write(tx, at, &bytes);
        object.set_bonus(tx, bonus.clone());
        Ok(())
    })
    .await
}
