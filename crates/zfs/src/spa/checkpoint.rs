//! The pool's checkpoint: all of it as one group left it, to go back to.
//!
//! ```text
//!   taken       N is in the pool ── N+1 writes N's uberblock into the directory; from N+1 on what N has is kept (`kept`)
//!   discarded   the uberblock goes ── each group frees a part of what was kept ── the feature is not in use any more
//!   rewound     N's uberblock is written to the labels, with the number after the newest: the pool is as N left it
//! ```
//!
//! **Taking.** Nothing of N is freed or written over: the first thing that N+1 does is to keep what is born up to N.
//!
//! **Discarding** goes on after a cut, or when the pool is next opened, where the last group that is in the pool left off.
//!
//! **Rewinding.** What was written since lies where N had free space, so N+1 of the pool as it was may be overwritten by the first
//! group after it. So before anything else is written an uberblock says that the pool is N's. It has N's number beside its own
//! (`checkpoint_txg`): intent logs that had not been claimed then are of nobody, and of them only blocks up to N are there.
//! A cut before the uberblock leaves the pool with its checkpoint.
//!
//! **The uberblock in the directory** has as many numbers as OpenZFS's of the pool's time: the one that tells of a raidz that is expanded is
//! left out where the pool doesn't have that feature, for versions that don't know it take no more.
//!
//! Source: OpenZFS, `spa_checkpoint.c`, `spa.c` (`spa_ld_checkpoint_rewind`), `zil.c` (`zil_claim`).

use super::commit::{CommitError, Syncer};
use super::history::{Deed, note};
use super::kept;
use super::open::{Spa, checkpoint_of};
use crate::dsl::make::Maker;
use crate::error::ZfsError;
use crate::zap::{Zap, table};
use stdx::planted::{self, Bug};
use zfs_format::pool_directory;
use zfs_format::uberblock::Uberblock;
use zfs_format::wire::Record;
use zfs_format::zap::leaf::LeafValue;

/// The feature of checkpoints, by its short name.
pub(super) const FEATURE: &str = "zpool_checkpoint";
/// The feature that lets uberblocks tell of a raidz that is expanded.
const EXPANSION: &str = "raidz_expansion";
/// Numbers of an uberblock before there was that.
const NUMBERS_BEFORE: usize = 26;
const LABELS: [usize; 4] = [0, 1, 2, 3];

/// The checkpoint's uberblock, where the pool has one.
///
/// # Errors
/// It can't be had.
pub(super) async fn of(spa: &Spa) -> Result<Option<Uberblock>, ZfsError> {
    let directory = Zap::open(spa.mos().dnode(pool_directory::OBJECT).await?).await?;
    checkpoint_of(&directory).await
}

/// Takes the checkpoint of the group before the one that syncs.
///
/// # Errors
/// What is needed can't be had.
pub(super) async fn take(
    maker: &Maker<'_>,
    syncer: &Syncer,
    of: &Uberblock,
) -> Result<(), ZfsError> {
    let uberblock = Uberblock { checkpoint_txg: of.txg, ..of.clone() };
    let mut numbers = uberblock.to_numbers();
    if maker.uses(EXPANSION).await?.is_none() {
        numbers.truncate(NUMBERS_BEFORE);
    }
    let value = LeafValue { number_bytes: 8, numbers };
    table::set(maker.mos, &syncer.directory().await?, pool_directory::CHECKPOINT, value).await?;
    maker.count_use(FEATURE, 1).await?;
    let text = format!("checkpointed uberblock txg={}", of.txg);
    note(maker, syncer, Deed::Inside { name: "spa checkpoint", dataset: None, text: &text }).await
}

async fn note_discard(maker: &Maker<'_>, syncer: &Syncer, how: &str) -> Result<(), ZfsError> {
    let text = format!("{how} discarding checkpointed state from the pool");
    let name = "spa discard checkpoint";
    note(maker, syncer, Deed::Inside { name, dataset: None, text: &text }).await
}

/// The pool has no checkpoint any more, and what that kept is to be freed.
///
/// # Errors
/// What is needed can't be had.
pub(super) async fn begin_discard(maker: &Maker<'_>, syncer: &Syncer) -> Result<(), ZfsError> {
    table::remove(maker.mos, &syncer.directory().await?, pool_directory::CHECKPOINT).await?;
    note_discard(maker, syncer, "started").await
}

/// Frees so many blocks or a few more of what a checkpoint kept that is being discarded. Says whether there is more.
///
/// # Errors
/// What is needed can't be had.
pub(super) async fn discard(
    maker: &Maker<'_>,
    syncer: &Syncer,
    blocks: u64,
) -> Result<bool, ZfsError> {
    let tops = syncer.config().root.children;
    if kept::discard(maker, syncer.writer(), &tops, blocks).await? {
        return Ok(true);
    }
    maker.count_use(FEATURE, -1).await?;
    note_discard(maker, syncer, "finished").await?;
    Ok(false)
}

/// Has the pool be what its checkpoint is, at which it is open. The group after the newest has the checkpoint's uberblock then.
///
/// # Errors
/// No device took it: the pool is as it was.
pub(super) async fn rewind(spa: &Spa, now: u64) -> Result<(), CommitError> {
    let txg = spa.latest_txg() + 1;
    let uberblock = Uberblock { txg, timestamp: now, ..spa.uberblock() };
    let tree = spa.tree();
    if planted::is(Bug::RewoundLate) {
        spa.set_synced(uberblock, spa.guid(), (*spa.vdevs()).clone());
        return Ok(());
    }
    let written = tree.write_uberblock(&LABELS, &uberblock, 0).await;
    let flushed = tree.flush_leaves().await;
    if written.leaves == 0 || flushed.leaves == 0 {
        return Err(CommitError::NoUberblock);
    }
    spa.set_synced(uberblock, spa.guid(), (*spa.vdevs()).clone());
    Ok(())
}
