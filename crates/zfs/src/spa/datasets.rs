//! File systems and snapshots made and taken away, properties set: tasks of who syncs.
//!
//! Each is checked before it changes anything, within the group: what it answers then is [`TaskError`], and the pool goes on.
//!
//! Source: OpenZFS, `dsl_dataset.c` (`dsl_dataset_snapshot_sync_impl`), `dsl_dir.c`, `dsl_destroy.c`, `dsl_prop.c`.

use super::commit::Syncer;
use super::history::{Deed, note};
use crate::dmu::{Dnode, NewObject, Objset, Policy};
use crate::dsl::make::Maker;
use crate::error::{Problem, ZfsError};
use crate::zap::{Zap, table};
use crate::zpl::attributes::Moment;
use crate::zpl::make::{NewFileSystem, make as make_files, new_root};
use rt::Rt;
use std::rc::Rc;
use zfs_format::Endian;
use zfs_format::dsl::dataset::DslDataset;
use zfs_format::dsl::dir::{DslDir, RESERVED};
use zfs_format::dsl::{name_number, number_name};
use zfs_format::object_type::ObjectType;
use zfs_format::objset::ObjsetKind;
use zfs_format::pool_directory;
use zfs_format::wire::Record;
use zfs_format::zap::leaf::LeafValue;
use zfs_store::ReadBlocks;

/// Why a task was not done. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// There is one already.
    #[error("dataset already exists")]
    Exists,
    /// No dataset can be called so.
    #[error("invalid name: {0}")]
    Name(NameError),
}

/// Why no dataset can be called so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// A part of it is empty.
    #[error("empty component or misplaced '@' or '#' delimiter")]
    Empty,
    /// A character that names don't have.
    #[error("invalid character '{0}'")]
    Character(char),
    /// A name that ZFS keeps for itself.
    #[error("reserved name")]
    Reserved,
}

/// Whether this can be a part of a dataset's name: what is between slashes, or behind the `@`.
///
/// # Errors
/// It can't.
pub fn check_part(part: &str) -> Result<(), NameError> {
    let wrong = |c: &char| !(c.is_ascii_alphanumeric() || "-_.: ".contains(*c));
    match part.chars().find(wrong) {
        _ if part.is_empty() => Err(NameError::Empty),
        Some(c) => Err(NameError::Character(c)),
        None if part == "." || part == ".." || RESERVED.contains(&part) => Err(NameError::Reserved),
        None => Ok(()),
    }
}

/// A file system that is to be made.
pub struct NewDataset {
    /// Its last part.
    pub name: String,
    /// The root directory's owner and group.
    pub owner: (u64, u64),
    /// Properties as they are stored.
    pub properties: Vec<(String, LeafValue)>,
}

/// What tasks on datasets need.
pub struct Tasks<'a> {
    /// Makes objects of the MOS.
    pub maker: &'a Maker<'a>,
    /// Syncs.
    pub syncer: &'a Syncer,
    /// The executor.
    pub rt: &'a Rt,
    /// Where blocks are read.
    pub blocks: &'a Rc<dyn ReadBlocks>,
}

impl Tasks<'_> {
    fn mos(&self) -> &Objset {
        self.maker.mos
    }

    /// A file system in a directory that has none: it begins as a clone of the origin.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn file_system(
        &self,
        directory: &Dnode,
        origin: &Dnode,
        new: &NewDataset,
    ) -> Result<Dnode, ZfsError> {
        let maker = self.maker;
        let dataset = maker.dataset(directory, Some(origin)).await?;
        let head = maker.bonus::<DslDir>(directory)?;
        let properties = self.mos().dnode(head.properties).await?;
        for (name, value) in &new.properties {
            table::set(self.mos(), &properties, name, value.clone()).await?;
        }
        let root = new_root(ObjsetKind::FileSystem);
        let objset = Objset::of(self.rt, self.blocks, dataset.number(), root, Endian::Little, None);
        objset.change_by_sync(self.syncer.groups().clone());
        let created = Moment { seconds: maker.fresh.now() as i64, nanoseconds: 0 };
        let seed = maker.fresh.number();
        let files = NewFileSystem { created, txg: maker.txg, owner: new.owner, seed };
        make_files(&objset, files).await?;
        let policy = Policy { copies: 1, ..(*self.syncer.policy()).clone() };
        objset.close();
        self.syncer.write_dataset(maker, &objset, &dataset, Rc::new(policy)).await?;
        objset.committed();
        Ok(dataset)
    }

    /// The empty snapshot that all begin as.
    ///
    /// # Errors
    /// The pool has none.
    pub async fn origin(&self) -> Result<Dnode, ZfsError> {
        let directory = self.syncer.directory().await?;
        let root = Zap::open(directory).await?.needed(pool_directory::ROOT_DATASET).await?;
        let root = self.mos().dnode(root).await?;
        let head = self.maker.bonus::<DslDir>(&root)?;
        let children = Zap::open(self.mos().dnode(head.children).await?).await?;
        let origin = self.mos().dnode(children.needed(RESERVED[1]).await?).await?;
        let head = self.maker.bonus::<DslDir>(&origin)?.head_dataset;
        let head = self.maker.bonus::<DslDataset>(&self.mos().dnode(head).await?)?;
        self.mos().dnode(head.previous_snapshot).await
    }

    /// Makes a file system below a directory.
    ///
    /// # Errors
    /// What is needed can't be had. The other error: the name is taken or can't be.
    pub async fn create(
        &self,
        parent: u64,
        new: &NewDataset,
    ) -> Result<Result<u64, TaskError>, ZfsError> {
        if let Err(error) = check_part(&new.name) {
            return Ok(Err(TaskError::Name(error)));
        }
        let parent = self.mos().dnode(parent).await?;
        let head = self.maker.bonus::<DslDir>(&parent)?;
        let children = Zap::open(self.mos().dnode(head.children).await?).await?;
        if children.get(new.name.as_bytes()).await?.is_some() {
            return Ok(Err(TaskError::Exists));
        }
        let origin = self.origin().await?;
        let directory = self.maker.directory(Some(&parent), &new.name).await?;
        let dataset = self.file_system(&directory, &origin, new).await?.number();
        self.tell_of("create", dataset, " ").await?;
        Ok(Ok(dataset))
    }

    /// Whether a snapshot of this name can be taken of a dataset.
    ///
    /// # Errors
    /// What is needed can't be had. The other error: the name is taken or can't be.
    pub async fn check_snapshot(
        &self,
        dataset: u64,
        name: &str,
    ) -> Result<Result<(), TaskError>, ZfsError> {
        if let Err(error) = check_part(name) {
            return Ok(Err(TaskError::Name(error)));
        }
        let dataset = self.mos().dnode(dataset).await?;
        let head = self.maker.bonus::<DslDataset>(&dataset)?;
        let names = Zap::open(self.mos().dnode(head.snapshot_names).await?).await?;
        let is_taken = names.get(name.as_bytes()).await?.is_some();
        Ok(if is_taken { Err(TaskError::Exists) } else { Ok(()) })
    }

    /// Takes a snapshot of a dataset, as it is written.
    ///
    /// # Errors
    /// What is needed can't be had. The other error: the name is taken or can't be.
    pub async fn snapshot(
        &self,
        dataset: u64,
        name: &str,
    ) -> Result<Result<u64, TaskError>, ZfsError> {
        if let Err(error) = self.check_snapshot(dataset, name).await? {
            return Ok(Err(error));
        }
        let (maker, mos) = (self.maker, self.mos());
        let dataset = mos.dnode(dataset).await?;
        let head = maker.bonus::<DslDataset>(&dataset)?;
        let names = mos.dnode(head.snapshot_names).await?;
        let snapshot = DslDataset {
            next_snapshot: dataset.number(),
            snapshot_names: 0,
            children: 1,
            creation_time: maker.fresh.now(),
            creation_txg: maker.txg,
            unique_bytes: 0,
            fsid_guid: maker.fresh.number() >> 8,
            guid: maker.fresh.number(),
            next_clones: 0,
            properties: 0,
            user_references: 0,
            ..head.clone()
        };
        let new = NewObject::of(ObjectType::DSL_DATASET, 512);
        let bonus = snapshot.encode(Endian::Little);
        let snapshot = mos.make(&new.with_bonus(ObjectType::DSL_DATASET, bonus)).await?;
        self.follows(&head, dataset.number(), snapshot.number()).await?;
        let deadlist = self.next_deadlist(&head).await?;
        let (number, txg) = (snapshot.number(), maker.txg);
        maker
            .edit::<DslDataset>(&dataset, |head| {
                head.previous_snapshot = number;
                head.previous_snapshot_txg = txg;
                head.deadlist = deadlist;
                head.unique_bytes = 0;
            })
            .await?;
        table::set(mos, &names, name, table::number(number)).await?;
        self.tell_of("snapshot", number, " ").await?;
        Ok(Ok(number))
    }

    /// Tells the history what was done to a dataset or snapshot.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn tell_of(&self, name: &str, dataset: u64, text: &str) -> Result<(), ZfsError> {
        let deed = Deed::Inside { name, dataset: Some(dataset), text };
        note(self.maker, self.syncer, deed).await
    }

    /// What came before a dataset is followed by the snapshot from here on.
    async fn follows(
        &self,
        head: &DslDataset,
        dataset: u64,
        snapshot: u64,
    ) -> Result<(), ZfsError> {
        if head.previous_snapshot == 0 {
            return Ok(());
        }
        let mos = self.mos();
        let before = mos.dnode(head.previous_snapshot).await?;
        let state = self.maker.bonus::<DslDataset>(&before)?;
        if state.next_snapshot == dataset {
            return self
                .maker
                .edit::<DslDataset>(&before, |before| before.next_snapshot = snapshot)
                .await;
        }
        if state.next_clones != 0 {
            let clones = mos.dnode(state.next_clones).await?;
            table::remove(mos, &clones, &number_name(dataset)).await?;
            self.maker.add_to_set(state.next_clones, snapshot).await?;
        }
        Ok(())
    }

    /// A deadlist for what follows a snapshot: the same births as before, and those since the snapshot before.
    async fn next_deadlist(&self, head: &DslDataset) -> Result<u64, ZfsError> {
        let (maker, mos) = (self.maker, self.mos());
        let old = mos.dnode(head.deadlist).await?;
        let mut births = Vec::new();
        for entry in Zap::open(old.clone()).await?.entries().await? {
            let wrong = || old.problem(Problem::Entry("of a deadlist"));
            births.push(name_number(&entry.name).ok_or_else(wrong)?);
        }
        births.push(head.previous_snapshot_txg);
        births.sort_unstable();
        births.dedup();
        let deadlist = maker.deadlist().await?;
        for birth in births {
            let list = maker.long_bpobj().await?.number();
            table::set(mos, &deadlist, &number_name(birth), table::number(list)).await?;
        }
        Ok(deadlist.number())
    }

    /// Sets a property of a directory, or takes it away.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn set_property(
        &self,
        directory: u64,
        name: &str,
        value: Option<LeafValue>,
    ) -> Result<(), ZfsError> {
        let mos = self.mos();
        let directory = mos.dnode(directory).await?;
        let head = self.maker.bonus::<DslDir>(&directory)?;
        let properties = mos.dnode(head.properties).await?;
        let (deed, shown) = match &value {
            Some(value) if value.number_bytes == 1 => {
                let bytes: Vec<u8> = value.numbers.iter().map(|byte| *byte as u8).collect();
                let text = String::from_utf8_lossy(&bytes);
                ("set", format!("{name}={}", text.trim_end_matches('\0')))
            }
            Some(value) => {
                let number = value.numbers.first().copied().unwrap_or(0);
                ("set", format!("{name}={number}"))
            }
            None => ("inherit", format!("{name}=")),
        };
        match value {
            Some(value) => table::set(mos, &properties, name, value).await?,
            None => drop(table::remove(mos, &properties, name).await?),
        }
        self.tell_of(deed, head.head_dataset, &shown).await
    }
}
