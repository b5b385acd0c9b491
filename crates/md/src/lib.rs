//! Linux md RAID sets: the engine.
//!
//! An [`Array`] makes one device of several: linear, RAID 0, 1, 10, 4, 5, 6, laid out bit for bit as Linux
//! md lays them, so that what is written here is read there. It is a [`rt::Device`] over [`rt::Device`]s:
//! arrays nest by being members. It runs over real disks and over simulated ones and never asks which.
//! An array is made from an [`ArraySpec`], or opened for reading from what md wrote on its members
//! ([`assemble`], [`superblock`]). The theory in full is in `docs/theory/raid.md`, the formats in
//! `docs/formats/md.md`.
//!
//! ```text
//!   Array (array)  ──  checks a request, flushes, knows its members' states
//!     ├─ Striped (raid0)     linear, RAID 0          one place a byte, no state
//!     ├─ Mirror  (raid1)     RAID 1, 10              several places a byte
//!     └─ Stripes (stripe)    RAID 4, 5, 6            rows with parity
//!          ├─ plan           full, reconstruct-write, read-modify-write: pure
//!          ├─ cache          what was read and written lately
//!          ├─ gather         reads, or computes what can't be read
//!          └─ read, write, full
//!   sync (initialise, rebuild, replace, check, repair)   steps on Mirror and Stripes
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `record` | what must stand on the members before a write begins or is answered |
//! | `spec` | what an array is to be, and what is wrong with that |
//! | [`superblock`] | md's metadata: bytes and values |
//! | [`assemble`] | from devices with metadata to an array |
//! | `opening` | from those who were chosen to an array, to look at it or to live with it: one way, one file a step |
//! | `window` | a stretch of a member, as a device: its data area, without its bad places |
//! | [`live`] | a set that is written, with its superblocks kept true |
//! | [`create`] | what to write on devices to make them an array |
//! | [`grow`] | larger members, or more of them |
//! | `layout` | which byte lies where: pure functions |
//! | `member` | slots, their devices and states; every request to a member passes here |
//! | `set` | what the parts of one array share: members, figures, the host's requests |
//! | `spread` | pieces of one request joined to one request a member |
//! | `parity` | parity of scatter-gather lists, on bytes or on the words of fills |
//! | `locks` | who may touch which rows |
//! | `loss` | devices that were lost, and why |
//! | `level` | RAID levels |
//! | `stragglers` | members whose superblock is one event behind, made level before the count is raised |
//! | `write_log` | what the engine knows of a log that closes the write hole |
//! | `ppl`, `journal` | the two that there are: format, writing, and the way back |
//! | `pieces` | bytes at places of a stripe |
//! | `together` | waiting for several requests |
//!
//! **Invariants.** While nobody holds a row's lock, its parity is right (where the array is clean) and its
//! copies are equal. Member writes under a lock run in a task that no caller can drop. One seed gives one
//! sequence of member requests.
#![forbid(unsafe_code)]

mod array;
pub mod assemble;
pub mod create;
pub mod grow;
mod journal;
mod layout;
mod level;
pub mod live;
mod locks;
mod loss;
mod member;
mod opening;
mod parity;
mod pieces;
mod ppl;
mod raid0;
mod raid1;
pub mod record;
mod set;
mod spec;
mod spread;
mod stragglers;
mod stripe;
pub mod superblock;
pub mod sync;
mod together;
mod window;
mod write_log;

pub use array::Array;
pub use loss::{Cause, LOSSES_KEPT_MAX, Loss, Metadata};
pub use member::{MemberReport, MemberState, SPARES_MAX};
pub use set::Stats;
pub use spec::{
    ArraySpec, CHUNK_DEFAULT, CHUNK_MAX, CHUNK_MIN, FarSets, Layout, Level, MEMBERS_MAX,
    ParityLayout, STRIPE_CACHE_PER_MEMBER_DEFAULT, SpecError,
};
pub use sync::{CheckReport, Initialise, Mismatch, Operation, Progress, SyncError, SyncPriority};
