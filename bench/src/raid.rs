//! `bench raid`: full-stripe sequential writes of RAID 5 and RAID 6 over files in memory (tmpfs), beside
//! what their parts allow.
//!
//! **The arithmetic.** To write D bytes of data in full stripes, an array must at least compute the parity
//! of D bytes and write D × members / data members bytes. Both are measured in the same run: the parity by
//! the same kernel over chunks of the same size, the writing by the same requests to the bare files, without
//! an array. The limit is D / (time of the parity + time of the writes), as on one processor. The peer is
//! that limit; the goal is a ratio of 0.8 or more.
//!
//! Requests carry [`ROWS`] stripes, [`DEPTH`] are outstanding. The bytes are random, from a pool. Ours and
//! the peer alternate; the ratio is the median over the pairs.

use super::peer::Rounds;
use futures_util::future::join_all;
use host::{FileDevice, FileOptions, Host, HostRuntime, ReactorKind};
use md::{Array, ArraySpec, Level};
use rt::{Buf, BufMut, DeviceRef, Request, SgList};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;
use stdx::{ByteCount, MIB, Offset, Prng};

const USAGE: &str = "usage: bench raid [--dir DIR] [--runs N]   (DIR on tmpfs; default /dev/shm)";
const CHUNK: ByteCount = ByteCount::kib(64);
/// Stripes in a request.
const ROWS: u64 = 8;
/// Outstanding requests.
const DEPTH: u64 = 4;
/// Size of each member.
const MEMBER: ByteCount = ByteCount::mib(128);

/// Runs it; `args` are those after the benchmark's name.
///
/// # Errors
/// One line for the user.
pub fn run(args: &[String]) -> Result<(), String> {
    let (mut runs, mut dir) = (9_usize, PathBuf::from("/dev/shm"));
    let mut args = args.iter();
    while let Some(flag) = args.next() {
        let value = args.next().ok_or(USAGE)?;
        match flag.as_str() {
            "--runs" => runs = value.parse().map_err(|_| USAGE)?,
            "--dir" => dir = value.into(),
            _ => return Err(USAGE.into()),
        }
    }
    if runs == 0 {
        return Err(USAGE.into());
    }
    let scratch = tempfile::tempdir_in(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    for (name, level, members) in [
        ("raid5-6", Level::Raid5, 6),
        ("raid5-9", Level::Raid5, 9),
        ("raid6-8", Level::Raid6, 8),
        ("raid6-12", Level::Raid6, 12),
    ] {
        case(name, level, members, runs, scratch.path())?;
    }
    Ok(())
}

fn case(name: &str, level: Level, members: usize, runs: usize, dir: &Path) -> Result<(), String> {
    let host = HostRuntime::new(ReactorKind::Auto).map_err(|e| e.to_string())?;
    let rt = host.rt();
    let data_members = members - level.parities();
    let stripe = CHUNK * data_members as u64;
    let pool = pool(stripe * ROWS * 16);
    let files = |kind: &str| -> Result<Vec<DeviceRef>, String> {
        (0..members).map(|n| open(&host.host(), &dir.join(format!("{name}-{kind}-{n}")))).collect()
    };
    let (bare, below) = (files("bare")?, files("array")?);
    let mut spec = ArraySpec::new(level, below);
    spec.chunk = CHUNK;
    let array = Array::create(&rt, name, spec).map_err(|e| e.to_string())?.device();
    let total = array.geometry().capacity.round_down(stripe * ROWS);

    // The first pass takes the files' memory; the others find it there.
    let mut rounds = Rounds::default();
    for round in 0..=runs {
        let written =
            seconds(&host, write_array(Rc::clone(&array), pool.clone(), stripe * ROWS, total))?;
        let bare_seconds = seconds(&host, write_bare(bare.clone(), pool.clone()))?;
        let parity_seconds = parity(&pool, data_members, level.parities(), total);
        if round > 0 {
            let mb = total.bytes() as f64 / 1e6;
            let each_member = total.bytes() as f64 / data_members as f64;
            let scale = each_member / MEMBER.bytes() as f64;
            let (ours, limit) = (mb / written, mb / (parity_seconds + bare_seconds * scale));
            rounds.add(ours, limit, ours / limit);
        }
    }
    let case = format!("{name}-full-stripe-write");
    let peer = "parity, then the same bytes to the bare files";
    let line = rounds.line("raid", &case, "MB/s of data", peer, f64::round);
    println!("{line}");
    for kind in ["bare", "array"] {
        for n in 0..members {
            let _ = std::fs::remove_file(dir.join(format!("{name}-{kind}-{n}")));
        }
    }
    Ok(())
}

fn open(host: &Host, path: &Path) -> Result<DeviceRef, String> {
    let device = FileDevice::create(host, path, MEMBER, FileOptions::default());
    device.map(|device| Rc::new(device) as DeviceRef).map_err(|e| e.to_string())
}

/// Random bytes to write from.
fn pool(len: ByteCount) -> Buf {
    let mut bytes = BufMut::for_overwrite(len.as_usize());
    Prng::new(1).fill(&mut bytes);
    bytes.freeze()
}

fn seconds(
    host: &HostRuntime,
    work: impl Future<Output = Result<(), String>> + 'static,
) -> Result<f64, String> {
    let began = Instant::now();
    host.runtime().block_on(work).map_err(|e| e.to_string())??;
    Ok(began.elapsed().as_secs_f64())
}

/// The request's worth of the pool that is written at `at`.
fn piece(pool: &Buf, at: u64, len: u64) -> SgList {
    let start = (at % (pool.len() as u64 - len + 1)) as usize & !4095;
    pool.slice(start..start + len as usize).into()
}

/// The whole array, front to back.
async fn write_array(
    array: DeviceRef,
    pool: Buf,
    request: ByteCount,
    total: ByteCount,
) -> Result<(), String> {
    let lanes = (0..DEPTH).map(|lane| {
        let (array, pool, request) = (Rc::clone(&array), pool.clone(), request.bytes());
        async move {
            let mut at = lane * request;
            while at + request <= total.bytes() {
                let write = Request::write(Offset(at), piece(&pool, at, request));
                array.submit(write).await.map_err(|e| e.to_string())?;
                at += DEPTH * request;
            }
            Ok(())
        }
    });
    join_all(lanes).await.into_iter().collect()
}

/// Every bare file, front to back, by the requests that the array would make.
async fn write_bare(files: Vec<DeviceRef>, pool: Buf) -> Result<(), String> {
    let len = CHUNK.bytes() * ROWS;
    let lanes = (0..DEPTH).map(|lane| {
        let (files, pool) = (files.clone(), pool.clone());
        async move {
            let mut at = lane * len;
            while at + len <= MEMBER.bytes() {
                let writes = files.iter().zip(0_u64..).map(|(file, n)| {
                    let data = piece(&pool, at + n * 37 * MIB, len);
                    file.submit(Request::write(Offset(at), data))
                });
                for result in join_all(writes).await {
                    result.map_err(|e| e.to_string())?;
                }
                at += DEPTH * len;
            }
            Ok(())
        }
    });
    join_all(lanes).await.into_iter().collect()
}

/// Seconds for the parity of `total` bytes of data.
fn parity(pool: &Buf, data_members: usize, parities: usize, total: ByteCount) -> f64 {
    let chunk = CHUNK.as_usize();
    let stripe = chunk * data_members;
    let bytes = pool.bytes();
    let mut made = vec![vec![0_u8; chunk]; parities];
    let began = Instant::now();
    let mut done = 0;
    while done < total.as_usize() {
        let start = done % (bytes.len() - stripe + 1);
        let data: Vec<&[u8]> = bytes[start..start + stripe].chunks(chunk).collect();
        let mut made: Vec<&mut [u8]> = made.iter_mut().map(Vec::as_mut_slice).collect();
        codec::parity::generate(&data, &mut made);
        done += stripe;
    }
    began.elapsed().as_secs_f64()
}
