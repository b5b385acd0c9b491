//! Reading space maps: those of metaslabs, the logs of them, and dirty time logs.

use std::future::Future;
use zfs_format::space_map::{Change, Entries, Entry, SpaceMapHeader};
use zfs_format::{Endian, FormatError, Problem};

/// The unit of logs of space maps, as a power of two, whatever that of the vdev.
pub const SECTOR_SHIFT: u32 = 9;
/// Bytes of a space map or a log of them that are read: OpenZFS condenses maps long before.
const MAP_BYTES_MAX: u64 = 1 << 30;
/// Bytes read at once; a multiple of every map's block, so that no entry is cut.
const READ_BYTES: u64 = 128 << 10;

/// Where space maps lie. They are objects of the MOS, and above whoever allocates: this is the one call upward.
pub trait SpaceMapStore {
    /// A map that is open.
    type Map;
    /// Why one can't be had.
    type Error;

    /// Opens a map by the number of its object.
    ///
    /// # Errors
    /// It can't be had.
    fn open(&self, number: u64) -> impl Future<Output = Result<Self::Map, Self::Error>>;

    /// The bytes of its header, their order, and how many bytes its blocks can hold.
    fn header(&self, map: &Self::Map) -> (Vec<u8>, Endian, u64);

    /// Bytes of it.
    ///
    /// # Errors
    /// They can't be had.
    fn read(
        &self,
        map: &Self::Map,
        at: u64,
        len: usize,
    ) -> impl Future<Output = Result<Vec<u8>, Self::Error>>;

    /// Says that its bytes are not what they should be.
    fn wrong(&self, map: &Self::Map, error: FormatError) -> Self::Error;
}

/// A stretch that changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// What happened.
    pub change: Change,
    /// On which top-level vdev; 0 where the map is of one vdev only.
    pub vdev: u32,
    /// Where it begins.
    pub offset: u64,
    /// How long it is.
    pub len: u64,
}

/// A map's header.
///
/// # Errors
/// It is none.
pub fn header<S: SpaceMapStore>(store: &S, map: &S::Map) -> Result<SpaceMapHeader, S::Error> {
    let (bonus, endian, _) = store.header(map);
    SpaceMapHeader::decode(&bonus, endian).map_err(|error| store.wrong(map, error))
}

/// Goes through the stretches of a space map in the order in which they changed, offsets and lengths scaled by
/// 2^`unit`.
///
/// # Errors
/// The map can't be had, is too long, or an entry of it is none.
pub async fn each_stretch<S: SpaceMapStore>(
    store: &S,
    number: u64,
    unit: u32,
    mut take: impl FnMut(Stretch),
) -> Result<(), S::Error> {
    let map = store.open(number).await?;
    let (_, endian, capacity) = store.header(&map);
    let length = header(store, &map)?.length.min(capacity);
    if length > MAP_BYTES_MAX {
        let problem = Problem::Limit { found: length, limit: MAP_BYTES_MAX };
        let (structure, field) = ("space map", "length");
        return Err(store.wrong(&map, FormatError { structure, field, offset: 8, problem }));
    }
    let scaled = |number: u64| number.saturating_mul(1_u64.checked_shl(unit).unwrap_or(u64::MAX));
    let mut at = 0;
    while at < length {
        let len = READ_BYTES.min(length - at);
        let bytes = store.read(&map, at, len as usize).await?;
        for entry in Entries::new(&bytes, endian) {
            let (change, vdev, offset, run) =
                match entry.map_err(|error| store.wrong(&map, error))? {
                    Entry::Short { change, offset, run } => (change, 0, offset, run),
                    Entry::Long { change, vdev, offset, run } => (change, vdev, offset, run),
                    Entry::Note { .. } => continue,
                };
            take(Stretch { change, vdev, offset: scaled(offset), len: scaled(run) });
        }
        at += len;
    }
    Ok(())
}
