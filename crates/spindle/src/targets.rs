//! What the lab measures: a simulated machine, or this host.
//!
//! A study's `[machine]` and `[layouts.NAME]` tables are read here. A factor that has the name of one of
//! their keys sets that key, so disk models, controllers, chunk sizes can be varied like layouts.
//!
//! * [`machine`]: the tables, with the factors of a cell put in.
//! * [`layout`]: what a layout table says.
//! * [`mod@array`]: a layout, built over devices; what it can do with itself.
//! * [`views`]: the disks' view.
//! * [`surroundings`]: what this host tells of itself and of the storage below a path.
//! * [`simulated`], [`real`]: the two targets.
//! * [`served`]: a volume of this host behind NBD.
//! * [`commands`]: what a study runs before its cells.
//! * [`tools`]: the field's tools as workloads; [`directory`]: on a directory of this host;
//!   [`filesystem`]: on a simulated file system.
//! * [`crew`]: the workers of the field's tools on this host.

mod array;
mod commands;
pub mod crew;
mod directory;
mod filesystem;
mod layout;
mod machine;
mod real;
mod served;
mod simulated;
pub mod surroundings;
mod tickets;
mod tools;
mod views;

use lab::measure::{MeasureError, Volume};
use lab::study::{Kind, Study, Workload};
use lab::target::{CellRun, RepeatPlan, StopFlag, Target, TargetError};
use machine::Machine;
use rt::{IoErrorKind, Rt};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// Why a study has no machine to run on. One line, with the mend.
#[derive(Debug)]
pub struct MachineError(String);

impl fmt::Display for MachineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

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

pub use commands::{of_study as commands_of, put_back_failed};

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

/// What is measured below a directory of this host, a line a part.
pub fn host_lines(directory: &Path) -> BTreeMap<String, String> {
    let place = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    BTreeMap::from([
        ("host".to_owned(), real::host_line()),
        ("directory".to_owned(), place.display().to_string()),
    ])
}

/// A factor has made a simulated machine of a real one, or the reverse.
fn mixed_kinds() -> TargetError {
    TargetError::Unfit {
        what: "[machine]".to_owned(),
        why: "one study runs on one kind of machine".to_owned(),
        mend: "write two studies".to_owned(),
    }
}

/// Runs the workload of a cell on a volume, and says what went wrong in the lab's terms.
async fn measure(
    rt: Rt,
    volume: Volume,
    workload: Workload,
    plan: RepeatPlan,
    stop: StopFlag,
) -> Result<CellRun, TargetError> {
    let measured = match &workload.kind {
        Kind::Operation(operation) => {
            lab::measure::operation::operation(rt, volume, operation, &plan, &stop).await
        }
        _ => lab::measure::block::block(rt, volume, &workload, &plan, &stop).await,
    };
    measured.map_err(|error| {
        let doing = format!("running '{}'", workload.name);
        let failed = |mend: &str| TargetError::Failed {
            doing: doing.clone(),
            why: error.to_string(),
            mend: mend.to_owned(),
        };
        match &error {
            MeasureError::Interrupted => TargetError::Interrupted,
            MeasureError::Io(io) if io.kind == IoErrorKind::NoSpace => TargetError::Fatal {
                doing: doing.clone(),
                why: error.to_string(),
                mend: "free some space or choose another folder".to_owned(),
            },
            MeasureError::Io(_) => failed("see to the device that the error names"),
            MeasureError::VolumeTooSmall { .. } => failed("or leave the cell out"),
            MeasureError::NoOperation { .. } | MeasureError::NothingDone { .. } => {
                failed("or leave the cell out with `except`")
            }
        }
    })
}
