//! Names put into tables and taken out.
//!
//! A change of a table is planned on copies of the blocks that it concerns, each changed in place, in steps that don't wait
//! ([`Blocked`](crate::dmu::Blocked)), and is then carried out by putting the blocks in their places. Several names of one table are changed
//! by one plan, since a second one would not see the first. What was planned for a table that was changed since is a bug
//! of ours, and asserted.
//!
//! ```text
//!   micro       a name of up to 49 bytes with one number gets the first free place
//!   full        the block grows by a sector, up to 128 KiB
//!   too small   … or for what it can't hold: a fat table of blocks of 16 KiB takes its place, with one leaf
//!   fat         the leaf of the name's hash; a leaf that is full is split by the next bit of the hash
//!   table       has an entry for each value of the hash's first bits; where a leaf has as many bits as the table,
//!               the table is doubled, into new blocks
//! ```
//!
//! OpenZFS doubles a long table in steps, and says in the header how far it came; here it is done at once. A copy that was
//! begun so is given up: the table that counts is whole.
//!
//! Leaves that become empty stay, as in OpenZFS before 2.3.
//!
//! Source: OpenZFS, `zap_micro.c`, `zap.c`, `zap_leaf.c`.

use super::micro::{MicroEdits, MicroPlan, MicroTable, SECTOR};
use super::{Form, Match, hash_in, wanted_in};
use crate::dmu::{Block, Dnode, Step, Tx};
use crate::error::{Problem, ZfsError};
use rt::{Buf, BufMut};
use std::collections::BTreeMap;
use std::ops::Range;
use stdx::planted::{self, Bug};
use zfs_format::zap::fat::{self, FatHeader, LeafPlace, Table};
use zfs_format::zap::leaf::change::{LeafMut, Outcome};
use zfs_format::zap::leaf::view::{KeyRef, LeafView};
use zfs_format::zap::leaf::{FLAG_SORTED, Leaf, LeafEntry, LeafValue};
use zfs_format::zap::micro::{ENTRY_BYTES, MicroZap, NAME_BYTES};
use zfs_format::zap::{flags, hash_key, hash_name};
use zfs_format::{Endian, FormatError};

/// Bytes of the largest micro table that is made.
const MICRO_BYTES_MAX: usize = 128 << 10;
/// Bytes of a new fat table's blocks, as a power of two.
const FAT_BLOCK_SHIFT: u32 = 14;
/// Bytes of a name: OpenZFS's bound, with its zero.
const NAME_BYTES_MAX: usize = 1024;
/// Bytes of a value: OpenZFS's bound.
const VALUE_BYTES_MAX: usize = 8192;

/// Blocks of a table: what a damaged header says beyond is not believed.
const BLOCKS_MAX: u64 = 1 << 40;
/// Blocks of a table of pointers that is doubled: at 16 KiB each for some 500 million names.
const TABLE_BLOCKS_MAX: u64 = 2048;

/// A table as it is planned to be.
enum Planned {
    Micro(MicroPlan),
    Fat(Box<FatHeader>),
}

impl Planned {
    fn normalization(&self) -> u64 {
        match self {
            Planned::Micro(plan) => plan.table().normalization,
            Planned::Fat(header) => header.normalization,
        }
    }
}

/// A planned change of one table.
pub struct Plan {
    dnode: Dnode,
    contents: u64,
    endian: Endian,
    form: Planned,
    /// Blocks of a fat table that are to be other than they are; the header is in `form`.
    blocks: BTreeMap<u64, Block>,
    freed: Vec<Range<u64>>,
    /// Blocks that the table had when it was planned are of another length.
    is_new: bool,
}

/// A name as it stands in the table.
struct Found {
    name: Vec<u8>,
    value: LeafValue,
}

/// A table without names in one block, for a new object.
pub fn empty(salt: u64, normalization: u64, endian: Endian) -> Buf {
    let table = MicroZap { salt, normalization, block_bytes: SECTOR, entries: Vec::new() };
    let block = table.encode(endian).expect("an empty table fits");
    Buf::copy_of(&block)
}

impl Plan {
    /// Begins a plan.
    ///
    /// # Errors
    /// The object is none of a table, or its first block is not in memory.
    pub fn of(dnode: &Dnode) -> Step<Plan> {
        Plan::keyed(dnode, false)
    }

    /// Begins a plan of a table that is keyed by numbers.
    ///
    /// # Errors
    /// As of [`Plan::of`].
    pub fn of_numbers(dnode: &Dnode) -> Step<Plan> {
        Plan::keyed(dnode, true)
    }

    fn keyed(dnode: &Dnode, by_numbers: bool) -> Step<Plan> {
        let block = dnode.resident(0)?;
        let form = match Form::of(dnode, &block)? {
            Form::Micro(table) => Planned::Micro(MicroPlan::of(table)),
            Form::Fat(header) => Planned::Fat(header),
        };
        let is_other = match &form {
            Planned::Fat(header) => (header.flags & flags::UINT64_KEY != 0) != by_numbers,
            // They are too long for it.
            Planned::Micro(_) => by_numbers,
        };
        if is_other {
            let (structure, field) = ("ZAP header", "flags");
            let problem = zfs_format::Problem::Type;
            return Err(dnode.wrong(FormatError { structure, field, offset: 0, problem }).into());
        }
        Ok(Plan {
            dnode: dnode.clone(),
            contents: dnode.contents(),
            endian: block.endian,
            form,
            blocks: BTreeMap::new(),
            freed: Vec::new(),
            is_new: false,
        })
    }

    /// The value of a name, byte for byte.
    ///
    /// # Errors
    /// A block is not in memory, or is none of a table.
    pub fn get(&self, name: &[u8]) -> Step<Option<LeafValue>> {
        self.get_as(name, Match::Exact)
    }

    /// The value of the name that is meant by one.
    ///
    /// # Errors
    /// As of [`Plan::get`].
    pub(crate) fn get_as(&self, name: &[u8], which: Match) -> Step<Option<LeafValue>> {
        Ok(self.find(name, which)?.map(|found| found.value))
    }

    /// The name that is meant by one, as it stands in the table.
    ///
    /// # Errors
    /// As of [`Plan::get`].
    pub(crate) fn name_as(&self, name: &[u8], which: Match) -> Step<Option<Vec<u8>>> {
        Ok(self.find(name, which)?.map(|found| found.name))
    }

    /// How the name that is meant by one stands in the table.
    fn find(&self, name: &[u8], which: Match) -> Step<Option<Found>> {
        let header = match &self.form {
            Planned::Micro(plan) => {
                let found = plan.find(&plan.table().wanted(name, which));
                return Ok(found.map(|entry| Found {
                    name: entry.name.as_bytes().to_vec(),
                    value: super::number_value(entry.value),
                }));
            }
            Planned::Fat(header) => header,
        };
        let wanted = wanted_in(header, name, which);
        let (_, block) = self.leaf_block(wanted.hash)?;
        let leaf = self.leaf_view(header, &block)?;
        let found = leaf.first_name(wanted.hash, |known| wanted.is(known)).and_then(|found| {
            found.map(|(name, value)| Ok(Found { name, value: value.to_value()? })).transpose()
        });
        Ok(found.map_err(|error| self.dnode.wrong(error))?)
    }

    /// How the table normalises names.
    pub fn normalization(&self) -> u64 {
        self.form.normalization()
    }

    /// The values that are one number, of all names.
    ///
    /// # Errors
    /// There are more than that, or a block is not in memory.
    pub fn numbers(&self, count_max: usize) -> Step<Vec<u64>> {
        let header = match &self.form {
            Planned::Micro(plan) => return Ok(plan.entries().map(|entry| entry.value).collect()),
            Planned::Fat(header) => header,
        };
        let (mut found, mut index) = (Vec::new(), 0u64);
        while index < 1 << header.table.shift {
            let (_, block) = self.leaf_block(index << (64 - header.table.shift))?;
            let leaf = self.decoded(header, &block)?;
            found.extend(leaf.entries.iter().filter_map(|entry| entry.value.number()));
            if found.len() > count_max {
                let (what, limit) = ("names", count_max as u64);
                return Err(self.dnode.problem(Problem::Limit { what, limit }).into());
            }
            // A leaf with a shorter prefix stands at several places of the table.
            let bits = u64::from(leaf.prefix_bits).min(header.table.shift);
            index = ((index >> (header.table.shift - bits)) + 1) << (header.table.shift - bits);
        }
        Ok(found)
    }

    fn hash(&self, name: &[u8]) -> u64 {
        match &self.form {
            Planned::Micro(plan) => plan.table().hash(name),
            Planned::Fat(header) => hash_in(header, name),
        }
    }

    /// Puts a name in, or gives it another value; byte for byte: one that is the same only as the table normalises it stays beside.
    ///
    /// # Errors
    /// A block is not in memory; name or value are too long; the table can't grow.
    pub fn set(&mut self, name: &[u8], value: LeafValue) -> Step<()> {
        self.set_as(name, value, Match::Exact)
    }

    /// Gives the name that is meant by one another value, or puts that one in.
    ///
    /// # Errors
    /// As of [`Plan::set`].
    pub(crate) fn set_as(&mut self, name: &[u8], value: LeafValue, which: Match) -> Step<()> {
        let known = match which {
            Match::Exact => None,
            _ => self.name_as(name, which)?,
        };
        let stands = known.as_deref().unwrap_or(name);
        let bytes = value.numbers.len() * usize::from(value.number_bytes);
        let fits = (1..NAME_BYTES_MAX).contains(&stands.len()) && !stands.contains(&0);
        if !fits || bytes > VALUE_BYTES_MAX {
            return Err(self.dnode.problem(Problem::NoRoom("a name or value")).into());
        }
        if let Planned::Micro(plan) = &mut self.form {
            let number = value.number().filter(|_| value.number_bytes == 8);
            if let Some(number) = number.filter(|_| stands.len() < NAME_BYTES)
                && plan.set(stands, number, MICRO_BYTES_MAX / ENTRY_BYTES - 1)
            {
                return Ok(());
            }
            self.become_fat()?;
        }
        self.set_in_fat(KeyRef::Name(stands), self.hash(stands), None, &value)
    }

    /// Takes a name out, byte for byte; says whether it was there.
    ///
    /// # Errors
    /// A block is not in memory, or is none of a table.
    pub fn remove(&mut self, name: &[u8]) -> Step<bool> {
        self.remove_as(name, Match::Exact)
    }

    /// Takes the name out that is meant by one; says whether there was one.
    ///
    /// # Errors
    /// As of [`Plan::remove`].
    pub(crate) fn remove_as(&mut self, name: &[u8], which: Match) -> Step<bool> {
        let Some(stands) = self.name_as(name, which)? else { return Ok(false) };
        if let Planned::Micro(plan) = &mut self.form {
            plan.remove(&stands);
            return Ok(true);
        }
        let hash = self.hash(&stands);
        let outcome = self.edit_leaf(hash, |leaf| leaf.remove(hash, KeyRef::Name(&stands)))?;
        assert_eq!(outcome, Outcome::Done, "a name that was found is taken out");
        self.count(|entries| entries.saturating_sub(1));
        Ok(true)
    }

    fn hash_of(&self, key: &[u64]) -> u64 {
        match &self.form {
            Planned::Fat(header) => hash_key(key, header.salt, header.flags),
            Planned::Micro(_) => unreachable!("a table that is keyed by numbers is a fat one"),
        }
    }

    /// Puts a key of numbers in, or gives it another value.
    ///
    /// # Errors
    /// A block is not in memory, or the table can't grow.
    pub fn set_number(&mut self, key: &[u64], value: &LeafValue) -> Step<()> {
        self.set_in_fat(KeyRef::Numbers(key), self.hash_of(key), None, value)
    }

    /// Takes a key of numbers out; says whether it was there.
    ///
    /// # Errors
    /// A block is not in memory, or is none of a table.
    pub fn remove_number(&mut self, key: &[u64]) -> Step<bool> {
        let hash = self.hash_of(key);
        let outcome = self.edit_leaf(hash, |leaf| leaf.remove(hash, KeyRef::Numbers(key)))?;
        let was_there = outcome == Outcome::Done;
        if was_there {
            self.count(|entries| entries.saturating_sub(1));
        }
        Ok(was_there)
    }

    /// The header counts entries anew.
    fn count(&mut self, how: impl FnOnce(u64) -> u64) {
        if let Planned::Fat(header) = &mut self.form {
            header.entries = how(header.entries);
        }
    }

    /// A table of leaves takes the place of the micro one.
    fn become_fat(&mut self) -> Step<()> {
        let Planned::Micro(plan) = &self.form else { return Ok(()) };
        self.dnode.plan_block_bytes(1 << FAT_BLOCK_SHIFT)?;
        let (table, mut entries) = (plan.table(), plan.entries().cloned().collect::<Vec<_>>());
        entries.sort_by_key(|entry| entry.place);
        if planted::is(Bug::FatLosesName) {
            entries.pop();
        }
        let shift = FAT_BLOCK_SHIFT - 4;
        let header = FatHeader {
            block_shift: FAT_BLOCK_SHIFT,
            table: Table { shift: shift.into(), ..Table::default() },
            free_block: 2,
            leaves: 1,
            entries: 0,
            salt: table.salt,
            normalization: table.normalization,
            flags: 0,
            embedded: vec![1; 1 << shift],
        };
        let flags = if table.normalization == 0 { 0 } else { FLAG_SORTED };
        let leaf = Leaf {
            block_shift: FAT_BLOCK_SHIFT,
            prefix: 0,
            prefix_bits: 0,
            flags,
            entries: Vec::new(),
        };
        self.form = Planned::Fat(Box::new(header));
        self.is_new = true;
        self.put_leaf(1, &leaf)?;
        for entry in entries {
            let name = entry.name.as_bytes();
            let value = super::number_value(entry.value);
            let differentiator = Some(entry.differentiator);
            self.set_in_fat(KeyRef::Name(name), self.hash(name), differentiator, &value)?;
        }
        Ok(())
    }

    /// Puts a key in, or gives it another value. One that is put in has this differentiator, or the lowest that is free.
    fn set_in_fat(
        &mut self,
        key: KeyRef<'_>,
        hash: u64,
        differentiator: Option<u32>,
        value: &LeafValue,
    ) -> Step<()> {
        loop {
            let mut is_new = false;
            let outcome = self.edit_leaf(hash, |leaf| match leaf.update(hash, key, value)? {
                Outcome::Absent => {
                    is_new = true;
                    leaf.insert(hash, key, differentiator, value)
                }
                other => Ok(other),
            })?;
            match outcome {
                Outcome::NoRoom => self.split(hash)?,
                outcome => {
                    assert_eq!(outcome, Outcome::Done, "a name is there, or is put in");
                    self.count(|entries| entries.saturating_add(is_new.into()));
                    return Ok(());
                }
            }
        }
    }

    /// Divides the leaf of a hash into two.
    fn split(&mut self, hash: u64) -> Step<()> {
        let Planned::Fat(header) = &self.form else { unreachable!("only a fat table has leaves") };
        let mut header = header.clone();
        let (number, block) = self.leaf_block(hash)?;
        let mut leaf = self.decoded(&header, &block)?;
        let bits = u64::from(leaf.prefix_bits);
        // Of the hash only the highest bits count. Names that have all of them alike are in one leaf, however often it is split.
        let hash_bits = u64::from(hash_name(&[], u64::MAX, header.flags).leading_ones());
        let is_one = leaf.entries.iter().all(|entry| entry.hash == hash);
        if is_one || bits >= hash_bits - 1 || header.free_block >= BLOCKS_MAX {
            return Err(self
                .dnode
                .problem(Problem::NoRoom("a name that collides with too many"))
                .into());
        }
        if bits >= header.table.shift {
            self.double(&mut header)?;
        }
        let (new, shift) = (header.free_block, header.table.shift);
        header.free_block += 1;
        header.leaves = header.leaves.saturating_add(1);
        let is_upper = |entry: &LeafEntry| entry.hash >> (63 - bits) & 1 == 1;
        let (mut upper, lower): (Vec<_>, Vec<_>) = leaf.entries.into_iter().partition(is_upper);
        if planted::is(Bug::SplitLosesName) {
            upper.pop();
        }
        leaf.entries = lower;
        leaf.prefix <<= 1;
        leaf.prefix_bits += 1;
        let sibling = Leaf { entries: upper, prefix: leaf.prefix | 1, ..leaf.clone() };
        let all = leaf.entries.iter().all(|entry| leaf.is_of(entry.hash));
        if !all || !sibling.entries.iter().all(|entry| sibling.is_of(entry.hash)) {
            return Err(self.dnode.problem(Problem::Entry("of a leaf")).into());
        }
        self.put_leaf(number, &leaf)?;
        self.put_leaf(new, &sibling)?;
        let many = 1u64 << (shift - bits - 1);
        let first = sibling.prefix * many;
        let unset = u64::from(many > 1 && planted::is(Bug::LeafHalfPointed));
        for index in first..first + many - unset {
            self.point(&mut header, index, new)?;
        }
        self.form = Planned::Fat(header);
        Ok(())
    }

    /// An entry of the table of pointers leads to this leaf.
    fn point(&mut self, header: &mut FatHeader, index: u64, leaf: u64) -> Step<()> {
        if header.table.blocks == 0 {
            let slot = usize::try_from(index).ok().and_then(|at| header.embedded.get_mut(at));
            *slot.expect("the table has an entry for each value of its bits") = leaf;
            return Ok(());
        }
        // A copy that was begun would be outdated.
        self.give_up_copy(header);
        let per_block = 1u64 << (header.block_shift - 3);
        let number = header.table.block.saturating_add(index / per_block);
        let Block { bytes, endian } = self.own_block(number)?;
        let mut bytes = bytes_mut(bytes);
        fat::put_table_at(&mut bytes, (index % per_block) as usize, leaf, endian);
        self.blocks.insert(number, Block { bytes: bytes.freeze(), endian });
        Ok(())
    }

    fn give_up_copy(&mut self, header: &mut FatHeader) {
        let table = &mut header.table;
        if table.next_block != 0 {
            let many = table.blocks.saturating_mul(2);
            self.freed.push(table.next_block..table.next_block.saturating_add(many));
            (table.next_block, table.blocks_copied) = (0, 0);
        }
    }

    /// Doubles the table of pointers.
    fn double(&mut self, header: &mut FatHeader) -> Step<()> {
        if header.table.blocks > TABLE_BLOCKS_MAX || header.table.block >= BLOCKS_MAX {
            return Err(self.dnode.problem(Problem::NoRoom("a longer table of pointers")).into());
        }
        self.give_up_copy(header);
        let (per_block, old) = (1usize << (header.block_shift - 3), header.table.clone());
        let mut numbers = Vec::new();
        match old.blocks {
            0 => numbers = header.embedded.clone(),
            blocks => {
                for number in old.block..old.block.saturating_add(blocks) {
                    numbers.extend(self.table(number)?);
                }
            }
        }
        let doubled: Vec<u64> = numbers.iter().flat_map(|number| [*number; 2]).collect();
        let blocks = doubled.len().div_ceil(per_block) as u64;
        let block = header.free_block;
        header.free_block += blocks;
        header.table =
            Table { block, blocks, shift: old.shift + 1, next_block: 0, blocks_copied: 0 };
        for (number, numbers) in (block..).zip(doubled.chunks(per_block)) {
            self.put_table(number, numbers);
        }
        if old.blocks > 0 {
            self.freed.push(old.block..old.block.saturating_add(old.blocks));
            self.blocks.retain(|number, _| {
                !(old.block..old.block.saturating_add(old.blocks)).contains(number)
            });
        }
        // What is left in the header is not read any more.
        header.embedded.fill(0);
        Ok(())
    }

    fn block(&self, number: u64) -> Step<Block> {
        match self.blocks.get(&number) {
            Some(block) => Ok(block.clone()),
            None => self.dnode.resident(number),
        }
    }

    fn table(&self, number: u64) -> Step<Vec<u64>> {
        let block = self.block(number)?;
        let numbers = fat::table_block(block.bytes.bytes(), block.endian);
        Ok(numbers.map_err(|error| self.dnode.wrong(error))?)
    }

    fn put_table(&mut self, number: u64, numbers: &[u64]) {
        let bytes: Vec<u8> = numbers.iter().flat_map(|n| self.endian.bytes(*n)).collect();
        let block = Block { bytes: Buf::copy_of(&bytes), endian: self.endian };
        self.blocks.insert(number, block);
    }

    /// A block to be changed: the plan's own, or the object's, which others may hold.
    fn own_block(&mut self, number: u64) -> Step<Block> {
        match self.blocks.remove(&number) {
            Some(block) => Ok(block),
            None => self.dnode.resident(number),
        }
    }

    /// The number of the block of a hash's leaf, and the block.
    fn leaf_block(&self, hash: u64) -> Step<(u64, Block)> {
        let Planned::Fat(header) = &self.form else { unreachable!("only a fat table has leaves") };
        let number = match header.leaf_of(hash) {
            LeafPlace::Block(number) => number,
            LeafPlace::InTable { block, index } => {
                let table = self.block(block)?;
                let number = fat::table_at(table.bytes.bytes(), index, table.endian);
                number.map_err(|error| self.dnode.wrong(error))?
            }
        };
        let block = self.block(number)?;
        let leaf = self.leaf_view(header, &block)?;
        // A leaf of other hashes would take what nobody finds there.
        if !leaf.is_of(hash) || u64::from(leaf.prefix_bits) > header.table.shift {
            return Err(self.dnode.problem(Problem::Entry("of a leaf")).into());
        }
        Ok((number, block))
    }

    fn leaf_view<'a>(
        &self,
        header: &FatHeader,
        block: &'a Block,
    ) -> Result<LeafView<'a>, ZfsError> {
        let leaf = LeafView::of(block.bytes.bytes(), block.endian, header.flags);
        leaf.map_err(|error| self.dnode.wrong(error))
    }

    /// A leaf with all its entries.
    fn decoded(&self, header: &FatHeader, block: &Block) -> Result<Leaf, ZfsError> {
        let leaf = Leaf::decode(block.bytes.bytes(), block.endian, header.flags);
        leaf.map_err(|error| self.dnode.wrong(error))
    }

    /// Changes the leaf of a hash where it lies in its block, of which the plan has a copy of its own from then on.
    fn edit_leaf(
        &mut self,
        hash: u64,
        how: impl FnOnce(&mut LeafMut<'_>) -> Result<Outcome, FormatError>,
    ) -> Step<Outcome> {
        let (number, block) = self.leaf_block(hash)?;
        let Planned::Fat(header) = &self.form else { unreachable!("only a fat table has leaves") };
        let flags = header.flags;
        // It is the only reference to what is the plan's own already.
        self.blocks.remove(&number);
        let (mut bytes, endian) = (bytes_mut(block.bytes), block.endian);
        let outcome = LeafMut::of(&mut bytes, endian, flags).and_then(|mut leaf| how(&mut leaf));
        self.blocks.insert(number, Block { bytes: bytes.freeze(), endian });
        Ok(outcome.map_err(|error| self.dnode.wrong(error))?)
    }

    /// Lays a leaf out anew.
    fn put_leaf(&mut self, number: u64, leaf: &Leaf) -> Result<(), ZfsError> {
        use zfs_format::Problem::{Limit, Short};
        let bytes = leaf.encode(self.endian).map_err(|error| match error.problem {
            // It has fewer entries than one that was there.
            Short | Limit { .. } => self.dnode.problem(Problem::NoRoom("an entry")),
            _ => self.dnode.wrong(error),
        })?;
        let block = Block { bytes: Buf::copy_of(&bytes), endian: self.endian };
        self.blocks.insert(number, block);
        Ok(())
    }

    /// Whether its blocks can be put down: plan, the last step of it.
    ///
    /// # Errors
    /// The table can't be encoded, or its block can't grow.
    pub fn ready(self) -> Step<Ready> {
        let Plan { dnode, contents, endian, form, mut blocks, freed, is_new } = self;
        let header = match form {
            Planned::Micro(plan) => return ready_micro(dnode, contents, endian, plan),
            Planned::Fat(header) => header,
        };
        let first = header.encode(endian).map_err(|error| dnode.wrong(error))?;
        let bytes = first.len() as u64;
        if bytes != dnode.block_bytes() {
            if !is_new {
                return Err(dnode.problem(Problem::BlockSize(bytes)).into());
            }
            dnode.plan_block_bytes(bytes)?;
        }
        blocks.insert(0, Block { bytes: Buf::copy_of(&first), endian });
        Ok(Ready { dnode, contents, endian, blocks, freed, micro: None })
    }
}

/// A micro table's plan: its block is changed in place, or a longer one takes its place.
fn ready_micro(dnode: Dnode, contents: u64, endian: Endian, plan: MicroPlan) -> Step<Ready> {
    let (len, mut blocks) = (plan.block_bytes(), BTreeMap::new());
    let micro = plan.into_edits();
    let known = dnode.resident(0)?;
    if known.bytes.len() < len {
        dnode.plan_block_bytes(len as u64)?;
        let mut longer = BufMut::zeroed(len);
        longer[..known.bytes.len()].copy_from_slice(known.bytes.bytes());
        micro.put(&mut longer, endian).map_err(|error| dnode.wrong(error))?;
        blocks.insert(0, Block { bytes: longer.freeze(), endian });
    }
    Ok(Ready { dnode, contents, endian, blocks, freed: Vec::new(), micro: Some(micro) })
}

/// A planned change of one table that can be carried out.
pub struct Ready {
    dnode: Dnode,
    contents: u64,
    endian: Endian,
    blocks: BTreeMap<u64, Block>,
    freed: Vec<Range<u64>>,
    /// Of a micro table; its block is in `blocks` only where it becomes longer.
    micro: Option<MicroEdits>,
}

impl Ready {
    /// Carries it out.
    pub fn carry_out(self, tx: &Tx) {
        let is_same = self.dnode.contents() == self.contents;
        assert!(is_same, "a table is as it was when this was planned");
        let known = self.micro.is_some().then(|| self.dnode.take_kept::<MicroTable>()).flatten();
        if let Some(micro) = self.micro.as_ref().filter(|_| self.blocks.is_empty()) {
            self.dnode.edit(tx, 0, |block| {
                micro.put(block, self.endian).expect("a plan's names and places fit");
            });
        }
        let mut size = self.dnode.block_bytes();
        for (number, block) in self.blocks {
            match block.bytes.len() as u64 == size {
                true => self.dnode.put(tx, number, block),
                false => {
                    assert!(number == 0, "the first block says how long all are");
                    size = block.bytes.len() as u64;
                    self.dnode.put_only(tx, block);
                }
            }
        }
        for range in self.freed {
            let bytes = range.start.saturating_mul(size)..range.end.saturating_mul(size);
            self.dnode.zero(tx, bytes);
        }
        if let Some(micro) = self.micro {
            micro.keep(&self.dnode, known);
        }
    }
}

/// The bytes to be changed: the same where nobody else holds them, else a copy.
fn bytes_mut(bytes: Buf) -> BufMut {
    bytes.try_into_mut().unwrap_or_else(|bytes| BufMut::copy_of(bytes.bytes()))
}

#[cfg(test)]
mod tests;
