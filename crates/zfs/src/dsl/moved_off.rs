//! What datasets no longer name on removed vdevs, though older snapshots do.
//!
//! OpenZFS, when it writes a block of pointers, lets those that name a removed vdev name where the bytes lie now. The snapshot before
//! still names the old place; so it isn't obsolete until that snapshot goes, and the dataset puts it on a list of its own, which has
//! the form of a deadlist, and its keys. Here pointers stay as they are, and no place is put on such a list; but those that are there go
//! with their datasets:
//!
//! ```text
//!   snapshot taken       it gets the list; what follows has none
//!   P ── S ── N, S goes  N's list from P's moment on is obsolete: it goes to the pool's list. S's list joins N's, which is made where
//!                        there is none
//!   head goes, or is     what was on its list is named by the snapshot before, as if nothing had been moved: the list goes
//!   taken back
//! ```
//!
//! Each list is a use of the feature `obsolete_counts`, and so is the pool's.
//!
//! Source: OpenZFS, `dsl_destroy.c` (`dsl_destroy_snapshot_handle_remaps`), `dsl_dataset.c` (`dsl_dataset_block_remapped`,
//! `dsl_dataset_create_remap_deadlist`), `dsl_pool.c` (`dsl_pool_create_obsolete_bpobj`).

use super::ZAP_METADATA;
use super::deadlist::Deadlist;
use super::make::Maker;
use crate::dmu::Dnode;
use crate::error::ZfsError;
use crate::zap::{Zap, table};
use stdx::planted::{self, Bug};
use zfs_format::dsl::dataset::DslDataset;
use zfs_format::dsl::dataset::fields::REMAP_DEADLIST;
use zfs_format::pool_directory;
use zfs_store::Tree;

/// The feature that counts such lists and all that tells of obsolete bytes, by its short name.
pub const FEATURE: &str = "obsolete_counts";

impl Maker<'_> {
    /// The list of a dataset or snapshot, where it has one.
    async fn moved_off(&self, dataset: &Dnode) -> Result<Option<u64>, ZfsError> {
        if dataset.phys().object_type != ZAP_METADATA {
            return Ok(None);
        }
        Zap::open(dataset.clone()).await?.number(REMAP_DEADLIST).await
    }

    async fn set_moved_off(&self, dataset: &Dnode, list: u64) -> Result<(), ZfsError> {
        self.zapify(dataset).await?;
        table::set(self.mos, dataset, REMAP_DEADLIST, table::number(list)).await
    }

    async fn unset_moved_off(&self, dataset: &Dnode) -> Result<(), ZfsError> {
        table::remove(self.mos, dataset, REMAP_DEADLIST).await.map(|_| ())
    }

    /// A snapshot of a dataset is taken.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn snapshot_moved_off(
        &self,
        dataset: &Dnode,
        snapshot: &Dnode,
    ) -> Result<(), ZfsError> {
        let Some(list) = self.moved_off(dataset).await? else { return Ok(()) };
        self.unset_moved_off(dataset).await?;
        self.set_moved_off(snapshot, list).await
    }

    /// A snapshot goes; the next one has its deadlist already.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn give_up_moved_off(
        &self,
        snapshot: &Dnode,
        next: &Dnode,
        tree: &Tree,
    ) -> Result<(), ZfsError> {
        let (own, of_next) = (self.moved_off(snapshot).await?, self.moved_off(next).await?);
        let mut joins = match of_next {
            Some(list) => Some(Deadlist::open(self, list).await?),
            None => None,
        };
        if let Some(list) = &mut joins
            && !planted::is(Bug::MovedOffForgotten)
        {
            let from = self.bonus::<DslDataset>(snapshot)?.previous_snapshot_txg;
            list.move_into(&self.obsolete_list().await?, from, tree).await?;
        }
        let Some(own) = own else { return Ok(()) };
        let mut joins = match joins {
            Some(list) => list,
            None => {
                let deadlist = self.bonus::<DslDataset>(next)?.deadlist;
                let keys: Vec<u64> = Deadlist::open(self, deadlist).await?.keys().collect();
                let list = Deadlist::make(self, keys).await?;
                self.set_moved_off(next, list).await?;
                self.count_use(FEATURE, 1).await?;
                Deadlist::open(self, list).await?
            }
        };
        joins.merge(Deadlist::open(self, own).await?, tree).await?;
        self.unset_moved_off(snapshot).await?;
        self.count_use(FEATURE, -1).await
    }

    /// No list of a dataset needs to tell a moment apart any more.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn remove_moved_off_key(
        &self,
        dataset: &Dnode,
        key: u64,
        tree: &Tree,
    ) -> Result<(), ZfsError> {
        match self.moved_off(dataset).await? {
            Some(list) => Deadlist::open(self, list).await?.remove_key(key, tree).await,
            None => Ok(()),
        }
    }

    /// A head goes, or is taken back.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn drop_moved_off(&self, dataset: &Dnode) -> Result<(), ZfsError> {
        let Some(list) = self.moved_off(dataset).await? else { return Ok(()) };
        Deadlist::open(self, list).await?.destroy().await?;
        self.unset_moved_off(dataset).await?;
        self.count_use(FEATURE, -1).await
    }

    /// The pool's list of places that are obsolete.
    async fn obsolete_list(&self) -> Result<Dnode, ZfsError> {
        let directory = self.mos.dnode(pool_directory::OBJECT).await?;
        let names = Zap::open(directory.clone()).await?;
        if let Some(list) = names.number(pool_directory::OBSOLETE_BPOBJ).await? {
            return self.mos.dnode(list).await;
        }
        let list = self.long_bpobj().await?;
        let number = table::number(list.number());
        table::set(self.mos, &directory, pool_directory::OBSOLETE_BPOBJ, number).await?;
        self.count_use(FEATURE, 1).await?;
        Ok(list)
    }
}
