//! Properties that came with a stream, beside those that are set here; and properties of snapshots.
//!
//! ```text
//!   set        name = value, and name$inherit goes
//!   inherited  name goes; where anything was received, name$inherit says that what was received is not to be used
//!   reverted   both go: what was received counts again, or what is inherited
//! ```
//!
//! A snapshot has a table of its own once a property is set on it, and properties of users only.
//!
//! Source: OpenZFS, `dsl_prop.c` (`dsl_prop_set_sync_impl`).

use super::super::history::of_property;
use super::limits::check_property;
use super::reserve::Spares;
use super::{Done, Tasks, done};
use crate::dmu::{Dnode, NewObject};
use crate::error::ZfsError;
use crate::zap::{Zap, table};
use async_recursion::async_recursion as boxed;
use zfs_format::dsl::dataset::DslDataset;
use zfs_format::dsl::property::{HAS_RECEIVED, Source, join_name};
use zfs_format::object_type::ObjectType;
use zfs_format::zap::leaf::LeafValue;

impl Tasks<'_> {
    /// What was received of a property of a directory counts again; where nothing was, it is inherited.
    ///
    /// # Errors
    /// What is needed can't be had.
    #[boxed(?Send)]
    pub async fn revert_property(&self, directory: u64, name: &str) -> Done<()> {
        let (_, head) = self.directory(directory).await?;
        let properties = self.mos().dnode(head.properties).await?;
        self.settings_changed.set(true);
        for source in [Source::Local, Source::Inherit] {
            table::remove(self.mos(), &properties, &join_name(name, source)).await?;
        }
        self.tell_of("inherit", head.head_dataset, &format!("{name}=")).await.map(Ok)
    }

    /// Sets a property of a snapshot, or takes it away.
    ///
    /// # Errors
    /// What is needed can't be had. The other error: its name or value can't be.
    #[boxed(?Send)]
    pub async fn set_snapshot_property(
        &self,
        snapshot: u64,
        name: &str,
        value: Option<LeafValue>,
    ) -> Done<()> {
        done!(check_property(name, value.as_ref()));
        if value.is_some() {
            done!(self.check_space(Spares::Half, 1));
        }
        let dataset = self.mos().dnode(snapshot).await?;
        let known = self.maker.bonus::<DslDataset>(&dataset)?.properties;
        let properties = match (known, &value) {
            // Nothing is set.
            (0, None) => return Ok(Ok(())),
            (0, Some(_)) => self.table_of_snapshot(&dataset).await?,
            (known, _) => self.mos().dnode(known).await?,
        };
        let (deed, text) = of_property(name, value.as_ref());
        self.put(&properties, name, value).await?;
        self.tell_of(deed, snapshot, &text).await.map(Ok)
    }

    async fn table_of_snapshot(&self, snapshot: &Dnode) -> Result<Dnode, ZfsError> {
        let new: NewObject = table::new(ObjectType::DSL_PROPS, self.maker.fresh.number());
        let properties = self.mos().make(&new).await?;
        let number = properties.number();
        self.maker.edit::<DslDataset>(snapshot, |head| head.properties = number).await?;
        Ok(properties)
    }

    /// Puts a value into a table of properties, or that it is inherited.
    pub(super) async fn put(
        &self,
        properties: &Dnode,
        name: &str,
        value: Option<LeafValue>,
    ) -> Result<(), ZfsError> {
        let inherits = join_name(name, Source::Inherit);
        match value {
            Some(value) => {
                table::remove(self.mos(), properties, &inherits).await?;
                table::set(self.mos(), properties, name, value).await
            }
            None => {
                table::remove(self.mos(), properties, name).await?;
                let known = Zap::open(properties.clone()).await?;
                match known.get(HAS_RECEIVED.as_bytes()).await? {
                    Some(_) => {
                        table::set(self.mos(), properties, &inherits, table::number(0)).await
                    }
                    None => Ok(()),
                }
            }
        }
    }
}
