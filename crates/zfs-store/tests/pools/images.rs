//! Fixtures, unpacked into memory.
//!
//! They are tar archives of sparse images, packed by zstd. Of each image only the parts that are not holes are read
//! and kept, in GNU tar's old form of sparse files: in the header places for 4 parts (offset and length, 12 octal
//! digits each, from byte 386 on), a mark whether blocks with places for 21 more follow (byte 482; in those 504),
//! and the image's whole length (483).

use rt::filter::Slice;
use rt::{Buf, Device, DeviceRef, MemoryDevice, Request};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use stdx::{ByteCount, Offset};

/// Bytes of a block of an archive.
const BLOCK: usize = 512;

/// Bytes of an image that are kept or left out together, where they are zeros.
const PART_BYTES: usize = 1 << 16;

/// A disk of a fixture, to be made a device as often as it is needed.
pub struct Disk {
    bytes: u64,
    parts: Vec<(u64, Vec<u8>)>,
}

impl Disk {
    /// The disk of an image that is not packed.
    pub fn of_file(path: &Path) -> Disk {
        let mut file = std::fs::File::open(path).expect("an image");
        let bytes = file.metadata().expect("it has a length").len();
        let zeros = vec![0; PART_BYTES];
        let mut parts = Vec::new();
        for at in (0..bytes).step_by(PART_BYTES) {
            let part = read(&mut file, PART_BYTES.min((bytes - at) as usize));
            if part != zeros[..part.len()] {
                parts.push((at, part));
            }
        }
        Disk { bytes, parts }
    }
}

/// A disk of a fixture as a device.
pub struct Image {
    /// The whole disk, to be spoilt.
    pub disk: Rc<MemoryDevice>,
    /// Where the vdev begins on it, in bytes.
    pub start: u64,
    /// The vdev: the disk, or its first partition.
    pub device: DeviceRef,
}

/// The folder of the fixtures; nothing, said aloud, where it is missing.
pub fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/zfs");
    if !folder.is_dir() {
        println!("skipped: {} is not there", folder.display());
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

/// The disks of a fixture.
pub fn unpack(folder: &Path, name: &str) -> Vec<Disk> {
    let file = std::fs::File::open(folder.join(format!("{name}.tar.zst"))).expect("a fixture");
    let mut archive = zstd::Decoder::new(file).expect("zstd");
    let mut disks = Vec::new();
    loop {
        let header = read(&mut archive, BLOCK);
        if header[0] == 0 {
            return disks;
        }
        assert!(header.starts_with(format!("disk{}.raw\0", disks.len()).as_bytes()), "{name}");
        disks.push(disk(&header, &mut archive));
    }
}

fn disk(header: &[u8], archive: &mut impl Read) -> Disk {
    let stored = octal(&header[124..136]) as usize;
    if header[156] != b'S' {
        let bytes = read(archive, stored.next_multiple_of(BLOCK));
        return Disk { bytes: stored as u64, parts: vec![(0, bytes[..stored].to_vec())] };
    }
    let mut places = places(&header[386..482]);
    let mut more = header[482] != 0;
    while more {
        let block = read(archive, BLOCK);
        places.extend(self::places(&block[..504]));
        more = block[504] != 0;
    }
    let part = |(at, len): (u64, usize)| (at, read(archive, len));
    let parts: Vec<_> = places.into_iter().map(part).collect();
    read(archive, stored.next_multiple_of(BLOCK) - stored);
    Disk { bytes: octal(&header[483..495]), parts }
}

fn places(list: &[u8]) -> Vec<(u64, usize)> {
    let places = list.chunks_exact(24).filter(|place| place[0] != 0);
    places.map(|place| (octal(&place[..12]), octal(&place[12..]) as usize)).collect()
}

fn octal(digits: &[u8]) -> u64 {
    let digits = digits.iter().filter(|digit| digit.is_ascii_digit());
    digits.fold(0, |number, digit| number << 3 | u64::from(digit - b'0'))
}

fn read(archive: &mut impl Read, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    archive.read_exact(&mut bytes).expect("the archive is whole");
    bytes
}

/// Devices that hold these disks' bytes.
pub fn images(disks: &[Disk]) -> Vec<Image> {
    disks.iter().enumerate().map(|(number, disk)| image(number, disk)).collect()
}

fn image(number: usize, from: &Disk) -> Image {
    let disk = MemoryDevice::new(&format!("disk{number}"), ByteCount(from.bytes));
    for (at, bytes) in from.parts.iter().filter(|(_, bytes)| !bytes.is_empty()) {
        disk.poke(Offset(*at), &Buf::copy_of(bytes).into());
    }
    let whole: DeviceRef = Rc::clone(&disk) as DeviceRef;
    // ZFS's own partitioning of a whole disk: the first GPT partition is the vdev.
    let table = disk.peek(Offset(0), ByteCount(2048)).to_vec();
    if table[512..520] != *b"EFI PART" {
        return Image { disk, start: 0, device: whole };
    }
    let block = |at: usize| u64::from_le_bytes(table[at..at + 8].try_into().expect("8 bytes"));
    let (first, last) = (block(1024 + 32), block(1024 + 40));
    let (start, len) = (Offset(first * 512), ByteCount((last + 1 - first) * 512));
    assert!(Request::read(start, len).check(&*disk).is_ok(), "the partition lies on the disk");
    let device: DeviceRef = Slice::new(Rc::clone(&disk) as Rc<dyn Device>, start, len);
    Image { disk, start: start.bytes(), device }
}
