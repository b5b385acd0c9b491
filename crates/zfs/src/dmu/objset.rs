//! An objset: the root block of a dataset or of the MOS, and its objects.
//!
//! **One handle a dnode.** Open dnodes are registered, weakly while they are clean. A dnode that was changed is held until
//! its group is synced: the block that it stands in still has the old one, so the handle comes first, and walks over
//! blocks of dnodes put it in the place of what the block says.
//!
//! A dnode that was freed leaves the registry, its number stands in `changed` as free, and the tree that it had is
//! kept for who syncs the group: nothing points to it any more.

use super::account::{Counted, TABLES};
use super::caching::Caching;
use super::dbuf::Block;
use super::dnode::{Changed, Context, Dnode, WeakDnode};
use super::early::EarlyBlocks;
use super::step::{Blocked, Step};
use super::txg::{Tx, TxGroups};
use crate::error::{Problem, ZfsError};
use rt::{Priority, Rt};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::planted::{self, Bug};
use zfs_format::block_pointer::{BlockPointer, Protection};
use zfs_format::dnode::{self, Dnode as DnodePhys};
use zfs_format::objset::{Objset as ObjsetPhys, ObjsetKind};
use zfs_format::zil::ZilHeader;
use zfs_format::{Endian, FormatError};
use zfs_store::crypt::DatasetKey;
use zfs_store::{BlockRequest, Bookmark, ReadBlocks};

/// The object number of an objset's meta-dnode, in bookmarks.
const META_DNODE: u64 = 0;
/// Registered dnodes below which nobody looks for those that are gone.
const PRUNE_FROM: usize = 64;
/// Objects that an objset may have: 48 bits.
const OBJECTS_MAX: u64 = 1 << 48;

/// An open objset. Clones are handles of the same.
#[derive(Clone)]
pub struct Objset(Rc<Inner>);

struct Inner {
    context: Context,
    root: RefCell<Rc<ObjsetPhys>>,
    meta: Option<Dnode>,
    open: RefCell<Registry>,
    /// Tables in which it is counted who takes what: by user, group, project.
    used: [RefCell<Option<Dnode>>; TABLES],
    counted: Cell<Counted>,
    /// Bytes of a volume.
    volume_bytes: Cell<u64>,
    changed: Rc<RefCell<Changed>>,
    groups: RefCell<Option<Changing>>,
    /// Below it no free number is looked for.
    next_number: Cell<u64>,
    /// Blocks that were written before their group is.
    early: Rc<EarlyBlocks>,
}

/// In which groups an objset is changed.
struct Changing {
    groups: TxGroups,
    /// In the one that syncs, by who syncs it; else in the open one.
    by_sync: bool,
}

/// Dnodes that somebody holds.
#[derive(Default)]
struct Registry {
    dnodes: BTreeMap<u64, WeakDnode>,
    prune_at: usize,
}

impl Registry {
    fn get(&self, number: u64) -> Option<Dnode> {
        self.dnodes.get(&number)?.upgrade()
    }

    fn insert(&mut self, dnode: &Dnode) {
        if self.dnodes.len() >= self.prune_at.max(PRUNE_FROM) {
            self.dnodes.retain(|_, dnode| dnode.upgrade().is_some());
            self.prune_at = 2 * self.dnodes.len();
        }
        self.dnodes.insert(dnode.number(), dnode.downgrade());
    }
}

impl Objset {
    /// Opens the objset that a pointer leads to. `number` is the object of its dataset in the MOS, 0 for the MOS.
    ///
    /// # Errors
    /// Its root block can't be had, or is none.
    pub async fn open(
        rt: &Rt,
        blocks: &Rc<dyn ReadBlocks>,
        number: u64,
        pointer: &BlockPointer,
        key: Option<Rc<DatasetKey>>,
    ) -> Result<Objset, ZfsError> {
        let at = Bookmark { objset: number, object: 0, level: -1, block: 0 };
        // The root block is authenticated with the key, and never encrypted.
        let request = BlockRequest::new(*pointer, at).with_key(key.clone());
        let block = blocks.read(request).await?;
        let wrong = |error: FormatError| ZfsError::Format { objset: number, object: 0, error };
        let root = ObjsetPhys::decode(block.bytes(), pointer.endian()).map_err(wrong)?;
        Ok(Objset::of(rt, blocks, number, root, pointer.endian(), key))
    }

    /// An objset of which nothing is stored yet, or whose root block was read.
    pub fn of(
        rt: &Rt,
        blocks: &Rc<dyn ReadBlocks>,
        number: u64,
        root: ObjsetPhys,
        endian: Endian,
        key: Option<Rc<DatasetKey>>,
    ) -> Objset {
        let (rt, blocks) = (rt.clone(), Rc::clone(blocks));
        let changed = Rc::<RefCell<Changed>>::default();
        let (caching, its_changed) = (Rc::default(), Rc::downgrade(&changed));
        let context = Context { rt, blocks, objset: number, key, caching, changed: its_changed };
        let meta = root.meta_dnode.clone();
        let meta = meta.map(|phys| Dnode::new(context.clone(), META_DNODE, phys, endian));
        let table = |n: usize| {
            let made = |phys| Dnode::new(context.clone(), u64::MAX - n as u64, phys, endian);
            RefCell::new(root.used[n].clone().map(made))
        };
        let used = [table(0), table(1), table(2)];
        let (open, groups, root) =
            (Default::default(), Default::default(), RefCell::new(Rc::new(root)));
        // What was freed before the last block of dnodes is left alone.
        let last = meta.as_ref().map_or(0, |meta: &Dnode| meta.phys().block_id_max);
        let next_number = last.saturating_mul(dnode::OBJECTS_PER_BLOCK).clamp(1, OBJECTS_MAX);
        let next_number = Cell::new(next_number);
        let (counted, volume_bytes) = Default::default();
        Objset(Rc::new(Inner {
            context,
            root,
            meta,
            open,
            used,
            counted,
            volume_bytes,
            changed,
            groups,
            next_number,
            early: Rc::default(),
        }))
    }

    /// The object of its dataset in the MOS; 0 for the MOS.
    pub fn number(&self) -> u64 {
        self.0.context.objset
    }

    /// Its root block.
    pub fn root(&self) -> Rc<ObjsetPhys> {
        Rc::clone(&self.0.root.borrow())
    }

    /// Its root says nothing of a log from here on; whether it did before. The blocks of the log are not its.
    pub fn forget_log(&self) -> bool {
        let had_one = self.root().zil != ZilHeader::EMPTY;
        if had_one {
            self.set_log_header(ZilHeader::EMPTY);
        }
        had_one
    }

    /// Blocks of it that were written before their group is.
    pub fn early(&self) -> &Rc<EarlyBlocks> {
        &self.0.early
    }

    /// How many handles of it there are.
    pub fn handles(&self) -> usize {
        Rc::strong_count(&self.0)
    }

    /// The table in which it is counted what users (0), groups (1) or projects (2) take, if there is one yet.
    pub fn used(&self, table: usize) -> Option<Dnode> {
        self.0.used.get(table)?.borrow().clone()
    }

    /// Such a table is made: its dnode.
    pub(super) fn put_used(&self, table: usize, phys: DnodePhys) -> Dnode {
        let number = u64::MAX - table as u64;
        let dnode = Dnode::new(self.0.context.clone(), number, phys, Endian::Little);
        let before = self.0.used[table].borrow_mut().replace(dnode.clone());
        assert!(before.is_none(), "it is made once");
        dnode
    }

    /// All such tables that there are.
    pub(super) fn all_used(&self) -> impl Iterator<Item = (usize, Dnode)> {
        (0..TABLES).filter_map(|table| Some((table, self.used(table)?)))
    }

    /// Says what of it the cache keeps from here on.
    pub fn set_caching(&self, caching: Caching) {
        self.0.context.caching.set(caching);
    }

    /// Lets objects and projects be counted.
    pub fn set_counted(&self, counted: Counted) {
        self.0.counted.set(counted);
    }

    /// Bytes of the volume that it holds: all who have it open go by that.
    pub fn volume_bytes(&self) -> u64 {
        self.0.volume_bytes.get()
    }

    /// The volume is so long from here on.
    pub fn set_volume_bytes(&self, bytes: u64) {
        self.0.volume_bytes.set(bytes);
    }

    /// What is counted beside the space of users and groups; nothing where not even that: it is no file system.
    pub fn counted(&self) -> Option<Counted> {
        (self.root().kind == ObjsetKind::FileSystem).then(|| self.0.counted.get())
    }

    /// Its key, if it is encrypted and the key is loaded.
    pub fn key(&self) -> Option<&Rc<DatasetKey>> {
        self.0.context.key.as_ref()
    }

    /// Where its blocks come from.
    pub fn blocks(&self) -> &Rc<dyn ReadBlocks> {
        &self.0.context.blocks
    }

    /// The executor.
    pub fn rt(&self) -> &Rt {
        &self.0.context.rt
    }

    /// The array of dnodes, as an object.
    ///
    /// # Errors
    /// The objset was never made.
    pub fn meta(&self) -> Result<&Dnode, ZfsError> {
        self.0.meta.as_ref().ok_or_else(|| self.wrong(META_DNODE, Problem::Empty))
    }

    /// An error about an object of this objset.
    pub fn wrong(&self, object: u64, problem: Problem) -> ZfsError {
        ZfsError::Object { objset: self.0.context.objset, object, problem }
    }

    /// Lets it be changed, in these groups.
    pub fn change_in(&self, groups: TxGroups) {
        *self.0.groups.borrow_mut() = Some(Changing { groups, by_sync: false });
    }

    /// Lets it be changed by who syncs these groups, and nobody else.
    pub fn change_by_sync(&self, groups: TxGroups) {
        *self.0.groups.borrow_mut() = Some(Changing { groups, by_sync: true });
    }

    pub(super) fn join(&self) -> Result<Tx, ZfsError> {
        let groups = self.0.groups.borrow();
        let changing = groups.as_ref().ok_or_else(|| self.wrong(META_DNODE, Problem::ReadOnly))?;
        match changing.by_sync {
            true => Ok(changing.groups.join_syncing()),
            false => changing.groups.join().map_err(|problem| self.wrong(META_DNODE, problem)),
        }
    }

    /// Whether who changes it has to wait.
    pub(super) fn holds_up(&self) -> bool {
        self.0.groups.borrow().as_ref().is_some_and(|changing| changing.groups.holds_up())
    }

    /// Waits as long as a change has to.
    pub(super) async fn throttle(&self) {
        if let Some(groups) = self.waits_for() {
            groups.throttle().await;
        }
    }

    /// Waits while too much is dirty.
    pub(super) async fn wait_for_room(&self) {
        if let Some(groups) = self.waits_for() {
            groups.wait_for_room().await;
        }
    }

    /// The groups for which its changes wait. Who syncs waits for nobody: he is who the others wait for.
    fn waits_for(&self) -> Option<TxGroups> {
        let waits = |changing: &Changing| (!changing.by_sync).then(|| changing.groups.clone());
        self.0.groups.borrow().as_ref().and_then(waits)
    }

    pub(super) fn next_number(&self) -> u64 {
        self.0.next_number.get()
    }

    pub(super) fn set_next_number(&self, number: u64) {
        self.0.next_number.set(self.0.next_number.get().max(number));
    }

    pub(super) fn set_root(&self, root: ObjsetPhys) {
        *self.0.root.borrow_mut() = Rc::new(root);
    }

    pub(super) fn changed(&self) -> &RefCell<Changed> {
        &self.0.changed
    }

    /// A dnode by its number.
    ///
    /// # Errors
    /// There is none, or its block can't be had.
    pub async fn dnode(&self, number: u64) -> Result<Dnode, ZfsError> {
        match self.open_dnode(number)? {
            Some(dnode) => Ok(dnode),
            None => {
                let block = self.meta()?.block(dnode::place_of(number).0).await?;
                // Another may have opened or changed it while the block was read.
                match self.open_dnode(number)? {
                    Some(dnode) => Ok(dnode),
                    None => self.register(number, &block),
                }
            }
        }
    }

    /// The same without waiting.
    ///
    /// # Errors
    /// As of [`Objset::dnode`], or its block is not in memory.
    pub fn resident(&self, number: u64) -> Step<Dnode> {
        match self.open_dnode(number)? {
            Some(dnode) => Ok(dnode),
            None => {
                let block = self.meta()?.resident(dnode::place_of(number).0)?;
                Ok(self.register(number, &block)?)
            }
        }
    }

    /// A dnode that is open or changed; nothing where its block has to tell.
    fn open_dnode(&self, number: u64) -> Result<Option<Dnode>, ZfsError> {
        let absent = || self.wrong(number, Problem::Absent);
        if let Some(dnode) = self.0.open.borrow().get(number) {
            return Ok(Some(dnode));
        }
        if let Some(changed) = self.0.changed.borrow().get(number) {
            assert!(changed.is_none(), "a changed dnode is registered");
            return Err(absent());
        }
        let beyond = dnode::place_of(number).0 > self.meta()?.phys().block_id_max;
        if number == META_DNODE || beyond { Err(absent()) } else { Ok(None) }
    }

    fn register(&self, number: u64, block: &Block) -> Result<Dnode, ZfsError> {
        let phys = self.stored(number, block)?;
        let phys = phys.ok_or_else(|| self.wrong(number, Problem::Absent))?;
        let dnode = Dnode::new(self.0.context.clone(), number, phys, block.endian);
        self.0.open.borrow_mut().insert(&dnode);
        Ok(dnode)
    }

    /// What a block has in an object's slot.
    fn stored(&self, number: u64, block: &Block) -> Result<Option<DnodePhys>, ZfsError> {
        let (_, slot) = dnode::place_of(number);
        let found = dnode::find(block.bytes.bytes(), slot, block.endian);
        found.map_err(|error| self.format_wrong(error))
    }

    /// A dnode by its number, of an encrypted dataset without its key: only the bonus of a dnode is encrypted, so that
    /// the blocks below it can be found. The bonus is not to be believed.
    ///
    /// # Errors
    /// As of [`Objset::dnode`].
    pub async fn dnode_without_bonus(&self, number: u64) -> Result<Dnode, ZfsError> {
        let meta = self.meta()?;
        let (block, _) = dnode::place_of(number);
        let absent = || self.wrong(number, Problem::Absent);
        let pointer = meta.pointer(block).await?.filter(|pointer| !pointer.is_hole());
        let pointer = pointer.ok_or_else(absent)?;
        if self.0.context.key.is_some() || pointer.protection() != Protection::Encrypted {
            return self.dnode(number).await;
        }
        let at = Bookmark { objset: self.0.context.objset, object: META_DNODE, level: 0, block };
        let mut request = self.request(pointer, at);
        // Blocks of dnodes that are encrypted are not compressed, so what is stored is what is meant.
        request.raw = true;
        let bytes = self.0.context.blocks.read(request).await?;
        let phys = self.stored(number, &Block { bytes, endian: pointer.endian() })?;
        Ok(self.detached(number, phys.ok_or_else(absent)?, pointer.endian()))
    }

    /// The numbers of objects from `from` on that stand in the same block of the meta-dnode as the first of them, with
    /// their dnodes, and where to go on; nothing after the last.
    ///
    /// # Errors
    /// A block of dnodes can't be had: whoever walks may go on 32 objects further.
    pub async fn dnodes_from(
        &self,
        from: u64,
    ) -> Result<Option<(Vec<(u64, DnodePhys, Endian)>, u64)>, ZfsError> {
        let meta = self.meta()?;
        let (first, slot) = dnode::place_of(from);
        let bytes = meta.phys().data_block_bytes().max(1);
        let stored = meta.next_data(first.saturating_mul(bytes)).await?.map(|at| at / bytes);
        let stored = stored.filter(|number| *number <= meta.phys().block_id_max);
        let changed = self.0.changed.borrow().first(from);
        let changed = changed.map(|number| dnode::place_of(number).0);
        let Some(number) = [stored, changed].into_iter().flatten().min() else { return Ok(None) };
        let block = meta.block(number).await?;
        let base = number.saturating_mul(dnode::OBJECTS_PER_BLOCK);
        let next = base.saturating_add(dnode::OBJECTS_PER_BLOCK);
        let found = self.dnodes(&block)?.into_iter();
        let mut found: BTreeMap<u64, (DnodePhys, Endian)> =
            found.map(|(at, phys)| (base + at as u64, (phys, block.endian))).collect();
        for (number, changed) in &self.0.changed.borrow().range(base..next) {
            match changed {
                Some(dnode) => found.insert(*number, ((*dnode.phys()).clone(), dnode.endian())),
                None => found.remove(number),
            };
        }
        let slot = if number == first { slot as u64 } else { 0 };
        let found = found.into_iter().filter(|(at, _)| *at >= base + slot);
        let found = found.map(|(number, (phys, endian))| (number, phys, endian)).collect();
        Ok(Some((found, next)))
    }

    /// A handle of a dnode as a block has it, which nobody shares: for who walks over what is stored.
    pub fn detached(&self, number: u64, phys: DnodePhys, endian: Endian) -> Dnode {
        Dnode::new(self.0.context.clone(), number, phys, endian)
    }

    fn dnodes(&self, block: &Block) -> Result<Vec<(usize, DnodePhys)>, ZfsError> {
        let found = dnode::dnodes(block.bytes.bytes(), block.endian);
        found.map_err(|error| self.format_wrong(error))
    }

    /// An error about a block of dnodes.
    fn format_wrong(&self, error: FormatError) -> ZfsError {
        ZfsError::Format { objset: self.0.context.objset, object: META_DNODE, error }
    }

    /// Whether an object can be made at a number, in so many slots: plan. Says in which byte order it would stand.
    ///
    /// # Errors
    /// The number is taken, or can't be one; the block of dnodes is not in memory.
    pub fn plan_allocate(&self, number: u64, slots: usize) -> Step<Endian> {
        let meta = self.meta()?;
        let (at, slot) = dnode::place_of(number);
        let taken = || Blocked::Wrong(self.wrong(number, Problem::Taken));
        let fits = slots >= 1 && slot + slots <= dnode::OBJECTS_PER_BLOCK as usize;
        if number == META_DNODE || number >= OBJECTS_MAX || !fits {
            return Err(taken());
        }
        let block = meta.resident(at)?;
        let base = number - slot as u64;
        let mut used = [false; dnode::OBJECTS_PER_BLOCK as usize];
        let mut mark =
            |at: usize, slots: usize| used.iter_mut().skip(at).take(slots).for_each(|u| *u = true);
        let stored = match block.bytes.fill_word() {
            // Nothing is stored there yet.
            Some(0) => Vec::new(),
            _ => dnode::taken(block.bytes.bytes()).map_err(|error| self.format_wrong(error))?,
        };
        let changed = self.0.changed.borrow();
        for slots in stored {
            if changed.get(base + slots.start as u64).is_none() {
                mark(slots.start, slots.len());
            }
        }
        for (other, dnode) in changed.each(base..base + dnode::OBJECTS_PER_BLOCK) {
            if let Some(dnode) = dnode {
                let forgets = planted::is(Bug::LargeDnodeSlotForgotten);
                let slots = if forgets { 1 } else { dnode.phys().slots() };
                mark((other - base) as usize, slots);
            }
        }
        if used.iter().skip(slot).take(slots).any(|used| *used) {
            Err(taken())
        } else {
            Ok(block.endian)
        }
    }

    /// Makes an object at a number that [`Objset::plan_allocate`] found free.
    pub fn allocate(&self, tx: &Tx, number: u64, phys: DnodePhys, endian: Endian) -> Dnode {
        assert!(
            phys.levels == 1 && phys.pointers.iter().all(BlockPointer::is_hole),
            "a new object has no block"
        );
        let dnode = Dnode::new(self.0.context.clone(), number, phys, endian);
        let mut changed = self.0.changed.borrow_mut();
        let before = changed.dnodes.insert(number, Some(dnode.clone()));
        assert!(before.flatten().is_none(), "the number was planned to be free");
        self.0.open.borrow_mut().insert(&dnode);
        // Who looks for a free number need not look at this one.
        if self.next_number() == number {
            self.set_next_number(number + dnode.phys().slots() as u64);
        }
        dnode.was_made(tx);
        dnode
    }

    /// Frees an object with all that it holds.
    pub fn free(&self, tx: &Tx, dnode: &Dnode) {
        let number = dnode.number();
        assert_eq!(dnode.objset(), self.number(), "an objset frees objects of its own");
        let mut changed = self.0.changed.borrow_mut();
        changed.dnodes.insert(number, None);
        changed.buried.push((tx.txg(), dnode.clone()));
        dnode.bury();
        self.0.open.borrow_mut().dnodes.remove(&number);
        // Who makes and removes files one after another does it in one place.
        if self.next_number() == number + dnode.phys().slots() as u64 {
            self.0.next_number.set(number);
        }
        tx.changed(0);
    }

    /// A request for a block of this objset.
    pub fn request(&self, pointer: BlockPointer, at: Bookmark) -> BlockRequest {
        let mut request = BlockRequest::new(pointer, at).with_key(self.0.context.key.clone());
        request.priority = Priority::Foreground;
        request.once = !self.0.context.caching.get().keeps(&request.pointer);
        request
    }
}
