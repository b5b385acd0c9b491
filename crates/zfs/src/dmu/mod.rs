//! Objects: the dnodes of an objset, and the blocks below each.
//!
//! ```text
//!   Objset   the root block of a dataset (or of the MOS), its key, and the meta-dnode: the array of dnodes
//!   Object   a dnode: its tree of blocks, its bonus, its spill block
//! ```
//!
//! A block of an object is found from the dnode's pointer down through indirect blocks. Each of them comes from the
//! cache below, so nothing is kept here but the dnode and the last indirect block of the lowest level: reading
//! on in one object then looks at one pointer and asks for one block.
//!
//! Holes are zeros. Whether a stretch is a hole is known without reading data: [`Object::next_data`].

mod object;
pub mod overlay;
mod prefetch;

pub use object::{Block, Object};

use crate::error::{Problem, ZfsError};
use overlay::Overlay;
use rt::{Priority, Rt};
use std::cell::RefCell;
use std::rc::Rc;
use zfs_format::block_pointer::{BlockPointer, Protection};
use zfs_format::dnode::{self, Dnode};
use zfs_format::objset;
use zfs_format::{Endian, FormatError};
use zfs_store::crypt::DatasetKey;
use zfs_store::{BlockRequest, Bookmark, ReadBlocks};

/// The object number of an objset's meta-dnode, in bookmarks.
const META_DNODE: u64 = 0;

/// An open objset. Clones are handles of the same.
#[derive(Clone)]
pub struct Objset(Rc<Inner>);

struct Inner {
    context: object::Context,
    root: objset::Objset,
    meta: Option<Object>,
    overlay: RefCell<Option<Rc<Overlay>>>,
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
        let root = objset::Objset::decode(block.bytes(), pointer.endian()).map_err(wrong)?;
        let (rt, blocks) = (rt.clone(), Rc::clone(blocks));
        let context = object::Context { rt, blocks, objset: number, key };
        let endian = pointer.endian();
        let meta = root.meta_dnode.clone();
        let meta = meta.map(|dnode| Object::new(context.clone(), META_DNODE, dnode, endian, None));
        Ok(Objset(Rc::new(Inner { context, root, meta, overlay: RefCell::default() })))
    }

    /// The object of its dataset in the MOS; 0 for the MOS.
    pub fn number(&self) -> u64 {
        self.0.context.objset
    }

    /// Its root block.
    pub fn root(&self) -> &objset::Objset {
        &self.0.root
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
    pub fn meta(&self) -> Result<&Object, ZfsError> {
        self.0.meta.as_ref().ok_or_else(|| self.wrong(META_DNODE, Problem::Empty))
    }

    /// An error about an object of this objset.
    pub fn wrong(&self, object: u64, problem: Problem) -> ZfsError {
        ZfsError::Object { objset: self.0.context.objset, object, problem }
    }

    /// Lays an overlay over its objects. Objects that are open already don't change.
    pub fn lay_over(&self, overlay: Rc<Overlay>) {
        *self.0.overlay.borrow_mut() = Some(overlay);
    }

    /// An object by its number.
    ///
    /// # Errors
    /// There is none, or its dnode can't be had.
    pub async fn object(&self, number: u64) -> Result<Object, ZfsError> {
        let created = self.0.overlay.borrow().as_ref().and_then(|overlay| overlay.created(number));
        if let Some(dnode) = created {
            return Ok(self.object_of(number, dnode, Endian::Little));
        }
        let meta = self.meta()?;
        let (block, slot) = dnode::place_of(number);
        if number == META_DNODE || block > meta.dnode().block_id_max {
            return Err(self.wrong(number, Problem::Absent));
        }
        let block = meta.block(block).await?;
        let dnode =
            self.dnode_in(&block, slot)?.ok_or_else(|| self.wrong(number, Problem::Absent))?;
        Ok(self.object_of(number, dnode, block.endian))
    }

    /// An object by its number, of an encrypted dataset without its key: only the bonus of a dnode is encrypted, so that
    /// the blocks below it can be found. The bonus is not to be believed.
    ///
    /// # Errors
    /// As of [`Objset::object`].
    pub async fn object_without_bonus(&self, number: u64) -> Result<Object, ZfsError> {
        let meta = self.meta()?;
        let (block, slot) = dnode::place_of(number);
        let absent = || self.wrong(number, Problem::Absent);
        let pointer = meta.pointer(block).await?.filter(|pointer| !pointer.is_hole());
        let pointer = pointer.ok_or_else(absent)?;
        if self.0.context.key.is_some() || pointer.protection() != Protection::Encrypted {
            return self.object(number).await;
        }
        let at = Bookmark { objset: self.0.context.objset, object: META_DNODE, level: 0, block };
        let mut request = self.request(pointer, at);
        // Blocks of dnodes that are encrypted are not compressed, so what is stored is what is meant.
        request.raw = true;
        let bytes = self.0.context.blocks.read(request).await?;
        let dnode = self.dnode_in(&Block { bytes, endian: pointer.endian() }, slot)?;
        Ok(self.object_of(number, dnode.ok_or_else(absent)?, pointer.endian()))
    }

    /// The numbers of objects from `from` on that stand in the same block of the meta-dnode as the first of them, with
    /// their dnodes, and where to go on; nothing after the last.
    ///
    /// # Errors
    /// A block of dnodes can't be had: whoever walks may go on 32 objects further.
    pub async fn objects_from(
        &self,
        from: u64,
    ) -> Result<Option<(Vec<(u64, Dnode, Endian)>, u64)>, ZfsError> {
        let meta = self.meta()?;
        let (first, slot) = dnode::place_of(from);
        let bytes = meta.dnode().data_block_bytes();
        let Some(at) = meta.next_data(first.saturating_mul(bytes)).await? else { return Ok(None) };
        let number = at / bytes.max(1);
        if number > meta.dnode().block_id_max {
            return Ok(None);
        }
        let block = meta.block(number).await?;
        let slot = if number == first { slot } else { 0 };
        let dnodes = self.dnodes(&block)?.into_iter().filter(|(at, _)| *at >= slot);
        let base = number * dnode::OBJECTS_PER_BLOCK;
        let objects = dnodes.map(|(at, dnode)| (base + at as u64, dnode, block.endian)).collect();
        Ok(Some((objects, base + dnode::OBJECTS_PER_BLOCK)))
    }

    /// An object whose dnode is at hand.
    pub fn object_of(&self, number: u64, dnode: Dnode, endian: Endian) -> Object {
        let context = self.0.context.clone();
        let overlay = self.0.overlay.borrow();
        let patches = overlay.as_ref().and_then(|overlay| overlay.changes(number));
        Object::new(context, number, dnode, endian, patches)
    }

    /// The dnode that begins at a slot of a block of dnodes.
    fn dnode_in(&self, block: &Block, slot: usize) -> Result<Option<Dnode>, ZfsError> {
        let wrong =
            |error| ZfsError::Format { objset: self.0.context.objset, object: META_DNODE, error };
        dnode::find(block.bytes.bytes(), slot, block.endian).map_err(wrong)
    }

    fn dnodes(&self, block: &Block) -> Result<Vec<(usize, Dnode)>, ZfsError> {
        let wrong =
            |error| ZfsError::Format { objset: self.0.context.objset, object: META_DNODE, error };
        dnode::dnodes(block.bytes.bytes(), block.endian).map_err(wrong)
    }

    /// A request for a block of this objset.
    pub fn request(&self, pointer: BlockPointer, at: Bookmark) -> BlockRequest {
        let mut request = BlockRequest::new(pointer, at).with_key(self.0.context.key.clone());
        request.priority = Priority::Foreground;
        request
    }
}
