//! The commands, one file a group, and what they fail with.

mod clock;
mod form;
pub mod hw;
pub mod lab;
pub mod lvm;
pub mod md;
pub mod mount;
mod progress;
pub mod serve;
pub mod workloads;
pub mod zfs;
pub mod zpool;

use crate::foreign;
use clap::Subcommand;
use std::io::Write;
use std::path::PathBuf;

/// The command groups.
#[derive(Subcommand)]
pub enum Command {
    /// Measure storage: run studies, read and compare their results
    #[command(subcommand)]
    Lab(lab::LabCommand),
    /// Show the hardware profiles that simulated machines are made of
    #[command(subcommand)]
    Hw(hw::HwCommand),
    /// Work with RAID sets as Linux md keeps them on their members
    Md(md::MdArgs),
    /// Work with volume groups and logical volumes as LVM2 keeps them
    Lvm(lvm::LvmArgs),
    /// Work with ZFS pools
    Zpool(zpool::ZpoolArgs),
    /// Work with the datasets of ZFS pools
    Zfs(zfs::ZfsArgs),
    /// Mount a dataset or snapshot of a ZFS pool, for reading
    Mount(mount::MountArgs),
    /// Serve files, block devices, RAID sets and volumes over NBD
    Serve(serve::ServeCommand),
}

/// A command that did not succeed.
#[derive(Debug)]
pub struct Failure {
    /// One line: the thing and the mend. Empty where it was said already.
    pub message: String,
    /// 1 failed, 2 wrong usage.
    pub status: u8,
}

impl Failure {
    /// It was asked rightly, and failed.
    pub fn failed(message: impl ToString) -> Failure {
        Failure { message: foreign::line(&message.to_string()), status: 1 }
    }

    /// It failed, and why was said already.
    pub fn said() -> Failure {
        Failure { message: String::new(), status: 1 }
    }

    /// It was asked wrongly: a file, name or value of the user's.
    pub fn usage(message: impl ToString) -> Failure {
        Failure { message: foreign::line(&message.to_string()), status: 2 }
    }
}

impl From<attach::Error> for Failure {
    fn from(error: attach::Error) -> Failure {
        Failure { message: foreign::line(&error.to_string()), status: error.status() }
    }
}

/// Carries out a command. `devices` is where the disks lie that a command works on.
///
/// # Errors
/// With the line to print and the exit status.
pub fn run(command: Command, devices: &[PathBuf]) -> Result<(), Failure> {
    match command {
        Command::Lab(command) => lab::run(command),
        Command::Hw(command) => hw::run(command),
        Command::Md(args) => md::run(args, devices),
        Command::Lvm(args) => lvm::run(args, devices),
        Command::Zpool(args) => zpool::run(args, devices),
        Command::Zfs(args) => zfs::run(args, devices),
        Command::Mount(args) => mount::run(&args, devices),
        Command::Serve(command) => serve::run(command, devices),
    }
}

/// Text to standard output. Foreign words in it went through [`foreign`]; what did not can still not steer a terminal.
pub fn print(text: &str) -> Result<(), Failure> {
    print_bytes(foreign::guard(text).as_bytes())
}

/// JSON to standard output.
pub fn print_json(text: &str) -> Result<(), Failure> {
    print_bytes(foreign::json(text).as_bytes())
}

/// Bytes to standard output: names that went through [`foreign::name`], or ended with zeros. A reader that has seen enough
/// (`| head`) is no failure.
pub fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("writing to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// A line on standard error. Nobody may be reading it any more; that is no reason to stop.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", foreign::line(line));
}
