//! What this host tells of itself and of the storage below a path: the facts by which the lab finds
//! pitfalls. (What a simulated machine is known to be: [`modelled`].)
//!
//! The path is a directory or a file on a mounted file system, or a block device. From it:
//!
//! 1. `mounts`: which file system it lies on, with which options;
//! 2. [`stack`]: which block devices lie below that, through partitions, volume managers and software
//!    RAID down to the disks, as `/sys` has them;
//! 3. from the disks: physical blocks, write caches, whether they turn, what their links can carry; from
//!    partitions: where they begin.
//!
//! **Rather nothing than a guess.** A network file system, a pool of ZFS or files in memory have no block
//! devices that could be asked, and nothing is said of theirs. In a virtual machine a disk says that it
//! turns when it does not, so there nothing is said of that. A file system over the network says what it
//! likes for its block size, so a record is believed of local ones only.
//!
//! Sources: `Documentation/block/stat.rst`, `Documentation/ABI/stable/sysfs-block`, `proc(5)` and
//! `proc_pid_mountinfo(5)`. All of it is Linux; elsewhere the files are missing, and so are the facts.

pub mod counters;
mod kernel;
pub mod modelled;
mod mounts;
pub mod stack;

use super::views::KernelView;
use host::{HostRuntime, HostTree, ReactorKind};
use kernel::{Kernel, number};
use lab::pitfalls::{FlushFacts, Surroundings};
use mounts::Mount;
use rt::FileTree;
use stack::{Disk, Stack};
use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use stdx::ByteCount;

/// File systems of this host whose `st_blksize` is the unit that they read and write whole: the page or
/// block through which buffered I/O goes, ZFS's record.
const WITH_BLOCKS: [&str; 7] = ["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "jfs"];
const ZFS: &str = "zfs";

/// The largest record that is believed; ZFS's largest is 16 MiB.
const RECORD_MAX: ByteCount = ByteCount::mib(16);
/// Files that are looked at, and folders in folders, to find a data set's record by its files: enough
/// to meet a large one of a tool's, and no walk through a home directory.
const FILES_MAX: usize = 256;
const FOLDERS_DEEP: usize = 3;

/// What is known of the storage below a path.
pub struct HostFacts {
    /// For [`lab::pitfalls::find`]; what is written is left for the caller to say.
    pub surroundings: Surroundings,
    /// The disks below, as the kernel counts them; empty where there are none to be seen.
    pub disks: Vec<KernelView>,
    /// For the report's account of the machine.
    pub lines: BTreeMap<String, String>,
}

impl HostFacts {
    /// What is known of the storage below a directory, a file or a block device. `buffered` says whether
    /// its I/O goes through the page cache. To be asked when the run's files are in place: they take
    /// space.
    pub fn of(path: &Path, buffered: bool) -> HostFacts {
        Kernel::this().facts(&[path], buffered)
    }

    /// The same of several files or block devices that make one volume. The file system is that of the
    /// first.
    pub fn of_all(paths: &[PathBuf], buffered: bool) -> HostFacts {
        let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        Kernel::this().facts(&paths, buffered)
    }
}

impl Kernel {
    fn facts(&self, paths: &[&Path], buffered: bool) -> HostFacts {
        let mut numbers: Vec<u64> = Vec::new();
        let mut mount = None;
        let mut on_files = None;
        for path in paths {
            let Ok(found) = std::fs::metadata(path) else { continue };
            if found.file_type().is_block_device() {
                numbers.push(found.rdev());
                continue;
            }
            let its_mount = self.mount_of(path);
            numbers.extend(self.numbers_below(found.dev(), its_mount.as_ref()));
            if on_files.is_none() {
                (on_files, mount) = (Some(*path), its_mount);
            }
        }
        let stack = self.stack(&numbers);
        let kind = mount.as_ref().map(|mount| mount.kind.as_str());
        let surroundings = Surroundings {
            disk_caches: None,
            cores: std::thread::available_parallelism()
                .ok()
                .and_then(|cores| u32::try_from(cores.get()).ok()),
            memory: self.memory(),
            buffered: Some(buffered),
            content: None,
            partitions: stack.partitions.clone(),
            record: on_files.and_then(|path| record(kind, path, buffered)),
            ssds: None,
            stripe: None,
            write_back: None,
            link: self.link(&stack),
            flush: self.flush_facts(&stack, mount.as_ref()),
            space: on_files.and_then(space),
        };
        let mut lines = BTreeMap::new();
        if let Some(mount) = &mount {
            let options = mount.options.join(",");
            let on = format!("{} on {}", mount.kind, mount.source);
            lines.insert(
                "file system".to_owned(),
                format!("{on}, mounted at {} ({options})", mount.point.display()),
            );
        }
        if !stack.disks.is_empty() {
            let disks: Vec<String> = stack.disks.iter().map(|disk| self.disk_line(disk)).collect();
            lines.insert("disks below".to_owned(), disks.join(", "));
        }
        let disks = stack.disks.iter().filter_map(KernelView::of_disk).collect();
        HostFacts { surroundings, disks, lines }
    }

    /// Memory that can hold pages of files: the host's, or what a control group leaves of it.
    fn memory(&self) -> Option<ByteCount> {
        let text = std::fs::read_to_string(self.proc.join("meminfo")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        let all = kib.checked_mul(1024)?;
        let limits = ["fs/cgroup/memory.max", "fs/cgroup/memory/memory.limit_in_bytes"];
        // "max" is no number, and no limit.
        let limits = limits.iter().filter_map(|file| number(&self.sys.join(file)));
        Some(ByteCount(limits.fold(all, u64::min)))
    }

    fn flush_facts(&self, stack: &Stack, mount: Option<&Mount>) -> FlushFacts {
        let has =
            |option: &str| mount.is_some_and(|mount| mount.options.iter().any(|o| o == option));
        let all = |of: fn(&Disk) -> Option<bool>| -> Option<Vec<bool>> {
            let seen: Option<Vec<bool>> = stack.disks.iter().map(of).collect();
            seen.filter(|seen| !seen.is_empty())
        };
        FlushFacts {
            // The file system was told not to pass any on.
            honoured: (has("nobarrier") || has("barrier=0")).then_some(false),
            volatile_cache: all(|disk| disk.volatile_cache).map(|seen| seen.contains(&true)),
            rotational: all(|disk| disk.rotational)
                .map(|seen| !seen.contains(&false))
                .filter(|turn| !turn || !self.is_virtual_machine()),
            fua: all(|disk| disk.fua).map(|seen| seen.contains(&true)),
        }
    }

    /// Whether a hypervisor says that it is there (x86; elsewhere the kernel has no one place for it,
    /// and disks of virtual machines are known by their names).
    fn is_virtual_machine(&self) -> bool {
        let text = std::fs::read_to_string(self.proc.join("cpuinfo")).unwrap_or_default();
        let flags = text.lines().find(|line| line.starts_with("flags"));
        flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
    }

    fn disk_line(&self, disk: &Disk) -> String {
        let cache = match disk.volatile_cache {
            Some(true) => ", volatile write cache",
            Some(false) => ", no volatile write cache",
            None => "",
        };
        match &disk.model {
            Some(model) => format!("{} ({model}{cache})", disk.name),
            None if cache.is_empty() => disk.name.clone(),
            None => format!("{} ({})", disk.name, cache.trim_start_matches(", ")),
        }
    }
}

/// The unit that the storage reads and writes whole. A direct I/O on a file system with blocks goes past
/// its pages; ZFS's record is a record either way, and stands with the files.
fn record(kind: Option<&str>, path: &Path, buffered: bool) -> Option<ByteCount> {
    let block = match kind? {
        ZFS => largest_block(path, FOLDERS_DEEP, &mut FILES_MAX.clone()),
        kind if buffered && WITH_BLOCKS.contains(&kind) => {
            std::fs::metadata(path).ok().map(|found| found.blksize())
        }
        _ => None,
    };
    let block = ByteCount(block?);
    (block > ByteCount::ZERO && block <= RECORD_MAX).then_some(block)
}

/// The largest block of a file, or of the files in a directory: small files have small records.
fn largest_block(path: &Path, deep: usize, files_left: &mut usize) -> Option<u64> {
    let found = std::fs::symlink_metadata(path).ok()?;
    *files_left = files_left.checked_sub(1)?;
    if found.is_file() {
        return Some(found.blksize());
    }
    if !found.is_dir() || deep == 0 {
        return None;
    }
    let entries = std::fs::read_dir(path).ok()?.take(FILES_MAX);
    let blocks =
        entries.filter_map(|entry| largest_block(&entry.ok()?.path(), deep - 1, files_left));
    blocks.max()
}

/// Free space and all of it, of the file system on which a file or directory lies.
fn space(path: &Path) -> Option<(ByteCount, ByteCount)> {
    let directory = if path.is_dir() { path } else { path.parent()? };
    let directory = match directory.as_os_str().is_empty() {
        true => Path::new("."),
        false => directory,
    };
    let runtime = HostRuntime::new(ReactorKind::Blocking).ok()?;
    let tree = HostTree::open(&runtime.host(), directory).ok()?;
    let space = runtime.runtime().block_on(async move { tree.space().await }).ok()?.ok()?;
    Some((space.free, space.total))
}

#[cfg(test)]
mod tests;
