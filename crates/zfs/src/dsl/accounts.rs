//! The sums of what users, groups and projects take, set down while a file system is written.
//!
//! What a group changes is [reckoned](crate::dmu::account) from its dnodes, after these are written and before the root block is. The
//! tables are objects of the same file system, in its root block: they are changed in the group that syncs, by nobody
//! else, and written next. They count for nobody themselves, so it takes one round.
//!
//! A sum that becomes 0 goes. One below 0 stays as the number is, wrapped, as in OpenZFS: a pool that was miscounted once comes
//! right as its files change.
//!
//! A dataset in which objects or projects are counted uses the feature that says so, from the first group on that counts.
//!
//! Source: OpenZFS 2.1 to 2.4, `dmu_objset.c` (`do_userquota_cacheflush`), `zap.c` (`zap_increment`).

use super::make::Maker;
use crate::dmu::account::TABLES;
use crate::dmu::{Counted, Dnode, Objset, Tally, TxGroups};
use crate::error::ZfsError;
use crate::zap::change::Plan;
use crate::zap::table;
use zfs_format::object_type::ObjectType;

/// Sums that one change sets down: it looks at a leaf of a table for each.
const SUMS_MAX: usize = 512;

impl Maker<'_> {
    /// What the pool lets its file systems count.
    ///
    /// # Errors
    /// A table can't be had.
    pub async fn counted(&self) -> Result<Counted, ZfsError> {
        Ok(Counted {
            objects: self.uses(Counted::OBJECTS).await?.is_some(),
            projects: self.uses(Counted::PROJECTS).await?.is_some(),
        })
    }

    /// Sets down what the syncing group changed in a dataset's sums.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn set_down(
        &self,
        objset: &Objset,
        groups: &TxGroups,
        tally: &Tally,
    ) -> Result<(), ZfsError> {
        for (number, changes) in (0..TABLES).zip(tally.changes()) {
            let changes: Vec<(&str, i64)> = changes.collect();
            if changes.is_empty() {
                continue;
            }
            let sums = match objset.used(number) {
                Some(sums) => sums,
                None => {
                    let new = table::new(ObjectType::USERGROUP_USED, self.fresh.number());
                    let made =
                        objset.change_syncing(groups, |tx| Ok(objset.make_used(tx, number, &new)));
                    made.await?
                }
            };
            for some in changes.chunks(SUMS_MAX) {
                add(objset, groups, &sums, some).await?;
            }
        }
        Ok(())
    }

    /// A dataset uses the features that it is counted by.
    ///
    /// # Errors
    /// A table can't be had.
    pub async fn use_counts(&self, dataset: &Dnode, counted: Counted) -> Result<(), ZfsError> {
        self.use_features(dataset, counted.features()).await
    }
}

/// Adds to sums of a table.
async fn add(
    objset: &Objset,
    groups: &TxGroups,
    sums: &Dnode,
    changes: &[(&str, i64)],
) -> Result<(), ZfsError> {
    objset
        .change_syncing(groups, |tx| {
            let mut plan = Plan::of(sums)?;
            for (name, change) in changes {
                let before = plan.get(name.as_bytes())?.and_then(|value| value.number());
                match before.unwrap_or(0).wrapping_add_signed(*change) {
                    0 => drop(plan.remove(name.as_bytes())?),
                    sum => plan.set(name.as_bytes(), table::number(sum))?,
                }
            }
            plan.ready()?.carry_out(tx);
            Ok(())
        })
        .await
}
