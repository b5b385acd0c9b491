//! `spindle lab filebench`, `fio`, `bonnie`, ...: the field's tools, on a directory that is there.
//!
//! Each tool is a file here: its arguments, and its output. What they share is a [session]: the
//! directory, the crew of workers, the content that is written, repeats, and the results.

pub mod bonnie;
pub mod filebench;
pub mod fio;
pub mod iometer;
mod made;
pub mod probe;
pub mod session;
pub mod slob;
pub mod smallfiles;
pub mod tiobench;

use crate::output::Failure;
use clap::Subcommand;

/// The tools.
#[derive(Subcommand)]
#[command(defer = true)]
pub enum WorkloadCommand {
    /// filebench: a workload file (.f) or personality, as it is
    Filebench(filebench::FilebenchArgs),
    /// fio: job files, and jobs by its own options
    Fio(fio::FioArgs),
    /// bonnie++: write, rewrite, read, seek, and create, stat and delete files
    Bonnie(bonnie::BonnieArgs),
    /// tiobench: threads by sequential and random reads and writes, with latencies
    Tiobench(tiobench::TiobenchArgs),
    /// Create, stat, read, copy and delete many small files
    #[command(name = "smallfiles")]
    SmallFiles(smallfiles::SmallFilesArgs),
    /// IOMeter: the access specifications of an .icf file, with its cycling
    Iometer(iometer::IometerArgs),
    /// SLOB: readers and writers of 8 KiB blocks, by a slob.conf
    Slob(slob::SlobArgs),
    /// hdparm -t and dd, with repeats, over block sizes and read-aheads
    Probe(probe::ProbeArgs),
}

/// Carries out a tool's command.
///
/// # Errors
/// With the line to print.
pub fn run(command: WorkloadCommand) -> Result<(), Failure> {
    match command {
        WorkloadCommand::Filebench(args) => filebench::run(args),
        WorkloadCommand::Fio(args) => fio::run(args),
        WorkloadCommand::Bonnie(args) => bonnie::run(args),
        WorkloadCommand::Tiobench(args) => tiobench::run(args),
        WorkloadCommand::SmallFiles(args) => smallfiles::run(args),
        WorkloadCommand::Iometer(args) => iometer::run(args),
        WorkloadCommand::Slob(args) => slob::run(args),
        WorkloadCommand::Probe(args) => probe::run(args),
    }
}
