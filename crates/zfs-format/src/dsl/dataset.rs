//! Datasets: file systems, volumes and snapshots.
//!
//! The bonus of an object of type `DSL dataset`, 320 bytes; its block pointer leads to the objset. The snapshots of a
//! dataset are a list from the newest back, and a ZAP by name. A snapshot's deadlist is what its predecessor has
//! and it no longer has.
//!
//! Source: OpenZFS, `dsl_dataset.h`.

use crate::block_pointer::BlockPointer;
use crate::wire::record;

/// Names of fields in a zapified dataset. The names of features that it uses stand there too.
pub mod fields {
    /// The ZAP of bookmarks.
    pub const BOOKMARKS: &str = "com.delphix:bookmarks";
    /// The GUID of the snapshot that a broken-off receive began from.
    pub const RESUME_FROM_GUID: &str = "com.delphix:resume_fromguid";
    /// The name of the snapshot that a broken-off receive makes.
    pub const RESUME_TO_NAME: &str = "com.delphix:resume_toname";
    /// The GUID of the snapshot that a broken-off receive makes.
    pub const RESUME_TO_GUID: &str = "com.delphix:resume_toguid";
    /// The object at which to go on.
    pub const RESUME_OBJECT: &str = "com.delphix:resume_object";
    /// The offset at which to go on.
    pub const RESUME_OFFSET: &str = "com.delphix:resume_offset";
    /// Bytes received so far.
    pub const RESUME_BYTES: &str = "com.delphix:resume_bytes";
    /// The stream has large blocks.
    pub const RESUME_LARGE_BLOCK: &str = "com.delphix:resume_largeblockok";
    /// The stream has embedded data.
    pub const RESUME_EMBED: &str = "com.delphix:resume_embedok";
    /// The stream has compressed blocks.
    pub const RESUME_COMPRESS: &str = "com.delphix:resume_compressok";
    /// The stream has encrypted blocks.
    pub const RESUME_RAW: &str = "com.datto:resume_rawok";
    /// The deadlist of pointers to removed vdevs.
    pub const REMAP_DEADLIST: &str = "com.delphix:remap_deadlist";
    /// The set of initialisation vectors that its blocks were encrypted with.
    pub const IVSET_GUID: &str = "com.datto:ivset_guid";
}

/// Flags of a dataset.
pub mod flags {
    /// Half received, or half destroyed.
    pub const INCONSISTENT: u64 = 1;
    /// May not be promoted.
    pub const NO_PROMOTE: u64 = 2;
    /// `unique_bytes` is right.
    pub const UNIQUE_ACCURATE: u64 = 4;
    /// Destroyed as soon as nothing holds it.
    pub const DEFER_DESTROY: u64 = 8;
    /// Names differ not by case alone.
    pub const CASE_INSENSITIVE: u64 = 1 << 16;
}

record! {
    /// A dataset.
    DslDataset = "DSL dataset", 320, {
        /// Its directory.
        dir: u64,
        /// The snapshot before it.
        previous_snapshot: u64,
        /// The transaction group of that.
        previous_snapshot_txg: u64,
        /// The snapshot or head after it; 0 for a head.
        next_snapshot: u64,
        /// The ZAP of snapshots by name; 0 for a snapshot.
        snapshot_names: u64,
        /// Of a snapshot: clones and the next; 0 for a head.
        children: u64,
        /// When it was made, in seconds since 1970.
        creation_time: u64,
        /// The transaction group that made it.
        creation_txg: u64,
        /// Its deadlist.
        deadlist: u64,
        /// Bytes of all blocks that it reaches.
        referenced_bytes: u64,
        /// The same as compressed.
        compressed_bytes: u64,
        /// The same before compression.
        uncompressed_bytes: u64,
        /// Bytes that only it reaches.
        unique_bytes: u64,
        /// A number of 56 bits for `statfs`, which may change.
        fsid_guid: u64,
        /// A number of its own that never changes.
        guid: u64,
        /// See [`flags`].
        flags: u64,
        /// The objset.
        pointer: BlockPointer,
        /// The ZAP of clones of this snapshot.
        next_clones: u64,
        /// The ZAP of a snapshot's properties.
        properties: u64,
        /// The ZAP of holds.
        user_references: u64,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_bytes_hold() {
        crate::wire::checks::holds_for_any_bytes::<super::DslDataset>();
    }
}
