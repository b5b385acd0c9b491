//! What a command asks who holds a pool for, and what is answered: the [frame](crate::control::message) says how.
//!
//! A change here that the other end could misread raises the frame's [version](crate::control::message::VERSION).

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What can be asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Ask {
    /// Who it is: a [`Holder`].
    Who,
    /// A command that changes the pool: [`Done`].
    Command {
        /// Its words, without the program's name.
        words: Vec<String>,
        /// Where its disks lie: whole paths.
        devices: Vec<PathBuf>,
    },
}

/// What became of a command.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Done {
    /// What it said, in order.
    pub said: Vec<Said>,
    /// The line that says why it failed. Empty where it didn't, or said so already.
    pub message: String,
    /// The exit status.
    pub status: u8,
}

/// A piece of what a command said.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Said {
    /// On standard output.
    Out(String),
    /// A line on standard error.
    Error(String),
}

/// Who holds a pool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Holder {
    /// Its process.
    pub process: u32,
    /// The command.
    pub what: String,
}
