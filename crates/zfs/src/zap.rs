//! Tables of names and values, over an object.
//!
//! Here tables are read; [`change`] puts names in and takes them out. What is decoded of a table's first block is known with
//! the contents of the object that it is from, and decoded again when they were changed.
//!
//! A micro ZAP is read whole, and kept in memory. In a fat one a name's hash leads through the table to one leaf. Entries are listed in the
//! order of their hashes, of a micro ZAP too, so that a [`Cursor`] can go on later without holding anything, whatever was put in and taken out
//! meanwhile: an entry that stays keeps its place in that order when others go, leaves are split, or a micro ZAP becomes a fat one.
//!
//! Tables that normalise names (directories in which case does not matter, or forms of Unicode don't) hash what a name becomes (`normalized`),
//! so that those that become the same are found together. Which of them is meant is told by who looks.

pub mod change;
mod micro;
mod normalized;
pub mod table;

use self::micro::MicroTable;
pub(crate) use self::normalized::{Match, Wanted, normalized};
use crate::dmu::{Block, Dnode};
use crate::error::ZfsError;
use std::cell::RefCell;
use std::rc::Rc;
use zfs_format::zap::fat::{self, FatHeader, LeafPlace};
use zfs_format::zap::leaf::view::{KeyRef, LeafView};
use zfs_format::zap::leaf::{Key, Leaf, LeafEntry, LeafValue};
use zfs_format::zap::micro::MicroEntry;
use zfs_format::zap::{BlockKind, hash_key, hash_name};
use zfs_format::{FormatError, Problem};

/// Bits of a hash that stand in a cursor: as many as may count (`HASH_64`).
const HASH_BITS: u32 = 48;
/// Bits of a cursor that tell names of one hash apart. All of these stand in one leaf, and one of 128 KiB has fewer.
const DIFFERENTIATOR_BITS: u32 = 13;

/// An open table.
pub struct Zap {
    dnode: Dnode,
    /// What its first block says, and of which contents of the object.
    form: RefCell<(u64, Rc<Form>)>,
}

#[derive(Clone)]
enum Form {
    Micro(Rc<MicroTable>),
    Fat(Box<FatHeader>),
}

impl Form {
    fn of(dnode: &Dnode, block: &Block) -> Result<Form, ZfsError> {
        let (bytes, endian) = (block.bytes.bytes(), block.endian);
        if BlockKind::of(bytes, endian) == BlockKind::Micro {
            return MicroTable::of(dnode, block).map(Form::Micro);
        }
        // A wrong first word is named by the decoder.
        let header = FatHeader::decode(bytes, endian).map_err(|error| dnode.wrong(error))?;
        Ok(Form::Fat(Box::new(header)))
    }
}

/// Where listing goes on: at a hash and what tells names of one hash apart, in one number of up to 2^61. The default is the beginning.
///
/// OpenZFS's cursors say the same; how they are numbers differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(pub u64);

impl Cursor {
    /// At an entry.
    fn at(hash: u64, differentiator: u32) -> Cursor {
        let differentiator = u64::from(differentiator).min((1 << DIFFERENTIATOR_BITS) - 1);
        Cursor(hash >> (64 - HASH_BITS) << DIFFERENTIATOR_BITS | differentiator)
    }

    /// Behind an entry.
    fn behind(hash: u64, differentiator: u32) -> Cursor {
        Cursor(Cursor::at(hash, differentiator).0 + 1)
    }

    /// The hash and the differentiator from which on entries are meant; nothing behind the last.
    fn place(self) -> Option<(u64, u32)> {
        let (hash, differentiator) =
            (self.0 >> DIFFERENTIATOR_BITS, self.0 & ((1 << DIFFERENTIATOR_BITS) - 1));
        (hash >> HASH_BITS == 0).then_some((hash << (64 - HASH_BITS), differentiator as u32))
    }
}

/// An entry of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name, without its zero; of a table keyed by numbers their bytes, each from the lowest on.
    pub name: Vec<u8>,
    /// The value.
    pub value: LeafValue,
    /// What tells names of one hash apart.
    pub differentiator: u32,
    /// Where listing goes on after it.
    pub next: Cursor,
}

impl Entry {
    /// The name as text, what is not UTF-8 replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.name).into_owned()
    }

    /// The value, if it is one number.
    pub fn number(&self) -> Option<u64> {
        self.value.number()
    }
}

/// The hash of a name in a fat table.
fn hash_in(header: &FatHeader, name: &[u8]) -> u64 {
    hash_name(&normalized(name, header.normalization), header.salt, header.flags)
}

/// A name that is looked for in a fat table.
fn wanted_in<'a>(header: &FatHeader, name: &'a [u8], which: Match) -> Wanted<'a> {
    Wanted::new(name, which, (header.salt, header.flags, header.normalization))
}

fn number_value(number: u64) -> LeafValue {
    LeafValue { number_bytes: 8, numbers: vec![number] }
}

impl Zap {
    /// Opens the table that an object holds.
    ///
    /// # Errors
    /// Its first block can't be had, or is none of a table.
    pub async fn open(dnode: Dnode) -> Result<Zap, ZfsError> {
        let contents = dnode.contents();
        let form = Form::of(&dnode, &dnode.block(0).await?)?;
        Ok(Zap { dnode, form: RefCell::new((contents, Rc::new(form))) })
    }

    /// What its first block says now.
    async fn form(&self) -> Result<Rc<Form>, ZfsError> {
        let contents = self.dnode.contents();
        {
            let (known, form) = &*self.form.borrow();
            if *known == contents {
                return Ok(Rc::clone(form));
            }
        }
        let form = Rc::new(Form::of(&self.dnode, &self.dnode.block(0).await?)?);
        *self.form.borrow_mut() = (contents, Rc::clone(&form));
        Ok(form)
    }

    /// The object.
    pub fn dnode(&self) -> &Dnode {
        &self.dnode
    }

    /// How many entries it had when it was last looked at.
    pub fn len(&self) -> u64 {
        match &*self.form.borrow().1 {
            Form::Micro(table) => table.len() as u64,
            Form::Fat(header) => header.entries,
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a name, byte for byte.
    ///
    /// # Errors
    /// A block that it needs can't be had, or is none.
    pub async fn get(&self, name: &[u8]) -> Result<Option<LeafValue>, ZfsError> {
        self.get_as(name, Match::Exact).await
    }

    /// The value of the name that is meant by one.
    ///
    /// # Errors
    /// As of [`Zap::get`].
    pub(crate) async fn get_as(
        &self,
        name: &[u8],
        which: Match,
    ) -> Result<Option<LeafValue>, ZfsError> {
        match &*self.form().await? {
            Form::Micro(table) => {
                let found = table.find(&table.wanted(name, which));
                Ok(found.map(|entry| number_value(entry.value)))
            }
            Form::Fat(header) if header.normalization == 0 || which == Match::Exact => {
                self.get_in_leaf(header, hash_in(header, name), KeyRef::Name(name)).await
            }
            Form::Fat(header) => {
                let wanted = wanted_in(header, name, which);
                let block = self.leaf_block(header, wanted.hash).await?;
                let leaf = LeafView::of(block.bytes.bytes(), block.endian, header.flags);
                let found = leaf.and_then(|leaf| {
                    let found = leaf.first_name(wanted.hash, |known| wanted.is(known))?;
                    found.map(|(_, value)| value.to_value()).transpose()
                });
                found.map_err(|error| self.dnode.wrong(error))
            }
        }
    }

    /// The number that a name has; nothing where it has none.
    ///
    /// # Errors
    /// As of [`Zap::get`]; or its value is not one number.
    pub async fn number(&self, name: &'static str) -> Result<Option<u64>, ZfsError> {
        let Some(value) = self.get(name.as_bytes()).await? else { return Ok(None) };
        let problem = Problem::Type;
        let error = FormatError { structure: "ZAP", field: name, offset: 0, problem };
        value.number().map(Some).ok_or_else(|| self.dnode.wrong(error))
    }

    /// The number that a name must have.
    ///
    /// # Errors
    /// As of [`Zap::number`]; or there is none.
    pub async fn needed(&self, name: &'static str) -> Result<u64, ZfsError> {
        let problem = Problem::Missing;
        let error = FormatError { structure: "ZAP", field: name, offset: 0, problem };
        self.number(name).await?.ok_or_else(|| self.dnode.wrong(error))
    }

    /// The value of a key of numbers.
    ///
    /// # Errors
    /// A block that it needs can't be had, or is none.
    pub async fn get_key(&self, key: &[u64]) -> Result<Option<LeafValue>, ZfsError> {
        let form = self.form().await?;
        let Form::Fat(header) = &*form else { return Ok(None) };
        let hash = hash_key(key, header.salt, header.flags);
        self.get_in_leaf(header, hash, KeyRef::Numbers(key)).await
    }

    /// The entries from there on, by their hashes and differentiators: all of a micro ZAP, or those of one leaf. Empty only after the last.
    ///
    /// # Errors
    /// A block can't be had, or is none.
    pub async fn list(&self, from: Cursor) -> Result<Vec<Entry>, ZfsError> {
        let Some((hash, differentiator)) = from.place() else { return Ok(Vec::new()) };
        match &*self.form().await? {
            Form::Micro(table) => {
                let entry = |(hash, entry): (u64, &MicroEntry)| Entry {
                    name: entry.name.as_bytes().to_vec(),
                    value: number_value(entry.value),
                    differentiator: entry.differentiator,
                    next: Cursor::behind(hash, entry.differentiator),
                };
                Ok(table.from(hash, differentiator).map(entry).collect())
            }
            Form::Fat(header) => self.list_leaf(header, hash, from).await,
        }
    }

    /// The entries of the first leaf that has some from there on, which is at this hash.
    async fn list_leaf(
        &self,
        header: &FatHeader,
        hash: u64,
        from: Cursor,
    ) -> Result<Vec<Entry>, ZfsError> {
        let shift = header.table.shift;
        let first_hash = |index: u64| index << (64 - shift);
        let mut index = hash >> (64 - shift);
        while index < 1 << shift {
            let leaf = self.leaf(header, first_hash(index)).await?;
            // A leaf with a shorter prefix stands at several places of the table.
            let stands = 1u64 << shift.saturating_sub(leaf.prefix_bits.into());
            let first = index / stands * stands;
            index = first + stands;
            // What a damaged leaf has beyond these is found by no name, and would lead back.
            let hashes = first_hash(first)..=first_hash(index).wrapping_sub(1);
            let is_meant = |entry: &LeafEntry| {
                hashes.contains(&entry.hash) && Cursor::at(entry.hash, entry.differentiator) >= from
            };
            let mut entries: Vec<_> = leaf.entries.into_iter().filter(is_meant).collect();
            if entries.is_empty() {
                continue;
            }
            entries.sort_by_key(|entry| (entry.hash, entry.differentiator));
            let entry = |entry: LeafEntry| Entry {
                name: match entry.key {
                    Key::Name(name) => name,
                    Key::Numbers(key) => key.iter().flat_map(|n| n.to_le_bytes()).collect(),
                },
                value: entry.value,
                differentiator: entry.differentiator,
                next: Cursor::behind(entry.hash, entry.differentiator),
            };
            return Ok(entries.into_iter().map(entry).collect());
        }
        Ok(Vec::new())
    }

    /// All entries, in the order of [`Zap::list`]. For tables whose size the pool's own shape bounds; directories are listed leaf by leaf.
    ///
    /// # Errors
    /// As of [`Zap::list`].
    pub async fn entries(&self) -> Result<Vec<Entry>, ZfsError> {
        let (mut all, mut cursor) = (Vec::new(), Cursor::default());
        loop {
            let entries = self.list(cursor).await?;
            let Some(last) = entries.last() else { return Ok(all) };
            cursor = last.next;
            all.extend(entries);
        }
    }

    /// The value of a key, found where it lies in its leaf.
    async fn get_in_leaf(
        &self,
        header: &FatHeader,
        hash: u64,
        key: KeyRef<'_>,
    ) -> Result<Option<LeafValue>, ZfsError> {
        let block = self.leaf_block(header, hash).await?;
        let leaf = LeafView::of(block.bytes.bytes(), block.endian, header.flags);
        let found = leaf.and_then(|leaf| leaf.get(hash, key)?.map(|v| v.to_value()).transpose());
        found.map_err(|error| self.dnode.wrong(error))
    }

    async fn leaf(&self, header: &FatHeader, hash: u64) -> Result<Leaf, ZfsError> {
        let block = self.leaf_block(header, hash).await?;
        let leaf = Leaf::decode(block.bytes.bytes(), block.endian, header.flags);
        leaf.map_err(|error| self.dnode.wrong(error))
    }

    async fn leaf_block(&self, header: &FatHeader, hash: u64) -> Result<Block, ZfsError> {
        let wrong = |error| self.dnode.wrong(error);
        let number = match header.leaf_of(hash) {
            LeafPlace::Block(number) => number,
            LeafPlace::InTable { block, index } => {
                let table = self.dnode.block(block).await?;
                fat::table_at(table.bytes.bytes(), index, table.endian).map_err(wrong)?
            }
        };
        self.dnode.block(number).await
    }
}
