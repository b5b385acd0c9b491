//! Parts of devices, as devices: GPT and MBR partitions, and logical volumes in LVM2's form; and what file system a device holds.
//!
//! A disk array divides its sets into logical volumes and joins them; a disk is divided into partitions.
//! Both are lists of ranges that somebody else can read: the forms are those of Linux, and what is
//! written here Linux opens, and the reverse.
//!
//! * [`partition`]: the partitions of a device, of whichever table: [`gpt`] or [`mbr`].
//! * [`content`]: which file system, swap space or encrypted volume a device holds, by its superblock.
//! * [`lvm`]: physical volumes, volume groups, and linear and striped logical volumes; read, made,
//!   enlarged and removed.
//! * [`absent`]: what stands for bytes that are not there, where the rest is read all the same.
//! * `checked`: reading bytes wherever they lie.
//!
//! Everything here is a [`rt::Device`] made of [`rt::filter::Slice`]s, joined by [`rt::filter::Linear`]
//! or striped by [`md`]'s RAID 0, so no byte of data passes through code of this crate.
//!
//! **Invariant.** Nothing that was read from a device is believed before its checksum is right and its
//! numbers lie within the device; [`mbr`] and [`content`], whose forms have no checksums, say what they go by instead.
#![forbid(unsafe_code)]

pub mod absent;
mod checked;
pub mod content;
pub mod gpt;
pub mod lvm;
pub mod mbr;
pub mod partition;

pub use stdx::bytes::FormatError;
