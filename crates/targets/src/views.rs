//! The disks' view: what each disk below a volume did.
//!
//! A simulated disk is seen by the `stats` filter on it. So is a file, but a file's reads may be answered
//! by the page cache, which a filter above it can't see; there the block device below the file system
//! is asked, by the kernel's counters (`Documentation/block/stat.rst`).

use super::surroundings::stack::{Disk, KERNEL_SECTOR};
use lab::measure::{DiskSample, DiskView, FlushSample};
use rt::OpKind;
use rt::filter::stats::Stats;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use stdx::Instant;

/// A device with a `stats` filter on it.
pub struct FilterView {
    /// Its name in the report.
    pub name: String,
    /// The filter.
    pub stats: Rc<Stats>,
    /// The simulated drive itself, which knows when it works.
    pub drive: Option<sim::Drive>,
}

impl DiskView for FilterView {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn sample(&self) -> DiskSample {
        let counters = self.stats.counters();
        let (reads, writes) = (counters.of_kind(OpKind::Read), counters.of_kind(OpKind::Write));
        let flushes = counters.of_kind(OpKind::Flush);
        let drive = self.drive.as_ref();
        DiskSample {
            reads: reads.ios,
            read_bytes: reads.bytes.bytes(),
            writes: writes.ios,
            written_bytes: writes.bytes.bytes(),
            flushes: Some(FlushSample { ios: flushes.ios, time: flushes.latency_sum }),
            busy: counters.busy,
            at_work: drive.and_then(sim::Drive::at_work).unwrap_or_default(),
            reads_from_cache: drive.and_then(sim::Drive::answered_from_buffer),
            unwritten: drive.and_then(sim::Drive::unwritten).unwrap_or_default().bytes(),
            keeps_up: drive.and_then(sim::Drive::keeps_up).unwrap_or_default(),
        }
    }

    fn written_out(&self) -> Option<Instant> {
        self.drive.as_ref().and_then(sim::Drive::written_out)
    }
}

/// A block device of this host, as the kernel counts it.
pub struct KernelView {
    name: String,
    /// The counters of the device: of a partition its own.
    stat: PathBuf,
    /// The counters of the disk that it is on. Flushes are counted there: they are the whole disk's.
    disk_stat: PathBuf,
}

impl KernelView {
    /// A disk, or the part that is used of it.
    /// `None` where the kernel does not count it.
    pub fn of_disk(disk: &Disk) -> Option<KernelView> {
        let (stat, disk_stat) = (disk.part.join("stat"), disk.folder.join("stat"));
        read_stat(&stat)?;
        Some(KernelView { name: disk.name.clone(), stat, disk_stat })
    }
}

impl DiskView for KernelView {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn sample(&self) -> DiskSample {
        let sample = read_stat(&self.stat).unwrap_or_default();
        if self.stat == self.disk_stat {
            return sample;
        }
        let flushes = read_stat(&self.disk_stat).and_then(|disk| disk.flushes);
        DiskSample { flushes, ..sample }
    }
}

fn read_stat(path: &Path) -> Option<DiskSample> {
    parse_stat(&std::fs::read_to_string(path).ok()?)
}

/// The counters of a `stat` file. Kernels before 5.5 did not count flushes.
fn parse_stat(text: &str) -> Option<DiskSample> {
    let fields: Vec<u64> = text.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    let field = |index: usize| fields.get(index).copied();
    let flushes = field(15)
        .zip(field(16))
        .map(|(ios, time_ms)| FlushSample { ios, time: Duration::from_millis(time_ms) });
    Some(DiskSample {
        reads: field(0)?,
        read_bytes: field(2)?.checked_mul(KERNEL_SECTOR)?,
        writes: field(4)?,
        written_bytes: field(6)?.checked_mul(KERNEL_SECTOR)?,
        flushes,
        busy: Duration::from_millis(field(9)?),
        at_work: Duration::ZERO,
        reads_from_cache: None,
        unwritten: 0,
        keeps_up: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_file_is_read_as_the_kernel_documents_it() {
        let text = "  10 0 80 5 20 0 160 9 0 30 14 2 0 8 1 7 40\n";
        let sample = parse_stat(text).expect("seventeen fields");
        assert_eq!((sample.reads, sample.read_bytes), (10, 80 * 512));
        assert_eq!((sample.writes, sample.written_bytes), (20, 160 * 512));
        assert_eq!(sample.busy, Duration::from_millis(30));
        let flushes = FlushSample { ios: 7, time: Duration::from_millis(40) };
        assert_eq!(sample.flushes, Some(flushes));
        let old = parse_stat("10 0 80 5 20 0 160 9 0 30 14").expect("eleven fields of old kernels");
        assert_eq!(old.flushes, None);
        assert_eq!(parse_stat("10 0 80"), None);
    }
}
