//! What md writes on its members beside the data: superblocks, bitmap, bad-block log, partial parity log, journal.
//!
//! Pure functions between bytes and values. Nothing here does I/O, so nothing here knows a device: an
//! error names the structure, the field and its place, and who read the bytes adds the device. What
//! Spindle can't honour is refused by name when it is decoded, never skipped: a feature that is not
//! understood may change the meaning of every byte of the data.
//!
//! | file | holds |
//! |---|---|
//! | `v1` | superblock 1.0, 1.1, 1.2: decode, encode |
//! | `v090` | superblock 0.90 and 0.91: decode |
//! | `place` | where on a device each of them lies |
//! | `features` | the feature map's bits, each named |
//! | `role` | what a device is to the array |
//! | `bitmap` | internal write-intent bitmap: its superblock and its bits |
//! | `bad_blocks` | the bad-block log |
//! | [`ppl`] | header of the partial parity log; lies in `ppl/format` |
//! | [`journal`] | meta blocks of a write journal; lies in `journal/format` |
//! | `uuid`, `stamp` | identities and moments as md writes and prints them |
//! | `word_sum` | the sum with which superblocks are checked |
//!
//! **Invariants.** No input panics. `decode(encode(x)) == x`, and `encode(decode(b))` gives the bytes of
//! `b` that the structure owns. The formats in words: `docs/formats/md.md`.

pub mod bad_blocks;
pub mod bitmap;
mod features;
pub mod place;
mod role;
mod stamp;
mod uuid;
pub mod v090;
pub mod v1;
mod word_sum;

#[cfg(test)]
mod tests;

pub use crate::journal::format as journal;
pub use crate::ppl::format as ppl;
pub use features::Features;
pub use role::Role;
pub use stamp::Stamp;
pub use stdx::bytes::{FormatError, Problem};
pub use uuid::Uuid;

/// The unit of all of md's places and lengths, in bytes.
pub const SECTOR: u64 = 512;
/// What a superblock begins with: `a92b4efc`.
pub const MAGIC: u32 = 0xa92b_4efc;
/// Bytes that are read and written for a superblock of any version.
pub const SUPERBLOCK_BYTES: usize = 4096;
/// The value of a sector field that means "all of it": nothing is left to resync.
pub const ALL_SECTORS: u64 = u64::MAX;
