//! Reading a device's labels: its configurations and all its uberblocks.
//!
//! Of the four copies some may be damaged, or older than the others: power went between writing the first pair and
//! the second, or somebody made a partition. So nothing is chosen here. Each label is read by itself and reported
//! with what is wrong with it; who imports the pool takes the best of all labels of all its devices.
//!
//! The ring's slots are as large as a sector of the vdev, which the configuration states. A label whose
//! configuration can't be read goes by another label's; where there is none at all, each size is tried, and the one
//! that gives the most uberblocks is taken.
//!
//! Source: OpenZFS, `vdev_label.c`; the layout is in `zfs_format::label`.

pub mod apart;

use rt::{Buf, Device, DeviceRef, IoErrorKind, Request};
use stdx::{ByteCount, Offset};
use zfs_format::label::{self, Configuration, Ring};
use zfs_format::uberblock::Uberblock;
use zfs_format::{Endian, FormatError, Problem};

/// The sizes that slots can have, as powers of two.
const SLOT_SHIFTS: std::ops::RangeInclusive<u64> = 10..=13;

/// What the labels of a device say.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    /// Those for which there is room: four, or none on a device that is too small.
    pub labels: Vec<Label>,
}

/// One label.
#[derive(Clone, Debug)]
pub struct Label {
    /// 0 to 3.
    pub number: usize,
    /// The configuration.
    pub configuration: Result<Configuration, LabelError>,
    /// The uberblocks of the ring that are right, in the order of their slots.
    pub uberblocks: Vec<FoundUberblock>,
    /// Slots that hold something that is no uberblock, or a damaged one; empty slots are not among them.
    pub damaged: Vec<(u64, LabelError)>,
}

/// An uberblock and where it was.
#[derive(Clone, Debug)]
pub struct FoundUberblock {
    /// The number of its slot.
    pub slot: u64,
    /// The uberblock.
    pub uberblock: Uberblock,
    /// The order in which it was written.
    pub endian: Endian,
}

/// Why a part of a label can't be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// The device didn't give the bytes.
    #[error("it can't be read: {0}")]
    Io(IoErrorKind),
    /// They are not what they should be.
    #[error(transparent)]
    Format(#[from] FormatError),
}

impl Labels {
    /// The configurations that are right, by label.
    pub fn configurations(&self) -> impl Iterator<Item = (usize, &Configuration)> {
        self.labels
            .iter()
            .filter_map(|label| Some((label.number, label.configuration.as_ref().ok()?)))
    }

    /// The best of all uberblocks: of the highest transaction group.
    pub fn best_uberblock(&self) -> Option<&FoundUberblock> {
        let all = self.labels.iter().flat_map(|label| &label.uberblocks);
        all.max_by(|one, other| one.uberblock.newer(&other.uberblock))
    }
}

/// Reads the labels of a device. What can't be read or isn't right is said in the labels.
pub async fn read(device: &DeviceRef) -> Labels {
    let bytes = device.geometry().capacity.bytes();
    let mut read = Vec::new();
    for number in 0..label::LABELS {
        let Some(place) = label::label_at(number, bytes) else { continue };
        let configuration =
            part(&**device, place + label::CONFIGURATION_AT, label::CONFIGURATION_BYTES).await;
        let configuration = configuration.and_then(|bytes| {
            Ok(Configuration::decode(bytes.bytes(), place + label::CONFIGURATION_AT)?)
        });
        let ring = part(&**device, place + label::RING_AT, label::RING_BYTES as usize).await;
        read.push((number, place, configuration, ring));
    }
    let stated =
        read.iter().find_map(|(_, _, configuration, _)| ashift(configuration.as_ref().ok()?));
    let labels = read.into_iter().map(|(number, place, configuration, ring)| {
        let ashift = configuration.as_ref().ok().and_then(ashift).or(stated);
        let (uberblocks, damaged) = match ring {
            Err(error) => (Vec::new(), vec![(0, error)]),
            Ok(ring) => match ashift {
                Some(ashift) => slots(ring.bytes(), place, Ring::new(ashift)),
                None => SLOT_SHIFTS
                    .map(|shift| slots(ring.bytes(), place, Ring::new(shift)))
                    .max_by_key(|(found, _)| found.len())
                    .unwrap_or_default(),
            },
        };
        Label { number, configuration, uberblocks, damaged }
    });
    Labels { labels: labels.collect() }
}

/// Bytes of a device, which may have blocks larger than their alignment.
async fn part(device: &dyn Device, at: u64, len: usize) -> Result<Buf, LabelError> {
    let request = Request::read(Offset(at), ByteCount(len as u64));
    match device.submit(request).await {
        Ok(data) => Ok(data.into_contiguous()),
        Err(error) => Err(LabelError::Io(error.kind)),
    }
}

/// The sector of the top-level vdev, as a power of two.
fn ashift(configuration: &Configuration) -> Option<u64> {
    configuration.list.list("vdev_tree").ok()??.u64("ashift").ok()?
}

/// The uberblocks of a ring, and what is wrong with slots that are not empty.
fn slots(ring: &[u8], place: u64, layout: Ring) -> (Vec<FoundUberblock>, Vec<(u64, LabelError)>) {
    let (mut found, mut damaged) = (Vec::new(), Vec::new());
    let all = ring.chunks_exact(layout.slot_bytes()).zip(0..layout.slots());
    for (bytes, slot) in all {
        let at = place + label::RING_AT + slot * layout.slot_bytes() as u64;
        match label::decode_slot(bytes, at) {
            Ok((uberblock, endian)) => found.push(FoundUberblock { slot, uberblock, endian }),
            Err(FormatError { problem: Problem::Magic(0), .. }) => {}
            Err(error) => damaged.push((slot, error.into())),
        }
    }
    (found, damaged)
}
