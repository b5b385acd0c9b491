//! What datasets may still take of a pool, by what each uses, its quotas, and what is kept free for it or others.
//!
//! ```text
//!   capacity    what the pool gives to datasets: its space, deflated, without what is kept for intent logs and the slop (zfs_store::slop)
//!   available   of a dataset: capacity less what is used above it, cut by quotas; and what is kept free for itself
//! ```
//!
//! What is kept free for one is used for all others ([`dsl::space`](crate::dsl::space)). What is dirty is not in any
//! directory's books yet, so it is taken off; as many bytes as it may become.
//!
//! Source: OpenZFS, `dsl_pool.c` (`dsl_pool_adjustedsize`), `dsl_dataset.c` (`dsl_dataset_check_quota`).

use super::commit::Syncer;
use crate::dsl::space::{available, head_quota, kept_for_head};
use crate::error::ZfsError;
use std::cell::RefCell;
use std::collections::BTreeMap;
use zfs_format::dsl::dataset::DslDataset;
use zfs_format::dsl::dir::DslDir;
use zfs_format::wire::Record;
use zfs_store::alloc::{Class, Metaslabs, keeps_log};
use zfs_store::slop;

/// Datasets whose room is remembered.
const KNOWN_MAX: usize = 4096;

/// What a pool can give to datasets.
pub(super) fn capacity(syncer: &Syncer) -> u64 {
    let config = syncer.config();
    let tops = config.root.children.iter().filter(|top| Class::of(top) == Class::Normal);
    let sizes = tops.map(|top| {
        let id = top.id as u32;
        let size = |slabs: &Metaslabs| {
            let log = if keeps_log(Class::Normal, slabs.len()) { slabs.stride() } else { 0 };
            (slabs.size() - log, log)
        };
        let (size, log) = syncer.writer().space(|space| space.metaslabs(id).map_or((0, 0), size));
        let deflated = |bytes| syncer.writer().tree().deflated(id, bytes);
        (deflated(size), deflated(log))
    });
    let (space, log) = sizes.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    space.saturating_sub(slop(space, log))
}

/// What a dataset can take, by the books as they are.
pub(super) async fn of_dataset(syncer: &Syncer, dataset: u64) -> Result<u64, ZfsError> {
    let mos = syncer.mos();
    let dataset = mos.dnode(dataset).await?;
    let head = DslDataset::decode(&dataset.phys().bonus, dataset.endian());
    let head = head.map_err(|error| dataset.wrong(error))?;
    let directory = mos.dnode(head.dir).await?;
    let dir = DslDir::decode(&directory.phys().bonus, directory.endian());
    let dir = dir.map_err(|error| directory.wrong(error))?;
    let kept = kept_for_head(mos, &dir).await?.saturating_sub(head.unique_bytes);
    let left = available(mos, head.dir, capacity(syncer)).await?.saturating_add(kept);
    // What is written over is counted until it is in the pool, as what is dirty is: so it is for those who are near their quota.
    Ok(match head_quota(mos, &dir).await? {
        0 => left,
        quota => left.min(quota.saturating_sub(head.referenced_bytes)),
    })
}

/// A moment between two groups: the one that is open, and whether the one before is in the pool.
type Moment = (u64, bool);

fn now(syncer: &Syncer) -> Moment {
    (syncer.groups().open().0, syncer.groups().syncing().is_some())
}

/// What datasets can take, remembered as long as no group changes it.
#[derive(Default)]
pub(super) struct Rooms(RefCell<BTreeMap<u64, (Moment, u64)>>);

impl Rooms {
    /// What a dataset can take beside what is dirty, where that is known.
    pub(super) fn known(&self, syncer: &Syncer, dataset: u64) -> Option<u64> {
        let known = self.0.borrow();
        known.get(&dataset).filter(|(moment, _)| *moment == now(syncer)).map(|(_, bytes)| *bytes)
    }

    /// What a dataset can take beside what is dirty.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub(super) async fn of(&self, syncer: &Syncer, dataset: u64) -> Result<u64, ZfsError> {
        if let Some(bytes) = self.known(syncer, dataset) {
            return Ok(bytes);
        }
        let now = now(syncer);
        let bytes = of_dataset(syncer, dataset).await?;
        let mut known = self.0.borrow_mut();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(dataset, (now, bytes));
        Ok(bytes)
    }
}
