//! Labels of devices that stand in no tree yet, or in none: cleared, and those of spares and cache devices.
//!
//! A device that is to be a part of a pool has its old labels cleared first, so that nothing of them is taken for the new pool's. A spare
//! may be one of several pools, so its label names none; a cache device holds nothing that is needed, and its label says only that.
//!
//! Source: OpenZFS, `vdev_label.c` (`vdev_label_init`), `libzutil` (`zpool_clear_label`).

use rt::{Buf, BufMut, DeviceRef, IoErrorKind, Request};
use stdx::Offset;
use zfs_format::FormatError;
use zfs_format::label::{self, Configuration, LABEL_BYTES, LABELS};
use zfs_format::nvlist::{Encoding, NvList};
use zfs_format::{Endian, Problem};

/// Why a device did not get its labels.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApartError {
    /// It does not take them.
    #[error("its labels can't be written: {0}")]
    Io(IoErrorKind),
    /// It has no room for them, or they are longer than their place.
    #[error(transparent)]
    Format(#[from] FormatError),
}

/// Clears the labels of a device, whatever stands there.
///
/// # Errors
/// It does not take that, or is too small for labels.
pub async fn clear(device: &DeviceRef) -> Result<(), ApartError> {
    write(device, |_| Ok(Vec::new())).await
}

/// Writes this configuration into all labels of a device, and clears the rest of them.
///
/// # Errors
/// It does not take that, is too small for labels, or the configuration is longer than its place.
pub async fn set(device: &DeviceRef, list: &NvList) -> Result<(), ApartError> {
    let configuration = Configuration {
        list: list.clone(),
        encoding: Encoding::Xdr(Endian::Big),
        endian: Endian::Little,
    };
    write(device, |place| configuration.encode(place + label::CONFIGURATION_AT)).await
}

/// Writes labels that hold nothing but what stands in the place of their configurations; durable when it is done.
async fn write(
    device: &DeviceRef,
    configuration: impl Fn(u64) -> Result<Vec<u8>, FormatError>,
) -> Result<(), ApartError> {
    let capacity = device.geometry().capacity.bytes();
    for number in 0..LABELS {
        let place = label::label_at(number, capacity).ok_or(FormatError {
            structure: "label",
            field: "place",
            offset: 0,
            problem: Problem::Limit { found: LABELS as u64 * LABEL_BYTES, limit: capacity },
        })?;
        let mut bytes = BufMut::zeroed(LABEL_BYTES as usize);
        let found = configuration(place)?;
        let at = label::CONFIGURATION_AT as usize;
        bytes[at..at + found.len()].copy_from_slice(&found);
        let bytes: Buf = bytes.freeze();
        let written = device.submit(Request::write(Offset(place), bytes)).await;
        written.map_err(|error| ApartError::Io(error.kind))?;
    }
    let flushed = device.submit(Request::flush()).await;
    flushed.map_err(|error| ApartError::Io(error.kind)).map(|_| ())
}
