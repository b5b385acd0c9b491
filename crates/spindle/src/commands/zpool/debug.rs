//! `zpool debug`: what lies on the devices, readable: what `zdb` is for.
//!
//! ```text
//!   label FILE               what a device's four labels say            zdb -l
//!   uberblock POOL           the uberblocks that are left               zdb -lu
//!   mos POOL                 the objects of the MOS                     zdb -d
//!   object DATASET NUMBER    a dnode                                    zdb -dddd
//!   bp DATASET NUMBER        its block pointers                         zdb -ddddd
//!   zap DATASET NUMBER       the entries of a table                     zdb -dddd
//!   spacemap POOL            what is allocated, by vdev                 zdb -m
//!   zil DATASET              the records of an intent log               zdb -i
//!   blocks POOL              all blocks by type and level; leaks        zdb -bbb
//! ```
//!
//! `DATASET` is a file system, volume or snapshot; the pool's own objects are meant with `--mos` and the pool's name.

mod blocks;
mod log;
mod objects;

use crate::events::events;
use crate::output::{Failure, print};
use attach::disks::Disks;
use attach::pools::{PoolPlace, Pools};
use clap::Subcommand;
use std::fmt::Write;
use std::path::PathBuf;
use std::rc::Rc;
use zfs_store::label::Labels;

#[derive(Subcommand)]
#[command(defer = true)]
pub enum DebugCommand {
    /// Print what a device's labels say; of a disk with partitions, those of the first that has some
    Label {
        /// A file or block device
        device: PathBuf,
    },
    /// Print the uberblocks that are left on a pool's devices, the newest first
    Uberblock {
        /// The pool
        pool: String,
    },
    /// List the objects of a pool's own table
    Mos {
        /// The pool
        pool: String,
    },
    /// Print an object's dnode
    Object(objects::ObjectArgs),
    /// List an object's block pointers
    Bp(objects::ObjectArgs),
    /// List the entries of a table
    Zap(objects::ObjectArgs),
    /// Print what is allocated, by vdev
    Spacemap {
        /// Each stretch, too
        #[arg(short = 'v')]
        verbose: bool,
        /// The pool
        pool: String,
    },
    /// Print the intent log of a dataset
    Zil {
        /// The file system or volume
        dataset: String,
    },
    /// Count all blocks by type and level, and look for leaked space, as zdb -bbb does
    Blocks {
        /// Numbers in full
        #[arg(short = 'P', short_alias = 'p')]
        parsable: bool,
        /// The pool
        pool: String,
    },
}

pub fn run(command: DebugCommand, place: &PoolPlace<'_>) -> Result<(), Failure> {
    match command {
        DebugCommand::Label { device } => label(&device),
        DebugCommand::Uberblock { pool } => uberblock(&pool, place),
        DebugCommand::Mos { pool } => objects::mos(&pool, place),
        DebugCommand::Object(args) => objects::object(&args, place),
        DebugCommand::Bp(args) => objects::pointers(&args, place),
        DebugCommand::Zap(args) => objects::zap(&args, place),
        DebugCommand::Spacemap { verbose, pool } => blocks::spacemap(&pool, verbose, place),
        DebugCommand::Zil { dataset } => log::zil(&dataset, place),
        DebugCommand::Blocks { parsable, pool } => blocks::run(&pool, parsable, place),
    }
}

fn label(path: &PathBuf) -> Result<(), Failure> {
    let disks = Disks::open(&events(), std::slice::from_ref(path))?;
    let parts = disks.parts.iter().map(|part| Rc::clone(&part.device));
    let devices: Vec<_> = disks.files.iter().cloned().chain(parts).collect();
    let labels = disks.wait(async move {
        let mut best = Labels::default();
        for device in &devices {
            // Of a disk with partitions they stand on one of them.
            let labels = zfs_store::label::read(device).await;
            if best.labels.is_empty() || best.configurations().next().is_none() {
                best = labels;
            }
        }
        best
    });
    let mut out = String::new();
    let mut right = 0;
    for label in &labels.labels {
        let _ = writeln!(out, "label {}", label.number);
        match &label.configuration {
            Ok(configuration) => {
                right += 1;
                super::history::dump(&mut out, &configuration.list, 4);
            }
            Err(error) => {
                let _ = writeln!(out, "    {error}");
            }
        }
        let txgs: Vec<u64> = label.uberblocks.iter().map(|found| found.uberblock.txg).collect();
        let (first, last) = (txgs.iter().min().copied(), txgs.iter().max().copied());
        let (first, last) = (first.unwrap_or(0), last.unwrap_or(0));
        let (many, bad) = (txgs.len(), label.damaged.len());
        let _ = writeln!(out, "    uberblocks: {many}, of groups {first} to {last}; {bad} damaged");
    }
    print(&out)?;
    match right {
        0 => Err(Failure::failed(format!("{}: no label can be read", path.display()))),
        _ => Ok(()),
    }
}

fn uberblock(pool: &str, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let pools = Pools::find(place)?;
    let found = pools.named(pool)?;
    let found = found.ok_or_else(|| Failure::failed(super::opened::no_pool(pool)))?;
    let mut out = String::new();
    for uberblock in Rc::clone(found).uberblocks() {
        let when = zfs::show::date(uberblock.timestamp, &zfs::show::UTC);
        let _ = writeln!(out, "uberblock of group {}", uberblock.txg);
        let _ = writeln!(out, "    version          {}", uberblock.version);
        let _ = writeln!(out, "    guid_sum         {}", uberblock.guid_sum);
        let _ = writeln!(out, "    timestamp        {} ({} UTC)", uberblock.timestamp, when);
        let _ = writeln!(out, "    software_version {}", uberblock.software_version);
        let _ = writeln!(out, "    checkpoint_txg   {}", uberblock.checkpoint_txg);
        let reflow = uberblock.raidz_reflow();
        let _ = writeln!(out, "    raidz_reflow     {}", reflow.offset);
        let _ = writeln!(out, "    rootbp           {}", objects::pointer(&uberblock.root));
    }
    print(&out)
}
