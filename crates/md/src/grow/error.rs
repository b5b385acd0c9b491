//! Why a set can't be grown, and the mend.

use crate::assemble::AssembleError;
use crate::level::Level;
use crate::spec::SpecError;
use crate::superblock::Uuid;
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
