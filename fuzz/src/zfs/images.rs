//! Fixtures as disks in memory: pools that the real OpenZFS made, of one disk each.
//!
//! They are no part of the project (a pool has megabytes). They lie in `SPINDLE_FIXTURES`, or beside the project in
//! `../shared/fixtures`, as `zfs/NAME.tar.zst`; zstd and tar unpack them. Without them the targets that need a pool say so
//! and do nothing.

use rt::{Buf, MemoryDevice};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use stdx::{ByteCount, Offset};

/// Small pools of one disk, which between them have each kind of object.
pub const POOLS: [&str; 12] = [
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
];

/// Bytes that are kept or left out as one: zeros take no memory.
const PIECE: usize = 16 << 10;

/// A disk's bytes.
pub struct Image {
    /// How long it is.
    pub capacity: u64,
    /// What is not zero.
    pieces: Vec<(u64, Buf)>,
}

impl Image {
    /// A disk of its own with these bytes.
    pub fn disk(&self) -> Rc<MemoryDevice> {
        let disk = MemoryDevice::new("disk0", ByteCount(self.capacity));
        for (at, bytes) in &self.pieces {
            disk.poke(Offset(*at), &bytes.clone().into());
        }
        disk
    }

    /// The longest stretch of zeros.
    pub fn gap(&self) -> std::ops::Range<u64> {
        let (mut best, mut end) = (0..0, 0);
        for (at, bytes) in &self.pieces {
            if at - end > best.end - best.start {
                best = end..*at;
            }
            end = at + bytes.len() as u64;
        }
        best
    }
}

/// The folder of the fixtures.
#[allow(
    clippy::disallowed_methods,
    reason = "fuzz targets are started by hand, and take their folder so"
)]
pub fn folder() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/fixtures");
    let folder = std::env::var_os("SPINDLE_FIXTURES").map_or(beside, PathBuf::from);
    folder.join("zfs").is_dir().then_some(folder)
}

/// The first disk of a pool; of a disk with partitions the first partition, as ZFS lays out whole disks.
#[allow(clippy::disallowed_methods, reason = "the fixtures are unpacked by zstd and tar")]
fn unpack(folder: &Path, name: &str) -> Option<Image> {
    let target = tempfile::tempdir().ok()?;
    let script = format!(
        "zstd -dcq --long=27 '{}' | tar -x -S -C '{}' disk0.raw",
        folder.join("zfs").join(format!("{name}.tar.zst")).display(),
        target.path().display()
    );
    let status = Command::new("sh").args(["-c", &script]).status().ok()?;
    let mut bytes =
        std::fs::read(target.path().join("disk0.raw")).ok().filter(|_| status.success())?;
    if bytes.get(512..520) == Some(b"EFI PART") {
        let block =
            |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("a whole disk"));
        let (first, last) = (block(1024 + 32) as usize, block(1024 + 40) as usize);
        bytes = bytes[first * 512..(last + 1) * 512].to_vec();
    }
    let pieces = bytes.chunks(PIECE).enumerate();
    let pieces = pieces
        .filter(|(_, piece)| piece.iter().any(|byte| *byte != 0))
        .map(|(n, piece)| ((n * PIECE) as u64, Buf::copy_of(piece)))
        .collect();
    Some(Image { capacity: bytes.len() as u64, pieces })
}

thread_local! {
    static UNPACKED: RefCell<BTreeMap<usize, Option<Rc<Image>>>> = const { RefCell::new(BTreeMap::new()) };
}

/// A pool by its number in [`POOLS`], unpacked once; nothing, said aloud once, where the fixtures are not there.
pub fn pool(number: usize) -> Option<Rc<Image>> {
    let number = number % POOLS.len();
    UNPACKED.with_borrow_mut(|unpacked| {
        let image = unpacked.entry(number).or_insert_with(|| {
            let image = folder().and_then(|folder| unpack(&folder, POOLS[number]));
            if image.is_none() {
                println!(
                    "skipped: no fixture {}; SPINDLE_FIXTURES names their folder",
                    POOLS[number]
                );
            }
            image.map(Rc::new)
        });
        image.clone()
    })
}
