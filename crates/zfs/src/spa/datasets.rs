//! File systems and snapshots made and taken away, properties set: tasks of who syncs.
//!
//! Each is checked before it changes anything, within the group: what it answers then is [`TaskError`], and the pool goes on.
//! Whoever does several at once checks all of them first, or they are cut in the middle.
//!
//! * here: file systems and snapshots made, properties set.
//! * [`destroy`], [`rollback`], [`rename`], [`clone`], [`promote`], [`holds`], [`bookmarks`]: what their names say.
//! * [`limits`]: how long names and values may be; [`reserve`]: what tasks leave free.
//!
//! A task on a dataset that somebody has open asks [`OpenDatasets`]: one that nobody uses is closed, else the task answers
//! that it is busy.
//!
//! Source: OpenZFS, `dsl_dataset.c` (`dsl_dataset_snapshot_sync_impl`), `dsl_dir.c`, `dsl_prop.c`.

pub mod bookmarks;
pub mod clone;
pub mod destroy;
mod error;
mod full_name;
pub mod holds;
pub mod limits;
pub mod names;
pub mod promote;
mod properties;
pub mod rename;
pub mod reserve;
pub mod rollback;

pub use error::{NameError, TaskError};

use self::names::KnownNames;
use self::reserve::Spares;
use super::commit::Syncer;
use super::freeing::Freeing;
use super::history::{self, Deed, note};
use crate::dmu::{Dnode, NewObject, Objset, Policy};
use crate::dsl::deadlist::Deadlist;
use crate::dsl::features::of_property;
use crate::dsl::make::Maker;
use crate::error::{Problem, ZfsError};
use crate::zap::{Match, Zap, table};
use crate::zpl::attributes::Moment;
use crate::zpl::make::{NewFileSystem, make as make_files, new_root};
use crate::zpl::name_rules::{self, NameRules};
use async_recursion::async_recursion as boxed;
use rt::Rt;
use std::cell::Cell;
use std::rc::Rc;
use stdx::planted::{self, Bug};
use zfs_format::Endian;
use zfs_format::dsl::dataset::{DslDataset, flags};
use zfs_format::dsl::dir::{DslDir, RESERVED};
use zfs_format::dsl::number_name;
use zfs_format::object_type::ObjectType;
use zfs_format::objset::{Objset as ObjsetPhys, ObjsetKind};
use zfs_format::pool_directory;
use zfs_format::wire::Record;
use zfs_format::zap::leaf::LeafValue;
use zfs_format::zpl::master;
use zfs_store::ReadBlocks;

/// Blocks of the MOS that a new dataset takes.
pub(super) const NEW_BLOCKS: u64 = 6;
/// Blocks of the MOS that a snapshot takes.
pub const SNAPSHOT_BLOCKS: u64 = 3;

/// What a task gives: itself, or why it was not done; or the pool can't be written.
pub type Done<T> = Result<Result<T, TaskError>, ZfsError>;

/// Ends a task with why it is not done, where that is what something gave.
macro_rules! done {
    ($of:expr) => {
        match $of {
            Ok(done) => done,
            Err(error) => return Ok(Err(error)),
        }
    };
}
pub(crate) use done;

/// Datasets that somebody may have open.
pub trait OpenDatasets {
    /// Whether somebody uses one.
    fn is_used(&self, dataset: u64) -> bool;

    /// Closes one, unless somebody uses it; says whether it is closed.
    fn close(&self, dataset: u64) -> bool;

    /// The snapshot of this GUID is destroyed: its blocks may be used again soon.
    fn destroyed(&self, snapshot: u64);
}

/// No dataset is open.
pub struct NoneOpen;

impl OpenDatasets for NoneOpen {
    fn is_used(&self, _: u64) -> bool {
        false
    }

    fn close(&self, _: u64) -> bool {
        true
    }

    fn destroyed(&self, _: u64) {}
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
    /// What is open.
    pub open: &'a dyn OpenDatasets,
    /// What is to be freed.
    pub freeing: &'a Freeing,
    /// What is set for datasets or for the pool is another from here on.
    pub settings_changed: Cell<bool>,
    /// What directories were called when it was looked for.
    pub names: KnownNames,
}

impl Tasks<'_> {
    pub(super) fn mos(&self) -> &Objset {
        self.maker.mos
    }

    /// Whether there is room for a task that writes so many blocks of the MOS.
    ///
    /// # Errors
    /// There is none.
    pub fn check_space(&self, spares: Spares, blocks: u64) -> Result<(), TaskError> {
        match spares.has_room(self.syncer.writer(), blocks) {
            true => Ok(()),
            false => Err(TaskError::NoSpace),
        }
    }

    /// A dataset's object and what it says.
    async fn dataset(&self, number: u64) -> Result<(Dnode, DslDataset), ZfsError> {
        let object = self.mos().dnode(number).await?;
        let head = self.maker.bonus(&object)?;
        Ok((object, head))
    }

    /// A directory's object and what it says.
    async fn directory(&self, number: u64) -> Result<(Dnode, DslDir), ZfsError> {
        let object = self.mos().dnode(number).await?;
        let head = self.maker.bonus(&object)?;
        Ok((object, head))
    }

    /// The snapshot of a name, of a dataset.
    async fn snapshot_named(&self, of: &DslDataset, name: &str) -> Result<Option<u64>, ZfsError> {
        let names = Zap::open(self.mos().dnode(of.snapshot_names).await?).await?;
        let value = names.get_as(name.as_bytes(), Match::of_snapshots(of)).await?;
        Ok(value.and_then(|value| value.number()))
    }

    /// The name of a snapshot, of a dataset.
    async fn name_of(&self, of: &DslDataset, snapshot: u64) -> Result<String, ZfsError> {
        let names = Zap::open(self.mos().dnode(of.snapshot_names).await?).await?;
        let entries = names.entries().await?;
        let found = entries.iter().find(|entry| entry.number() == Some(snapshot));
        let missing = || self.mos().wrong(snapshot, Problem::NoEntry("name"));
        found.map(|entry| entry.text()).ok_or_else(missing)
    }

    /// Nobody uses a dataset from here on.
    fn close(&self, dataset: u64) -> Result<(), TaskError> {
        if self.open.close(dataset) { Ok(()) } else { Err(TaskError::Busy) }
    }

    /// A table goes, if there is one.
    pub(super) async fn free_table(&self, number: u64) -> Result<(), ZfsError> {
        match number {
            0 => Ok(()),
            number => self.maker.free_object(&self.mos().dnode(number).await?).await,
        }
    }

    /// What a dataset holds, as it is in the group.
    async fn open_objset(&self, dataset: &Dnode) -> Result<Objset, ZfsError> {
        let pointer = self.maker.bonus::<DslDataset>(dataset)?.pointer;
        Objset::open(self.rt, self.blocks, dataset.number(), &pointer, None).await
    }

    /// Whether a directory is of a file system, below which others may lie.
    async fn holds_others(&self, directory: &DslDir) -> Result<bool, ZfsError> {
        let dataset = self.mos().dnode(directory.head_dataset).await?;
        Ok(self.open_objset(&dataset).await?.root().kind == ObjsetKind::FileSystem)
    }

    /// A dataset that has a snapshot's blocks has no log, whatever the snapshot's root says.
    async fn clear_log(&self, dataset: &Dnode) -> Result<(), ZfsError> {
        let has_none = self.maker.bonus::<DslDataset>(dataset)?.pointer.is_hole();
        if has_none || planted::is(Bug::LogCloned) {
            return Ok(());
        }
        let objset = self.open_objset(dataset).await?;
        objset.change_by_sync(self.syncer.groups().clone());
        if !objset.forget_log() {
            return Ok(());
        }
        let policy = Policy { copies: 1, ..(*self.syncer.policy()).clone() };
        self.syncer.write_dataset(self.maker, &objset, dataset, Rc::new(policy)).await?;
        objset.committed();
        Ok(())
    }

    /// Which names the file system of a directory takes.
    async fn name_rules(&self, directory: &Dnode) -> Result<NameRules, ZfsError> {
        let head = self.maker.bonus::<DslDir>(directory)?.head_dataset;
        let objset = self.open_objset(&self.mos().dnode(head).await?).await?;
        NameRules::read(&Zap::open(objset.dnode(master::OBJECT).await?).await?).await
    }

    /// A file system in a directory that has none: it begins as a clone of the origin. It takes the names that the one above it takes, but for
    /// what its properties say otherwise.
    ///
    /// # Errors
    /// What is needed can't be had.
    #[boxed(?Send)]
    pub async fn file_system(
        &self,
        directory: &Dnode,
        origin: &Dnode,
        above: NameRules,
        new: &NewDataset,
    ) -> Result<Dnode, ZfsError> {
        let maker = self.maker;
        let dataset = maker.dataset(directory, Some((origin, &[0]))).await?;
        let head = maker.bonus::<DslDir>(directory)?;
        let properties = self.mos().dnode(head.properties).await?;
        let is_rule = |name: &str| name_rules::PROPERTIES.contains(&name);
        for (name, value) in new.properties.iter().filter(|(name, _)| !is_rule(name)) {
            table::set(self.mos(), &properties, name, value.clone()).await?;
        }
        let numbers =
            new.properties.iter().map(|(name, value)| (name.as_str(), value.number().unwrap_or(0)));
        let names = above.with(numbers);
        if names.ignores_case() {
            let mark = |head: &mut DslDataset| head.flags |= flags::CASE_INSENSITIVE;
            maker.edit::<DslDataset>(&dataset, mark).await?;
        }
        let counted = maker.counted().await?;
        let root = ObjsetPhys { flags: counted.complete(), ..new_root(ObjsetKind::FileSystem) };
        let objset = Objset::of(self.rt, self.blocks, dataset.number(), root, Endian::Little, None);
        objset.change_by_sync(self.syncer.groups().clone());
        objset.set_counted(counted);
        let created = Moment { seconds: maker.fresh.now() as i64, nanoseconds: 0 };
        let seed = maker.fresh.number();
        let files = NewFileSystem { created, txg: maker.txg, owner: new.owner, seed, names };
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
    #[boxed(?Send)]
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

    /// A directory below which there is nothing of this name.
    ///
    /// # Errors
    /// What is needed can't be had. The other error: the name is taken or can't be.
    pub(super) async fn free_below(
        &self,
        parent: u64,
        name: &str,
    ) -> Result<Result<Dnode, TaskError>, ZfsError> {
        if let Err(error) = check_part(name) {
            return Ok(Err(TaskError::Name(error)));
        }
        done!(self.check_fits(parent, name).await?);
        done!(self.check_depth(parent, 0).await?);
        done!(self.check_space(Spares::All, NEW_BLOCKS));
        let parent = self.mos().dnode(parent).await?;
        let head = self.maker.bonus::<DslDir>(&parent)?;
        let children = Zap::open(self.mos().dnode(head.children).await?).await?;
        let is_taken = children.get(name.as_bytes()).await?.is_some();
        Ok(if is_taken { Err(TaskError::Exists) } else { Ok(parent) })
    }

    /// Makes a file system below a directory.
    ///
    /// # Errors
    /// What is needed can't be had. The other error: the name is taken or can't be.
    #[boxed(?Send)]
    pub async fn create(
        &self,
        parent: u64,
        new: &NewDataset,
    ) -> Result<Result<u64, TaskError>, ZfsError> {
        done!(limits::check_properties(&new.properties));
        let parent = match self.free_below(parent, &new.name).await? {
            Ok(parent) => parent,
            Err(error) => return Ok(Err(error)),
        };
        let (origin, above) = (self.origin().await?, self.name_rules(&parent).await?);
        let directory = self.maker.directory(Some(&parent), &new.name).await?;
        let dataset = self.file_system(&directory, &origin, above, new).await?.number();
        self.tell_of("create", dataset, " ").await?;
        Ok(Ok(dataset))
    }

    /// Whether a snapshot of this name can be taken of a dataset.
    ///
    /// # Errors
    /// What is needed can't be had. The other error: the name is taken or can't be.
    #[boxed(?Send)]
    pub async fn check_snapshot(
        &self,
        dataset: u64,
        name: &str,
    ) -> Result<Result<(), TaskError>, ZfsError> {
        if let Err(error) = check_part(name) {
            return Ok(Err(TaskError::Name(error)));
        }
        let (_, head) = self.dataset(dataset).await?;
        done!(self.check_fits(head.dir, name).await?);
        if self.snapshot_named(&head, name).await?.is_some() {
            return Ok(Err(TaskError::Exists));
        }
        done!(self.check_space(Spares::All, SNAPSHOT_BLOCKS));
        Ok(self.kept_beside_snapshot(&head).await?.map(|_| ()))
    }

    /// Takes a snapshot of a dataset, as it is written.
    ///
    /// # Errors
    /// What is needed can't be had. The other error: the name is taken or can't be.
    #[boxed(?Send)]
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
        match self.kept_beside_snapshot(&head).await? {
            Ok(again) => self.keep_beside_snapshot(&head, again).await?,
            Err(error) => return Ok(Err(error)),
        }
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
        maker.copy_features(&dataset, &snapshot).await?;
        maker.snapshot_moved_off(&dataset, &snapshot).await?;
        self.follows(&head, dataset.number(), snapshot.number()).await?;
        let deadlist = self.next_deadlist(&dataset, &head).await?;
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

    /// The name of a dataset or snapshot, with the pool's.
    pub(super) async fn whole_name(&self, dataset: u64) -> Result<String, ZfsError> {
        history::name_of(self.maker, self.syncer.config().name, dataset).await
    }

    /// Tells the history what was done to a dataset or snapshot.
    ///
    /// # Errors
    /// What is needed can't be had.
    #[boxed(?Send)]
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
            if !planted::is(Bug::NextCloneLost) {
                self.maker.add_to_set(state.next_clones, snapshot).await?;
            }
        }
        Ok(())
    }

    /// A deadlist for what follows a snapshot: the same births as before, those since the snapshot before, and since bookmarks after
    /// that.
    async fn next_deadlist(&self, dataset: &Dnode, head: &DslDataset) -> Result<u64, ZfsError> {
        let old = Deadlist::open(self.maker, head.deadlist).await?;
        let marked = self.maker.moments_after(dataset, head).await?;
        let mut keys: Vec<u64> =
            old.keys().chain([head.previous_snapshot_txg]).chain(marked).collect();
        keys.sort_unstable();
        keys.dedup();
        Deadlist::make(self.maker, keys).await
    }

    /// Sets a property of a directory, or takes it away.
    ///
    /// # Errors
    /// What is needed can't be had. The other error: its name or value can't be.
    #[boxed(?Send)]
    pub async fn set_property(
        &self,
        directory: u64,
        name: &str,
        value: Option<LeafValue>,
    ) -> Done<()> {
        done!(limits::check_property(name, value.as_ref()));
        if value.is_some() {
            done!(self.check_space(Spares::Half, 1));
        }
        self.put_property(directory, name, value).await.map(Ok)
    }

    /// The same of one that was checked.
    ///
    /// # Errors
    /// What is needed can't be had.
    #[boxed(?Send)]
    pub(super) async fn put_property(
        &self,
        directory: u64,
        name: &str,
        value: Option<LeafValue>,
    ) -> Result<(), ZfsError> {
        let mos = self.mos();
        let (_, head) = self.directory(directory).await?;
        let properties = mos.dnode(head.properties).await?;
        self.settings_changed.set(true);
        let (deed, shown) = history::of_property(name, value.as_ref());
        // Who doesn't know zstd would take the value for none: the pool says so before there are blocks of it.
        let asked = value.as_ref().and_then(LeafValue::number).unwrap_or(0);
        let asked = of_property(name, asked).filter(|_| name == "compression");
        if let Some(feature) = asked {
            let dataset = mos.dnode(head.head_dataset).await?;
            self.maker.use_features(&dataset, [feature].into_iter()).await?;
        }
        self.put(&properties, name, value).await?;
        self.tell_of(deed, head.head_dataset, &shown).await
    }
}
