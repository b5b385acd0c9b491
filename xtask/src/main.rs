//! The project's own commands: `cargo xtask ci`, `cargo xtask map`, `cargo xtask bench NAME`,
//! `cargo xtask planted`.
//!
//! One tool, so that what a developer runs and what continuous integration runs are the same thing. It
//! installs nothing; `.ci/run` does.

#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    reason = "xtask runs programs, reads clocks and its surroundings, and belongs to no engine"
)]

mod bench;
mod cargo;
mod ci;
mod failure;
mod map;
mod modules;
mod planted;

use failure::Failure;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask ci [--list] [--only STEP]...   run the checks, or some of them
       cargo xtask map [CRATE]...                 name every module in a line
       cargo xtask bench list                     name the benchmarks
       cargo xtask bench NAME [ARGUMENT]...       run one, beside its peers
       cargo xtask planted [--list] [NAME]...     see that tests catch bugs that are planted";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match args.split_first() {
        Some((command, rest)) if command == "ci" => ci::run(rest),
        Some((command, rest)) if command == "map" => map::run(rest),
        Some((command, rest)) if command == "bench" => bench::run(rest),
        Some((command, rest)) if command == "planted" => planted::run(rest),
        Some((command, _)) if command == "--help" || command == "help" => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => Err(Failure::Usage(USAGE.into())),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Failed(reason)) => {
            eprintln!("xtask: {reason}");
            ExitCode::from(1)
        }
        Err(Failure::Usage(text)) => {
            eprintln!("{text}");
            ExitCode::from(2)
        }
    }
}
