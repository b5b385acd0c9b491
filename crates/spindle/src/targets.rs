//! What the lab measures: a simulated machine, or this host.
//!
//! A study's `[machine]` and `[layouts.NAME]` tables are read here. A factor that has the name of one of
//! their keys sets that key, so disk models, controllers, chunk sizes can be varied like layouts.
//!
//! * [`machine`]: the tables, with the factors of a cell put in.
//! * [`layout`]: what a layout table says.
//! * [`array`]: a layout, built over devices; what it can do with itself.
//! * [`views`]: the disks' view.
//! * [`simulated`], [`real`]: the two targets.

mod array;
mod layout;
mod machine;
mod real;
mod simulated;
mod views;

use lab::study::Study;
use lab::target::Target;
use machine::Machine;
use std::fmt;

/// Why a study has no machine to run on. One line, with the mend.
#[derive(Debug)]
pub struct MachineError(String);

impl fmt::Display for MachineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The target that a study asks for.
///
/// # Errors
/// Where its machine can't be had.
pub fn open(study: &Study, destructive: bool) -> Result<Box<dyn Target>, MachineError> {
    let machine = Machine::read(study.machine.clone())
        .map_err(|why| MachineError(format!("[machine] of study '{}': {why}", study.name)))?;
    match machine {
        Machine::Simulated(_) => simulated::SimulatedTarget::new(study)
            .map(|target| Box::new(target) as Box<dyn Target>),
        Machine::Host(_) => real::HostTarget::new(study, destructive)
            .map(|target| Box::new(target) as Box<dyn Target>),
    }
}
