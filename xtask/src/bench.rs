//! `cargo xtask bench …`: names the benchmarks, builds them optimised, and starts one.

use crate::cargo;
use crate::failure::Failure;

/// The table is the benchmarks' own; to read it they need not be built.
#[path = "../../bench/src/names.rs"]
mod names;

const USAGE: &str = "usage: cargo xtask bench list | NAME [ARGUMENT]...";

/// `cargo xtask bench list | NAME [ARGUMENT]...`
pub fn run(args: &[String]) -> Result<(), Failure> {
    let name = args.first().ok_or_else(|| Failure::Usage(USAGE.into()))?;
    if name == "list" {
        for (name, what) in names::BENCHES {
            println!("{name:<12} {what}");
        }
        return Ok(());
    }
    names::check(name).map_err(Failure::Usage)?;
    // By --bin, so that the features are those of `cargo build --release`, and its artefacts serve. Not --quiet: the first
    // build takes minutes, and cargo says on standard error how far it is.
    let mut command = cargo::command(&["run", "--release", "--bin", "bench", "--"]);
    command.args(args);
    let status = command.status().map_err(|error| format!("starting cargo: {error}"))?;
    match status.code() {
        Some(0) => Ok(()),
        // It has said why.
        code => std::process::exit(code.unwrap_or(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// None of these starts cargo: a build would show in the time of this test.
    #[test]
    fn listing_and_wrong_names_build_nothing() {
        assert!(run(&["list".to_owned()]).is_ok());
        let Err(Failure::Usage(said)) = run(&["speed".to_owned()]) else {
            panic!("it is accepted")
        };
        assert!(said.contains("'speed'") && said.contains("zfs-write"), "{said}");
        assert!(matches!(run(&[]), Err(Failure::Usage(_))));
    }
}
