//! fio: job files, run as they are.
//!
//! [`read`] takes a job file to a [`Plan`], [`read_line`] what fio's command line says; [`run`] carries it out over a [`Crew`](workload::crew::Crew);
//! the [`FioOutcome`] tells it in fio's forms. What fio does and this does not is refused by the name of
//! the option, with its place in the file.
//!
//! Read in this order: `ini` (text to sections), `line` (a command line to sections), `value` (sizes, times, sums), `settings` (options to a
//! typed `spec`), `plan` (sections to jobs), `asked` (what they do, in a word each); `conductor` (which job when), `files` (names, sizes),
//! `layout` (making them), `worker` (one job's loop) with `aim` (where the next I/O goes; `map`, `skew`), `pace` (when),
//! `queue` (what is under way), `data` and `verify` (what is written and checked), `figures` and `series`
//! (what is counted), `search` and `steady` (jobs that look for a state); `outcome` (what a run gave), `output` with `json`,
//! `text` and `terse`.
//!
//! Rules:
//!
//! 1. The order of system calls, their sizes, and what each figure means are fio 3.33's; where they
//!    differ, `docs/guide/fio.md` says so.
//! 2. Random places and sizes are drawn from our generator: the same job goes to other places than in
//!    fio, by the same distribution.
//! 3. A job is one worker. Nothing is allocated for an I/O but its buffer.

#![forbid(unsafe_code)]

mod aim;
mod asked;
mod conductor;
mod data;
mod error;
mod figures;
mod files;
mod ini;
mod json;
mod layout;
mod line;
mod map;
mod names;
mod open;
mod outcome;
mod output;
mod pace;
mod plan;
mod queue;
mod search;
mod series;
mod settings;
mod shared;
mod skew;
mod spec;
mod steady;
mod terse;
mod text;
mod value;
mod verify;
mod worker;

pub use conductor::{Setup, check, run};
pub use error::{FioError, JobError, Place};
pub use figures::Direction;
pub use ini::Sources;
pub use layout::{Rooms, is_of_layout};
pub use line::CommandLine;
pub use names::nearest_of;
pub use outcome::{FioOutcome, PassedOver, Stamp};
pub use plan::{Plan, read, read_line};
pub use value::Machine;

/// fio's lines before the jobs begin: what each job is, and how many workers start.
pub fn opening(plan: &Plan, version: &str) -> String {
    text::opening(plan, version)
}
