//! Parts of devices, as devices: GPT partitions, and logical volumes in LVM2's form.
//!
//! A disk array divides its sets into logical volumes and joins them; a disk is divided into partitions.
//! Both are lists of ranges that somebody else can read: the forms are those of Linux, and what is
//! written here Linux opens, and the reverse.
//!
//! * [`gpt`]: the partitions of a device.
//! * [`lvm`]: physical volumes, volume groups, and linear and striped logical volumes; read, made,
//!   enlarged and removed.
//! * `checked`: reading bytes wherever they lie.
//!
//! Everything here is a [`rt::Device`] made of [`rt::filter::Slice`]s, joined by [`rt::filter::Linear`]
//! or striped by [`md`]'s RAID 0, so no byte of data passes through code of this crate.
//!
//! **Invariant.** Nothing that was read from a device is believed before its checksum is right and its
//! numbers lie within the device.
#![forbid(unsafe_code)]

mod checked;
pub mod gpt;
pub mod lvm;

pub use stdx::bytes::FormatError;
