//! What can be wrong: with a workload file ([`WmlError`]), and with a run ([`FilebenchError`]).
//!
//! An error in a file names file, line and column, and says what would mend it. Nothing is guessed:
//! a word that the language does not have is refused, so that no line of a workload is silently
//! without effect.

use rt::TreeError;
use std::sync::Arc;
use stdx::ByteCount;
use workload::crew::{WORKERS_MAX, WorkerLost};
use workload::io_failure::IoFailure;

/// A place in a workload file, counted from 1. Columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
}

/// Something wrong in a workload file, or in a `--set` of the command line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{}:{}: {kind}", .at.line, .at.column)]
pub struct WmlError {
    /// The file's name, as it was given.
    pub file: Arc<str>,
    /// Where.
    pub at: Position,
    /// What.
    pub kind: WmlErrorKind,
}

/// What is wrong in a workload file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WmlErrorKind {
    /// The file is longer than any workload.
    #[error("the file has {bytes} bytes; a workload file has {max} at the most")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// A character outside the language.
    #[error("unexpected character {0:?}")]
    Character(char),
    /// A string that is never closed.
    #[error("the string that begins here has no closing \"")]
    OpenString,
    /// Digits followed by something that is no unit.
    #[error("{0:?} is no number; write digits, and k, m or g (1024, 1024^2, 1024^3) behind them")]
    Number(String),
    /// A number beyond 64 bits.
    #[error("{0:?} is larger than 2^63 - 1")]
    NumberTooLarge(String),
    /// A word that begins no command.
    #[error(
        "unknown command {0:?}; commands are create, debug, define, echo, enable, eventgen, foreach, \
         list, psrun, quit, run, set, sleep, system, usage and version"
    )]
    Command(String),
    /// A command that Spindle does not carry out.
    #[error("{word} is not carried out: {why}")]
    NotCarriedOut {
        /// The command.
        word: String,
        /// Why, and what to do instead.
        why: &'static str,
    },
    /// Something else should stand here.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// What should stand here.
        expected: &'static str,
        /// What stands here.
        found: String,
    },
    /// A word that is no attribute of what is defined.
    #[error("unknown attribute {word:?} of a {entity}; its attributes are {known}")]
    Attribute {
        /// The word.
        word: String,
        /// What is defined.
        entity: &'static str,
        /// The attributes that it has.
        known: String,
    },
    /// An attribute that must be there.
    #[error("the {entity} has no {attribute}; add {attribute}=...")]
    Missing {
        /// What is defined.
        entity: &'static str,
        /// What is missing.
        attribute: &'static str,
    },
    /// A flowop that is neither built in nor defined above.
    #[error(
        "unknown flowop {word:?}; it is neither built in nor defined above this line ({known})"
    )]
    Flowop {
        /// The word.
        word: String,
        /// The built-in ones.
        known: String,
    },
    /// A variable that nothing sets.
    #[error("{0} is not set; add a line `set {0}=...` above, or set it on the command line")]
    Unset(String),
    /// A variable that the file, or the composite, does not have.
    #[error("there is no variable {name} here; there are: {known}")]
    NoSuchVariable {
        /// The variable.
        name: String,
        /// Those that are there.
        known: String,
    },
    /// A value of the wrong kind.
    #[error("{what} must be {expected}, and is {found}")]
    Kind {
        /// The attribute or command.
        what: String,
        /// What it takes.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// A number outside its range.
    #[error("{what} is {value}; it must be from {min} to {max}")]
    Range {
        /// The attribute or command.
        what: String,
        /// Its value.
        value: String,
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// Arithmetic that leaves 64 bits, or divides by zero.
    #[error("the result of {0} is no number from 0 to 2^63 - 1")]
    Arithmetic(String),
    /// A file or fileset that is not defined.
    #[error("there is no file or fileset {0:?}; define it above this line")]
    Fileset(String),
    /// Two with one name.
    #[error("{entity} {name:?} is defined twice")]
    Twice {
        /// What.
        entity: &'static str,
        /// Its name.
        name: String,
    },
    /// A name or path that can't stand below the directory.
    #[error("{0:?} is no plain name below the directory of the run")]
    BadPath(String),
    /// A target that no flowop has, or none of the kind that is needed.
    #[error("no {kind} flowop is named {name:?}{where_}")]
    Target {
        /// The kind that is needed.
        kind: &'static str,
        /// The name.
        name: String,
        /// Where it was looked for.
        where_: &'static str,
    },
    /// An attribute that the flowop can't do without.
    #[error("the flowop {flowop} needs {needs}")]
    FlowopNeeds {
        /// The kind of flowop.
        flowop: &'static str,
        /// What it needs.
        needs: &'static str,
    },
    /// A random variable's type without its table, an unknown type, an unknown parameter.
    #[error("{0}")]
    Distribution(DistributionError),
    /// Percentages of a table that don't add up.
    #[error("the percentages of the table add up to {0}, not to 100")]
    Percentages(u64),
    /// More workers than a crew runs.
    #[error("{0} threads in all; {WORKERS_MAX} at the most")]
    Workers(u64),
    /// More of something than the engine keeps.
    #[error("more than {max} {what}")]
    TooMany {
        /// What.
        what: &'static str,
        /// The limit.
        max: u64,
    },
    /// No process to run.
    #[error("the workload has no process; add `define process name=... {{ thread ... }}`")]
    NoProcess,
}

/// What is wrong with a random variable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DistributionError {
    /// `tabular` without a table.
    #[error("type=tabular needs randtable={{{{percent, min, max}}, ...}}")]
    NoTable,
    /// A type that there is not.
    #[error("unknown type {0:?}; it is uniform, gamma or tabular")]
    RandomType(String),
    /// A source that there is not.
    #[error("unknown randsrc {0:?}; it is urandom or rand48")]
    Source(String),
    /// A custom type that there is not.
    #[error(
        "unknown type {0:?}; it is cvar-erlang, cvar-exponential, cvar-gamma, cvar-lognormal, \
         cvar-normal, cvar-triangular, cvar-uniform or cvar-weibull"
    )]
    CustomType(String),
    /// A parameter that the type does not have.
    #[error("{type_name} has no parameter {parameter:?}; it has {known}")]
    Parameter {
        /// The type.
        type_name: &'static str,
        /// The word.
        parameter: String,
        /// Its parameters.
        known: String,
    },
    /// A parameter that is no number.
    #[error("parameter {parameter} is {value:?}, which is no number")]
    Value {
        /// The parameter.
        parameter: String,
        /// What stands there.
        value: String,
    },
    /// Parameters that make no distribution.
    #[error("{0}")]
    Shape(&'static str),
}

/// What ends a run.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FilebenchError {
    /// Preparing or filling a fileset failed.
    #[error("preparing the fileset {fileset}: {source}")]
    Prepare {
        /// Its name.
        fileset: Arc<str>,
        /// Why.
        source: IoFailure,
    },
    /// It does not fit where it is to lie.
    #[error(
        "the fileset {fileset} takes {bytes}, and {room} are free; make its files fewer or smaller (--set), or name another directory"
    )]
    NoRoom {
        /// Its name.
        fileset: Arc<str>,
        /// What it takes.
        bytes: ByteCount,
        /// What there is.
        room: ByteCount,
    },
    /// Where a fileset should lie is a block device.
    #[error(
        "{fileset} is a block device; loads on raw devices are `spindle lab run`'s, with --destructive"
    )]
    BlockDevice {
        /// The fileset's name.
        fileset: Arc<str>,
    },
    /// An operation on a file or the tree failed.
    #[error("flowop {flowop} of {thread}: {source}")]
    Io {
        /// The flowop.
        flowop: Arc<str>,
        /// Whose it is.
        thread: Arc<str>,
        /// Why.
        source: IoFailure,
    },
    /// The workload itself asks for something that can't be done.
    #[error("flowop {flowop} of {thread}: {kind}")]
    Flowop {
        /// The flowop.
        flowop: Arc<str>,
        /// Whose it is.
        thread: Arc<str>,
        /// What it asked for.
        kind: FlowopError,
    },
    /// A thread could not be had, or ended without a result.
    #[error(transparent)]
    Worker(#[from] WorkerLost),
    /// A `system` command failed.
    #[error("system {command:?}: {why}")]
    System {
        /// The command.
        command: String,
        /// What the system said.
        why: String,
    },
    /// Making everything durable failed (`system "sync"`).
    #[error("making the directory durable: {0}")]
    Sync(#[source] TreeError),
    /// The user asked for an end.
    #[error("interrupted")]
    Interrupted,
}

/// What a flowop can't do in the state that its thread is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlowopError {
    /// A second open on a descriptor.
    #[error("descriptor fd={0} is open already; close it first")]
    Open(usize),
    /// Nothing is open.
    #[error("descriptor fd={0} is not open; open it first")]
    Closed(usize),
    /// Reads and writes of no bytes.
    #[error("iosize is zero; give it an iosize")]
    ZeroSize,
    /// More bytes than can be held in memory at once.
    #[error("iosize is {0} bytes; {max} at the most", max = super::limits::IO_BYTES_MAX)]
    HugeSize(u64),
    /// A random place for more bytes than there are.
    #[error(
        "an I/O of {iosize} bytes does not fit into the {working_set} bytes of file or working set"
    )]
    SmallFile {
        /// Bytes of an I/O.
        iosize: u64,
        /// Bytes that there are.
        working_set: u64,
    },
    /// `writewholefile` from a descriptor that never had a file.
    #[error("srcfd={0} has no file; open it first")]
    NoSource(usize),
    /// Neither a fileset nor an open file.
    #[error("it names no fileset, and nothing is open; give it a filename")]
    NoFileset,
    /// A descriptor whose file belongs to another fileset.
    #[error("fd={0} has a file of another fileset than the flowop names")]
    OtherFileset(usize),
    /// A listing without directories.
    #[error("the fileset has no directory to list")]
    NoDirectory,
}
