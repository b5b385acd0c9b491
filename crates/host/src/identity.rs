//! Whether two paths lead to the same storage, and whether a write to one changes what lies at the other.
//!
//! Two questions, and their answers differ:
//!
//! * **Is it the same?** ([`Identity`], [`same`]) All names of one file are: hard links, symbolic links. So are all
//!   nodes of one block device, and a loop device that shows the whole of a file, with that file. A partition is
//!   not its disk.
//! * **Does a write to one change the other?** ([`overlap`]) That is so of all the above, and of a disk and its
//!   partition, of a file and a loop device over a part of it, and of a device that the kernel has put together
//!   (device mapper, md) and what it is made of. Who is about to write to several devices asks this.
//!
//! What lies below a block device is read from sysfs. Where that isn't mounted or can't be read, a block device is known by
//! its number alone. A file on a file system on a disk is not told to be on the disk: the kernel refuses to open a
//! disk for writing that is mounted.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Loop devices over partitions over loop devices …: what is deeper is not followed.
const DEPTH_MAX: usize = 8;
/// The unit of sysfs' sizes, whatever the device's own is.
const SYSFS_SECTOR: u64 = 512;
/// No file system has this number, so no file is mistaken for a block device.
const BLOCK_DEVICE: u64 = u64::MAX;

/// What tells a piece of storage from all others, whatever name it goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity(u64, u64);

impl Identity {
    /// Of the file or block device at a path.
    ///
    /// # Errors
    /// The system's: there is nothing, or it can't be looked at.
    pub fn of(path: &Path) -> io::Result<Identity> {
        Sysfs::own().identity(&std::fs::metadata(path)?)
    }

    /// As two numbers, for whoever hands it to another process. Block devices have `u64::MAX` first; files the number
    /// of their file system, and their inode's.
    pub fn numbers(self) -> (u64, u64) {
        (self.0, self.1)
    }

    /// Of [numbers](Identity::numbers).
    pub fn from_numbers((space, number): (u64, u64)) -> Identity {
        Identity(space, number)
    }
}

/// Whether two paths lead to the same storage; not, where one leads nowhere.
pub fn same(a: &Path, b: &Path) -> bool {
    Identity::of(a).is_ok_and(|a| Identity::of(b).is_ok_and(|b| a == b))
}

/// Whether a write to what lies at one path can change what lies at the other; not, where one leads nowhere.
pub fn overlap(a: &Path, b: &Path) -> bool {
    let (Ok(a), Ok(b)) = (std::fs::metadata(a), std::fs::metadata(b)) else { return false };
    let sysfs = Sysfs::own();
    sysfs.reach(&a).meets(&sysfs.reach(&b))
}

/// Whether the kernel knows one block device as a partition of the other.
pub fn is_partition_of(part: &Path, whole: &Path) -> bool {
    let sysfs = Sysfs::own();
    let folder = |path: &Path| {
        let found = std::fs::metadata(path).ok()?;
        found.file_type().is_block_device().then(|| sysfs.folder(found.rdev()))?
    };
    let (Some(part), Some(whole)) = (folder(part), folder(whole)) else { return false };
    part.join("partition").exists() && part.parent() == Some(&whole)
}

/// Whether the kernel has put together the block device at one path from what lies at the other (device mapper, md), and not as one of LVM's
/// volumes: those begin with what whoever has them wrote there.
pub fn stands_on(upper: &Path, lower: &Path) -> bool {
    let (Ok(upper), Ok(lower)) = (std::fs::metadata(upper), std::fs::metadata(lower)) else {
        return false;
    };
    let sysfs = Sysfs::own();
    upper.file_type().is_block_device() && sysfs.stands_on(upper.rdev(), &sysfs.reach(&lower))
}

/// Bytes of some storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    on: Identity,
    start: u64,
    end: u64,
}

impl Extent {
    fn all(on: Identity) -> Extent {
        Extent { on, start: 0, end: u64::MAX }
    }

    /// So much of it.
    fn part(self, start: u64, len: u64) -> Extent {
        let from = self.start.saturating_add(start);
        Extent { start: from, end: from.saturating_add(len).min(self.end), ..self }
    }

    fn meets(&self, other: &Extent) -> bool {
        self.on == other.on && self.start < other.end && other.start < self.end
    }
}

/// The kernel's account of its block devices.
struct Sysfs {
    root: PathBuf,
}

impl Sysfs {
    fn own() -> Sysfs {
        Sysfs { root: PathBuf::from("/sys") }
    }

    /// The folder of a block device.
    fn folder(&self, rdev: u64) -> Option<PathBuf> {
        let (major, minor) = (rustix::fs::major(rdev), rustix::fs::minor(rdev));
        std::fs::canonicalize(self.root.join(format!("dev/block/{major}:{minor}"))).ok()
    }

    fn identity(&self, found: &Metadata) -> io::Result<Identity> {
        if !found.file_type().is_block_device() {
            return Ok(Identity(found.dev(), found.ino()));
        }
        let own = Identity(BLOCK_DEVICE, found.rdev());
        let extent = self.extent(found.rdev(), DEPTH_MAX);
        // A part is itself alone.
        Ok(if extent.start == 0 && extent.end == u64::MAX { extent.on } else { own })
    }

    /// Where the bytes of a block device lie.
    fn extent(&self, rdev: u64, depth: usize) -> Extent {
        let own = Extent::all(Identity(BLOCK_DEVICE, rdev));
        let Some(folder) = self.folder(rdev).filter(|_| depth > 0) else { return own };
        let sectors =
            |name: &str| number(&folder.join(name)).map(|count| count.saturating_mul(SYSFS_SECTOR));
        if folder.join("partition").exists() {
            let disk = folder.parent().and_then(|disk| device_number(&disk.join("dev")));
            return match (disk, sectors("start"), sectors("size")) {
                (Some(disk), Some(start), Some(len)) => {
                    self.extent(disk, depth - 1).part(start, len)
                }
                _ => own,
            };
        }
        let Ok(behind) = std::fs::read_to_string(folder.join("loop/backing_file")) else {
            return own;
        };
        let Ok(behind) = std::fs::metadata(behind.trim_end_matches('\n')) else { return own };
        let below = match behind.file_type().is_block_device() {
            true => self.extent(behind.rdev(), depth - 1),
            false => Extent::all(Identity(behind.dev(), behind.ino())),
        };
        let (offset, limit) =
            (number(&folder.join("loop/offset")), number(&folder.join("loop/sizelimit")));
        match (offset.unwrap_or(0), limit.unwrap_or(0)) {
            (0, 0) => below,
            (offset, 0) => below.part(offset, u64::MAX),
            (offset, limit) => below.part(offset, limit),
        }
    }

    /// All that lies below a block device which the kernel has put together.
    fn below(&self, rdev: u64, depth: usize, all: &mut Vec<Extent>) {
        let Some(folder) = self.folder(rdev).filter(|_| depth > 0) else { return };
        let slaves = std::fs::read_dir(folder.join("slaves"));
        for slave in slaves.into_iter().flatten().flatten() {
            if let Some(rdev) = device_number(&slave.path().join("dev")) {
                all.push(self.extent(rdev, depth - 1));
                self.below(rdev, depth - 1, all);
            }
        }
    }

    fn stands_on(&self, upper: u64, lower: &Reach) -> bool {
        let uuid = self.folder(upper).map(|folder| folder.join("dm/uuid"));
        let uuid = uuid.and_then(|file| std::fs::read_to_string(file).ok());
        let is_volume = uuid.is_some_and(|uuid| uuid.starts_with("LVM-"));
        let below = self.reach_of_device(upper).below;
        !is_volume && below.iter().any(|below| below.meets(&lower.own))
    }

    fn reach(&self, found: &Metadata) -> Reach {
        match found.file_type().is_block_device() {
            true => self.reach_of_device(found.rdev()),
            false => {
                let own = Extent::all(Identity(found.dev(), found.ino()));
                Reach { own, below: Vec::new() }
            }
        }
    }

    fn reach_of_device(&self, rdev: u64) -> Reach {
        let mut below = Vec::new();
        self.below(rdev, DEPTH_MAX, &mut below);
        Reach { own: self.extent(rdev, DEPTH_MAX), below }
    }
}

/// What a write to some storage may change.
struct Reach {
    /// Where its bytes lie.
    own: Extent,
    /// What the kernel has put it together from, all the way down.
    below: Vec<Extent>,
}

impl Reach {
    fn meets(&self, other: &Reach) -> bool {
        // Two volumes of one group lie on one disk, and not in one another's way: what is below both tells nothing.
        self.own.meets(&other.own)
            || self.below.iter().any(|below| below.meets(&other.own))
            || other.below.iter().any(|below| below.meets(&self.own))
    }
}

fn number(file: &Path) -> Option<u64> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// `8:16`, as sysfs writes it.
fn device_number(file: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    /// A file that is taken for another under one of its names is made two members of one set.
    #[test]
    fn all_names_of_a_file_are_that_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        fs::write(at("a"), "x").expect("written");
        fs::write(at("b"), "x").expect("written");
        fs::hard_link(at("a"), at("hard")).expect("linked");
        symlink("a", at("soft")).expect("linked");
        for name in ["a", "hard", "soft"] {
            assert!(same(&at("a"), &at(name)) && overlap(&at(name), &at("a")), "{name}");
            assert!(!same(&at("b"), &at(name)) && !overlap(&at(name), &at("b")), "{name}");
        }
        assert!(!same(&at("none"), &at("none")) && !overlap(&at("none"), &at("none")));
        let identity = Identity::of(&at("hard")).expect("it is there");
        assert_eq!(Identity::from_numbers(identity.numbers()), identity);
    }

    /// A disk of sysfs, with what is said of it.
    fn disk(root: &Path, place: &str, dev: &str, says: &[(&str, &str)]) -> u64 {
        let folder = root.join("devices").join(place);
        fs::create_dir_all(folder.join("loop")).expect("made");
        fs::create_dir_all(folder.join("slaves")).expect("made");
        fs::create_dir_all(root.join("dev/block")).expect("made");
        fs::write(folder.join("dev"), format!("{dev}\n")).expect("written");
        for (name, text) in says {
            fs::write(folder.join(name), format!("{text}\n")).expect("written");
        }
        symlink(&folder, root.join("dev/block").join(dev)).expect("linked");
        device_number(&folder.join("dev")).expect("two numbers")
    }

    /// A partition and its disk, a loop device and its file, a volume and its disk: each wrongly taken for strangers loses
    /// data; two partitions wrongly taken for one another make an honest call fail.
    #[test]
    fn what_shares_bytes_overlaps_and_only_that() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path();
        let file = root.join("file.img");
        fs::write(&file, "x").expect("written");
        let behind = file.to_str().expect("text");
        let sda = disk(root, "sda", "8:0", &[("size", "8192")]);
        let part = |place, dev, start, size| {
            disk(root, place, dev, &[("partition", "1"), ("start", start), ("size", size)])
        };
        let (one, two) =
            (part("sda/sda1", "8:1", "2048", "2048"), part("sda/sda2", "8:2", "4096", "2048"));
        let whole = disk(root, "loop0", "7:0", &[("loop/backing_file", behind)]);
        let half = disk(
            root,
            "loop1",
            "7:1",
            &[("loop/backing_file", behind), ("loop/offset", "1048576"), ("loop/sizelimit", "0")],
        );
        let first = disk(
            root,
            "loop2",
            "7:2",
            &[("loop/backing_file", behind), ("loop/offset", "0"), ("loop/sizelimit", "1048576")],
        );
        let (home, data) = (disk(root, "dm-0", "253:0", &[]), disk(root, "dm-1", "253:1", &[]));
        for volume in ["dm-0", "dm-1"] {
            let slave = root.join("devices").join(volume).join("slaves/sda1");
            symlink(root.join("devices/sda/sda1"), slave).expect("linked");
        }
        let sysfs = Sysfs { root: root.into() };
        let its_file = {
            let found = fs::metadata(&file).expect("there");
            Extent::all(Identity(found.dev(), found.ino()))
        };
        assert_eq!(sysfs.extent(whole, DEPTH_MAX), its_file);
        let stands = |a, b| sysfs.stands_on(a, &sysfs.reach_of_device(b));
        assert!(stands(home, one) && !stands(one, home) && !stands(home, two));
        assert!(!stands(home, data), "both stand on one disk");
        fs::create_dir(root.join("devices/dm-1/dm")).expect("made");
        fs::write(root.join("devices/dm-1/dm/uuid"), "LVM-x\n").expect("written");
        assert!(!stands(data, one), "a logical volume");
        let meet = |a, b| sysfs.reach_of_device(a).meets(&sysfs.reach_of_device(b));
        for (a, b) in
            [(sda, one), (sda, two), (whole, half), (whole, first), (home, one), (home, sda)]
        {
            assert!(meet(a, b) && meet(b, a), "{a} {b}");
        }
        for (a, b) in [(one, two), (half, first), (home, two), (home, data), (sda, whole)] {
            assert!(!meet(a, b) && !meet(b, a), "{a} {b}");
        }
    }

    /// What the kernel really says of a loop device. Needs root and a free one.
    #[test]
    fn a_loop_device_is_the_file_behind_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("disk.img");
        fs::File::create(&file).and_then(|file| file.set_len(1 << 20)).expect("made");
        let made = Command::new("losetup").args(["--find", "--show"]).arg(&file).output();
        let device = match made {
            Ok(made) if made.status.success() => {
                PathBuf::from(String::from_utf8_lossy(&made.stdout).trim())
            }
            _ => return eprintln!("skipped: no loop device can be had here"),
        };
        let (is_same, overlaps) = (same(&device, &file), overlap(&device, &file));
        let ended = Command::new("losetup").arg("--detach").arg(&device).status();
        assert!(is_same && overlaps);
        assert!(ended.is_ok_and(|status| status.success()));
        assert!(!overlap(&device, &file), "it shows nothing any more");
    }
}
