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
//! A dnode is found in its block in place ([`find`]): a slot within a dnode of several slots looks like anything, so the
//! block is walked from its start, by two bytes of each dnode. One dnode is put into its block in place, too ([`put`]).
//!
//! Source: OpenZFS, `dnode.h`, `dnode.c` (what is verified).

use crate::block_pointer::BlockPointer;
use crate::object_type::ObjectType;
use crate::wire::{Endian, Reader, Wire, Writer};
use std::ops::Range;
use stdx::bytes::{FormatError, Problem};

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
/// Where a dnode counts its further slots.
const EXTRA_SLOTS_AT: usize = 12;
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

/// The numbers that say whether a dnode can be.
struct Shape {
    object_type: ObjectType,
    indirect_shift: u8,
    levels: u8,
    pointers: usize,
    bonus_type: ObjectType,
    data_block_sectors: u16,
    slots: usize,
}

impl Shape {
    fn check(&self) -> Result<(), FormatError> {
        let Shape { indirect_shift, levels, pointers, slots, .. } = *self;
        if !self.object_type.is_valid() {
            return Err(wrong("type", 0, self.object_type.0.into()));
        }
        if indirect_shift != 0 && !INDIRECT_SHIFTS.contains(&indirect_shift) {
            return Err(wrong("indirect block shift", 1, indirect_shift.into()));
        }
        if !(1..=LEVELS_MAX).contains(&levels) || levels > 1 && indirect_shift == 0 {
            return Err(wrong("levels", 2, levels.into()));
        }
        if !(1..=POINTERS_MAX).contains(&pointers) {
            return Err(wrong("block pointers", 3, pointers as u64));
        }
        if !self.bonus_type.is_valid() {
            return Err(wrong("bonus type", 4, self.bonus_type.0.into()));
        }
        if self.data_block_sectors == 0 {
            return Err(wrong("data block sectors", 8, 0));
        }
        if slots > SLOTS_MAX {
            return Err(wrong("extra slots", 12, slots as u64 - 1));
        }
        Ok(())
    }
}

fn wrong(field: &'static str, offset: usize, value: u64) -> FormatError {
    FormatError { structure: NAME, field, offset, problem: Problem::Value(value) }
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
        let slots = usize::from(extra_slots) + 1;
        let bonus_type = ObjectType(bonus_type);
        let shape = Shape {
            object_type,
            indirect_shift,
            levels,
            pointers: pointers.into(),
            bonus_type,
            data_block_sectors,
            slots,
        };
        shape.check()?;
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
            bonus_type,
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
        self.check()?;
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
        let end = self.slots() * SLOT_BYTES;
        if let Some(spill) = self.spill {
            to.zeros_to(end - BlockPointer::BYTES);
            to.put(spill);
        }
        to.zeros_to(end);
        let bytes = to.into_bytes();
        assert_eq!(bytes.len(), end, "a dnode that was checked fills its slots");
        Ok(bytes)
    }

    /// Refuses what can't be read back.
    fn check(&self) -> Result<(), FormatError> {
        let shape = Shape {
            object_type: self.object_type,
            indirect_shift: self.indirect_shift,
            levels: self.levels,
            pointers: self.pointers.len(),
            bonus_type: self.bonus_type,
            data_block_sectors: self.data_block_sectors,
            slots: self.slots(),
        };
        shape.check()?;
        if self.object_type == ObjectType::NONE {
            return Err(wrong("type", 0, 0));
        }
        let spilled = self.flags & flags::SPILL != 0;
        if spilled != self.spill.is_some() {
            return Err(wrong("flags", 7, self.flags.into()));
        }
        let taken = CORE_BYTES + (self.pointers.len() + usize::from(spilled)) * BlockPointer::BYTES;
        match (self.slots() * SLOT_BYTES).checked_sub(taken) {
            Some(room) if self.bonus.len() <= room => Ok(()),
            _ => Err(wrong("bonus length", 10, self.bonus.len() as u64)),
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

/// The dnode that begins at a slot of a block of the meta-dnode; nothing where the slot is free, or within another.
/// The other dnodes are not decoded.
///
/// # Errors
/// The dnode can't be or reaches beyond the block, or the block ends before the slot.
pub fn find(block: &[u8], slot: usize, endian: Endian) -> Result<Option<Dnode>, FormatError> {
    let mut at = 0;
    while at < slot {
        at += slots_at(block, at)?;
    }
    if at > slot {
        return Ok(None);
    }
    let begin = slot * SLOT_BYTES;
    slots_at(block, slot)?;
    let moved = |error: FormatError| FormatError { offset: error.offset + begin, ..error };
    Dnode::decode(block.get(begin..).unwrap_or_default(), endian).map_err(moved)
}

/// Slots of what begins at a slot of a block; 1 of a free one.
fn slots_at(block: &[u8], slot: usize) -> Result<usize, FormatError> {
    let begin = slot * SLOT_BYTES;
    let from = Reader::little(NAME, block);
    let bytes = from.slice("slot", begin, SLOT_BYTES)?;
    match bytes[0] {
        0 => Ok(1),
        _ if usize::from(bytes[EXTRA_SLOTS_AT]) < SLOTS_MAX => {
            Ok(usize::from(bytes[EXTRA_SLOTS_AT]) + 1)
        }
        _ => {
            let extra = bytes[EXTRA_SLOTS_AT];
            Err(from.wrong_at("extra slots", begin + EXTRA_SLOTS_AT, Problem::Value(extra.into())))
        }
    }
}

/// Puts a dnode into its block, or takes out the one that begins there: its slots are free then.
///
/// # Errors
/// Its shape can't be, or what stands in the block is damaged; the block is as it was.
///
/// # Panics
/// It would reach beyond the block, into another dnode, or begin within one.
pub fn put(
    block: &mut [u8],
    slot: usize,
    dnode: Option<&Dnode>,
    endian: Endian,
) -> Result<(), FormatError> {
    let mut at = 0;
    while at < slot {
        at += slots_at(block, at)?;
    }
    assert_eq!(at, slot, "a dnode does not begin within another");
    let before = slots_at(block, slot)?;
    let bytes = dnode.map_or(Ok(Vec::new()), |dnode| dnode.encode(endian))?;
    let slots = before.max(bytes.len() / SLOT_BYTES);
    assert!((slot + slots) * SLOT_BYTES <= block.len(), "a dnode ends within its block");
    for further in slot + before..slot + slots {
        assert_eq!(block[further * SLOT_BYTES], 0, "a dnode grows over free slots only");
    }
    let place = &mut block[slot * SLOT_BYTES..(slot + slots) * SLOT_BYTES];
    let (new, rest) = place.split_at_mut(bytes.len());
    new.copy_from_slice(&bytes);
    rest.fill(0);
    Ok(())
}

/// The slots that each dnode of a block of the meta-dnode takes, in order. No dnode is decoded.
///
/// # Errors
/// The block is no multiple of a slot, or a dnode claims more slots than there can be.
pub fn taken(block: &[u8]) -> Result<Vec<Range<usize>>, FormatError> {
    let (mut taken, mut slot) = (Vec::new(), 0);
    while slot * SLOT_BYTES < block.len() {
        let slots = slots_at(block, slot)?;
        if block[slot * SLOT_BYTES] != 0 {
            taken.push(slot..slot + slots);
        }
        slot += slots;
    }
    Ok(taken)
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
