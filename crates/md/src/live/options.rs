//! What somebody asks for who opens a set for writing.

/// What a person may ask for beyond the rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct LiveOptions {
    /// Start a dirty and degraded set too.
    pub force: bool,
    /// Seconds since 1970 when the set is opened; moments in superblocks count from it.
    pub unix_s: u64,
    /// Open a set too that lacks its journal: devices can come and go, and no data is written.
    pub without_journal: bool,
}
