//! A dataset taken back to its newest snapshot.
//!
//! What it reaches is what the snapshot reaches from here on. What was written since is freed as a destroyed tree is; what it had
//! given up is its own again, so its deadlist begins anew, with the same keys.
//!
//! Source: OpenZFS, `dsl_dataset.c` (`dsl_dataset_rollback_sync`, `dsl_dataset_clone_swap_sync_impl`).

use super::reserve::Spares;
use super::{Done, TaskError, Tasks, done};
use crate::dmu::Dnode;
use crate::dsl::bpobj::Sums;
use crate::dsl::deadlist::Deadlist;
use crate::dsl::space::{Part, kept_for_head};
use crate::error::ZfsError;
use crate::zap::table;
use async_recursion::async_recursion as boxed;
use zfs_format::dsl::dataset::DslDataset;
use zfs_format::dsl::dir::DslDir;

impl Tasks<'_> {
    /// Whether a dataset can be taken back to a snapshot: there must be nothing between.
    ///
    /// # Errors
    /// What is needed can't be had. The other error: why it can't.
    #[boxed(?Send)]
    pub async fn check_rollback(&self, dataset: u64, snapshot: u64) -> Done<()> {
        let (object, head) = self.dataset(dataset).await?;
        if head.next_snapshot != 0 {
            return Ok(Err(TaskError::Type));
        }
        if head.previous_snapshot != snapshot || snapshot == 0 {
            return Ok(Err(TaskError::Newer));
        }
        // What the group itself wrote would be taken for the snapshot's.
        if head.previous_snapshot_txg >= self.maker.txg {
            return Ok(Err(TaskError::Busy));
        }
        let latest = self.maker.bookmarks_of(&object).await?.into_iter();
        let latest = latest.map(|(_, mark)| mark.creation_txg).max();
        if latest > Some(head.previous_snapshot_txg) {
            return Ok(Err(TaskError::Newer));
        }
        done!(self.check_space(Spares::Half, 1));
        self.check_log(&object).await
    }

    /// Takes a dataset back to its newest snapshot.
    ///
    /// # Errors
    /// As of [`Tasks::check_rollback`], and where somebody has it open.
    #[boxed(?Send)]
    pub async fn rollback(&self, dataset: u64, snapshot: u64) -> Done<()> {
        done!(self.check_rollback(dataset, snapshot).await?);
        done!(self.close(dataset));
        let maker = self.maker;
        let (object, head) = self.dataset(dataset).await?;
        let (origin, then) = self.dataset(snapshot).await?;
        let (directory, state) = self.directory(head.dir).await?;
        let old = Deadlist::open(maker, head.deadlist).await?;
        let deadlist = Deadlist::make(maker, old.keys()).await?;
        // What was written since goes as a tree, and is on the list.
        maker.end_livelist(&directory).await?;
        self.count_rollback(&directory, &state, &head, &then, &old).await?;
        old.destroy().await?;
        maker.drop_moved_off(&object).await?;
        self.drop_newer_features(&object, &origin).await?;
        maker
            .edit::<DslDataset>(&object, |head| {
                head.pointer = then.pointer;
                head.deadlist = deadlist;
                head.referenced_bytes = then.referenced_bytes;
                head.compressed_bytes = then.compressed_bytes;
                head.uncompressed_bytes = then.uncompressed_bytes;
                head.unique_bytes = 0;
            })
            .await?;
        if then.next_snapshot == dataset {
            maker.edit::<DslDataset>(&origin, |origin| origin.unique_bytes = 0).await?;
        }
        maker.next_changed(&object, snapshot).await?;
        self.syncer.note_deed();
        self.clear_log(&object).await.map(Ok)
    }

    /// What was written since is not the directory's any more; what snapshots kept alone is the head's, too.
    async fn count_rollback(
        &self,
        directory: &Dnode,
        state: &DslDir,
        head: &DslDataset,
        then: &DslDataset,
        dead: &Deadlist<'_>,
    ) -> Result<(), ZfsError> {
        let maker = self.maker;
        let mut since = dead.space()?;
        let now = [head.referenced_bytes, head.compressed_bytes, head.uncompressed_bytes];
        let before = [then.referenced_bytes, then.compressed_bytes, then.uncompressed_bytes];
        let [used, compressed, uncompressed] =
            [0, 1, 2].map(|n: usize| now[n].wrapping_sub(before[n]) as i64);
        since.add(Sums { used, compressed, uncompressed }, 1);
        let back = dead.space_in(self.origin_txg(state).await?..u64::MAX).await?.used;
        self.give_up_tree(head, directory, since).await?;
        maker.transfer(directory, back, Part::Snapshots, Part::Head).await?;
        let kept = kept_for_head(maker.mos, state).await?.min(head.unique_bytes) as i64;
        match kept {
            0 => Ok(()),
            used => {
                maker.did_use(directory, Part::KeptForHead, Sums { used, ..Sums::default() }).await
            }
        }
    }

    /// Features that came into use after a snapshot are not in use any more.
    async fn drop_newer_features(&self, object: &Dnode, then: &Dnode) -> Result<(), ZfsError> {
        let kept = self.maker.features_of(then).await?;
        for (feature, _) in self.maker.features_of(object).await? {
            if kept.iter().all(|(known, _)| known.guid != feature.guid) {
                table::remove(self.mos(), object, feature.guid).await?;
                self.maker.count_use(feature.name, -1).await?;
            }
        }
        Ok(())
    }
}
