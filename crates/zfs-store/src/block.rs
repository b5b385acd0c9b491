//! What one asks for when one asks for a block. What may come instead of it is in [`error`](crate::error).

pub use crate::error::{BlockError, BlockErrorKind, Bookmark};

use crate::crypt::DatasetKey;
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

    /// A block was written, and its group is in the pool: these are its logical bytes. Who has no memory lets them go.
    fn keep(&self, _pointer: &BlockPointer, _block: Buf) {}
}
