//! The disks' view: what each disk below a volume did.
//!
//! A simulated disk is seen by the `stats` filter on it. So is a file, but a file's reads may be answered
//! by the page cache, which a filter above it can't see; there the block device below the file system
//! is asked, by the kernel's counters (`Documentation/block/stat.rst`).

use lab::measure::{DiskSample, DiskView};
use rt::OpKind;
use rt::filter::stats::Stats;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use stdx::ByteCount;

/// The unit in which the kernel counts sectors, whatever the disk's are.
const KERNEL_SECTOR: u64 = 512;

/// A device with a `stats` filter on it.
pub struct FilterView {
    /// Its name in the report.
    pub name: String,
    /// The filter.
    pub stats: Rc<Stats>,
}

impl DiskView for FilterView {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn sample(&self) -> DiskSample {
        let counters = self.stats.counters();
        let (reads, writes) = (counters.of_kind(OpKind::Read), counters.of_kind(OpKind::Write));
        DiskSample {
            reads: reads.ios,
            read_bytes: reads.bytes.bytes(),
            writes: writes.ios,
            written_bytes: writes.bytes.bytes(),
            busy: counters.busy,
        }
    }
}

/// A block device of this host, as the kernel counts it.
pub struct KernelView {
    name: String,
    stat: PathBuf,
}

impl KernelView {
    /// The block device on which a file lies, or the block device itself. `None` where there is none:
    /// tmpfs, overlays, network file systems.
    pub fn of(path: &Path) -> Option<KernelView> {
        let metadata = std::fs::metadata(path).ok()?;
        let number = if metadata.rdev() != 0 { metadata.rdev() } else { metadata.dev() };
        let (major, minor) = (libc_major(number), libc_minor(number));
        let folder = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        let name = std::fs::canonicalize(&folder).ok()?.file_name()?.to_string_lossy().into_owned();
        let stat = folder.join("stat");
        read_stat(&stat)?;
        Some(KernelView { name, stat })
    }
}

/// The major number in a `dev_t` of Linux (glibc's `gnu_dev_major`).
fn libc_major(number: u64) -> u64 {
    (number >> 8) & 0xfff | (number >> 32) & !0xfff
}

/// The minor number.
fn libc_minor(number: u64) -> u64 {
    number & 0xff | (number >> 12) & !0xff
}

impl DiskView for KernelView {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn sample(&self) -> DiskSample {
        read_stat(&self.stat).unwrap_or_default()
    }
}

fn read_stat(path: &Path) -> Option<DiskSample> {
    let text = std::fs::read_to_string(path).ok()?;
    let fields: Vec<u64> = text.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    let field = |index: usize| fields.get(index).copied();
    Some(DiskSample {
        reads: field(0)?,
        read_bytes: ByteCount(field(2)?.checked_mul(KERNEL_SECTOR)?).bytes(),
        writes: field(4)?,
        written_bytes: ByteCount(field(6)?.checked_mul(KERNEL_SECTOR)?).bytes(),
        busy: Duration::from_millis(field(9)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_come_apart_as_glibc_takes_them_apart() {
        assert_eq!((libc_major(0x801), libc_minor(0x801)), (8, 1));
        assert_eq!((libc_major(0x1_0300), libc_minor(0x1_0300)), (259, 0));
        assert_eq!((libc_major(0x10_0801), libc_minor(0x10_0801)), (8, 257));
    }
}
