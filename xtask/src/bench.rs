//! `cargo xtask bench …`: builds the benchmarks optimised, and starts them.

use crate::failure::Failure;
use std::process::Command;

/// `cargo xtask bench list | NAME [ARGUMENT]...`
pub fn run(args: &[String]) -> Result<(), Failure> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["run", "--quiet", "--release", "--package", "bench", "--"]).args(args);
    let status = command.status().map_err(|error| format!("starting cargo: {error}"))?;
    match status.code() {
        Some(0) => Ok(()),
        // It has said why.
        code => std::process::exit(code.unwrap_or(1)),
    }
}
