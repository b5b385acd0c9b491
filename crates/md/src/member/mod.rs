//! The members of an array: which device stands in which slot, in what state, and how it is asked.
//!
//! ```text
//!             add a spare, rebuild            covered the whole member
//!   Missing ───────────────────────▶ Rebuilding ───────────────────────▶ Active
//!   Failed  ──────────▲                  │ fails                            │ fails, fail()
//!      ▲──────────────┴──────────────────┴──────────────────────────────────┘
//! ```
//!
//! Beside that, a slot may have a **replacement**: a device that is filled with the slot's content
//! while the slot goes on working. When it has all, it takes the slot; when the slot fails before, the
//! replacement takes the slot at once, as a rebuild that is partly done.
//!
//! **What is there.** A member that is being rebuilt has a set of ranges that are right. It is read
//! only within them, and written only within them: what lies outside counts as missing, and the
//! rebuild will put it there. The same goes for writing to a replacement. Whoever adds a range holds
//! the lock over its rows, so no write falls between.
//!
//! **Errors.** A read that ends with [`IoErrorKind::Medium`] is one bad place; the engine computes the
//! bytes from elsewhere and writes them there again. Any other error of a read, and any error of a
//! write, fails the member, as md does. Counted by slot. An answer may come when its device is no longer
//! in the slot: so each device has a [`DeviceId`], and an error fails the device that made it, wherever
//! it stands now, and nobody else. Why a device is not used any more is [noted](crate::loss).
//!
//! **Who watches** waits for [`Members::changed`]: a device came or went, or one that was filled has everything.
//!
//! | file | holds |
//! |---|---|
//! | `state` | what a device is to an array, and its row in a report |
//! | `table` | who stands where: slots, replacements, spares, and how they change |
//! | `requests` | reads and writes of members, and what becomes of who fails one |

mod requests;
mod state;
mod table;

pub(crate) use requests::{Manner, Writes};
pub(crate) use state::DeviceId;
pub use state::MemberState;
pub use table::{MemberReport, SPARES_MAX};
pub(crate) use table::{Members, RANGES_MAX};
