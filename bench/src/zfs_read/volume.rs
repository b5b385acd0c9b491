//! Blocks of 8 KiB of a volume, one at a time, and a scrub: in this process, so that no start of a program is in the
//! figures.
//!
//! * `scattered`: blocks that were not read before, from the disks (files in memory: what they cost is in the figure), beside
//!   `dmu_read` of libzpool. Goal: 15 µs of processor time a read.
//! * `again`: the same blocks, which lie in the cache now. Goal: 1 µs.
//! * `scrub`: every block of the pool read and checked, parity too; beside reading what is stored bare, from the same files in
//!   pieces of 1 MiB by plain system calls into one buffer, with fletcher4 over them. Both rates are of the bytes that the files
//!   hold (what is allocated is more: raidz leaves sectors out, which nobody reads), one by the clock and one by processor time, of
//!   all threads. Goal: 0.7 of its speed.

use super::libzpool::{Libzpool, POOL, Spent, compare};
use crate::peer::{Rounds, three_digits};
use codec::checksum::fletcher4;
use host::{Clock, FileDevice, FileOptions, HostRuntime, ReactorKind};
use rt::{Device, DeviceRef, Request, Rt};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::hint::black_box;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};
use stdx::{ByteCount, Offset};
use zfs::spa::{self, OpenOptions, Spa};
use zfs::zvol::Volume;

const BLOCK_BYTES: usize = 8 << 10;
/// Blocks that are read in a round.
const COUNT: u64 = 20_000;
const PIECE_BYTES: usize = 1 << 20;

/// Runs all of it in a folder.
pub(super) fn run(dir: &Path, seed: &[u8], mib: usize, runs: usize) -> Result<(), String> {
    let disks = dir.join("volume");
    let mut peer = Libzpool::start(&disks, seed, mib, BLOCK_BYTES)?;
    let mut warm = Vec::new();
    compare("volume-8k-scattered", "libzpool's dmu_read", mib, runs, || {
        let theirs = peer.spent(&format!("scattered {COUNT}"))?;
        let again = peer.spent(&format!("again {COUNT}"))?;
        peer.spent("close")?;
        let [ours, ours_again] = scattered(&disks)?;
        warm.push((ours_again, again));
        Ok((ours, theirs))
    })?;
    let mut warm = warm.into_iter();
    compare("volume-8k-again", "libzpool's dmu_read", mib, runs, || {
        warm.next().ok_or_else(|| "bench zfs-read: a round is missing".to_owned())
    })?;
    scrub("scrub-8k", &disks, mib, runs)
}

fn open(runtime: &HostRuntime, disks: &Path) -> Result<Rc<Spa>, String> {
    let mut devices: Vec<DeviceRef> = Vec::new();
    for n in 0..4 {
        let path = disks.join(format!("disk{n}.raw"));
        let options = FileOptions { read_only: true, ..FileOptions::default() };
        let device = FileDevice::open(&runtime.host(), &path, options);
        devices.push(Rc::new(device.map_err(|error| error.to_string())?));
    }
    let rt = runtime.rt();
    let opened = runtime.runtime().block_on(async move {
        let found = spa::find(&devices).await.pools.pop().ok_or("no pool was found")?;
        let spa = Spa::open(&rt, &found, OpenOptions::default()).await;
        spa.map(Rc::new).map_err(|error| error.to_string())
    });
    opened.map_err(|error| error.to_string())?.map_err(|error| format!("bench zfs-read: {error}"))
}

fn runtime() -> Result<HostRuntime, String> {
    HostRuntime::with_clock(ReactorKind::Auto, Clock::start()).map_err(|error| error.to_string())
}

/// What it took to read some blocks, then the same again.
fn scattered(disks: &Path) -> Result<[Spent; 2], String> {
    let runtime = runtime()?;
    let (rt, spa) = (runtime.rt(), open(&runtime, disks)?);
    let done = runtime.runtime().block_on(async move {
        let name = format!("{POOL}/v");
        let found = spa.dsl().find(&name).await.map_err(|error| error.to_string())?;
        let (directory, dataset) = found.ok_or("the volume is not there")?;
        let objset = spa.objset(&directory, &dataset).await.map_err(|error| error.to_string())?;
        let volume = Volume::open(&objset, &name).await.map_err(|error| error.to_string())?;
        let cold = read_blocks(&rt, &volume).await?;
        Ok([cold, read_blocks(&rt, &volume).await?])
    });
    let failed = |error: String| format!("bench zfs-read: {error}");
    done.map_err(|error| failed(error.to_string()))?.map_err(failed)
}

/// The same blocks as `scattered` of the peer.
async fn read_blocks(rt: &Rt, volume: &Volume) -> Result<Spent, String> {
    let blocks = volume.size().bytes() / BLOCK_BYTES as u64;
    let (start, processor) = (Instant::now(), rt.processor_time());
    let mut state = 1_u64;
    for _ in 0..COUNT {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = (state >> 33) % blocks * BLOCK_BYTES as u64;
        let read = Request::read(Offset(at), ByteCount(BLOCK_BYTES as u64));
        let block = volume.submit(read).await.map_err(|error| error.to_string())?;
        black_box(block.len());
    }
    let processor = (rt.processor_time() - processor).as_secs_f64();
    Ok(Spent { wall: start.elapsed().as_secs_f64(), processor })
}

/// A scrub beside bare reading of the pool in a folder.
pub(super) fn scrub(name: &str, disks: &Path, mib: usize, runs: usize) -> Result<(), String> {
    let mut rounds: [Rounds; 2] = Default::default();
    for number in 0..=runs {
        let (bytes, bare) = bare(disks)?;
        let took = scrubbed(disks)?;
        // The first warms up what is not the caches' business.
        if number > 0 {
            for (rounds, (took, bare)) in rounds.iter_mut().zip(took.into_iter().zip(bare)) {
                let rate = |took: Duration| bytes as f64 / took.as_secs_f64() / 1e9;
                rounds.add(rate(took), rate(bare), rate(took) / rate(bare));
            }
        }
    }
    let (case, peer) = (format!("{name}-{mib}-mib"), "reading and fletcher4 alone");
    for (rounds, unit) in rounds.iter().zip(["GB/s", "GB/s of processor time"]) {
        println!("{}", rounds.line("zfs-read", &case, unit, peer, three_digits));
    }
    Ok(())
}

/// How long a scrub took, by the clock and of processors.
fn scrubbed(disks: &Path) -> Result<[Duration; 2], String> {
    let runtime = runtime()?;
    let spa = open(&runtime, disks)?;
    let rt = runtime.rt();
    let (start, processor) = (Instant::now(), rt.processor_time());
    let done = runtime.runtime().block_on(async move { spa.scrub(|_| {}).await });
    let done = done.map_err(|error| error.to_string())?;
    if !done.is_whole() || done.lost_places > 0 {
        return Err("bench zfs-read: the scrub found damage".to_owned());
    }
    Ok([start.elapsed(), rt.processor_time() - processor])
}

/// Reads and sums what the files hold: how many bytes, and how long it took, by the clock and of processors.
fn bare(disks: &Path) -> Result<(u64, [Duration; 2]), String> {
    let rt = runtime()?.rt();
    let mut held = Vec::new();
    for n in 0..4 {
        let path = disks.join(format!("disk{n}.raw"));
        let failed = |error| format!("{}: {error}", path.display());
        let file = std::fs::File::open(&path).map_err(failed)?;
        let parts = data_parts(&file).map_err(failed)?;
        held.push((path, file, parts));
    }
    let (mut piece, mut bytes) = (vec![0; PIECE_BYTES], 0);
    let (start, processor) = (Instant::now(), rt.processor_time());
    for (path, file, parts) in &held {
        let failed = |error| format!("{}: {error}", path.display());
        for part in parts {
            let mut at = part.start;
            while at < part.end {
                let len = PIECE_BYTES.min((part.end - at) as usize);
                file.read_exact_at(&mut piece[..len], at).map_err(failed)?;
                black_box(fletcher4(&piece[..len - len % 8]));
                at += len as u64;
            }
            bytes += part.end - part.start;
        }
    }
    Ok((bytes, [start.elapsed(), rt.processor_time() - processor]))
}

/// Where a file is not a hole: reading a hole costs less than reading bytes.
fn data_parts(file: &std::fs::File) -> std::io::Result<Vec<Range<u64>>> {
    let (mut parts, mut at) = (Vec::new(), 0);
    loop {
        match seek(file, SeekFrom::Data(at)) {
            Ok(start) => {
                at = seek(file, SeekFrom::Hole(start))?;
                parts.push(start..at);
            }
            Err(Errno::NXIO) => return Ok(parts),
            Err(error) => return Err(error.into()),
        }
    }
}
