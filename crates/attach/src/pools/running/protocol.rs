//! What a command asks who holds a pool for, and what is answered: the [frame](crate::control::message) says how.
//!
//! A change here that the other end could misread raises the frame's [version](crate::control::message::VERSION).

use serde::{Deserialize, Serialize};

/// What can be asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Ask {
    /// Who it is: a [`Holder`].
    Who,
    /// Snapshots of one moment, all or none: nothing.
    Snapshot {
        /// Datasets, and what the snapshot of each is called.
        names: Vec<(String, String)>,
        /// Of all that is below, too.
        recursive: bool,
    },
}

/// Who holds a pool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Holder {
    /// Its process.
    pub process: u32,
    /// The command.
    pub what: String,
}
