//! Properties of a pool, set: tasks of who syncs.
//!
//! Most stand in a table of the MOS, which the first of them makes; the comment stands in the configuration, and so in all labels.
//!
//! Source: OpenZFS, `spa.c` (`spa_sync_props`, `spa_change_guid`).

use super::commit::enter;
use super::datasets::limits::check_property;
use super::datasets::{Done, Tasks, done};
use super::events::Happening;
use super::history::{Deed, note};
use crate::error::ZfsError;
use crate::zap::{Zap, table};
use async_recursion::async_recursion as boxed;
use zfs_format::object_type::ObjectType;
use zfs_format::pool_directory;
use zfs_format::zap::leaf::LeafValue;

impl Tasks<'_> {
    async fn tell(&self, name: &str, text: &str) -> Result<(), ZfsError> {
        note(self.maker, self.syncer, Deed::Inside { name, dataset: None, text }).await
    }

    /// Sets a property that stands in the table, or takes it away; `shown` is its value in the history.
    ///
    /// # Errors
    /// What is needed can't be had. The other error: its name or value can't be.
    #[boxed(?Send)]
    pub async fn set_pool_property(
        &self,
        name: &str,
        value: Option<LeafValue>,
        shown: &str,
    ) -> Done<()> {
        done!(check_property(name, value.as_ref()));
        let mos = self.maker.mos;
        let directory = Zap::open(self.syncer.directory().await?).await?;
        let properties = match directory.number(pool_directory::PROPERTIES).await? {
            Some(number) => mos.dnode(number).await?,
            None => {
                let made = self.maker.table(ObjectType::POOL_PROPS).await?;
                enter(mos, pool_directory::PROPERTIES, made.number()).await?;
                made
            }
        };
        match value {
            Some(value) => table::set(mos, &properties, name, value).await?,
            None => drop(table::remove(mos, &properties, name).await?),
        }
        self.settings_changed.set(true);
        self.tell("set", &format!("{name}={shown}")).await.map(Ok)
    }

    /// Sets the comment; an empty one is none.
    ///
    /// # Errors
    /// What is needed can't be had.
    #[boxed(?Send)]
    pub async fn set_comment(&self, comment: &str) -> Result<(), ZfsError> {
        let kept = Some(comment.to_owned()).filter(|comment| !comment.is_empty());
        self.syncer.change_config(|config| config.comment = kept);
        self.tell("set", &format!("comment={comment}")).await
    }

    /// Sets which features may be enabled: names of files; none for `off`.
    ///
    /// # Errors
    /// What is needed can't be had.
    #[boxed(?Send)]
    pub async fn set_compatibility(&self, names: &str) -> Result<(), ZfsError> {
        let kept = Some(names.to_owned()).filter(|names| names != "off");
        self.syncer.change_config(|config| config.compatibility = kept);
        self.tell("set", &format!("compatibility={names}")).await
    }

    /// Gives the pool another GUID.
    ///
    /// # Errors
    /// What is needed can't be had.
    #[boxed(?Send)]
    pub async fn change_guid(&self) -> Result<(), ZfsError> {
        let (old, new) = (self.syncer.config().guid, self.maker.fresh.number());
        self.syncer.change_config(|config| (config.guid, config.root.guid) = (new, new));
        self.syncer.told().tell(&Happening::Reguid);
        self.tell("guid change", &format!("old={old} new={new}")).await
    }
}
