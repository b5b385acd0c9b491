//! `bench zfs-read`: a large object with lz4 on a raidz1 of four image files in memory (tmpfs), read whole through
//! `spindle zfs`, beside two implementations of OpenZFS's own code.
//!
//! | peer | pool | what is timed |
//! |---|---|---|
//! | libzpool (Debian `libzfslinux-dev`) | made by it: a volume, lz4, blocks of 128 KiB | `dmu_read` in pieces of 1 MiB, in a process that imported the pool before |
//! | zfs-fuse (Debian `zfs-fuse`, unpacked to a folder) | made by it: a file, lzjb, blocks of 128 KiB, for it knows no lz4 | `cat` of the mounted file after an import |
//!
//! Ours is a whole process each time: it looks for labels, opens the pool, reads, and writes to `/dev/null`. The peers' opening
//! is not counted, so the comparison is a little against us. Caches are cold: ours begin empty, theirs were
//! emptied by exporting the pool.
//!
//! Two more cases are measured in this process, through the crates, in [`volume`]: blocks of 8 KiB here and there, from the
//! disks and from the cache; and a scrub beside reading and checksumming the same bytes bare.
//!
//! Wall time is noisy on a busy machine; processor time (user and system, all threads) is steadier. Ratios are the peer's time
//! divided by ours: over 1 we are better. Goal: 4.

mod libzpool;
mod volume;

use super::peer::{TICKS_PER_S, built_spindle, children_ticks, ticks_of};
use libzpool::{Libzpool, POOL, Spent, compare};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use stdx::Prng;

const USAGE: &str = "usage: bench zfs-read [--dir DIR] [--mib N] [--runs N] [--only large|small] [--zfs-fuse DIR]   (DIR on tmpfs; default /dev/shm)";
const MIB: usize = 1 << 20;
/// How long zfs-fuse may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs it; `args` are those after the benchmark's name.
///
/// # Errors
/// One line for the user.
pub fn run(args: &[String]) -> Result<(), String> {
    let (mut runs, mut mib, mut dir, mut fuse) = (5_usize, 1024, PathBuf::from("/dev/shm"), None);
    let (mut large, mut small) = (true, true);
    let mut args = args.iter();
    while let Some(flag) = args.next() {
        let value = args.next().ok_or(USAGE)?;
        match flag.as_str() {
            "--runs" => runs = value.parse().map_err(|_| USAGE)?,
            "--mib" => mib = value.parse().map_err(|_| USAGE)?,
            "--dir" => dir = value.into(),
            "--only" => (large, small) = (value == "large", value == "small"),
            "--zfs-fuse" => fuse = Some(PathBuf::from(value)),
            _ => return Err(USAGE.into()),
        }
    }
    if runs == 0 || mib == 0 || !large && !small {
        return Err(USAGE.into());
    }
    let scratch = tempfile::tempdir_in(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let seed = text();
    if small {
        volume::run(scratch.path(), &seed, mib, runs)?;
    }
    if !large {
        return Ok(());
    }
    let spindle = built_spindle()?;
    beside_libzpool(&spindle, scratch.path(), &seed, mib, runs)?;
    match fuse {
        Some(fuse) => beside_zfs_fuse(&spindle, &fuse, scratch.path(), &seed, mib, runs),
        None => {
            eprintln!(
                "bench zfs-read: without zfs-fuse; unpack the Debian package zfs-fuse, and name the folder with --zfs-fuse"
            );
            Ok(())
        }
    }
}

/// Text-like bytes: words of a small vocabulary, drawn anew for each piece.
fn text() -> Vec<u8> {
    let mut prng = Prng::new(1);
    let letters = b"etaoinshrdlucmfwyp";
    let word = |prng: &mut Prng| -> Vec<u8> {
        let len = 2 + prng.below(8) as usize;
        (0..len).map(|_| letters[prng.below(letters.len() as u64) as usize]).collect()
    };
    let words: Vec<Vec<u8>> = (0..3000).map(|_| word(&mut prng)).collect();
    let mut text = Vec::with_capacity(MIB + 16);
    while text.len() < MIB {
        text.extend_from_slice(&words[prng.below(words.len() as u64) as usize]);
        text.push(b' ');
    }
    text.truncate(MIB);
    text
}

fn beside_libzpool(
    spindle: &Path,
    dir: &Path,
    seed: &[u8],
    mib: usize,
    runs: usize,
) -> Result<(), String> {
    let disks = dir.join("libzpool");
    let mut peer = Libzpool::start(&disks, seed, mib, 128 << 10)?;
    // What is not compressed is read twice as fast, by either: then it would be another comparison.
    let mut get = Command::new(spindle);
    get.arg("-d").arg(&disks).args(["zfs", "get", "-Hpo", "value", "compressratio"]);
    let ratio = get.arg(format!("{POOL}/v")).output();
    let ratio = ratio.map_err(|error| format!("starting spindle: {error}"))?.stdout;
    let ratio: f64 = String::from_utf8_lossy(&ratio).trim().parse().unwrap_or(0.0);
    if ratio < 1.2 {
        return Err(format!("bench zfs-read: the volume is compressed only {ratio} times"));
    }
    let what = ["dump".to_owned(), format!("{POOL}/v"), "-".to_owned()];
    compare("volume-lz4-raidz1", "libzpool's dmu_read", mib, runs, || {
        let theirs = peer.spent("read")?;
        peer.spent("close")?;
        Ok((ours(spindle, &disks, &what)?, theirs))
    })?;
    volume::scrub("scrub-128k", &disks, mib, runs)
}

fn ours(spindle: &Path, disks: &Path, what: &[String]) -> Result<Spent, String> {
    let before = children_ticks()?;
    let start = Instant::now();
    let mut command = Command::new(spindle);
    command.arg("-d").arg(disks).arg("zfs").args(what).stdout(Stdio::null());
    let status = command.status().map_err(|error| format!("starting spindle: {error}"))?;
    let wall = start.elapsed().as_secs_f64();
    if !status.success() {
        return Err(format!("bench zfs-read: spindle zfs {} failed", what.join(" ")));
    }
    Ok(Spent { wall, processor: (children_ticks()? - before) / TICKS_PER_S })
}

/// zfs-fuse's daemon, ended when dropped.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn beside_zfs_fuse(
    spindle: &Path,
    fuse: &Path,
    dir: &Path,
    seed: &[u8],
    mib: usize,
    runs: usize,
) -> Result<(), String> {
    let tool = |name: &str, args: &[&str]| -> Result<(), String> {
        let output = Command::new(fuse.join("sbin").join(name)).args(args).output();
        let output = output.map_err(|error| format!("{name} of zfs-fuse: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        Err(format!("{name} {}: {}", args.join(" "), text.lines().next().unwrap_or_default()))
    };
    let daemon = Command::new(fuse.join("sbin/zfs-fuse"))
        .arg("-n")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("zfs-fuse: {error}"))?;
    let daemon = Daemon(daemon);
    let start = Instant::now();
    while tool("zpool", &["list"]).is_err() {
        if start.elapsed() > PATIENCE {
            return Err(
                "bench zfs-read: zfs-fuse doesn't answer; it needs root, and Debian's libfuse2"
                    .into(),
            );
        }
        std::thread::sleep(PATIENCE / 50);
    }
    let (disks, mounted) = (dir.join("zfs-fuse"), dir.join("mounted"));
    for folder in [&disks, &mounted] {
        std::fs::create_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let mut paths = Vec::new();
    for n in 0..4 {
        let path = disks.join(format!("disk{n}.raw"));
        let made = std::fs::File::create(&path)
            .and_then(|file| file.set_len((mib / 2 * MIB + 256 * MIB) as u64));
        made.map_err(|error| format!("{}: {error}", path.display()))?;
        paths.push(path.display().to_string());
    }
    let place = mounted.display().to_string();
    let mut create = vec!["create", "-f", "-m", &place, POOL, "raidz"];
    create.extend(paths.iter().map(String::as_str));
    tool("zpool", &create)?;
    tool("zfs", &["set", "compression=lzjb", POOL])?;
    write_file(&mounted.join("file"), seed, mib)?;
    tool("zpool", &["export", POOL])?;
    let disks_text = disks.display().to_string();
    let id = daemon.0.id();
    let what = ["cat".to_owned(), format!("{POOL}:file")];
    compare("file-lzjb-raidz1", "zfs-fuse", mib, runs, || {
        tool("zpool", &["import", "-d", &disks_text, POOL])?;
        let (before, start) = (ticks_of(id)? + children_ticks()?, Instant::now());
        let cat = Command::new("cat").arg(mounted.join("file")).stdout(Stdio::null()).status();
        let wall = start.elapsed().as_secs_f64();
        if !cat.is_ok_and(|status| status.success()) {
            return Err("bench zfs-read: cat of the mounted file failed".into());
        }
        let processor = (ticks_of(id)? + children_ticks()? - before) / TICKS_PER_S;
        tool("zpool", &["export", POOL])?;
        Ok((ours(spindle, &disks, &what)?, Spent { wall, processor }))
    })
}

fn write_file(path: &Path, seed: &[u8], mib: usize) -> Result<(), String> {
    use std::io::Write;
    let failed = |error| format!("{}: {error}", path.display());
    let mut file = std::fs::File::create(path).map_err(failed)?;
    let mut piece = seed.to_vec();
    for number in 0..mib {
        for k in 0..MIB / 1024 {
            let counter = (number * 1024 + k) as u64;
            piece[k * 1024..k * 1024 + 8].copy_from_slice(&counter.to_le_bytes());
        }
        file.write_all(&piece).map_err(failed)?;
    }
    file.sync_all().map_err(failed)
}
