//! What can be wrong with an `.icf` file, and the limits that it must keep.

/// The largest file that is read, in bytes. Real ones have some 10 KiB; the limit keeps a wrong file
/// (an image, a disk) out of memory.
pub const FILE_BYTES_MAX: usize = 4 << 20;

/// Access specifications in a file. IOMeter's largest collections have some 50.
pub const SPECS_MAX: usize = 1000;

/// Lines of an access specification: IOMeter's own limit, as each has at least 1 %.
pub const SPEC_LINES_MAX: usize = 100;

/// Machines in a file.
pub const MANAGERS_MAX: usize = 256;

/// Access specifications of one worker.
pub const ASSIGNED_MAX: usize = 1000;

/// Targets of one worker: IOMeter's own limit.
pub const TARGETS_MAX: usize = 2048;

/// I/Os outstanding to one target. No disk and no array tells more of them apart.
pub const OUTSTANDING_MAX: u64 = 4096;

/// The largest I/O, in bytes. A buffer of this size is made for each that is outstanding.
pub const IO_BYTES_MAX: u64 = 256 << 20;

/// The longest pause before a burst, in milliseconds: an hour.
pub const DELAY_MS_MAX: u64 = 3_600_000;

/// The longest run, in hours: two months.
pub const RUN_HOURS_MAX: u64 = 1440;

/// Where in a file something is wrong, and what.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {kind}")]
pub struct IcfError {
    /// The file, as the caller called it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1, in characters.
    pub column: u32,
    /// What is wrong.
    pub kind: IcfErrorKind,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IcfErrorKind {
    /// Too much.
    #[error("the file is larger than {} MiB; an .icf file has some KiB", FILE_BYTES_MAX >> 20)]
    TooLarge,
    /// The head is missing.
    #[error("an .icf file begins with a line like 'Version 1.1.0', not with '{found}'")]
    NoVersion {
        /// The line that stands there.
        found: String,
    },
    /// No section.
    #[error(
        "'{found}' is no section; there are 'TEST SETUP, 'RESULTS DISPLAY, 'ACCESS SPECIFICATIONS and \
         'MANAGER LIST (a comment has a space after its ')"
    )]
    UnknownSection {
        /// The line.
        found: String,
    },
    /// No key of the section.
    #[error("{section} has no key '{key}'; correct it or remove it with its value")]
    UnknownKey {
        /// The section.
        section: &'static str,
        /// The key.
        key: String,
    },
    /// Something else stands there.
    #[error("expected {expected}, found '{found}'")]
    Expected {
        /// What belongs there.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// The file ends too soon.
    #[error("the file ends within {section}; it lacks '{end}'")]
    UnexpectedEnd {
        /// The section.
        section: &'static str,
        /// The line that ends it.
        end: &'static str,
    },
    /// No number.
    #[error("{what} is a whole number, not '{found}'")]
    NotNumber {
        /// Of what.
        what: &'static str,
        /// What stands there.
        found: String,
    },
    /// Too small or too large.
    #[error("{what} is {found}; it must lie between {min} and {max}")]
    OutOfRange {
        /// Of what.
        what: &'static str,
        /// The number.
        found: u64,
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
    },
    /// Not one of the words.
    #[error("{what} is one of {words}, not '{found}'")]
    UnknownWord {
        /// Of what.
        what: &'static str,
        /// What stands there.
        found: String,
        /// What may.
        words: &'static str,
    },
    /// Too many of something.
    #[error("there are more than {max} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        max: usize,
    },
    /// The shares of an access specification.
    #[error(
        "the shares ('% of size') of the access specification '{spec}' add up to {sum}, not to 100"
    )]
    SharesNot100 {
        /// The specification.
        spec: String,
        /// The sum.
        sum: u64,
    },
    /// A worker is assigned what is not there.
    #[error("there is no access specification '{name}'; define it under 'ACCESS SPECIFICATIONS")]
    UnknownSpec {
        /// Its name.
        name: String,
    },
    /// A network worker.
    #[error("the worker '{worker}' is a network worker; only DISK workers can run: remove it")]
    NetworkWorker {
        /// Its name.
        worker: String,
    },
    /// A network target.
    #[error("the target '{target}' is a network target; only DISK targets can be used: remove it")]
    NetworkTarget {
        /// Its name.
        target: String,
    },
    /// A reply.
    #[error(
        "the access specification '{spec}' asks for a reply of {bytes} B, which only network tests \
         have; set it to 0"
    )]
    Reply {
        /// The specification.
        spec: String,
        /// The size of the reply.
        bytes: u64,
    },
    /// Opening and closing again and again.
    #[error("testing the connection rate is not supported; set it to DISABLED")]
    ConnectionRate,
    /// A key that belongs to network workers.
    #[error("'{key}' belongs to network workers; only DISK workers can run: remove it")]
    NetworkKey {
        /// The key.
        key: String,
    },
}
