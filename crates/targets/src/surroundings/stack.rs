//! The block devices below: from a device number through partitions, volume managers and software RAID
//! down to the disks.
//!
//! `/sys/dev/block/MAJOR:MINOR` leads to a device's folder. A partition's lies inside its disk's; a
//! device made of others has them in `slaves`. What has neither is a disk.
//!
//! **Links.** A SATA disk's folder lies below that of its port (`ata3`), whose speed is in
//! `/sys/class/ata_link`; an NVMe disk's below that of its PCI function, which knows speed and width. The
//! line's speed is not what it can carry, so each is taken with what its packets cost.

use super::kernel::{Kernel, number};
use super::mounts::Mount;
use lab::pitfalls::{Grid, Link, LinkSpan, Partition};
use std::path::{Path, PathBuf};
use stdx::ByteCount;

/// The unit in which the kernel counts sectors, whatever the disk's are.
pub const KERNEL_SECTOR: u64 = 512;
/// Devices on devices, at the most: the kernel itself refuses bios that pass more layers than its stack
/// bears, and nobody builds ten.
const HEIGHT_MAX: usize = 16;
/// Disks that are looked at. More are in no one array.
const DISKS_MAX: usize = 1024;
/// The largest unit of alignment that is believed: stripes are some MiB; a bridge that has nothing to say
/// says 32 MiB less half a KiB.
const UNIT_MAX: u64 = 64 << 20;

/// What SATA carries of its line rate (after 8b/10b): frames of 8 KiB, and the primitives between them.
/// The fastest disks on 6 Gb/s, some 550 to 560 MB/s, show it.
const SATA_PAYLOAD: f64 = 0.92;
/// What PCI Express carries of its line rate (after encoding): packets of 256 B with headers, and
/// acknowledgements. 3.5 GB/s of the 3.94 of four lanes of 8 GT/s.
const PCIE_PAYLOAD: f64 = 0.89;
/// Links that differ by more than this are not one limit.
const SAME_LIMIT: f64 = 0.01;

/// A disk: what has nothing below it.
#[derive(Clone, Debug, PartialEq)]
pub struct Disk {
    /// As the kernel names what is used of it: `sda`, or `sda2` where that is a partition.
    pub name: String,
    /// The folder of what is used: the disk's, or the partition's.
    pub part: PathBuf,
    /// The disk's folder.
    pub folder: PathBuf,
    /// What the disk calls itself.
    pub model: Option<String>,
    /// Whether it says that it turns.
    pub rotational: Option<bool>,
    /// Whether its write cache forgets with the power.
    pub volatile_cache: Option<bool>,
    /// Whether a write can carry a flush.
    pub fua: Option<bool>,
}

/// All that lies below.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stack {
    /// The disks, each once, in the order in which they are found.
    pub disks: Vec<Disk>,
    /// The partitions on the way.
    pub partitions: Vec<Partition>,
}

impl Kernel {
    /// The device numbers below a file system: its own, or where it has none (btrfs) those of its
    /// devices.
    pub(super) fn numbers_below(&self, device: u64, mount: Option<&Mount>) -> Vec<u64> {
        if major(device) != 0 {
            return vec![device];
        }
        let Some(mount) = mount.filter(|mount| mount.kind == "btrfs") else { return Vec::new() };
        let Ok(source) = std::fs::canonicalize(&mount.source) else { return Vec::new() };
        let Some(name) = source.file_name() else { return Vec::new() };
        // Each mounted btrfs has a folder with links to its devices.
        let folders = list(&self.sys.join("fs/btrfs"));
        let devices = folders.iter().map(|folder| list(&folder.join("devices")));
        let of_it = |devices: &Vec<PathBuf>| devices.iter().any(|at| at.file_name() == Some(name));
        let devices = devices.into_iter().find(of_it).unwrap_or_default();
        devices.iter().filter_map(|device| number_of(&device.join("dev"))).collect()
    }

    /// What lies below these devices.
    pub(super) fn stack(&self, numbers: &[u64]) -> Stack {
        let mut stack = Stack::default();
        for number in numbers {
            let name = format!("{}:{}", major(*number), minor(*number));
            if let Ok(folder) = std::fs::canonicalize(self.sys.join("dev/block").join(name)) {
                descend(&folder, HEIGHT_MAX, &mut stack);
            }
        }
        stack
    }

    /// What each disk's link can carry, where all have the same.
    pub(super) fn link(&self, stack: &Stack) -> Option<Link> {
        let links: Option<Vec<Link>> =
            stack.disks.iter().map(|disk| self.sata(disk).or_else(|| pcie(disk))).collect();
        let links = links?;
        let first = *links.first()?;
        let same = |link: &Link| (link.limit_mb_s / first.limit_mb_s - 1.0).abs() < SAME_LIMIT;
        links.iter().all(same).then_some(first)
    }

    fn sata(&self, disk: &Disk) -> Option<Link> {
        let parts = disk.folder.components().map(|part| part.as_os_str().to_string_lossy());
        let port = parts.filter_map(|part| part.strip_prefix("ata")?.parse::<u32>().ok()).next()?;
        let file = self.sys.join(format!("class/ata_link/link{port}/sata_spd"));
        let text = std::fs::read_to_string(file).ok()?;
        let gbit: f64 = text.trim().strip_suffix("Gbps")?.trim().parse().ok()?;
        // 10 bits on the line for each byte; frames go one way at a time.
        link(gbit * 100.0 * SATA_PAYLOAD, false)
    }
}

/// The link of an NVMe disk.
fn pcie(disk: &Disk) -> Option<Link> {
    if !disk.folder.file_name()?.to_str()?.starts_with("nvme") {
        return None;
    }
    let function = disk.folder.ancestors().find(|at| at.join("current_link_speed").exists())?;
    let text = std::fs::read_to_string(function.join("current_link_speed")).ok()?;
    let gt: f64 = text.split_whitespace().next()?.parse().ok()?;
    let lanes = number(&function.join("current_link_width"))? as f64;
    // Up to 5 GT/s 8b/10b, above 128b/130b.
    let encoding = if gt <= 5.0 { 0.8 } else { 128.0 / 130.0 };
    link(gt * 1e3 / 8.0 * encoding * lanes * PCIE_PAYLOAD, true)
}

fn link(limit_mb_s: f64, full_duplex: bool) -> Option<Link> {
    let known = limit_mb_s.is_finite() && limit_mb_s > 0.0;
    known.then_some(Link { limit_mb_s, full_duplex, span: LinkSpan::EachDisk })
}

fn descend(part: &Path, height: usize, stack: &mut Stack) {
    let Some(name) = part.file_name().map(|name| name.to_string_lossy().into_owned()) else {
        return;
    };
    let mut folder = part;
    if part.join("partition").exists()
        && let Some(whole) = part.parent()
    {
        folder = whole;
        let partition = partition(&name, part, whole);
        if let Some(partition) = partition.filter(|found| !stack.partitions.contains(found)) {
            stack.partitions.push(partition);
        }
    }
    let below: Vec<PathBuf> = list(&folder.join("slaves"))
        .into_iter()
        .filter_map(|slave| std::fs::canonicalize(slave).ok())
        .collect();
    if below.is_empty() {
        if stack.disks.len() < DISKS_MAX && !stack.disks.iter().any(|disk| disk.part == part) {
            stack.disks.push(disk(name, part, folder));
        }
    } else if height > 0 {
        below.iter().for_each(|below| descend(below, height - 1, stack));
    }
}

fn disk(name: String, part: &Path, folder: &Path) -> Disk {
    let text = |file: &str| {
        let text = std::fs::read_to_string(folder.join(file)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let switch = |file: &str| text(file).and_then(|text| Some(text.parse::<u8>().ok()? != 0));
    Disk {
        part: part.to_owned(),
        folder: folder.to_owned(),
        model: text("device/model"),
        // Disks that a hypervisor makes up say that they turn, whatever they stand for.
        rotational: match ["vd", "xvd"].iter().any(|prefix| name.starts_with(prefix)) {
            true => None,
            false => switch("queue/rotational"),
        },
        volatile_cache: match text("queue/write_cache").as_deref() {
            Some("write back") => Some(true),
            Some("write through") => Some(false),
            _ => None,
        },
        fua: switch("queue/fua"),
        name,
    }
}

fn partition(name: &str, part: &Path, whole: &Path) -> Option<Partition> {
    let start = number(&part.join("start"))?.checked_mul(KERNEL_SECTOR)?;
    let queue = |file: &str| number(&whole.join("queue").join(file));
    let believed = |unit: &u64| (1..=UNIT_MAX).contains(unit);
    let physical = queue("physical_block_size").filter(believed)?;
    let mut grids = vec![(Grid::PhysicalBlock, ByteCount(physical))];
    // An array says its chunk and its row; a disk repeats its block, or says nothing or nonsense.
    let is_unit = |unit: &u64, of: u64| believed(unit) && *unit > of && unit.is_multiple_of(of);
    if let Some(chunk) = queue("minimum_io_size").filter(|chunk| is_unit(chunk, physical)) {
        grids.push((Grid::Chunk, ByteCount(chunk)));
        if let Some(row) = queue("optimal_io_size").filter(|row| is_unit(row, chunk)) {
            grids.push((Grid::Stripe, ByteCount(row)));
        }
    }
    // -1 where the disk itself is misaligned; then its blocks begin nowhere.
    let origin = number(&whole.join("alignment_offset")).unwrap_or(0);
    let (start, origin) = (ByteCount(start), ByteCount(origin));
    Some(Partition { name: name.to_owned(), start, origin, grids })
}

/// What a folder holds, in the order of the names; nothing where it is not there.
fn list(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().take(DISKS_MAX);
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

/// The device number in a file `dev`: `8:1`.
fn number_of(file: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    let (major, minor) = (u64::from(major), u64::from(minor));
    // glibc's gnu_dev_makedev.
    let low = (minor & 0xff) | (major & 0xfff) << 8;
    Some(low | (minor & !0xff) << 12 | (major & !0xfff) << 32)
}

/// The major number in a `dev_t` of Linux (glibc's `gnu_dev_major`).
fn major(number: u64) -> u64 {
    (number >> 8) & 0xfff | (number >> 32) & !0xfff
}

/// The minor number.
fn minor(number: u64) -> u64 {
    number & 0xff | (number >> 12) & !0xff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_come_apart_as_glibc_takes_them_apart() {
        assert_eq!((major(0x801), minor(0x801)), (8, 1));
        assert_eq!((major(0x1_0300), minor(0x1_0300)), (259, 0));
        assert_eq!((major(0x10_0801), minor(0x10_0801)), (8, 257));
    }

    #[test]
    fn a_device_number_is_put_together_as_it_comes_apart() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("dev");
        for (text, pair) in [("8:1\n", (8, 1)), ("259:0", (259, 0)), ("8:257", (8, 257))] {
            std::fs::write(&file, text).expect("written");
            let number = number_of(&file).expect("a number");
            assert_eq!((major(number), minor(number)), pair);
        }
        std::fs::write(&file, "8").expect("written");
        assert_eq!(number_of(&file), None);
    }
}
