//! Fixtures, unpacked into memory.

use rt::filter::Slice;
use rt::{Buf, Device, DeviceRef, MemoryDevice, Request};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use stdx::{ByteCount, Offset};

/// Bytes of an image that are kept or left out together, where they are zeros.
const PART_BYTES: usize = 1 << 16;

/// A disk of a fixture.
pub struct Image {
    /// The whole disk, to be spoilt.
    pub disk: Rc<MemoryDevice>,
    /// Where the vdev begins on it, in bytes.
    pub start: u64,
    /// The vdev: the disk, or its first partition.
    pub device: DeviceRef,
}

/// The folder of the fixtures; nothing, said aloud, where it or the tools are missing.
pub fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/zfs");
    if !folder.is_dir() {
        println!("skipped: {} is not there", folder.display());
        return None;
    }
    let tools =
        ["zstd", "tar"].iter().all(|tool| Command::new(tool).arg("--version").output().is_ok());
    if !tools {
        println!("skipped: zstd and tar are needed to unpack fixtures");
        return None;
    }
    Some(folder)
}

/// The names of all fixtures.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder is read");
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter_map(|name| Some(name.strip_suffix(".tar.zst")?.to_owned())).collect();
    names.sort();
    assert!(!names.is_empty(), "there are fixtures");
    names
}

/// The bytes of a fixture's disks.
pub fn unpack(folder: &Path, name: &str) -> Vec<Vec<u8>> {
    let target = tempfile::tempdir().expect("a folder");
    let script = format!(
        "zstd -dcq --long=27 '{}' | tar -x -S -C '{}'",
        folder.join(format!("{name}.tar.zst")).display(),
        target.path().display()
    );
    let status = Command::new("sh").args(["-c", &script]).status().expect("sh runs");
    assert!(status.success(), "{name} unpacks");
    let disks = (0..).map(|n| target.path().join(format!("disk{n}.raw")));
    let disks = disks.take_while(|path| path.exists());
    disks.map(|path| std::fs::read(path).expect("an image is read")).collect()
}

/// Devices that hold these bytes.
pub fn images(disks: &[Vec<u8>]) -> Vec<Image> {
    disks.iter().enumerate().map(|(number, bytes)| image(number, bytes)).collect()
}

fn image(number: usize, bytes: &[u8]) -> Image {
    let disk = MemoryDevice::new(&format!("disk{number}"), ByteCount(bytes.len() as u64));
    let zeros = vec![0; PART_BYTES];
    for (n, part) in bytes.chunks(PART_BYTES).enumerate() {
        if part != &zeros[..part.len()] {
            disk.poke(Offset((n * PART_BYTES) as u64), &Buf::copy_of(part).into());
        }
    }
    let whole: DeviceRef = Rc::clone(&disk) as DeviceRef;
    // ZFS's own partitioning of a whole disk: the first GPT partition is the vdev.
    if bytes[512..520] != *b"EFI PART" {
        return Image { disk, start: 0, device: whole };
    }
    let block = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let (first, last) = (block(1024 + 32), block(1024 + 40));
    let (start, len) = (Offset(first * 512), ByteCount((last + 1 - first) * 512));
    assert!(Request::read(start, len).check(&*disk).is_ok(), "the partition lies on the disk");
    let device: DeviceRef = Slice::new(Rc::clone(&disk) as Rc<dyn Device>, start, len);
    Image { disk, start: start.bytes(), device }
}
