//! What memory knows of a directory.

use std::collections::{BTreeMap, BTreeSet};

/// What memory knows of a directory.
pub(crate) enum DirectoryIndex {
    Linear {
        /// (hash of a name, its leaf).
        names: BTreeSet<(u32, u64)>,
        /// (bytes in use, leaf).
        room: BTreeSet<(usize, u64)>,
    },
    Hashed {
        /// Start of a leaf's hashes, and its number.
        starts: BTreeMap<u32, u64>,
    },
}
