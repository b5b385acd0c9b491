//! Holds: names under which a snapshot is kept from being destroyed.
//!
//! They stand in a table of the snapshot, with the time at which each was made. A snapshot that waits to be destroyed goes with
//! its last one.
//!
//! Source: OpenZFS, `dsl_userhold.c`.

use super::limits::check_tag;
use super::reserve::Spares;
use super::{Done, TaskError, Tasks, done};
use crate::zap::{Zap, table};
use async_recursion::async_recursion as boxed;
use zfs_format::dsl::dataset::DslDataset;
use zfs_format::object_type::ObjectType;
use zfs_format::pool_directory;

impl Tasks<'_> {
    /// Whether a snapshot can be held under a name.
    ///
    /// # Errors
    /// What is needed can't be had. The other error: it is held so already, or the name is empty or too long.
    #[boxed(?Send)]
    pub async fn check_hold(&self, snapshot: u64, tag: &str) -> Done<()> {
        done!(check_tag(tag));
        let (_, head) = self.dataset(snapshot).await?;
        if head.next_snapshot == 0 {
            return Ok(Err(TaskError::Type));
        }
        if self.is_held(&head, tag).await? {
            return Ok(Err(TaskError::HoldExists));
        }
        Ok(self.check_space(Spares::Half, 1))
    }

    async fn is_held(&self, of: &DslDataset, tag: &str) -> Result<bool, crate::ZfsError> {
        match of.user_references {
            0 => Ok(false),
            number => {
                let holds = Zap::open(self.mos().dnode(number).await?).await?;
                Ok(holds.get(tag.as_bytes()).await?.is_some())
            }
        }
    }

    /// Holds a snapshot.
    ///
    /// # Errors
    /// As of [`Tasks::check_hold`].
    #[boxed(?Send)]
    pub async fn hold(&self, snapshot: u64, tag: &str) -> Done<()> {
        done!(self.check_hold(snapshot, tag).await?);
        let maker = self.maker;
        let (object, head) = self.dataset(snapshot).await?;
        let mut number = head.user_references;
        if number == 0 {
            number = maker.table(ObjectType::USERREFS).await?.number();
            let how = |head: &mut DslDataset| head.user_references = number;
            maker.edit::<DslDataset>(&object, how).await?;
        }
        let holds = self.mos().dnode(number).await?;
        let count = self.hold_count(&maker.bonus::<DslDataset>(&object)?).await? + 1;
        self.tell_of("hold", snapshot, &format!("tag={tag} temp=0 refs={count}")).await?;
        table::set(self.mos(), &holds, tag, table::number(maker.fresh.now())).await.map(Ok)
    }

    /// Gives a hold up.
    ///
    /// # Errors
    /// What is needed can't be had. The other error: there is none.
    #[boxed(?Send)]
    pub async fn release(&self, snapshot: u64, tag: &str) -> Done<()> {
        let (_, head) = self.dataset(snapshot).await?;
        if !self.is_held(&head, tag).await? {
            return Ok(Err(TaskError::NoHold));
        }
        done!(self.check_space(Spares::Quarter, 1));
        // One that was to end with its maker is listed once more.
        let directory = Zap::open(self.syncer.directory().await?).await?;
        let temporary = directory.number(pool_directory::TEMPORARY_USER_REFERENCES).await?;
        if let Some(number) = temporary {
            let listed = self.mos().dnode(number).await?;
            table::remove(self.mos(), &listed, &format!("{snapshot:x}-{tag}")).await?;
        }
        let holds = self.mos().dnode(head.user_references).await?;
        table::remove(self.mos(), &holds, tag).await?;
        let count = self.hold_count(&head).await?;
        self.tell_of("release", snapshot, &format!("tag={tag} refs={count}")).await?;
        self.settle_deferred(snapshot).await.map(Ok)
    }
}
