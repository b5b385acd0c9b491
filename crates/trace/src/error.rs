//! Why a trace can't be used, in one line that names the file and the mend.

use crate::name::Format;

/// Why a trace can't be used. One line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// The file can't be read.
    #[error("{file}: {reason}; give the path of a readable trace")]
    Unreadable {
        /// The path.
        file: String,
        /// What the system says.
        reason: String,
    },
    /// A line makes no request.
    #[error("{file}:{line}: {mend}")]
    Wrong {
        /// The path.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong and how to mend it.
        mend: String,
    },
    /// It looks like no format that is known.
    #[error(
        "{file}: what it is written in can't be told from its lines; say it with --format: {known}"
    )]
    Unknown {
        /// The path.
        file: String,
        /// The names of the formats.
        known: String,
    },
    /// There is no request in it.
    #[error("{file}: there is no read and no write in it (as {format}); is it in another format?")]
    Empty {
        /// The path.
        file: String,
        /// What it was taken for.
        format: Format,
    },
    /// It is of several disks.
    #[error("{file}: it is of several disks, choose one with --device: {devices}")]
    Devices {
        /// The path.
        file: String,
        /// Their names.
        devices: String,
    },
}
