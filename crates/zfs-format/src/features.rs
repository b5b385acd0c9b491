//! Features: what a pool uses beyond version 28, by name.
//!
//! A pool of version 5000 says what it uses in two tables of the MOS, `features_for_write` and `features_for_read`
//! (name → how many uses), and those for reading in the label too. A name that is not known bars the pool: wholly
//! if it stands in the table for reading, from writing only if it stands in the other.
//!
//! The list is that of OpenZFS 2.3. [`Support`] says which of them Spindle reads; who opens a pool asks it, and
//! refuses by name.
//!
//! Source: OpenZFS, `zfeature_common.c`, `zfeature.c`.

use Support::{NotYet, Read};

/// A pool can be read by software that does not know the feature.
const READ_ONLY_COMPATIBLE: u8 = 1;
/// The MOS itself uses it: needed to read anything.
const MOS: u8 = 2;
/// In use as soon as it is enabled.
const ACTIVATE_ON_ENABLE: u8 = 4;
/// Each dataset that uses it says so.
const PER_DATASET: u8 = 8;

/// Whether Spindle knows what a feature changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// Pools that use it are read.
    Read,
    /// Known by name only: a pool that uses it is refused, or opened read-only where that is compatible.
    NotYet,
}

/// A feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Its name on disk.
    pub guid: &'static str,
    /// Its short name, as in `feature@lz4_compress`.
    pub name: &'static str,
    flags: u8,
    /// The features that it needs, by their names on disk.
    pub needs: &'static [&'static str],
    /// Whether Spindle knows it.
    pub support: Support,
}

const fn feature(
    guid: &'static str,
    name: &'static str,
    flags: u8,
    needs: &'static [&'static str],
    support: Support,
) -> Feature {
    Feature { guid, name, flags, needs, support }
}

impl Feature {
    /// Whether software that does not know it may read the pool.
    pub fn is_read_only_compatible(&self) -> bool {
        self.flags & READ_ONLY_COMPATIBLE != 0
    }

    /// Whether the MOS itself uses it.
    pub fn is_for_mos(&self) -> bool {
        self.flags & MOS != 0
    }

    /// Whether it is in use as soon as it is enabled.
    pub fn is_active_when_enabled(&self) -> bool {
        self.flags & ACTIVATE_ON_ENABLE != 0
    }

    /// Whether each dataset that uses it says so, by the name in its table.
    pub fn is_per_dataset(&self) -> bool {
        self.flags & PER_DATASET != 0
    }

    /// The feature of this name on disk.
    pub fn find(guid: &str) -> Option<&'static Feature> {
        FEATURES.iter().find(|feature| feature.guid == guid)
    }

    /// The feature of this short name.
    pub fn named(name: &str) -> Option<&'static Feature> {
        FEATURES.iter().find(|feature| feature.name == name)
    }
}

/// All features of OpenZFS 2.3, in its order.
pub const FEATURES: [Feature; 44] = [
    feature("com.delphix:async_destroy", "async_destroy", READ_ONLY_COMPATIBLE, &[], Read),
    feature("com.delphix:empty_bpobj", "empty_bpobj", READ_ONLY_COMPATIBLE, &[], Read),
    feature("org.illumos:lz4_compress", "lz4_compress", ACTIVATE_ON_ENABLE, &[], Read),
    feature("com.joyent:multi_vdev_crash_dump", "multi_vdev_crash_dump", 0, &[], Read),
    feature(
        "com.delphix:spacemap_histogram",
        "spacemap_histogram",
        READ_ONLY_COMPATIBLE,
        &[],
        Read,
    ),
    feature("com.delphix:enabled_txg", "enabled_txg", READ_ONLY_COMPATIBLE, &[], Read),
    feature(
        "com.delphix:hole_birth",
        "hole_birth",
        MOS | ACTIVATE_ON_ENABLE,
        &["com.delphix:enabled_txg"],
        Read,
    ),
    feature("com.delphix:zpool_checkpoint", "zpool_checkpoint", READ_ONLY_COMPATIBLE, &[], Read),
    feature(
        "com.delphix:spacemap_v2",
        "spacemap_v2",
        READ_ONLY_COMPATIBLE | ACTIVATE_ON_ENABLE,
        &[],
        Read,
    ),
    feature("com.delphix:extensible_dataset", "extensible_dataset", 0, &[], Read),
    feature(
        "com.delphix:bookmarks",
        "bookmarks",
        READ_ONLY_COMPATIBLE,
        &["com.delphix:extensible_dataset"],
        Read,
    ),
    feature(
        "com.joyent:filesystem_limits",
        "filesystem_limits",
        READ_ONLY_COMPATIBLE,
        &["com.delphix:extensible_dataset"],
        Read,
    ),
    feature("com.delphix:embedded_data", "embedded_data", MOS | ACTIVATE_ON_ENABLE, &[], Read),
    feature(
        "com.delphix:livelist",
        "livelist",
        READ_ONLY_COMPATIBLE,
        &["com.delphix:extensible_dataset"],
        Read,
    ),
    feature(
        "com.delphix:log_spacemap",
        "log_spacemap",
        READ_ONLY_COMPATIBLE,
        &["com.delphix:spacemap_v2"],
        Read,
    ),
    feature(
        "org.open-zfs:large_blocks",
        "large_blocks",
        PER_DATASET,
        &["com.delphix:extensible_dataset"],
        Read,
    ),
    feature(
        "org.zfsonlinux:large_dnode",
        "large_dnode",
        PER_DATASET,
        &["com.delphix:extensible_dataset"],
        Read,
    ),
    feature("org.illumos:sha512", "sha512", PER_DATASET, &["com.delphix:extensible_dataset"], Read),
    feature("org.illumos:skein", "skein", PER_DATASET, &["com.delphix:extensible_dataset"], Read),
    feature("org.illumos:edonr", "edonr", PER_DATASET, &["com.delphix:extensible_dataset"], Read),
    feature(
        "com.delphix:redaction_bookmarks",
        "redaction_bookmarks",
        0,
        &["com.datto:bookmark_v2", "com.delphix:extensible_dataset", "com.delphix:bookmarks"],
        NotYet,
    ),
    feature(
        "com.delphix:redacted_datasets",
        "redacted_datasets",
        PER_DATASET,
        &["com.delphix:extensible_dataset"],
        NotYet,
    ),
    feature(
        "com.delphix:bookmark_written",
        "bookmark_written",
        0,
        &["com.datto:bookmark_v2", "com.delphix:extensible_dataset", "com.delphix:bookmarks"],
        Read,
    ),
    feature("com.delphix:device_removal", "device_removal", MOS, &[], Read),
    feature(
        "com.delphix:obsolete_counts",
        "obsolete_counts",
        READ_ONLY_COMPATIBLE,
        &["com.delphix:extensible_dataset", "com.delphix:device_removal"],
        Read,
    ),
    feature(
        "org.zfsonlinux:userobj_accounting",
        "userobj_accounting",
        READ_ONLY_COMPATIBLE | PER_DATASET,
        &["com.delphix:extensible_dataset"],
        Read,
    ),
    feature(
        "com.datto:bookmark_v2",
        "bookmark_v2",
        0,
        &["com.delphix:extensible_dataset", "com.delphix:bookmarks"],
        Read,
    ),
    feature(
        "com.datto:encryption",
        "encryption",
        PER_DATASET,
        &["com.delphix:extensible_dataset", "com.datto:bookmark_v2"],
        Read,
    ),
    feature(
        "org.zfsonlinux:project_quota",
        "project_quota",
        READ_ONLY_COMPATIBLE | PER_DATASET,
        &["com.delphix:extensible_dataset"],
        Read,
    ),
    feature(
        "org.zfsonlinux:allocation_classes",
        "allocation_classes",
        READ_ONLY_COMPATIBLE,
        &[],
        Read,
    ),
    feature("com.datto:resilver_defer", "resilver_defer", READ_ONLY_COMPATIBLE, &[], Read),
    feature("org.openzfs:device_rebuild", "device_rebuild", READ_ONLY_COMPATIBLE, &[], Read),
    feature(
        "org.freebsd:zstd_compress",
        "zstd_compress",
        PER_DATASET,
        &["com.delphix:extensible_dataset"],
        Read,
    ),
    feature("org.openzfs:draid", "draid", MOS, &[], Read),
    feature(
        "org.openzfs:zilsaxattr",
        "zilsaxattr",
        READ_ONLY_COMPATIBLE | PER_DATASET,
        &["com.delphix:extensible_dataset"],
        Read,
    ),
    feature("com.delphix:head_errlog", "head_errlog", ACTIVATE_ON_ENABLE, &[], Read),
    feature("org.openzfs:blake3", "blake3", PER_DATASET, &["com.delphix:extensible_dataset"], Read),
    feature("com.fudosecurity:block_cloning", "block_cloning", READ_ONLY_COMPATIBLE, &[], Read),
    feature("com.klarasystems:vdev_zaps_v2", "vdev_zaps_v2", MOS, &[], Read),
    feature(
        "com.delphix:redaction_list_spill",
        "redaction_list_spill",
        0,
        &["com.delphix:redaction_bookmarks"],
        NotYet,
    ),
    feature("org.openzfs:raidz_expansion", "raidz_expansion", MOS, &[], Read),
    feature("com.klarasystems:fast_dedup", "fast_dedup", READ_ONLY_COMPATIBLE, &[], Read),
    feature(
        "org.zfsonlinux:longname",
        "longname",
        PER_DATASET,
        &["com.delphix:extensible_dataset"],
        Read,
    ),
    feature(
        "com.klarasystems:large_microzap",
        "large_microzap",
        READ_ONLY_COMPATIBLE | PER_DATASET,
        &["com.delphix:extensible_dataset", "org.open-zfs:large_blocks"],
        Read,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_needs_are_known() {
        for (n, feature) in FEATURES.iter().enumerate() {
            assert_eq!(Feature::find(feature.guid), Some(feature));
            assert_eq!(Feature::named(feature.name), Some(feature));
            let earlier = &FEATURES[..n];
            assert!(earlier.iter().all(|other| other.guid != feature.guid));
            assert!(feature.needs.iter().all(|guid| Feature::find(guid).is_some()));
        }
    }

    #[test]
    fn flags_are_those_of_the_sources() {
        let lz4 = Feature::named("lz4_compress").expect("known");
        assert!(lz4.is_active_when_enabled() && !lz4.is_read_only_compatible());
        let destroy = Feature::find("com.delphix:async_destroy").expect("known");
        assert!(destroy.is_read_only_compatible() && !destroy.is_for_mos());
        let removal = Feature::named("device_removal").expect("known");
        assert!(removal.is_for_mos() && !removal.is_per_dataset());
        assert!(Feature::named("large_blocks").expect("known").is_per_dataset());
        assert_eq!(Feature::find("org.example:none"), None);
    }
}
