//! The benchmarks: each compares one thing of ours with its peers, in one run, and prints a JSON line a case
//! (DESIGN §9, rule 14).
//!
//! A benchmark that is measured unoptimised misleads, and `cargo xtask` is built for quick starts; so an
//! unoptimised xtask builds and starts an optimised one for it.

mod codec;
mod cores;
mod executor;
mod lab_load;
mod nbd;
mod parity;
mod peer;
mod raid;
mod simulation;
mod zfs_read;

use crate::Failure;
use std::process::Command;

/// One benchmark: its name, what it compares, its code.
type Bench = (&'static str, &'static str, fn(&[String]) -> Result<(), String>);

const BENCHES: &[Bench] = &[
    (
        "codec",
        "checksums, compression and ciphers, beside OpenZFS's and the C libraries'",
        codec::run,
    ),
    ("cores", "RAID 6 sets on one executor and on several", cores::run),
    ("executor", "4 KiB reads through Device and io_uring, beside fio", executor::run),
    ("lab-load", "a fio job in the lab, beside fio, by processor time", lab_load::run),
    ("nbd", "I/Os through the NBD server, beside qemu-nbd and nbdkit", nbd::run),
    ("parity", "P, P+Q, P+Q+R: generate and reconstruct, beside ISA-L and OpenZFS", parity::run),
    (
        "raid",
        "full-stripe writes of RAID 5 and 6 over tmpfs, beside parity plus bare writes",
        raid::run,
    ),
    ("simulation", "simulated I/Os a second on one core", simulation::run),
    ("zfs-read", "a large object of a pool, beside libzpool and zfs-fuse", zfs_read::run),
];

/// `cargo xtask bench …`
pub fn run(args: &[String]) -> Result<(), Failure> {
    let Some((name, rest)) = args.split_first() else {
        return Err(Failure::Usage("usage: cargo xtask bench list | NAME [ARGUMENT]...".into()));
    };
    if name == "list" {
        for (name, what, _) in BENCHES {
            println!("{name:<12} {what}");
        }
        return Ok(());
    }
    let Some((_, _, bench)) = BENCHES.iter().find(|(known, ..)| known == name) else {
        let names: Vec<&str> = BENCHES.iter().map(|(name, ..)| *name).collect();
        let names = names.join(", ");
        return Err(Failure::Usage(format!("there is no benchmark '{name}'; there are: {names}")));
    };
    if cfg!(debug_assertions) { run_optimised(args) } else { bench(rest).map_err(Failure::Failed) }
}

fn run_optimised(args: &[String]) -> Result<(), Failure> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["run", "--quiet", "--release", "--package", "xtask", "--", "bench"]).args(args);
    let status = command.status().map_err(|error| format!("starting cargo: {error}"))?;
    match status.code() {
        Some(0) => Ok(()),
        // It has said why.
        code => std::process::exit(code.unwrap_or(1)),
    }
}
