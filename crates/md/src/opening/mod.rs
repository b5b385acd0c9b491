//! One way to open a set that was chosen, to look at it or to live with it: the [mode](mode) is an argument.
//!
//! ```text
//!   Choice ── admission ──▶ what kind of set it is, and whether it may be opened so
//!          ── geometry ───▶ one shape of it; in a reshape there are two
//!          ── members ────▶ a window on each member's data area
//!          ── logs ───────▶ what partial parity logs and a journal hold is brought onto the members
//!          ── engine ─────▶ an array over the windows that knows what is not right yet
//!   then   ── look ───────▶ OpenArray: read, never written
//!          ── live ───────▶ LiveArray: bitmap, spares, replacements, superblocks kept true
//! ```
//!
//! Each step is a file, and is the same for both; what differs asks the mode. `live` stands in a folder of its own, since
//! a set that lives does more than open.

pub(crate) mod admission;
pub(crate) mod engine;
pub(crate) mod geometry;
pub(crate) mod logs;
pub(crate) mod look;
pub(crate) mod members;
pub(crate) mod mode;
pub(crate) mod refusal;
