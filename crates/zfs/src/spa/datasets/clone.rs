//! File systems and volumes that begin as a snapshot of another.
//!
//! A clone reaches what its origin does. Its deadlist tells apart the births that the origin's own line does, up to the origin:
//! so what it gives up is found when a snapshot of that line goes that came before.
//!
//! Source: OpenZFS, `dsl_dataset.c` (`dsl_dataset_clone_sync`, `dsl_dataset_create_sync_dd`).

use super::limits::check_properties;
use super::reserve::Spares;
use super::{Done, NEW_BLOCKS, TaskError, Tasks, check_part, done};
use crate::dsl::deadlist::Deadlist;
use crate::dsl::make::Maker;
use crate::error::ZfsError;
use crate::zap::{Zap, table};
use async_recursion::async_recursion as boxed;
use zfs_format::dsl::dataset::{DslDataset, flags};
use zfs_format::dsl::dir::DslDir;
use zfs_format::zap::leaf::LeafValue;

/// A clone that is to be made.
pub struct NewClone {
    /// Its last part.
    pub name: String,
    /// Properties as they are stored.
    pub properties: Vec<(String, LeafValue)>,
}

/// The keys of the deadlist of a snapshot's clone.
async fn keys(maker: &Maker<'_>, origin: &DslDataset) -> Result<Vec<u64>, ZfsError> {
    let directory = maker.bonus::<DslDir>(&maker.mos.dnode(origin.dir).await?)?;
    let head = maker.bonus::<DslDataset>(&maker.mos.dnode(directory.head_dataset).await?)?;
    let deadlist = Deadlist::open(maker, head.deadlist).await?;
    Ok(deadlist.keys().filter(|key| *key < origin.creation_txg).collect())
}

impl Tasks<'_> {
    /// Makes a clone of a snapshot below a directory; gives its dataset.
    ///
    /// # Errors
    /// What is needed can't be had. The other error: the name is taken or can't be, or there is no such snapshot.
    #[boxed(?Send)]
    pub async fn clone(&self, snapshot: u64, parent: u64, new: &NewClone) -> Done<u64> {
        done!(check_part(&new.name).map_err(TaskError::Name));
        done!(check_properties(&new.properties));
        done!(self.check_fits(parent, &new.name).await?);
        done!(self.check_depth(parent, 0).await?);
        done!(self.check_space(Spares::All, NEW_BLOCKS));
        let maker = self.maker;
        let (origin, state) = self.dataset(snapshot).await?;
        if state.next_snapshot == 0 || state.flags & flags::INCONSISTENT != 0 {
            return Ok(Err(TaskError::Type));
        }
        let (above, head) = self.directory(parent).await?;
        let children = Zap::open(self.mos().dnode(head.children).await?).await?;
        if children.get(new.name.as_bytes()).await?.is_some() {
            return Ok(Err(TaskError::Exists));
        }
        if !self.holds_others(&head).await? {
            return Ok(Err(TaskError::Parent));
        }
        let keys = keys(maker, &state).await?;
        let directory = maker.directory(Some(&above), &new.name).await?;
        let dataset = maker.dataset(&directory, Some((&origin, &keys))).await?;
        maker.copy_features(&origin, &dataset).await?;
        maker.begin_livelist(&directory).await?;
        let properties = maker.bonus::<DslDir>(&directory)?.properties;
        let properties = self.mos().dnode(properties).await?;
        for (name, value) in &new.properties {
            table::set(self.mos(), &properties, name, value.clone()).await?;
        }
        self.clear_log(&dataset).await?;
        let text = format!("origin={} ({snapshot})", self.whole_name(snapshot).await?);
        self.tell_of("clone", dataset.number(), &text).await?;
        Ok(Ok(dataset.number()))
    }
}
