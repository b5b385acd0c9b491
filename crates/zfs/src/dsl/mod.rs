//! The tree of names: directories, the datasets behind them, snapshots.
//!
//! ```text
//!   Directory   a name (`tank/home`): its children, properties, quota; the key of what is encrypted
//!   Dataset     what a name leads to: the head of a directory, or a snapshot (`tank/home@monday`)
//! ```
//!
//! Both are objects of the MOS. What they hold beyond their fixed part stands in the object itself, which is then a
//! ZAP ("zapified").
//!
//! A pool may be forged so that directories lead in a circle, or to one by two names. So a directory is one of those
//! below another only where it says so itself ([`Dsl::child`]), and by one name; depth is bounded by [`DEPTH_MAX`].

pub mod account;
pub mod accounts;
pub mod bookmarks;
pub mod books;
pub mod bpobj;
pub mod catalog;
pub mod deadlist;
pub mod dependents;
pub mod features;
pub mod livelist;
pub mod make;
pub mod moved_off;
pub mod name;
pub mod property;
pub mod space;
mod written;

use crate::dmu::{Dnode, Objset};
use crate::error::{Problem, ZfsError};
use crate::zap::{Match, Zap};
use async_recursion::async_recursion as boxed;
use property::Stored;
use std::collections::BTreeSet;
use std::rc::Rc;
use zfs_format::dsl::dataset::DslDataset;
use zfs_format::dsl::dir::{self, DslDir, RESERVED};
use zfs_format::object_type::ObjectType;
use zfs_format::pool_directory;
use zfs_format::wire::Record;

/// How deep directories may lie in directories: OpenZFS's names have 256 bytes, so 128 parts at the most.
pub const DEPTH_MAX: usize = 128;
/// Snapshots that one dataset may have, as a bound on damaged pools: 2^24.
const SNAPSHOTS_MAX: usize = 1 << 24;
/// The type of an object that became a ZAP, or was made as one: metadata, byte-swapped as ZAP.
const ZAP_METADATA: ObjectType = ObjectType(0xc4);

/// The datasets of a pool.
#[derive(Clone)]
pub struct Dsl {
    mos: Objset,
    pool: Rc<str>,
    root: u64,
}

/// A name that datasets, snapshots and children stand below.
pub struct Directory {
    /// Its object in the MOS.
    pub number: u64,
    /// The whole name, `tank/home`.
    pub name: String,
    /// What its bonus says.
    pub head: DslDir,
    /// Its further fields.
    pub fields: Option<Zap>,
}

/// A file system, volume or snapshot.
pub struct Dataset {
    /// Its object in the MOS, the number of its objset.
    pub number: u64,
    /// The whole name, `tank/home@monday`.
    pub name: String,
    /// What its bonus says.
    pub head: DslDataset,
    /// Its further fields, and the features that it uses.
    pub fields: Option<Zap>,
}

impl Dataset {
    /// The name of a snapshot without its dataset; nothing of a head.
    pub fn snapshot_name(&self) -> Option<&str> {
        self.name.split_once('@').map(|(_, name)| name)
    }
}

impl Dsl {
    /// Opens the tree of a pool.
    ///
    /// # Errors
    /// The pool's directory can't be had, or names no root.
    #[boxed(?Send)]
    pub async fn open(mos: &Objset, pool: &str) -> Result<Dsl, ZfsError> {
        let directory = Zap::open(mos.dnode(pool_directory::OBJECT).await?).await?;
        let root = directory.needed(pool_directory::ROOT_DATASET).await?;
        Ok(Dsl { mos: mos.clone(), pool: pool.into(), root })
    }

    /// The pool's name.
    pub fn pool(&self) -> &str {
        &self.pool
    }

    /// The MOS.
    pub fn mos(&self) -> &Objset {
        &self.mos
    }

    /// The directory with the pool's name.
    ///
    /// # Errors
    /// It can't be had, or is none.
    #[boxed(?Send)]
    pub async fn root(&self) -> Result<Directory, ZfsError> {
        self.directory(self.root, self.pool.to_string()).await
    }

    /// The directory of this object.
    ///
    /// # Errors
    /// It can't be had, or is none.
    #[boxed(?Send)]
    pub async fn directory(&self, number: u64, name: String) -> Result<Directory, ZfsError> {
        let object = self.mos.dnode(number).await?;
        self.check_type(&object, ObjectType::DSL_DIR, "a DSL directory")?;
        let head = DslDir::decode(&object.phys().bonus, object.endian());
        let head = head.map_err(|error| object.wrong(error))?;
        Ok(Directory { number, name, head, fields: self.fields(object).await? })
    }

    /// The directory that another one names as this child of its own.
    ///
    /// # Errors
    /// As of [`Dsl::directory`]; or it is none of that one's.
    #[boxed(?Send)]
    pub async fn child(
        &self,
        of: &Directory,
        name: &str,
        number: u64,
    ) -> Result<Directory, ZfsError> {
        if number == self.root || number == of.number {
            return Err(self.mos.wrong(number, Problem::Circle));
        }
        let child = self.directory(number, format!("{}/{name}", of.name)).await?;
        match child.head.parent {
            parent if parent == of.number => Ok(child),
            parent => Err(self.mos.wrong(number, Problem::Elsewhere { parent })),
        }
    }

    /// The dataset of this object.
    ///
    /// # Errors
    /// It can't be had, or is none.
    #[boxed(?Send)]
    pub async fn dataset(&self, number: u64, name: String) -> Result<Dataset, ZfsError> {
        let object = self.mos.dnode(number).await?;
        self.check_type(&object, ObjectType::DSL_DATASET, "a DSL dataset")?;
        let head = DslDataset::decode(&object.phys().bonus, object.endian());
        let head = head.map_err(|error| object.wrong(error))?;
        Ok(Dataset { number, name, head, fields: self.fields(object).await? })
    }

    fn check_type(
        &self,
        object: &Dnode,
        bonus: ObjectType,
        expected: &'static str,
    ) -> Result<(), ZfsError> {
        let found = object.phys().bonus_type;
        if found == bonus {
            return Ok(());
        }
        Err(self.mos.wrong(object.number(), Problem::Type { found, expected }))
    }

    async fn fields(&self, object: Dnode) -> Result<Option<Zap>, ZfsError> {
        match object.phys().object_type == ZAP_METADATA {
            true => Zap::open(object).await.map(Some),
            false => Ok(None),
        }
    }

    /// The dataset of a directory's own name; nothing for directories that are only names (`$MOS`).
    ///
    /// # Errors
    /// It can't be had, or is none.
    #[boxed(?Send)]
    pub async fn head(&self, directory: &Directory) -> Result<Option<Dataset>, ZfsError> {
        match directory.head.head_dataset {
            0 => Ok(None),
            number => self.dataset(number, directory.name.clone()).await.map(Some),
        }
    }

    /// Names and objects of the directories below one, without those that are no user's, in the order of names.
    ///
    /// # Errors
    /// The table can't be had, or has one under two names.
    #[boxed(?Send)]
    pub async fn children(&self, of: &Directory) -> Result<Vec<(String, u64)>, ZfsError> {
        let mut children = self.names(of.head.children).await?;
        children.retain(|(name, _)| !RESERVED.contains(&name.as_str()));
        let mut numbers = BTreeSet::new();
        match children.iter().find(|(_, number)| !numbers.insert(*number)) {
            Some((_, number)) => Err(self.mos.wrong(*number, Problem::Twice)),
            None => Ok(children),
        }
    }

    /// Names and objects of the snapshots of a dataset, from the oldest on.
    ///
    /// # Errors
    /// The table, or a snapshot, can't be had.
    #[boxed(?Send)]
    pub async fn snapshots(&self, of: &Dataset) -> Result<Vec<Dataset>, ZfsError> {
        let names = self.names(of.head.snapshot_names).await?;
        if names.len() > SNAPSHOTS_MAX {
            let (what, limit) = ("snapshots", SNAPSHOTS_MAX as u64);
            return Err(self.mos.wrong(of.number, Problem::Limit { what, limit }));
        }
        let mut snapshots = Vec::with_capacity(names.len());
        for (name, number) in names {
            snapshots.push(self.dataset(number, format!("{}@{name}", of.name)).await?);
        }
        snapshots.sort_by_key(|snapshot| snapshot.head.creation_txg);
        Ok(snapshots)
    }

    /// Entries of a table of names and object numbers, in the order of names; none for object 0.
    pub(crate) async fn names(&self, table: u64) -> Result<Vec<(String, u64)>, ZfsError> {
        if table == 0 {
            return Ok(Vec::new());
        }
        let zap = Zap::open(self.mos.dnode(table).await?).await?;
        let mut names = Vec::new();
        for entry in zap.entries().await? {
            let wrong = || self.mos.wrong(table, Problem::Entry("of a name"));
            names.push((entry.text(), entry.number().ok_or_else(wrong)?));
        }
        names.sort();
        Ok(names)
    }

    /// The directory of a name without `@`; nothing where there is none.
    ///
    /// # Errors
    /// Something on the way can't be had.
    #[boxed(?Send)]
    pub async fn find_directory(&self, name: &str) -> Result<Option<Directory>, ZfsError> {
        let mut parts = name.split('/');
        if parts.next() != Some(&*self.pool) {
            return Ok(None);
        }
        let mut found = self.root().await?;
        for part in parts.take(DEPTH_MAX) {
            if found.head.children == 0 || RESERVED.contains(&part) {
                return Ok(None);
            }
            let zap = Zap::open(self.mos.dnode(found.head.children).await?).await?;
            let Some(value) = zap.get(part.as_bytes()).await? else { return Ok(None) };
            let wrong = || self.mos.wrong(found.head.children, Problem::Entry("of a child"));
            let number = value.number().ok_or_else(wrong)?;
            found = self.child(&found, part, number).await?;
        }
        Ok((found.name == name).then_some(found))
    }

    /// The dataset of a name, with its directory; nothing where there is none.
    ///
    /// # Errors
    /// Something on the way can't be had.
    #[boxed(?Send)]
    pub async fn find(&self, name: &str) -> Result<Option<(Directory, Dataset)>, ZfsError> {
        let (path, snapshot) = match name.split_once('@') {
            Some((path, snapshot)) => (path, Some(snapshot)),
            None => (name, None),
        };
        let Some(directory) = self.find_directory(path).await? else { return Ok(None) };
        let Some(head) = self.head(&directory).await? else { return Ok(None) };
        let Some(snapshot) = snapshot else { return Ok(Some((directory, head))) };
        if head.head.snapshot_names == 0 {
            return Ok(None);
        }
        let zap = Zap::open(self.mos.dnode(head.head.snapshot_names).await?).await?;
        let value = zap.get_as(snapshot.as_bytes(), Match::of_snapshots(&head.head)).await?;
        let Some(value) = value else { return Ok(None) };
        let wrong = || self.mos.wrong(head.head.snapshot_names, Problem::Entry("of a snapshot"));
        let number = value.number().ok_or_else(wrong)?;
        Ok(Some((directory, self.dataset(number, name.to_owned()).await?)))
    }

    /// All directories at and below one, each before those below it, names in order.
    ///
    /// # Errors
    /// One can't be had, or they lie deeper than [`DEPTH_MAX`].
    #[boxed(?Send)]
    pub async fn below(&self, top: Directory) -> Result<Vec<Directory>, ZfsError> {
        let mut found = Vec::new();
        let mut waiting = vec![(0, top)];
        while let Some((depth, directory)) = waiting.pop() {
            if depth > DEPTH_MAX {
                let (what, limit) = ("directories in directories", DEPTH_MAX as u64);
                return Err(self.mos.wrong(directory.number, Problem::Limit { what, limit }));
            }
            for (name, number) in self.children(&directory).await?.into_iter().rev() {
                waiting.push((depth + 1, self.child(&directory, &name, number).await?));
            }
            found.push(directory);
        }
        Ok(found)
    }

    /// What is set on a directory itself.
    ///
    /// # Errors
    /// The table can't be had.
    #[boxed(?Send)]
    pub async fn stored(&self, directory: &Directory) -> Result<Vec<Stored>, ZfsError> {
        self.stored_in(directory.head.properties).await
    }

    /// What is set on a snapshot itself.
    ///
    /// # Errors
    /// The table can't be had.
    #[boxed(?Send)]
    pub async fn stored_on_snapshot(&self, snapshot: &Dataset) -> Result<Vec<Stored>, ZfsError> {
        self.stored_in(snapshot.head.properties).await
    }

    async fn stored_in(&self, table: u64) -> Result<Vec<Stored>, ZfsError> {
        if table == 0 {
            return Ok(Vec::new());
        }
        let zap = Zap::open(self.mos.dnode(table).await?).await?;
        let entries = zap.entries().await?;
        let wrong = |error| zap.dnode().wrong(error);
        entries.iter().map(|entry| Stored::of(entry).map_err(wrong)).collect()
    }

    /// The object of a directory's key, if it is encrypted.
    ///
    /// # Errors
    /// The table of its fields can't be had.
    #[boxed(?Send)]
    pub async fn crypto_key(&self, directory: &Directory) -> Result<Option<u64>, ZfsError> {
        match &directory.fields {
            Some(fields) => fields.number(dir::fields::CRYPTO_KEY).await,
            None => Ok(None),
        }
    }
}
