//! Writes seeds for all targets into a folder: those that the targets make up, and structures of the fixtures' pools.
//!
//! `cargo run --no-default-features --example seeds -- FOLDER` makes `FOLDER/TARGET/NAME` files of a few KiB, which
//! `cargo fuzz run TARGET FOLDER/TARGET` begins with. Without the fixtures (`SPINDLE_FIXTURES`) there are the made-up ones
//! alone. Of one kind of structure [`KEPT_MAX`] are kept: more make a fuzzer slower, not better.

#![allow(
    clippy::disallowed_methods,
    reason = "a tool that is started by hand, with a folder to write to"
)]

use fuzz::TARGETS;
use fuzz::machine::{device, run};
use fuzz::zfs::images;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use zfs::spa::{self, OpenOptions, Spa};
use zfs_format::Endian;
use zfs_format::object_type::ObjectType;
use zfs_store::{BlockRequest, ReadBlocks};

/// Structures of one kind that are kept.
const KEPT_MAX: usize = 24;
/// Bytes of a structure that are kept: the fuzzer's inputs are to be small.
const SEED_BYTES_MAX: usize = 4096;

/// Which target a block of this type and level is for.
fn target_of(kind: ObjectType, level: i64) -> &'static str {
    match kind {
        ObjectType::DNODE if level == 0 => "zfs_dnodes",
        ObjectType::OBJSET if level < 0 => "zfs_objset",
        ObjectType::SPACE_MAP if level == 0 => "zfs_space_map",
        _ if level > 0 => "zfs_pointers",
        _ if level == -2 => "zfs_intent_log",
        _ => "zfs_zap",
    }
}

fn write(folder: &Path, target: &str, name: &str, seed: &[u8]) {
    let folder = folder.join(target);
    std::fs::create_dir_all(&folder).expect("the folder is made");
    std::fs::write(folder.join(name), seed).expect("the seed is written");
}

/// The seeds of one pool, by target.
fn of_pool(number: usize) -> Vec<(&'static str, Vec<u8>)> {
    let Some(image) = images::pool(number) else { return Vec::new() };
    run(async move |rt| {
        let disk = image.disk();
        let found = spa::find(&[device(&disk)]).await;
        let mut seeds: Vec<(&'static str, Vec<u8>)> = Vec::new();
        let mut counted: BTreeMap<(&'static str, u8), usize> = BTreeMap::new();
        for pool in &found.pools {
            seeds.push((
                "zfs_nvlist",
                pool.config.encode(zfs_format::nvlist::Encoding::Xdr(Endian::Big)),
            ));
            let Ok(spa) = Spa::open(&rt, pool, OpenOptions::default()).await else { continue };
            let mut walk = spa.walk();
            while let Some(met) = walk.next().await {
                let Ok(visited) = met else { continue };
                let kind = visited.pointer.object_type();
                let target = target_of(kind, visited.at.level);
                let count = counted.entry((target, kind.0)).or_default();
                if *count >= KEPT_MAX || kind == ObjectType::PLAIN_FILE_CONTENTS {
                    continue;
                }
                let request = BlockRequest::new(visited.pointer, visited.at);
                let Ok(block) = spa.zio().read(request).await else { continue };
                *count += 1;
                let first = match (target, block.len()) {
                    ("zfs_objset", 2048) => 2,
                    ("zfs_objset", 4096) => 4,
                    ("zfs_intent_log", _) => 2,
                    _ => 0,
                };
                let kept = block.len().min(SEED_BYTES_MAX);
                seeds.push((target, [&[first], &block.bytes()[..kept]].concat()));
            }
        }
        seeds
    })
}

fn main() {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let Some(folder) = folder else {
        eprintln!("usage: seeds FOLDER");
        std::process::exit(2);
    };
    let mut count = 0;
    for target in TARGETS {
        for (number, seed) in (target.seeds)().iter().enumerate() {
            write(&folder, target.name, &format!("made-{number}"), seed);
            count += 1;
        }
    }
    for (pool, name) in images::POOLS.iter().enumerate() {
        for (number, (target, seed)) in of_pool(pool).iter().enumerate() {
            write(&folder, target, &format!("{name}-{number}"), seed);
            count += 1;
        }
    }
    println!("{count} seeds in {}", folder.display());
}
