//! Files written through the kernel: small ones, a stream, and blocks here and there in a large one; on a mounted file system of
//! ours, beside zfs-fuse (where its folder is named) and btrfs (a file as its device, where this host can).
//!
//! Each round is a new file system on files in memory. Small files are created, written and closed, and nobody waits for them
//! (FUSE passes no `syncfs` on); what is written to the large one is timed with the `fsync` behind it. Figures are by the
//! clock: a file system is as fast as its user sees it.

use super::rig::{Bench, Layout, POOL, command};
use crate::peer::{Rounds, three_digits};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Small files, in folders of so many.
const FILES: usize = 4000;
const FILES_A_FOLDER: usize = 500;
const FILE_BYTES: usize = 4 << 10;
const STREAM_BYTES: usize = 256 << 20;
const PIECE_BYTES: usize = 1 << 20;
const SCATTERED: usize = 20_000;
const SCATTERED_BYTES: usize = 8 << 10;
/// How long a daemon may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a round gave: each in its unit of [`CASES`].
type Figures = [f64; 3];
const CASES: [(&str, &str); 3] =
    [("files-4k", "files/s"), ("files-stream", "MiB/s"), ("files-scattered-8k", "writes/s")];

/// A peer's round.
type Peer<'a> = &'a dyn Fn() -> Result<Figures, String>;

/// Runs them all.
pub(super) fn run(bench: &Bench<'_>) -> Result<(), String> {
    let peers: [(&str, Peer<'_>); 2] =
        [("zfs-fuse", &|| zfs_fuse(bench)), ("btrfs", &|| btrfs(bench))];
    for (name, peer) in peers {
        if name == "zfs-fuse" && bench.options.fuse.is_none() {
            eprintln!(
                "bench zfs-write: without zfs-fuse; unpack the Debian package zfs-fuse, and name the folder with --zfs-fuse"
            );
            continue;
        }
        let mut rounds: [Rounds; 3] = Default::default();
        for round in 0..=bench.options.runs {
            let (ours, theirs) = (ours(bench)?, peer()?);
            for (n, rounds) in rounds.iter_mut().enumerate() {
                if round > 0 {
                    rounds.add(ours[n], theirs[n], ours[n] / theirs[n]);
                }
            }
        }
        for ((case, unit), rounds) in CASES.iter().zip(rounds) {
            println!("{}", rounds.line("zfs-write", case, unit, name, three_digits));
        }
    }
    Ok(())
}

/// The three workloads in a folder.
fn workloads(at: &Path) -> Result<Figures, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", at.display());
    Ok([
        small_files(at).map_err(failed)?,
        stream(at).map_err(failed)?,
        scattered(at).map_err(failed)?,
    ])
}

fn small_files(at: &Path) -> std::io::Result<f64> {
    let bytes = super::volume::source(FILE_BYTES as u64);
    let start = Instant::now();
    for n in 0..FILES {
        let folder = at.join(format!("d{}", n / FILES_A_FOLDER));
        if n % FILES_A_FOLDER == 0 {
            std::fs::create_dir(&folder)?;
        }
        File::create(folder.join(format!("file{n}")))?.write_all(&bytes)?;
    }
    Ok(FILES as f64 / start.elapsed().as_secs_f64())
}

fn stream(at: &Path) -> std::io::Result<f64> {
    let bytes = super::volume::source(PIECE_BYTES as u64);
    let start = Instant::now();
    let mut file = File::create(at.join("stream"))?;
    for _ in 0..STREAM_BYTES / PIECE_BYTES {
        file.write_all(&bytes)?;
    }
    file.sync_all()?;
    Ok(STREAM_BYTES as f64 / f64::from(1 << 20) / start.elapsed().as_secs_f64())
}

fn scattered(at: &Path) -> std::io::Result<f64> {
    let bytes = super::volume::source(SCATTERED_BYTES as u64);
    let start = Instant::now();
    let file = File::options().write(true).open(at.join("stream"))?;
    let (mut state, blocks) = (1_u64, (STREAM_BYTES / SCATTERED_BYTES) as u64);
    for _ in 0..SCATTERED {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        file.write_all_at(&bytes, (state >> 33) % blocks * SCATTERED_BYTES as u64)?;
    }
    file.sync_all()?;
    Ok(SCATTERED as f64 / start.elapsed().as_secs_f64())
}

/// A process that ends when this is dropped.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for something that a daemon makes true.
fn wait_for(what: &str, is_there: impl Fn() -> bool) -> Result<(), String> {
    let start = Instant::now();
    while !is_there() {
        if start.elapsed() > PATIENCE {
            return Err(format!("bench zfs-write: {what} did not come"));
        }
        std::thread::sleep(PATIENCE / 500);
    }
    Ok(())
}

fn is_mounted(at: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let at = at.display().to_string();
    mounts.lines().any(|line| line.split(' ').nth(1) == Some(at.as_str()))
}

fn folder(bench: &Bench<'_>, name: &str) -> Result<PathBuf, String> {
    let folder = bench.scratch.join(name);
    // Nothing is there the first time.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// A mirror of two, as zfs-fuse's.
fn ours(bench: &Bench<'_>) -> Result<Figures, String> {
    let disks = bench.make(&Layout::MIRROR)?;
    let at = folder(bench, "mounted")?;
    let mount = Command::new(&bench.spindle)
        .arg("-d")
        .arg(&disks)
        .args(["mount", "-o", "rw", POOL])
        .arg(&at)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mount = Daemon(mount.map_err(|error| format!("starting spindle: {error}"))?);
    wait_for("the mount", || is_mounted(&at))?;
    let figures = workloads(&at);
    let unmounted = command(Path::new("umount"), &[&at.display().to_string()]);
    let mut mount = mount;
    // It ends by itself once it is unmounted.
    let _ = mount.0.wait();
    unmounted?;
    figures
}

fn zfs_fuse(bench: &Bench<'_>) -> Result<Figures, String> {
    let home = bench.options.fuse.as_deref().ok_or("zfs-fuse is not named")?;
    let tool = |name: &str, arguments: &[&str]| command(&home.join("sbin").join(name), arguments);
    let daemon = Command::new(home.join("sbin/zfs-fuse"))
        .arg("-n")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _daemon = Daemon(daemon.map_err(|error| format!("zfs-fuse: {error}"))?);
    wait_for("zfs-fuse", || tool("zpool", &["list"]).is_ok())?;
    let (disks, at) = (folder(bench, "theirs-fuse")?, folder(bench, "mounted-theirs")?);
    let mut create = vec!["create", "-f", "-m"];
    let place = at.display().to_string();
    create.extend([place.as_str(), POOL, "mirror"]);
    let mut paths = Vec::new();
    for n in 0..2 {
        let path = disks.join(format!("disk{n}.raw"));
        let made = File::create(&path).and_then(|file| file.set_len(bench.disk_mib() << 20));
        made.map_err(|error| format!("{}: {error}", path.display()))?;
        paths.push(path.display().to_string());
    }
    create.extend(paths.iter().map(String::as_str));
    tool("zpool", &create)?;
    let figures = workloads(&at);
    // Its mount is busy for a moment after the last file is closed.
    let end = Instant::now() + PATIENCE;
    while let Err(error) = tool("zpool", &["destroy", "-f", POOL]) {
        if Instant::now() > end {
            return Err(error);
        }
        std::thread::sleep(PATIENCE / 100);
    }
    figures
}

fn btrfs(bench: &Bench<'_>) -> Result<Figures, String> {
    let (disks, at) = (folder(bench, "theirs-btrfs")?, folder(bench, "mounted-btrfs")?);
    let disk = disks.join("disk.raw");
    let made = File::create(&disk).and_then(|file| file.set_len(bench.disk_mib() << 20));
    made.map_err(|error| format!("{}: {error}", disk.display()))?;
    let (disk, at_text) = (disk.display().to_string(), at.display().to_string());
    command(Path::new("mkfs.btrfs"), &["-q", &disk])?;
    command(Path::new("mount"), &["-o", "loop", &disk, &at_text])?;
    let figures = workloads(&at);
    command(Path::new("umount"), &[&at_text])?;
    figures
}
