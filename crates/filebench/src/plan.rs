//! What a workload asks for, with every name looked up: the engine carries it out step by step.
//!
//! A file is executed from top to bottom, as filebench does: `set` changes a variable, `define` notes
//! a thing down, and values are taken when filesets are created and when a run starts, so that a `set`
//! *after* a `define` counts. After that nothing can be missing, unknown or of the wrong kind; only
//! random variables are still drawn while it runs.
//!
//! **Where files go.** Workload files name absolute paths (`$dir=/tmp`). Nothing outside the directory
//! of the run is touched: `$dir` is that directory whatever the file sets, and any other absolute path
//! becomes a folder below it (`/data/x` is `data/x` there).

mod build;
mod flowops;
mod values;

use super::distribution::RandomVariable;
pub use super::limits::{DESCRIPTORS, ENTRIES_MAX, FLOWOPS_MAX, SECONDS_MAX, STEPS_MAX};
pub use super::syntax::QuitMode;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Seconds of a run whose file says none, and ends by time: filebench's.
pub const RUN_SECONDS_DEFAULT: u64 = 60;
/// Seconds between figures where `psrun` says none: filebench's.
pub const PERIOD_SECONDS_DEFAULT: u64 = 10;
/// How a file is to be read.
#[derive(Clone, Debug, Default)]
pub struct PlanOptions {
    /// The directory of the run, as the user knows it; what `$dir` is.
    pub directory: String,
    /// Variables that the command line sets: name without `$`, and what stands behind `=` in a `set`.
    pub variables: Vec<(String, String)>,
    /// How long each run takes, whatever the file says.
    pub run_seconds: Option<u64>,
    /// Whether `system` may run shell commands.
    pub allow_system: bool,
}

/// A workload, ready to be carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The file's name.
    pub file: Arc<str>,
    /// Its files and filesets, in the order of definition.
    pub filesets: Vec<FilesetPlan>,
    /// Random variables, by number.
    pub variables: Arc<[RandomVariable]>,
    /// What is done, in order.
    pub steps: Vec<Step>,
    /// What a reader must know, a sentence each.
    pub notes: Vec<String>,
}

/// One thing that is done.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Prints.
    Print(String),
    /// Prints the version.
    Version,
    /// Waits.
    Sleep(Duration),
    /// Creates the filesets, unless they were.
    Create,
    /// Lists the filesets.
    ListFilesets,
    /// Makes everything durable (`system "sync"`).
    Sync,
    /// Forgets what memory holds of the files (`system "echo 3 > /proc/sys/vm/drop_caches"`).
    DropCaches,
    /// Runs a shell command.
    System(String),
    /// Runs the processes.
    Run(Box<RunPlan>),
}

/// A number, or what it is drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// Always this one.
    Constant(u64),
    /// A random variable, by its number.
    Random(usize),
}

/// A file or fileset.
#[derive(Clone, Debug, PartialEq)]
pub struct FilesetPlan {
    /// Its name.
    pub name: Arc<str>,
    /// The path that messages show.
    pub shown_path: String,
    /// Where it lies in the tree: its path and name.
    pub root: PathBuf,
    /// Whether it was defined as a single file.
    pub is_file: bool,
    /// How many files.
    pub entries: u64,
    /// How many directories that are empty.
    pub leaf_directories: u64,
    /// Files or directories in a directory, or their mean.
    pub width: Number,
    /// The depth of the directories, where a random variable gives it.
    pub depth: Option<Number>,
    /// Shape of the gamma distributions of width and depth, times 1000; 0: none is random.
    pub gamma: u64,
    /// The size of a file.
    pub size: Number,
    /// Shape of the gamma distribution of sizes, times 1000, where 1.4's `filesizegamma` gives one.
    pub size_gamma: Option<u64>,
    /// The share of the files that is there when a run begins, in percent.
    pub preallocated_percent: u64,
    /// Whether several files are written at once beforehand.
    pub parallel: bool,
    /// Whether what is there is used again.
    pub reuse: bool,
    /// Whether it is used again without a look.
    pub trust: bool,
    /// Whether files are opened for reading only.
    pub read_only: bool,
    /// Whether memory is to forget the files once they are written (1.4's `cached=false`).
    pub uncached: bool,
}

/// A run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunPlan {
    /// How long, where time ends it.
    pub duration: Option<Duration>,
    /// Figures in between: how often, and whether they start from zero each time.
    pub period: Option<Period>,
    /// What ends it.
    pub mode: QuitMode,
    /// Events a second, where the generator is on.
    pub event_rate: Option<Number>,
    /// Whether to print how latencies are distributed.
    pub latency_histogram: bool,
    /// The processes, in the order of definition.
    pub processes: Vec<ProcessPlan>,
    /// The rows of the figures: each flowop's name and kind, in the order of definition.
    pub rows: Vec<Row>,
}

/// Figures in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// How often.
    pub every: Duration,
    /// Whether they start from zero each time.
    pub clears: bool,
}

/// A line of the figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The flowop's name.
    pub name: Arc<str>,
    /// What it does.
    pub kind: FlowopKind,
}

/// A process.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessPlan {
    /// Its name.
    pub name: Arc<str>,
    /// How many of it.
    pub instances: u64,
    /// Its threads.
    pub threads: Vec<ThreadPlan>,
}

/// A thread.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadPlan {
    /// Its name.
    pub name: Arc<str>,
    /// How many of it in each process.
    pub instances: u64,
    /// What it does, over and over.
    pub flowops: Vec<Flowop>,
    /// How many flowops those are, composites unfolded.
    pub slots: usize,
}

/// What a flowop is. The names are the language's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlowopKind {
    /// Reads, at the next or a random place.
    Read,
    /// Writes, at the next or a random place.
    Write,
    /// Waits until it is woken.
    Block,
    /// Wakes blocks.
    Wakeup,
    /// Waits for a semaphore.
    SemBlock,
    /// Posts to semaphores.
    SemPost,
    /// Burns processor time.
    Hog,
    /// Sleeps.
    Delay,
    /// One pass for each event.
    EventLimit,
    /// A megabyte for each event.
    BwLimit,
    /// A read or write for each event.
    IopsLimit,
    /// An operation for each event.
    OpsLimit,
    /// Ends the thread after so many operations.
    FinishOnCount,
    /// Ends the thread after so many bytes.
    FinishOnBytes,
    /// Opens a file.
    OpenFile,
    /// Creates a file.
    CreateFile,
    /// Closes a file.
    CloseFile,
    /// Creates a directory.
    MakeDir,
    /// Removes a directory.
    RemoveDir,
    /// Lists a directory.
    ListDir,
    /// Makes a file durable.
    Fsync,
    /// Makes all open files of a fileset durable.
    FsyncSet,
    /// Looks at a file.
    StatFile,
    /// Reads a file from its beginning to its end.
    ReadWholeFile,
    /// Appends.
    AppendFile,
    /// Appends a random number of bytes.
    AppendFileRand,
    /// Removes a file.
    DeleteFile,
    /// Writes as many bytes as a file has.
    WriteWholeFile,
    /// Prints.
    Print,
    /// Measures a random variable.
    TestRandVar,
    /// Starts a write.
    AioWrite,
    /// Collects writes.
    AioWait,
    /// Flowops of the file's own.
    Composite,
}

/// In which sum of the figures a flowop counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowopClass {
    /// The IO summary.
    Io,
    /// None.
    Other,
}

/// Whether a flowop's bytes are read or written, for `rd/wr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Read.
    Read,
    /// Written.
    Write,
    /// Neither.
    None,
}

impl FlowopKind {
    /// The built-in kinds and their words.
    pub const BUILT_IN: &[(&str, FlowopKind)] = &[
        ("aiowait", FlowopKind::AioWait),
        ("aiowrite", FlowopKind::AioWrite),
        ("appendfile", FlowopKind::AppendFile),
        ("appendfilerand", FlowopKind::AppendFileRand),
        ("block", FlowopKind::Block),
        ("bwlimit", FlowopKind::BwLimit),
        ("closefile", FlowopKind::CloseFile),
        ("createfile", FlowopKind::CreateFile),
        ("delay", FlowopKind::Delay),
        ("deletefile", FlowopKind::DeleteFile),
        ("eventlimit", FlowopKind::EventLimit),
        ("finishonbytes", FlowopKind::FinishOnBytes),
        ("finishoncount", FlowopKind::FinishOnCount),
        ("fsync", FlowopKind::Fsync),
        ("fsyncset", FlowopKind::FsyncSet),
        ("hog", FlowopKind::Hog),
        ("iopslimit", FlowopKind::IopsLimit),
        ("listdir", FlowopKind::ListDir),
        ("makedir", FlowopKind::MakeDir),
        ("openfile", FlowopKind::OpenFile),
        ("opslimit", FlowopKind::OpsLimit),
        ("print", FlowopKind::Print),
        ("read", FlowopKind::Read),
        ("readwholefile", FlowopKind::ReadWholeFile),
        ("removedir", FlowopKind::RemoveDir),
        ("semblock", FlowopKind::SemBlock),
        ("sempost", FlowopKind::SemPost),
        ("statfile", FlowopKind::StatFile),
        ("testrandvar", FlowopKind::TestRandVar),
        ("wakeup", FlowopKind::Wakeup),
        ("write", FlowopKind::Write),
        ("writewholefile", FlowopKind::WriteWholeFile),
    ];

    /// The word for it.
    pub fn word(self) -> &'static str {
        let found = FlowopKind::BUILT_IN.iter().find(|(_, kind)| *kind == self);
        found.map_or("composite", |(word, _)| word)
    }

    /// In which sum it counts.
    pub fn class(self) -> FlowopClass {
        use FlowopKind as K;
        match self {
            K::Block
            | K::Wakeup
            | K::SemBlock
            | K::SemPost
            | K::Hog
            | K::Delay
            | K::EventLimit
            | K::BwLimit
            | K::IopsLimit
            | K::OpsLimit
            | K::FinishOnCount
            | K::FinishOnBytes
            | K::Print
            | K::TestRandVar
            | K::Composite => FlowopClass::Other,
            _ => FlowopClass::Io,
        }
    }

    /// Whether its bytes are read or written.
    pub fn direction(self) -> Direction {
        use FlowopKind as K;
        match self {
            K::Read | K::ReadWholeFile => Direction::Read,
            K::Write | K::AppendFile | K::AppendFileRand | K::WriteWholeFile | K::AioWrite => {
                Direction::Write
            }
            _ => Direction::None,
        }
    }
}

/// A flowop of a thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Flowop {
    /// What it does.
    pub kind: FlowopKind,
    /// Its name; of one within a composite, the composite's and its own.
    pub name: Arc<str>,
    /// Its row of the figures.
    pub row: usize,
    /// Its number in the thread.
    pub slot: usize,
    /// The fileset, where it names one.
    pub fileset: Option<usize>,
    /// `fd`
    pub descriptor: usize,
    /// `srcfd`
    pub source_descriptor: usize,
    /// How often in a row.
    pub iterations: Number,
    /// Bytes of one read or write.
    pub iosize: Number,
    /// Bytes of a file that random places are in; 0: the file's size.
    pub working_set: Number,
    /// At random places.
    pub random: bool,
    /// Every write is durable.
    pub durable: bool,
    /// Past the cache.
    pub direct: bool,
    /// Without reading ahead.
    pub no_read_ahead: bool,
    /// Through the descriptors in turn.
    pub open_next: bool,
    /// A semaphore's poster waits at its highwater mark.
    pub blocking: bool,
    /// What its kind says: seconds, loops, operations, bytes.
    pub value: Number,
    /// What `print` prints.
    pub message: String,
    /// The semaphore's highwater mark.
    pub highwater: u64,
    /// Which file or leaf directory.
    pub index: Option<Number>,
    /// Whom it wakes or posts to (by name), or whose figures limit it (by slot).
    pub target: Target,
    /// What a composite does.
    pub inner: Vec<Flowop>,
}

/// What a flowop's `target` is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// None is named.
    None,
    /// All blocks or semaphores of this name.
    Named(Arc<str>),
    /// The flowop of the same thread with this slot.
    Slot(usize),
}

#[cfg(test)]
mod tests;
