//! A step of work that looks at blocks in memory only, and says which block it lacks.
//!
//! What must see one state is a function that doesn't wait ([`change`](super::change)). It ends early where a block is not
//! in memory; whoever runs it reads the block, holds it, and runs it again.

use super::dbuf::At;
use crate::error::ZfsError;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use zfs_format::block_pointer::BlockPointer;

/// Why a step can't be done now.
pub enum Blocked {
    /// A block is not in memory.
    Need(Need),
    /// It can't be done.
    Wrong(ZfsError),
}

impl From<ZfsError> for Blocked {
    fn from(error: ZfsError) -> Blocked {
        Blocked::Wrong(error)
    }
}

/// What a step gives.
pub type Step<T> = Result<T, Blocked>;

/// A block on its way.
pub(super) type Fetch<'a> = Pin<Box<dyn Future<Output = Result<bool, ZfsError>> + 'a>>;

/// Whoever has blocks that can be held in memory.
pub(super) trait Holds {
    /// Reads a block and holds it. Says whether it is held: what the pointer leads to may be outdated by now, and then the
    /// look that wanted it is taken again.
    fn fetch(&self, at: At, pointer: BlockPointer) -> Fetch<'_>;

    /// Lets go of it.
    fn release(&self, at: At);
}

/// A block that is to be read.
pub struct Need {
    of: Rc<dyn Holds>,
    at: At,
    /// Boxed, so that what a step gives stays small.
    pointer: Box<BlockPointer>,
}

impl Need {
    pub(super) fn new(of: Rc<dyn Holds>, at: At, pointer: BlockPointer) -> Need {
        assert!(!pointer.is_hole(), "nobody waits for a hole");
        Need { of, at, pointer: Box::new(pointer) }
    }

    /// Reads it. It stays in memory until what is returned is dropped.
    ///
    /// # Errors
    /// It can't be had.
    pub(super) async fn read(self) -> Result<Hold, ZfsError> {
        let is_held = self.of.fetch(self.at, *self.pointer).await?;
        Ok(Hold { of: is_held.then_some(self.of), at: self.at })
    }
}

/// A block that is held in memory, if there was something to hold.
pub(super) struct Hold {
    of: Option<Rc<dyn Holds>>,
    at: At,
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(of) = &self.of {
            of.release(self.at);
        }
    }
}
