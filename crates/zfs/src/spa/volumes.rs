//! Volumes made, and space kept free for datasets: tasks of who syncs.
//!
//! What is kept free is checked against what the pool still has, and counted as used from then on
//! ([`dsl::space`](crate::dsl::space)). A snapshot of a head for which space is kept needs as much outside of it as what becomes
//! the snapshot's.
//!
//! Source: OpenZFS, `zvol.c` (`zvol_create_cb`), `dsl_dataset.c` (`dsl_dataset_set_refreservation`,
//! `dsl_dataset_snapshot_reserve_space`), `dsl_dir.c` (`dsl_dir_set_reservation`, `dsl_dir_set_quota`).

use super::datasets::limits::check_properties;
use super::datasets::reserve::Spares;
use super::datasets::{TaskError, Tasks, done};
use super::room;
use crate::dmu::{Objset, Policy};
use crate::dsl::bpobj::Sums;
use crate::dsl::space::{HEAD_QUOTA, HEAD_RESERVATION, Part, available, head_quota, kept_for_head};
use crate::error::ZfsError;
use crate::zap::table;
use crate::zpl::make::new_root;
use crate::zvol::make::make;
use async_recursion::async_recursion as boxed;
use std::rc::Rc;
use zfs_format::Endian;
use zfs_format::dsl::dataset::DslDataset;
use zfs_format::dsl::dir::DslDir;
use zfs_format::objset::ObjsetKind;
use zfs_format::zap::leaf::LeafValue;

/// A volume that is to be made.
#[derive(Clone)]
pub struct NewVolume {
    /// Its last part.
    pub name: String,
    /// Its size: whole blocks.
    pub bytes: u64,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Bytes that are kept free for it.
    pub reservation: u64,
    /// Properties as they are stored.
    pub properties: Vec<(String, LeafValue)>,
}

/// A bound on what a dataset may take, or must be able to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// At the most, with all below it.
    Quota,
    /// At the least, with all below it.
    Reservation,
    /// At the least, of what only its head reaches.
    HeadReservation,
    /// At the most, of what its head reaches.
    HeadQuota,
}

impl Limit {
    /// The limit that a property is.
    pub fn of(property: &str) -> Option<Limit> {
        match property {
            "quota" => Some(Limit::Quota),
            "reservation" => Some(Limit::Reservation),
            HEAD_RESERVATION => Some(Limit::HeadReservation),
            HEAD_QUOTA => Some(Limit::HeadQuota),
            _ => None,
        }
    }
}

impl Tasks<'_> {
    /// Makes a volume below a directory.
    ///
    /// # Errors
    /// What is needed can't be had. The other error: the name is taken or can't be, or there is no room.
    #[boxed(?Send)]
    pub async fn create_volume(
        &self,
        parent: u64,
        new: &NewVolume,
    ) -> Result<Result<u64, TaskError>, ZfsError> {
        done!(check_properties(&new.properties));
        let parent = match self.free_below(parent, &new.name).await? {
            Ok(parent) => parent,
            Err(error) => return Ok(Err(error)),
        };
        let (maker, mos) = (self.maker, self.maker.mos);
        let left = available(mos, parent.number(), room::capacity(self.syncer)).await?;
        if new.reservation > left {
            return Ok(Err(TaskError::NoSpace));
        }
        let origin = self.origin().await?;
        let directory = maker.directory(Some(&parent), &new.name).await?;
        let dataset = maker.dataset(&directory, Some((&origin, &[0]))).await?;
        let head = maker.bonus::<DslDir>(&directory)?;
        let properties = mos.dnode(head.properties).await?;
        for (name, value) in &new.properties {
            table::set(mos, &properties, name, value.clone()).await?;
        }
        let root = new_root(ObjsetKind::Volume);
        let objset = Objset::of(self.rt, self.blocks, dataset.number(), root, Endian::Little, None);
        objset.change_by_sync(self.syncer.groups().clone());
        make(&objset, new.bytes, new.block_bytes, maker.fresh.number()).await?;
        let policy = Policy { copies: 1, ..(*self.syncer.policy()).clone() };
        objset.close();
        self.syncer.write_dataset(maker, &objset, &dataset, Rc::new(policy)).await?;
        objset.committed();
        if new.reservation > 0 {
            self.keep_for_head(directory.number(), new.reservation).await?;
        }
        self.tell_of("create", dataset.number(), " ").await?;
        Ok(Ok(dataset.number()))
    }

    /// Sets a limit of a directory; 0 is none.
    ///
    /// # Errors
    /// What is needed can't be had. The other error: it takes more already, or there is no room.
    #[boxed(?Send)]
    pub async fn set_limit(
        &self,
        directory: u64,
        limit: Limit,
        bytes: u64,
    ) -> Result<Result<(), TaskError>, ZfsError> {
        let (maker, mos) = (self.maker, self.maker.mos);
        let object = mos.dnode(directory).await?;
        let dir = maker.bonus::<DslDir>(&object)?;
        let capacity = room::capacity(self.syncer);
        done!(self.check_space(Spares::Quarter, 1));
        match limit {
            Limit::Quota => {
                if bytes != 0 && (bytes < dir.reserved || bytes < dir.used_bytes) {
                    return Ok(Err(TaskError::TooLittle));
                }
                maker.edit::<DslDir>(&object, |dir| dir.quota = bytes).await?;
                self.put_property(directory, "quota", Some(table::number(bytes))).await?;
            }
            Limit::Reservation => {
                let left = match dir.parent {
                    0 => capacity.saturating_sub(dir.used_bytes),
                    parent => available(mos, parent, capacity).await?,
                };
                let (now, then) = (dir.reserved.max(dir.used_bytes), bytes.max(dir.used_bytes));
                let more = then.saturating_sub(now);
                if more > left || more > 0 && dir.quota > 0 && bytes > dir.quota {
                    return Ok(Err(TaskError::NoSpace));
                }
                let change = then.wrapping_sub(now) as i64;
                maker.edit::<DslDir>(&object, |dir| dir.reserved = bytes).await?;
                self.put_property(directory, "reservation", Some(table::number(bytes))).await?;
                if dir.parent != 0 {
                    let (parent, sums) = (mos.dnode(dir.parent).await?, used(change));
                    maker.did_use_parts(&parent, sums, &[(Part::KeptForChildren, change)]).await?;
                }
            }
            Limit::HeadReservation => {
                let head = maker.bonus::<DslDataset>(&mos.dnode(dir.head_dataset).await?)?;
                let now = head.unique_bytes.max(kept_for_head(mos, &dir).await?);
                let more = head.unique_bytes.max(bytes).saturating_sub(now);
                let quota = head_quota(mos, &dir).await?;
                let is_beyond = quota > 0 && bytes > quota;
                if is_beyond || more > available(mos, directory, capacity).await? {
                    return Ok(Err(TaskError::NoSpace));
                }
                self.keep_for_head(directory, bytes).await?;
            }
            Limit::HeadQuota => {
                let head = maker.bonus::<DslDataset>(&mos.dnode(dir.head_dataset).await?)?;
                let least = head.referenced_bytes.max(kept_for_head(mos, &dir).await?);
                if bytes != 0 && bytes < least {
                    return Ok(Err(TaskError::TooLittle));
                }
                self.put_property(directory, HEAD_QUOTA, Some(table::number(bytes))).await?;
            }
        }
        Ok(Ok(()))
    }

    /// Keeps so much free for the head of a directory.
    async fn keep_for_head(&self, directory: u64, bytes: u64) -> Result<(), ZfsError> {
        let (maker, mos) = (self.maker, self.maker.mos);
        let object = mos.dnode(directory).await?;
        let dir = maker.bonus::<DslDir>(&object)?;
        let before = kept_for_head(mos, &dir).await?;
        let head = maker.bonus::<DslDataset>(&mos.dnode(dir.head_dataset).await?)?;
        self.put_property(directory, HEAD_RESERVATION, Some(table::number(bytes))).await?;
        let kept = |bytes: u64| bytes.saturating_sub(head.unique_bytes) as i64;
        let change = kept(bytes).wrapping_sub(kept(before));
        maker.did_use_parts(&object, used(change), &[(Part::KeptForHead, change)]).await
    }

    /// What of a head's space becomes a snapshot's, and is to be kept free for the head anew.
    ///
    /// # Errors
    /// What is needed can't be had. The other error: there is no room for that.
    pub(super) async fn kept_beside_snapshot(
        &self,
        head: &DslDataset,
    ) -> Result<Result<u64, TaskError>, ZfsError> {
        let (maker, mos) = (self.maker, self.maker.mos);
        let directory = mos.dnode(head.dir).await?;
        let kept = kept_for_head(mos, &maker.bonus(&directory)?).await?;
        let again = kept.min(head.unique_bytes);
        let left = match again {
            0 => 0,
            _ => available(mos, head.dir, room::capacity(self.syncer)).await?,
        };
        Ok(if again > left { Err(TaskError::NoSpace) } else { Ok(again) })
    }

    /// It is kept.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub(super) async fn keep_beside_snapshot(
        &self,
        head: &DslDataset,
        again: u64,
    ) -> Result<(), ZfsError> {
        let (directory, change) = (self.maker.mos.dnode(head.dir).await?, again as i64);
        match change {
            0 => Ok(()),
            _ => {
                self.maker
                    .did_use_parts(&directory, used(change), &[(Part::KeptForHead, change)])
                    .await
            }
        }
    }
}

fn used(bytes: i64) -> Sums {
    Sums { used: bytes, ..Sums::default() }
}
