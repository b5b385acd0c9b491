//! Assembly: from devices to a running array, by what md wrote on them.
//!
//! ```text
//! devices ── found ──▶ superblocks, each with its device
//!         ── choice ─▶ one set: who holds which slot, who is left out and why (choosing, apart, stale)
//!         ── opening ▶ an array that can be read, or one that lives (a folder of its own)
//! ```
//!
//! 1. [`find`] reads the places where a superblock can lie. Two on one device (a device that was made anew
//!    with another version): the one whose array was created last counts. A superblock whose checksum is
//!    wrong is an error that names the device, unless a whole one lies elsewhere.
//! 2. [`Choice::of`] groups by the set's UUID and takes the roles from the member with the most events, as md
//!    does: who is more than one event behind (see `stragglers`) is stale, and who is listed there as faulty or not at all is
//!    left out. Superblocks that contradict each other are refused (`agreement`), so is a slot that two devices claim,
//!    and so are halves that went on without each other (`apart`)
//!    and have as many events. Members of copies that were used apart and count as many are told (`histories`). Where too few are left, those that are behind are taken back by force (`stale`).
//! 3. A choice is opened (`opening`), to look at it ([`OpenArray`]) or to live with it
//!    ([`LiveArray`](crate::live::LiveArray)).

mod agreement;
mod apart;
pub(crate) mod choice;
mod choosing;
pub(crate) mod critical_section;
pub(crate) mod error;
pub(crate) mod facts;
pub(crate) mod found;
mod freshest;
mod histories;
mod stale;

pub use crate::opening::look::OpenArray;
pub use crate::opening::mode::OpenOptions;
pub(crate) use agreement::is_same_shape;
pub use choice::{Accepted, Choice, LeftOut, Why};
pub use error::{AssembleError, Behind, Halves};
pub use facts::{ReshapeFacts, Superblock, level_of};
pub use found::{Damaged, Found, bad_blocks, bitmap, find, find_damaged, find_impossible, sets};
pub(crate) use freshest::{agree, agreed};
pub use histories::Histories;
pub(crate) use stale::EVENTS_OF_CUTS;
