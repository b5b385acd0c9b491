//! Whether devices may be made members of a set or pool, and so overwritten.
//!
//! Nothing that holds something is overwritten without `--force` ([`host::expendable`] looks), unless it is an old member of the
//! set; and nothing is made a member twice, by whatever names.

use crate::context::Context;
use crate::error::Error;
use crate::sets::place::whole_of;
use host::expendable::{self, NotExpendable, Unseen};
use host::identity::{overlap, same};
use host::probe;
use rt::{DeviceRef, Request};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use stdx::{ByteCount, Offset};

/// Whether a device may be overwritten.
///
/// # Errors
/// Where it holds something, and nobody forces it.
pub fn check_expendable(path: &Path, force: bool) -> Result<(), Error> {
    if force {
        return Ok(());
    }
    expendable::check_expendable(path, Unseen::Nothing).map_err(|error| match error {
        NotExpendable::Probe(error) => Error::Probe(error),
        error => Error::Holds(error),
    })
}

/// The same for a device that is put together, or elsewhere: it is looked at as a block device is.
///
/// # Errors
/// As of [`check_expendable`].
pub fn check_expendable_device(
    context: &Context,
    device: &DeviceRef,
    called: &str,
    force: bool,
) -> Result<(), Error> {
    if force {
        return Ok(());
    }
    let path = || PathBuf::from(called);
    let block = device.geometry().logical_block.bytes();
    // Signatures stand where they like, and devices are read by blocks.
    let read = |into: &mut [u8], at: u64| -> io::Result<()> {
        let (from, to) = (at - at % block, (at + into.len() as u64).next_multiple_of(block));
        let (device, request) =
            (Rc::clone(device), Request::read(Offset(from), ByteCount(to - from)));
        let reading = async move { device.submit(request).await };
        let read = context.runtime().block_on(reading).expect("I/O on a real device ends");
        let bytes = read.map_err(|error| io::Error::other(error.to_string()))?.to_vec();
        let skipped = (at - from) as usize;
        into.copy_from_slice(&bytes[skipped..skipped + into.len()]);
        Ok(())
    };
    let found = probe::content_of(device.geometry().capacity.bytes(), &read)
        .map_err(|error| Error::Probe(probe::ProbeError { path: path(), error }))?;
    match found {
        None => Ok(()),
        Some(content) => Err(Error::Holds(NotExpendable::Holds { path: path(), content })),
    }
}

/// The same for what was opened by that name: a file, a block device, or a partition of a disk image.
///
/// # Errors
/// As of [`check_expendable`].
pub fn check_expendable_opened(
    context: &Context,
    path: &Path,
    device: &DeviceRef,
    force: bool,
) -> Result<(), Error> {
    match whole_of(path) {
        Some(_) => check_expendable_device(context, device, &path.to_string_lossy(), force),
        None => check_expendable(path, force),
    }
}

/// Whether a device shares nothing with the others.
///
/// # Errors
/// Where it is one of them, or a part of one, or one is a part of it.
pub fn check_distinct<'a>(
    path: &Path,
    mut others: impl Iterator<Item = &'a Path>,
) -> Result<(), Error> {
    match others.find(|other| overlap(other, path)) {
        None => Ok(()),
        Some(other) if same(other, path) => Err(Error::Twice { path: path.into() }),
        Some(other) => Err(Error::Shared { one: other.into(), other: path.into() }),
    }
}
