//! Partitions of disk images, `IMAGE:N`, opened for writing: members of sets, and devices that are to become ones.
//!
//! An image is [open once](super::images), whichever of its partitions are named, and has the writer's lock: no other process reads or
//! writes another partition of it as if nobody did meanwhile. Partitions of block devices are the kernel's to open, which keeps them
//! apart from what is mounted.

use super::place::whole_of;
use super::sources::{open_writing, partition_of};
use crate::context::Context;
use crate::error::Error;
use host::identity::{overlap, same};
use rt::DeviceRef;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use volume::partition::Partition;

/// The partition that is called so, of this image, for writing.
///
/// # Errors
/// Where there is none, or the image can't be opened, or ends before the partition does; and for partitions of block devices.
pub fn open_partition(context: &Context, called: &Path, image: &Path) -> Result<Partition, Error> {
    if std::fs::metadata(image).is_ok_and(|found| found.file_type().is_block_device()) {
        return Err(Error::KernelPartition { path: called.into(), whole: image.into() });
    }
    let disk: DeviceRef = context.images().open(&context.host(), image)?;
    let partition = partition_of(context, &disk, called)?;
    match partition.cut {
        Some(_) => Err(Error::CutPartition { path: called.into() }),
        None => Ok(partition),
    }
}

/// Devices that are to become members, of which some may be partitions.
#[derive(Default)]
pub struct Parted(Vec<Part>);

/// A partition that is open.
struct Part {
    called: PathBuf,
    image: PathBuf,
    partition: Partition,
}

impl Parted {
    /// Opens what is called so for writing, be it a partition or not. `others` are the devices that were named before.
    ///
    /// # Errors
    /// Where it can't be opened, or a partition shares storage with another.
    pub fn open_any<'a>(
        &mut self,
        context: &Context,
        called: &Path,
        others: impl Iterator<Item = &'a Path>,
    ) -> Result<DeviceRef, Error> {
        match whole_of(called) {
            Some(image) => self.open(context, called, &image, others),
            None => {
                self.check_apart(called)?;
                open_writing(&context.host(), called)
            }
        }
    }

    /// Whether a device that is no partition shares nothing with these.
    fn check_apart(&self, path: &Path) -> Result<(), Error> {
        match self.0.iter().find(|part| overlap(&part.image, path)) {
            Some(part) => Err(Error::Shared { one: part.called.clone(), other: path.into() }),
            None => Ok(()),
        }
    }

    fn open<'a>(
        &mut self,
        context: &Context,
        called: &Path,
        image: &Path,
        mut others: impl Iterator<Item = &'a Path>,
    ) -> Result<DeviceRef, Error> {
        let path = || called.to_owned();
        if let Some(other) = others.find(|other| overlap(other, image)) {
            return Err(Error::Shared { one: other.into(), other: path() });
        }
        let partition = open_partition(context, called, image)?;
        let range = |one: &Partition| one.start.bytes()..one.start.bytes() + one.len.bytes();
        let own = range(&partition);
        let meets = |part: &&Part| {
            let other = range(&part.partition);
            same(&part.image, image) && other.start < own.end && own.start < other.end
        };
        if let Some(part) = self.0.iter().find(meets) {
            return Err(match part.partition.number == partition.number {
                true => Error::Twice { path: path() },
                false => Error::Shared { one: part.called.clone(), other: path() },
            });
        }
        let device = Rc::clone(&partition.device);
        self.0.push(Part { called: path(), image: image.into(), partition });
        Ok(device)
    }
}
