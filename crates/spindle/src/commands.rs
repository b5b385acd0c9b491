//! The commands, one file a group.
//!
//! What a command takes is put together when its word is met (`defer`), so that who calls one waits for no other's. What it does
//! is told where it stands among its group's; a doc comment of what it takes would be told in its place, so that is a plain one.

mod carried;
mod clock;
mod dry_run;
mod elsewhere;
mod form;
mod held;
pub mod hw;
pub mod lab;
pub mod lvm;
pub mod md;
pub mod mount;
mod mount_option;
mod progress;
mod replay;
mod reports;
pub mod scan;
pub mod serve;
pub mod workloads;
pub mod zfs;
pub mod zpool;

use crate::output::Failure;
use clap::Subcommand;
use std::path::PathBuf;

/// The command groups.
#[derive(Subcommand)]
#[command(defer = true)]
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
    /// Mount a dataset or snapshot of a ZFS pool, for reading, or with -o rw for writing
    Mount(mount::MountArgs),
    /// Show what lies on disks: RAID sets, pools, volume groups, partitions, file systems, and what to type next
    Scan(scan::ScanArgs),
    /// Serve files, block devices, RAID sets and volumes over NBD
    Serve(serve::ServeCommand),
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
        Command::Zfs(args) => zfs::run(args, devices, &carried::carry_out),
        Command::Mount(args) => mount::run(&args, devices),
        Command::Scan(args) => scan::run(&args, devices),
        Command::Serve(command) => serve::run(command, devices),
    }
}
