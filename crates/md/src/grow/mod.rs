//! Growing a set: larger members, more mirrors, more members of a set with parity.
//!
//! | what | how |
//! |---|---|
//! | [`size`] | members were enlarged: more of each is used; the new part is resynchronised afterwards |
//! | [`mirrors`] | RAID 1: more slots, rebuilt afterwards |
//! | [`add_bitmap`], [`remove_bitmap`] | a write-intent bitmap comes, or goes |
//! | [`Reshape`] | RAID 4, 5, 6: more slots, all data moved to its new place |
//!
//! All of it works on a set that is not running: superblocks (`pages`) are read from a [`Choice`], changed and
//! written, and no host reads or writes the set meanwhile. Whoever opens it afterwards for writing resynchronises
//! and rebuilds, by what the superblocks say. At any moment, also after a power cut at any write, the superblocks
//! describe a set that is whole, in the words of md: the real md could go on.
//!
//! **Not done here**, and refused by name: superblocks 0.90; fewer slots or a smaller size; changes of level, layout or chunk; sets
//! with a PPL, journal or bad-block entries; more slots for RAID 0, 10 and linear; reshapes that need a
//! backup file.
//!
//! | file | holds |
//! |---|---|
//! | `pages` | the superblocks of all devices, and in which order a change reaches them |
//! | `bitmap` | the write-intent bitmap |
//! | `intent` | a bitmap that comes or goes |
//! | `adopt` | what makes a device a spare of the set |
//! | `size`, `mirrors` | the two that change superblocks alone |
//! | `reshape` | the one that moves data |
//! | `window` | how far a reshape may write: arithmetic |

mod adopt;
mod bitmap;
mod intent;
mod mirrors;
mod pages;
mod reshape;
mod size;
mod window;

pub use adopt::NewMember;
pub use intent::{add_bitmap, remove_bitmap};
pub use mirrors::mirrors;
pub(crate) use pages::{agree, agreed};
pub use reshape::Reshape;
pub use size::{SizeWish, find_at_old_end, size};

use crate::assemble::{AssembleError, Choice, Superblock, bad_blocks, level_of};
use crate::spec::{Level, SpecError};
use crate::superblock::v1::EVENTS_WRITTEN_MAX;
use crate::superblock::{ALL_SECTORS, Features, Uuid};
use rt::{IoError, IoErrorKind};
use stdx::{ByteCount, Offset};

/// Why a set can't be grown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the texts name")]
pub enum GrowError {
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    #[error(transparent)]
    Io(#[from] IoError),
    #[error("set {set} has {what}: sets with that are not grown")]
    Unsupported { set: Uuid, what: &'static str },
    #[error("set {set} has a reshape under way: finish it first, with spindle md grow --continue")]
    Reshaping { set: Uuid },
    #[error("set {set} has {what}: it can be read, and only md can finish it")]
    NotContinued { set: Uuid, what: &'static str },
    #[error("set {set} has no reshape under way: there is nothing to continue")]
    NothingToContinue { set: Uuid },
    #[error("set {set}: {what} of {level} can't be grown")]
    Level { set: Uuid, level: Level, what: &'static str },
    #[error(
        "set {set} lacks {missing} of its members: bring them back or add devices first, with spindle md add"
    )]
    Degraded { set: Uuid, missing: usize },
    #[error("set {set} was not stopped cleanly: resynchronise it first, with spindle md repair")]
    Dirty { set: Uuid },
    #[error("set {set} has {slots} slots: it can be given more, not {wished}")]
    Slots { set: Uuid, slots: usize, wished: usize },
    #[error("set {set} uses {size} of each member: it can be given more, not {wished}")]
    Size { set: Uuid, size: ByteCount, wished: ByteCount },
    #[error(
        "set {set} uses {size} of each member, and the smallest has no more: enlarge the members first"
    )]
    NoRoom { set: Uuid, size: ByteCount },
    #[error("{device} can hold {room} of data: a size of {wished} is too much for it")]
    SizeBeyond { device: String, room: ByteCount, wished: ByteCount },
    #[error("set {set} needs {needed} spares and has {given}: add devices with --add")]
    Spares { set: Uuid, needed: usize, given: usize },
    #[error("set {set} is a {level}, which keeps no write-intent bitmap")]
    NoBitmapAt { set: Uuid, level: Level },
    #[error("set {set} has a write-intent bitmap already: take it away first, with --bitmap=none")]
    HasBitmap { set: Uuid },
    #[error("set {set} has no write-intent bitmap to take away")]
    HasNoBitmap { set: Uuid },
    #[error("set {set} has no 4 KiB in the same place on all devices for a write-intent bitmap")]
    NoRoomForBitmap { set: Uuid },
    #[error(
        "set {set}: a bit of the bitmap can't stand for so much: give a power of two from {least} to 2 GiB"
    )]
    BitmapChunk { set: Uuid, least: ByteCount },
    #[error("set {set} lists as many devices as a superblock can")]
    TooManyDevices { set: Uuid },
    #[error("{device} has {capacity}, and the set needs {needed} of it: use a larger one")]
    TooSmall { device: String, capacity: ByteCount, needed: ByteCount },
    #[error(
        "{device} has {free} free before its data, and a reshape that survives a power cut needs {needed}: let mdadm --grow --backup-file=FILE do it"
    )]
    NoHeadroom { device: String, free: ByteCount, needed: ByteCount },
    #[error(
        "set {set} has rows of {row}: a reshape holds one in memory, and {most} is the most it takes"
    )]
    RowTooLong { set: Uuid, row: ByteCount, most: ByteCount },
    #[error("set {set}: writing the superblocks: {kind}")]
    Superblocks { set: Uuid, kind: IoErrorKind },
    #[error("set {set}: {error}")]
    Spec { set: Uuid, error: SpecError },
    #[error(
        "set {set} has lost more members than its redundancy covers: bring one back, then spindle md grow --continue"
    )]
    TooFew { set: Uuid },
    #[error("set {set}: moving the data at {at}: {kind}")]
    Move { set: Uuid, at: Offset, kind: IoErrorKind },
}

/// Refuses what no kind of growing takes, and tells the level.
async fn refuse(choice: &Choice) -> Result<Level, GrowError> {
    let set = choice.set;
    let unsupported = |what| Err(GrowError::Unsupported { set, what });
    let features = choice.facts.features();
    for (feature, what) in [
        (Features::PPL, "a partial parity log"),
        (Features::MULTIPLE_PPLS, "a partial parity log"),
        (Features::JOURNAL, "a journal"),
    ] {
        if features.has(feature) {
            return unsupported(what);
        }
    }
    if choice.facts.events() > EVENTS_WRITTEN_MAX {
        return unsupported("more events than 2^62, to which no set comes");
    }
    if choice.journal.is_some() {
        return unsupported("a journal");
    }
    if !choice.replacements.is_empty() {
        return unsupported("a member that is being replaced");
    }
    for found in choice.slots.iter().flatten().chain(&choice.spares) {
        if matches!(found.superblock, Superblock::V090(_)) {
            return unsupported("superblocks 0.90");
        }
        if !bad_blocks(found).await?.is_empty() {
            return unsupported("bad blocks in its log");
        }
    }
    level_of(choice.facts.level()).map_err(|name| {
        let device = choice.slots.iter().flatten().next().map_or(String::new(), |one| one.name());
        AssembleError::Level { device, name }.into()
    })
}

/// Refuses a set that is not whole, clean and at rest.
fn refuse_unsettled(choice: &Choice) -> Result<(), GrowError> {
    let set = choice.set;
    if choice.facts.reshape().is_some() {
        return Err(GrowError::Reshaping { set });
    }
    let missing = choice.degraded();
    if missing > 0 {
        return Err(GrowError::Degraded { set, missing });
    }
    if choice.facts.resync_offset() != ALL_SECTORS {
        return Err(GrowError::Dirty { set });
    }
    Ok(())
}
