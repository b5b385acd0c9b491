//! Directories: names and the inodes that they stand for.
//!
//! A directory's blocks are metadata. Its entries stand in *leaves*: magic u32, number of entries u16, bytes
//! in use u16, then entries: inode u64, kind u8 (1 file, 2 directory), length of the name u8, name. There is
//! no order in a leaf, and no `.` or `..`.
//!
//! * *Linear*: leaf i is block i. A name may be in any of them. The first use reads all; from then on memory
//!   knows which hash is where, and which leaf has room.
//! * *Hashed*: each leaf holds the names whose hash is at or above its own start and below the next
//!   leaf's. A full leaf is split in the middle of its hashes. The starts stand in *index blocks*: magic
//!   u32, 12 unused, then one u32 for each leaf in the order in which they were made. Leaf 0 is block 0 and
//!   starts at 0; block 1 is the first index block, followed by the leaves that it is for; then the next
//!   index block, and so on. So a directory of one block has no index. All index blocks are read at the
//!   first use (ext3 reads one of each level; they are few), then one leaf for each look-up.
//!
//! Directories never shrink, as in the file systems that this is after. The `entries` lock is held from
//! looking to changing.

mod index;

pub(crate) use index::DirectoryIndex;

use crate::core::{Core, Outcome, Tx};
use crate::inode::{Inode, Kind};

use crate::mapping::What;
use crate::meta::MetaRef;
use crate::settings::DirectoryForm;
use rt::TreeErrorKind;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use stdx::bytes::{FormatError, Problem, Reader, put};

/// Longest name, in bytes.
pub(crate) const NAME_MAX: usize = 255;
const LEAF_MAGIC: u32 = 0x4449_524c;
const INDEX_MAGIC: u32 = 0x4449_5249;
const LEAF_HEADER: usize = 8;
const INDEX_HEADER: usize = 16;
const ENTRY_HEADER: usize = 10;

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) inode: u64,
    pub(crate) kind: Kind,
    pub(crate) name: String,
}

/// A name's entry, and the leaf that has it.
pub(crate) struct Found {
    pub(crate) inode: u64,
    pub(crate) kind: Kind,
    pub(crate) leaf: MetaRef,
    number: u64,
}

/// A leaf with room for a name.
pub(crate) struct Room {
    leaf: MetaRef,
    number: u64,
}

/// A full leaf that is to be split, and what is in it.
struct Full {
    leaf: MetaRef,
    entries: Vec<Entry>,
}

/// FNV-1a, 32 bit: any fixed, well spread hash does.
fn hash(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Where an entry stands, and what it says, but for the name.
#[derive(Clone, Copy)]
struct Slot {
    place: usize,
    inode: u64,
    kind: Kind,
}

/// Walks the entries of a leaf, in order, until `visit` says to stop.
fn walk_leaf(
    leaf: &MetaRef,
    core: &Core,
    mut visit: impl FnMut(Slot, &str) -> ControlFlow<()>,
) -> Result<(), FormatError> {
    let bytes = leaf.bytes();
    let at = core.shape.offset(leaf.number);
    let fields = Reader::little("directory leaf", &bytes).lying_at(at.bytes());
    fields.require(fields.get_at::<u32>("magic", 0)? == LEAF_MAGIC, "magic")?;
    let count = fields.get_at::<u16>("number of entries", 4)?;
    let used = fields.get_at::<u16>("bytes in use", 6)? as usize;
    fields.require((LEAF_HEADER..=bytes.len()).contains(&used), "bytes in use")?;
    let mut place = LEAF_HEADER;
    for _ in 0..count {
        let inode = fields.get_at::<u64>("entry", place)?;
        let kind = match fields.get_at::<u8>("kind of entry", place + 8)? {
            1 => Kind::File,
            2 => Kind::Directory,
            _ => return Err(fields.wrong("kind of entry", Problem::Unsound)),
        };
        let len = fields.get_at::<u8>("length of name", place + 9)? as usize;
        let name = fields.slice("name", place + ENTRY_HEADER, len)?;
        let name = std::str::from_utf8(name).map_err(|_| fields.wrong("name", Problem::Unsound))?;
        fields.require(!name.is_empty() && core.shape.inode_place(inode).is_some(), "entry")?;
        if visit(Slot { place, inode, kind }, name).is_break() {
            return Ok(());
        }
        place += ENTRY_HEADER + len;
    }
    fields.require(place == used, "bytes in use")
}

/// The entries of a leaf.
fn entries(leaf: &MetaRef, core: &Core) -> Result<Vec<Entry>, FormatError> {
    let mut found = Vec::new();
    walk_leaf(leaf, core, |Slot { inode, kind, .. }, name| {
        found.push(Entry { inode, kind, name: name.to_owned() });
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// The entry of a name.
fn find(leaf: &MetaRef, core: &Core, name: &str) -> Result<Option<Slot>, FormatError> {
    let mut found = None;
    walk_leaf(leaf, core, |slot, other| {
        if other != name {
            return ControlFlow::Continue(());
        }
        found = Some(slot);
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// Bytes in use of a leaf that was read before.
fn used(leaf: &MetaRef) -> usize {
    let bytes = leaf.bytes();
    u16::from_le_bytes([bytes[6], bytes[7]]) as usize
}

fn count(leaf: &MetaRef) -> u16 {
    let bytes = leaf.bytes();
    u16::from_le_bytes([bytes[4], bytes[5]])
}

/// Writes a whole leaf.
fn fill_leaf(tx: &Tx<'_>, leaf: &MetaRef, entries: &[Entry]) {
    let len = leaf.bytes().len();
    tx.edit(leaf, 0..len, |bytes| {
        bytes.fill(0);
        put(bytes, 0, &LEAF_MAGIC.to_le_bytes());
        let mut place = LEAF_HEADER;
        for entry in entries {
            place += encode(&mut bytes[place..], entry);
        }
        put(bytes, 4, &(entries.len() as u16).to_le_bytes());
        put(bytes, 6, &(place as u16).to_le_bytes());
    });
}

fn encode(bytes: &mut [u8], entry: &Entry) -> usize {
    put(bytes, 0, &entry.inode.to_le_bytes());
    bytes[8] = match entry.kind {
        Kind::File => 1,
        Kind::Directory => 2,
    };
    bytes[9] = entry.name.len() as u8;
    bytes[ENTRY_HEADER..ENTRY_HEADER + entry.name.len()].copy_from_slice(entry.name.as_bytes());
    ENTRY_HEADER + entry.name.len()
}

impl Core {
    /// Leaves that one index block is for.
    fn leaves_per_index(&self) -> u64 {
        (self.shape.block - INDEX_HEADER as u64) / 4
    }

    fn is_hashed(&self) -> bool {
        self.settings.directories == DirectoryForm::Hashed
    }

    /// Blocks of a directory.
    fn directory_blocks(&self, directory: &Inode) -> u64 {
        directory.size() / self.shape.block
    }

    /// How many leaves a directory of so many blocks has.
    fn leaves(&self, blocks: u64) -> u64 {
        if !self.is_hashed() || blocks <= 1 {
            return blocks;
        }
        let rest = blocks - 1;
        1 + rest - rest.div_ceil(self.leaves_per_index() + 1)
    }

    /// Which block of the directory a leaf is.
    fn leaf_block(&self, leaf: u64) -> u64 {
        if !self.is_hashed() || leaf == 0 {
            return leaf;
        }
        let per_index = self.leaves_per_index();
        (leaf - 1) / per_index * (per_index + 1) + 2 + (leaf - 1) % per_index
    }

    /// Which block has the index record of a leaf, and where in it.
    fn index_place(&self, leaf: u64) -> (u64, usize) {
        let per_index = self.leaves_per_index();
        let block = (leaf - 1) / per_index * (per_index + 1) + 1;
        (block, INDEX_HEADER + 4 * ((leaf - 1) % per_index) as usize)
    }

    async fn directory_block(&self, directory: &Inode, index: u64) -> Outcome<MetaRef> {
        match self.lookup(directory, index, 1).await?.what {
            What::At(block) => self.block(block).await,
            _ => Err(self.stray(directory.number / self.shape.inodes_per_block())),
        }
    }

    async fn leaf(&self, directory: &Inode, leaf: u64) -> Outcome<MetaRef> {
        self.directory_block(directory, self.leaf_block(leaf)).await
    }

    /// Reads what has to be known of a directory before its names can be found.
    async fn load_directory(&self, directory: &Inode) -> Outcome<()> {
        if directory.body.borrow().index.is_some() {
            return Ok(());
        }
        let leaves = self.leaves(self.directory_blocks(directory));
        let index = if self.is_hashed() {
            let mut starts = BTreeMap::new();
            if leaves > 0 {
                starts.insert(0, 0);
            }
            for leaf in 1..leaves {
                let (block, at) = self.index_place(leaf);
                let block = self.directory_block(directory, block).await?;
                let start = self.index_record(&block, at).map_err(|error| self.damaged(error))?;
                if starts.insert(start, leaf).is_some() {
                    return Err(self.stray(block.number));
                }
            }
            DirectoryIndex::Hashed { starts }
        } else {
            let (mut names, mut room) = (BTreeSet::new(), BTreeSet::new());
            for number in 0..leaves {
                let leaf = self.leaf(directory, number).await?;
                let found = entries(&leaf, self).map_err(|error| self.damaged(error))?;
                names.extend(found.iter().map(|entry| (hash(&entry.name), number)));
                room.insert((used(&leaf), number));
            }
            DirectoryIndex::Linear { names, room }
        };
        directory.body.borrow_mut().index = Some(index);
        Ok(())
    }

    fn index_record(&self, block: &MetaRef, at: usize) -> Result<u32, FormatError> {
        let bytes = block.bytes();
        let place = self.shape.offset(block.number);
        let fields = Reader::little("directory index", &bytes).lying_at(place.bytes());
        fields.require(fields.get_at::<u32>("magic", 0)? == INDEX_MAGIC, "magic")?;
        fields.get_at::<u32>("start of a leaf", at)
    }

    /// The leaves that may have a name.
    fn candidates(&self, directory: &Inode, name: &str) -> Vec<u64> {
        let hash = hash(name);
        match &directory.body.borrow().index {
            Some(DirectoryIndex::Linear { names, .. }) => {
                names.range((hash, 0)..=(hash, u64::MAX)).map(|(_, leaf)| *leaf).collect()
            }
            Some(DirectoryIndex::Hashed { starts }) => {
                starts.range(..=hash).next_back().map(|(_, leaf)| *leaf).into_iter().collect()
            }
            None => Vec::new(),
        }
    }

    /// Finds a name. The `entries` lock is held.
    pub(crate) async fn find_name(&self, directory: &Inode, name: &str) -> Outcome<Option<Found>> {
        self.load_directory(directory).await?;
        for number in self.candidates(directory, name) {
            let leaf = self.leaf(directory, number).await?;
            let found = find(&leaf, self, name).map_err(|error| self.damaged(error))?;
            if let Some(Slot { inode, kind, .. }) = found {
                return Ok(Some(Found { inode, kind, leaf, number }));
            }
        }
        Ok(None)
    }

    /// All entries, in the order of the leaves. The `entries` lock is held.
    pub(crate) async fn all_names(&self, directory: &Inode) -> Outcome<Vec<Entry>> {
        let mut all = Vec::new();
        for number in 0..self.leaves(self.directory_blocks(directory)) {
            let leaf = self.leaf(directory, number).await?;
            all.extend(entries(&leaf, self).map_err(|error| self.damaged(error))?);
        }
        Ok(all)
    }

    /// Whether a directory has no entry. The `entries` lock is held.
    pub(crate) async fn is_empty_directory(&self, directory: &Inode) -> Outcome<bool> {
        for number in 0..self.leaves(self.directory_blocks(directory)) {
            let leaf = self.leaf(directory, number).await?;
            if !entries(&leaf, self).map_err(|error| self.damaged(error))?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Finds room for a name that is not there, and makes some where there is none. The `entries` lock is
    /// held.
    pub(crate) async fn make_room(&self, directory: &Inode, name: &str) -> Outcome<Room> {
        self.load_directory(directory).await?;
        let needed = ENTRY_HEADER + name.len();
        loop {
            let number = match &directory.body.borrow().index {
                Some(DirectoryIndex::Linear { room, .. }) => room.first().map(|(_, leaf)| *leaf),
                _ => None,
            };
            let number = number.or_else(|| match self.is_hashed() {
                true => self.candidates(directory, name).first().copied(),
                false => None,
            });
            let Some(number) = number else {
                self.add_leaf(directory, None).await?;
                continue;
            };
            let leaf = self.leaf(directory, number).await?;
            // Whoever looked whether the name is there has read the whole leaf with care.
            if used(&leaf) + needed <= self.shape.block as usize {
                return Ok(Room { leaf, number });
            }
            let entries = entries(&leaf, self).map_err(|error| self.damaged(error))?;
            let split = self.is_hashed().then_some(Full { leaf, entries });
            self.add_leaf(directory, split).await?;
        }
    }

    /// Adds a leaf: an empty one, or one that takes half of the names of one that is full.
    async fn add_leaf(&self, directory: &Inode, split: Option<Full>) -> Outcome<()> {
        let blocks = self.directory_blocks(directory);
        let leaf = self.leaves(blocks);
        let index = match (self.is_hashed(), leaf) {
            (true, 1..) => {
                let (block, at) = self.index_place(leaf);
                if block == blocks {
                    // The index block that the new leaf's record goes to.
                    self.grow_directory(directory, |tx, block| {
                        tx.edit(block, 0..self.shape.block as usize, |bytes| {
                            put(bytes, 0, &INDEX_MAGIC.to_le_bytes());
                        });
                    })
                    .await?;
                }
                Some((self.directory_block(directory, block).await?, at))
            }
            _ => None,
        };
        let Some(Full { leaf: old, entries: found }) = split else {
            self.grow_directory(directory, |tx, block| fill_leaf(tx, block, &[])).await?;
            match &mut directory.body.borrow_mut().index {
                Some(DirectoryIndex::Linear { room, .. }) => {
                    room.insert((LEAF_HEADER, leaf));
                }
                Some(DirectoryIndex::Hashed { starts }) => {
                    starts.insert(0, leaf);
                }
                None => {}
            }
            return Ok(());
        };
        let mut hashes: Vec<u32> = found.iter().map(|entry| hash(&entry.name)).collect();
        hashes.sort_unstable();
        let lowest = *hashes.first().unwrap_or(&0);
        // The middle, or the first above the lowest: names of one hash stay together.
        let middle = hashes.get(hashes.len() / 2).copied().unwrap_or(0);
        let start = if middle > lowest {
            Some(middle)
        } else {
            hashes.iter().copied().find(|hash| *hash > lowest)
        };
        // A leaf full of names with one hash can't be split.
        let start = start.ok_or(TreeErrorKind::NoSpace)?;
        let (stay, go): (Vec<Entry>, Vec<Entry>) =
            found.into_iter().partition(|entry| hash(&entry.name) < start);
        let (index, at) = index.ok_or(TreeErrorKind::NoSpace)?;
        self.grow_directory(directory, |tx, block| {
            fill_leaf(tx, block, &go);
            fill_leaf(tx, &old, &stay);
            tx.edit(&index, at..at + 4, |bytes| bytes.copy_from_slice(&start.to_le_bytes()));
        })
        .await?;
        if let Some(DirectoryIndex::Hashed { starts }) = &mut directory.body.borrow_mut().index {
            starts.insert(start, leaf);
        }
        Ok(())
    }

    /// Adds a block to a directory; `with` fills it, in the same transaction.
    async fn grow_directory(
        &self,
        directory: &Inode,
        with: impl FnOnce(&Tx<'_>, &MetaRef),
    ) -> Outcome<()> {
        self.begin().await?;
        let index = self.directory_blocks(directory);
        let goal = self.goal(directory, index).await?;
        self.reserve(1, false).await?;
        let granted = self.grant(goal, 1).await;
        let extent = granted.inspect_err(|_| self.space.borrow_mut().unreserve(1))?;
        let _turn = directory.attach.lock().await;
        let planned = self.plan_attach(directory, index, extent, false).await;
        let plan = planned.inspect_err(|_| self.space.borrow_mut().release(&self.shape, extent))?;
        let tx = self.tx();
        self.apply_attach(&tx, directory, &plan);
        let block = self.fresh_block(extent.start);
        tx.edit(&block, 0..self.shape.block as usize, |bytes| bytes.fill(0));
        with(&tx, &block);
        {
            let mut body = directory.body.borrow_mut();
            body.size += self.shape.block;
            body.stored_size = body.size;
        }
        self.store(&tx, directory, &plan.inode_block);
        Ok(())
    }

    /// Enters a name where room was made for it.
    pub(crate) fn enter_name(&self, tx: &Tx<'_>, directory: &Inode, room: &Room, entry: &Entry) {
        let Room { leaf, number } = room;
        let (count, place) = (count(leaf), used(leaf));
        let end = place + ENTRY_HEADER + entry.name.len();
        tx.edit(leaf, place..end, |bytes| {
            encode(bytes, entry);
        });
        write_counts(tx, leaf, count + 1, end);
        self.note_room(directory, *number, place, end);
        if let Some(DirectoryIndex::Linear { names, .. }) = &mut directory.body.borrow_mut().index {
            names.insert((hash(&entry.name), *number));
        }
    }

    /// Removes a name that was found.
    pub(crate) fn remove_name(&self, tx: &Tx<'_>, directory: &Inode, found: &Found, name: &str) {
        let Found { leaf, number, .. } = found;
        let hash_of = hash(name);
        let (mut place, mut same) = (None, 0);
        let walked = walk_leaf(leaf, self, |slot, other| {
            same += u32::from(hash(other) == hash_of);
            if other == name {
                place = Some(slot.place);
            }
            ControlFlow::Continue(())
        });
        let (Ok(()), Some(place)) = (walked, place) else { return };
        let end = used(leaf);
        let len = ENTRY_HEADER + name.len();
        tx.edit(leaf, place..end, |bytes| bytes.copy_within(len.., 0));
        write_counts(tx, leaf, count(leaf) - 1, end - len);
        self.note_room(directory, *number, end, end - len);
        if same == 1
            && let Some(DirectoryIndex::Linear { names, .. }) =
                &mut directory.body.borrow_mut().index
        {
            names.remove(&(hash_of, *number));
        }
    }

    /// Makes a name that was found stand for another inode.
    pub(crate) fn replace_name(
        &self,
        tx: &Tx<'_>,
        found: &Found,
        name: &str,
        inode: u64,
        kind: Kind,
    ) {
        let Ok(Some(Slot { place, .. })) = find(&found.leaf, self, name) else { return };
        let entry = Entry { inode, kind, name: name.to_owned() };
        tx.edit(&found.leaf, place..place + ENTRY_HEADER + name.len(), |bytes| {
            encode(bytes, &entry);
        });
    }

    fn note_room(&self, directory: &Inode, leaf: u64, before: usize, now: usize) {
        if let Some(DirectoryIndex::Linear { room, .. }) = &mut directory.body.borrow_mut().index {
            room.remove(&(before, leaf));
            room.insert((now, leaf));
        }
    }
}

fn write_counts(tx: &Tx<'_>, leaf: &MetaRef, count: u16, used: usize) {
    tx.edit(leaf, 4..8, |bytes| {
        put(bytes, 0, &count.to_le_bytes());
        put(bytes, 2, &(used as u16).to_le_bytes());
    });
}
