//! Where the pool keeps its space maps: objects of the MOS, and the tables that lead to them.
//!
//! Of each top-level vdev an array names its metaslabs' maps, and its own table names the array of the transaction
//! groups that they are whole up to. The pool's directory names the table of logs, by transaction group.
//! What the maps say is loaded by [`zfs_store::alloc`].

use super::open::Spa;
use crate::dmu::{Dnode, Objset};
use crate::error::{Problem, ZfsError};
use crate::zap::Zap;
use zfs_format::pool_directory::{self, top_vdev};
use zfs_format::vdev::Vdev;
use zfs_format::wire::Reader;
use zfs_format::{Endian, FormatError};
use zfs_store::alloc::{Metaslabs, SpaceMapStore};

impl SpaceMapStore for Objset {
    type Map = Dnode;
    type Error = ZfsError;

    async fn open(&self, number: u64) -> Result<Dnode, ZfsError> {
        self.dnode(number).await
    }

    fn header(&self, map: &Dnode) -> (Vec<u8>, Endian, u64) {
        (map.phys().bonus.clone(), map.endian(), map.capacity())
    }

    async fn read(&self, map: &Dnode, at: u64, len: usize) -> Result<Vec<u8>, ZfsError> {
        Ok(map.read(at, len).await?.to_vec())
    }

    fn wrong(&self, map: &Dnode, error: FormatError) -> ZfsError {
        map.wrong(error)
    }
}

impl Spa {
    /// The metaslabs of a top-level vdev with their maps, of which none is loaded yet; nothing where it has none.
    ///
    /// # Errors
    /// A table can't be had, or there are too many.
    pub(crate) async fn metaslabs(&self, vdev: &Vdev) -> Result<Option<Metaslabs>, ZfsError> {
        let Some(array) = vdev.metaslab_array else { return Ok(None) };
        let wrong = |error| ZfsError::Format { objset: self.mos().number(), object: array, error };
        let Some(mut slabs) = Metaslabs::of(vdev).map_err(wrong)? else { return Ok(None) };
        let maps = self.numbers(array, slabs.len()).await?;
        let flushed = match self.top_zap(vdev).await? {
            Some(zap) => match zap.number(top_vdev::UNFLUSHED).await? {
                Some(object) => self.numbers(object, slabs.len()).await?,
                None => Vec::new(),
            },
            None => Vec::new(),
        };
        let flushed = flushed.into_iter().chain(std::iter::repeat(0));
        for ((slab, map), flushed) in slabs.slabs_mut().iter_mut().zip(maps).zip(flushed) {
            (slab.map, slab.flushed_txg) = (map, flushed);
        }
        Ok(Some(slabs))
    }

    /// The table of logs of space maps, where the pool has one.
    ///
    /// # Errors
    /// A table can't be had.
    pub(crate) async fn table_of_map_logs(&self) -> Result<Option<Zap>, ZfsError> {
        let directory = Zap::open(self.mos().dnode(pool_directory::OBJECT).await?).await?;
        match directory.number(pool_directory::LOG_SPACE_MAPS).await? {
            Some(table) => Zap::open(self.mos().dnode(table).await?).await.map(Some),
            None => Ok(None),
        }
    }

    /// The logs of space maps, by transaction group, with their objects.
    ///
    /// # Errors
    /// A table can't be had, or names something else.
    pub(crate) async fn space_map_logs(&self) -> Result<Vec<(u64, u64)>, ZfsError> {
        let Some(table) = self.table_of_map_logs().await? else { return Ok(Vec::new()) };
        let mut logs = Vec::new();
        for entry in table.entries().await? {
            let wrong = || table.dnode().problem(Problem::Entry("of a log"));
            // The name is the transaction group's number, in hexadecimal.
            let txg = u64::from_str_radix(&entry.text(), 16).map_err(|_| wrong())?;
            logs.push((txg, entry.number().ok_or_else(wrong)?));
        }
        logs.sort_unstable();
        Ok(logs)
    }

    /// The map of what was freed on a top-level vdev since the pool's checkpoint.
    ///
    /// # Errors
    /// A table can't be had.
    pub(crate) async fn checkpoint_map(&self, vdev: &Vdev) -> Result<Option<u64>, ZfsError> {
        match self.top_zap(vdev).await? {
            Some(zap) => zap.number(top_vdev::CHECKPOINT).await,
            None => Ok(None),
        }
    }

    /// A top-level vdev's own table.
    ///
    /// # Errors
    /// It can't be had.
    pub(crate) async fn top_zap(&self, vdev: &Vdev) -> Result<Option<Zap>, ZfsError> {
        match vdev.other_number("com.delphix:vdev_zap_top").filter(|zap| *zap != 0) {
            Some(zap) => Zap::open(self.mos().dnode(zap).await?).await.map(Some),
            None => Ok(None),
        }
    }

    /// So many numbers of an object, zeros where it is shorter.
    async fn numbers(&self, number: u64, many: usize) -> Result<Vec<u64>, ZfsError> {
        let object = self.mos().dnode(number).await?;
        let bytes = object.read(0, many * 8).await?.to_vec();
        let mut from = Reader::new("numbers", &bytes, object.endian());
        let numbers = (0..many).map(|_| from.u64("number"));
        numbers.collect::<Result<_, _>>().map_err(|error| object.wrong(error))
    }
}
