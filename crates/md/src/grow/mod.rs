//! Growing a set: larger members, more mirrors, more members of a set with parity.
//!
//! | what | how |
//! |---|---|
//! | [`size`] | members were enlarged: more of each is used; the new part is resynchronised afterwards |
//! | [`mirrors`] | RAID 1: more slots, rebuilt afterwards |
//! | [`add_bitmap`], [`remove_bitmap`] | a write-intent bitmap comes, or goes |
//! | [`Reshape`] | RAID 4, 5, 6: more slots, all data moved to its new place |
//!
//! All of it works on a set that is not running: superblocks (`pages`) are read from a [`Choice`](crate::assemble::Choice), changed and
//! written, and no host reads or writes the set meanwhile. Whoever opens it afterwards for writing resynchronises
//! and rebuilds, by what the superblocks say. At any moment, also after a power cut at any write, the superblocks
//! describe a set that is whole, in the words of md: the real md could go on.
//!
//! **Not done here**, and refused by name: superblocks 0.90; fewer slots or a smaller size; changes of level, layout or chunk; sets
//! with a PPL, journal or bad-block entries; more slots for RAID 0, 10 and linear; reshapes that need a
//! backup file.
//!
//! | file | holds |
//! |---|---|
//! | `error`, `refusal` | why a set can't be grown, and who asks that first |
//! | `pages` | the superblocks of all devices, and in which order a change reaches them |
//! | `bitmap` | the write-intent bitmap |
//! | `bitmap_change` | a bitmap that comes or goes |
//! | `adopt` | what makes a device a spare of the set |
//! | `size`, `raid1_slots` | the two that change superblocks alone |
//! | `reshape` | the one that moves data |
//! | `reach` | how far a reshape may write: arithmetic |

mod adopt;
mod bitmap;
mod bitmap_change;
mod error;
mod pages;
mod raid1_slots;
mod reach;
mod refusal;
mod reshape;
mod size;

pub use adopt::NewMember;
pub use bitmap_change::{add_bitmap, remove_bitmap};
pub use error::GrowError;
pub use raid1_slots::mirrors;
pub use reshape::Reshape;
pub use size::{SizeWish, find_at_old_end, size};
