//! Which datasets a command is about, and their order.
//!
//! Rules:
//! 1. Named ones, or the roots of all pools; with `-r` all below, with `-d N` down to that depth. Snapshots and bookmarks
//!    stand one below their dataset. Of several pools that are called alike none is meant by the name, and no two stand
//!    beside each other: their datasets could not be told apart.
//! 2. Of these, the kinds that are asked for. A name that is of another kind, and nothing is looked for below it, is an error.
//! 3. In the order of the sort columns, then of names; a dataset before its snapshots, those by age. What lacks a sort
//!    column comes last, whichever way it is sorted.
//!
//! Source: OpenZFS 2.3, `zfs_iter.c`.

use super::shown::Field;
use crate::commands::elsewhere::with_what_it_is;
use crate::output::{Failure, say};
use crate::printable;
use attach::Error;
use attach::pools::running::client;
use attach::pools::{PoolPlace, Pools, check_name, pool_of};
use std::cmp::Ordering;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use zfs::ZfsError;
use zfs::dsl::catalog::{Catalog, Node};
use zfs::dsl::property::table::Kinds;
use zfs::dsl::property::view::{ALTROOT, Kind, View};
use zfs::inspect::property::PoolProperty;
use zfs::spa::{FoundPool, Spa};

/// What is asked for.
#[derive(Clone, Copy)]
pub struct Wanted {
    /// Kinds of datasets.
    pub kinds: Kinds,
    /// How deep; nothing without bound.
    pub depth: Option<u64>,
    /// Whether anything below is looked at.
    pub recursive: bool,
    /// Whether a pool's property `listsnapshots` may add snapshots.
    pub listsnapshots: bool,
}

/// A dataset that was found.
pub struct Chosen {
    /// It.
    pub view: View,
    /// The pool's name.
    pub pool: String,
    /// Its GUID.
    pub guid: u64,
    /// The node that it, or what it is a snapshot of, is.
    pub node: Rc<Node>,
    /// Where more is known of it.
    pub catalog: Rc<Catalog>,
    /// What fields that must be looked up come to, in the order of [`fill`](Selection::fill)'s.
    pub looked_up: Vec<Option<u64>>,
}

/// What a command is about.
pub struct Selection {
    /// The datasets, in order.
    pub chosen: Vec<Chosen>,
    /// Whether a name was not found, or a pool not opened; that was said.
    pub failed: bool,
    /// Whether some could not be had beside those that are there; that was said.
    pub damaged: bool,
}

/// A property to sort by.
pub struct SortColumn {
    /// Which.
    pub field: Field,
    /// Whether the greatest comes first.
    pub descending: bool,
}

/// The kinds of a list of types: `fs,snap`.
///
/// # Errors
/// One is none.
pub fn kinds(types: &[String]) -> Result<Kinds, Failure> {
    let mut kinds = Kinds::NONE;
    for name in types.iter().flat_map(|types| types.split(',')) {
        kinds = kinds.with(match name {
            "filesystem" | "fs" => Kinds::FILE_SYSTEM,
            "volume" | "vol" => Kinds::VOLUME,
            "snapshot" | "snap" => Kinds::SNAPSHOT,
            "bookmark" => Kinds::BOOKMARK,
            "all" => Kinds::ALL,
            other => return Err(Failure::usage(format!("invalid type '{other}'"))),
        });
    }
    Ok(kinds)
}

/// A pool that is open, and its datasets.
struct Open {
    spa: Rc<Spa>,
    catalog: Rc<Catalog>,
    listsnapshots: bool,
}

impl Selection {
    /// Finds datasets. What can't be had is said, and the rest is there.
    ///
    /// # Errors
    /// There are no devices, or one can't be opened.
    pub fn find(
        place: &PoolPlace<'_>,
        names: &[String],
        wanted: Wanted,
    ) -> Result<(Pools, Selection), Failure> {
        let pools = Pools::find(place)?;
        let mut selection = Selection { chosen: Vec::new(), failed: false, damaged: false };
        let mut open: Vec<Open> = Vec::new();
        let all: Vec<String> = match names {
            [] => names_of_all(&pools),
            names => names.to_vec(),
        };
        let recursive = wanted.recursive || names.is_empty();
        let mut seen = BTreeSet::new();
        for name in &all {
            match selection.add(&pools, &mut open, name, Wanted { recursive, ..wanted }) {
                Ok(found) => {
                    let new = found.into_iter().filter(|one| seen.insert(one.view.name.clone()));
                    selection.chosen.extend(new);
                }
                Err(failure) => {
                    let failure = with_what_it_is(failure, pools.disks(), place.devices);
                    say(&format!("spindle: {}", failure.message));
                    selection.failed = true;
                }
            }
        }
        Ok((pools, selection))
    }

    fn add(
        &mut self,
        pools: &Pools,
        open: &mut Vec<Open>,
        name: &str,
        wanted: Wanted,
    ) -> Result<Vec<Chosen>, Failure> {
        check_name(name)?;
        let Some(found) = pools.named(pool_of(name))? else {
            return Err(Error::NoDataset { name: name.into() }.into());
        };
        let at = match open.iter().position(|one| one.spa.guid() == found.guid) {
            Some(at) => at,
            None => {
                if let Some(other) = open.iter().find(|one| one.spa.name() == found.name) {
                    let (pool, other) = (&found.name, other.spa.guid());
                    return Err(Failure::failed(format!(
                        "cannot open '{name}': its pool is called '{pool}', as pool {other} is: name what is of one of them at a time"
                    )));
                }
                pools.tell_apart(found);
                let spa = pools.open_found(found)?;
                open.push(opened(pools, spa)?);
                open.len() - 1
            }
        };
        let one = &open[at];
        let kinds = match wanted.listsnapshots {
            true if one.listsnapshots => wanted.kinds.with(Kinds::SNAPSHOT),
            true => wanted.kinds.without(Kinds::SNAPSHOT),
            false => wanted.kinds,
        };
        // Asked for by the GUID where several pools have the name.
        let full = match name.split_at(pool_of(name).len()) {
            (pool, rest) if pool != one.spa.name() => format!("{}{rest}", one.spa.name()),
            _ => name.to_owned(),
        };
        let allowed = match wanted.recursive {
            true if wanted.kinds.has(Kinds::SNAPSHOT.with(Kinds::BOOKMARK)) => {
                wanted.kinds.with(Kinds::FILE_SYSTEM).with(Kinds::VOLUME)
            }
            true => wanted.kinds.with(Kinds::FILE_SYSTEM),
            false => wanted.kinds,
        };
        let walk = Walk {
            catalog: Rc::clone(&one.catalog),
            pool: one.spa.name().to_owned(),
            guid: found.guid,
            kinds,
            allowed,
            depth: wanted.depth.unwrap_or(u64::MAX),
            recursive: wanted.recursive,
        };
        let called = full.clone();
        let failed = |error: ZfsError| Failure::failed(format!("cannot open '{full}': {error}"));
        match pools.wait(async move { walk.from(&called).await }).map_err(failed)? {
            Found::These(Below { chosen, damaged }) => {
                damaged.iter().for_each(|(name, error)| self.say_damaged(name, error));
                Ok(chosen)
            }
            Found::Nothing => Err(Error::NoDataset { name: full }.into()),
            Found::OtherKind => Err(Failure::failed(format!(
                "cannot open '{full}': operation not applicable to datasets of this type"
            ))),
        }
    }

    fn say_damaged(&mut self, name: &str, error: &ZfsError) {
        say(&format!("spindle: cannot open '{}': {error}", printable::word(name)));
        self.damaged = true;
    }

    /// Works out the fields that must be looked up, for each dataset. Those that can't be are said, and left out.
    pub fn fill(&mut self, pools: &Pools, fields: &[Field]) {
        if fields.iter().any(|field| field.name() == "mounted") {
            self.fill_mounted(pools);
        }
        if fields.iter().any(|field| field.name() == "mountpoint") {
            self.fill_altroot(pools);
        }
        let mut damaged = Vec::new();
        for chosen in &mut self.chosen {
            let (catalog, node) = (Rc::clone(&chosen.catalog), Rc::clone(&chosen.node));
            let (fields, kind) = (fields.to_vec(), chosen.view.kind);
            let numbers = pools.wait(async move {
                let mut numbers = Vec::with_capacity(fields.len());
                for field in &fields {
                    numbers.push(field.look_up(&catalog, &node, kind).await?);
                }
                Ok::<_, ZfsError>(numbers)
            });
            match numbers {
                Ok(numbers) => chosen.looked_up = numbers,
                Err(error) => damaged.push((chosen.view.name.clone(), error)),
            }
        }
        damaged.iter().for_each(|(name, error)| self.say_damaged(name, error));
    }

    /// What mountpoints are below is known to who holds the pool.
    fn fill_altroot(&mut self, pools: &Pools) {
        let mut known: BTreeMap<u64, Option<String>> = BTreeMap::new();
        for chosen in &mut self.chosen {
            let altroot = known.entry(chosen.guid).or_insert_with(|| {
                let found = pools.of_guid(chosen.guid)?;
                let altroot = client::health(pools, found).altroot?;
                Some(altroot.to_string_lossy().into_owned())
            });
            chosen.view.texts.extend(altroot.clone().map(|directory| (ALTROOT, directory)));
        }
    }

    /// What is mounted is known to who holds a pool. One that doesn't say leaves it at no.
    fn fill_mounted(&mut self, pools: &Pools) {
        let mut mounted: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
        for chosen in &mut self.chosen {
            let of = match mounted.entry(chosen.guid) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => {
                    let mounts = match pools.of_guid(chosen.guid) {
                        Some(found) => client::mounts(pools, found).unwrap_or_default(),
                        None => Vec::new(),
                    };
                    place.insert(mounts.into_iter().map(|one| one.dataset).collect())
                }
            };
            if of.contains(&chosen.view.name) {
                chosen.view.numbers.insert("mounted", 1);
            }
        }
    }

    /// Puts the datasets into order.
    pub fn sort(&mut self, columns: &[SortColumn]) {
        self.chosen.sort_by(|a, b| by_columns(&a.view, &b.view, columns));
    }
}

/// A name for each pool: its GUID, which says nothing else; where several are called alike, what they are called, which
/// none of them can be had by.
fn names_of_all(pools: &Pools) -> Vec<String> {
    let called_alike = pools.called_alike();
    let name = |pool: &Rc<FoundPool>| match called_alike.contains_key(&*pool.name) {
        true => pool.name.clone(),
        false => pool.guid.to_string(),
    };
    let mut names: Vec<String> = pools.living().map(name).collect();
    names.dedup();
    names
}

fn opened(pools: &Pools, spa: Rc<Spa>) -> Result<Open, Failure> {
    let pool = Rc::clone(&spa);
    let done = pools.wait(async move {
        let view = pool.view(String::new(), 0).await?;
        let property = PoolProperty::find("listsnapshots");
        let listsnapshots = property.is_some_and(|property| view.is_on(property));
        Ok((Rc::new(pool.catalog(view.space.capacity).await?), listsnapshots))
    });
    let failed =
        |error: ZfsError| Failure::failed(format!("cannot open '{}': {error}", spa.name()));
    let (catalog, listsnapshots) = done.map_err(failed)?;
    Ok(Open { spa, catalog, listsnapshots })
}

struct Walk {
    catalog: Rc<Catalog>,
    pool: String,
    guid: u64,
    kinds: Kinds,
    /// What the named dataset itself may be.
    allowed: Kinds,
    depth: u64,
    recursive: bool,
}

enum Found {
    These(Below),
    Nothing,
    OtherKind,
}

/// What lies at and below a name.
#[derive(Default)]
struct Below {
    chosen: Vec<Chosen>,
    /// Names of what can't be had, and why.
    damaged: Vec<(String, ZfsError)>,
}

impl Walk {
    fn chosen(&self, node: &Rc<Node>, view: View) -> Chosen {
        let (node, catalog) = (Rc::clone(node), Rc::clone(&self.catalog));
        let (pool, guid) = (self.pool.clone(), self.guid);
        Chosen { view, pool, guid, node, catalog, looked_up: Vec::new() }
    }

    async fn from(&self, name: &str) -> Result<Found, ZfsError> {
        let path = name.split(['@', '#']).next().unwrap_or(name);
        let node = self.catalog.find_damaged(path).await?;
        let Some(node) = node else { return Ok(Found::Nothing) };
        if path == name {
            if let Some(error) = node.damage().filter(|_| !self.recursive) {
                return Err(error.clone());
            }
            if !self.allowed.has(node.kind.kinds()) {
                return Ok(Found::OtherKind);
            }
            return self.below(node).await.map(Found::These);
        }
        let is_snapshot = name.contains('@');
        let kind = if is_snapshot { Kinds::SNAPSHOT } else { Kinds::BOOKMARK };
        if !self.allowed.has(kind) {
            return Ok(Found::OtherKind);
        }
        let view = match is_snapshot {
            true => match self.catalog.dsl().find(name).await? {
                Some((_, snapshot)) => Some(self.catalog.snapshot(&node, snapshot).await?),
                None => None,
            },
            false => {
                let marks = self.catalog.bookmarks(&node).await?;
                marks.into_iter().find(|mark| mark.name == name)
            }
        };
        Ok(match view {
            Some(view) => {
                let chosen = vec![self.chosen(&node, view)];
                Found::These(Below { chosen, damaged: Vec::new() })
            }
            None => Found::Nothing,
        })
    }

    async fn below(&self, top: Rc<Node>) -> Result<Below, ZfsError> {
        let mut found = Below::default();
        let mut waiting = vec![Step::Node(0, top)];
        while let Some(step) = waiting.pop() {
            let (depth, node) = match step {
                Step::Node(depth, node) => (depth, node),
                Step::After(node) => {
                    self.add_after(&mut found, &node).await;
                    continue;
                }
            };
            if self.kinds.has(node.kind.kinds()) {
                match self.catalog.view(&node).await {
                    Ok(view) => found.chosen.push(self.chosen(&node, view)),
                    Err(error) => found.damaged.push((node.directory.name.clone(), error)),
                }
            }
            if !self.recursive || depth >= self.depth {
                continue;
            }
            waiting.push(Step::After(Rc::clone(&node)));
            if node.kind == Kind::FileSystem {
                match self.catalog.children_and_damaged(&node).await {
                    Ok(children) => {
                        found.damaged.extend(children.lost);
                        let children = children.nodes.into_iter().rev();
                        waiting.extend(children.map(|child| Step::Node(depth + 1, child)));
                    }
                    Err(error) => {
                        let name = format!("{}/...", node.directory.name);
                        found.damaged.push((name, error));
                    }
                }
            }
        }
        Ok(found)
    }

    /// What comes after all below a node: its snapshots and bookmarks.
    async fn add_after(&self, found: &mut Below, node: &Rc<Node>) {
        let name = &node.directory.name;
        if self.kinds.has(Kinds::SNAPSHOT) {
            match self.catalog.dsl().snapshots(&node.head).await {
                Ok(snapshots) => {
                    for snapshot in snapshots {
                        let name = snapshot.name.clone();
                        match self.catalog.snapshot(node, snapshot).await {
                            Ok(view) => found.chosen.push(self.chosen(node, view)),
                            Err(error) => found.damaged.push((name, error)),
                        }
                    }
                }
                Err(error) => found.damaged.push((format!("{name}@..."), error)),
            }
        }
        if self.kinds.has(Kinds::BOOKMARK) {
            match self.catalog.bookmarks(node).await {
                Ok(marks) => {
                    found.chosen.extend(marks.into_iter().map(|view| self.chosen(node, view)));
                }
                Err(error) => found.damaged.push((format!("{name}#..."), error)),
            }
        }
    }
}

/// What a walk has to do yet.
enum Step {
    Node(u64, Rc<Node>),
    After(Rc<Node>),
}

fn by_columns(a: &View, b: &View, columns: &[SortColumn]) -> Ordering {
    for column in columns {
        let (of_a, of_b) = (column.field.key(a), column.field.key(b));
        let order = match (of_a, of_b) {
            (None, None) => continue,
            (None, Some(_)) => return Ordering::Greater,
            (Some(_), None) => return Ordering::Less,
            (Some(a), Some(b)) => a.cmp(&b),
        };
        if order != Ordering::Equal {
            return if column.descending { order.reverse() } else { order };
        }
    }
    by_name(a, b)
}

fn by_name(a: &View, b: &View) -> Ordering {
    let parts = |view: &View| match view.name.split_once('@') {
        Some((path, _)) => (path.to_owned(), true),
        None => (view.name.clone(), false),
    };
    let age = |view: &View| view.numbers.get("createtxg").copied().unwrap_or(0);
    let ((path_a, at_a), (path_b, at_b)) = (parts(a), parts(b));
    let order = path_a.cmp(&path_b).then(at_a.cmp(&at_b));
    // Snapshots of one dataset: the oldest first.
    if at_a && at_b { order.then(age(a).cmp(&age(b))).then(a.name.cmp(&b.name)) } else { order }
}
