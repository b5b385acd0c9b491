//! All datasets of a pool with what depends on what: what must go before another can.
//!
//! A file system's dependents are those below it, its snapshots, and the clones of those with all of theirs. They come in the
//! order in which they can be destroyed.
//!
//! Source: OpenZFS, `libzfs_iter.c` (`zfs_iter_dependents`), `dsl_dataset.c` (`dsl_dataset_space_wouldfree`).

use super::Dsl;
use super::bpobj::header;
use super::name::below;
use crate::error::{Problem, ZfsError};
use crate::zap::Zap;
use async_recursion::async_recursion as boxed;
use std::borrow::Cow;
use zfs_format::dsl::bookmark::Bookmark;
use zfs_format::dsl::dataset::{DslDataset, fields};
use zfs_format::dsl::name_number;
use zfs_format::wire::Record;

/// A snapshot.
#[derive(Clone, Debug)]
pub struct KnownSnapshot {
    /// The whole name.
    pub name: String,
    /// Its object.
    pub number: u64,
    /// The group that took it.
    pub created: u64,
    /// Holds, with the time of each.
    pub holds: Vec<(String, u64)>,
    head: DslDataset,
}

impl KnownSnapshot {
    /// What follows the `@`.
    pub fn short(&self) -> &str {
        self.name.split_once('@').map_or("", |(_, short)| short)
    }
}

/// A file system or volume.
#[derive(Clone, Debug)]
pub struct Known {
    /// The whole name.
    pub name: String,
    /// Its directory.
    pub directory: u64,
    /// Its dataset.
    pub dataset: u64,
    /// The snapshot that it began as.
    pub origin: u64,
    /// From the oldest on.
    pub snapshots: Vec<KnownSnapshot>,
    /// Names behind the `#`, and the groups of what they mark.
    pub bookmarks: Vec<(String, u64)>,
}

impl Known {
    /// Its snapshot of this name.
    pub fn snapshot(&self, short: &str) -> Option<&KnownSnapshot> {
        self.snapshots.iter().find(|snapshot| snapshot.short() == short)
    }
}

/// What depends on another.
#[derive(Clone, Copy, Debug)]
pub enum Dependent<'a> {
    /// A file system or volume.
    Dataset(&'a Known),
    /// A snapshot.
    Snapshot(&'a KnownSnapshot),
}

impl Dependent<'_> {
    /// The whole name.
    pub fn name(&self) -> &str {
        match self {
            Dependent::Dataset(known) => &known.name,
            Dependent::Snapshot(snapshot) => &snapshot.name,
        }
    }
}

/// A dataset's name, with the pool's name in the place of its GUID where it begins with that.
pub fn by_guid<'a>(name: &'a str, guid: u64, pool: &str) -> Cow<'a, str> {
    let (first, below) = name.split_at(name.find(['/', '@', '#']).unwrap_or(name.len()));
    match first.parse() == Ok(guid) && first != pool {
        true => Cow::Owned(format!("{pool}{below}")),
        false => Cow::Borrowed(name),
    }
}

/// All file systems and volumes of a pool, each before those below it.
#[derive(Clone, Debug, Default)]
pub struct Datasets {
    /// They.
    pub all: Vec<Known>,
    /// The pool's GUID, by which names may begin as well, where that is wanted.
    pub pool: Option<u64>,
}

impl Datasets {
    /// Looks at all of a pool.
    ///
    /// # Errors
    /// One can't be had.
    #[boxed(?Send)]
    pub async fn of(dsl: &Dsl) -> Result<Datasets, ZfsError> {
        let mut all = Vec::new();
        for directory in dsl.below(dsl.root().await?).await? {
            let Some(head) = dsl.head(&directory).await? else { continue };
            let mut snapshots = Vec::new();
            for snapshot in dsl.snapshots(&head).await? {
                let holds = dsl.names(snapshot.head.user_references).await?;
                let (name, number, head) = (snapshot.name, snapshot.number, snapshot.head);
                snapshots.push(KnownSnapshot {
                    name,
                    number,
                    created: head.creation_txg,
                    holds,
                    head,
                });
            }
            let mut bookmarks = Vec::new();
            let table = match &head.fields {
                Some(table) => table.number(fields::BOOKMARKS).await?,
                None => None,
            };
            if let Some(table) = table {
                let table = Zap::open(dsl.mos().dnode(table).await?).await?;
                for entry in table.entries().await? {
                    let mark = Bookmark::from_numbers(&entry.value.numbers);
                    let mark = mark.map_err(|error| table.dnode().wrong(error))?;
                    bookmarks.push((entry.text(), mark.creation_txg));
                }
                bookmarks.sort();
            }
            all.push(Known {
                name: directory.name,
                directory: directory.number,
                dataset: head.number,
                origin: directory.head.origin,
                snapshots,
                bookmarks,
            });
        }
        Ok(Datasets { all, pool: None })
    }

    /// The file system or volume of a name.
    pub fn find(&self, name: &str) -> Option<&Known> {
        let root = self.pool.zip(self.all.first());
        let name = root.map_or(Cow::Borrowed(name), |(guid, root)| by_guid(name, guid, &root.name));
        self.all.iter().find(|known| known.name == *name)
    }

    /// The snapshot of a whole name, and whose it is.
    pub fn find_snapshot(&self, name: &str) -> Option<(&Known, &KnownSnapshot)> {
        let (of, short) = name.split_once('@')?;
        let known = self.find(of)?;
        Some((known, known.snapshot(short)?))
    }

    /// One and all below it.
    pub fn at_and_below<'a>(&'a self, of: &'a Known) -> impl Iterator<Item = &'a Known> {
        self.all.iter().filter(|known| below(&of.name, &known.name).is_some())
    }

    /// Clones of a snapshot.
    pub fn clones<'a>(&'a self, of: &'a KnownSnapshot) -> impl Iterator<Item = &'a Known> {
        self.all.iter().filter(|known| known.origin == of.number)
    }

    /// What depends on a file system or volume.
    pub fn dependents<'a>(&'a self, of: &'a Known) -> Vec<Dependent<'a>> {
        let mut found = Vec::new();
        self.add_of(of, &mut vec![of.dataset], &mut found);
        found
    }

    /// What depends on a snapshot.
    pub fn snapshot_dependents<'a>(&'a self, of: &'a KnownSnapshot) -> Vec<Dependent<'a>> {
        let mut found = Vec::new();
        self.add_clones(of, &mut Vec::new(), &mut found);
        found
    }

    fn add_of<'a>(&'a self, of: &'a Known, seen: &mut Vec<u64>, to: &mut Vec<Dependent<'a>>) {
        let depth = of.name.matches('/').count() + 1;
        let is_child = |known: &&Known| known.name.matches('/').count() == depth;
        for child in self.at_and_below(of).filter(is_child) {
            self.add(child, seen, to);
        }
        for snapshot in &of.snapshots {
            self.add_clones(snapshot, seen, to);
            to.push(Dependent::Snapshot(snapshot));
        }
    }

    fn add_clones<'a>(
        &'a self,
        of: &'a KnownSnapshot,
        seen: &mut Vec<u64>,
        to: &mut Vec<Dependent<'a>>,
    ) {
        for clone in self.clones(of) {
            self.add(clone, seen, to);
        }
    }

    /// Something with its own dependents before it, once.
    fn add<'a>(&'a self, known: &'a Known, seen: &mut Vec<u64>, to: &mut Vec<Dependent<'a>>) {
        if !seen.contains(&known.dataset) {
            seen.push(known.dataset);
            self.add_of(known, seen, to);
            to.push(Dependent::Dataset(known));
        }
    }
}

/// Bytes that are free if all snapshots from one up to another of the same dataset go.
///
/// # Errors
/// A deadlist can't be had.
#[boxed(?Send)]
pub async fn would_free(
    dsl: &Dsl,
    first: &KnownSnapshot,
    last: &KnownSnapshot,
) -> Result<u64, ZfsError> {
    let since = first.head.previous_snapshot_txg;
    let (mut at, mut used) = (last.head.next_snapshot, 0_u64);
    while at != first.number && at != 0 {
        let dataset = dsl.dataset(at, String::new()).await?;
        let lists = dsl.mos().dnode(dataset.head.deadlist).await?;
        for entry in Zap::open(lists.clone()).await?.entries().await? {
            let wrong = || lists.problem(Problem::Entry("of a deadlist"));
            if name_number(&entry.name).ok_or_else(wrong)? >= since {
                let list = dsl.mos().dnode(entry.number().ok_or_else(wrong)?).await?;
                used = used.saturating_add(header(&list)?.bytes);
            }
        }
        at = dataset.head.previous_snapshot;
    }
    Ok(used)
}
