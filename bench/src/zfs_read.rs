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

mod volume;

use super::peer::{PeerProcess, ScratchFolder, compiled, median, three_digits};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use stdx::Prng;

const USAGE: &str = "usage: bench zfs-read [--dir DIR] [--mib N] [--runs N] [--only large|small] [--zfs-fuse DIR]   (DIR on tmpfs; default /dev/shm)";
const SOURCE: &str = include_str!("zfs_read_peer.c");
const POOL: &str = "spindlebench";
/// Ticks of `/proc` a second: `USER_HZ`, which is 100 on every Linux.
const TICKS_PER_S: f64 = 100.0;
const MIB: usize = 1 << 20;
/// How long zfs-fuse may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Seconds of the clock and of processors.
#[derive(Clone, Copy)]
struct Spent {
    wall: f64,
    processor: f64,
}

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
    let spindle = built()?;
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

/// Builds the program as its users have it, and says where it lies.
fn built() -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--release", "--package", "spindle"]);
    let status = build.status().map_err(|error| format!("starting cargo: {error}"))?;
    if !status.success() {
        return Err("bench zfs-read: spindle can't be built".into());
    }
    let this = std::env::current_exe().map_err(|error| format!("this program's place: {error}"))?;
    let program = this.with_file_name("spindle");
    if program.exists() {
        Ok(program)
    } else {
        Err(format!("bench zfs-read: {} is not there", program.display()))
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

/// OpenZFS's own code in a process, with a pool that it made.
struct Libzpool {
    peer: PeerProcess,
    _folder: ScratchFolder,
}

impl Libzpool {
    /// Makes a pool in a folder that is not there yet: a volume full of `seed`, in blocks of so many bytes.
    fn start(
        disks: &Path,
        seed: &[u8],
        mib: usize,
        block_bytes: usize,
    ) -> Result<Libzpool, String> {
        let folder = ScratchFolder::new("zfs-read")?;
        let program = compiled(SOURCE, &["-lzpool", "-lnvpair"], &folder.0, "zfs_read_peer")
            .map_err(|why| {
                format!("bench zfs-read: {why}; libzpool is in Debian's libzfslinux-dev")
            })?;
        let seed_file = folder.0.join("seed");
        std::fs::write(&seed_file, seed)
            .map_err(|error| format!("{}: {error}", seed_file.display()))?;
        std::fs::create_dir(disks).map_err(|error| format!("{}: {error}", disks.display()))?;
        let (mib, block_bytes) = (mib.to_string(), block_bytes.to_string());
        let arguments = [
            disks.as_os_str(),
            POOL.as_ref(),
            mib.as_ref(),
            seed_file.as_os_str(),
            block_bytes.as_ref(),
        ]
        .map(|argument| argument.to_owned());
        let mut peer = PeerProcess::start_with("libzpool", &program, &arguments)?;
        peer.line()?;
        Ok(Libzpool { peer, _folder: folder })
    }

    /// What a request took.
    fn spent(&mut self, request: &str) -> Result<Spent, String> {
        let (wall, processor) = self.peer.time(request)?;
        let processor = processor.parse().map_err(|_| "bench zfs-read: the peer's answer")?;
        Ok(Spent { wall, processor })
    }
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

fn compare(
    case: &str,
    peer: &str,
    mib: usize,
    runs: usize,
    mut round: impl FnMut() -> Result<(Spent, Spent), String>,
) -> Result<(), String> {
    let mut spent = Vec::new();
    for number in 0..=runs {
        let pair = round()?;
        // The first warms up what is not the caches' business: the program's own pages.
        if number > 0 {
            spent.push(pair);
        }
    }
    let column = |of: fn(&Spent) -> f64| {
        let mut ours: Vec<f64> = spent.iter().map(|(ours, _)| of(ours)).collect();
        let mut theirs: Vec<f64> = spent.iter().map(|(_, theirs)| of(theirs)).collect();
        let ratios: Vec<f64> = spent
            .iter()
            .map(|(ours, theirs)| of(theirs) / of(ours).max(1.0 / TICKS_PER_S))
            .collect();
        (median(&mut ours), median(&mut theirs), ratios)
    };
    for (unit, (ours, theirs, mut ratios)) in
        [("wall s", column(|s| s.wall)), ("processor s", column(|s| s.processor))]
    {
        ratios.sort_by(f64::total_cmp);
        let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
        let line = serde_json::json!({
            "bench": "zfs-read",
            "case": format!("{case}-{mib}-mib"),
            "unit": unit,
            "ours": three_digits(ours),
            "peer": three_digits(theirs),
            "peer_name": peer,
            "ratio": three_digits(median(&mut ratios)),
            "ratio_min": three_digits(least),
            "ratio_max": three_digits(most),
            "runs": runs,
        });
        println!("{line}");
    }
    Ok(())
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

/// Processor time of children that ended, user and system, in ticks: fields 16 and 17 (proc(5)).
fn children_ticks() -> Result<f64, String> {
    ticks("/proc/self/stat", 13)
}

/// Processor time of a process, user and system, in ticks: fields 14 and 15.
fn ticks_of(process: u32) -> Result<f64, String> {
    ticks(&format!("/proc/{process}/stat"), 11)
}

fn ticks(path: &str, first: usize) -> Result<f64, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("reading {path}: {error}"))?;
    // The second field is the program's name in brackets, which may hold spaces.
    let fields: Vec<&str> =
        text.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let field = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
    match (field(first), field(first + 1)) {
        (Some(user), Some(system)) => Ok(user + system),
        _ => Err(format!("{path} has no times")),
    }
}
