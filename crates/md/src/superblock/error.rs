//! Why bytes are not the structure they should be: the structure, the field, its place, the problem.

use std::fmt;

/// Which structure was being decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structure {
    /// Superblock 1.0, 1.1 or 1.2.
    SuperblockV1,
    /// Superblock 0.90.
    SuperblockV090,
    /// Superblock of a write-intent bitmap.
    Bitmap,
    /// Bad-block log.
    BadBlockLog,
    /// Header of a partial parity log.
    PplHeader,
    /// Meta block of a write journal.
    Journal,
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Structure::SuperblockV1 => "md superblock 1.x",
            Structure::SuperblockV090 => "md superblock 0.90",
            Structure::Bitmap => "write-intent bitmap",
            Structure::BadBlockLog => "bad-block log",
            Structure::PplHeader => "PPL header",
            Structure::Journal => "journal meta block",
        })
    }
}

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The bytes end before the field does.
    #[error("the bytes end there")]
    Truncated,
    /// Not the number that says what it is.
    #[error("{found:#010x} where {expected:#010x} is expected")]
    Magic {
        /// What is there.
        found: u32,
        /// What should be.
        expected: u32,
    },
    /// The bytes are not those that were written.
    #[error("checksum {found:08x}, computed {computed:08x}: the bytes are damaged")]
    Checksum {
        /// What is there.
        found: u32,
        /// What the bytes give.
        computed: u32,
    },
    /// A number outside of what the field may hold.
    #[error("{found} is not within {least} to {most}")]
    Range {
        /// What is there.
        found: u64,
        /// The least that may be.
        least: u64,
        /// The most that may be.
        most: u64,
    },
    /// Something that md knows and Spindle does not support.
    #[error("{0} is not supported")]
    Unsupported(&'static str),
    /// Bits that nobody has named yet.
    #[error("unknown bits {0:#x}: a newer md has written it")]
    UnknownBits(u32),
    /// Two fields that exclude one another.
    #[error("{0}")]
    Contradiction(&'static str),
}

/// Why bytes can't be decoded. Who read them adds the device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{structure}, field {field} at byte {offset}: {problem}")]
pub struct FormatError {
    /// The structure.
    pub structure: Structure,
    /// The field's name in md's headers.
    pub field: &'static str,
    /// Where it begins, in bytes from the start of the structure.
    pub offset: usize,
    /// What is wrong with it.
    pub problem: Problem,
}

impl FormatError {
    /// Whether there is simply nothing of the kind: no magic.
    pub fn is_absence(&self) -> bool {
        matches!(self.problem, Problem::Magic { .. })
    }
}
