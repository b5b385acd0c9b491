//! Changing an object: its blocks, its size, its bonus.
//!
//! Each change comes as two functions ([`change`](super::super::change)): one that *plans*, which looks and may need a block;
//! and one that is *carried out* within the same step, which can't fail. What was not planned is our bug.
//!
//! Bytes that cover a block whole take its place, by reference. Bytes that cover a part of one are copied into it.
//! A range that is zeroed frees the blocks that lie in it whole.

use super::super::step::Step;
use super::super::txg::Tx;
use super::{At, Block, Content, Dnode};
use crate::error::Problem;
use rt::Buf;
use std::ops::Range;
use std::rc::Rc;
use stdx::planted::{self, Bug};
use zfs_format::block_pointer::BlockPointer;
use zfs_format::dnode::{Dnode as DnodePhys, SLOT_BYTES, flags};
use zfs_format::object_type::ObjectType;
use zfs_format::wire::Wire;

/// Bytes of a dnode before its block pointers.
const CORE_BYTES: usize = 64;
/// Bytes of a sector, in which block sizes are counted.
const SECTOR: u64 = 512;
/// Bytes that an object can hold.
const BYTES_MAX: u64 = 1 << 63;

impl Dnode {
    /// Plans any change of it.
    ///
    /// # Errors
    /// It was freed: a damaged pool leads to an object from where it shouldn't.
    pub fn plan_change(&self) -> Step<()> {
        match self.0.is_free.get() {
            true => Err(self.problem(Problem::Absent).into()),
            false => Ok(()),
        }
    }

    /// Plans to put bytes at a place: the blocks that are changed in part must be in memory.
    ///
    /// # Errors
    /// One is not; or the place is beyond what an object can hold.
    pub fn plan_write(&self, range: Range<u64>) -> Step<()> {
        self.plan_change()?;
        if range.end > BYTES_MAX {
            return Err(self.problem(Problem::Count("of its bytes")).into());
        }
        for (number, part) in self.parts(&range) {
            if part.len() as u64 != self.block_bytes() {
                self.resident(number)?;
            }
        }
        Ok(())
    }

    /// Puts bytes at a place.
    pub fn write(&self, tx: &Tx, at: u64, bytes: &Buf) {
        let range = at..at.checked_add(bytes.len() as u64).expect("an object ends before 2^64");
        let size = self.block_bytes();
        for (number, part) in self.parts(&range) {
            let from = (number * size + part.start as u64 - at) as usize;
            let piece = bytes.slice(from..from + part.len());
            if part.len() as u64 == size {
                self.put(tx, number, Block { bytes: piece, endian: self.0.endian });
            } else {
                self.edit(tx, number, |block| block[part].copy_from_slice(piece.bytes()));
            }
        }
    }

    /// Plans to zero a range: the blocks at its ends must be in memory.
    ///
    /// # Errors
    /// One is not.
    pub fn plan_zero(&self, range: Range<u64>) -> Step<()> {
        let range = range.start..range.end.min(self.capacity());
        for (number, _) in self.ends(&range) {
            self.resident(number)?;
        }
        Ok(())
    }

    /// Zeros a range; what lies beyond the last block is zeros already. An object whose last block is freed ends before it.
    pub fn zero(&self, tx: &Tx, range: Range<u64>) {
        let range = range.start..range.end.min(self.capacity());
        if range.is_empty() {
            return;
        }
        for (number, part) in self.ends(&range) {
            // A hole stays one.
            let is_hole = matches!(self.resident_at(At::data(number)), Ok(None));
            if !is_hole && !planted::nth(Bug::TailKept, 5) {
                self.edit(tx, number, |block| block[part].fill(0));
            }
        }
        let size = self.block_bytes();
        let whole = range.start.div_ceil(size)..range.end / size;
        self.note_contents();
        let ends = !whole.is_empty() && whole.end > self.0.phys.borrow().block_id_max;
        let ends = ends && !planted::is(Bug::LastBlockKept);
        match ends {
            true => self.edit_phys(tx, |phys| phys.block_id_max = whole.start.saturating_sub(1)),
            false => self.note(tx),
        }
        self.0.dbufs.borrow_mut().free(tx, whole);
    }

    /// A block that is in memory takes the place of what is there.
    pub fn put(&self, tx: &Tx, number: u64, block: Block) {
        assert!(block.bytes.len() as u64 == self.block_bytes(), "a block is as long as all others");
        self.reach(tx, number);
        self.0.dbufs.borrow_mut().put(tx, At::data(number), Content::Block(block));
    }

    /// Changes bytes of a block, which was planned.
    pub fn edit(&self, tx: &Tx, number: u64, how: impl FnOnce(&mut [u8])) {
        let at = At::data(number);
        let above = self.0.dbufs.borrow().get(at);
        let clean = match above {
            // The dbuf has it; a second reference would only make a copy of it.
            Some(Content::Block(block)) => {
                drop(block);
                None
            }
            Some(Content::Hole) => Some(self.zeros()),
            None => self.resident(number).ok(),
        };
        // Only now: a block beyond the end is a hole, whatever the indirect block says that would lead to it.
        self.reach(tx, number);
        self.0.dbufs.borrow_mut().edit(tx, at, clean, how);
    }

    /// Plans another size of blocks: there may be one block only.
    ///
    /// # Errors
    /// There are more, or the size can't be.
    pub fn plan_block_bytes(&self, bytes: u64) -> Step<()> {
        let sectors = u16::try_from(bytes / SECTOR).unwrap_or(0);
        if !bytes.is_multiple_of(SECTOR) || sectors == 0 || self.0.phys.borrow().block_id_max != 0 {
            return Err(self.problem(Problem::BlockSize(bytes)).into());
        }
        Ok(())
    }

    /// Blocks are so long from here on, of an object that has none: what was planned.
    pub fn set_block_bytes(&self, tx: &Tx, bytes: u64) {
        self.note_contents();
        self.edit_phys(tx, |phys| {
            assert!(phys.block_id_max == 0, "the size of blocks changes while there is none");
            phys.data_block_sectors = (bytes / SECTOR) as u16;
        });
    }

    /// Another block takes the place of the only one, and its length is that of all blocks from here on.
    pub fn put_only(&self, tx: &Tx, block: Block) {
        let sectors = (block.bytes.len() as u64 / SECTOR) as u16;
        self.edit_phys(tx, |phys| {
            assert!(phys.block_id_max == 0, "the size of blocks changes while there is one");
            phys.data_block_sectors = sectors;
        });
        self.put(tx, 0, block);
    }

    /// It becomes a table beside what its bonus is: this is its first block, which was planned
    /// ([`Dnode::plan_block_bytes`]).
    pub fn become_table(&self, tx: &Tx, object_type: ObjectType, block: Block) {
        self.edit_phys(tx, |phys| phys.object_type = object_type);
        self.put_only(tx, block);
    }

    /// Bytes that its bonus may have.
    pub fn bonus_bytes_max(&self) -> usize {
        let phys = self.0.phys.borrow();
        let spill = if phys.spill.is_some() { BlockPointer::BYTES } else { 0 };
        let pointers = phys.pointers.len() * BlockPointer::BYTES;
        (phys.slots() * SLOT_BYTES).saturating_sub(CORE_BYTES + pointers + spill)
    }

    /// Plans a bonus of so many bytes.
    ///
    /// # Errors
    /// The object was freed, or has no room for it.
    pub fn plan_bonus(&self, len: usize) -> Step<()> {
        self.plan_change()?;
        match len <= self.bonus_bytes_max() {
            true => Ok(()),
            false => Err(self.problem(Problem::NoRoom("its bonus")).into()),
        }
    }

    /// The bonus becomes this, which was planned.
    pub fn set_bonus(&self, tx: &Tx, bonus: Vec<u8>) {
        assert!(bonus.len() <= self.bonus_bytes_max(), "a bonus fits its dnode");
        self.edit_phys(tx, |phys| phys.bonus = bonus);
    }

    /// There is a spill block from here on, so the bonus is shorter by a pointer: it must be set next.
    pub fn add_spill(&self, tx: &Tx, block: Block) {
        self.edit_phys(tx, |phys| {
            phys.flags |= flags::SPILL;
            phys.spill.get_or_insert(BlockPointer::HOLE);
            // Whoever adds a spill block lays the bonus out anew.
            phys.bonus.clear();
        });
        self.0.dbufs.borrow_mut().put(tx, At::SPILL, Content::Block(block));
    }

    /// The spill block goes; its pointer stays until it is synced, for who frees it.
    pub fn remove_spill(&self, tx: &Tx) {
        self.note(tx);
        self.0.dbufs.borrow_mut().put(tx, At::SPILL, Content::Hole);
    }

    /// A block of it, which is to be changed: the object ends with it, or behind it.
    pub(in super::super) fn reach(&self, tx: &Tx, number: u64) {
        self.note_contents();
        let known = self.0.phys.borrow().block_id_max;
        match number > known {
            true => self.edit_phys(tx, |phys| phys.block_id_max = number),
            false => self.note(tx),
        }
    }

    /// The object was made in this group.
    pub(in super::super) fn was_made(&self, tx: &Tx) {
        self.0.dirty.set(Some(tx.txg()));
        tx.changed((self.0.phys.borrow().slots() * SLOT_BYTES) as u64);
    }

    /// The object was freed: what holders of it find is nothing.
    pub(in super::super) fn bury(&self) {
        assert!(!self.0.is_free.replace(true), "an object is freed once");
        self.0.version.set(self.0.version.get() + 1);
    }

    /// Changes a block that was read: what a syncing group does, which nobody else changes it in.
    pub(in super::super) fn edit_read(
        &self,
        tx: &Tx,
        number: u64,
        block: Block,
        how: impl FnOnce(&mut [u8]),
    ) {
        self.reach(tx, number);
        self.0.dbufs.borrow_mut().edit(tx, At::data(number), Some(block), how);
    }

    fn note_contents(&self) {
        self.0.contents.set(self.0.contents.get() + 1);
    }

    fn edit_phys(&self, tx: &Tx, how: impl FnOnce(&mut DnodePhys)) {
        self.note(tx);
        how(Rc::make_mut(&mut self.0.phys.borrow_mut()));
    }

    /// It is being changed: it is of this group from here on.
    fn note(&self, tx: &Tx) {
        assert!(!self.0.is_free.get(), "what was freed is not changed");
        self.0.version.set(self.0.version.get() + 1);
        let before = self.0.dirty.replace(Some(tx.txg()));
        if before == Some(tx.txg()) {
            return tx.changed(0);
        }
        if let Some(txg) = before {
            tx.check_frozen(txg);
            *self.0.frozen.borrow_mut() = Some((txg, self.phys()));
        }
        tx.changed((self.0.phys.borrow().slots() * SLOT_BYTES) as u64);
        let changed = self.0.context.changed.upgrade().expect("an objset that is changed is open");
        // What stands in the root block is its objset's, and in no block of dnodes.
        if !self.is_in_root() {
            let mut changed = changed.borrow_mut();
            // Of an object that changes in the syncing group alone the handle is kept there too, once it is written.
            let slot = changed.dnodes.entry(self.0.number).or_insert_with(|| Some(self.clone()));
            let is_it = slot.as_ref().is_some_and(|known| Rc::ptr_eq(&known.0, &self.0));
            assert!(is_it, "an object has one handle that is changed");
        }
    }

    /// The blocks that a range touches, and which of their bytes.
    fn parts(&self, range: &Range<u64>) -> impl Iterator<Item = (u64, Range<usize>)> + use<> {
        let (size, range) = (self.block_bytes(), range.clone());
        let end = if range.is_empty() { 0 } else { (range.end - 1) / size + 1 };
        (range.start / size..end).map(move |number| (number, part(size, &range, number)))
    }

    /// The same of the blocks at its ends that it covers in part.
    fn ends(&self, range: &Range<u64>) -> Vec<(u64, Range<usize>)> {
        if range.is_empty() {
            return Vec::new();
        }
        let size = self.block_bytes();
        let mut ends = vec![range.start / size, (range.end - 1) / size];
        ends.dedup();
        let ends = ends.into_iter().map(|number| (number, part(size, range, number)));
        ends.filter(|(_, part)| part.len() as u64 != size).collect()
    }
}

/// The bytes of a block that a range touches.
fn part(size: u64, range: &Range<u64>, number: u64) -> Range<usize> {
    let base = number * size;
    range.start.saturating_sub(base) as usize..(range.end - base).min(size) as usize
}
