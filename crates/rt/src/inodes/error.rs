//! Why a file system has no answer, and the number that programs see.

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InodeError {
    /// No such entry.
    #[error("there is no such file or directory")]
    NotFound,
    /// A directory was needed.
    #[error("it is not a directory")]
    NotDirectory,
    /// A plain file was needed.
    #[error("it is a directory")]
    IsDirectory,
    /// Something else than a symbolic link, or than a plain file.
    #[error("it is of another kind")]
    WrongKind,
    /// No extended attribute of this name.
    #[error("there is no such extended attribute")]
    NoAttribute,
    /// No node of this number, any more.
    #[error("the file is gone")]
    Gone,
    /// A directory as an entry of another than its own, where it would lead in a circle or be there twice.
    #[error("the directory belongs elsewhere")]
    Loop,
    /// The key of an encrypted dataset is not loaded.
    #[error("the key is not loaded")]
    NoKey,
    /// What is on the disks is damaged.
    #[error("the file is damaged")]
    Damaged,
    /// A device below failed.
    #[error("reading failed")]
    Io,
    /// The file system has no such thing.
    #[error("it is not supported")]
    NotSupported,
    /// There is such an entry, or such an extended attribute.
    #[error("it is there already")]
    Exists,
    /// Something is left in the directory.
    #[error("the directory is not empty")]
    NotEmpty,
    /// No room for it.
    #[error("no space left")]
    NoSpace,
    /// The owner's, group's or dataset's share is used up.
    #[error("the quota is used up")]
    Quota,
    /// Nothing can be changed.
    #[error("the file system is read-only")]
    ReadOnly,
    /// A name longer than there may be.
    #[error("the name is too long")]
    NameTooLong,
    /// From one file system into another.
    #[error("it would lead into another file system")]
    CrossDevice,
    /// No file can have more names.
    #[error("there are too many links to it")]
    TooManyLinks,
    /// No file can be so long.
    #[error("the file would be too large")]
    FileTooBig,
    /// No attribute can be so long.
    #[error("the value is too long")]
    ValueTooLong,
    /// Not with this file, whoever asks.
    #[error("it is not permitted")]
    NotPermitted,
    /// The kernel let pass what the file system refuses to this caller.
    #[error("permission denied")]
    Denied,
    /// A directory below itself, a range of no length, a list of access that is none.
    #[error("it makes no sense")]
    Invalid,
    /// In use by the file system itself.
    #[error("it is in use")]
    Busy,
    /// Looking for data or a hole where the file has ended.
    #[error("it is beyond the end")]
    BeyondEnd,
}

impl InodeError {
    /// The number that Linux has for it.
    pub fn errno(self) -> i32 {
        match self {
            InodeError::NotPermitted => 1,
            InodeError::NotFound => 2,
            InodeError::Damaged | InodeError::Io => 5,
            InodeError::BeyondEnd => 6,
            InodeError::ValueTooLong => 7,
            InodeError::Denied => 13,
            InodeError::Busy => 16,
            InodeError::Exists => 17,
            InodeError::CrossDevice => 18,
            InodeError::NotDirectory => 20,
            InodeError::IsDirectory => 21,
            InodeError::WrongKind | InodeError::Invalid => 22,
            InodeError::FileTooBig => 27,
            InodeError::NoSpace => 28,
            InodeError::ReadOnly => 30,
            InodeError::TooManyLinks => 31,
            InodeError::NameTooLong => 36,
            InodeError::NotEmpty => 39,
            InodeError::Loop => 40,
            InodeError::NoAttribute => 61,
            InodeError::NotSupported => 95,
            InodeError::Gone => 116,
            InodeError::Quota => 122,
            InodeError::NoKey => 126,
        }
    }
}
