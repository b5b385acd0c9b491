//! What happens while something is attached, told to whoever asked for it.
//!
//! Each event is a value with its facts; its text is how a person reads it, in one line, and [`Event::tone`] how loud it is.
//! Executors on other threads tell the same [`Sink`].

use crate::error::{Error, log_is_cut};
use ::md::Cause;
use ::md::assemble::{Histories, Why};
use ::md::live::LiveError;
use ::zfs::ZfsError;
use ::zfs::spa::live::Reason;
use rt::{IoError, IoErrorKind, Panicked, StreamError};
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use stdx::{ByteCount, RangeSet};
use volume::content::Content;
use volume::lvm::{Lacking, Lacks};
use volume::partition::copy_as_long;

/// What makes a set whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// All of it is made to agree.
    Resync,
    /// A slot is filled anew.
    Rebuild(usize),
    /// A slot's member is copied to its replacement.
    Replace(usize),
}

impl Work {
    /// As it begins: `rebuilding slot 1`.
    pub fn begun(self) -> String {
        match self {
            Work::Resync => "resynchronising".to_owned(),
            Work::Rebuild(slot) => format!("rebuilding slot {slot}"),
            Work::Replace(slot) => format!("copying slot {slot} to its replacement"),
        }
    }

    /// As it has ended: `rebuilt slot 1`.
    pub fn done(self) -> String {
        match self {
            Work::Resync => "resynchronised".to_owned(),
            Work::Rebuild(slot) => format!("rebuilt slot {slot}"),
            Work::Replace(slot) => format!("replaced slot {slot}"),
        }
    }
}

/// Members that are left of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// So many.
    pub there: usize,
    /// Of so many.
    pub slots: usize,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} members are left", self.there, self.slots)
    }
}

/// What a set without all of its members can bear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bears {
    /// It has failed.
    Nothing,
    /// Another loss is survived.
    Another,
    /// The next loss is the last.
    NoOther,
}

/// What comes after a piece of work that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the texts say it")]
pub enum Then {
    SetFailed,
    LeftAlone,
    ReplaceAnew,
    NextSpare,
    WithTheNextDevice,
}

/// What happens to a set that runs, by the names that mdadm's monitor has.
#[derive(Debug)]
#[allow(missing_docs, reason = "the fields are what the texts name")]
pub enum SetEvent {
    RebuildStarted { work: Work, on: Option<Arc<str>> },
    RebuildFinished { work: Work, on: Option<Arc<str>> },
    RebuildFailed { work: Work, error: LiveError, then: Then },
    DegradedArray { left: Left, has_spares: bool, bears: Bears },
    Fail { device: Arc<str>, slot: Option<usize>, cause: Cause, left: Left, bears: Bears },
    FailSpare { device: Arc<str>, slot: Option<usize>, cause: Cause },
    JournalFailed { device: Arc<str> },
    SpareActive { device: Arc<str>, slot: usize },
    HasFailed { left: Left },
    Broken { panicked: Panicked },
}

/// What happened.
#[derive(Debug)]
#[allow(missing_docs, reason = "the fields are what the texts name")]
pub enum Event {
    PassedOver {
        error: Error,
    },
    TakenBack {
        device: String,
        slot: usize,
        events: u64,
        of: u64,
        writes: bool,
    },
    LeftOut {
        device: String,
        why: Why,
    },
    WentOn {
        devices: Vec<String>,
        member: String,
        behind: u64,
    },
    /// Members count as many events, and are of copies of the set that were used apart.
    Histories {
        histories: Histories,
    },
    NoJournal,
    Begun(Work),
    Done(Work),
    Set {
        set: Arc<str>,
        event: SetEvent,
    },
    NoSocket {
        of: Arc<str>,
        error: Error,
    },
    SocketLost {
        of: Arc<str>,
        error: StreamError,
    },
    /// A server said this to whoever asked it for something.
    Said(String),
    /// Something on the devices could not be had.
    Complaint(String),
    CutShort {
        device: String,
        has: ByteCount,
        pool: String,
        needed: ByteCount,
    },
    SameDevice {
        used: String,
        copy: String,
        pool: String,
    },
    ReadBesideHolder {
        pool: String,
        process: u32,
        what: String,
    },
    NotExported {
        pool: String,
    },
    /// The newest group can't be opened, and an older one is read.
    OlderGroup {
        pool: String,
        txg: u64,
        newest: u64,
        seconds: u64,
    },
    /// A group was asked for that is so old that later ones may have overwritten blocks of it.
    OldGroupAsked {
        pool: String,
        txg: u64,
        newest: u64,
    },
    /// Of what was written in these groups not all can be read; and the last group before them, of which an uberblock is left.
    GroupsLost {
        pool: String,
        groups: String,
        before: Option<u64>,
    },
    /// Devices of it went on without the others, and what they wrote by themselves, the last of it then, is only on them.
    WentApart {
        pool: String,
        devices: String,
        seconds: u64,
    },
    ActivityCheck {
        pool: String,
        seconds: u64,
    },
    /// Its devices take no writes: who writes waits, or is refused.
    PoolSuspended {
        pool: String,
        reason: Reason,
    },
    PoolResumed {
        pool: String,
    },
    /// Somebody asked for it, and what else is held goes on.
    PoolClosed {
        pool: String,
        destroyed: bool,
    },
    /// It failed too often, and the others bear it.
    DeviceFaulted {
        pool: String,
        device: String,
    },
    LogCut {
        dataset: String,
    },
    /// A program asked for what can't be read.
    Damage {
        dataset: String,
        object: u64,
        bytes: Range<u64>,
        error: String,
    },
    DamageCounted,
    DamageSum {
        dataset: String,
        reads: u64,
    },
    /// A client of an export gets an error, since its device can't.
    RequestFailed {
        export: String,
        error: IoError,
    },
    RequestsCounted,
    RequestsSum {
        failed: u64,
    },
    /// A volume is read although a part of it is not there.
    ReadInPart {
        volume: String,
        lacking: Lacking,
    },
    /// Zeros stand for it, as was asked for.
    ReadAsZeros {
        device: Arc<str>,
        bytes: Range<u64>,
        kind: IoErrorKind,
    },
    ReadAsZerosLater,
    ReadAsZerosAll {
        device: Arc<str>,
        bytes: u64,
        stretches: RangeSet,
        /// So many of the stretches are named at the most.
        named: usize,
    },
    /// What its intent log holds can't be put into it, since it is damaged.
    LogGivenUp {
        dataset: String,
        records: u64,
        error: ZfsError,
    },
    /// Logs are seen with one dataset each, and not with all of the pool.
    ReplayedApart {
        pool: String,
        error: Error,
    },
    Mounted {
        dataset: String,
        directory: PathBuf,
        for_writing: bool,
    },
    LogNotReplayed {
        dataset: String,
        records: usize,
    },
    Locked {
        datasets: Vec<String>,
    },
    MemberServed {
        path: PathBuf,
        what: &'static str,
    },
    MembersServed {
        path: PathBuf,
        partitions: Vec<u32>,
    },
    WrittenElsewhere {
        path: PathBuf,
    },
    Serving {
        exports: usize,
        on: Vec<String>,
    },
    /// Where clients find an export, and what lies there.
    Reached {
        uri: String,
        read_only: bool,
        content: Option<Content>,
    },
    /// Nothing is listened for but commands.
    Holding {
        pools: usize,
    },
}

/// How loud an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// What was asked for has come about.
    Result,
    /// Work goes on.
    Progress,
    /// Worth knowing.
    Note,
    /// Worth looking into.
    Warning,
}

impl Event {
    /// How loud it is.
    pub fn tone(&self) -> Tone {
        match self {
            Event::Serving { .. }
            | Event::Reached { .. }
            | Event::Holding { .. }
            | Event::Mounted { .. } => Tone::Result,
            Event::Begun(_) | Event::Done(_) | Event::Said(_) => Tone::Progress,
            Event::PassedOver { .. }
            | Event::TakenBack { .. }
            | Event::LeftOut { .. }
            | Event::WentOn { .. }
            | Event::Histories { .. }
            | Event::NoJournal
            | Event::Damage { .. }
            | Event::DamageCounted
            | Event::DamageSum { .. }
            | Event::RequestFailed { .. }
            | Event::RequestsCounted
            | Event::RequestsSum { .. }
            | Event::ReadInPart { .. }
            | Event::ReadAsZeros { .. }
            | Event::ReadAsZerosLater
            | Event::ReadAsZerosAll { .. }
            | Event::LogGivenUp { .. }
            | Event::PoolSuspended { .. }
            | Event::DeviceFaulted { .. }
            | Event::Set { .. } => Tone::Warning,
            _ => Tone::Note,
        }
    }
}

/// ` on DEVICE`.
fn on(device: &Option<Arc<str>>) -> String {
    device.as_ref().map_or(String::new(), |device| format!(" on {device}"))
}

/// ` (slot 1)`.
fn place(slot: Option<usize>) -> String {
    slot.map_or(String::new(), |slot| format!(" (slot {slot})"))
}

impl fmt::Display for Then {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Then::SetFailed => "the set has failed",
            Then::LeftAlone => "it failed too often, and is left alone until a device is added",
            Then::ReplaceAnew => "the member stays in use; replace it anew",
            Then::NextSpare => "the next spare is taken",
            Then::WithTheNextDevice => "it is tried again when a device comes or goes",
        })
    }
}

impl fmt::Display for SetEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetEvent::RebuildStarted { work, on: device } => {
                write!(f, "RebuildStarted: {}{}", work.begun(), on(device))
            }
            SetEvent::RebuildFinished { work, on: device } => {
                write!(f, "RebuildFinished: {}{}", work.done(), on(device))
            }
            SetEvent::RebuildFailed { work, error, then } => {
                let what = match work {
                    Work::Resync => "resynchronising",
                    Work::Rebuild(_) => "rebuilding",
                    Work::Replace(_) => "replacing",
                };
                write!(f, "RebuildFailed: {what}: {error}; {then}")
            }
            SetEvent::DegradedArray { left, has_spares, bears } => {
                let then = match bears {
                    _ if *has_spares => "it is made whole now",
                    Bears::Another => "another loss is survived; add a device",
                    _ => "another loss is not survived: add a device",
                };
                write!(f, "DegradedArray: {left}; {then}")
            }
            SetEvent::Fail { device, slot, cause, left, bears } => {
                let then = match bears {
                    Bears::Nothing => "that is too few",
                    Bears::Another => "another loss is survived",
                    Bears::NoOther => "another loss is not survived",
                };
                write!(f, "Fail: {device}{}: {cause}; {left}; {then}", place(*slot))
            }
            SetEvent::FailSpare { device, slot, cause } => {
                write!(f, "FailSpare: {device}{}: {cause}", place(*slot))
            }
            SetEvent::JournalFailed { device } => write!(
                f,
                "Fail: {device}: the journal; nothing is written any more: stop the server and add another (spindle md add --journal)"
            ),
            SetEvent::SpareActive { device, slot } => {
                write!(f, "SpareActive: {device} (slot {slot})")
            }
            SetEvent::HasFailed { left } => write!(
                f,
                "has failed: {left}, more than it can do without: writes are refused, and reads of what is lost; stop the server (spindle md stop), make room or bring members back, and spindle md assemble says what helps"
            ),
            SetEvent::Broken { panicked } => write!(
                f,
                "{panicked}: nothing more of it is answered or written; end its server, and the next start makes it right"
            ),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::PassedOver { error } => write!(f, "passed over: {error}"),
            Event::TakenBack { device, slot, events, of, writes: true } => {
                write!(f, "forcing event count in {device}({slot}) from {events} upto {of}")
            }
            Event::TakenBack { device, slot, events, of, writes: false } => {
                write!(
                    f,
                    "counting {device}({slot}) in, which has {events} of {of} events; nothing is written"
                )
            }
            Event::LeftOut { device, why } => {
                write!(f, "left out: {device}: ")?;
                match why {
                    Why::Stale(events) => write!(f, "its content is old, {events} events behind"),
                    Why::Faulty => f.write_str("the other members recorded that it failed"),
                    Why::Removed => f.write_str("the other members do not count it any more"),
                    Why::CutShort { has, needed } => write!(
                        f,
                        "its data area would lie beyond the device's {has}: is it cut short? Where the set lacks it, {} is taken; what was cut \
                         off is lost",
                        copy_as_long(device, needed.bytes())
                    ),
                }
            }
            Event::WentOn { devices, member, behind } => write!(
                f,
                "left out: {} went on without {member}, and they differ since; {member} counts {behind} event{} more: to open the other side, name its devices alone, with -d {}",
                devices.join(", "),
                if *behind == 1 { "" } else { "s" },
                devices.join(" -d ")
            ),
            Event::Histories { histories } => write!(f, "{histories}"),
            Event::NoJournal => f.write_str(
                "the journal is not there: what was being written when the set stopped may be half there or lost",
            ),
            Event::Begun(work) => f.write_str(&work.begun()),
            Event::Done(work) => f.write_str(&work.done()),
            // What broke names the set itself.
            Event::Set { event: event @ SetEvent::Broken { .. }, .. } => write!(f, "{event}"),
            Event::Set { set, event } => write!(f, "{set}: {event}"),
            Event::NoSocket { of, error } => {
                write!(f, "{of}: {error}; md fail, add and the like need the server stopped")
            }
            Event::SocketLost { of, error } => write!(f, "{of}: its socket: {error}"),
            Event::Said(text) | Event::Complaint(text) => f.write_str(text),
            Event::CutShort { device, has, pool, needed } => write!(
                f,
                "{device} has {has}, and pool '{pool}' goes up to {needed} on it: was it cut short? What it has is read; it stands in for no other device, and is not written"
            ),
            Event::SameDevice { used, copy, pool } => write!(
                f,
                "{copy} and {used} both say that they are the same device of pool '{pool}': {used} is read; leave one out"
            ),
            Event::ActivityCheck { pool, seconds } => write!(
                f,
                "pool '{pool}' has multihost on: watching for {seconds} s whether another host has it"
            ),
            Event::ReadBesideHolder { pool, process, what } => write!(
                f,
                "{pool} is held by process {process} ({what}): what is shown is as of its last transaction group"
            ),
            Event::OlderGroup { pool, txg, newest, seconds } => write!(
                f,
                "the newest transaction group {newest} of pool '{pool}' can't be opened: group {txg} is read, and the last {seconds} s of what was \
                 written are lacking"
            ),
            Event::OldGroupAsked { pool, txg, newest } => write!(
                f,
                "pool '{pool}' is read as of transaction group {txg}, and {newest} is its newest: what later groups overwrote can't be read"
            ),
            Event::GroupsLost { pool, groups, before } => {
                let older = before.map_or(String::new(), |group| {
                    format!("; as it was before that 'zfs -T {group}' may show it")
                });
                write!(
                    f,
                    "of pool '{pool}' not all that was written in {groups} can be read ('zpool status' tells why){older}"
                )
            }
            Event::WentApart { pool, devices, seconds } => write!(
                f,
                "pool '{pool}': {devices} went on without the others, until {}: what was written then is only there, and is shown where \
                 those alone are named with -d",
                ::zfs::show::universal_date(*seconds)
            ),
            Event::NotExported { pool } => write!(
                f,
                "pool '{pool}' was not exported: it is read as it stood at its last transaction group"
            ),
            Event::PoolSuspended { pool, reason: Reason::Io } => write!(
                f,
                "pool '{pool}' has encountered an uncorrectable I/O failure and has been suspended: mend what its devices lack, then spindle zpool clear {pool}"
            ),
            Event::PoolSuspended { pool, reason: Reason::Multihost } => write!(
                f,
                "pool '{pool}' has been suspended: no sign of life could be written for too long, and another host may have taken it; spindle zpool clear {pool} looks"
            ),
            Event::DeviceFaulted { pool, device } => write!(
                f,
                "{device} of pool '{pool}' does not take what is written, and is taken out: mend it, then spindle zpool clear {pool} takes it back"
            ),
            Event::PoolClosed { pool, destroyed } => {
                let how = if *destroyed { "destroyed" } else { "exported" };
                write!(f, "pool '{pool}' is {how}, and its devices are free")
            }
            Event::PoolResumed { pool } => write!(f, "pool '{pool}' is not suspended any more"),
            Event::LogCut { dataset } => f.write_str(&log_is_cut(dataset)),
            Event::Damage { dataset, object, bytes, error } => write!(
                f,
                "{dataset}: object {object}, bytes {} to {} can't be read: {error}",
                bytes.start, bytes.end
            ),
            Event::DamageCounted => f.write_str("what more can't be read is only counted"),
            Event::DamageSum { dataset, reads } => write!(f, "{dataset}: {reads} reads failed"),
            Event::RequestFailed { export, error } => {
                write!(f, "a client of '{export}' gets an error: {error}")
            }
            Event::RequestsCounted => f.write_str("what more fails is only counted"),
            Event::RequestsSum { failed } => write!(f, "{failed} requests of clients failed"),
            Event::ReadInPart { volume, lacking: Lacking { why, bytes, within } } => {
                let (from, to) = (within.start, within.end);
                match why {
                    Lacks::Missing(id) => write!(
                        f,
                        "{volume}: the physical volume {id} is missing: {bytes} bytes that lay on it, within bytes {from} to {to}, can't be read"
                    ),
                    Lacks::CutShort(device) => write!(
                        f,
                        "{volume}: {device} ends too soon: {bytes} bytes that lay behind its end, within bytes {from} to {to}, can't be read"
                    ),
                }
            }
            Event::ReadAsZeros { device, bytes, kind } => write!(
                f,
                "{device}: bytes {} to {} can't be read ({kind}): zeros stand for them",
                bytes.start, bytes.end
            ),
            Event::ReadAsZerosLater => f.write_str("what more can't be read is told in the end"),
            Event::ReadAsZerosAll { device, bytes, stretches, named } => {
                write!(f, "{device}: zeros stood for {bytes} bytes that can't be read")?;
                for (n, stretch) in stretches.iter().take(*named).enumerate() {
                    let before = if n == 0 { ": bytes" } else { "," };
                    write!(f, "{before} {} to {}", stretch.start, stretch.end)?;
                }
                match stretches.len().saturating_sub(*named) {
                    0 => Ok(()),
                    more => write!(f, " and {more} stretches more"),
                }
            }
            Event::LogGivenUp { dataset, records, error } => write!(
                f,
                "{dataset} is damaged, and {records} changes that its intent log holds are given up: {error}"
            ),
            Event::ReplayedApart { pool, error } => write!(
                f,
                "{pool} can't be written, not even in memory: the intent log of each dataset is laid over it alone ({error})"
            ),
            Event::Mounted { dataset, directory, for_writing } => {
                let how = if *for_writing { "writing" } else { "reading" };
                write!(f, "{dataset} is mounted on {} for {how}", directory.display())
            }
            Event::LogNotReplayed { dataset, records } => write!(
                f,
                "{dataset}: {records} records of its intent log were not replayed; --replay-view shows it with them"
            ),
            Event::Locked { datasets } => {
                let first = datasets.first().map_or("", String::as_str);
                let all = datasets.join(", ");
                write!(
                    f,
                    "locked, since their keys are not given: {all}; --key-file {first}=FILE opens {first}"
                )
            }
            Event::MemberServed { path, what } => write!(
                f,
                "{}: it holds {what}: what is written to it alone is not on the others; --volume serves the set",
                path.display()
            ),
            Event::MembersServed { path, partitions } => {
                let numbers: Vec<String> = partitions.iter().map(ToString::to_string).collect();
                let what = match &numbers[..] {
                    [one] => format!("its partition {one} is an md RAID member"),
                    many => format!("its partitions {} are md RAID members", many.join(", ")),
                };
                write!(
                    f,
                    "{}: {what}: what is written there alone is not on the others; --volume serves a set, --readonly where it lies on \
                     partitions of images",
                    path.display()
                )
            }
            Event::WrittenElsewhere { path } => write!(
                f,
                "{}: another process is writing to it: what is read may not hold together",
                path.display()
            ),
            Event::Holding { pools } => {
                let count = if *pools == 1 { "1 pool".into() } else { format!("{pools} pools") };
                write!(f, "holding {count}")
            }
            Event::Reached { uri, read_only, content } => {
                write!(f, "clients connect to '{uri}'")?;
                match content {
                    Some(content) => write!(f, "{}", last_mile(uri, *read_only, content)),
                    None => Ok(()),
                }
            }
            Event::Serving { exports, on } => {
                let count =
                    if *exports == 1 { "1 export".into() } else { format!("{exports} exports") };
                write!(f, "serving {count} over NBD on {}", on.join(", "))
            }
        }
    }
}

/// How a Linux host makes files of an export: without a kernel module but FUSE's, by `nbdfuse`; by the kernel's own client
/// otherwise. One line more.
fn last_mile(uri: &str, read_only: bool, content: &Content) -> String {
    let kind = content.kind;
    if !kind.is_file_system() && !kind.is_encrypted() {
        return String::new();
    }
    let name = kind.name();
    let (fuse, lock) = if read_only { ("nbdfuse -r", "ro") } else { ("nbdfuse", "rw") };
    if let Some(devices) = content.devices.filter(|devices| *devices > 1) {
        let (loops, options) = match read_only {
            true => ("losetup -rf", kind.read_only_options()),
            false => ("losetup -f", lock),
        };
        return format!(
            "\nspindle: it holds {name}, one of its {devices} devices: raw=$(mktemp -d); {fuse} $raw '{uri}' & then {loops} $raw/nbd; when \
             that is done for all of them: btrfs device scan; mount -t {name} -o {options} /dev/loopN /mnt"
        );
    }
    let then = match kind.is_encrypted() {
        true if read_only => "cryptsetup open --readonly /tmp/raw/nbd files".to_owned(),
        true => "cryptsetup open /tmp/raw/nbd files".to_owned(),
        false => {
            let options = if read_only { kind.read_only_options() } else { lock };
            format!("mount -t {name} -o loop,{options} /tmp/raw/nbd /mnt")
        }
    };
    format!("\nspindle: it holds {name}: mkdir -p /tmp/raw; {fuse} /tmp/raw '{uri}' & then {then}")
}

/// Who is told. It is called on the thread where the event is, and must not wait for anything there.
pub trait Sink: Send + Sync {
    /// Something happened.
    fn tell(&self, event: &Event);
}

impl<F: Fn(&Event) + Send + Sync> Sink for F {
    fn tell(&self, event: &Event) {
        self(event);
    }
}

/// A way to a sink.
#[derive(Clone)]
pub struct Events(Arc<dyn Sink>);

impl Events {
    /// To this one.
    pub fn to(sink: impl Sink + 'static) -> Events {
        Events(Arc::new(sink))
    }

    /// To nobody.
    pub fn unheard() -> Events {
        Events::to(|_: &Event| {})
    }

    /// Tells it.
    pub fn tell(&self, event: Event) {
        self.0.tell(&event);
    }
}
