//! What one asks for when one asks for a block, or hands one over. What may come instead of it is in [`error`](crate::error).

pub use crate::error::{BlockError, BlockErrorKind, Bookmark};

use crate::alloc::{Class, NoSpace, NotAllocated};
use crate::crypt::DatasetKey;
use crate::transform::Props;
use crate::vdev::{IoClass, WriteError};
use rt::{Buf, Priority};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use zfs_format::block_pointer::BlockPointer;

/// A block under way: its logical bytes, as long as the pointer says; or its stored bytes, where those were asked for.
pub type BlockFuture = Pin<Box<dyn Future<Output = Result<Buf, BlockError>>>>;

/// What is asked for.
#[derive(Clone)]
pub struct BlockRequest {
    /// The block.
    pub pointer: BlockPointer,
    /// Where it stands.
    pub at: Bookmark,
    /// The key of its dataset, if it is encrypted.
    pub key: Option<Rc<DatasetKey>>,
    /// Whether the stored bytes are wanted (compressed, encrypted), checked but not transformed.
    pub raw: bool,
    /// Nobody waits for it yet.
    pub prefetch: bool,
    /// Whoever asks goes through something large from end to end and won't ask for it again: a cache need not keep it.
    pub once: bool,
    /// Whose reading it is.
    pub priority: Priority,
}

impl BlockRequest {
    /// A block somebody waits for, of a dataset that is not encrypted.
    pub fn new(pointer: BlockPointer, at: Bookmark) -> BlockRequest {
        let priority = Priority::Foreground;
        let (raw, prefetch, once) = (false, false, false);
        BlockRequest { pointer, at, key: None, raw, prefetch, once, priority }
    }

    /// The same, with the key of its dataset.
    pub fn with_key(mut self, key: Option<Rc<DatasetKey>>) -> BlockRequest {
        self.key = key;
        self
    }
}

/// Whatever gives the bytes behind a block pointer.
pub trait ReadBlocks {
    /// The block's logical bytes, where they lie in memory: no waiting, no task.
    fn cached(&self, pointer: &BlockPointer) -> Option<Buf>;

    /// Reads a block.
    fn read(&self, request: BlockRequest) -> BlockFuture;
}

/// A block that is handed over to be stored.
#[derive(Clone)]
pub struct WriteRequest {
    /// Its logical bytes.
    pub block: Buf,
    /// How it is stored.
    pub props: Props,
    /// Where it stands.
    pub at: Bookmark,
    /// The transaction group that it is born in.
    pub txg: u64,
    /// How many copies there are to be: one to three, of an encrypted block two at the most.
    pub copies: usize,
    /// What it is to lie on.
    pub class: Class,
    /// What its pointer says of the blocks below: [`BlockPointer::fill`].
    pub fill: u64,
    /// What stood in its place before: a hole's where there was nothing.
    pub before: BlockPointer,
    /// Whose writing it is.
    pub io: IoClass,
}

/// A block that could not be written, or freed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {kind}")]
pub struct WriteBlockError {
    /// Which one.
    pub at: Bookmark,
    /// Why.
    pub kind: WriteBlockErrorKind,
}

/// Why a block could not be written, or freed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteBlockErrorKind {
    /// It can't be made what is stored.
    #[error(transparent)]
    Transform(#[from] BlockErrorKind),
    /// There is no room for it.
    #[error(transparent)]
    NoSpace(#[from] NoSpace),
    /// Not all of its copies could be written.
    #[error(transparent)]
    Vdev(#[from] WriteError),
    /// What is to be freed is not in use.
    #[error(transparent)]
    NotAllocated(#[from] NotAllocated),
    /// A pointer of which we don't know how it is freed.
    #[error("freeing {0} is not supported")]
    Unsupported(&'static str),
}

/// A block being written: its pointer, whole.
pub type WriteFuture = Pin<Box<dyn Future<Output = Result<BlockPointer, WriteBlockError>>>>;

/// Whatever stores blocks.
///
/// Nothing that is written is durable before the vdevs are [flushed](crate::Tree::flush), and nothing refers to it before an
/// uberblock does: so a write that fails leaves the pool as it was.
pub trait WriteBlocks {
    /// Stores a block where there is room, and gives the pointer to it. What stood in its place before stays.
    fn write(&self, request: WriteRequest) -> WriteFuture;

    /// Stores a block anew that was born in this group, as the later passes of its sync do: in its place, if it is stored in
    /// as many bytes; else elsewhere, and the old place is freed.
    ///
    /// # Panics
    /// What stood there before was born in another group.
    fn rewrite(&self, request: WriteRequest) -> WriteFuture;

    /// Frees all copies of a block, in this group.
    ///
    /// # Errors
    /// They can't be freed, all of them: nothing was changed.
    fn free(&self, txg: u64, at: Bookmark, pointer: &BlockPointer) -> Result<(), WriteBlockError>;
}
