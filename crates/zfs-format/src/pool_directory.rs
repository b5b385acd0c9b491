//! Names in the pool's directory, object 1 of the MOS, and in the ZAPs of vdevs.
//!
//! Source: OpenZFS, `dmu.h`, `fs/zfs.h`.

use crate::checksum::ChecksumFunction;

/// The object that all others are found from.
pub const OBJECT: u64 = 1;

/// The root of the DSL directories.
pub const ROOT_DATASET: &str = "root_dataset";
/// The configuration, a packed nvlist.
pub const CONFIG: &str = "config";
/// Features that writing needs: name → uses.
pub const FEATURES_FOR_WRITE: &str = "features_for_write";
/// Features that reading needs: name → uses.
pub const FEATURES_FOR_READ: &str = "features_for_read";
/// Features: name → description.
pub const FEATURE_DESCRIPTIONS: &str = "feature_descriptions";
/// Features: name → the transaction group that enabled it.
pub const FEATURE_ENABLED_TXG: &str = "feature_enabled_txg";
/// Blocks to be freed after the sync, a bpobj.
pub const SYNC_BPOBJ: &str = "sync_bplist";
/// Errors that a scrub finds.
pub const ERROR_LOG_SCRUB: &str = "errlog_scrub";
/// Errors of the last scrub.
pub const ERROR_LOG_LAST: &str = "errlog_last";
/// Spares, a packed nvlist.
pub const SPARES: &str = "spares";
/// Whether sizes are deflated by raidz's overhead.
pub const DEFLATE: &str = "deflate";
/// The history.
pub const HISTORY: &str = "history";
/// The pool's properties.
pub const PROPERTIES: &str = "pool_props";
/// Cache devices, a packed nvlist.
pub const L2CACHE: &str = "l2cache";
/// Holds that end with their maker.
pub const TEMPORARY_USER_REFERENCES: &str = "tmp_userrefs";
/// Statistics of the deduplication tables.
pub const DDT_STATISTICS: &str = "DDT-statistics";
/// The version that the pool was created with.
pub const CREATION_VERSION: &str = "creation_version";
/// How far the scan came: [`Scan`](crate::dsl::scan::Scan).
pub const SCAN: &str = "scan";
/// How far the scrub of errors came: [`ErrorScrub`](crate::dsl::scan::ErrorScrub).
pub const ERROR_SCRUB: &str = "error_scrub";
/// The last transaction group that a scrub covered.
pub const LAST_SCRUBBED_TXG: &str = "last_scrubbed_txg";
/// Blocks to be freed, a bpobj.
pub const FREE_BPOBJ: &str = "free_bpobj";
/// Datasets that are being destroyed: [`BpTree`](crate::dsl::bptree::BpTree).
pub const BPTREE: &str = "bptree_obj";
/// The empty bpobj that all datasets share.
pub const EMPTY_BPOBJ: &str = "empty_bpobj";
/// The salt of salted checksums, 32 bytes.
pub const CHECKSUM_SALT: &str = "org.illumos:checksum_salt";
/// The ZAP of all vdevs' ZAPs.
pub const VDEV_ZAP_MAP: &str = "com.delphix:vdev_zap_map";
/// How far a removal came: [`Removal`](crate::vdev::indirect::Removal).
pub const REMOVING: &str = "com.delphix:removing";
/// Blocks of removed vdevs that were freed, a bpobj.
pub const OBSOLETE_BPOBJ: &str = "com.delphix:obsolete_bpobj";
/// Which mapping is being condensed: [`Condensing`](crate::vdev::indirect::Condensing).
pub const CONDENSING: &str = "com.delphix:condensing_indirect";
/// The uberblock of the checkpoint, as numbers.
pub const CHECKPOINT: &str = "com.delphix:zpool_checkpoint";
/// Log space maps: transaction group → object.
pub const LOG_SPACE_MAPS: &str = "com.delphix:log_spacemap_zap";
/// Clones that are being destroyed by their livelists.
pub const DELETED_CLONES: &str = "com.delphix:deleted_clones";

/// The directory of a deduplication table with the feature `fast_dedup`.
pub fn ddt_directory(checksum: ChecksumFunction) -> String {
    format!("DDT-{}", checksum.name())
}

/// A deduplication table: `zap`, `duplicate` or `unique`. With `fast_dedup` it stands in the directory, else here.
pub fn ddt_table(checksum: ChecksumFunction, unique: bool) -> String {
    let class = if unique { "unique" } else { "duplicate" };
    format!("DDT-{}-zap-{class}", checksum.name())
}

/// One of the two logs of a deduplication table.
pub fn ddt_log(checksum: ChecksumFunction, number: u32) -> String {
    format!("DDT-log-{}-{number}", checksum.name())
}

/// The block reference table of a top-level vdev.
pub fn brt_vdev(vdev: u64) -> String {
    format!("com.fudosecurity:brt:vdev:{vdev}")
}

/// Names in the ZAP of a top-level vdev.
pub mod top_vdev {
    /// What of a removed vdev is no longer needed, a space map.
    pub const INDIRECT_OBSOLETE: &str = "com.delphix:indirect_obsolete_sm";
    /// Whether the counts of that are exact.
    pub const OBSOLETE_COUNTS_PRECISE: &str = "com.delphix:obsolete_counts_are_precise";
    /// What a checkpoint holds, a space map.
    pub const CHECKPOINT: &str = "com.delphix:pool_checkpoint_sm";
    /// For each metaslab the group that its map is whole up to:
    /// [`MetaslabUnflushed`](crate::space_map::MetaslabUnflushed).
    pub const UNFLUSHED: &str = "com.delphix:ms_unflushed_phys_txgs";
    /// How far a rebuild came: [`Rebuild`](crate::vdev::Rebuild).
    pub const REBUILD: &str = "org.openzfs:vdev_rebuild";
    /// `log`, `special` or `dedup`.
    pub const ALLOCATION_BIAS: &str = "org.zfsonlinux:allocation_bias";
    /// The state of a raidz's expansion, as a scan's.
    pub const EXPAND_STATE: &str = "org.openzfs:raidz_expand_state";
    /// When it began.
    pub const EXPAND_START: &str = "org.openzfs:raidz_expand_start_time";
    /// When it ended.
    pub const EXPAND_END: &str = "org.openzfs:raidz_expand_end_time";
    /// Bytes that it copied.
    pub const EXPAND_COPIED: &str = "org.openzfs:raidz_expand_bytes_copied";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_named_by_their_checksum() {
        assert_eq!(ddt_table(ChecksumFunction::Sha256, true), "DDT-sha256-zap-unique");
        assert_eq!(ddt_table(ChecksumFunction::Skein, false), "DDT-skein-zap-duplicate");
        assert_eq!(ddt_directory(ChecksumFunction::Blake3), "DDT-blake3");
        assert_eq!(ddt_log(ChecksumFunction::Sha256, 1), "DDT-log-sha256-1");
        assert_eq!(brt_vdev(3), "com.fudosecurity:brt:vdev:3");
    }
}
