//! Features that come into use and go out of it: how often each is used, by the pool and by its datasets.
//!
//! A dataset that uses a feature says so by a name in its own table; each such dataset is one use. A dataset's or directory's
//! object gets a table when it first needs one, and keeps its bonus.
//!
//! Source: OpenZFS, `zfeature.c`, `dsl_dataset.c` (`dsl_dataset_activate_feature`), `dmu_object.c` (`dmu_object_zapify`).

use super::ZAP_METADATA;
use super::make::Maker;
use crate::dmu::{Block, Dnode};
use crate::error::{Problem, ZfsError};
use crate::zap::change::empty;
use crate::zap::{Zap, table};
use stdx::planted::{self, Bug};
use zfs_format::features::Feature;
use zfs_format::pool_directory as names;
use zfs_format::zap::leaf::LeafValue;

impl Maker<'_> {
    async fn feature_table(&self, feature: &Feature) -> Result<Option<Dnode>, ZfsError> {
        let directory = Zap::open(self.mos.dnode(names::OBJECT).await?).await?;
        let name = match feature.is_read_only_compatible() {
            true => names::FEATURES_FOR_WRITE,
            false => names::FEATURES_FOR_READ,
        };
        match directory.number(name).await? {
            Some(number) => self.mos.dnode(number).await.map(Some),
            None => Ok(None),
        }
    }

    /// How often a feature is in use; nothing where it is not enabled.
    ///
    /// # Errors
    /// A table can't be had.
    pub async fn uses(&self, name: &str) -> Result<Option<u64>, ZfsError> {
        let Some(feature) = Feature::named(name) else { return Ok(None) };
        let Some(of) = self.feature_table(feature).await? else { return Ok(None) };
        let value = Zap::open(of).await?.get(feature.guid.as_bytes()).await?;
        Ok(value.and_then(|value| value.number()))
    }

    /// A feature is used so much more often, or less.
    ///
    /// # Errors
    /// It is not enabled, or a table can't be had.
    pub async fn count_use(&self, name: &str, change: i64) -> Result<(), ZfsError> {
        let missing = || self.mos.wrong(names::OBJECT, Problem::NoEntry("of a feature"));
        let feature = Feature::named(name).ok_or_else(missing)?;
        let of = self.feature_table(feature).await?.ok_or_else(missing)?;
        let uses = self.uses(name).await?.ok_or_else(missing)?;
        let uses = uses.saturating_add_signed(change);
        table::set(self.mos, &of, feature.guid, table::number(uses)).await
    }

    /// The features that a dataset uses, with what it says of each.
    ///
    /// # Errors
    /// Its table can't be had.
    pub async fn features_of(
        &self,
        dataset: &Dnode,
    ) -> Result<Vec<(&'static Feature, LeafValue)>, ZfsError> {
        if dataset.phys().object_type != ZAP_METADATA {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for entry in Zap::open(dataset.clone()).await?.entries().await? {
            let feature = Feature::find(&entry.text()).filter(|feature| feature.is_per_dataset());
            found.extend(feature.map(|feature| (feature, entry.value)));
        }
        Ok(found)
    }

    /// A dataset uses what another one does, whose blocks it has.
    ///
    /// # Errors
    /// A table can't be had.
    pub async fn copy_features(&self, from: &Dnode, to: &Dnode) -> Result<(), ZfsError> {
        for (feature, value) in self.features_of(from).await? {
            self.zapify(to).await?;
            table::set(self.mos, to, feature.guid, value).await?;
            self.count_use(feature.name, 1).await?;
        }
        Ok(())
    }

    /// A dataset uses nothing any more: it is about to go.
    ///
    /// # Errors
    /// A table can't be had.
    pub async fn drop_features(&self, dataset: &Dnode) -> Result<(), ZfsError> {
        for (feature, _) in self.features_of(dataset).await? {
            if planted::is(Bug::FeatureNotDropped) {
                continue;
            }
            self.count_use(feature.name, -1).await?;
        }
        Ok(())
    }

    /// Makes an object a table beside what its bonus is, where it is none yet.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn zapify(&self, object: &Dnode) -> Result<(), ZfsError> {
        if object.phys().object_type == ZAP_METADATA {
            return Ok(());
        }
        let (salt, endian) = (self.fresh.number() | 1, object.endian());
        let bytes = empty(salt, 0, endian);
        self.mos
            .change(|tx| {
                object.plan_block_bytes(bytes.len() as u64)?;
                object.become_table(tx, ZAP_METADATA, Block { bytes: bytes.clone(), endian });
                Ok(())
            })
            .await
    }
}
