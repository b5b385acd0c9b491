//! `cargo xtask bench …`: builds the benchmarks optimised, and starts them.

use crate::cargo;
use crate::failure::Failure;

/// `cargo xtask bench list | NAME [ARGUMENT]...`
pub fn run(args: &[String]) -> Result<(), Failure> {
    // By --bin, so that the features are those of `cargo build --release`, and its artefacts serve.
    let mut command = cargo::command(&["run", "--quiet", "--release", "--bin", "bench", "--"]);
    command.args(args);
    let status = command.status().map_err(|error| format!("starting cargo: {error}"))?;
    match status.code() {
        Some(0) => Ok(()),
        // It has said why.
        code => std::process::exit(code.unwrap_or(1)),
    }
}
