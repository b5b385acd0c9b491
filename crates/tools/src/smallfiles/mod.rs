//! Create, copy, delete: many small files.
//!
//! What mail stores, build trees and web caches do to a file system, as five phases over the same files:
//!
//! 1. *create*: make each file and write it by blocks; with `durable`, make it durable before the next;
//! 2. *stat*: ask for each file's status;
//! 3. *read*: open each file and read it by blocks;
//! 4. *copy*: read each file and write it to a new one beside it, block by block; `durable` as above;
//! 5. *delete*: remove originals and copies.
//!
//! Files lie in directories, spread evenly. Threads share them: each has its own consecutive part, so
//! mostly its own directories. In each phase all threads start together, and the files are taken in an
//! order that is shuffled anew (but for creating), so that no phase profits from the order of the one
//! before it.
//!
//! **Definitions.** A phase's time runs from the moment when all threads may go to the last one's end; where
//! it changes something, to the end of a `sync` of the tree after it. Its *rate* is files over that time
//! (deleting counts copies as well); bytes are those read, written or, in copying, moved once. *Latency* is
//! that of all that is done to one file. *CPU* is what the process uses over that time.
//!
//! It leaves nothing behind, whether it ends well or not.

mod engine;
pub mod figures;
pub mod plan;
pub mod table;
#[cfg(test)]
mod tests;

pub use engine::{Heard, Listener, run};
pub use figures::{Figure, Phase, SmallFilesOutcome};
pub use plan::{Plan, PlanError, Sizes, SizesError};
