//! Why something could not be attached, opened, asked or served. Its text is one line that names the thing and the mend.
//!
//! Some are mistakes of whoever asked ([`Error::is_usage`]): another call would do. The command line tells the two apart by
//! its exit status.

use crate::control::folder::FolderError;
use crate::uri::UriError;
use ::md::SyncError;
use ::md::assemble::{AssembleError, Histories};
use ::md::grow::GrowError;
use ::md::live::LiveError;
use ::md::superblock::Uuid;
use ::zfs::ZfsError;
use ::zfs::spa;
use export::fuse::FuseError;
use export::nbd::{ClientError, ServerError};
use host::expendable::NotExpendable;
use host::{ListenError, MountError, OpenError, ProbeError, StartError};
use rt::{IoError, Stalled, StreamError};
use std::io;
use std::path::PathBuf;
use volume::gpt::GptError;
use volume::lvm::LvmError;

/// See the [module](self).
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the texts name")]
pub enum Error {
    // Devices.
    #[error("no devices: name them with -d DIR|FILE, or in SPINDLE_DEVICES")]
    NoDevices,
    #[error("reading the folder {}: {error}{}", .path.display(), mend_of_folder(.error))]
    Folder { path: PathBuf, error: io::Error },
    /// Something that was named can't be opened.
    #[error("{0}")]
    Named(#[source] OpenError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Io(#[from] IoError),
    #[error(transparent)]
    Stalled(#[from] Stalled),
    #[error("{0}; name another, or destroy its content with --force")]
    Holds(#[source] NotExpendable),
    #[error(
        "{}: it holds a ZFS pool member, a part of {how} pool '{pool}'; name another, or destroy its content with --force",
        .path.display()
    )]
    HoldsMember { path: PathBuf, how: &'static str, pool: String },
    #[error(transparent)]
    Probe(#[from] ProbeError),
    #[error(
        "cannot open '{}': no such device: name a file or block device by its path, an NBD URI, or a volume on the devices of -d",
        .path.display()
    )]
    NoDevice { path: PathBuf },
    #[error("'{}' is given twice: name each device once", .path.display())]
    Twice { path: PathBuf },
    #[error("'{}' and '{}' share storage: name one of them", .one.display(), .other.display())]
    Shared { one: PathBuf, other: PathBuf },
    #[error(transparent)]
    Uri(#[from] UriError),
    #[error("{name}: {error}")]
    Remote { name: String, error: ClientError },
    #[error("{name}: the server lets nobody write to it")]
    RemoteReadOnly { name: String },
    #[error("{name}: another process writes to it: stop that one first")]
    RemoteWritten { name: String },
    #[error(
        "set {set} is served by another process, which would do this: there is no dry run while it is"
    )]
    SetHeld { set: Uuid },
    #[error("reading /dev/urandom: {0}")]
    Random(#[source] io::Error),

    // RAID sets.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    #[error(transparent)]
    Live(#[from] LiveError),
    #[error(transparent)]
    Sync(#[from] SyncError),
    #[error(transparent)]
    Grow(#[from] GrowError),
    #[error("'{called}': no set is called so: {listed}")]
    NoSet { called: String, listed: String },
    #[error("'{called}' is both {one} and {other}: give the UUID")]
    Several { called: String, one: Uuid, other: Uuid },
    /// What the engine says of a set, which it knows by its UUID.
    #[error("{}", .error.to_string().replace(&.set.to_string(), .name))]
    OfSet { set: Uuid, name: String, error: Box<Error> },
    #[error("{device}: another process is writing to the set: stop that one first")]
    Written { device: String },
    #[error(
        "{set}: {} of {expected} members that it had are there: bring the others, or start it without them with --run",
        drives(*.there)
    )]
    Lacking { set: String, there: usize, expected: usize },
    #[error("{set}: {histories}; or write to all of them, with --force")]
    Histories { set: String, histories: Histories },
    #[error("{error} ({elsewhere})")]
    By { error: Box<Error>, elsewhere: &'static str },
    #[error(
        "{device}: it went on without the members that are here, and may hold newer data than they: open the set with it alone (-d {device}) and look, or overwrite it with --force"
    )]
    GoneOn { device: String },

    // What a running set is asked for.
    #[error("{}: it is no working device of the set", .path.display())]
    NotWorking { path: PathBuf },
    #[error("{}: it has failed already", .path.display())]
    FailedAlready { path: PathBuf },
    #[error("{}: there is no such file or device, and the set has none of that name", .path.display())]
    NoMember { path: PathBuf },
    #[error("{}: it is a device of the set already", .path.display())]
    AlreadyOfSet { path: PathBuf },
    #[error("{}: it was the set's journal: stop the server to make it one anew", .path.display())]
    WasJournal { path: PathBuf },
    #[error("{}: it is no device of the set", .path.display())]
    NotOfSet { path: PathBuf },
    #[error("{}: it holds no slot of the set", .path.display())]
    NoSlot { path: PathBuf },
    #[error("{}: it is no spare: add it", .path.display())]
    NoSpare { path: PathBuf },
    #[error("{set}: a check or repair is under way: wait for it (spindle md detail)")]
    CheckUnderWay { set: String },
    #[error("{set}: its server serves other things too: end it with SIGTERM")]
    ServesOthers { set: String },
    #[error(
        "{set}: it is busy: {} connected: disconnect, or stop it all the same with --force",
        clients_are(*.clients)
    )]
    Busy { set: String, clients: usize },
    #[error("its server ended, but could not close it as clean: {0}")]
    NotStopped(String),
    #[error("{set}: its server ended")]
    ServerEnded { set: String },

    // Sockets of what is held.
    #[error(transparent)]
    SocketFolder(#[from] FolderError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("the socket {}: {error}", .path.display())]
    Socket { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error("this is the socket of a server of spindle: no request: {0}")]
    NoRequest(#[source] serde_json::Error),
    #[error(
        "the command speaks version {theirs} to its server, which speaks version {ours}: stop the server with SIGTERM, and start it with the new program"
    )]
    OtherVersion { theirs: u32, ours: u32 },
    #[error("no request came")]
    Silent,
    #[error("one line with one request is read")]
    MoreThanOne,
    #[error("a request is a line of JSON")]
    NoLine,
    #[error(
        "the {what}'s server ended or does not answer: look whether it runs, and start it again with {serve}"
    )]
    Unheard { what: &'static str, serve: &'static str },
    #[error("the {what}'s server answers: {error}")]
    BadAnswer { what: &'static str, error: serde_json::Error },
    /// The other end says so.
    #[error("{message}")]
    Answered { message: String, status: u8 },

    // Volumes.
    #[error(
        "'{called}': there is no such volume on the devices ({listed}): name a RAID set, GROUP/VOLUME, SET:N or DEVICE:N for a partition, or a device{}",
        unlooked(.forcible, .barred)
    )]
    NoVolume {
        called: String,
        listed: String,
        /// Sets that can be put together by force alone: it may lie on them.
        forcible: Vec<String>,
        /// Sets that can't be put together.
        barred: Vec<String>,
    },
    #[error("there is no volume group {called} on the devices; `spindle lvm vgs` lists them")]
    NoGroup { called: String },
    #[error(
        "{called}: {} volume groups on the devices are called {group}: name one by its UUID ({}), or its devices alone with -d",
        .named.len(), .named.join("; ")
    )]
    SeveralGroups {
        called: String,
        group: String,
        /// What each is called by its UUID, and the device that it is on.
        named: Vec<String>,
    },
    #[error("{called}: {why}")]
    Refused {
        called: String,
        why: String,
        /// Whether the set can be put together by force.
        force_helps: bool,
    },
    #[error(
        "{called}: it lies on a RAID set that was put together by force, and is not to be read so: force = true with readonly = true says that it is"
    )]
    ByForce { called: String },
    #[error(
        "{called}: force puts a RAID set together for reading alone: serve it readonly, or make it whole first with spindle md assemble --force"
    )]
    ForcedIsRead { called: String },
    #[error(
        "{}: it is a partition of {}, and none joins a set while it is served: stop its server first (spindle md stop)",
        .path.display(), .whole.display()
    )]
    JoinsServed { path: PathBuf, whole: PathBuf },
    #[error("{}: there is no such partition ({listed})", .path.display())]
    NoPartition { path: PathBuf, listed: String },
    #[error("{}: its disk ends before it does (cut short?), so it is only read", .path.display())]
    CutPartition { path: PathBuf },
    #[error(
        "{}: {} is a member of a RAID set itself, and its partitions are the set's: name those (SET:N)",
        .path.display(), .whole.display()
    )]
    PartitionOfMember { path: PathBuf, whole: PathBuf },
    #[error(
        "{}: the kernel has devices of its own for the partitions of {}: name that one (lsblk lists them)",
        .path.display(), .whole.display()
    )]
    KernelPartition { path: PathBuf, whole: PathBuf },
    #[error(transparent)]
    Table(#[from] GptError),
    #[error(transparent)]
    Lvm(#[from] LvmError),
    #[error("{error} ({listed})")]
    NoLogical { error: Box<LvmError>, listed: String },

    // Pools.
    #[error("'{name}': more than one matching pool: name it by its GUID, {one} or {other}")]
    SeveralPools { name: String, one: u64, other: u64 },
    #[error("cannot open '{name}': no such pool")]
    NoPool { name: String },
    #[error(transparent)]
    Pool(Box<spa::OpenError>),
    #[error("cannot create '{name}': {error}")]
    NotCreated { name: String, error: Box<spa::create::CreateError> },
    #[error("failed to clear label for '{}': it has none", .path.display())]
    NoLabel { path: PathBuf },
    #[error(
        "use '-f' to override the following error: '{}' is a member of {how} pool \"{pool}\"",
        .path.display()
    )]
    MemberOf { path: PathBuf, how: &'static str, pool: String },
    #[error("failed to clear label for '{}': {error}", .path.display())]
    LabelNotCleared { path: PathBuf, error: Box<spa::ApartError> },
    #[error("cannot add to '{name}': {error}")]
    NotAdded { name: String, error: Box<spa::add::AddError> },
    #[error("'{}' is a part of pool '{pool}' already", .path.display())]
    IsMember { path: PathBuf, pool: String },
    #[error(
        "'{uri}' is served by the process that holds the pool: a pool can't lie on what that serves"
    )]
    OwnExport { uri: String },
    #[error("pool {name} can't be written: {error}")]
    NotWritten { name: String, error: Box<spa::live::LiveError> },
    #[error("pool {name} can't be written: {error}; {}", damaged_mend(.name, .error))]
    PoolDamaged { name: String, error: Box<spa::live::LiveError> },
    #[error(
        "pool {name} was not exported: another host may have it in use. If none has, say so with -f"
    )]
    PoolInUse { name: String },
    #[error(
        "pool {name} was last in use by {host} (hostid={id:x}) at {}, and was not exported: where that host has let go of it, say so with -f",
        ::zfs::show::universal_date(*.seconds)
    )]
    PoolOfOther { name: String, host: String, id: u64, seconds: u64 },
    #[error(
        "pool {name}: not all that was written in {groups} can be read (spindle zpool status {name} tells why), and whoever writes to it \
         overwrites what was there before{}",
        lost_mend(.name, *.before)
    )]
    PoolLost {
        name: String,
        groups: String,
        /// The last group before the first that is lost, of which an uberblock is left.
        before: Option<u64>,
    },
    #[error(
        "pool {name}: {devices} went on without the others, until {}: what was written then is only there, and whoever writes \
         to the pool overwrites it: copy that out first, with those alone named (-d); then spindle zpool import --accept-loss {name} takes \
         the pool as the others have it",
        ::zfs::show::universal_date(*.seconds)
    )]
    PoolApart { name: String, devices: String, seconds: u64 },
    #[error(
        "pool {name} is imported on {host} (hostid: {id:#x}), which gives signs of life: export it there first"
    )]
    PoolActive { name: String, host: String, id: u64 },
    #[error(
        "pool {name} has the multihost property on and this host's hostid is not set: set a unique one with zgenhostid"
    )]
    NoHostId { name: String },
    #[error("pool {name} is imported by this host's kernel: zpool export {name} gives it back")]
    PoolInKernel { name: String },
    #[error("pool {name} was destroyed: spindle zpool import -Df {name} brings it back")]
    PoolDestroyed { name: String },
    #[error(
        "pool {name} is held by process {process} ({what}): end that one with Ctrl-C or SIGTERM first"
    )]
    PoolHeld { name: String, process: u32, what: String },
    #[error(
        "pool {name} is held by process {process} ({what}), which would do this: there is no dry run while it is"
    )]
    NotTried { name: String, process: u32, what: String },
    #[error("cannot {verb} '{name}': pool is busy")]
    PoolBusy { name: String, verb: &'static str },
    #[error(
        "cannot {verb} '{name}': other things that process {process} ({what}) holds or serves lie on its devices, too: end that one with Ctrl-C or SIGTERM"
    )]
    PoolOfMany { name: String, verb: &'static str, process: u32, what: &'static str },
    #[error("cannot open '{name}': pool I/O is currently suspended")]
    PoolSuspended { name: String },
    #[error("cannot clear errors for {name}: {error}")]
    NotCleared { name: String, error: Box<spa::live::ClearError> },
    #[error("cannot clear errors for {name}: no such device in pool")]
    NoVdevToClear { name: String },
    #[error("{name}: who holds it ends; try again")]
    HolderEnds { name: String },
    #[error("cannot open '{name}': {error}")]
    NotLent { name: String, error: ::zfs::spa::datasets::TaskError },
    #[error(
        "cannot copy into '{dataset}': {below} is mounted by itself; copy into that one, or end its mount"
    )]
    MountedBelow { dataset: String, below: String },
    #[error("cannot use '{name}': {error}")]
    Borrowed { name: String, error: ClientError },
    #[error("cannot create snapshots : multiple snapshots of same fs not allowed")]
    TakenTwice,
    #[error("cannot create snapshot '{name}': {error}")]
    NotTaken { name: String, error: ::zfs::spa::datasets::TaskError },
    #[error("pool {name} lies on {device}, which can't be written: {why}")]
    NotWritableMember { name: String, device: String, why: String },
    #[error("'{device}' can't be written: {why}")]
    NotWritableVolume { device: String, why: String },
    #[error("{name}: a pool as it stood is only read: leave -T and --rewind-to-checkpoint out")]
    OldAndWritten { name: String },
    #[error(transparent)]
    LoadKey(Box<spa::LoadKeyError>),
    #[error("cannot open '{name}': dataset does not exist")]
    NoDataset { name: String },
    #[error("cannot open '{name}': {why}")]
    BadName { name: String, why: String },
    #[error("cannot open '{name}': {error}")]
    CannotOpen { name: String, error: Box<ZfsError> },
    #[error("{dataset}: {error}")]
    InDataset { dataset: String, error: Box<ZfsError> },
    #[error(
        "{dataset}: it is a file system: spindle zfs cp -r copies its files, spindle mount mounts it"
    )]
    IsFileSystem { dataset: String },
    #[error("{dataset}: it is a volume: spindle zfs dump writes it out, spindle serve serves it")]
    IsVolume { dataset: String },
    #[error(
        "{}; attach the device, or leave --replay-view out",
        log_is_cut(.dataset)
    )]
    LogCut { dataset: String },
    #[error("reading the key in {}: {error}", .path.display())]
    KeyFile { path: PathBuf, error: io::Error },
    #[error("{} is no key: it is longer than {most} bytes", .path.display())]
    KeyTooLong { path: PathBuf, most: u64 },
    #[error(
        "the key in {} fits no encryption root at or below {top}{}",
        .path.display(),
        .dataset.as_ref().map_or(String::new(), |name| format!(" called {name}"))
    )]
    KeyUnused { path: PathBuf, top: String, dataset: Option<String> },
    #[error("asking for the key of {dataset}: {error}")]
    Asking { dataset: String, error: io::Error },
    #[error("dataset {dataset} is encrypted and its key is not loaded; give --key-file")]
    NoKey { dataset: String },

    // Mounts.
    #[error("mounting {dataset}: {error}")]
    Mounting { dataset: String, error: Box<ZfsError> },
    #[error(transparent)]
    NotMounted(#[from] MountFailure),
    #[error(transparent)]
    NotUnmounted(#[from] MountError),
    #[error(transparent)]
    Fuse(#[from] FuseError),
    #[error(
        "mounting on {}: it is in {}, where another is mounted; take directories of which none is in another",
        .inner.display(),
        .outer.display()
    )]
    MountWithin { inner: PathBuf, outer: PathBuf },
    #[error(
        "{inner} is in the mount of {outer} already, below its directory: leave one of the two out"
    )]
    MountTwice { inner: String, outer: String },
    #[error("cannot mount '{dataset}': filesystem already mounted")]
    MountedAlready { dataset: String },
    #[error("bad alternate root '{}': must be an absolute path", .directory.display())]
    AltRoot { directory: PathBuf },
    #[error("cannot mount '{dataset}': {below} is mounted by itself, and would be in it too")]
    MountedApart { dataset: String, below: String },
    #[error("cannot mount '{}': directory is not empty", .directory.display())]
    MountNotEmpty { directory: PathBuf },
    #[error("cannot unmount '{}': pool or dataset is busy", .directory.display())]
    MountBusy { directory: PathBuf },
    #[error("cannot unmount '{dataset}': pool or dataset is busy{}", by.map_or(String::new(), |by| format!(": process {by} has its working directory there")))]
    DatasetBusy { dataset: String, by: Option<u32> },
    #[error("{dataset}: {why}")]
    NotToMount { dataset: String, why: &'static str },

    // Serving.
    #[error("{count} addresses to listen on; name 1 to {most}")]
    Addresses { count: usize, most: usize },
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error("accepting on {name}: {error}")]
    Accepting { name: String, error: StreamError },
    #[error("export '{name}': {why}")]
    Export { name: String, why: &'static str },
    #[error("{volume} can't be written: {why}; to serve it for reading add readonly")]
    NotWritable { volume: String, why: String },
    #[error("starting a thread for RAID sets: {0}")]
    Thread(#[source] io::Error),
    #[error("an executor of RAID sets ended before it began")]
    ExecutorEnded,
    #[error("an executor of RAID sets panicked; they are not closed")]
    ExecutorPanicked,
}

/// Why a directory can't be mounted on, with what to do about it.
#[derive(Debug, thiserror::Error)]
#[error("{error}{}", mend_of(.error))]
pub struct MountFailure {
    /// What went wrong.
    #[from]
    pub error: MountError,
}

fn mend_of(error: &MountError) -> &'static str {
    use io::ErrorKind;
    let MountError::Directory { error, .. } = error else { return "" };
    match error.kind() {
        ErrorKind::NotFound => "; make the directory first",
        ErrorKind::NotADirectory => "; name a directory",
        // The server of what was mounted there ended without unmounting.
        ErrorKind::NotConnected => "; what was mounted there has died: unmount it (umount)",
        _ => "",
    }
}

impl From<spa::OpenError> for Error {
    fn from(error: spa::OpenError) -> Error {
        Error::Pool(Box::new(error))
    }
}

impl From<spa::LoadKeyError> for Error {
    fn from(error: spa::LoadKeyError) -> Error {
        Error::LoadKey(Box::new(error))
    }
}

impl Error {
    /// The same, with a set by its name where it has one.
    pub fn naming(self, set: Uuid, name: &str) -> Error {
        let uuid = set.to_string();
        match name != uuid && self.to_string().contains(&uuid) {
            // Where two sets have one name only the UUID tells them apart.
            true if !matches!(self, Error::Several { .. }) => {
                Error::OfSet { set, name: name.to_owned(), error: Box::new(self) }
            }
            _ => self,
        }
    }

    /// Whether what was asked for would be there for reading, or may be, where a set is put together by force.
    pub fn force_helps(&self) -> bool {
        match self {
            Error::Assemble(error) | Error::Live(LiveError::Assemble(error)) => error.force_helps(),
            Error::Live(LiveError::DirtyDegraded { .. }) => true,
            Error::OfSet { error, .. } | Error::By { error, .. } => error.force_helps(),
            Error::Refused { force_helps, .. } => *force_helps,
            Error::NoVolume { forcible, .. } => !forcible.is_empty(),
            Error::ForcedIsRead { .. } => true,
            _ => false,
        }
    }

    /// Whether the rest of it is read by who goes on past what can't be read.
    pub fn skip_helps(&self) -> bool {
        matches!(self, Error::Lvm(LvmError::Missing { .. } | LvmError::DeviceTooSmall { .. }))
    }

    /// Whether it was asked wrongly: another call would do.
    pub fn is_usage(&self) -> bool {
        match self {
            Error::Answered { status, .. } => *status == 2,
            Error::OfSet { error, .. } => error.is_usage(),
            // Who has it is asked to let it go: the call is right.
            Error::Named(OpenError::InUse(_) | OpenError::Locked(_)) => false,
            Error::Named(error) => !error.is_denied(),
            Error::Folder { error, .. } => error.kind() != io::ErrorKind::PermissionDenied,
            // What was not looked into may hold it.
            Error::NoVolume { forcible, barred, .. } => forcible.is_empty() && barred.is_empty(),
            Error::NoDevices
            | Error::Holds(_)
            | Error::HoldsMember { .. }
            | Error::Probe(_)
            | Error::NoDevice { .. }
            | Error::Twice { .. }
            | Error::Shared { .. }
            | Error::IsMember { .. }
            | Error::OwnExport { .. }
            | Error::NoSet { .. }
            | Error::Several { .. }
            | Error::NotWorking { .. }
            | Error::FailedAlready { .. }
            | Error::NoMember { .. }
            | Error::AlreadyOfSet { .. }
            | Error::WasJournal { .. }
            | Error::NotOfSet { .. }
            | Error::NoSlot { .. }
            | Error::NoSpare { .. }
            | Error::NoRequest(_)
            | Error::OtherVersion { .. }
            | Error::Silent
            | Error::MoreThanOne
            | Error::NoLine
            | Error::NoGroup { .. }
            | Error::NoLogical { .. }
            | Error::SeveralGroups { .. }
            | Error::ByForce { .. }
            | Error::ForcedIsRead { .. }
            | Error::NoPartition { .. }
            | Error::PartitionOfMember { .. }
            | Error::KernelPartition { .. }
            | Error::IsFileSystem { .. }
            | Error::KeyFile { .. }
            | Error::KeyTooLong { .. }
            | Error::Addresses { .. }
            | Error::Server(_)
            | Error::MountWithin { .. }
            | Error::MountTwice { .. }
            | Error::NotToMount { .. }
            | Error::Export { .. } => true,
            _ => false,
        }
    }

    /// The exit status of a command that ends with it.
    pub fn status(&self) -> u8 {
        if self.is_usage() { 2 } else { 1 }
    }
}

/// Names that are listed where another was not found; more are counted.
const LISTED_MAX: usize = 8;

/// Some of the names that there are, where there are some.
pub(crate) fn there_are(names: impl Iterator<Item = String>) -> Option<String> {
    let mut names: Vec<String> = names.collect();
    let more = names.len().saturating_sub(LISTED_MAX);
    names.truncate(LISTED_MAX);
    match (names.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(format!("there are {}", names.join(", "))),
        (false, _) => Some(format!("there are {} and {more} more", names.join(", "))),
    }
}

fn mend_of_folder(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => host::mend_of_denied(),
        _ => "",
    }
}

/// What was not looked into.
fn unlooked(forcible: &[String], barred: &[String]) -> String {
    let said = |sets: &[String], how: &str| match sets {
        [] => String::new(),
        [one] => format!("; RAID set {one} can{how}, and was not looked into"),
        several => format!("; RAID sets {} can{how}, and were not looked into", several.join(", ")),
    };
    said(forcible, " be put together by force alone") + &said(barred, "'t be put together")
}

/// What to do about a pool of which groups are lost.
fn lost_mend(pool: &str, before: Option<u64>) -> String {
    let take = "spindle zpool import --accept-loss";
    match before {
        Some(group) => format!(
            ": find what is missing, or copy that out first ('spindle zfs -T {group} cp -r'), best from copies of the disks; then spindle \
             zpool import -FX {pool} takes it back to before, and {take} {pool} takes it as it is"
        ),
        None => format!(": find what is missing; {take} {pool} takes it as it is"),
    }
}

/// What to do about a pool that opens for reading, and of which what is needed to write it is damaged.
fn damaged_mend(pool: &str, error: &spa::live::LiveError) -> String {
    let back = format!(
        "spindle zpool import -FXn {pool} says whether an older state of it is whole, and -FX takes it back to that"
    );
    match error {
        spa::live::LiveError::Dtl(_) => {
            format!("{back}; spindle zpool import --accept-loss {pool} takes it as it is")
        }
        _ => back,
    }
}

/// `1 drive`.
fn drives(count: usize) -> String {
    if count == 1 { "1 drive".to_owned() } else { format!("{count} drives") }
}

/// `1 client is`.
fn clients_are(count: usize) -> String {
    if count == 1 { "1 client is".to_owned() } else { format!("{count} clients are") }
}

/// What is said of a dataset whose intent log can't be read for want of a device.
pub fn log_is_cut(dataset: &str) -> String {
    format!(
        "the intent log of {dataset} lies on a device that is missing: its last synchronous writes are not shown"
    )
}
