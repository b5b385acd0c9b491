//! Commands that a study runs before its cells: to mount a file system otherwise, to set a device's
//! read-ahead, to tell an appliance.
//!
//! A factor's `before` gives a level a command of the shell. It runs before each run of a cell with
//! that level, in the order of the study's factors, and finds in its surroundings `DIRECTORY`, the
//! machine's directory. One that fails ends the whole run: figures of a state that was not brought
//! about would be worse than none. Its `after` runs once when the study is over, however it ended, and
//! puts things back.
//!
//! A study may come from anybody, so commands run only where the user allows them.

use lab::design::CellSpec;
use lab::layout::LayoutFacts;
use lab::study::Study;
use lab::target::{CellRun, RepeatPlan, StopFlag, Target, TargetError};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Commands that should have put things back, and failed. The results are good, but the machine is
/// not as it was: the program must not end as if all were well.
static NOT_PUT_BACK: Mutex<Vec<TargetError>> = Mutex::new(Vec::new());

/// Why a study's `after` failed in this process, each once.
pub fn not_put_back() -> Vec<TargetError> {
    std::mem::take(&mut NOT_PUT_BACK.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Every command of a study, once each.
pub fn of_study(study: &Study) -> Vec<&str> {
    let mut commands: Vec<&str> = Vec::new();
    for command in
        study.factors.iter().flat_map(|factor| factor.before.values().chain(&factor.after))
    {
        if !commands.contains(&command.as_str()) {
            commands.push(command);
        }
    }
    commands
}

/// A target whose cells are preceded by commands.
pub struct WithCommands {
    /// What runs the cells.
    target: Box<dyn Target>,
    /// Whose factors have the commands.
    study: Study,
    /// Whether any command was run.
    prepared: AtomicBool,
}

impl WithCommands {
    /// The target, with the commands of its study.
    pub fn new(target: Box<dyn Target>, study: &Study) -> WithCommands {
        WithCommands { target, study: study.clone(), prepared: AtomicBool::new(false) }
    }

    fn prepare(&self, cell: &CellSpec) -> Result<(), TargetError> {
        let directory = super::machine::directory_of(&self.study, cell);
        for factor in &self.study.factors {
            let level = cell.factors.get(&factor.name).map(ToString::to_string);
            let Some(command) = level.and_then(|level| factor.before.get(&level)) else { continue };
            self.prepared.store(true, Ordering::Relaxed);
            run("before a cell", command, directory.as_deref())?;
        }
        Ok(())
    }
}

fn run(when: &str, command: &str, directory: Option<&Path>) -> Result<(), TargetError> {
    let fatal = |why: String| TargetError::Fatal {
        doing: format!("running `{command}` {when}"),
        why,
        mend: "try it by hand; it may need root".to_owned(),
    };
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).stdin(Stdio::null());
    if let Some(directory) = directory {
        shell.env("DIRECTORY", directory);
    }
    let output = shell.output().map_err(|error| fatal(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().map(str::trim).find(|line| !line.is_empty());
    Err(fatal(match said {
        Some(said) => format!("{}: {said}", output.status),
        None => output.status.to_string(),
    }))
}

impl Drop for WithCommands {
    /// Puts things back, where a cell was run. What can't be put back is kept for [`not_put_back`]; there is no result
    /// that it could spoil.
    fn drop(&mut self) {
        if !self.prepared.load(Ordering::Relaxed) {
            return;
        }
        let directory = self.study.machine.get("directory").and_then(|value| value.as_str());
        for command in self.study.factors.iter().filter_map(|factor| factor.after.as_ref()) {
            if let Err(error) = run("to put things back", command, directory.map(Path::new)) {
                NOT_PUT_BACK.lock().unwrap_or_else(PoisonError::into_inner).push(error);
            }
        }
    }
}

impl Target for WithCommands {
    fn machine(&self, cells: &[CellSpec]) -> BTreeMap<String, String> {
        self.target.machine(cells)
    }

    fn simulated(&self) -> bool {
        self.target.simulated()
    }

    fn jobs_max(&self) -> usize {
        // A command changes what other cells run on.
        1
    }

    fn layout(&self, cell: &CellSpec) -> Option<LayoutFacts> {
        self.target.layout(cell)
    }

    fn check(&self, cell: &CellSpec) -> Result<(), TargetError> {
        self.target.check(cell)
    }

    fn run(
        &self,
        cell: &CellSpec,
        plan: &RepeatPlan,
        stop: &StopFlag,
    ) -> Result<CellRun, TargetError> {
        self.prepare(cell)?;
        self.target.run(cell, plan, stop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_says_what_it_said_and_one_that_succeeds_knows_the_directory() {
        let here = Path::new("/tmp");
        assert!(run("before a cell", "test \"$DIRECTORY\" = /tmp", Some(here)).is_ok());
        let error = run("before a cell", "echo no such mount >&2; exit 3", None)
            .expect_err("it fails")
            .to_string();
        assert!(error.contains("no such mount") && error.contains('3'), "{error}");
    }
}
