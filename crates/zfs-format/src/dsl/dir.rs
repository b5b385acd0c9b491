//! DSL directories: the tree of names, and the space below each.
//!
//! The bonus of an object of type `DSL directory`, 256 bytes. The head dataset is the file system or volume of this
//! name; its children stand in a ZAP (name → directory). The origin is the snapshot that a clone began as.
//!
//! Source: OpenZFS, `dsl_dir.h`.

use crate::wire::record;

/// Names of children that are no user's: the MOS's own space, the empty origin of all, what is being freed, and what
/// was lost.
pub const RESERVED: [&str; 4] = ["$MOS", "$ORIGIN", "$FREE", "$LEAK"];

/// Names of fields in a zapified directory.
pub mod fields {
    /// File systems and volumes below.
    pub const FILESYSTEM_COUNT: &str = "com.joyent:filesystem_count";
    /// Snapshots below.
    pub const SNAPSHOT_COUNT: &str = "com.joyent:snapshot_count";
    /// The object of the key of an encrypted dataset.
    pub const CRYPTO_KEY: &str = "com.datto:crypto_key_obj";
    /// The deadlist of what a clone has written.
    pub const LIVELIST: &str = "com.delphix:livelist";
    /// When a snapshot was last made or destroyed: seconds and nanoseconds.
    pub const SNAPSHOTS_CHANGED: &str = "com.ixsystems:snapshots_changed";
}

/// The space is divided by what uses it.
pub const FLAG_USED_BREAKDOWN: u64 = 1;

record! {
    /// A DSL directory.
    DslDir = "DSL directory", 256, {
        /// When it was made; 0 in most pools.
        creation_time: u64,
        /// The dataset of this name.
        head_dataset: u64,
        /// The directory above; 0 for the root.
        parent: u64,
        /// The snapshot that a clone began as; 0 for no clone.
        origin: u64,
        /// The ZAP of children.
        children: u64,
        /// Bytes that this and all below take.
        used_bytes: u64,
        /// The same as compressed.
        compressed_bytes: u64,
        /// The same before compression.
        uncompressed_bytes: u64,
        /// Bytes at the most; 0 for no limit.
        quota: u64,
        /// Bytes that are kept free for it.
        reserved: u64,
        /// The ZAP of properties.
        properties: u64,
        /// The ZAP of who may do what.
        delegation: u64,
        /// [`FLAG_USED_BREAKDOWN`].
        flags: u64,
        /// Bytes used by the head, by snapshots, by children, by children's reservations, by the own
        /// reference reservation.
        used_breakdown: [u64; 5],
        /// The ZAP of clones.
        clones: u64,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_bytes_hold() {
        crate::wire::checks::holds_for_any_bytes::<super::DslDir>();
    }
}
