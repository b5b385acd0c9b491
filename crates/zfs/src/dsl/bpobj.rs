//! Lists of block pointers that grow and join, and what the blocks in them take.
//!
//! A list may hold others. One that joins another brings the lists in it along, so that there is one level of them however often
//! lists join; a short one is copied. What a list says of bytes is of all that is in it.
//!
//! All that are empty in a pool are one list, of which is counted how often it is used (feature `empty_bpobj`): a deadlist has one
//! for each snapshot before it, and most stay empty. Who puts something into it takes a list of its own first.
//!
//! Source: OpenZFS, `bpobj.c` (`bpobj_enqueue`, `bpobj_enqueue_subobj`, `bpobj_decr_empty`), `dsl_dataset.c` (what is counted).

use super::make::Maker;
use crate::dmu::{Dnode, NewObject, Objset};
use crate::error::{Problem, ZfsError};
use crate::zap::{Zap, table};
use rt::Buf;
use stdx::planted::{self, Bug};
use zfs_format::block_pointer::BlockPointer;
use zfs_format::dsl::bpobj::{BpObj, BpObjSize, listed};
use zfs_format::object_type::ObjectType;
use zfs_format::pool_directory;
use zfs_format::wire::{Reader, Wire};
use zfs_store::Tree;

/// Pointers of a list that is copied when it joins another: a block of them.
const COPIED_MAX: u64 = 1024;
/// Pointers of a list that are taken off it at a time.
const DRAINED_MAX: u64 = 1 << 13;
/// The feature of the list that stands for all empty ones.
const EMPTY: &str = "empty_bpobj";
/// Lists in a list, as a bound on damaged pools.
const LISTS_MAX: u64 = 1 << 24;
/// Bytes of the blocks of an object with the numbers of lists.
const LISTS_BLOCK_BYTES: u64 = 128 << 10;

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

    /// What a list or several have counted has so much more, or less: bytes used, compressed, uncompressed. They wrap, too.
    pub fn count_in(&self, sign: i64, counters: [&mut u64; 3]) {
        let own = [self.used, self.compressed, self.uncompressed];
        for (counter, bytes) in counters.into_iter().zip(own) {
            *counter = counter.wrapping_add_signed(sign.wrapping_mul(bytes));
        }
    }

    /// Adds, or takes away. What a damaged pool has counted wraps, as its counters do.
    pub fn add(&mut self, other: Sums, sign: i64) {
        let add = |to: &mut i64, bytes: i64| *to = to.wrapping_add(sign.wrapping_mul(bytes));
        add(&mut self.used, other.used);
        add(&mut self.compressed, other.compressed);
        add(&mut self.uncompressed, other.uncompressed);
    }
}

/// What was taken off a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// The blocks of it.
    pub sums: Sums,
    /// How many more might have been taken; 0 where there may be some left.
    pub left: u64,
}

/// What a list says of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It is there.
    Allocated,
    /// Of a livelist: it was there, and is not any more.
    Freed,
}

impl Told {
    /// How it counts.
    pub fn sign(self) -> i64 {
        match self {
            Told::Allocated => 1,
            Told::Freed => -1,
        }
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
    append_told(mos, object, pointers, Told::Allocated, tree).await
}

/// The same, and what is said of them.
///
/// # Errors
/// What is needed can't be had, or the list can't say so.
pub async fn append_told(
    mos: &Objset,
    object: &Dnode,
    pointers: &[BlockPointer],
    told: Told,
    tree: &Tree,
) -> Result<(), ZfsError> {
    let endian = object.endian();
    let mut list = header(object)?;
    if told == Told::Freed && list.size < BpObjSize::V3 {
        return Err(object.problem(Problem::Entry("of a freed block in a list")));
    }
    let at = list.pointers * BlockPointer::BYTES as u64;
    let mut bytes = Vec::with_capacity(pointers.len() * BlockPointer::BYTES);
    for pointer in pointers {
        let kept = match planted::is(Bug::DeadKeepsData) && pointer.is_embedded() {
            true => *pointer,
            false => listed(pointer, told == Told::Freed),
        };
        bytes.extend(kept.words.iter().flat_map(|word| endian.bytes(*word)));
        if planted::nth(Bug::DeadNotCounted, 20) {
            continue;
        }
        count(&mut list, Sums::of(tree, pointer), told.sign());
    }
    list.pointers += pointers.len() as u64;
    if told == Told::Freed {
        list.freed = list.freed.wrapping_add(pointers.len() as u64);
    }
    let (bytes, bonus) = (Buf::copy_of(&bytes), list.encode(endian));
    mos.change(|tx| {
        object.plan_write(at..at + bytes.len() as u64)?;
        object.plan_bonus(bonus.len())?;
        object.write(tx, at, &bytes);
        object.set_bonus(tx, bonus.clone());
        Ok(())
    })
    .await
}

/// What a list's bonus says.
///
/// # Errors
/// It is none.
pub fn header(list: &Dnode) -> Result<BpObj, ZfsError> {
    let header = BpObj::decode(&list.phys().bonus, list.endian());
    let header = header.map_err(|error| list.wrong(error))?;
    let pointers_max = list.capacity() / BlockPointer::BYTES as u64;
    if header.pointers > pointers_max || header.sub_object_count > LISTS_MAX {
        return Err(list.problem(Problem::Count("of pointers or lists")));
    }
    Ok(header)
}

/// What is in a list, with those in it.
pub fn sums_of(header: &BpObj) -> Sums {
    Sums {
        used: header.bytes as i64,
        compressed: header.compressed as i64,
        uncompressed: header.uncompressed as i64,
    }
}

/// A list has so much more in it, or less.
pub fn count(header: &mut BpObj, sums: Sums, sign: i64) {
    let BpObj { bytes, compressed, uncompressed, .. } = header;
    sums.count_in(sign, [bytes, compressed, uncompressed]);
}

/// Pointers of a list itself, from a place on.
///
/// # Errors
/// They can't be read.
pub async fn pointers(list: &Dnode, from: u64, count: u64) -> Result<Vec<BlockPointer>, ZfsError> {
    let bytes = BlockPointer::BYTES as u64;
    let read = list.read(from * bytes, (count * bytes) as usize).await?.into_contiguous();
    let (found, _) = read.bytes().as_chunks::<{ BlockPointer::BYTES }>();
    Ok(found.iter().map(|pointer| BlockPointer::of_bytes(pointer, list.endian())).collect())
}

impl Maker<'_> {
    /// What a list's bonus says becomes this.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn set_header(&self, list: &Dnode, header: &BpObj) -> Result<(), ZfsError> {
        let bonus = header.encode(list.endian());
        self.mos
            .change(|tx| {
                list.plan_bonus(bonus.len())?;
                list.set_bonus(tx, bonus.clone());
                Ok(())
            })
            .await
    }

    /// The numbers of the lists in a list.
    ///
    /// # Errors
    /// They can't be read.
    pub async fn lists_in(&self, header: &BpObj) -> Result<Vec<u64>, ZfsError> {
        if header.sub_objects == 0 || header.sub_object_count == 0 {
            return Ok(Vec::new());
        }
        let object = self.mos.dnode(header.sub_objects).await?;
        if header.sub_object_count > LISTS_MAX {
            let (what, limit) = ("lists in a list", LISTS_MAX);
            return Err(object.problem(Problem::Limit { what, limit }));
        }
        let bytes = object.read(0, header.sub_object_count as usize * 8).await?.to_vec();
        let mut from = Reader::new("lists of a bpobj", &bytes, object.endian());
        let numbers = (0..header.sub_object_count).map(|_| from.u64("list"));
        numbers.collect::<Result<_, _>>().map_err(|error| object.wrong(error))
    }

    /// The last of the lists in a list.
    ///
    /// # Errors
    /// It can't be read.
    pub async fn last_list(&self, header: &BpObj) -> Result<Option<u64>, ZfsError> {
        if header.sub_objects == 0 || header.sub_object_count == 0 {
            return Ok(None);
        }
        let object = self.mos.dnode(header.sub_objects).await?;
        let at = (header.sub_object_count - 1).saturating_mul(8);
        let bytes = object.read(at, 8).await?.to_vec();
        let mut from = Reader::new("lists of a bpobj", &bytes, object.endian());
        from.u64("list").map(Some).map_err(|error| object.wrong(error))
    }

    /// Puts the numbers of lists behind those that are in a list; of bytes nothing is said here.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn add_lists(&self, header: &mut BpObj, lists: &[u64]) -> Result<(), ZfsError> {
        if lists.is_empty() {
            return Ok(());
        }
        if header.sub_objects == 0 {
            let new = NewObject::of(ObjectType::BPOBJ_SUBOBJ, LISTS_BLOCK_BYTES);
            header.sub_objects = self.mos.make(&new).await?.number();
        }
        let object = self.mos.dnode(header.sub_objects).await?;
        let bytes: Vec<u8> = lists.iter().flat_map(|list| object.endian().bytes(*list)).collect();
        let (at, bytes) = (header.sub_object_count * 8, Buf::copy_of(&bytes));
        self.mos
            .change(|tx| {
                object.plan_write(at..at + bytes.len() as u64)?;
                object.write(tx, at, &bytes);
                Ok(())
            })
            .await?;
        header.sub_object_count += lists.len() as u64;
        Ok(())
    }

    /// The lists in a list are not its any more; says which they were, and what is in them.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn take_lists(&self, header: &mut BpObj) -> Result<(Vec<u64>, Sums), ZfsError> {
        let lists = self.lists_in(header).await?;
        let mut sums = Sums::default();
        for list in &lists {
            sums.add(sums_of(&self::header(&self.mos.dnode(*list).await?)?), 1);
        }
        if header.sub_objects != 0 {
            self.free_object(&self.mos.dnode(header.sub_objects).await?).await?;
        }
        (header.sub_objects, header.sub_object_count) = (0, 0);
        count(header, sums, -1);
        Ok((lists, sums))
    }

    /// A list joins another, which has all of it from here on.
    ///
    /// # Errors
    /// What is needed can't be had, or the other one is of before pool version 26.
    pub async fn enqueue_list(&self, into: &Dnode, list: u64, tree: &Tree) -> Result<(), ZfsError> {
        if Some(list) == self.empty_list().await? {
            return self.drop_empty_list(1).await;
        }
        let joins = self.mos.dnode(list).await?;
        let mut own = header(&joins)?;
        let (mut lists, mut sums) = self.take_lists(&mut own).await?;
        if own.pointers <= COPIED_MAX {
            if own.pointers > 0 {
                let copied = pointers(&joins, 0, own.pointers).await?;
                append_pointers(self.mos, into, &copied, tree).await?;
            }
            self.free_object(&joins).await?;
        } else {
            self.set_header(&joins, &own).await?;
            lists.push(list);
            sums.add(sums_of(&own), 1);
        }
        let mut whole = header(into)?;
        if !lists.is_empty() && whole.size < BpObjSize::V2 {
            return Err(into.problem(Problem::Entry("of lists in a list")));
        }
        self.add_lists(&mut whole, &lists).await?;
        count(&mut whole, sums, 1);
        self.set_header(into, &whole).await
    }

    /// A list goes with those in it; the blocks in them are somebody else's.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn free_lists(&self, list: u64) -> Result<(), ZfsError> {
        let mut waiting = vec![list];
        while let Some(list) = waiting.pop() {
            if Some(list) == self.empty_list().await? {
                self.drop_empty_list(1).await?;
                continue;
            }
            let object = self.mos.dnode(list).await?;
            let (lists, _) = self.take_lists(&mut header(&object)?).await?;
            waiting.extend(lists);
            self.free_object(&object).await?;
        }
        Ok(())
    }

    /// Takes pointers off the end of a list and of those in it, until so many are taken, and says each.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn drain(
        &self,
        list: &Dnode,
        mut left: u64,
        tree: &Tree,
        each: &mut dyn FnMut(&BlockPointer),
    ) -> Result<Drained, ZfsError> {
        let mut whole = header(list)?;
        let mut taken = Sums::default();
        while left > 0 {
            if whole.pointers > 0 {
                let (sums, many) = self.drain_end(list, &mut whole, left, tree, each).await?;
                taken.add(sums, 1);
                left -= many.min(left);
                continue;
            }
            let Some(last) = self.last_list(&whole).await? else { break };
            if last == list.number() {
                return Err(list.problem(Problem::Circle));
            }
            let inner = self.mos.dnode(last).await?;
            let mut own = header(&inner)?;
            // Lists in it come before it.
            let (lists, _) = self.take_lists(&mut own).await?;
            if !lists.is_empty() {
                self.set_header(&inner, &own).await?;
                whole.sub_object_count -= 1;
                let all: Vec<u64> = lists.into_iter().chain([last]).collect();
                self.add_lists(&mut whole, &all).await?;
                continue;
            }
            let (sums, many) = self.drain_end(&inner, &mut own, left, tree, each).await?;
            taken.add(sums, 1);
            count(&mut whole, sums, -1);
            left -= many.min(left);
            if own.pointers == 0 {
                self.free_object(&inner).await?;
                whole.sub_object_count -= 1;
            }
        }
        self.set_header(list, &whole).await?;
        Ok(Drained { sums: taken, left })
    }

    /// The same of the last pointers of a list itself.
    async fn drain_end(
        &self,
        list: &Dnode,
        state: &mut BpObj,
        left: u64,
        tree: &Tree,
        each: &mut dyn FnMut(&BlockPointer),
    ) -> Result<(Sums, u64), ZfsError> {
        let many = state.pointers.min(left).min(DRAINED_MAX);
        let from = state.pointers - many;
        let mut sums = Sums::default();
        for pointer in &pointers(list, from, many).await? {
            sums.add(Sums::of(tree, pointer), 1);
            each(pointer);
        }
        let bytes = BlockPointer::BYTES as u64;
        let gone = from * bytes..state.pointers * bytes;
        state.pointers = from;
        count(state, sums, -1);
        self.mos
            .change(|tx| {
                list.plan_zero(gone.clone())?;
                list.zero(tx, gone.clone());
                Ok(())
            })
            .await?;
        self.set_header(list, state).await?;
        Ok((sums, many))
    }

    /// The list that stands for all empty ones.
    ///
    /// # Errors
    /// The pool's directory can't be had.
    pub async fn empty_list(&self) -> Result<Option<u64>, ZfsError> {
        let directory = Zap::open(self.mos.dnode(pool_directory::OBJECT).await?).await?;
        directory.number(pool_directory::EMPTY_BPOBJ).await
    }

    /// A list that is empty, for so many uses: the one that stands for all, or nothing where the pool has no such.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn take_empty_list(&self, uses: usize) -> Result<Option<u64>, ZfsError> {
        if uses == 0 || self.uses(EMPTY).await?.is_none() {
            return Ok(None);
        }
        let list = match self.empty_list().await? {
            Some(list) => list,
            None => {
                let list = self.long_bpobj().await?.number();
                let directory = self.mos.dnode(pool_directory::OBJECT).await?;
                let number = table::number(list);
                table::set(self.mos, &directory, pool_directory::EMPTY_BPOBJ, number).await?;
                list
            }
        };
        self.count_use(EMPTY, uses as i64).await?;
        Ok(Some(list))
    }

    /// That list is used so many times less; nobody uses it in the end, and it goes.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn drop_empty_list(&self, uses: usize) -> Result<(), ZfsError> {
        if uses == 0 {
            return Ok(());
        }
        self.count_use(EMPTY, -(uses as i64)).await?;
        if self.uses(EMPTY).await? != Some(0) {
            return Ok(());
        }
        let directory = self.mos.dnode(pool_directory::OBJECT).await?;
        if let Some(list) = self.empty_list().await? {
            table::remove(self.mos, &directory, pool_directory::EMPTY_BPOBJ).await?;
            self.free_object(&self.mos.dnode(list).await?).await?;
        }
        Ok(())
    }

    /// An object of the MOS goes.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn free_object(&self, object: &Dnode) -> Result<(), ZfsError> {
        self.mos
            .change(|tx| {
                object.plan_change()?;
                self.mos.free(tx, object);
                Ok(())
            })
            .await
    }
}
