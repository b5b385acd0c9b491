//! What the lab measures: a simulated machine, or this host.
//!
//! A study's `[machine]` and `[layouts.NAME]` tables are read here. A factor that has the name of one of
//! their keys sets that key, so disk models, controllers, chunk sizes can be varied like layouts.
//!
//! * `machine`: the tables, with the factors of a cell put in; `machine_lines`: what that is, in words.
//! * `layout`: what a layout table says.
//! * `array`: a layout, built over devices; what it can do with itself.
//! * `views`: the disks' view. `worth`: what a layout is worth beside its speed.
//! * [`surroundings`]: what this host tells of itself and of the storage below a path.
//! * `simulated`, `real`: the two targets; `left_over`: what a killed run of the second leaves.
//! * `ssds`: in which state the solid-state drives of the first begin.
//! * `served`: a volume of this host behind NBD.
//! * `commands`: what a study runs before its cells.
//! * `tools`: the field's tools as workloads; `directory`: on a directory of this host;
//!   `filesystem`: on a simulated file system.
//! * [`crew`]: the workers of the field's tools on this host.
//! * [`inputs`]: files that a person wrote. [`this_machine`]: its memory, its name, its kernel.

#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "targets are where the lab meets the real world"
)]

mod array;
mod commands;
pub mod crew;
mod directory;
pub mod error;
mod files;
mod filesystem;
pub mod inputs;
mod layout;
mod left_over;
mod machine;
mod machine_lines;
mod measured;
mod paid_io;
mod real;
mod served;
mod simulated;
mod ssds;
pub mod surroundings;
mod table;
pub mod this_machine;
mod tickets;
mod tools;
mod views;
mod worth;

use error::MachineError;
use lab::study::Study;
use lab::target::Target;
use machine::Machine;

/// What a study may do that reaches beyond it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leave {
    /// Write to devices and files that have content.
    pub destructive: bool,
    /// Run the commands of its factors.
    pub commands: bool,
}

impl Leave {
    /// All leave: for looking at a study without running it.
    pub fn all() -> Leave {
        Leave { destructive: true, commands: true }
    }
}

pub use commands::{not_put_back, of_study as commands_of};
pub use this_machine::host_lines;

/// The target that a study asks for.
///
/// # Errors
/// Where its machine can't be had, or it asks for more than it has leave for.
pub fn open(study: &Study, leave: Leave) -> Result<Box<dyn Target>, MachineError> {
    let machine = Machine::read(study.machine.clone())
        .map_err(|why| MachineError(format!("[machine] of study '{}': {why}", study.name)))?;
    let commands = commands_of(study);
    if let (Machine::Simulated(_), false) = (&machine, commands.is_empty()) {
        return Err(MachineError(format!(
            "study '{}': commands run on a real machine only; leave out `before`, or write kind = \"host\"",
            study.name
        )));
    }
    if !commands.is_empty() && !leave.commands {
        return Err(MachineError(format!(
            "study '{}' runs commands on this host ({}); allow them with --allow-commands",
            study.name,
            commands.join("; ")
        )));
    }
    let target: Box<dyn Target> = match machine {
        Machine::Simulated(machine) => Box::new(simulated::SimulatedTarget::new(study, machine)?),
        Machine::Host(machine) => {
            Box::new(real::HostTarget::new(study, machine, leave.destructive)?)
        }
    };
    if commands.is_empty() {
        return Ok(target);
    }
    Ok(Box::new(commands::WithCommands::new(target, study)))
}
