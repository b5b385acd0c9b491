//! Logical volumes in LVM2's form.
//!
//! ```text
//!   physical volume (a device)
//!     sector 0–3     a label: "LABELONE", points to the header of the physical volume    [label]
//!     header         its identity, where data begins, where metadata areas lie           [label]
//!     metadata area  a header of 512 B, then text in a ring                              [area]
//!     data           extents of some MiB
//!   the text         the whole group: its physical volumes, its logical volumes          [text]
//!                    and of which extents each consists                                  [metadata]
//! ```
//!
//! Every physical volume of a group has the whole text. The one with the highest `seqno` counts; the
//! others were left behind by a power cut, or were away.
//!
//! **Damage.** A text has a checksum in its area's header. Where none that counts is whole, the newest that is left in a ring counts for
//! reading, and the group is not changed.
//!
//! **Copies.** A physical volume that several devices bear is none, unless one of them lies on the other: [`alike`].
//!
//! **What is missing.** A volume that has extents on a physical volume that is not there, or behind the end of one that was cut, is
//! [opened](open) only by who asks for it in part, and then what lay there can't be read.
//!
//! **A change** ([`change`]) writes the next text beside the present one on every physical volume, makes
//! it durable, and then points each area's header at it: one sector, written at once. A power cut leaves
//! an area with its old text or its new one, and a group with one of both: whoever opens it next takes
//! the newer. So a change must not need that all physical volumes have it: nothing moves data.
//!
//! **A physical volume whose label and text were overwritten** is [written anew](restore) by what the others' text says.
//!
//! **What is supported.** Segments of type `striped`, which is LVM's name for linear ones too. All others
//! (mirrors, RAID, thin pools, snapshots, caches) are listed and refused by name when opened. A group
//! with something unknown in it can be read; a change keeps every word of the text that it does not
//! concern.
//!
//! **Not done.** Metadata on part of the physical volumes only, several metadata areas a volume when
//! made here, moving extents, locks against other hosts (the devices are ours while they are open).
//!
//! **Source**: LVM2's on-disk format as its manual pages and sources (lib/format_text, lib/label) have it
//! in version 2.03.

pub mod alike;
pub mod area;
pub mod change;
pub mod error;
pub mod group;
pub mod label;
pub mod look;
pub mod metadata;
pub mod open;
pub mod restore;
pub mod text;

pub use alike::{Alike, Beneath, Labels};
pub use error::LvmError;
pub use group::{FoundGroups, Group, find_groups, groups_of};
pub use look::{Found, is_labelled};
pub use metadata::{LogicalVolume, PhysicalVolume, Segment, VolumeGroup};
pub use open::{Lacking, Lacks};
pub use restore::group_lacking;

/// The unit of sizes and places in the text.
pub const SECTOR: u64 = 512;

/// LVM's checksum: CRC-32 with a start of its own and no inversion at the end.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    const START: u32 = 0xf597_a6cf;
    // The library inverts at both ends; undone here.
    let mut hasher = crc32fast::Hasher::new_with_initial(!START);
    hasher.update(bytes);
    !hasher.finalize()
}
