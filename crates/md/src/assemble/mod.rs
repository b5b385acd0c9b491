//! Assembly: from devices to a running array, by what md wrote on them.
//!
//! ```text
//! devices ── found ──▶ superblocks, each with its device
//!         ── choice ─▶ one set: who holds which slot, who is left out and why (apart, stale)
//!         ── open ───▶ an array that can be read; nothing is written to any device
//! ```
//!
//! 1. [`find`] reads the places where a superblock can lie. Two on one device (a device that was made anew
//!    with another version): the one whose array was created last counts. A superblock whose checksum is
//!    wrong is an error that names the device, unless a whole one lies elsewhere.
//! 2. [`Choice::of`] groups by the set's UUID and takes the roles from the member with the most events, as md
//!    does: who is more than one event behind (see `level`) is stale, and who is listed there as faulty or not at all is
//!    left out. Superblocks that contradict each other are refused (`agreement`), so is a slot that two devices claim,
//!    and so are halves that went on without each other (`apart`)
//!    and have as many events. Where too few are left, those that are behind are taken back by force (`stale`).
//! 3. [`OpenArray::open`] makes a view (`view`) of each member (its data area; bad blocks answer with a medium
//!    error; what the engine writes stays in memory) and puts an [`Array`](crate::Array) over them, or two
//!    where a reshape (`reshape`) is under way. A dirty array with a PPL has its parity put right (`ppl`) in
//!    memory first, one with a journal has what that holds brought in (`journal`).
//!
//! What it refuses: a dirty and degraded RAID 4, 5 or 6 without a PPL or journal (unless forced), one that lacks its
//! journal and a member (unless forced), reshapes whose critical section lies in a backup file, level changes under way, RAID 0 of several zones that does not say
//! which rule it follows (unless it is told).

mod agreement;
mod apart;
mod choice;
mod error;
mod facts;
mod found;
pub(crate) mod journal;
mod open;
pub(crate) mod ppl;
mod reshape;
mod stale;
mod view;

pub(crate) use agreement::is_same_shape;
pub use choice::{Choice, LeftOut, Why};
pub use error::{AssembleError, Behind};
pub use facts::{ReshapeFacts, Superblock, level_of};
pub use found::{Found, bad_blocks, bitmap, find, sets};
pub(crate) use open::{HalfFilled, Shape, check_journal, log_parts, recovered, spec};
pub use open::{OpenArray, OpenOptions};
pub use stale::Accepted;
pub(crate) use stale::EVENTS_OF_CUTS;
