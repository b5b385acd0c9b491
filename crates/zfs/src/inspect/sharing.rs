//! What deduplication and cloning save.
//!
//! Deduplication keeps a histogram for each of its tables, by name, in one table of the MOS: blocks and bytes by the
//! number of references, once and times the references. Entries that stand in a log are in no table yet, and are
//! counted from the log. Cloning keeps its sums with each vdev's table.
//!
//! Source: OpenZFS 2.3, `ddt.c`, `ddt_stats.c`, `ddt_log.c`, `brt.c`.

use crate::dmu::Dnode;
use crate::error::{Problem, ZfsError};
use crate::spa::Spa;
use crate::zap::Zap;
use async_recursion::async_recursion as boxed;
use std::collections::BTreeMap;
use zfs_format::block_pointer::Dva;
use zfs_format::brt::BrtVdev;
use zfs_format::checksum::ChecksumFunction;
use zfs_format::ddt::{DdtHistogram, DdtLogHeader, LogEntry, log_records};
use zfs_format::pool_directory;
use zfs_format::wire::Record;

/// Bytes of a log of deduplication that are read: OpenZFS begins another long before.
const LOG_BYTES_MAX: u64 = 1 << 30;

/// What deduplication comes to, in bytes on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dedup {
    /// Of all blocks in the tables, once.
    pub stored: u64,
    /// The same, times their references.
    pub referenced: u64,
    /// Of the tables themselves.
    pub table: u64,
}

impl Dedup {
    /// What it saves.
    pub fn saved(&self) -> u64 {
        self.referenced.saturating_sub(self.stored)
    }

    /// Its ratio in hundredths.
    pub fn ratio(&self) -> u64 {
        hundredths(self.referenced, self.stored)
    }
}

/// What cloning comes to, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cloned {
    /// Of cloned blocks, once.
    pub used: u64,
    /// What they would take more without cloning.
    pub saved: u64,
}

impl Cloned {
    /// Its ratio in hundredths.
    pub fn ratio(&self) -> u64 {
        hundredths(self.used.saturating_add(self.saved), self.used)
    }
}

fn hundredths(of: u64, to: u64) -> u64 {
    (u128::from(of) * 100).checked_div(to.into()).map_or(100, |ratio| ratio as u64)
}

impl Spa {
    async fn directory_zap(&self) -> Result<Zap, ZfsError> {
        Zap::open(self.mos().dnode(pool_directory::OBJECT).await?).await
    }

    /// What deduplication comes to.
    ///
    /// # Errors
    /// A table or log can't be had.
    #[boxed(?Send)]
    pub async fn dedup(&self) -> Result<Dedup, ZfsError> {
        let directory = self.directory_zap().await?;
        let mut sum = Dedup::default();
        if let Some(statistics) = directory.number(pool_directory::DDT_STATISTICS).await? {
            let zap = Zap::open(self.mos().dnode(statistics).await?).await?;
            for entry in zap.entries().await? {
                let histogram = DdtHistogram::from_numbers(&entry.value.numbers);
                let histogram = histogram.map_err(|error| zap.dnode().wrong(error))?;
                for bucket in &histogram.buckets {
                    sum.stored = sum.stored.saturating_add(bucket.disk_bytes);
                    let [.., referenced] = bucket.referenced;
                    sum.referenced = sum.referenced.saturating_add(referenced);
                }
            }
        }
        for function in ChecksumFunction::ALL {
            let own = directory.get(pool_directory::ddt_directory(function).as_bytes()).await?;
            let own = match own.and_then(|value| value.number()) {
                Some(number) => Some(Zap::open(self.mos().dnode(number).await?).await?),
                None => None,
            };
            let place = own.as_ref().unwrap_or(&directory);
            for unique in [false, true] {
                let name = pool_directory::ddt_table(function, unique);
                if let Some(number) = place.get(name.as_bytes()).await?.and_then(|v| v.number()) {
                    sum.table += self.mos().dnode(number).await?.phys().used_bytes();
                }
            }
            for log in 0..2 {
                let name = pool_directory::ddt_log(function, log);
                if let Some(number) = place.get(name.as_bytes()).await?.and_then(|v| v.number()) {
                    let object = self.mos().dnode(number).await?;
                    sum.table += object.phys().used_bytes();
                    self.add_log(&object, &mut sum).await?;
                }
            }
        }
        Ok(sum)
    }

    /// What cloning comes to.
    ///
    /// # Errors
    /// A table can't be had.
    #[boxed(?Send)]
    pub async fn cloned(&self) -> Result<Cloned, ZfsError> {
        let directory = self.directory_zap().await?;
        let mut sum = Cloned::default();
        for vdev in &self.vdevs().children {
            let name = pool_directory::brt_vdev(vdev.id);
            let Some(number) = directory.get(name.as_bytes()).await?.and_then(|v| v.number())
            else {
                continue;
            };
            let object = self.mos().dnode(number).await?;
            let header = BrtVdev::decode(&object.phys().bonus, object.endian());
            let header = header.map_err(|error| object.wrong(error))?;
            sum.used = sum.used.saturating_add(header.used_bytes);
            sum.saved = sum.saved.saturating_add(header.saved_bytes);
        }
        Ok(sum)
    }

    /// Entries of a log: the last one of a key counts.
    async fn add_log(&self, object: &Dnode, sum: &mut Dedup) -> Result<(), ZfsError> {
        let header = DdtLogHeader::decode(&object.phys().bonus, object.endian());
        let length = header.map_err(|error| object.wrong(error))?.length;
        if length > LOG_BYTES_MAX {
            let (what, limit) = ("bytes of a deduplication log", LOG_BYTES_MAX);
            return Err(object.problem(Problem::Limit { what, limit }));
        }
        let mut last = BTreeMap::new();
        let size = object.block_bytes().max(1);
        for number in 0..length.div_ceil(size) {
            let block = object.block(number).await?;
            let records = log_records(block.bytes.bytes(), block.endian);
            for record in records.map_err(|error| object.wrong(error))? {
                let key: Vec<u64> = record.key.to_numbers();
                let sets = match &record.entry {
                    LogEntry::Flat(entry) => vec![(self.on_disk(&entry.places), entry.references)],
                    LogEntry::Traditional(entry) => {
                        let sets = entry.sets.iter();
                        sets.map(|set| (self.on_disk(&set.places), set.references)).collect()
                    }
                };
                last.insert(key, sets);
            }
        }
        for (bytes, references) in last.values().flatten() {
            sum.stored = sum.stored.saturating_add(*bytes);
            sum.referenced = sum.referenced.saturating_add(bytes.saturating_mul(*references));
        }
        Ok(())
    }

    /// What places take on disk, without parity.
    fn on_disk(&self, places: &[Dva]) -> u64 {
        let there = places.iter().filter(|place| self.tree().ashift(place.vdev()).is_some());
        let one = |place: &Dva| self.tree().deflated(place.vdev(), place.allocated());
        there.map(one).fold(0, u64::saturating_add)
    }
}
