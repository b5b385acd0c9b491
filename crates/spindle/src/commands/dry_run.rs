//! Commands tried out: carried out on devices that stay as they are, under a [cover](attach::context) in memory.

use crate::output::{Failure, say};
use attach::context::COVER_BYTES_MAX;
use clap::Args;

// How a command is tried out.
#[derive(Args, Clone, Copy)]
pub struct DryRunArgs {
    /// Try it out: what is written is kept in memory and forgotten, and the devices stay as they are
    #[arg(id = "tried_out", long = "dry-run", global = true)]
    is_wanted: bool,
}

impl DryRunArgs {
    /// Carries a command out, or tries it out. `not_tried` is what it changes besides devices, where it does.
    ///
    /// # Errors
    /// Those of the command, and where it can't be tried out.
    pub fn run(
        self,
        not_tried: Option<&str>,
        command: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if !self.is_wanted {
            return command();
        }
        self.refuse(not_tried)?;
        attach::context::dry_run();
        let done = command();
        // Of the devices below nobody asks for space here.
        let is_full = |failure: &Failure| failure.message.contains("no space left");
        let full = match done.as_ref().is_err_and(is_full) {
            false => String::new(),
            true => format!(
                "; it keeps {COVER_BYTES_MAX} of changes in memory at the most, and what came of it says nothing of the command in earnest"
            ),
        };
        say(&format!("note: a dry run: the devices are as they were{full}"));
        done
    }

    /// Refuses a command that can't be tried out, where that was wanted.
    ///
    /// # Errors
    /// It was.
    pub fn refuse(self, not_tried: Option<&str>) -> Result<(), Failure> {
        match not_tried.filter(|_| self.is_wanted) {
            None => Ok(()),
            Some(what) => {
                Err(Failure::usage(format!("there is no dry run of this command: {what}")))
            }
        }
    }
}
