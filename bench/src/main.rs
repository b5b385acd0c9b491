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
mod fidelity;
mod lab_load;
mod names;
mod nbd;
mod parity;
mod peer;
mod raid;
mod simulation;
mod zfs_read;
mod zfs_write;

use std::process::ExitCode;

/// A benchmark's code: it is given its arguments.
type Code = fn(&[String]) -> Result<(), String>;

/// The code of the benchmark of this name.
fn code(name: &str) -> Option<Code> {
    Some(match name {
        "codec" => codec::run,
        "cores" => cores::run,
        "executor" => executor::run,
        "fidelity" => fidelity::run,
        "lab-load" => lab_load::run,
        "nbd" => nbd::run,
        "parity" => parity::run,
        "raid" => raid::run,
        "simulation" => simulation::run,
        "zfs-read" => zfs_read::run,
        "zfs-write" => zfs_write::run,
        _ => return None,
    })
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let wrong_call = |text: String| {
        eprintln!("{text}");
        ExitCode::from(2)
    };
    let Some((name, rest)) = args.split_first() else {
        return wrong_call("usage: cargo xtask bench list | NAME [ARGUMENT]...".into());
    };
    if let Err(said) = names::check(name) {
        return wrong_call(said);
    }
    let Some(bench) = code(name) else {
        return wrong_call(format!("the benchmark '{name}' has no code"));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_benchmark_that_is_named_has_its_code() {
        for (name, _) in names::BENCHES {
            assert!(code(name).is_some(), "{name}");
        }
        assert!(code("list").is_none());
    }
}
