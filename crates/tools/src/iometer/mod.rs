//! IOMeter: access specifications in `.icf` files.
//!
//! IOMeter (Intel 1998, open since 2001) keeps a fixed number of I/Os outstanding and mixes sizes,
//! reads and writes, random and sequential places by percent. Its files are how reviews and vendors
//! have written down loads since then. This is its engine over any [`FileTree`](rt::FileTree):
//!
//! * [`icf`] is what a file says, [`parse`](mod@parse) reads it;
//! * [`plan`](mod@plan) makes the tests that it asks for, with all of IOMeter's cycling;
//! * [`engine`] makes the test file and runs them; `worker` is one worker, `places` where its I/Os go;
//! * [`tally`] is what is counted and how figures come of it; [`output`] the table and the results file.
//!
//! What it doesn't have: networks, replies, the connection rate, displays, and IOMeter's own random
//! numbers: a fixed seed repeats a run of Spindle, not one of IOMeter.

pub mod engine;
mod error;
pub mod icf;
pub mod output;
pub mod parse;
mod places;
pub mod plan;
mod prepare;
pub mod tally;
mod worker;

pub use engine::{IometerOutcome, TestOutcome, run};
pub use error::IometerError;
pub use parse::{IcfError, parse};
pub use plan::{Options, Plan, PlanError, plan};
