//! Why devices don't make an array: which device, what of it, and the mend.

use crate::spec::SpecError;
use crate::superblock::{FormatError, Uuid};
use rt::IoError;
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
    #[error("{device}: level {name} is not supported: linear, 0, 1, 10, 4, 5 and 6 are")]
    Level { device: String, name: String },
    #[error("set {set}: {what} is not supported")]
    Unsupported { set: Uuid, what: &'static str },
    #[error("{device}: the space of its partial parity log {what}")]
    LogSpace { device: String, what: &'static str },
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
        "set {set}: {missing} members are missing or not rebuilt yet, and {level} can do without {covered}: bring one back"
    )]
    TooFew { set: Uuid, level: crate::Level, missing: usize, covered: usize },
}

impl AssembleError {
    pub(super) fn format(device: &str, error: FormatError) -> AssembleError {
        AssembleError::Format { device: device.to_owned(), error }
    }
}
