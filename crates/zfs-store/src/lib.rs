//! "Give me the block behind this block pointer": vdevs, checks, compression, keys and the cache of a pool.
//!
//! What an object or a dataset is, nobody here knows. A block is named by its pointer, and by a [`Bookmark`] that
//! errors show.
//!
//! From the top: [`arc`] keeps blocks; [`zio`] follows a pointer and checks ([`expected`]); [`transform`] decrypts
//! ([`crypt`]) and decompresses, and the reverse; [`vdev`] makes the bytes of a place from the devices; [`alloc`] holds what space is taken, and gives it;
//! [`mod@write`] is the way down, to a new pointer; [`mod@slop`] is what it keeps back; [`label`] finds out which devices belong to
//! which pool. What asks and what is asked meet in [`block`].

#![forbid(unsafe_code)]

pub mod alloc;
pub mod arc;
pub mod block;
pub mod crypt;
pub mod error;
pub mod expected;
pub mod label;
#[cfg(test)]
mod no_time;
pub mod scrub;
pub mod slop;
pub mod transform;
pub mod vdev;
pub mod write;
pub mod zio;

pub use arc::{Arc, ArcOptions, ArcStatistics};
pub use block::{BlockError, BlockErrorKind, BlockFuture, BlockRequest, Bookmark, ReadBlocks};
pub use expected::Expected;
pub use scrub::Verified;
pub use slop::slop;
pub use transform::Salt;
pub use vdev::{
    Errors, FailureSink, IoClass, IoCounts, LABEL_PAIRS, LabelsWritten, LeafDeed, LeafFailure,
    OnFailure, ReadAt, Suspension, Tree, TreeError, VdevHealth, VdevReport, WriteAt, WriteError,
};
pub use write::{WriteBlock, WriteBlockError, Writer};
pub use zio::Zio;
