//! New objects: a free number, and a dnode without blocks.
//!
//! Numbers are given from where the last one was found free, block by block of the meta-dnode; where all that follow are taken, the
//! array becomes longer.
//!
//! A dnode has as many block pointers as its bonus leaves room for, three at the most; one where the bonus may grow (system
//! attributes).
//!
//! Source: OpenZFS, `dmu_object.c` (`dmu_object_alloc_impl`), `dnode.c` (`dnode_allocate`).

use super::dbuf::Block;
use super::dnode::Dnode;
use super::objset::Objset;
use super::step::{Blocked, Step};
use super::txg::Tx;
use crate::error::{Problem, ZfsError};
use rt::Buf;
use zfs_format::block_pointer::BlockPointer;
use zfs_format::dnode::{Dnode as DnodePhys, POINTERS_MAX, SLOT_BYTES, flags};
use zfs_format::object_type::ObjectType;
use zfs_format::wire::Wire;
use zfs_format::{Endian, dnode};

/// Bytes of indirect blocks, as a power of two: OpenZFS's default.
const INDIRECT_SHIFT: u8 = 17;
/// Bytes of a dnode before its block pointers.
const CORE_BYTES: usize = 64;
/// Bytes of a sector.
const SECTOR: u64 = 512;
/// Blocks of dnodes in which one step looks for a free number.
const LOOKS_MAX: usize = 64;

/// An object that is to be made.
#[derive(Clone, Debug)]
pub struct NewObject {
    /// What it is.
    pub object_type: ObjectType,
    /// Bytes of its blocks.
    pub block_bytes: u64,
    /// What its bonus is.
    pub bonus_type: ObjectType,
    /// Its bonus.
    pub bonus: Vec<u8>,
    /// Its first block, where it has one from the start.
    pub first: Option<Buf>,
}

impl NewObject {
    /// An object of a type, without a bonus.
    pub fn of(object_type: ObjectType, block_bytes: u64) -> NewObject {
        let (bonus_type, bonus, first) = (ObjectType::NONE, Vec::new(), None);
        NewObject { object_type, block_bytes, bonus_type, bonus, first }
    }

    /// The same with a bonus.
    pub fn with_bonus(mut self, bonus_type: ObjectType, bonus: Vec<u8>) -> NewObject {
        (self.bonus_type, self.bonus) = (bonus_type, bonus);
        self
    }

    /// The same with a first block, which says how long all are.
    pub fn with_first(mut self, first: Buf) -> NewObject {
        self.block_bytes = first.len() as u64;
        self.first = Some(first);
        self
    }

    /// Its dnode, of so many slots.
    fn phys(&self, slots: usize) -> DnodePhys {
        let room = slots * SLOT_BYTES - CORE_BYTES;
        let left = room.saturating_sub(self.bonus.len()) / BlockPointer::BYTES;
        let pointers = match self.bonus_type {
            ObjectType::SA => 1,
            _ => left.clamp(1, POINTERS_MAX),
        };
        assert!(
            pointers * BlockPointer::BYTES + self.bonus.len() <= room,
            "a bonus fits its dnode"
        );
        DnodePhys {
            object_type: self.object_type,
            indirect_shift: INDIRECT_SHIFT,
            levels: 1,
            bonus_type: self.bonus_type,
            checksum: 0,
            compression: 0,
            flags: flags::USED_BYTES,
            data_block_sectors: u16::try_from(self.block_bytes / SECTOR)
                .expect("a block that can be"),
            extra_slots: (slots - 1) as u8,
            block_id_max: 0,
            used: 0,
            pointers: vec![BlockPointer::HOLE; pointers],
            bonus: self.bonus.clone(),
            spill: None,
        }
    }
}

/// The meta-dnode of an objset that is new.
pub fn new_meta() -> DnodePhys {
    let meta = NewObject::of(ObjectType::DNODE, dnode::BLOCK_BYTES as u64);
    meta.phys(1)
}

impl Objset {
    /// A number that an object can be made at, in so many slots: plan.
    ///
    /// # Errors
    /// A block of dnodes is not in memory, or there are as many objects as there can be.
    pub fn plan_number(&self, slots: usize) -> Step<(u64, Endian)> {
        let mut number = self.next_number();
        for _ in 0..LOOKS_MAX * dnode::OBJECTS_PER_BLOCK as usize {
            match self.plan_allocate(number, slots) {
                Ok(endian) => return Ok((number, endian)),
                Err(Blocked::Wrong(ZfsError::Object { problem: Problem::Taken, .. })) => {
                    number += 1
                }
                Err(other) => return Err(other),
            }
            self.set_next_number(number);
        }
        let (what, limit) = ("objects that are looked at for a free one", LOOKS_MAX as u64);
        Err(self.wrong(0, Problem::Limit { what, limit }).into())
    }

    /// Makes an object at a number that was planned.
    pub fn make_at(&self, tx: &Tx, number: u64, endian: Endian, new: &NewObject) -> Dnode {
        self.set_next_number(number + 1);
        let dnode = self.allocate(tx, number, new.phys(1), endian);
        if let Some(bytes) = new.first.clone() {
            dnode.put(tx, 0, Block { bytes, endian });
        }
        dnode
    }

    /// Makes a table in which it is counted what users (0), groups (1) or projects (2) take.
    pub fn make_used(&self, tx: &Tx, table: usize, new: &NewObject) -> Dnode {
        let dnode = self.put_used(table, new.phys(1));
        dnode.was_made(tx);
        if let Some(bytes) = new.first.clone() {
            dnode.put(tx, 0, Block { bytes, endian: Endian::Little });
        }
        dnode
    }

    /// Makes an object, by a change of its own.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn make(&self, new: &NewObject) -> Result<Dnode, ZfsError> {
        self.change(|tx| {
            let (number, endian) = self.plan_number(1)?;
            Ok(self.make_at(tx, number, endian, new))
        })
        .await
    }

    /// Makes an object at this number, by a change of its own.
    ///
    /// # Errors
    /// The number is taken, or what is needed can't be had.
    pub async fn claim(&self, number: u64, new: &NewObject) -> Result<Dnode, ZfsError> {
        self.change(|tx| {
            let endian = self.plan_allocate(number, 1)?;
            Ok(self.make_at(tx, number, endian, new))
        })
        .await
    }
}
