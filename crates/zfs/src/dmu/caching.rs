//! What of an objset's blocks the cache keeps: the property `primarycache`.
//!
//! What isn't kept is read as by someone who won't ask again: it is taken from the cache where it lies there, and joined where it is
//! being read. Reading ahead is for what is kept until it is asked for.

use zfs_format::block_pointer::BlockPointer;
use zfs_store::arc::is_metadata;

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Caching {
    /// All.
    #[default]
    All,
    /// All but the content of files and volumes.
    Metadata,
    /// Nothing.
    Nothing,
}

impl Caching {
    /// By the property's number, where it is set.
    pub fn of(code: Option<u64>) -> Caching {
        match code {
            Some(0) => Caching::Nothing,
            Some(1) => Caching::Metadata,
            _ => Caching::All,
        }
    }

    /// Whether this block is kept.
    pub(super) fn keeps(self, pointer: &BlockPointer) -> bool {
        match self {
            Caching::All => true,
            Caching::Metadata => is_metadata(pointer),
            Caching::Nothing => false,
        }
    }

    /// Whether what is read ahead is kept.
    pub(super) fn keeps_data(self) -> bool {
        self == Caching::All
    }
}
