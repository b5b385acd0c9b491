//! Why devices don't make an array: which device, what of it, and the mend.

use crate::spec::{Level, SpecError};
use crate::superblock::{FormatError, Uuid};
use rt::IoError;
use std::fmt;
use stdx::ByteCount;

/// Why an array can't be assembled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the texts name")]
pub enum AssembleError {
    #[error("{0}")]
    Io(#[from] IoError),
    #[error("{device}: {error}")]
    Format { device: String, error: FormatError },
    #[error("{device}: {what} would lie beyond the device's {capacity}: is the device cut short?")]
    BeyondEnd { device: String, what: &'static str, capacity: ByteCount },
    #[error("no device of set {set} holds a slot: bring members, not spares")]
    NoMembers { set: Uuid },
    #[error("{first} and {second} both say that they are slot {slot} of set {set}: leave one out")]
    SameSlot { set: Uuid, slot: usize, first: String, second: String },
    #[error("set {set}: {}", told_contradiction(fact, odd, most, said, *is_majority))]
    Contradiction {
        set: Uuid,
        /// What they say different things of.
        fact: &'static str,
        /// What the fewer say, with their names.
        odd: Vec<(String, Vec<String>)>,
        /// Those that most others agree with, or the one side of two.
        most: Vec<String>,
        /// What they say.
        said: String,
        /// Whether they are more than half of all.
        is_majority: bool,
    },
    #[error("{device}: level {name} is not supported: linear, 0, 1, 10, 4, 5 and 6 are")]
    Level { device: String, name: String },
    #[error("set {set}: {what} is not supported")]
    Unsupported { set: Uuid, what: &'static str },
    #[error(
        "{device}: its write-intent bitmap would reach into the superblock or the data: leave the device out"
    )]
    BitmapSpace { device: String },
    #[error("{device}: the space of its partial parity log {what}")]
    LogSpace { device: String, what: &'static str },
    #[error(
        "set {set} lacks its journal, and {missing} of its members: what was being written when it stopped can't be told from what was not; bring the journal, or accept wrong data there with --force"
    )]
    NoJournal { set: Uuid, missing: usize },
    #[error("{device}: the journal lists a place that the set does not have: is it another set's?")]
    JournalStray { device: String },
    #[error(
        "{device}: the journal holds more than the {most} that are kept in memory: open the set for writing, which puts it on the members"
    )]
    JournalFull { device: String, most: ByteCount },
    #[error(
        "{device}: the journal holds data whose parity was not made yet, and that takes the member in slot {slot}: bring it"
    )]
    JournalNeeds { device: String, slot: usize },
    #[error(
        "{device}: a journal of {capacity} is too small for rows of this set: it takes {least}"
    )]
    JournalSmall { device: String, capacity: ByteCount, least: ByteCount },
    #[error("set {set}: {error}")]
    Spec { set: Uuid, error: SpecError },
    #[error(
        "set {set} was not stopped cleanly and lacks {missing} of its members: stripes that were being written can't be trusted; bring the members, or accept wrong data there with --force"
    )]
    DirtyDegraded { set: Uuid, missing: usize },
    #[error(
        "set {set} stopped within the critical section of a reshape, which lies in mdadm's backup file: let mdadm --assemble --backup-file=FILE finish it"
    )]
    Backup { set: Uuid },
    #[error(
        "set {set} is a RAID 0 of members of different sizes that does not say by which rule it was written: add --layout=original (kernels up to 3.13) or --layout=alternate"
    )]
    Raid0Layout { set: Uuid },
    #[error(
        "set {set}: {missing} of {slots} members are missing or not rebuilt yet, and {level} {}", told_few(*level, *covered, behind, halves.as_deref(), *force_helps)
    )]
    TooFew {
        set: Uuid,
        level: Level,
        slots: usize,
        missing: usize,
        /// How many the level can do without.
        covered: usize,
        /// Devices that are there and don't count.
        behind: Vec<Behind>,
        /// Where the others are enough by themselves: both sides.
        halves: Option<Box<Halves>>,
        /// Whether enough of them can be taken back.
        force_helps: bool,
    },
    #[error(
        "set {set}: {} and {} went on without each other and have as many events, so nothing tells whose content counts: open either alone, with {} or with {}", own.join(", "), other.join(", "), alone(own), alone(other)
    )]
    Apart {
        set: Uuid,
        /// Devices of one side.
        own: Vec<String>,
        /// Devices of the other.
        other: Vec<String>,
    },
}

/// Devices of a set that went on without each other, where those that count are too few.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Halves {
    /// Those that are left out, and enough by themselves.
    pub alone: Vec<String>,
    /// The members that count.
    pub counting: Vec<String>,
}

/// A device that is there and does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behind {
    /// Its name.
    pub device: String,
    /// So many events behind.
    pub events: u64,
    /// The others recorded that it failed.
    pub failed: bool,
}

impl fmt::Display for Behind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let events = if self.events == 1 { "event" } else { "events" };
        let failed = if self.failed { "recorded as failed, " } else { "" };
        write!(f, "{} ({failed}{} {events} behind)", self.device, self.events)
    }
}

/// What a level can do without, who would be there, and the mend.
fn told_few(
    level: Level,
    covered: usize,
    behind: &[Behind],
    halves: Option<&Halves>,
    force_helps: bool,
) -> String {
    let without = match (level, covered) {
        (Level::Raid10, _) => "has no copy left of some of its data".to_owned(),
        (_, 0) => "can do without none".to_owned(),
        _ => format!("can do without {covered}"),
    };
    let names: Vec<String> = behind.iter().map(Behind::to_string).collect();
    let there = match names.is_empty() {
        true => String::new(),
        false => format!("; left out: {}", names.join(", ")),
    };
    if let Some(Halves { alone: side, counting }) = halves {
        let (devices, counting) = (side.join(", "), counting.join(", "));
        let with = alone(side);
        return format!(
            "{without}{there}: {devices} went on without {counting}, and are enough by themselves: open those alone, with {with}; what was written with {counting} since is not in them"
        );
    }
    let mend = match force_helps {
        true => {
            "bring the missing ones, or take back as many of those left out as it takes with --force: what was written since they left is lost, or torn where it was written"
        }
        false => "bring the missing ones back",
    };
    format!("{without}{there}: {mend}")
}

/// Who contradicts whom, of what, and the mend.
fn told_contradiction(
    fact: &str,
    odd: &[(String, Vec<String>)],
    most: &[String],
    said: &str,
    is_majority: bool,
) -> String {
    let say = |said: &str, names: &[String]| {
        let verb = if names.len() == 1 { "says" } else { "say" };
        format!("{} {verb} {said}", names.join(", "))
    };
    let others: Vec<String> = odd.iter().map(|(said, names)| say(said, names)).collect();
    let (others, most_say) = (others.join("; "), say(said, most));
    if is_majority {
        return format!(
            "superblocks contradict each other about the {fact}: {others}, while {most_say}: leave the odd one out, with {}, and add it again as a new device",
            alone(most)
        );
    }
    let sides = odd.iter().map(|(_, names)| alone(names));
    let sides: Vec<String> = std::iter::once(alone(most)).chain(sides).collect();
    format!(
        "superblocks contradict each other about the {fact}: {most_say}; {others}: nothing tells which is right, so open one side alone, with {}",
        sides.join(" or with ")
    )
}

/// How a command is told to take these devices alone.
fn alone(devices: &[String]) -> String {
    let each: Vec<String> = devices.iter().map(|device| format!("-d {device}")).collect();
    each.join(" ")
}

impl AssembleError {
    /// Whether the set can be put together by force.
    pub fn force_helps(&self) -> bool {
        match self {
            AssembleError::TooFew { force_helps, .. } => *force_helps,
            AssembleError::DirtyDegraded { .. } | AssembleError::NoJournal { .. } => true,
            _ => false,
        }
    }

    pub(crate) fn format(device: &str, error: FormatError) -> AssembleError {
        AssembleError::Format { device: device.to_owned(), error }
    }
}
