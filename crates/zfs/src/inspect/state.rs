//! What goes on in a pool: scans, removals, expansions, rebuilds, a checkpoint, known errors; spares and cache devices.
//!
//! Source: OpenZFS 2.3, `dsl_scan.c`, `vdev_removal.c`, `vdev_raidz.c`, `spa_checkpoint.c`, `spa_errlog.c`.

use crate::error::ZfsError;
use crate::spa::features::InUse;
use crate::spa::{Spa, checkpoint_of, packed_list};
use crate::zap::Zap;
use async_recursion::async_recursion as boxed;
use std::collections::BTreeSet;
use zfs_format::dsl::name_number;
use zfs_format::dsl::scan::Scan;
use zfs_format::error_log::{self, HeadError};
use zfs_format::nvlist::Value;
use zfs_format::pool_directory::{self, top_vdev};
use zfs_format::vdev::indirect::{Mapping, MappingEntry, Removal};
use zfs_format::vdev::{Rebuild, Vdev, VdevKind};
use zfs_format::wire::{Record, Wire};

/// Damaged blocks that are listed; more are counted.
pub const DAMAGED_MAX: usize = 1 << 16;
/// The feature of checkpoints.
const CHECKPOINT: &str = "com.delphix:zpool_checkpoint";
/// The feature by which errors are logged for each head dataset.
const HEAD_ERROR_LOG: &str = "com.delphix:head_errlog";

/// The expansion of a raidz.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expansion {
    /// Which top-level vdev.
    pub vdev: u64,
    /// As of a scan: 1 under way, 2 finished.
    pub state: u64,
    /// When it began, in seconds since 1970.
    pub start_time: u64,
    /// When it ended, in seconds since 1970.
    pub end_time: u64,
    /// Bytes that it copied.
    pub copied: u64,
}

/// A damaged block that the pool has noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DamagedBlock {
    /// The dataset, or the head of which it was reached.
    pub dataset: u64,
    /// The object.
    pub object: u64,
    /// The level.
    pub level: i64,
    /// The block of that level.
    pub block: u64,
    /// When the block was born, where it is of a head; else it is of this dataset itself.
    pub birth: Option<u64>,
}

/// See the [module](self).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// The last scrub or resilver.
    pub scan: Option<Scan>,
    /// The last removal of a vdev.
    pub removal: Option<Removal>,
    /// Bytes that the mappings of removed vdevs take in memory.
    pub mapping_bytes: u64,
    /// When a checkpoint was made, in seconds since 1970.
    pub checkpoint_time: Option<u64>,
    /// A checkpoint is being discarded.
    pub discarding: bool,
    /// Bytes of what was destroyed that wait to be freed, where blocks that say what is in it can't be read.
    pub unreadable_trees: Option<u64>,
    /// The last expansion of a raidz.
    pub expansion: Option<Expansion>,
    /// The last rebuilds, by top-level vdev.
    pub rebuilds: Vec<(u64, Rebuild)>,
    /// How many errors are known.
    pub errors: u64,
    /// Where, up to [`DAMAGED_MAX`].
    pub damaged: BTreeSet<DamagedBlock>,
    /// Spares.
    pub spares: Vec<Vdev>,
    /// Cache devices.
    pub cache: Vec<Vdev>,
}

impl State {
    fn add_error(&mut self, place: Option<DamagedBlock>) {
        self.errors = self.errors.saturating_add(1);
        if self.damaged.len() < DAMAGED_MAX {
            self.damaged.extend(place);
        }
    }
}

impl Spa {
    /// What goes on.
    ///
    /// # Errors
    /// A table or list can't be had.
    #[boxed(?Send)]
    pub async fn state(&self) -> Result<State, ZfsError> {
        let mut state = State::default();
        let directory = Zap::open(self.mos().dnode(pool_directory::OBJECT).await?).await?;
        let wrong = |error| directory.dnode().wrong(error);
        if let Some(value) = directory.get(pool_directory::SCAN.as_bytes()).await? {
            state.scan = Some(Scan::from_numbers(&value.numbers).map_err(wrong)?);
        }
        if let Some(value) = directory.get(pool_directory::REMOVING.as_bytes()).await? {
            state.removal = Some(Removal::from_numbers(&value.numbers).map_err(wrong)?);
        }
        state.checkpoint_time = checkpoint_of(&directory).await?.map(|found| found.timestamp);
        let in_use = |one: &InUse| one.guid == CHECKPOINT && one.count > 0;
        state.discarding = state.checkpoint_time.is_none() && self.features().iter().any(in_use);
        state.unreadable_trees = self.unreadable_trees().await?;
        for vdev in &self.vdevs().children {
            self.add_vdev(&mut state, vdev).await?;
        }
        for log in [pool_directory::ERROR_LOG_LAST, pool_directory::ERROR_LOG_SCRUB] {
            let number = directory.number(log).await?.filter(|number| *number != 0);
            if let Some(number) = number {
                self.add_errors(&mut state, number).await?;
            }
        }
        state.spares = self.auxiliary(&directory, pool_directory::SPARES, "spares").await?;
        state.cache = self.auxiliary(&directory, pool_directory::L2CACHE, "l2cache").await?;
        Ok(state)
    }

    async fn add_vdev(&self, state: &mut State, vdev: &Vdev) -> Result<(), ZfsError> {
        if let VdevKind::Indirect(indirect) = &vdev.kind {
            let object = self.mos().dnode(indirect.mapping).await?;
            let header = Mapping::from_bonus(&object.phys().bonus, object.endian());
            let entries = header.map_err(|error| object.wrong(error))?.entries;
            let bytes = entries.saturating_mul(MappingEntry::BYTES as u64);
            state.mapping_bytes = state.mapping_bytes.saturating_add(bytes);
        }
        let Some(number) = vdev.other_number("com.delphix:vdev_zap_top") else { return Ok(()) };
        let zap = Zap::open(self.mos().dnode(number).await?).await?;
        if let Some(value) = zap.get(top_vdev::REBUILD.as_bytes()).await? {
            let rebuild = Rebuild::from_numbers(&value.numbers);
            state.rebuilds.push((vdev.id, rebuild.map_err(|error| zap.dnode().wrong(error))?));
        }
        if let Some(code) = zap.number(top_vdev::EXPAND_STATE).await?.filter(|code| *code != 0) {
            state.expansion = Some(Expansion {
                vdev: vdev.id,
                state: code,
                start_time: zap.number(top_vdev::EXPAND_START).await?.unwrap_or(0),
                end_time: zap.number(top_vdev::EXPAND_END).await?.unwrap_or(0),
                copied: zap.number(top_vdev::EXPAND_COPIED).await?.unwrap_or(0),
            });
        }
        Ok(())
    }

    async fn add_errors(&self, state: &mut State, log: u64) -> Result<(), ZfsError> {
        let zap = Zap::open(self.mos().dnode(log).await?).await?;
        if !self.has_feature(HEAD_ERROR_LOG) {
            for entry in zap.entries().await? {
                let place = error_log::parse(&entry.text());
                state.add_error(place.map(|place| DamagedBlock {
                    dataset: place.objset,
                    object: place.object,
                    level: place.level,
                    block: place.block,
                    birth: None,
                }));
            }
            return Ok(());
        }
        for entry in zap.entries().await? {
            let Some(number) = entry.number() else { continue };
            let dataset = name_number(&entry.name);
            let of_head = Zap::open(self.mos().dnode(number).await?).await?;
            for entry in of_head.entries().await? {
                let error = HeadError::parse(&entry.text());
                state.add_error(dataset.zip(error).map(|(dataset, error)| DamagedBlock {
                    dataset,
                    object: error.object,
                    level: error.level,
                    block: error.block,
                    birth: Some(error.birth),
                }));
            }
        }
        Ok(())
    }

    async fn auxiliary(
        &self,
        directory: &Zap,
        object: &'static str,
        name: &'static str,
    ) -> Result<Vec<Vdev>, ZfsError> {
        let Some(number) = directory.number(object).await?.filter(|number| *number != 0) else {
            return Ok(Vec::new());
        };
        let list = packed_list(self.mos(), number).await?;
        let wrong = |error| ZfsError::Format { objset: 0, object: number, error };
        let lists = list.lists(name).map_err(wrong)?.unwrap_or_default();
        let numbered = lists.iter().zip(0..).map(|(list, number)| {
            // They stand in no tree, and have no number there.
            let mut list = list.clone();
            if !list.has("id") {
                list.set("id", Value::Uint64(number));
            }
            Vdev::from_list(&list).map_err(wrong)
        });
        numbered.collect()
    }
}
