//! Why tasks on datasets are not done, in OpenZFS's words.

use crate::error::ZfsError;

/// Why a task was not done. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// There is one already.
    #[error("dataset already exists")]
    Exists,
    /// No dataset can be called so.
    #[error("{0} in name")]
    Name(NameError),
    /// What is to be kept free is not there.
    #[error("out of space")]
    NoSpace,
    /// It takes more already.
    #[error("size is less than current used or reserved space")]
    TooLittle,
    /// There is none.
    #[error("dataset does not exist")]
    Absent,
    /// Somebody has it open, or it has snapshots.
    #[error("dataset is busy")]
    Busy,
    /// It has a log of what was promised and is in no group yet.
    #[error("dataset is busy: its intent log was not replayed")]
    Log,
    /// Datasets lie below it.
    #[error("filesystem has children")]
    Children,
    /// It is the pool's own.
    #[error("operation does not apply to pools")]
    Pool,
    /// A snapshot began a clone.
    #[error("snapshot is cloned")]
    Cloned,
    /// A snapshot is held.
    #[error("it's being held. Run 'zfs holds -r' to see holders.")]
    Held,
    /// It is a snapshot and shouldn't be, or the other way round.
    #[error("operation not applicable to datasets of this type")]
    Type,
    /// There is something between it and now.
    #[error("there is a snapshot or bookmark more recent than it")]
    Newer,
    /// It would lie below itself.
    #[error("New dataset name cannot be a descendant of current dataset name")]
    Descendant,
    /// It would lie below a volume.
    #[error("parent is not a filesystem")]
    Parent,
    /// A name would be longer than names are.
    #[error("dataset name is too long")]
    Long,
    /// It would lie below too many others.
    #[error("maximum name nesting depth exceeded")]
    Deep,
    /// It began as nobody's clone.
    #[error("not a cloned filesystem")]
    NotClone,
    /// A snapshot or bookmark would have a name that is taken where it goes.
    #[error("conflicting snapshot '{0}' from parent")]
    Conflict(String),
    /// A hold of this name is there.
    #[error("tag already exists on this dataset")]
    HoldExists,
    /// No hold of this name is there.
    #[error("no such tag on this dataset")]
    NoHold,
    /// The name of a hold is longer than such names are.
    #[error("tag too long")]
    TagLong,
    /// A hold without a name.
    #[error("tag is empty")]
    TagEmpty,
    /// The name of a property is longer than such names are.
    #[error("property name is too long")]
    PropertyNameLong,
    /// A character that names of users' properties don't have.
    #[error("invalid character '{}' in property name", .0.escape_debug())]
    PropertyName(char),
    /// The value of a property is longer than such values are.
    #[error("property value too long")]
    ValueLong,
    /// Nothing can be mounted there.
    #[error("'mountpoint' must be an absolute path, 'none', or 'legacy'")]
    Mountpoint,
    /// There is a bookmark of that name.
    #[error("bookmark exists")]
    BookmarkExists,
    /// A bookmark would be of another's past.
    #[error("source is not an ancestor of the new bookmark's dataset")]
    NotAncestor,
    /// What has to be read for it is damaged.
    #[error("it is damaged: {0}")]
    Damaged(Box<ZfsError>),
    /// The pool has no such feature.
    #[error("{0} feature not enabled")]
    Feature(&'static str),
}

/// Why no dataset can be called so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// A part of it is empty.
    #[error("empty component or misplaced '@' or '#' delimiter")]
    Empty,
    /// A character that names don't have.
    #[error("invalid character '{}'", .0.escape_debug())]
    Character(char),
    /// A name that ZFS keeps for itself.
    #[error("reserved name")]
    Reserved,
}
