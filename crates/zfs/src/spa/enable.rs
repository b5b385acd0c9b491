//! Features enabled in a pool that is there: a task of who syncs.
//!
//! An enabled feature stands in one of two tables with how often it is in use, and in one with a word about it. Where the pool notes
//! since when features are enabled, that is noted of each; who reads asks it of `hole_birth`, whose holes have births from then on only.
//!
//! A pool of version 28 has no tables of features. The first one that is enabled makes it a pool of version 5000 with such tables, and it
//! never is one of version 28 again.
//!
//! Source: OpenZFS, `zfeature.c` (`feature_enable_sync`), `spa.c` (`spa_sync_version`, `spa_sync_upgrades`).

use super::commit::enter;
use super::datasets::Tasks;
use super::history::{Deed, note};
use crate::dmu::Dnode;
use crate::dsl::make::{METADATA_TABLE, Maker};
use crate::error::{Problem, ZfsError};
use crate::zap::{Zap, table};
use async_recursion::async_recursion as boxed;
use zfs_format::features::{FEATURES, Feature};
use zfs_format::pool_directory;
use zfs_format::uberblock::VERSION_FEATURES;

/// The feature that notes since when others are enabled.
const ENABLED_TXG: &str = "enabled_txg";

/// These features with all that they need, in the order of [`FEATURES`]: what a feature needs stands before it.
pub fn with_needed(names: &[&str]) -> Vec<&'static Feature> {
    let wanted = |feature: &&Feature| {
        let mut asking = names.iter().filter_map(|name| Feature::named(name));
        asking.any(|one| one.guid == feature.guid || one.needs.contains(&feature.guid))
    };
    let mut all: Vec<&Feature> = FEATURES.iter().filter(wanted).collect();
    // What one needs is needed by it with all that that needs.
    all.sort_by_key(|feature| (names.contains(&feature.name), feature.needs.len()));
    all
}

/// Makes the tables of features: of those that reading needs, of those that writing needs, of words about them.
pub(super) async fn make_tables(maker: &Maker<'_>) -> Result<[Dnode; 3], ZfsError> {
    let table = async |name| -> Result<Dnode, ZfsError> {
        let made = maker.table(METADATA_TABLE).await?;
        enter(maker.mos, name, made.number()).await?;
        Ok(made)
    };
    Ok([
        table(pool_directory::FEATURES_FOR_READ).await?,
        table(pool_directory::FEATURES_FOR_WRITE).await?,
        table(pool_directory::FEATURE_DESCRIPTIONS).await?,
    ])
}

impl Tasks<'_> {
    /// Makes a pool of version 28 one that has features, of which none is enabled.
    ///
    /// # Errors
    /// What is needed can't be had.
    #[boxed(?Send)]
    pub async fn have_features(&self) -> Result<(), ZfsError> {
        if self.syncer.config().version >= VERSION_FEATURES {
            return Ok(());
        }
        make_tables(self.maker).await?;
        self.syncer.change_config(|config| config.version = VERSION_FEATURES);
        let text = format!("version={VERSION_FEATURES}");
        note(self.maker, self.syncer, Deed::Inside { name: "set", dataset: None, text: &text })
            .await
    }

    /// Enables features, with what they need; gives those that were not enabled before.
    ///
    /// # Errors
    /// What is needed can't be had.
    #[boxed(?Send)]
    pub async fn enable_features(&self, names: &[&str]) -> Result<Vec<&'static Feature>, ZfsError> {
        self.have_features().await?;
        let (maker, mos) = (self.maker, self.maker.mos);
        let directory = Zap::open(self.syncer.directory().await?).await?;
        let missing = || mos.wrong(pool_directory::OBJECT, Problem::NoEntry("of features"));
        let descriptions = directory.number(pool_directory::FEATURE_DESCRIPTIONS).await?;
        let descriptions = mos.dnode(descriptions.ok_or_else(missing)?).await?;
        let mut enabled = Vec::new();
        for feature in with_needed(names) {
            if maker.uses(feature.name).await?.is_some() {
                continue;
            }
            let of = match feature.is_read_only_compatible() {
                true => pool_directory::FEATURES_FOR_WRITE,
                false => pool_directory::FEATURES_FOR_READ,
            };
            let of = mos.dnode(directory.number(of).await?.ok_or_else(missing)?).await?;
            let uses = u64::from(feature.is_active_when_enabled());
            table::set(mos, &of, feature.guid, table::number(uses)).await?;
            table::set(mos, &descriptions, feature.guid, table::text(feature.name)).await?;
            self.note_since(feature).await?;
            if uses > 0 && !feature.is_read_only_compatible() && feature.is_for_mos() {
                self.syncer.change_config(|config| {
                    config.features_for_read.push(feature.guid.to_owned());
                });
            }
            let text = format!("feature@{}=enabled", feature.name);
            note(maker, self.syncer, Deed::Inside { name: "set", dataset: None, text: &text })
                .await?;
            enabled.push(feature);
            self.settings_changed.set(true);
        }
        Ok(enabled)
    }

    /// Notes since when a feature is enabled, where the pool does that: from the feature for it on.
    async fn note_since(&self, feature: &Feature) -> Result<(), ZfsError> {
        let (maker, mos) = (self.maker, self.maker.mos);
        if maker.uses(ENABLED_TXG).await?.is_none() {
            return Ok(());
        }
        let directory = Zap::open(self.syncer.directory().await?).await?;
        let since = match directory.number(pool_directory::FEATURE_ENABLED_TXG).await? {
            Some(number) => mos.dnode(number).await?,
            None => {
                let made = maker.table(METADATA_TABLE).await?;
                enter(mos, pool_directory::FEATURE_ENABLED_TXG, made.number()).await?;
                made
            }
        };
        table::set(mos, &since, feature.guid, table::number(maker.txg)).await?;
        maker.count_use(ENABLED_TXG, 1).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_feature_needs_stands_before_it() {
        for feature in &FEATURES {
            let names: Vec<&str> =
                with_needed(&[feature.name]).iter().map(|one| one.name).collect();
            assert_eq!(names.last(), Some(&feature.name), "{names:?}");
            assert_eq!(names.len(), 1 + feature.needs.len(), "{names:?}");
        }
    }
}
