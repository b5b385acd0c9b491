//! What can be wrong with a job file or with a run, in one line each, with the mend.

use super::figures::Direction;
use rt::TreeError;
use std::fmt;
use std::sync::Arc;
use stdx::ByteCount;
use workload::io_failure::IoFailure;

/// Where in a job file something stands; line 0 is the whole of it, or the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The file, as the user named it.
    pub file: Arc<str>,
    /// The line, counted from 1.
    pub line: usize,
    /// The column, in characters, counted from 1.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            _ => write!(f, "{}:{}:{}", self.file, self.line, self.column),
        }
    }
}

fn unreadable(place: &Place, path: &str, why: &str) -> String {
    match place.line {
        0 => format!("{path}: {why}; name a job file that can be read"),
        _ => format!("{place}: reading {path}: {why}"),
    }
}

/// Why a job file is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum JobError {
    /// The file, or one that it includes, can't be read.
    #[error("{}", unreadable(.place, .path, .why))]
    Unreadable {
        /// What asked for it; line 0 where it is the job file itself.
        place: Place,
        /// The file.
        path: String,
        /// What the system said.
        why: String,
    },
    /// A line that is no section, option, `include` or comment.
    #[error("{place}: '{line}' is not [a section], an option=value, an include or a comment")]
    Syntax {
        /// Where.
        place: Place,
        /// The line.
        line: String,
    },
    /// An option before the first section.
    #[error("{place}: {option} stands before the first section; put [global] above it")]
    NoSection {
        /// Where.
        place: Place,
        /// The option.
        option: String,
    },
    /// Files that include one another too deeply.
    #[error("{place}: files are included more than {max} deep")]
    IncludeDepth {
        /// Where.
        place: Place,
        /// The limit.
        max: usize,
    },
    /// `${NAME}` where there is no such environment variable.
    #[error("{place}: the environment variable {name} is not set; run with {name}=VALUE before it")]
    NoVariable {
        /// Where.
        place: Place,
        /// The variable.
        name: String,
    },
    /// An option that nobody knows.
    #[error("{place}: unknown option {option}{}", did_you_mean(.nearest))]
    UnknownOption {
        /// Where.
        place: Place,
        /// The option.
        option: String,
        /// The known option that looks most like it.
        nearest: Option<&'static str>,
    },
    /// An option of fio that is not supported here.
    #[error("{place}: option {option} is not supported: {why}")]
    RefusedOption {
        /// Where.
        place: Place,
        /// The option.
        option: String,
        /// The reason, or what to write instead.
        why: &'static str,
    },
    /// A value of an option that fio knows, and that is not supported here.
    #[error("{place}: {option}={value} is not supported: {why}")]
    RefusedValue {
        /// Where.
        place: Place,
        /// The option.
        option: String,
        /// The value.
        value: String,
        /// The reason, or what to write instead.
        why: &'static str,
    },
    /// A value that the option can't have.
    #[error("{place}: {option}={value}: write {wanted}")]
    BadValue {
        /// Where.
        place: Place,
        /// The option.
        option: String,
        /// The value.
        value: String,
        /// What it must be.
        wanted: &'static str,
    },
    /// An option of the command line without the value that it takes.
    #[error("{place}: --{option} needs a value: --{option}=VALUE")]
    NoValue {
        /// Where.
        place: Place,
        /// The option.
        option: String,
    },
    /// Two options of a job that exclude one another, or one that lacks another.
    #[error("{place}: job {job}: {what}")]
    Conflict {
        /// Where the job's section begins.
        place: Place,
        /// The job.
        job: String,
        /// What excludes what, and the mend.
        what: &'static str,
    },
    /// `wait_for` of a job that does not stand before it.
    #[error("{place}: job {job} waits for {waits_for}, which is not the name of a job above it")]
    NobodyToWaitFor {
        /// Where the job's section begins.
        place: Place,
        /// The job.
        job: String,
        /// Whom it names.
        waits_for: String,
    },
    /// A section that was asked for and is not there.
    #[error("{file} has no section [{section}]")]
    NoSuchSection {
        /// The job file.
        file: String,
        /// The section.
        section: String,
    },
    /// Nothing to run.
    #[error("{file} has no job: write a section, [name], below [global]")]
    NoJobs {
        /// The job file.
        file: String,
    },
    /// Neither a job nor a job file.
    #[error("no job is given: name a job file, or begin a job with --name=NAME before its options")]
    NoneGiven,
    /// More of something than is kept.
    #[error("{place}: more than {max} {what}")]
    TooMany {
        /// Where.
        place: Place,
        /// Of what.
        what: &'static str,
        /// The limit.
        max: usize,
    },
}

fn did_you_mean(nearest: &Option<&'static str>) -> String {
    nearest.map_or(String::new(), |known| format!("; did you mean {known}?"))
}

/// Why a job came to no good end.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FioError {
    /// A file of the job could not be prepared, opened or closed.
    #[error("job {job}: {source}")]
    Tree {
        /// The job.
        job: String,
        /// What went wrong.
        #[source]
        source: TreeError,
    },
    /// An I/O failed.
    #[error("job {job}: {source}")]
    Io {
        /// The job.
        job: String,
        /// What went wrong.
        #[source]
        source: IoFailure,
    },
    /// Neither the job nor a file that is there says how much is to be done.
    #[error("job {job}: {file} is not there or empty, and no size= is given")]
    NoSize {
        /// The job.
        job: String,
        /// Its first file.
        file: String,
    },
    /// What is laid out before it begins does not fit.
    #[error(
        "{whose} files take {bytes}, and {room} are free where {file} is to lie; make size= smaller, or name another directory"
    )]
    NoRoom {
        /// The jobs, in words.
        whose: String,
        /// What they take.
        bytes: ByteCount,
        /// What there is.
        room: ByteCount,
        /// The first file that is to lie there.
        file: String,
    },
    /// The file is too small for one block.
    #[error("job {job}: a block of {block_bytes} B is larger than what size= and the files leave")]
    TooSmall {
        /// The job.
        job: String,
        /// The smallest block.
        block_bytes: u64,
    },
    /// The place where it begins lies beyond the file.
    #[error("job {job}: offset= lies beyond the end of {file}")]
    OffsetBeyond {
        /// The job.
        job: String,
        /// The file.
        file: String,
    },
    /// A block device would be written, and nobody said that it may be.
    #[error(
        "job {job} writes to the block device {file}, whose content is lost: say --destructive"
    )]
    NotDestructive {
        /// The job.
        job: String,
        /// The device.
        file: String,
    },
    /// A file would have to be made, or made anew, and that is forbidden.
    #[error(
        "job {job}: {file} is not there or too short, and allow_file_create=0 forbids to make it; make it before, or leave the option out"
    )]
    NoCreate {
        /// The job.
        job: String,
        /// The file.
        file: String,
    },
    /// A file would be trimmed, where there is no block device.
    #[error(
        "job {job}: {file} is a file, and trims go to block devices alone; name one with filename= (and say --destructive)"
    )]
    TrimOfFile {
        /// The job.
        job: String,
        /// The file.
        file: String,
    },
    /// A block gave back other bytes than were written.
    #[error("job {job}: verify: {file} at byte {offset}, {len} B: {what}")]
    Verify {
        /// The job.
        job: String,
        /// The file.
        file: String,
        /// Where.
        offset: u64,
        /// How much.
        len: u64,
        /// What was found.
        what: &'static str,
    },
    /// A read or a write gave less than was asked for, with no error.
    #[error("job {job}: {file}: nothing could be {direction} at byte {offset}")]
    Nothing {
        /// The job.
        job: String,
        /// The file.
        file: String,
        /// In which direction.
        direction: Direction,
        /// Where.
        offset: u64,
    },
    /// A read of a file that was not laid out.
    #[error(
        "job {job}: {file} has nothing to read at byte {offset}: with create_on_open=1 no file is laid out; remove it, or write the file \
         first"
    )]
    NotLaidOut {
        /// The job.
        job: String,
        /// The file.
        file: String,
        /// Where.
        offset: u64,
    },
    /// The rate fell below `rate_min` or `rate_iops_min`.
    #[error("job {job}: the rate of {direction} fell below the minimum, {min} {unit}")]
    TooSlow {
        /// The job.
        job: String,
        /// In which direction.
        direction: Direction,
        /// The minimum.
        min: u64,
        /// Of what.
        unit: &'static str,
    },
    /// An I/O took longer than `max_latency`, or than the latency target at depth 1.
    #[error("job {job}: an I/O took {took_us} µs; at most {max_us} µs are allowed")]
    TooLate {
        /// The job.
        job: String,
        /// How long it took.
        took_us: u64,
        /// The limit.
        max_us: u64,
    },
    /// The worker gave no result.
    #[error("job {job}: {source}")]
    Lost {
        /// The job.
        job: String,
        /// What went wrong.
        #[source]
        source: workload::crew::WorkerLost,
    },
}

impl FioError {
    /// The number that fio's output shows for it (`err=`): Linux's error numbers.
    pub fn number(&self) -> i32 {
        const ENOENT: i32 = 2;
        const EIO: i32 = 5;
        const ENOSPC: i32 = 28;
        const EINVAL: i32 = 22;
        const EILSEQ: i32 = 84;
        const ETIMEDOUT: i32 = 110;
        match self {
            FioError::Tree { source, .. } => tree_number(source.kind),
            FioError::Io { source, .. } => match source {
                IoFailure::Tree(source) => tree_number(source.kind),
                IoFailure::Data { kind, .. } => io_number(*kind),
                IoFailure::Short { .. } => EIO,
            },
            FioError::NoSize { .. }
            | FioError::TooSmall { .. }
            | FioError::OffsetBeyond { .. }
            | FioError::TrimOfFile { .. }
            | FioError::NotDestructive { .. } => EINVAL,
            FioError::Verify { .. } => EILSEQ,
            FioError::TooLate { .. } => ETIMEDOUT,
            FioError::NoRoom { .. } => ENOSPC,
            FioError::NoCreate { .. } => ENOENT,
            FioError::Nothing { .. }
            | FioError::NotLaidOut { .. }
            | FioError::TooSlow { .. }
            | FioError::Lost { .. } => EIO,
        }
    }
}

/// Linux's number of an error of a tree.
pub(super) fn tree_number(kind: rt::TreeErrorKind) -> i32 {
    use rt::TreeErrorKind as Kind;
    match kind {
        Kind::IsPipe => 29,
        Kind::Link => 40,
        Kind::NotFound => 2,
        Kind::Exists => 17,
        Kind::NotDirectory => 20,
        Kind::IsDirectory => 21,
        Kind::NotEmpty => 39,
        Kind::NoSpace | Kind::NoInodes => 28,
        Kind::ReadOnly => 30,
        Kind::Denied => 13,
        Kind::TooManyOpen => 24,
        Kind::BadPath => 22,
        Kind::NameTooLong => 36,
        Kind::NotSupported => 95,
        Kind::Io(kind) => io_number(kind),
        Kind::Os(number) => number,
    }
}

/// Linux's number of an error of an I/O.
pub(super) fn io_number(kind: rt::IoErrorKind) -> i32 {
    use rt::IoErrorKind as Kind;
    match kind {
        Kind::Gone => 19,
        Kind::NotSupported => 95,
        Kind::Invalid => 22,
        Kind::ReadOnly => 30,
        Kind::NoSpace => 28,
        Kind::Os(number) => number,
        Kind::Locked => 126,
        Kind::Medium | Kind::CutShort | Kind::PowerCut | Kind::TooFewMembers => 5,
    }
}
