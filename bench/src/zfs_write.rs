//! `bench zfs-write`: writing to pools of image files in memory (tmpfs), by processor time an operation.
//!
//! | case | what is written | goal |
//! |---|---|---|
//! | `stream-128k-mirror` | blocks of 128 KiB of a volume in order, compression off, mirror of two | 60 µs |
//! | `stream-128k-raidz2` | the same on a raidz2 of ten | 70 µs |
//! | `scattered-8k-…` | blocks of 8 KiB here and there; mirror of two, raidz1 of four, raidz2 of six | 20 µs |
//! | `durable-8k` | the same on a mirror, each in the intent log before the next | 30 µs |
//! | `lz4-incompressible` | `stream-128k-mirror` with lz4 on data that doesn't compress, beside compression off | 1.1 |
//! | `of-bare` | throughput of `stream-128k-mirror` beside the same bytes written to as many bare files | 0.8 |
//! | `group-commit-N` | N writers, each waits for its own write; beside as many flushes as each has writes, on the same devices, whose requests take 1 ms: each with the block of one write before it, and with the bytes of all writers' | 0.9 |
//!
//! **Ours** is in this process, through the crates: a volume that is open for writing gets requests as a server gives them, from
//! memory of the pool of buffers that is filled by a copy, as a client's bytes would be. It ends when the group is in the
//! pool. **The peer** is OpenZFS's own code (libzpool, Debian `libzfslinux-dev`), which copies from the caller's memory in
//! `dmu_write`, and ends so too. Both have the same number of files, sectors of 4 KiB, and data that doesn't compress.
//!
//! Processor time is that of all threads, user and system; the kernel's copies into tmpfs are in it, and `of-bare` says
//! what they are; a line of each stream too, beside the same bytes (with parity) on the bare files. Files are written over from the
//! second round on, by both: what a kernel takes to find memory for a file is not what a disk takes. Ratios are the peer's divided by ours: over 1 we are better.
//!
//! **Passes**: for each case that stands beside libzpool a line says how many bytes the processor reads and writes for a byte
//! that is written ([`passes`]).
//!
//! `--files` measures files through FUSE ([`files`]): beside zfs-fuse where its folder is named, and beside btrfs.

mod files;
mod passes;
mod rig;
mod volume;

use crate::peer::{PeerProcess, Rounds, ScratchFolder, built_spindle, compiled, three_digits};
use rig::{Bench, Layout, Options, Order, POOL};
use std::path::PathBuf;
use volume::OpenVolume;

const SOURCE: &str = include_str!("zfs_write_peer.c");
/// MiB that are written where passes are counted: in memory.
const PASSES_MIB: u64 = 128;

/// Runs it; `args` are those after the benchmark's name.
///
/// # Errors
/// One line for the user.
pub fn run(args: &[String]) -> Result<(), String> {
    let options = Options::of(args)?;
    let scratch = tempfile::tempdir_in(&options.dir)
        .map_err(|e| format!("{}: {e}", options.dir.display()))?;
    let bench = Bench { spindle: built_spindle()?, scratch: scratch.path(), options: &options };
    let cases = [
        ("stream-128k-mirror", Layout::MIRROR, Order::Stream),
        ("stream-128k-raidz2", Layout::WIDE, Order::Stream),
        ("scattered-8k-mirror", Layout::of_small_blocks("mirror", 0, 2), Order::Scattered),
        ("scattered-8k-raidz1", Layout::of_small_blocks("raidz1", 1, 4), Order::Scattered),
        ("scattered-8k-raidz2", Layout::of_small_blocks("raidz2", 2, 6), Order::Scattered),
        ("durable-8k-mirror", Layout::of_small_blocks("mirror", 0, 2), Order::Durable),
    ];
    for (case, layout, order) in cases {
        if options.wants(case) {
            bench.beside_libzpool(case, layout, order)?;
            bench.passes(case, &layout, order)?;
        }
    }
    if options.wants("lz4-incompressible") {
        bench.lz4_beside_off()?;
    }
    if options.wants("of-bare") {
        bench.of_bare()?;
    }
    if options.wants("group-commit") {
        bench.group_commits()?;
    }
    if options.files {
        files::run(&bench)?;
    }
    Ok(())
}

impl Bench<'_> {
    /// Processor time an operation beside libzpool's.
    fn beside_libzpool(&self, case: &str, layout: Layout, order: Order) -> Result<(), String> {
        let mut peer = self.peer()?;
        let count = order.count(&layout, self.options.mib);
        let Layout { parity, disks, block_bytes, lz4, .. } = layout;
        let (mib, lz4) = (self.options.mib, u8::from(lz4));
        let (mut processor, mut wall) = (Rounds::default(), Rounds::default());
        let mut files = Rounds::default();
        for round in 0..=self.options.runs {
            let folder = self.make(&layout)?;
            let ours = OpenVolume::open(&folder, layout.disks)?.write(order, count)?;
            // What the files themselves take of it, which no pool on them can save.
            let bare = match order {
                Order::Stream => Some(volume::bare(&folder, &layout, count)?),
                _ => None,
            };
            peer.time(&format!("make {parity} {disks} {block_bytes} {mib} {lz4}"))?;
            let (peer_wall, text) = peer.time(&format!("{} {count}", order.word()))?;
            let peer_processor: f64 =
                text.parse().map_err(|_| "bench zfs-write: the peer's answer")?;
            // The first warms up what is not the pools' business: the programs' own pages.
            if round > 0 {
                let each = 1e6 / count as f64;
                let (ours_us, peer_us) = (ours.processor * each, peer_processor * each);
                processor.add(ours_us, peer_us, peer_us / ours_us);
                wall.add(ours.wall * each, peer_wall * each, peer_wall / ours.wall);
                if let Some(bare) = bare {
                    let bare_us = bare.processor * each;
                    files.add(ours_us, bare_us, bare_us / ours_us);
                }
            }
        }
        if order == Order::Stream {
            let (unit, peer) = ("processor us each", "the bare files");
            println!("{}", files.line("zfs-write", case, unit, peer, three_digits));
        }
        for (rounds, unit) in [(processor, "processor us each"), (wall, "wall us each")] {
            println!("{}", rounds.line("zfs-write", case, unit, "libzpool", three_digits));
        }
        Ok(())
    }

    /// How often each byte is gone over.
    fn passes(&self, case: &str, layout: &Layout, order: Order) -> Result<(), String> {
        let folder = self.make_anew(layout)?;
        let count = order.count(layout, self.options.mib.min(PASSES_MIB));
        let passes = passes::count(&folder, layout.disks, order, count)?;
        let copies = if layout.parity == 0 { layout.disks as f64 } else { 1.0 };
        println!("{}", passes.line(case, copies));
        Ok(())
    }

    fn peer(&self) -> Result<Peer, String> {
        let folder = ScratchFolder::new("zfs-write")?;
        let program = compiled(SOURCE, &["-lzpool", "-lnvpair"], &folder.0, "zfs_write_peer")
            .map_err(|why| {
                format!("bench zfs-write: {why}; libzpool is in Debian's libzfslinux-dev")
            })?;
        let disks = self.scratch.join("theirs");
        std::fs::create_dir_all(&disks).map_err(|error| format!("{}: {error}", disks.display()))?;
        let arguments = [disks.as_os_str(), POOL.as_ref(), self.disk_mib().to_string().as_ref()]
            .map(std::ffi::OsStr::to_owned);
        let mut process = PeerProcess::start_with("libzpool", &program, &arguments)?;
        process.line()?;
        Ok(Peer { process, disks, _folder: folder })
    }

    /// lz4 on what doesn't compress beside compression off, both ours.
    fn lz4_beside_off(&self) -> Result<(), String> {
        let count = Order::Stream.count(&Layout::MIRROR, self.options.mib);
        let mut rounds = Rounds::default();
        for round in 0..=self.options.runs {
            let mut took = [0.0; 2];
            for (lz4, took) in [false, true].into_iter().zip(&mut took) {
                let layout = Layout { lz4, ..Layout::MIRROR };
                let folder = self.make(&layout)?;
                let spent = OpenVolume::open(&folder, layout.disks)?.write(Order::Stream, count)?;
                *took = spent.processor * 1e6 / count as f64;
            }
            let [off, on] = took;
            if round > 0 {
                rounds.add(on, off, off / on);
            }
        }
        let (unit, peer) = ("processor us each", "compression off");
        println!("{}", rounds.line("zfs-write", "lz4-incompressible", unit, peer, three_digits));
        Ok(())
    }

    /// Throughput beside the same bytes on bare files.
    fn of_bare(&self) -> Result<(), String> {
        let layout = Layout::MIRROR;
        let count = Order::Stream.count(&layout, self.options.mib);
        let (mut rounds, mut processor) = (Rounds::default(), Rounds::default());
        for round in 0..=self.options.runs {
            let folder = self.make(&layout)?;
            let ours = OpenVolume::open(&folder, layout.disks)?.write(Order::Stream, count)?;
            let folder = self.make(&layout)?;
            let bare = volume::bare(&folder, &layout, count)?;
            if round > 0 {
                let gib = count as f64 * layout.block_bytes as f64 / f64::from(1 << 30);
                rounds.add(gib / ours.wall, gib / bare.wall, bare.wall / ours.wall);
                let each = 1e6 / count as f64;
                let (ours, bare) = (ours.processor * each, bare.processor * each);
                processor.add(ours, bare, bare / ours);
            }
        }
        for (rounds, unit) in [(rounds, "GiB/s"), (processor, "processor us each")] {
            println!("{}", rounds.line("zfs-write", "of-bare", unit, "bare files", three_digits));
        }
        Ok(())
    }

    /// How much of what the log device's flushes allow is reached: a flush for one write of each writer.
    fn group_commits(&self) -> Result<(), String> {
        let layout = Layout::of_small_blocks("mirror", 0, 2);
        for writers in [1, 8, 32] {
            let mut rounds: [Rounds; 2] = Default::default();
            for _ in 0..self.options.runs {
                let folder = self.make(&layout)?;
                let took = OpenVolume::open_slow(&folder, layout.disks)?.group_commit(writers)?;
                let all = (writers * layout.block_bytes).max(volume::LOG_BLOCK_BYTES);
                for (rounds, bytes) in rounds.iter_mut().zip([volume::LOG_BLOCK_BYTES, all]) {
                    let least = volume::flushes(&folder, layout.disks, bytes)?;
                    rounds.add(took, least, least / took);
                }
            }
            let case = format!("group-commit-{writers}");
            let peers = ["the device's flushes", "flushes and the bytes of all writers"];
            for (rounds, peer) in rounds.into_iter().zip(peers) {
                println!("{}", rounds.line("zfs-write", &case, "s", peer, three_digits));
            }
        }
        Ok(())
    }
}

/// OpenZFS's own code in a process; its disks go with it.
struct Peer {
    process: PeerProcess,
    disks: PathBuf,
    _folder: ScratchFolder,
}

impl Peer {
    fn time(&mut self, request: &str) -> Result<(f64, String), String> {
        self.process.time(request)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // At worst they lie in the scratch folder, which goes too.
        let _ = std::fs::remove_dir_all(&self.disks);
    }
}
