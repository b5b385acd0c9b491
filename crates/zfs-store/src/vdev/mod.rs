//! Vdevs: from a place in the pool to bytes on devices.
//!
//! ```text
//!   Tree ── top-level vdev ─┬─ Mirror: disk, file, mirror          one leaf, or several with the same bytes
//!    (by number)            ├─ Raidz, Draid                        children with data and parity; each is a Mirror
//!                           ├─ sides                               a mirror of such as these, in tests of OpenZFS
//!                           ├─ indirect                            removed: its blocks lie on other top-levels
//!                           └─ none                                a hole, or a top-level that nobody described
//! ```
//!
//! **A read.** [`Tree::read`] is given a place, a size and what the bytes should come to ([`Expected`](crate::Expected)). A vdev
//! makes the bytes in the cheapest way; where they are wrong it tries its others: the other copies, or
//! reconstruction with each combination of columns taken for wrong, as far as the parity reaches. What is returned
//! is right, or it is an error.
//!
//! **A write** goes to all of them that should hold it.
//!
//! **Files** by kind say what a vdev is and where its blocks lie; those by deed say what is done with them, kind by kind:
//!
//! | | what it is | read | verified (every copy) | written |
//! |---|---|---|---|---|
//! | top-level, whichever | `top` | `read` | `verify`, [`in_order`](Tree::verify_in_order) | `write` |
//! | mirror, one leaf | `mirror` | `read::mirror` | `verify::mirror` | `write::mirror` |
//! | raidz | `raidz`, `striped` | `read::raidz` | `verify::raidz` | `write::raidz` |
//! | dRAID | `draid`, `striped` | `read::raidz` | `verify::raidz` | `write::raidz` |
//! | removed | `indirect`, [`moved`] | `read::indirect` | `verify::indirect` | never |
//!
//! A leaf that fails is looked at by `probe`; what happens when too many do, [`suspend`] says.
//!
//! **Rules.**
//!
//! 1. What comes from a pointer or a configuration is checked here before it is computed with: sizes, offsets, numbers
//!    of vdevs. A bad one is an error, and isn't counted against a device.
//! 2. An error is counted on the leaf that gave it, or whose bytes turned out wrong. A block that can't be made is
//!    counted on its top-level vdev too.
//! 3. Stale and offline leaves are asked last. Reading writes nothing.
//! 4. Which top-levels are for logs, special or deduplicated blocks does not matter for reading.
//!
//! Source: OpenZFS, `vdev.c` and a file for each kind.

mod ask;
mod build;
pub mod draid;
mod failure;
mod indirect;
mod label_io;
mod leaf;
mod mirror;
pub mod moved;
mod probe;
mod queue;
pub mod raidz;
mod read;
pub mod report;
mod space;
mod striped;
pub mod suspend;
mod top;
mod tree;
mod verify;
pub mod write;

pub use ask::ReadAt;
pub use build::TreeError;
pub use failure::{Errors, FailureSink, LeafDeed, LeafFailure};
pub use label_io::{LABEL_PAIRS, LabelsWritten};
pub use leaf::LeafState;
pub use queue::{IoClass, IoCounts};
pub use report::{VdevHealth, VdevReport};
pub use suspend::{OnFailure, Suspension};
pub use tree::Tree;
pub use verify::Place;
pub use write::{WriteAt, WriteError};
