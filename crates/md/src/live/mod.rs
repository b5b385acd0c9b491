//! An assembled set that is open for writing: the engine, with md's superblocks kept true.
//!
//! ```text
//!   LiveArray (live_array)  fails and replaces members, runs resync and rebuild, stops
//!     │                     (opening: from a choice of members; joining: devices that come and go;
//!     │                     journal_device: a journal that does; watch: what somebody sees who looks on)
//!     ├─ Array              the engine; asks the keeper before it writes and before it answers
//!     │    └─ Window        a member's data area, without its bad blocks
//!     └─ Keeper (keeper)    the metadata: what it says now, and when it must say something else
//!          ├─ Intent (write_intent)   the write-intent bitmap
//!          └─ Kept (kept)             a device, and where it stands
//! ```
//!
//! **Clean and dirty.** Superblocks say "clean" while nothing is being written. The first write waits until
//! all members say "dirty"; when nothing was written for [`QUIET`] they say "clean" again, and so when the
//! set is stopped. Before they say so, every member is flushed: otherwise a power cut could take a write from
//! one member and leave it on another, in a set that is called clean.
//!
//! **A resync** notes how far it is: `resync_offset`, after a flush. A resync by itself does not make the set
//! dirty. While something is being written the superblocks say 0, as md's do (`super_1_sync`), and a power
//! cut then lets the resync begin anew; when it is quiet again they say the position again.
//!
//! **A lost member** is recorded on the others before anything that it did not get is answered.
//!
//! **Events** count up with each time the superblocks are written. A member that is more than one behind
//! was not there, and is not believed, but by force.
//!
//! **A power cut** between the writes of two members' superblocks leaves some one event behind: they count
//! as up to date, which they are, since nothing was written to the array in between. Before the next start counts
//! on it makes them level (`stragglers`), so that no number of cuts puts anybody further behind. A superblock is
//! written in one piece of 4 KiB at the most; one that is torn has a wrong checksum, and its member
//! is left out, as a lost one.
//!
//! **A replacement** is filled from its slot's member while that goes on working; md's superblocks know it by
//! the feature "replacement" and how much of it is right. When it has all it is the member, and the old one has
//! failed.
//!
//! **A partial parity log** (`ppl`) closes the write hole of RAID 5, **a journal** (`journal`)
//! that of RAID 4, 5 and 6; `opening` says how they are read back.
//!
//! **A panic** in all of this ends the set and not the program, and nothing more is written (`fuse`).
//!
//! **Not done here**: sets with superblocks 0.90, or in a reshape: they are refused by name, and can be read.
//! A journal is written through; md's write-back mode, which answers before the members have anything, is not.

mod error;
mod fuse;
mod joining;
mod journal_device;
mod keeper;
mod kept;
mod live_array;
mod opening;
mod options;
mod watch;
mod write_intent;

pub use error::LiveError;
pub use joining::Added;
pub use journal_device::JournalReport;
pub use keeper::QUIET;
pub use live_array::LiveArray;
pub use options::LiveOptions;
pub use watch::{Activity, DeviceReport, UnderWay};
