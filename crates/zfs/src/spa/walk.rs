//! Every block of a pool, once: what a scrub reads and what a count counts.
//!
//! ```text
//!   the MOS         its root block, the meta-dnode's tree, every object's tree
//!   each dataset    the same, of blocks born after the snapshot before it; its intent log
//! ```
//!
//! A snapshot and what came after it share blocks. A block is a dataset's own if it was born after the dataset's previous
//! snapshot: so each block is met once, at the oldest dataset that reaches it, and a subtree whose root is older is not
//! entered. A clone begins after its origin.
//!
//! The walk is pulled: [`Walk::next`] gives one block, and whoever pulls reads as many side by side as it likes. The walk
//! itself reads what leads on: indirect blocks, and blocks of dnodes. One that can't be had is given with its
//! error, and what is below it stays unvisited.
//!
//! Order: objsets as given, objects by number, blocks from front to back; an indirect block before what is below.

use crate::dmu::Objset;
use crate::error::ZfsError;
use rt::{Buf, Priority};
use std::rc::Rc;
use zfs_format::block_pointer::{self, BlockPointer};
use zfs_format::dnode::{self, Dnode};
use zfs_format::object_type::ObjectType;
use zfs_store::{BlockRequest, Bookmark};

/// A block that was met.
pub struct Visited {
    /// Its pointer.
    pub pointer: BlockPointer,
    /// Where it stands.
    pub at: Bookmark,
    /// What the object is.
    pub object_type: ObjectType,
    /// Why what is below it can't be visited.
    pub problem: Option<ZfsError>,
    /// Its bytes, where the walk needed them.
    pub bytes: Option<Buf>,
}

/// A walk over some objsets. See the [module](self).
pub struct Walk {
    todo: Vec<Todo>,
}

/// What the blocks of a tree have in common.
struct Tree {
    objset: Objset,
    object: u64,
    object_type: ObjectType,
    /// Blocks born up to there are another's.
    after: u64,
    /// Pointers in an indirect block, as a power of two.
    shift: u32,
}

enum Todo {
    Pointer { tree: Rc<Tree>, pointer: BlockPointer, level: u8, block: u64 },
    Objset { objset: Objset, root: BlockPointer, after: u64 },
}

impl Walk {
    /// A walk that has nothing to do yet.
    pub fn new() -> Walk {
        Walk { todo: Vec::new() }
    }

    /// Adds an objset, whose root block `root` leads to: of what was born after that transaction group. What was added
    /// last comes first.
    pub fn add(&mut self, objset: Objset, root: BlockPointer, after: u64) {
        self.todo.push(Todo::Objset { objset, root, after });
    }

    /// The next block; nothing after the last.
    pub async fn next(&mut self) -> Option<Visited> {
        loop {
            match self.todo.pop()? {
                Todo::Objset { objset, root, after } => {
                    if root.is_hole() || root.logical_birth() <= after {
                        continue;
                    }
                    return Some(self.enter(objset, root, after));
                }
                Todo::Pointer { tree, pointer, level, block } => {
                    if pointer.is_hole() || pointer.logical_birth() <= tree.after {
                        continue;
                    }
                    return Some(self.visit(tree, pointer, level, block).await);
                }
            }
        }
    }

    fn enter(&mut self, objset: Objset, root: BlockPointer, after: u64) -> Visited {
        let head = objset.root();
        let counted = [u64::MAX, u64::MAX - 1, u64::MAX - 2];
        let numbers = counted.into_iter();
        let dnodes: Vec<(u64, Dnode)> =
            numbers.zip(&head.used).filter_map(|(n, dnode)| Some((n, dnode.clone()?))).collect();
        for (number, dnode) in dnodes.iter().rev() {
            self.add_object(&objset, *number, dnode, after);
        }
        if let Some(meta) = &head.meta_dnode {
            self.add_object(&objset, 0, meta, after);
        }
        let at = Bookmark { objset: objset.number(), object: 0, level: -1, block: 0 };
        let object_type = ObjectType::OBJSET;
        Visited { pointer: root, at, object_type, problem: None, bytes: None }
    }

    fn add_object(&mut self, objset: &Objset, number: u64, dnode: &Dnode, after: u64) {
        let tree = Tree {
            objset: objset.clone(),
            object: number,
            object_type: dnode.object_type,
            after,
            shift: u32::from(dnode.indirect_shift).saturating_sub(BlockPointer::SHIFT),
        };
        if let Some(pointer) = dnode.spill {
            let tree =
                Rc::new(Tree { object_type: dnode.bonus_type, objset: objset.clone(), ..tree });
            self.todo.push(Todo::Pointer { tree, pointer, level: 0, block: u64::MAX });
        }
        let tree = Rc::new(Tree {
            objset: objset.clone(),
            object: number,
            object_type: dnode.object_type,
            after,
            shift: u32::from(dnode.indirect_shift).saturating_sub(BlockPointer::SHIFT),
        });
        let level = dnode.levels - 1;
        for (block, pointer) in dnode.pointers.iter().enumerate().rev() {
            let (tree, pointer, block) = (Rc::clone(&tree), *pointer, block as u64);
            self.todo.push(Todo::Pointer { tree, pointer, level, block });
        }
    }

    async fn visit(
        &mut self,
        tree: Rc<Tree>,
        pointer: BlockPointer,
        level: u8,
        block: u64,
    ) -> Visited {
        let at = Bookmark {
            objset: tree.objset.number(),
            object: tree.object,
            level: level.into(),
            block,
        };
        let object_type = tree.object_type;
        let mut visited = Visited { pointer, at, object_type, problem: None, bytes: None };
        let is_dnodes = object_type == ObjectType::DNODE && block != u64::MAX;
        if level == 0 && !is_dnodes {
            return visited;
        }
        let mut request: BlockRequest = tree.objset.request(pointer, at);
        request.priority = Priority::Background;
        match tree.objset.blocks().read(request).await {
            Ok(bytes) => {
                let below = match level {
                    0 => self.add_dnodes(&tree, &bytes, &pointer, block),
                    _ => self.add_pointers(&tree, &bytes, &pointer, level, block),
                };
                visited.problem = below.err();
                visited.bytes = Some(bytes);
            }
            Err(error) => visited.problem = Some(error.into()),
        }
        visited
    }

    fn add_pointers(
        &mut self,
        tree: &Rc<Tree>,
        bytes: &Buf,
        pointer: &BlockPointer,
        level: u8,
        block: u64,
    ) -> Result<(), ZfsError> {
        let pointers = block_pointer::indirect(bytes.bytes(), pointer.endian());
        let pointers = pointers.map_err(|error| wrong(tree, error))?;
        let first = block.checked_shl(tree.shift).unwrap_or(u64::MAX);
        for (index, pointer) in pointers.into_iter().enumerate().rev() {
            if pointer.is_hole() {
                continue;
            }
            let block = first.saturating_add(index as u64);
            let tree = Rc::clone(tree);
            self.todo.push(Todo::Pointer { tree, pointer, level: level - 1, block });
        }
        Ok(())
    }

    fn add_dnodes(
        &mut self,
        tree: &Rc<Tree>,
        bytes: &Buf,
        pointer: &BlockPointer,
        block: u64,
    ) -> Result<(), ZfsError> {
        let dnodes = dnode::dnodes(bytes.bytes(), pointer.endian());
        let dnodes = dnodes.map_err(|error| wrong(tree, error))?;
        let first = block.saturating_mul(dnode::OBJECTS_PER_BLOCK);
        for (slot, dnode) in dnodes.iter().rev() {
            let number = first.saturating_add(*slot as u64);
            self.add_object(&tree.objset, number, dnode, tree.after);
        }
        Ok(())
    }
}

impl Default for Walk {
    fn default() -> Walk {
        Walk::new()
    }
}

fn wrong(tree: &Tree, error: zfs_format::FormatError) -> ZfsError {
    ZfsError::Format { objset: tree.objset.number(), object: tree.object, error }
}
