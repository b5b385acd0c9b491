//! Why a set can't be opened for writing, or something with it can't be done; and the mend.

use crate::assemble::AssembleError;
use crate::opening::refusal::Refusal;
use crate::spec::{Level, SpecError};
use crate::superblock::Uuid;
use crate::superblock::v1::DEVICES_MAX;
use crate::sync::SyncError;
use rt::IoErrorKind;
use rt::guarded::Panicked;
use stdx::ByteCount;

/// Why a set can't be opened for writing, or something with it can't be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the texts name")]
pub enum LiveError {
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    #[error("set {set} has {what}: it can be read, and not yet written")]
    ReadOnly { set: Uuid, what: &'static str },
    #[error(
        "set {set} lacks its journal: what was being written when it stopped is half there or lost; bring the journal, or go on without one with --force, which makes all parity anew"
    )]
    NoJournal { set: Uuid },
    #[error("{device} is the journal: fail it first")]
    JournalInUse { device: String },
    #[error("set {set} {why}")]
    CantHaveJournal { set: Uuid, why: &'static str },
    #[error("set {set}: writing the superblocks: {kind}")]
    Superblocks { set: Uuid, kind: IoErrorKind },
    #[error(
        "set {set} has {} less than it should and is not resynchronised: with --force it is started, and stripes that were being written may be wrong",
        members(*.missing)
    )]
    DirtyDegraded { set: Uuid, missing: usize },
    #[error("set {set}: {error}")]
    Spec { set: Uuid, error: SpecError },
    #[error("set {set}: {error}")]
    Sync { set: Uuid, error: SyncError },
    #[error("set {set} is a {level}, which has no redundancy: there is nothing to add or replace")]
    NoRedundancy { set: Uuid, level: Level },
    #[error("{device} has {capacity}, and the set needs {needed}: add a larger one")]
    TooSmall { device: String, capacity: ByteCount, needed: ByteCount },
    #[error("{device} is the member in slot {slot}: fail it first")]
    InUse { device: String, slot: usize },
    #[error("set {set} can't do without slot {slot}: rebuild another one first")]
    Needed { set: Uuid, slot: usize },
    #[error(
        "set {set} is not resynchronised, so what slot {slot} holds can't be told without it: let the resync end first, with spindle md repair or while it is served"
    )]
    NeededForResync { set: Uuid, slot: usize },
    #[error(
        "set {set} lacks its journal, so it can't do without slot {slot}: add a journal first, with spindle md add --journal"
    )]
    NeededWithoutJournal { set: Uuid, slot: usize },
    #[error(
        "slot {slot} of set {set} is being replaced: let it end, or fail the replacement first"
    )]
    Replacing { set: Uuid, slot: usize },
    #[error("{device} is a device of the set already: fail and remove it first")]
    Known { device: String },
    #[error(
        "set {set} lists {DEVICES_MAX} devices, which is as many as a superblock can: remove one first, with spindle md remove"
    )]
    TooManyDevices { set: Uuid },
    #[error(
        "set {set}: {panicked}; nothing was written to the set since: it is as after a power cut, and the next start makes it right"
    )]
    Broken { set: Uuid, panicked: Panicked },
    #[error("set {set} has no device with the number {number}")]
    NoDevice { set: Uuid, number: usize },
    #[error("set {set} has no spare for slot {slot}: add one")]
    NoSpare { set: Uuid, slot: usize },
    #[error(
        "slot {slot} of set {set} has no working member: rebuild it, which needs no replacement"
    )]
    NotActive { set: Uuid, slot: usize },
}

impl LiveError {
    /// A set that was to be written, and a step of its opening goes no further.
    pub(super) fn refused(set: Uuid, refusal: Refusal) -> LiveError {
        match refusal {
            Refusal::Assemble(error) => LiveError::Assemble(error),
            Refusal::ReadOnly(what) => LiveError::ReadOnly { set, what },
            Refusal::NoJournal { .. } => LiveError::NoJournal { set },
            Refusal::DirtyDegraded { missing } => LiveError::DirtyDegraded { set, missing },
            Refusal::Spec(error) => LiveError::Spec { set, error },
        }
    }
}

/// `1 member`.
fn members(count: usize) -> String {
    if count == 1 { "1 member".to_owned() } else { format!("{count} members") }
}
