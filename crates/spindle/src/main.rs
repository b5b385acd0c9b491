//! `spindle`: the program. It reads the command line, builds what the command works on, and says how it
//! went: exit status 0 done, 1 failed, 2 wrong usage; errors are one line on standard error. A call that names devices and no command
//! is one of `scan`.
//!
//! * [`commands`]: one file a command group.
//! * [`events`]: what happens to what is attached, printed.
//! * [`examples`]: what stands at the end of each command's help.
//! * [`output`]: what it says, and what a command fails with.
//! * [`pools`]: how pools are opened.
//! * [`printable`]: names and texts of others, made such that they can be printed.
//! * [`signals`]: what ends the program before its time.
//! * [`usage`]: what is said of a wrong call.

#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the program is where the real world is let in"
)]

mod commands;
mod events;
mod examples;
mod output;
mod pools;
mod printable;
mod signals;
mod usage;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;

/// A storage array in user space, and a lab that measures storage.
#[derive(Parser)]
#[command(name = "spindle", version, propagate_version = true, arg_required_else_help = true)]
struct Arguments {
    /// Where disks lie: a file, a block device, or a folder of them; may be given several times. Also
    /// SPINDLE_DEVICES, divided by colons
    #[arg(short = 'd', long = "devices", value_name = "DIR|FILE")]
    devices: Vec<std::path::PathBuf>,
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    let words = commands::workloads::fio::arranged(std::env::args_os().collect());
    let found = Arguments::command().try_get_matches_from(&words);
    let parsed = found.and_then(|found| Arguments::from_arg_matches(&found));
    let arguments = match parsed {
        Ok(arguments) => arguments,
        Err(error) => match usage::scan(&error, std::env::args_os().skip(1), is_command) {
            Some(usage::Scan { devices, force, json }) => {
                let scan = commands::scan::ScanArgs::of(Vec::new(), force, json);
                Arguments { devices, command: commands::Command::Scan(scan) }
            }
            None => return refuse(error, &words),
        },
    };
    match commands::run(arguments.command, &arguments.devices) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.message.is_empty() {
                output::say(&format!("spindle: {}", failure.message));
            }
            ExitCode::from(failure.status)
        }
    }
}

/// The command line with all that commands take, and the examples in their help. Who calls one command waits for no other's: what
/// that takes is asked for as its word is met.
fn whole() -> clap::Command {
    let mut command = Arguments::command();
    command.build();
    examples::shown(command)
}

const NAMES: usage::Names =
    usage::Names { is_command, is_tool: commands::workloads::WorkloadCommand::has_subcommand };

fn is_command(word: &str) -> bool {
    Arguments::command().find_subcommand(word).is_some()
}

/// Help and version go out as clap writes them; a wrong call becomes one line.
fn refuse(error: clap::Error, words: &[OsString]) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let error = whole().try_get_matches_from(words).err().unwrap_or(error);
            let failed = error.use_stderr();
            // Nothing can be done where standard output is closed.
            let _ = error.print();
            ExitCode::from(if failed { 2 } else { 0 })
        }
        _ => {
            output::say(&format!("spindle: {}", usage::line(&error, words, &NAMES)));
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
        whole().debug_assert();
    }
}
