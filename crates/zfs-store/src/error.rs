//! A block that can't be had: which one, and why.

use rt::IoErrorKind;
use std::fmt;
use zfs_format::FormatError;

/// Where a block stands in the pool, as OpenZFS numbers it: what an error names, and where a scrub goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bookmark {
    /// The object number of the dataset in the MOS; 0 for the MOS itself.
    pub objset: u64,
    /// The object; 0 for the meta-dnode.
    pub object: u64,
    /// 0 for data; −1 for the objset block itself, −2 for the intent log's.
    pub level: i64,
    /// The number of the block on its level.
    pub block: u64,
}

impl fmt::Display for Bookmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Bookmark { objset, object, level, block } = self;
        write!(f, "objset {objset} object {object} level {level} block {block}")
    }
}

/// A block that can't be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {kind}")]
pub struct BlockError {
    /// Which one.
    pub at: Bookmark,
    /// The group in which it was written, as its pointer has it.
    pub birth: u64,
    /// Why.
    pub kind: BlockErrorKind,
}

/// Why a block can't be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockErrorKind {
    /// The pointer, or a header on the way, is none.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// Every copy was read, and each one is wrong.
    #[error("no copy of it has the right checksum")]
    Checksum,
    /// No copy of it could be read.
    #[error("no copy of it can be read: {0}")]
    Io(IoErrorKind),
    /// Too many devices are missing.
    #[error("too many devices of vdev {0} are missing")]
    Missing(u32),
    /// The pointer names a vdev that the pool doesn't have.
    #[error("the pool has no vdev {0}")]
    NoVdev(u32),
    /// Right by its checksum, but it doesn't decompress.
    #[error("it does not decompress as {0}")]
    Decompress(&'static str),
    /// It is encrypted, and there is no key.
    #[error("it is encrypted, and the key is not loaded")]
    NoKey,
    /// The key is there, and the block's authentication code is another.
    #[error("it fails its authentication")]
    Authentication,
    /// Compressed or checked by what we don't know.
    #[error("{0} is not supported")]
    Unsupported(&'static str),
}
