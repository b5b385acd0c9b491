//! What the cases share: how a pool is made, in which order its volume is written, and what the user asked for.

use std::path::{Path, PathBuf};
use std::process::Command;

pub(super) const USAGE: &str = "usage: bench zfs-write [--dir DIR] [--mib N] [--runs N] [--only CASE] [--files yes|no] [--zfs-fuse DIR]   (DIR on tmpfs; default /dev/shm)";
/// The pool that everyone makes.
pub(super) const POOL: &str = "spindlebench";
pub(super) const MIB: u64 = 1 << 20;
/// Writes that are waited for, in a round.
const DURABLE_COUNT: u64 = 4000;

/// How a pool is made, and its volume.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    pub(super) word: &'static str,
    pub(super) parity: u64,
    pub(super) disks: u64,
    pub(super) block_bytes: u64,
    pub(super) lz4: bool,
}

impl Layout {
    pub(super) const MIRROR: Layout =
        Layout { word: "mirror", parity: 0, disks: 2, block_bytes: 128 << 10, lz4: false };
    pub(super) const WIDE: Layout =
        Layout { word: "raidz2", parity: 2, disks: 10, ..Layout::MIRROR };

    pub(super) fn of_small_blocks(word: &'static str, parity: u64, disks: u64) -> Layout {
        Layout { word, parity, disks, block_bytes: 8 << 10, lz4: false }
    }
}

/// In which order blocks are written, and who waits for what.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Stream,
    Scattered,
    Durable,
}

impl Order {
    pub(super) fn word(self) -> &'static str {
        match self {
            Order::Stream => "stream",
            Order::Scattered => "scattered",
            Order::Durable => "durable",
        }
    }

    /// How many blocks are written: the volume once, or as many as its blocks.
    pub(super) fn count(self, layout: &Layout, mib: u64) -> u64 {
        match self {
            Order::Durable => DURABLE_COUNT,
            _ => mib * MIB / layout.block_bytes,
        }
    }
}

/// What is asked for.
pub(super) struct Options {
    pub(super) dir: PathBuf,
    pub(super) mib: u64,
    pub(super) runs: usize,
    pub(super) only: Option<String>,
    pub(super) files: bool,
    pub(super) fuse: Option<PathBuf>,
}

impl Options {
    pub(super) fn of(args: &[String]) -> Result<Options, String> {
        let mut options = Options {
            dir: PathBuf::from("/dev/shm"),
            mib: 512,
            runs: 5,
            only: None,
            files: false,
            fuse: None,
        };
        let mut args = args.iter();
        while let Some(flag) = args.next() {
            let value = args.next().ok_or(USAGE)?;
            match flag.as_str() {
                "--dir" => options.dir = value.into(),
                "--mib" => options.mib = value.parse().map_err(|_| USAGE)?,
                "--runs" => options.runs = value.parse().map_err(|_| USAGE)?,
                "--only" => options.only = Some(value.clone()),
                "--files" => options.files = value == "yes",
                "--zfs-fuse" => options.fuse = Some(value.into()),
                _ => return Err(USAGE.into()),
            }
        }
        if options.mib == 0 || options.runs == 0 { Err(USAGE.into()) } else { Ok(options) }
    }

    pub(super) fn wants(&self, case: &str) -> bool {
        self.only.as_ref().is_none_or(|only| case.starts_with(only.as_str()))
    }
}

/// What all cases need.
pub(super) struct Bench<'a> {
    pub(super) spindle: PathBuf,
    pub(super) scratch: &'a Path,
    pub(super) options: &'a Options,
}

impl Bench<'_> {
    /// Bytes of a disk: each holds the whole volume twice, since what is overwritten is free three groups later.
    pub(super) fn disk_mib(&self) -> u64 {
        2 * self.options.mib + 512
    }

    /// Makes a pool of ours with its volume on new files.
    pub(super) fn make_anew(&self, layout: &Layout) -> Result<PathBuf, String> {
        // Nothing is there the first time.
        let _ = std::fs::remove_dir_all(self.scratch.join("ours"));
        self.make(layout)
    }

    /// Makes a pool of ours with its volume. Files of the last one of this layout are written over, so that they have their
    /// memory already, as a disk has its sectors.
    pub(super) fn make(&self, layout: &Layout) -> Result<PathBuf, String> {
        let all = self.scratch.join("ours");
        let folder = all.join(format!("{}-{}", layout.word, layout.disks));
        if !folder.exists() {
            // Nothing is there the first time.
            let _ = std::fs::remove_dir_all(&all);
            std::fs::create_dir_all(&folder)
                .map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let mut disks = Vec::new();
        for n in 0..layout.disks {
            let path = folder.join(format!("disk{n}.raw"));
            let mut options = std::fs::File::options();
            let file = options.write(true).create(true).truncate(false).open(&path);
            let made = file.and_then(|file| file.set_len(self.disk_mib() * MIB));
            made.map_err(|error| format!("{}: {error}", path.display()))?;
            disks.push(path.display().to_string());
        }
        let mut create = vec!["zpool", "create", "-f", POOL, layout.word];
        create.extend(disks.iter().map(String::as_str));
        self.spindle(&create)?;
        let compression = if layout.lz4 { "compression=lz4" } else { "compression=off" };
        let (size, block) = (format!("{}M", self.options.mib), layout.block_bytes.to_string());
        let place = folder.display().to_string();
        let volume = format!("{POOL}/v");
        self.spindle(&[
            "-d",
            &place,
            "zfs",
            "create",
            "-s",
            "-V",
            &size,
            "-b",
            &block,
            "-o",
            compression,
            &volume,
        ])?;
        Ok(folder)
    }

    pub(super) fn spindle(&self, arguments: &[&str]) -> Result<(), String> {
        command(&self.spindle, arguments)
    }
}

/// Runs a program to its end.
pub(super) fn command(program: &Path, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(format!("{} {}: {}", program.display(), arguments.join(" "), text.trim_end()))
}
