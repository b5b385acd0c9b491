//! Inodes: files and directories, on the device and in memory.
//!
//! *Record*: magic u16, kind u8 (1 file, 2 directory), 1 unused, links u32, size u64, blocks u64 (data and
//! metadata), access time u64 and change time u64 (nanoseconds of the run's clock), own number u64,
//! generation u32, CRC-32 u32 (of the record with zeros here). Then, from byte 56 on, what finds the
//! blocks: 15 pointers u32, or the first block of the chain of extents u64 and the first extents, 16 bytes
//! each.
//!
//! **Size, twice.** `size` is what readers see. `stored_size` is what the record says: it follows when data
//! is on the device, so that after a crash a file does not end in zeros that were never written.
//!
//! **Times** change often and matter little: they wait in memory, and join a transaction when it is
//! committed, or with the next change of the inode.
//!
//! **In memory** an inode stays while it is open, has dirty data, or is in use; others go when there are
//! too many, the longest unused first, their pages with them.

mod load;

use crate::directory::DirectoryIndex;
use crate::layout::Extent;
use crate::lru::Lru;
use crate::mapping::Root;
use crate::meta::MetaRef;
use rt::TreeErrorKind;
use rt::sync::{Mutex, Notify, RwLock};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use stdx::{ByteCount, Instant};

const MAGIC: u16 = 0x494e;
const CRC_AT: usize = 52;
/// One inode is kept in memory for so much cache, when nobody uses it.
const CACHE_PER_INODE: ByteCount = ByteCount::kib(16);

/// File or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
}

/// An inode in memory.
pub(crate) struct Inode {
    pub(crate) number: u64,
    pub(crate) kind: Kind,
    pub(crate) body: RefCell<Body>,
    /// The lock that requests hold by [`Locks`](crate::Locks).
    pub(crate) rw: RwLock<()>,
    /// One write-back at a time.
    pub(crate) write_back: Mutex<()>,
    /// Shared by I/O to the file's blocks; held alone by whoever takes blocks away.
    pub(crate) io: RwLock<()>,
    /// Held by whoever changes the mapping, from plan to change.
    pub(crate) attach: Mutex<()>,
    /// Held by whoever looks at or changes the entries of a directory.
    pub(crate) entries: Mutex<()>,
    pub(crate) opens: Cell<u32>,
    /// It has no name and no handle any more, and is being freed.
    pub(crate) going: Cell<bool>,
}

/// What changes of an inode.
pub(crate) struct Body {
    pub(crate) links: u32,
    pub(crate) generation: u32,
    pub(crate) size: u64,
    pub(crate) stored_size: u64,
    pub(crate) blocks: u64,
    pub(crate) accessed: u64,
    pub(crate) changed: u64,
    pub(crate) root: Root,
    /// Pages in the cache: the key of each.
    pub(crate) pages: BTreeMap<u64, usize>,
    pub(crate) dirty: BTreeSet<u64>,
    pub(crate) dirty_since: Option<Instant>,
    /// Granted and not yet written: first file block to (first block, length).
    pub(crate) pending: BTreeMap<u64, Extent>,
    /// Granted for indirect blocks: (level, first file block under it) to the block.
    pub(crate) pending_indirect: BTreeMap<(usize, u64), u64>,
    /// Pages that are being read: first page to the fill.
    pub(crate) fills: BTreeMap<u64, Rc<Fill>>,
    /// Counts invalidations, so that a read begun before one is not cached after it.
    pub(crate) invalidations: u64,
    /// The last transaction with a change of anything, and of anything but times.
    pub(crate) transaction: u64,
    pub(crate) transaction_but_times: u64,
    pub(crate) times_dirty: bool,
    /// A write-back that failed; told to the next sync.
    pub(crate) failed: Option<TreeErrorKind>,
    pub(crate) index: Option<DirectoryIndex>,
    /// Blocks of the reservation window to ask for next.
    pub(crate) window: u64,
    /// Where the last buffered write ended, and where written-behind data ends.
    pub(crate) last_write_end: u64,
    pub(crate) behind_to: u64,
}

/// A read into the cache under way.
pub(crate) struct Fill {
    pub(crate) end: u64,
    pub(crate) done: Cell<bool>,
    pub(crate) failed: Cell<Option<TreeErrorKind>>,
    pub(crate) bell: Notify,
}

impl Inode {
    /// An inode that was just taken.
    pub(crate) fn fresh(number: u64, kind: Kind, root: Root, generation: u32, now: u64) -> Inode {
        let body = Body {
            links: 1,
            generation,
            size: 0,
            stored_size: 0,
            blocks: 0,
            accessed: now,
            changed: now,
            root,
            pages: BTreeMap::new(),
            dirty: BTreeSet::new(),
            dirty_since: None,
            pending: BTreeMap::new(),
            pending_indirect: BTreeMap::new(),
            fills: BTreeMap::new(),
            invalidations: 0,
            transaction: 0,
            transaction_but_times: 0,
            times_dirty: false,
            failed: None,
            index: None,
            window: 0,
            last_write_end: 0,
            behind_to: 0,
        };
        Inode {
            number,
            kind,
            body: RefCell::new(body),
            rw: RwLock::new(()),
            write_back: Mutex::new(()),
            io: RwLock::new(()),
            attach: Mutex::new(()),
            entries: Mutex::new(()),
            opens: Cell::new(0),
            going: Cell::new(false),
        }
    }

    pub(crate) fn size(&self) -> u64 {
        self.body.borrow().size
    }

    fn is_idle(&self) -> bool {
        let body = self.body.borrow();
        self.opens.get() == 0
            && body.dirty.is_empty()
            && body.pending.is_empty()
            && body.pending_indirect.is_empty()
            && body.fills.is_empty()
            && !body.times_dirty
            && body.links > 0
    }
}

/// The generation that an unused record in a block goes on with.
pub(crate) fn next_generation(bytes: &[u8], at: usize) -> u32 {
    let old = bytes.get(at + 48..at + 52).and_then(|bytes| bytes.try_into().ok());
    old.map_or(1, |bytes| u32::from_le_bytes(bytes).wrapping_add(1))
}

/// The inodes in memory.
pub(crate) struct InodeTable {
    state: RefCell<Table>,
    most: usize,
}

#[derive(Default)]
struct Table {
    known: BTreeMap<u64, (Rc<Inode>, usize)>,
    uses: Lru<u64>,
    /// Inodes whose times are newer than their records.
    times_dirty: BTreeSet<u64>,
    /// Blocks of slots for orphans, and which slot has which inode.
    orphan_blocks: Vec<MetaRef>,
    orphans: BTreeMap<u64, usize>,
    free_slots: BTreeSet<usize>,
}

impl InodeTable {
    pub(crate) fn new(cache: ByteCount) -> InodeTable {
        InodeTable {
            state: RefCell::default(),
            // Some hundreds at the least: a path's directories and the files in use.
            most: ((cache / CACHE_PER_INODE) as usize).max(256),
        }
    }

    /// The inode, where it is in memory.
    pub(crate) fn get(&self, number: u64) -> Option<Rc<Inode>> {
        let table = self.state.borrow();
        table.known.get(&number).map(|(inode, _)| Rc::clone(inode))
    }

    /// Enters an inode; where it came in meanwhile, that one.
    pub(crate) fn insert(&self, inode: Inode, stamp: u64) -> Rc<Inode> {
        let mut table = self.state.borrow_mut();
        let number = inode.number;
        if let Some((known, _)) = table.known.get(&number) {
            return Rc::clone(known);
        }
        let inode = Rc::new(inode);
        let key = table.uses.insert(number, stamp);
        table.known.insert(number, (Rc::clone(&inode), key));
        inode
    }

    pub(crate) fn remove(&self, number: u64) {
        let mut table = self.state.borrow_mut();
        if let Some((_, key)) = table.known.remove(&number) {
            table.uses.remove(key);
        }
        table.times_dirty.remove(&number);
    }

    fn touch(&self, number: u64, stamp: u64) {
        let mut table = self.state.borrow_mut();
        if let Some(&(_, key)) = table.known.get(&number) {
            table.uses.touch(key, stamp);
        }
    }

    /// Inodes that nobody uses, where there are too many: a few at a time.
    fn surplus(&self, stamp: u64) -> Vec<Rc<Inode>> {
        const LOOKED_AT_MAX: usize = 16;
        let mut table = self.state.borrow_mut();
        let mut surplus = Vec::new();
        for _ in 0..LOOKED_AT_MAX {
            if table.uses.len() <= self.most {
                break;
            }
            let Some((key, _)) = table.uses.oldest() else { break };
            let number = *table.uses.get(key);
            let idle = table
                .known
                .get(&number)
                .is_some_and(|(inode, _)| Rc::strong_count(inode) == 1 && inode.is_idle());
            if !idle {
                table.uses.touch(key, stamp);
                continue;
            }
            table.uses.remove(key);
            surplus.extend(table.known.remove(&number).map(|(inode, _)| inode));
        }
        surplus
    }

    fn times_dirty(&self) -> Vec<u64> {
        self.state.borrow().times_dirty.iter().copied().collect()
    }

    pub(crate) fn set_orphan_blocks(&self, blocks: Vec<MetaRef>, block: u64) -> Vec<u64> {
        let mut table = self.state.borrow_mut();
        let mut found = Vec::new();
        for (i, slots) in blocks.iter().enumerate() {
            let per_block = block as usize / 8;
            for (j, slot) in slots.bytes().chunks_exact(8).enumerate() {
                let number = u64::from_le_bytes(slot.try_into().expect("eight bytes are eight"));
                let index = i * per_block + j;
                if number == 0 {
                    table.free_slots.insert(index);
                } else {
                    table.orphans.insert(number, index);
                    found.push(number);
                }
            }
        }
        table.orphan_blocks = blocks;
        found
    }

    /// The inodes that have no name and are not yet freed.
    pub(crate) fn orphans(&self) -> BTreeSet<u64> {
        self.state.borrow().orphans.keys().copied().collect()
    }

    /// Whether another file can be removed while it is open.
    pub(crate) fn has_orphan_slot(&self) -> bool {
        !self.state.borrow().free_slots.is_empty()
    }
}
