//! What a command asks who holds a pool for, and what is answered: the [frame](crate::control::message) says how.
//!
//! A change here that the other end could misread raises the frame's [version](crate::control::message::VERSION).

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use zfs_store::IoCounts;

/// What can be asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Ask {
    /// Who it is: a [`Holder`].
    Who,
    /// What its devices were asked for: [`Counts`].
    Counts,
    /// A volume, by NBD on this connection from the answer on.
    Volume {
        /// Its name.
        name: String,
    },
    /// The files of a dataset, by [calls](super::files) on this connection from the answer on.
    Files {
        /// Its name.
        name: String,
    },
    /// A command that changes the pool: [`Done`].
    Command {
        /// Its words, without the program's name.
        words: Vec<String>,
        /// Where its disks lie: whole paths.
        devices: Vec<PathBuf>,
        /// Where paths begin that are not whole.
        directory: PathBuf,
    },
}

/// What a pool's devices were asked for since it is held.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// How long that is.
    pub nanoseconds: u64,
    /// Of each leaf.
    pub leaves: Vec<LeafCounts>,
}

/// What a leaf was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeafCounts {
    /// Its GUID.
    pub guid: u64,
    /// Reads.
    pub reads: u64,
    /// Bytes of them.
    pub bytes_read: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes of them.
    pub bytes_written: u64,
}

impl LeafCounts {
    /// Of one by this GUID.
    pub fn of(guid: u64, counts: IoCounts) -> LeafCounts {
        let IoCounts { reads, bytes_read, writes, bytes_written } = counts;
        LeafCounts { guid, reads, bytes_read, writes, bytes_written }
    }
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
