//! Whether a pool's features are known: in its label, and in the MOS.
//!
//! A feature that stands in the list for reading and is not known bars the pool. One in the list for writing only
//! bars writing, so a pool that is only read opens.
//!
//! Source: OpenZFS, `zfeature.c`.

use super::error::OpenError;
use crate::dmu::Objset;
use crate::error::ZfsError;
use crate::zap::Zap;
use zfs_format::features::{Feature, Support};
use zfs_format::nvlist::NvList;
use zfs_format::pool_directory;

/// A feature of a pool and how often it is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InUse {
    /// Its name on disk.
    pub guid: String,
    /// How many things use it; 0 enabled only.
    pub count: u64,
    /// Whether it stands in the list for reading.
    pub for_reading: bool,
}

/// Whether pools that use this feature are read.
pub fn is_read(guid: &str) -> bool {
    Feature::find(guid).is_some_and(|feature| feature.support == Support::Read)
}

/// Refuses a pool whose label names a feature that reading needs and that is not known.
pub(super) fn check_label(pool: &str, config: &NvList) -> Result<(), OpenError> {
    let list = config.list("features_for_read").ok().flatten();
    let pairs = list.map(|list| list.pairs.as_slice()).unwrap_or_default();
    let unknown = pairs.iter().map(|(name, _)| name.to_string()).filter(|name| !is_read(name));
    refuse(pool, unknown.collect())
}

/// All features that the MOS lists.
///
/// # Errors
/// A table can't be had.
pub async fn in_use(mos: &Objset) -> Result<Vec<InUse>, ZfsError> {
    let directory = Zap::open(mos.dnode(pool_directory::OBJECT).await?).await?;
    let mut found = Vec::new();
    let tables =
        [(pool_directory::FEATURES_FOR_READ, true), (pool_directory::FEATURES_FOR_WRITE, false)];
    for (table, for_reading) in tables {
        // Pools before version 5000 have none.
        let Some(number) = directory.number(table).await? else { continue };
        let zap = Zap::open(mos.dnode(number).await?).await?;
        for entry in zap.entries().await? {
            let count = entry.number().unwrap_or(0);
            found.push(InUse { guid: entry.text(), count, for_reading });
        }
    }
    Ok(found)
}

/// Refuses a pool that uses what reading needs and that is not known.
pub(super) fn check_in_use(pool: &str, in_use: &[InUse]) -> Result<(), OpenError> {
    let bars = |one: &&InUse| one.for_reading && one.count != 0 && !is_read(&one.guid);
    refuse(pool, in_use.iter().filter(bars).map(|one| one.guid.clone()).collect())
}

fn refuse(pool: &str, features: Vec<String>) -> Result<(), OpenError> {
    match features.is_empty() {
        true => Ok(()),
        false => Err(OpenError::Features { pool: pool.to_owned(), features }),
    }
}
