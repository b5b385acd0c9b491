//! Blocks of dnodes: what the bonus holds is a file's attributes, so it is encrypted; the pointers are not.
//!
//! An encrypted bonus goes from the last block pointer to the spill pointer or the end of the dnode's slots, whatever
//! length the dnode says it has. Free slots, and bonuses of other types, are associated data.

use super::message::{Parts, add_pointer};
use crate::block_pointer::BlockPointer;
use crate::dnode::{SLOT_BYTES, flags};
use crate::object_type::ObjectType;
use crate::wire::{Endian, Reader, Wire};
use stdx::bytes::{FormatError, Problem};

const NAME: &str = "encrypted dnode block";
/// Bytes before the block pointers.
pub(super) const CORE_BYTES: usize = 64;
/// Where the marks stand.
pub(super) const FLAGS_AT: usize = 7;
/// Where the space that is used stands, in 8 bytes: no machine has it as another.
pub(super) const USED_AT: usize = 24;
/// Marks that are the same on every machine.
pub(super) const PORTABLE_FLAGS: u8 = flags::SPILL;

/// A dnode's shape, of which only single bytes tell: so it is the same in both byte orders.
pub(super) struct Shape {
    /// Its core, with what is not portable taken out.
    pub(super) core: [u8; CORE_BYTES],
    pub(super) object_type: ObjectType,
    bonus_type: ObjectType,
    has_bonus: bool,
    /// The block pointers, and the spill pointer.
    pub(super) pointers: Vec<BlockPointer>,
    /// Where the bonus begins and where it ends at the most.
    bonus: (usize, usize),
    pub(super) slots: usize,
}

impl Shape {
    /// Of the dnode at the front of what is left.
    pub(super) fn read(from: &mut Reader<'_>) -> Result<Shape, FormatError> {
        let start = from.at();
        let mut core: [u8; CORE_BYTES] = from.array("dnode")?;
        let [object_type, _, _, many, bonus_type, _, _, marks, _, _, len_a, len_b, extra, ..] =
            core;
        let slots = usize::from(extra) + 1;
        let end = start + slots * SLOT_BYTES;
        let mut pointers = Vec::new();
        for _ in 0..many {
            // A bad number runs against the end of the block.
            pointers.push(from.get("block pointer")?);
        }
        let bonus_at = from.at();
        let has_spill = marks & flags::SPILL != 0;
        let bonus_end = if has_spill { end - BlockPointer::BYTES } else { end };
        if bonus_at > bonus_end {
            return Err(from.wrong_at("block pointers", start + 3, Problem::Value(many.into())));
        }
        if has_spill {
            from.seek("spill pointer", bonus_end)?;
            pointers.push(from.get("spill pointer")?);
        }
        from.seek("slots", end)?;
        core[FLAGS_AT] &= PORTABLE_FLAGS;
        core[USED_AT..USED_AT + 8].fill(0);
        Ok(Shape {
            core,
            object_type: ObjectType(object_type),
            bonus_type: ObjectType(bonus_type),
            has_bonus: len_a != 0 || len_b != 0,
            pointers,
            bonus: (bonus_at, bonus_end),
            slots,
        })
    }

    fn is_encrypted(&self) -> bool {
        self.object_type != ObjectType::NONE && self.bonus_type.is_encrypted() && self.has_bonus
    }
}

/// What of a block of dnodes is encrypted, for a key of this version.
///
/// # Errors
/// A dnode reaches beyond the end, or its pointers beyond the dnode.
pub fn dnode_block(block: &[u8], endian: Endian, version: u64) -> Result<Parts, FormatError> {
    let mut from = Reader::new(NAME, block, endian);
    let mut parts = Parts { end: block.len(), ..Parts::default() };
    parts.associated.reserve(block.len());
    while from.left() >= SLOT_BYTES {
        let shape = Shape::read(&mut from)?;
        parts.associated.extend_from_slice(&shape.core);
        for pointer in &shape.pointers {
            add_pointer(&mut parts.associated, pointer, version);
        }
        let (start, end) = shape.bonus;
        if shape.is_encrypted() {
            parts.encrypted.push(start..end);
        } else {
            parts.associated.extend_from_slice(&block[start..end]);
        }
    }
    Ok(parts)
}
