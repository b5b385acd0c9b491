//! What lies at a place of a file.

/// What lies at a place of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Nothing: zeros.
    Hole,
    /// These blocks.
    At(u64),
    /// These blocks, but nothing was written to them: zeros.
    Unwritten(u64),
}

/// Blocks of a file that lie alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) what: What,
    pub(crate) len: u64,
}
