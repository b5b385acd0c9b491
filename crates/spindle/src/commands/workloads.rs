//! `spindle lab filebench`, `fio`, `bonnie`, ...: the field's tools, on a directory that is there.
//!
//! Each tool is a file here: its arguments, and its output. What they share is a [`Session`]: the
//! directory, the crew of workers, the content that is written, repeats, and the results.

pub mod bonnie;
pub mod session;
mod this_machine;

use crate::commands::Failure;
use clap::Subcommand;

/// The tools.
#[derive(Subcommand)]
pub enum WorkloadCommand {
    /// bonnie++: write, rewrite, read, seek, and create, stat and delete files
    Bonnie(bonnie::BonnieArgs),
}

/// Carries out a tool's command.
///
/// # Errors
/// With the line to print.
pub fn run(command: WorkloadCommand) -> Result<(), Failure> {
    match command {
        WorkloadCommand::Bonnie(args) => bonnie::run(args),
    }
}
