//! What is wrong with bytes that should be a structure of ZFS.
//!
//! Bad bytes are a value, never a panic (DESIGN §9, rule 7). The error names the structure, the field
//! and its place in the bytes that were given; which block of which device they came from is added by
//! whoever read them.

/// Bytes that are not what they should be: which structure, which field, where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{structure}: {field} at byte {offset}: {problem}")]
pub struct FormatError {
    /// What was read: `uberblock`.
    pub structure: &'static str,
    /// Which part of it.
    pub field: &'static str,
    /// Where it stands, from the start of the bytes that were given, in bytes.
    pub offset: usize,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It lies beyond the end of what there is.
    #[error("there are too few bytes")]
    Short,
    /// Not the bytes that it begins with.
    #[error("it is none of these: the magic number is {0:#x}")]
    Magic(u64),
    /// The checksum of the structure is another.
    #[error("the checksum is wrong")]
    Checksum,
    /// A version that is not known.
    #[error("version {0} is not known")]
    Version(u64),
    /// A number that can't be.
    #[error("{0} can't be")]
    Value(u64),
    /// More than this reader takes.
    #[error("{found} is more than the {limit} that are taken")]
    Limit {
        /// How many there are.
        found: u64,
        /// How many are taken.
        limit: u64,
    },
    /// Text that doesn't end, or holds a zero byte.
    #[error("it is no text")]
    Text,
    /// A value is there, but of another type.
    #[error("it is of another type than it should be")]
    Type,
    /// A value that must be there is not.
    #[error("it is missing")]
    Missing,
    /// What should be a tree or a chain runs in a circle, or two things claim one place.
    #[error("it is reached twice")]
    Twice,
}
