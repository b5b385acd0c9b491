//! Dnodes: an object's type, shape and first block pointers, in one or more slots of 512 bytes.
//!
//! ```text
//!   0   type                     8   data block in sectors (2)     16  highest block number
//!   1   indirect block shift     10  bytes of the bonus (2)        24  space used
//!   2   levels                   12  further slots                 32  unused (32)
//!   3   block pointers                                             64  block pointers, bonus, …
//!   4   type of the bonus                                              at the very end: spill pointer
//!   5   checksum, 6 compression, 7 flags
//! ```
//!
//! One to three block pointers come first, then the bonus: bytes of a structure of the bonus's type. The spill
//! pointer, where the flags have it, leads to a block that continues the bonus. A dnode of more than one slot is
//! followed by slots that are not dnodes. A slot of type 0 is free.
//!
//! The block pointers lead to a tree of [`levels`](Dnode::levels): 1 means that they lead to data. Which pointer
//! leads to a block is arithmetic: [`Dnode::path`].
//!
//! Bytes of the bonus stay as they are, in the byte order of the block that the dnode stands in.
//!
//! Source: OpenZFS, `dnode.h`, `dnode.c` (what is verified).

use crate::block_pointer::BlockPointer;
use crate::error::{FormatError, Problem};
use crate::object_type::ObjectType;
use crate::wire::{Endian, Reader, Wire, Writer};

/// Bytes of a slot.
pub const SLOT_BYTES: usize = 512;
/// Bytes of a block of the meta-dnode.
pub const BLOCK_BYTES: usize = 16 << 10;
/// Slots that a dnode takes at the most.
pub const SLOTS_MAX: usize = BLOCK_BYTES / SLOT_BYTES;
/// Objects in a block of the meta-dnode.
pub const OBJECTS_PER_BLOCK: u64 = SLOTS_MAX as u64;
/// Bytes before the block pointers.
const CORE_BYTES: usize = 64;
/// Block pointers at the most.
pub const POINTERS_MAX: usize = 3;
/// Levels at the most: what reaches 2⁶⁴ bytes by indirect blocks of 32 pointers, and one.
pub const LEVELS_MAX: u8 = 12;
/// Sizes of indirect blocks, as powers of two: 1 KiB (the oldest pools) to 1 MiB.
const INDIRECT_SHIFTS: std::ops::RangeInclusive<u8> = 10..=20;

const NAME: &str = "dnode";

/// Marks of a dnode.
pub mod flags {
    /// The space used is in bytes, not in sectors of 512.
    pub const USED_BYTES: u8 = 1;
    /// The space is counted for its user and group.
    pub const USER_USED_ACCOUNTED: u8 = 2;
    /// There is a spill pointer.
    pub const SPILL: u8 = 4;
    /// The object is counted for its user and group.
    pub const USER_OBJECT_ACCOUNTED: u8 = 8;
}

/// A dnode that is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dnode {
    /// What the object is.
    pub object_type: ObjectType,
    /// Bytes of an indirect block, as a power of two.
    pub indirect_shift: u8,
    /// 1 where the pointers lead to data.
    pub levels: u8,
    /// What the bonus is.
    pub bonus_type: ObjectType,
    /// The checksum's function by its number; 0 as the dataset's.
    pub checksum: u8,
    /// The compression's function by its number; 0 as the dataset's.
    pub compression: u8,
    /// See [`flags`].
    pub flags: u8,
    /// Bytes of a data block in sectors of 512.
    pub data_block_sectors: u16,
    /// Slots beyond the first.
    pub extra_slots: u8,
    /// The number of the last block.
    pub block_id_max: u64,
    /// Space used, see [`Dnode::used_bytes`].
    pub used: u64,
    /// One to three.
    pub pointers: Vec<BlockPointer>,
    /// The bonus's bytes.
    pub bonus: Vec<u8>,
    /// The pointer to what continues the bonus.
    pub spill: Option<BlockPointer>,
}

/// The way to a block of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Which of the dnode's pointers.
    pub pointer: usize,
    /// Which pointer in each indirect block, from the top down; none where the dnode's leads to the block.
    pub indirect: Vec<usize>,
}

impl Dnode {
    /// Decodes the dnode at the front of these bytes; nothing where the slot is free.
    ///
    /// # Errors
    /// The bytes are fewer than its slots, or its shape can't be.
    pub fn decode(bytes: &[u8], endian: Endian) -> Result<Option<Dnode>, FormatError> {
        let mut from = Reader::new(NAME, bytes, endian);
        let core: [u8; 8] = from.array("dnode")?;
        let [
            object_type,
            indirect_shift,
            levels,
            pointers,
            bonus_type,
            checksum,
            compression,
            marks,
        ] = core;
        let data_block_sectors = from.u16("data block sectors")?;
        let bonus_len = usize::from(from.u16("bonus length")?);
        let extra_slots = from.u8("extra slots")?;
        from.take("padding", 3)?;
        let block_id_max = from.u64("highest block number")?;
        let used = from.u64("used")?;
        from.seek("padding", CORE_BYTES)?;
        let object_type = ObjectType(object_type);
        if object_type == ObjectType::NONE {
            return Ok(None);
        }
        let bad = |field, at, value: u64| Err(from.wrong_at(field, at, Problem::Value(value)));
        if !object_type.is_valid() {
            return bad("type", 0, object_type.0.into());
        }
        if indirect_shift != 0 && !INDIRECT_SHIFTS.contains(&indirect_shift) {
            return bad("indirect block shift", 1, indirect_shift.into());
        }
        if !(1..=LEVELS_MAX).contains(&levels) || levels > 1 && indirect_shift == 0 {
            return bad("levels", 2, levels.into());
        }
        if !(1..=POINTERS_MAX).contains(&usize::from(pointers)) {
            return bad("block pointers", 3, pointers.into());
        }
        if !ObjectType(bonus_type).is_valid() {
            return bad("bonus type", 4, bonus_type.into());
        }
        if data_block_sectors == 0 {
            return bad("data block sectors", 8, 0);
        }
        let slots = usize::from(extra_slots) + 1;
        if slots > SLOTS_MAX {
            return bad("extra slots", 12, extra_slots.into());
        }
        let pointers =
            (0..pointers).map(|_| from.get("block pointer")).collect::<Result<_, _>>()?;
        let bonus_at = from.at();
        let has_spill = marks & flags::SPILL != 0;
        let end = slots * SLOT_BYTES - if has_spill { BlockPointer::BYTES } else { 0 };
        if end < bonus_at || bonus_len > end - bonus_at {
            return Err(from.wrong_at("bonus length", 10, Problem::Value(bonus_len as u64)));
        }
        let bonus = from.take("bonus", bonus_len)?.to_vec();
        from.seek("slots", end)?;
        let spill = if has_spill { Some(from.get("spill pointer")?) } else { None };
        Ok(Some(Dnode {
            object_type,
            indirect_shift,
            levels,
            bonus_type: ObjectType(bonus_type),
            checksum,
            compression,
            flags: marks,
            data_block_sectors,
            extra_slots,
            block_id_max,
            used,
            pointers,
            bonus,
            spill,
        }))
    }

    /// Its bytes: whole slots.
    ///
    /// # Errors
    /// Its shape can't be: more pointers, slots or bonus than there is room for, or a spill pointer without
    /// its flag.
    pub fn encode(&self, endian: Endian) -> Result<Vec<u8>, FormatError> {
        let mut to = Writer::new(endian);
        to.bytes(&[
            self.object_type.0,
            self.indirect_shift,
            self.levels,
            self.pointers.len() as u8,
            self.bonus_type.0,
            self.checksum,
            self.compression,
            self.flags,
        ]);
        to.put(self.data_block_sectors);
        to.put(self.bonus.len() as u16);
        to.put(self.extra_slots);
        to.zeros_to(16);
        to.put(self.block_id_max);
        to.put(self.used);
        to.zeros_to(CORE_BYTES);
        self.pointers.iter().for_each(|pointer| to.put(*pointer));
        to.bytes(&self.bonus);
        let end = (usize::from(self.extra_slots) + 1) * SLOT_BYTES;
        if let Some(spill) = self.spill {
            to.zeros_to(end - BlockPointer::BYTES);
            to.put(spill);
        }
        to.zeros_to(end);
        let bytes = to.into_bytes();
        // What can't be read back is refused here, whatever is wrong with it.
        match Dnode::decode(&bytes, endian)? {
            Some(again) if bytes.len() == end && again == *self => Ok(bytes),
            _ => Err(FormatError {
                structure: NAME,
                field: "shape",
                offset: 0,
                problem: Problem::Value(bytes.len() as u64),
            }),
        }
    }

    /// Slots that it takes.
    pub fn slots(&self) -> usize {
        usize::from(self.extra_slots) + 1
    }

    /// Bytes of a data block.
    pub fn data_block_bytes(&self) -> u64 {
        u64::from(self.data_block_sectors) << 9
    }

    /// Space that it takes on the vdevs, in bytes.
    pub fn used_bytes(&self) -> u64 {
        let shift = if self.flags & flags::USED_BYTES != 0 { 0 } else { 9 };
        self.used.saturating_mul(1 << shift)
    }

    /// Pointers in an indirect block, as a power of two.
    fn pointers_shift(&self) -> u32 {
        u32::from(self.indirect_shift).saturating_sub(BlockPointer::SHIFT)
    }

    /// The way to a data block; nothing where it is beyond what the tree can hold.
    pub fn path(&self, block: u64) -> Option<Path> {
        let shift = self.pointers_shift();
        let above = u32::from(self.levels.saturating_sub(1));
        let at = |level: u32| block.checked_shr(level * shift).unwrap_or(0);
        let pointer = usize::try_from(at(above)).ok()?;
        if pointer >= self.pointers.len() {
            return None;
        }
        let mask = (1u64 << shift) - 1;
        let indirect = (0..above).rev().map(|level| (at(level) & mask) as usize).collect();
        Some(Path { pointer, indirect })
    }

    /// Data blocks below one pointer of an indirect block of this level, at the most (a dnode's pointers are
    /// those of level [`levels`](Dnode::levels)). Level 1 is what stands over data: 1.
    pub fn blocks_below(&self, level: u8) -> u64 {
        let shift = u32::from(level.saturating_sub(1)) * self.pointers_shift();
        1u64.checked_shl(shift).unwrap_or(u64::MAX)
    }
}

/// The block of the meta-dnode that an object stands in, and its slot there.
pub fn place_of(object: u64) -> (u64, usize) {
    (object / OBJECTS_PER_BLOCK, (object % OBJECTS_PER_BLOCK) as usize)
}

/// The dnodes of a block of the meta-dnode, with their slots.
///
/// # Errors
/// The block is no multiple of a slot, or a dnode can't be or reaches beyond the block.
pub fn dnodes(block: &[u8], endian: Endian) -> Result<Vec<(usize, Dnode)>, FormatError> {
    let mut found = Vec::new();
    let mut slot = 0;
    while let Some(rest) = block.get(slot * SLOT_BYTES..).filter(|rest| !rest.is_empty()) {
        let at =
            |error: FormatError| FormatError { offset: error.offset + slot * SLOT_BYTES, ..error };
        match Dnode::decode(rest, endian).map_err(at)? {
            Some(dnode) => {
                let slots = dnode.slots();
                found.push((slot, dnode));
                slot += slots;
            }
            None if rest.len() < SLOT_BYTES => {
                let problem = Problem::Short;
                let offset = slot * SLOT_BYTES;
                return Err(FormatError { structure: NAME, field: "slot", offset, problem });
            }
            None => slot += 1,
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
