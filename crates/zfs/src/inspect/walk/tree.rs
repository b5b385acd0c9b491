//! One tree of blocks after another: an objset's own block, its meta-dnode's tree, every object's tree.
//!
//! What is to be visited lies on a stack, so that blocks come in the order of their places, and those that lead on are read
//! ahead while the one before is awaited. The rules are in the [module above](super).
//!
//! Who destroys a tree meets a block when all below it was met ([`Walk::next_left`]), and may stop between two: the place at which
//! to go on ([`Walk::place`]) is one of level 0, before which all is gone. OpenZFS takes an object's spill block for the first of
//! it there, and gives it last; so nobody stops within an object that has one.

use crate::error::{Problem, ZfsError};
use rt::{Buf, Priority, Rt, Task};
use std::cell::Cell;
use std::rc::Rc;
use zfs_format::block_pointer::{self, BlockPointer, Kind, Protection};
use zfs_format::dnode::{self, Dnode};
use zfs_format::dsl::scan::ScanBookmark;
use zfs_format::object_type::ObjectType;
use zfs_format::objset;
use zfs_format::{FormatError, Record};
use zfs_store::{BlockError, BlockRequest, Bookmark, ReadBlocks};

/// Reads of what comes next that are begun at a time. Twice what a few disks need to stay busy with small blocks.
pub const AHEAD: usize = 16;
/// Entries that are looked through for what can be read ahead.
const LOOK_MAX: usize = 256;
/// Reads ahead that may lie unused, on all levels together: at 128 KiB each 32 MiB.
const AHEAD_UNUSED_MAX: usize = 256;
/// The object of an objset's meta-dnode.
const META_DNODE: u64 = 0;
/// The block number by which a spill block goes.
const SPILL: u64 = u64::MAX;
/// The objset that blocks of destroyed datasets are said to be of, as OpenZFS numbers it.
pub(crate) const DESTROYED: u64 = u64::MAX;
/// The place of a destroyed dataset of which nothing is free yet.
pub(crate) const START: ScanBookmark = ScanBookmark { objset: 0, object: 0, level: 0, block: 0 };

/// How a block is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// From an objset.
    Tree,
    /// From an intent log.
    Log,
    /// From a list of what is to be freed.
    Freed,
}

/// A block that was met.
#[derive(Clone, Debug)]
pub struct Visited {
    /// Its pointer: neither a hole nor redacted.
    pub pointer: BlockPointer,
    /// Where it stands.
    pub at: Bookmark,
    /// How it is reached.
    pub reached: Reached,
    /// Why what is below it can't be visited.
    pub problem: Option<ZfsError>,
}

/// A walk over one tree after another. See the [module](self).
pub(crate) struct Walk {
    rt: Rt,
    blocks: Rc<dyn ReadBlocks>,
    todo: Vec<Todo>,
    /// Reads ahead that lie in `todo`.
    ahead: usize,
    /// Blocks that lead on which may still be entered.
    left: u64,
}

/// What the blocks of a tree have in common.
struct Tree {
    objset: u64,
    object: u64,
    /// Blocks born up to there are another's.
    after: u64,
    /// Pointers in an indirect block, as a power of two.
    shift: u32,
    /// How its blocks are reached.
    reached: Reached,
    /// Of a dataset that is being destroyed: how far that came. What lies before is free already.
    resume: Option<ScanBookmark>,
    /// Whether the objset has a log of its own that is to be followed.
    log: bool,
    /// The object has a spill block.
    has_spill: bool,
    /// A block of it was met.
    is_begun: Cell<bool>,
}

/// An objset to walk over.
pub(crate) struct Start {
    pub(crate) objset: u64,
    /// What leads to its block.
    pub(crate) root: BlockPointer,
    /// Blocks born up to there are another's.
    pub(crate) after: u64,
    pub(crate) reached: Reached,
    pub(crate) resume: Option<ScanBookmark>,
    /// Whether its root is to be given, for its log.
    pub(crate) log: bool,
}

/// A block that is to be visited.
struct Todo {
    tree: Rc<Tree>,
    pointer: BlockPointer,
    level: i64,
    block: u64,
    ahead: Option<Task<Result<Buf, BlockError>>>,
    /// All below it was met.
    is_left: bool,
}

impl Todo {
    fn at(&self) -> Bookmark {
        let (objset, object) = (self.tree.objset, self.tree.object);
        Bookmark { objset, object, level: self.level, block: self.block }
    }

    /// Whether it is this walk's at all.
    fn is_own(&self) -> bool {
        !matches!(self.pointer.kind(), Kind::Hole | Kind::Redacted)
            && self.pointer.logical_birth() > self.tree.after
            && !self.is_past()
    }

    /// Whether it, and all below it, lies before the place up to which the dataset was destroyed.
    fn is_past(&self) -> bool {
        let Some(resume) = &self.tree.resume else { return false };
        let Ok(level) = u32::try_from(self.level) else { return false };
        let shift = level.saturating_mul(self.tree.shift).min(63);
        let end = self.block.saturating_add(1).saturating_mul(1 << shift);
        // A block of dnodes goes by the objects in it.
        let objects = |blocks: u64| blocks.saturating_mul(dnode::OBJECTS_PER_BLOCK);
        match (self.tree.object, resume.object) {
            (this, that) if this == that => end <= resume.block,
            (META_DNODE, object) => objects(end) <= object,
            (object, META_DNODE) => object < objects(resume.block),
            (this, that) => this < that,
        }
    }

    /// Whether it is the place itself: then what is below it is gone, and it is not.
    fn is_resume(&self) -> bool {
        let at = self.at();
        self.tree.resume.as_ref().is_some_and(|resume| {
            let ScanBookmark { objset, object, level, block } = *resume;
            at == Bookmark { objset, object, level, block }
        })
    }

    /// The first place of level 0 at or below it. Of dnodes it is that of the first object whose dnode is there: the place of a block of
    /// dnodes says that what these lead to is gone.
    fn below(&self) -> ScanBookmark {
        let Ok(level) = u32::try_from(self.level) else { return START };
        let block = self.block.saturating_mul(1 << level.saturating_mul(self.tree.shift).min(63));
        let (object, block) = match self.tree.object {
            META_DNODE if block == 0 => return START,
            META_DNODE => (block.saturating_mul(dnode::OBJECTS_PER_BLOCK), 0),
            object => (object, block),
        };
        ScanBookmark { objset: DESTROYED, object, level: 0, block }
    }

    fn is_dnodes(&self) -> bool {
        self.level == 0 && self.tree.object == META_DNODE && self.block != SPILL
    }

    /// Whether it leads on to others.
    fn leads_on(&self) -> bool {
        self.level != 0 || self.is_dnodes()
    }

    /// What is wrong with a pointer at this place, before it is followed.
    fn check(&self) -> Result<(), FormatError> {
        self.pointer.check()?;
        let wrong = |field, value| {
            let (structure, problem) = (BlockPointer::NAME, zfs_format::Problem::Value(value));
            Err(FormatError { structure, field, offset: 0, problem })
        };
        let (level, kind) = (self.pointer.level(), self.pointer.object_type());
        match self.level {
            ..0 if kind != ObjectType::OBJSET => wrong("type", kind.0.into()),
            1.. if i64::from(level) != self.level => wrong("level", level.into()),
            0 if level != 0 => wrong("level", level.into()),
            0 if self.is_dnodes() && kind != ObjectType::DNODE => wrong("type", kind.0.into()),
            _ => Ok(()),
        }
    }

    /// It, as a block that was met.
    fn met(&self) -> Visited {
        let problem = self.check().err().map(|error| wrong(&self.tree, error));
        Visited { pointer: self.pointer, at: self.at(), reached: self.tree.reached, problem }
    }

    fn request(&self) -> BlockRequest {
        let mut request = BlockRequest::new(self.pointer, self.at());
        request.priority = Priority::Background;
        request.raw = self.pointer.protection() == Protection::Encrypted;
        request
    }
}

impl Walk {
    /// A walk that has nothing to do yet. `limit` is how many blocks that lead on there can be.
    pub(crate) fn new(rt: &Rt, blocks: Rc<dyn ReadBlocks>, limit: u64) -> Walk {
        Walk { rt: rt.clone(), blocks, todo: Vec::new(), ahead: 0, left: limit }
    }

    /// The next block, once all below it was given. Nothing after the last; after one with a problem the walk is over.
    pub(crate) async fn next_left(&mut self) -> Option<Visited> {
        loop {
            let todo = self.pop()?;
            let (pointer, at, reached) = (todo.pointer, todo.at(), todo.tree.reached);
            if todo.is_left {
                return Some(Visited { pointer, at, reached, problem: None });
            }
            if !todo.leads_on() || todo.is_resume() {
                return Some(self.visit(todo).await.0);
            }
            let (tree, level, block) = (Rc::clone(&todo.tree), todo.level, todo.block);
            self.todo.push(Todo { tree, pointer, level, block, ahead: None, is_left: true });
            let (visited, _) = self.visit(todo).await;
            if visited.problem.is_some() {
                return Some(visited);
            }
        }
    }

    /// Where to go on, if all that was given is gone: nothing where that can't be said now, but can a little later.
    pub(crate) fn place(&self) -> Option<ScanBookmark> {
        let next = self.todo.last().filter(|next| !next.is_left && next.level >= 0)?;
        let (object, objset) = (next.tree.object, DESTROYED);
        let slot = object % dnode::OBJECTS_PER_BLOCK;
        match next.tree.has_spill {
            _ if object == META_DNODE => None,
            false => Some(next.below()),
            // Behind all of the number before; but the block of dnodes before must be over.
            true if !next.tree.is_begun.get() && slot != 0 && object > 1 => {
                Some(ScanBookmark { objset, object: object - 1, level: 0, block: u64::MAX })
            }
            true => None,
        }
    }

    /// Where to go on, if all that was given before this block is gone, and this can't be.
    pub(crate) fn place_of(&self, at: &Bookmark) -> ScanBookmark {
        let is_it = |todo: &&Todo| todo.is_left && todo.at() == *at;
        let Bookmark { object, block, .. } = *at;
        let leaf = ScanBookmark { objset: DESTROYED, object, level: 0, block };
        self.todo.iter().rev().find(is_it).map_or(leaf, Todo::below)
    }

    fn pop(&mut self) -> Option<Todo> {
        loop {
            let todo = self.todo.pop()?;
            if todo.ahead.is_some() {
                assert!(self.ahead > 0, "what was read ahead was counted");
                self.ahead -= 1;
            }
            if todo.is_own() {
                todo.tree.is_begun.set(true);
                return Some(todo);
            }
        }
    }

    /// Adds an objset: it comes before those that were added earlier.
    pub(crate) fn add(&mut self, start: Start) {
        let Start { objset, root, after, reached, resume, log } = start;
        let object = META_DNODE;
        let (shift, has_spill, is_begun) = (0, false, Cell::new(true));
        let tree = Tree { objset, object, after, shift, reached, resume, log, has_spill, is_begun };
        let (tree, level, block, ahead, is_left) = (Rc::new(tree), -1, 0, None, false);
        self.todo.push(Todo { tree, pointer: root, level, block, ahead, is_left });
    }

    /// The next block, where that leads nowhere.
    pub(crate) fn next_leaf(&mut self) -> Option<Visited> {
        let next = self.todo.last()?;
        if next.leads_on() || !next.is_own() {
            return None;
        }
        self.pop().map(|todo| todo.met())
    }

    /// The next block and, of an objset whose log is to be followed, the root. Nothing after the last.
    pub(crate) async fn next(&mut self) -> Option<(Visited, Option<Box<objset::Objset>>)> {
        let todo = self.pop()?;
        // Most blocks lead nowhere: they are given without a future of their own.
        match todo.leads_on() {
            true => Some(self.visit(todo).await),
            false => Some((todo.met(), None)),
        }
    }

    async fn visit(&mut self, mut todo: Todo) -> (Visited, Option<Box<objset::Objset>>) {
        let mut visited = todo.met();
        let ahead = todo.ahead.take();
        if visited.problem.is_some() || !todo.leads_on() || todo.is_resume() {
            return (visited, None);
        }
        if self.left == 0 {
            let (what, limit) = ("indirect blocks and blocks of dnodes", 0);
            let problem = Problem::Limit { what, limit };
            let Bookmark { objset, object, .. } = visited.at;
            visited.problem = Some(ZfsError::Object { objset, object, problem });
            return (visited, None);
        }
        self.left -= 1;
        let read = match ahead {
            Some(read) => read,
            None => self.rt.spawn(self.blocks.read(todo.request())),
        };
        self.read_ahead();
        let mut root = None;
        match read.await {
            Ok(bytes) => {
                let below = match todo.level {
                    ..0 => self.add_objset(&todo, &bytes).map(|found| root = Some(Box::new(found))),
                    0 => self.add_dnodes(&todo, &bytes),
                    1.. => self.add_pointers(&todo, &bytes),
                };
                visited.problem = below.err();
            }
            Err(error) => visited.problem = Some(error.into()),
        }
        (visited, root.filter(|_| todo.tree.log))
    }

    /// Begins reading what comes next.
    fn read_ahead(&mut self) {
        let (blocks, rt) = (&self.blocks, &self.rt);
        let mut near = 0;
        for todo in self.todo.iter_mut().rev().take(LOOK_MAX) {
            if near >= AHEAD || self.ahead >= AHEAD_UNUSED_MAX {
                break;
            }
            if todo.is_left || !todo.leads_on() || !todo.is_own() || todo.check().is_err() {
                continue;
            }
            near += 1;
            if todo.ahead.is_none() {
                todo.ahead = Some(rt.spawn(blocks.read(todo.request())));
                self.ahead += 1;
            }
        }
    }

    fn add_objset(&mut self, todo: &Todo, bytes: &Buf) -> Result<objset::Objset, ZfsError> {
        let root = objset::Objset::decode(bytes.bytes(), todo.pointer.endian());
        let root = root.map_err(|error| wrong(&todo.tree, error))?;
        let accounting = [u64::MAX, u64::MAX - 1, u64::MAX - 2];
        for (number, dnode) in accounting.into_iter().zip(&root.used).rev() {
            if let Some(dnode) = dnode {
                self.add_object(todo, number, dnode);
            }
        }
        if let Some(meta) = &root.meta_dnode {
            self.add_object(todo, META_DNODE, meta);
        }
        Ok(root)
    }

    fn add_object(&mut self, from: &Todo, object: u64, dnode: &Dnode) {
        let shift = u32::from(dnode.indirect_shift).saturating_sub(BlockPointer::SHIFT);
        let Tree { objset, after, reached, .. } = *from.tree;
        let resume = from.tree.resume.clone();
        let (log, has_spill, is_begun) = (false, dnode.spill.is_some(), Cell::new(false));
        let tree = Tree { objset, object, after, shift, reached, resume, log, has_spill, is_begun };
        let tree = Rc::new(tree);
        if let Some(pointer) = dnode.spill {
            self.push(Rc::clone(&tree), pointer, 0, SPILL);
        }
        let level = i64::from(dnode.levels) - 1;
        for (block, pointer) in dnode.pointers.iter().enumerate().rev() {
            self.push(Rc::clone(&tree), *pointer, level, block as u64);
        }
    }

    fn push(&mut self, tree: Rc<Tree>, pointer: BlockPointer, level: i64, block: u64) {
        let todo = Todo { tree, pointer, level, block, ahead: None, is_left: false };
        if todo.is_own() {
            self.todo.push(todo);
        }
    }

    fn add_pointers(&mut self, todo: &Todo, bytes: &Buf) -> Result<(), ZfsError> {
        let pointers = block_pointer::Pointers::of(bytes.bytes(), todo.pointer.endian());
        let pointers = pointers.map_err(|error| wrong(&todo.tree, error))?;
        let below = todo.block.saturating_mul(1 << todo.tree.shift);
        for (index, pointer) in pointers.iter().enumerate().rev() {
            let block = below.saturating_add(index as u64);
            self.push(Rc::clone(&todo.tree), pointer, todo.level - 1, block);
        }
        Ok(())
    }

    fn add_dnodes(&mut self, todo: &Todo, bytes: &Buf) -> Result<(), ZfsError> {
        let dnodes = dnode::dnodes(bytes.bytes(), todo.pointer.endian());
        let dnodes = dnodes.map_err(|error| wrong(&todo.tree, error))?;
        let first = todo.block.saturating_mul(dnode::OBJECTS_PER_BLOCK);
        for (slot, dnode) in dnodes.iter().rev() {
            self.add_object(todo, first.saturating_add(*slot as u64), dnode);
        }
        Ok(())
    }
}

fn wrong(tree: &Tree, error: FormatError) -> ZfsError {
    ZfsError::Format { objset: tree.objset, object: tree.object, error }
}
