//! Damaged blocks that OpenZFS noted by dataset, where datasets go or take another's place: tasks of who syncs.
//!
//! With the feature `head_errlog` a pool's two logs of damaged blocks are tables of tables, by the head dataset that a block is reached from.
//! What is noted of a head goes with it; when a clone is promoted, what was noted of the snapshots that become its own follows
//! them. Nothing else here changes what is noted. (Without the feature a log says objsets, and those that are gone stay in it.)
//!
//! Source: OpenZFS, `spa_errlog.c` (`delete_dataset_errlog`, `swap_errlog`).

use super::datasets::Tasks;
use crate::dmu::Dnode;
use crate::error::ZfsError;
use crate::zap::{Zap, table};
use zfs_format::dsl::number_name;
use zfs_format::error_log::HeadError;
use zfs_format::object_type::ObjectType;
use zfs_format::pool_directory;

/// The feature that such logs need.
const FEATURE: &str = "head_errlog";

/// The table of what a log has of a head.
async fn noted_of(log: &Zap, head: u64) -> Result<Option<u64>, ZfsError> {
    let found = log.get(number_name(head).as_bytes()).await?;
    Ok(found.and_then(|value| value.number()))
}

impl Tasks<'_> {
    /// The logs, where they are by dataset and there are some.
    async fn error_logs(&self) -> Result<Vec<Zap>, ZfsError> {
        let mut logs = Vec::new();
        if self.maker.uses(FEATURE).await?.unwrap_or(0) == 0 {
            return Ok(logs);
        }
        let directory = Zap::open(self.syncer.directory().await?).await?;
        for name in [pool_directory::ERROR_LOG_LAST, pool_directory::ERROR_LOG_SCRUB] {
            if let Some(number) = directory.number(name).await?.filter(|number| *number != 0) {
                logs.push(Zap::open(self.mos().dnode(number).await?).await?);
            }
        }
        Ok(logs)
    }

    /// Nothing is noted any more of a head, which goes.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub(super) async fn forget_errors(&self, head: u64) -> Result<(), ZfsError> {
        for log in self.error_logs().await? {
            if let Some(noted) = noted_of(&log, head).await? {
                table::remove(self.mos(), log.dnode(), &number_name(head)).await?;
                self.free_table(noted).await?;
            }
        }
        Ok(())
    }

    /// What is noted of one head and was born until a group is noted of another from here on.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub(super) async fn move_errors(&self, from: u64, to: u64, until: u64) -> Result<(), ZfsError> {
        let mos = self.mos();
        for log in self.error_logs().await? {
            let Some(number) = noted_of(&log, from).await? else { continue };
            let theirs = mos.dnode(number).await?;
            let noted = Zap::open(theirs.clone()).await?.entries().await?;
            let errors = noted.iter().filter_map(|entry| HeadError::parse(&entry.text()));
            let moved: Vec<String> =
                errors.filter(|error| error.birth <= until).map(|error| error.name()).collect();
            if moved.is_empty() {
                continue;
            }
            let ours = self.have_noted(&log, to).await?;
            for name in &moved {
                table::set(mos, &ours, name, table::text("")).await?;
                table::remove(mos, &theirs, name).await?;
            }
        }
        Ok(())
    }

    /// The same, made where there is none.
    async fn have_noted(&self, log: &Zap, head: u64) -> Result<Dnode, ZfsError> {
        if let Some(number) = noted_of(log, head).await? {
            return self.mos().dnode(number).await;
        }
        let made = self.maker.table(ObjectType::ERROR_LOG).await?;
        let value = table::number(made.number());
        table::set(self.mos(), log.dnode(), &number_name(head), value).await?;
        Ok(made)
    }
}
