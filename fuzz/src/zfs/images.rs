//! Fixtures as disks in memory: pools that the real OpenZFS made, of one disk each.
//!
//! They are no part of the project (a pool has megabytes). They lie in `SPINDLE_FIXTURES`, or beside the project in
//! `../shared/fixtures`, as `zfs/NAME.tar.zst`; zstd and tar unpack them. Without them the targets that need a pool say so
//! and do nothing.

use fixtures::{Disk, disks, folder};
use rt::MemoryDevice;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

/// Small pools of one disk, which between them have each kind of object.
pub const POOLS: [&str; 13] = [
    "names-quotas",
    "version28",
    "zil",
    "checkpoint",
    "dedup-bclone",
    "xattr-acl",
    "snapshots-clones",
    "all-features",
    "volumes",
    "bigdir",
    "recordsize",
    "streams",
    // Two others were removed.
    "removed-vdev",
];

/// A disk's bytes.
pub struct Image(Disk);

impl Image {
    /// How long it is.
    pub fn capacity(&self) -> u64 {
        self.0.bytes
    }

    /// A disk of its own with these bytes.
    pub fn disk(&self) -> Rc<MemoryDevice> {
        self.0.device()
    }

    /// The longest stretch of zeros.
    pub fn gap(&self) -> std::ops::Range<u64> {
        let (mut best, mut end) = (0..0, 0);
        for (at, bytes) in self.0.parts() {
            if at - end > best.end - best.start {
                best = end..at;
            }
            end = at + bytes.len() as u64;
        }
        best
    }
}

/// The last disk of a pool, for those before it were removed; of a disk with partitions the first partition, as ZFS lays out whole
/// disks.
fn unpack(folder: &Path, name: &str) -> Image {
    let disk = disks(folder, name).pop().expect("a fixture has disks");
    Image(disk.first_partition())
}

thread_local! {
    static UNPACKED: RefCell<BTreeMap<usize, Option<Rc<Image>>>> = const { RefCell::new(BTreeMap::new()) };
}

/// A pool by its number in [`POOLS`], unpacked once; nothing, said aloud once, where the fixtures are not there.
pub fn pool(number: usize) -> Option<Rc<Image>> {
    let number = number % POOLS.len();
    UNPACKED.with_borrow_mut(|unpacked| {
        let image = unpacked
            .entry(number)
            .or_insert_with(|| folder("zfs").map(|folder| Rc::new(unpack(&folder, POOLS[number]))));
        image.clone()
    })
}
