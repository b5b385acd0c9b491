//! Features that pools get here, and which of them a pool's `compatibility` allows.
//!
//! The property is `off` (all), `legacy` (none), or names of files, each with the names of features; what all of them have is allowed.
//! OpenZFS installs such files; a name is looked for where the host's own lie, then where OpenZFS's do.
//!
//! Source: OpenZFS 2.3, `libzfs_pool.c` (`zpool_load_compat`).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use zfs::inspect::property::PoolView;

/// Where files of features lie.
const FOLDERS: [&str; 2] = ["/etc/zfs/compatibility.d", "/usr/share/zfs/compatibility.d"];
/// Bytes of such a file.
const FILE_BYTES_MAX: u64 = 16 << 10;

/// Features that are written here, with a word about each: of those that OpenZFS 2.1 reads.
pub const WRITTEN: [(&str, &str); 30] = [
    ("async_destroy", "What is destroyed is freed bit by bit."),
    ("empty_bpobj", "Snapshots that free nothing share one empty list."),
    ("lz4_compress", "Compression by LZ4."),
    ("multi_vdev_crash_dump", "Dumps of kernels that crashed lie on several vdevs."),
    ("spacemap_histogram", "Space maps may have a histogram of what is free."),
    ("enabled_txg", "It is noted since when each feature is enabled."),
    ("hole_birth", "Holes know when they were made: increments of streams are exact."),
    ("spacemap_v2", "Long stretches of space are noted as one."),
    ("extensible_dataset", "Datasets have room for more; other features need it."),
    ("bookmarks", "Bookmarks stand for snapshots that are gone."),
    ("embedded_data", "Small blocks stand in the pointers to them."),
    ("large_blocks", "Blocks of more than 128 KiB."),
    ("large_dnode", "Dnodes of more than 512 bytes."),
    ("sha512", "Checksums by SHA-512/256."),
    ("skein", "Checksums by Skein."),
    ("edonr", "Checksums by Edon-R."),
    ("userobj_accounting", "Objects of users and groups are counted."),
    ("log_spacemap", "What space changed in a group is logged at one place."),
    ("bookmark_v2", "Bookmarks know how large they are."),
    ("livelist", "Clones list what is their own, and are destroyed by that."),
    ("bookmark_written", "Bookmarks know what was freed since."),
    ("project_quota", "Space and objects of projects are counted."),
    ("device_removal", "Vdevs can be removed, and what lay on them is found where it was moved."),
    ("obsolete_counts", "What of removed vdevs nobody needs any more is counted."),
    ("allocation_classes", "Vdevs of their own for metadata, small blocks, and deduplication."),
    ("resilver_defer", "A resilver waits for the one under way."),
    ("device_rebuild", "Mirrors are rebuilt in the order of the disk."),
    ("zstd_compress", "Compression by zstd."),
    ("zpool_checkpoint", "All of a pool can be kept as it is, to go back to."),
    ("draid", "Groups of data and parity spread over all disks, with spare space among them."),
];

/// Whether a pool lacks features that are written here: those that `zpool upgrade` enables.
pub fn lacks_written(view: &PoolView) -> bool {
    view.lacks_one_of(WRITTEN.iter().map(|(name, _)| *name))
}

/// Why what `compatibility` allows can't be told.
#[derive(Debug, thiserror::Error)]
pub enum CompatibilityError {
    /// There is no such file.
    #[error("compatibility: there is no file '{name}' in {} or {}", FOLDERS[0], FOLDERS[1])]
    NoFile {
        /// What was looked for.
        name: String,
    },
    /// It can't be read.
    #[error("compatibility: reading {}: {error}", .path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// It is no such file.
    #[error("compatibility: {} is no list of features: it is longer than {FILE_BYTES_MAX} bytes", .path.display())]
    Long {
        /// Which.
        path: PathBuf,
    },
}

/// The features that are written here, of those that this value of `compatibility` allows.
///
/// # Errors
/// A file can't be had.
pub fn allowed(compatibility: &str) -> Result<Vec<&'static str>, CompatibilityError> {
    allowed_by(compatibility, &FOLDERS)
}

fn allowed_by(
    compatibility: &str,
    folders: &[&str],
) -> Result<Vec<&'static str>, CompatibilityError> {
    let mut all: Vec<&'static str> = WRITTEN.iter().map(|(name, _)| *name).collect();
    match compatibility {
        "" | "off" => return Ok(all),
        "legacy" => return Ok(Vec::new()),
        _ => {}
    }
    for name in compatibility.split(',') {
        let known = listed(name, folders)?;
        all.retain(|feature| known.contains(*feature));
    }
    Ok(all)
}

/// The names in a file.
fn listed(name: &str, folders: &[&str]) -> Result<BTreeSet<String>, CompatibilityError> {
    let places = folders.iter().map(|folder| Path::new(folder).join(name));
    let path = places.into_iter().find(|path| path.is_file());
    let path = path.ok_or_else(|| CompatibilityError::NoFile { name: name.to_owned() })?;
    let wrong = |error| CompatibilityError::Io { path: path.clone(), error };
    if std::fs::metadata(&path).map_err(wrong)?.len() > FILE_BYTES_MAX {
        return Err(CompatibilityError::Long { path });
    }
    let text = std::fs::read_to_string(&path).map_err(wrong)?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let words = lines.flat_map(|line| line.split(|c: char| c.is_whitespace() || c == ','));
    Ok(words.filter(|word| !word.is_empty()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use zfs_format::features::Feature;

    #[test]
    fn what_all_files_have_is_allowed() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().to_str().expect("text");
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).expect("written");
        };
        write("one", "# what\nlz4_compress, skein # and why\nbookmarks\nnever_heard_of\n");
        write("two", "skein\nlz4_compress");
        write("long", &"x".repeat(1 << 15));
        let allowed = |names: &str| allowed_by(names, &["/nowhere", at]);
        assert_eq!(allowed("one").expect("a file"), ["lz4_compress", "bookmarks", "skein"]);
        assert_eq!(allowed("one,two").expect("files"), ["lz4_compress", "skein"]);
        assert_eq!(allowed("off").expect("a word").len(), WRITTEN.len());
        assert!(allowed("legacy").expect("a word").is_empty());
        for (names, why) in [("one,three", "no file 'three'"), ("long", "no list of features")] {
            let error = allowed(names).expect_err("it is refused").to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn what_is_written_is_known() {
        assert!(WRITTEN.iter().all(|(name, _)| Feature::named(name).is_some()));
    }
}
