//! Partitions of disk images, `IMAGE:N`, opened for superblocks to be written to them: where one was overwritten, a new one can say
//! what it said.
//!
//! An image is open once, whichever of its partitions are named, and has the writer's lock: nobody reads or writes another partition
//! of it meanwhile. Partitions of block devices are the kernel's to open, which keeps them apart from what is mounted.

use super::sources::{open_writing, partition_of};
use crate::context::Context;
use crate::error::Error;
use crate::expendable::check_expendable_device;
use host::identity::{overlap, same};
use rt::DeviceRef;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use volume::partition::Partition;

/// See the [module](self).
#[derive(Default)]
pub struct Parted {
    /// Each with its path.
    images: Vec<(PathBuf, DeviceRef)>,
    parts: Vec<Part>,
}

/// A partition that is open.
struct Part {
    called: PathBuf,
    image: PathBuf,
    partition: Partition,
}

impl Parted {
    /// Whether a device that is no partition shares nothing with these.
    ///
    /// # Errors
    /// With the one that it shares storage with.
    pub fn check_apart(&self, path: &Path) -> Result<(), Error> {
        match self.parts.iter().find(|part| overlap(&part.image, path)) {
            Some(part) => Err(Error::Shared { one: part.called.clone(), other: path.into() }),
            None => Ok(()),
        }
    }

    /// Opens the partition that is called so, of this image. `others` are the devices that were named before.
    ///
    /// # Errors
    /// Where there is none, it shares storage with another, or it holds something and nobody forces it; and for partitions of block
    /// devices.
    pub fn open<'a>(
        &mut self,
        context: &Context,
        called: &Path,
        image: &Path,
        mut others: impl Iterator<Item = &'a Path>,
        force: bool,
    ) -> Result<DeviceRef, Error> {
        let path = || called.to_owned();
        if std::fs::metadata(image).is_ok_and(|found| found.file_type().is_block_device()) {
            return Err(Error::KernelPartition { path: path(), whole: image.into() });
        }
        if let Some(other) = others.find(|other| overlap(other, image)) {
            return Err(Error::Shared { one: other.into(), other: path() });
        }
        let known = self.images.iter().find(|(known, _)| same(known, image));
        let disk = match known {
            Some((_, disk)) => Rc::clone(disk),
            None => {
                let disk = open_writing(&context.host(), image)?;
                self.images.push((image.into(), Rc::clone(&disk)));
                disk
            }
        };
        let partition = partition_of(context, &disk, called)?;
        let range = |one: &Partition| one.start.bytes()..one.start.bytes() + one.len.bytes();
        let own = range(&partition);
        let meets = |part: &&Part| {
            let other = range(&part.partition);
            same(&part.image, image) && other.start < own.end && own.start < other.end
        };
        if let Some(part) = self.parts.iter().find(meets) {
            return Err(match part.partition.number == partition.number {
                true => Error::Twice { path: path() },
                false => Error::Shared { one: part.called.clone(), other: path() },
            });
        }
        let device = Rc::clone(&partition.device);
        check_expendable_device(context, &device, &called.to_string_lossy(), force)?;
        self.parts.push(Part { called: path(), image: image.into(), partition });
        Ok(device)
    }
}
