//! What can be wrong with a pool, or with what is asked of it.

use zfs_format::FormatError;
use zfs_format::block_pointer::Dva;
use zfs_store::{BlockError, Bookmark, WriteBlockError};

/// Something in a pool can't be had. The text says what; who shows it adds the pool and the dataset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZfsError {
    /// A block.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// A block can't be written.
    #[error("objset {objset} object {object}: {error}")]
    Write {
        /// The objset's number.
        objset: u64,
        /// The object.
        object: u64,
        /// Why.
        error: Box<WriteBlockError>,
    },
    /// An object is there, and its bytes are none of what it should hold.
    #[error("objset {objset} object {object}: {error}")]
    Format {
        /// The objset's number.
        objset: u64,
        /// The object.
        object: u64,
        /// What is wrong.
        error: FormatError,
    },
    /// An object is not there, or another thing than what refers to it says.
    #[error("objset {objset} object {object}: {problem}")]
    Object {
        /// The objset's number.
        objset: u64,
        /// The object.
        object: u64,
        /// What is wrong.
        problem: Problem,
    },
}

/// What is wrong with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The volume ends before it.
    #[error("it lies behind the end of the volume")]
    BehindEnd,
    /// Its slot is free.
    #[error("there is no such object")]
    Absent,
    /// It is of another type.
    #[error("it is {found}, not {expected}")]
    Type {
        /// What it is.
        found: zfs_format::object_type::ObjectType,
        /// What it should be.
        expected: &'static str,
    },
    /// An objset that was never made.
    #[error("it has no objects")]
    Empty,
    /// A name that a table must have.
    #[error("it has no entry {0}")]
    NoEntry(&'static str),
    /// An entry is there, of another kind.
    #[error("its entry {0} is not what it should be")]
    Entry(&'static str),
    /// More than is taken.
    #[error("{what} are more than the {limit} that are taken")]
    Limit {
        /// Of what.
        what: &'static str,
        /// How many are taken.
        limit: u64,
    },
    /// An objset of another kind.
    #[error("it is no file system")]
    NotFileSystem,
    /// An objset of another kind.
    #[error("it is no volume")]
    NotVolume,
    /// A file system of a version that is not known.
    #[error("file systems of version {0} are not known")]
    Version(u64),
    /// A file, where a directory was meant.
    #[error("it is not a directory")]
    NotDirectory,
    /// A directory, where a file was meant.
    #[error("it is a directory")]
    IsDirectory,
    /// No symbolic link.
    #[error("it is not a symbolic link")]
    NotLink,
    /// A number that another object has, or that none can have.
    #[error("its number is taken")]
    Taken,
    /// Another size of its blocks.
    #[error("its blocks can't become {0} bytes long")]
    BlockSize(u64),
    /// What is to be put into it is too long.
    #[error("{0} does not fit into it")]
    NoRoom(&'static str),
    /// A name that it has already.
    #[error("it has an entry of that name already")]
    Exists,
    /// A name that it doesn't have.
    #[error("it has no entry of that name")]
    NoName,
    /// A directory that is to go, and has names.
    #[error("it is not empty")]
    NotEmpty,
    /// Nobody said how it would be changed.
    #[error("it is open for reading only")]
    ReadOnly,
    /// A group could not be synced.
    #[error("the pool is not written any more")]
    Stopped,
    /// Its devices take no writes for now, and its property `failmode` is `continue`.
    #[error("pool I/O is currently suspended")]
    Suspended,
    /// An intent log of which nobody knows what it holds.
    #[error("its intent log lies on a device that is missing")]
    LogCut,
    /// A chain or tree that comes back to where it was.
    #[error("it is reached twice")]
    Twice,
    /// A number that can't be, and that a change goes on from.
    #[error("its count {0} can't be")]
    Count(&'static str),
    /// A block that dies, in space that is free.
    #[error(
        "{0} is freed, and the pool's space maps have it as free: the pool is damaged, and is left as it was"
    )]
    NotAllocated(Dva),
    /// A directory that holds itself, or one that holds it.
    #[error("it is a directory within itself: it is not entered here")]
    Circle,
    /// A directory that is an entry of one, and names another as its own.
    #[error("it is a directory of object {parent}, not of this one: it is not entered here")]
    Elsewhere {
        /// The one that it names.
        parent: u64,
    },
}

impl ZfsError {
    /// Whether it is only that a key is missing.
    pub fn needs_key(&self) -> bool {
        matches!(self, ZfsError::Block(error) if error.kind == zfs_store::BlockErrorKind::NoKey)
    }

    /// Whether it is that no device is there to read from.
    pub fn lacks_device(&self) -> bool {
        use zfs_store::BlockErrorKind::{Missing, NoVdev};
        matches!(self, ZfsError::Block(error) if matches!(error.kind, Missing(_) | NoVdev(_)))
    }

    /// Whether it is that devices can't be read.
    pub fn is_of_devices(&self) -> bool {
        use zfs_store::BlockErrorKind::{Io, Missing};
        matches!(self, ZfsError::Block(error) if matches!(error.kind, Io(_) | Missing(_)))
    }

    /// Whether it is that what was read is not what was written: the devices give it, and it is wrong.
    pub fn is_damage(&self) -> bool {
        match self {
            ZfsError::Block(_) => {
                !self.is_of_devices() && !self.lacks_device() && !self.needs_key()
            }
            ZfsError::Format { .. } => true,
            ZfsError::Object { problem, .. } => {
                !matches!(problem, Problem::Stopped | Problem::Suspended | Problem::Limit { .. })
            }
            ZfsError::Write { .. } => false,
        }
    }

    /// The group in which the block was written that can't be had, if it is one that was written.
    pub fn birth(&self) -> Option<u64> {
        match self {
            ZfsError::Block(error) => Some(error.birth).filter(|birth| *birth > 0),
            _ => None,
        }
    }

    /// Where it happened, as far as that is known.
    pub fn place(&self) -> Bookmark {
        match self {
            ZfsError::Block(error) => error.at,
            ZfsError::Write { objset, object, .. }
            | ZfsError::Format { objset, object, .. }
            | ZfsError::Object { objset, object, .. } => {
                Bookmark { objset: *objset, object: *object, level: 0, block: 0 }
            }
        }
    }
}
