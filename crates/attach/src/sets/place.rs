//! What tells a device of a set from others: the file or block device that it lies on, and which partition of it it is.
//!
//! A partition of a disk is called `DISK:N`, which is no path: nothing of the system's is found by it.

use host::Identity;
use host::identity::same as same_file;
use std::path::{Path, PathBuf};

/// Of one device, whatever names lead to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file or block device.
    pub on: Identity,
    /// The number of the partition, where it is one.
    pub partition: Option<u32>,
}

impl Place {
    /// Of what is called so; none where nothing is there.
    pub fn of(path: &Path) -> Option<Place> {
        let (on, partition) = match whole_of(path) {
            Some(whole) => (whole, number_of(path)),
            None => (path.to_owned(), None),
        };
        Some(Place { on: Identity::of(&on).ok()?, partition })
    }
}

/// Whether two names are of one device; not, where one is of none.
pub fn same(a: &Path, b: &Path) -> bool {
    Place::of(a).is_some_and(|a| Place::of(b) == Some(a))
}

/// Whether what is called so is this file or block device, or a partition of it.
pub fn lies_on(called: &Path, whole: &Path) -> bool {
    same_file(&file_of(called), whole)
}

/// The disk of `DISK:N`; nothing where the path is one itself, or none.
pub fn whole_of(path: &Path) -> Option<PathBuf> {
    let (whole, _) = path.to_str()?.rsplit_once(':')?;
    let is_part = number_of(path).is_some() && !path.exists() && Path::new(whole).exists();
    is_part.then(|| PathBuf::from(whole))
}

/// The file or block device that a device lies on: itself, or the disk of `DISK:N`.
pub fn file_of(path: &Path) -> PathBuf {
    whole_of(path).unwrap_or_else(|| path.to_owned())
}

/// N of `DISK:N`.
pub(super) fn number_of(path: &Path) -> Option<u32> {
    path.to_str()?.rsplit_once(':')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What could break: two partitions of a disk are taken for one, so that the wrong member is failed; or one by two names for two.
    #[test]
    fn a_partition_is_itself_by_any_name_of_its_disk_and_no_other() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("disk"), "x").expect("written");
        std::fs::write(at("other"), "x").expect("written");
        std::fs::hard_link(at("disk"), at("hard")).expect("linked");
        assert!(same(&at("disk:1"), &at("hard:1")) && same(&at("disk"), &at("hard")));
        for (a, b) in [("disk:1", "disk:2"), ("disk:1", "other:1"), ("disk", "disk:1")] {
            assert!(!same(&at(a), &at(b)), "{a} {b}");
        }
        assert!(!same(&at("none:1"), &at("none:1")));
        assert!(lies_on(&at("hard:3"), &at("disk")) && !lies_on(&at("other:3"), &at("disk")));
        // A file may be called so, too.
        std::fs::write(at("disk:7"), "x").expect("written");
        assert_eq!((whole_of(&at("disk:7")), whole_of(&at("disk:8"))), (None, Some(at("disk"))));
    }
}
