//! The benchmarks: each compares one thing of ours with its peers, in one run, and prints a JSON line a case
//! (DESIGN §9, rule 14).
//!
//! A crate of its own, so that `cargo xtask ci` builds without the engines. `cargo xtask bench` starts it optimised: a
//! benchmark that is measured unoptimised misleads.

#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    reason = "benchmarks run programs, read clocks and their surroundings, and belong to no engine"
)]

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
mod zfs_write;

use std::process::ExitCode;

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
    (
        "zfs-write",
        "volumes and files of pools written, beside libzpool, zfs-fuse and btrfs",
        zfs_write::run,
    ),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let wrong_call = |text: String| {
        eprintln!("{text}");
        ExitCode::from(2)
    };
    let Some((name, rest)) = args.split_first() else {
        return wrong_call("usage: cargo xtask bench list | NAME [ARGUMENT]...".into());
    };
    if name == "list" {
        for (name, what, _) in BENCHES {
            println!("{name:<12} {what}");
        }
        return ExitCode::SUCCESS;
    }
    let Some((_, _, bench)) = BENCHES.iter().find(|(known, ..)| known == name) else {
        let names: Vec<&str> = BENCHES.iter().map(|(name, ..)| *name).collect();
        let names = names.join(", ");
        return wrong_call(format!("there is no benchmark '{name}'; there are: {names}"));
    };
    if cfg!(debug_assertions) {
        return wrong_call(
            "an unoptimised benchmark misleads: start it with `cargo xtask bench`".into(),
        );
    }
    match bench(rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("bench: {reason}");
            ExitCode::from(1)
        }
    }
}
