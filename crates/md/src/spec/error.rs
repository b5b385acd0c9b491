//! What is wrong with a wish, and the mend.

use super::limits::{CHUNK_MAX, CHUNK_MIN, MEMBERS_MAX};
use crate::level::Level;
use crate::member::SPARES_MAX;
use stdx::ByteCount;

/// Why an array can't be as it is wished for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the texts name")]
pub enum SpecError {
    #[error("'{text}' is no RAID level: write linear, raid0, raid1, raid4, raid5, raid6 or raid10")]
    UnknownLevel { text: String },
    #[error("'{text}' is no layout of {level}: {}", layouts_of(*level))]
    UnknownLayout { level: Level, text: String },
    #[error(
        "{level} needs at least {needed} members and has {given}: add members or choose another level"
    )]
    TooFewSlots { level: Level, needed: usize, given: usize },
    #[error("{given} members: an array has {MEMBERS_MAX} at the most; nest arrays instead")]
    TooManySlots { given: usize },
    #[error(
        "{level}: {missing} members are missing, and its redundancy covers {covered}: bring one back"
    )]
    TooManyMissing { level: Level, missing: usize, covered: usize },
    #[error(
        "{level}: a member is missing and the parity is not known to be right: initialise the array with all members first"
    )]
    DirtyDegraded { level: Level },
    #[error(
        "a chunk of {chunk}: give a power of two from {CHUNK_MIN} to {CHUNK_MAX} (RAID 0 takes any multiple of {CHUNK_MIN})"
    )]
    Chunk { chunk: ByteCount },
    #[error(
        "member {slot} ({name}) has {capacity}, too little for {needed}: use a larger one or shrink the component size"
    )]
    MemberTooSmall { slot: usize, name: String, capacity: ByteCount, needed: ByteCount },
    #[error("the spare {name} has {capacity}, and a member needs {needed}: use a larger one")]
    SpareTooSmall { name: String, capacity: ByteCount, needed: ByteCount },
    #[error("the spare {name}: an array has {SPARES_MAX} at the most; remove one first")]
    TooManySpares { name: String },
    #[error(
        "{disks} members with {near} near and {far} far copies, which would fall on one another: make the members a multiple of {near}"
    )]
    Collision { disks: usize, near: usize, far: usize },
    #[error(
        "member {slot} ({name}) has blocks of {block}, which do not divide the chunk and the data offset: choose multiples of {block}"
    )]
    Block { slot: usize, name: String, block: ByteCount },
}

fn layouts_of(level: Level) -> &'static str {
    match level {
        Level::Raid5 | Level::Raid6 => {
            "write left-symmetric, left-asymmetric, right-symmetric, right-asymmetric, parity-first or parity-last"
        }
        Level::Raid10 => "write near-2, far-2 or offset-2 (or another number of copies)",
        Level::Raid0 => "write original or alternate",
        Level::Linear | Level::Raid1 | Level::Raid4 => "it has one layout, leave it out",
    }
}
