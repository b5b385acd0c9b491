//! All that is shown of a pool's datasets.
//!
//! ```text
//!   Node   a name: its directory, head, and what is set for it and above it
//!   View   a file system, volume, snapshot or bookmark with its properties
//! ```
//!
//! Space:
//! 1. `used` is the directory's: with all below it. `referenced` is the dataset's: what it reaches.
//! 2. `available` goes from the pool's root down: what the pool can give, less what is used, cut by quotas, and
//!    with what is kept free for a dataset added to what its parent has.
//! 3. What was written since a snapshot is worked out beside this.
//!
//! Nodes are kept: what is asked for many datasets is worked out once for each directory.
//!
//! Source: OpenZFS 2.3, `dsl_dir.c`, `dsl_dataset.c`, `dsl_crypt.c`, `zvol.c`, `zfs_vfsops.c`.

use super::property::Stored;
use super::property::effective::{self, Effective};
use super::property::mountpoint;
use super::property::view::{Kind, View};
use super::{DEPTH_MAX, Dataset, Directory, Dsl};
use crate::dmu::Objset;
use crate::error::{Problem, ZfsError};
use crate::zap::Zap;
use async_recursion::async_recursion as boxed;
use rt::Rt;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use zfs_format::dsl::bookmark::{self, Bookmark};
use zfs_format::dsl::dataset::{DslDataset, fields as dataset_fields, flags};
use zfs_format::dsl::dir::{self, FLAG_USED_BREAKDOWN, RESERVED};
use zfs_format::dsl::property::PropertyValue;
use zfs_format::objset::ObjsetKind;
use zfs_format::wire::Record;
use zfs_format::zpl::master;
use zfs_store::ReadBlocks;

/// The volume's table with its size, and its data.
const VOLUME_PROPERTIES: u64 = 2;
const VOLUME_DATA: u64 = 1;
/// The directory that the origin of all file systems lies in.
const ORIGIN: &str = RESERVED[1];

/// A name in the tree.
pub struct Node {
    /// Its directory.
    pub directory: Directory,
    /// Its file system or volume.
    pub head: Dataset,
    /// Which of both; a file system where that can't be told, since its [content can't be had](Node::damage).
    pub kind: Kind,
    /// What is set for it.
    pub set: Vec<Effective>,
    stored: Vec<Stored>,
    objset: Result<Objset, ZfsError>,
    /// Bytes that it could still take.
    available: u64,
}

impl Node {
    /// What it holds.
    ///
    /// # Errors
    /// It can't be had.
    pub(super) fn objset(&self) -> Result<&Objset, ZfsError> {
        self.objset.as_ref().map_err(Clone::clone)
    }

    /// Why what it holds can't be had; nothing where it can.
    pub fn damage(&self) -> Option<&ZfsError> {
        self.objset.as_ref().err()
    }

    /// Where it is mounted by itself: a path, or `legacy` or `none`.
    pub fn mountpoint(&self) -> String {
        mountpoint::of(&self.directory.name, &self.set).0
    }

    /// Whether a child is mounted elsewhere than in the directory of this one.
    pub fn leads_away(&self, child: &Node) -> bool {
        let above = (self.directory.name.as_str(), self.set.as_slice());
        mountpoint::leads_away(above, (&child.directory.name, &child.set))
    }
}

/// What lies right below a node, in the order of names.
#[derive(Default)]
pub struct Children {
    /// Those that are known, with those whose [content can't be had](Node::damage).
    pub nodes: Vec<Rc<Node>>,
    /// Names of the others, and why nothing of them can be had.
    pub lost: Vec<(String, ZfsError)>,
}

impl Children {
    /// All of them.
    ///
    /// # Errors
    /// One can't be had: its name, and why.
    pub fn whole(self) -> Result<Vec<Rc<Node>>, Box<(String, ZfsError)>> {
        let damage =
            |child: &Rc<Node>| Some((child.directory.name.clone(), child.damage()?.clone()));
        match self.lost.into_iter().next().or_else(|| self.nodes.iter().find_map(damage)) {
            Some(damaged) => Err(Box::new(damaged)),
            None => Ok(self.nodes),
        }
    }
}

/// A pool's datasets. See the [module](self).
pub struct Catalog {
    rt: Rt,
    pub(super) dsl: Dsl,
    blocks: Rc<dyn ReadBlocks>,
    /// Bytes that the pool can give to datasets.
    capacity: u64,
    /// The snapshot that every file system begins as, which is no clone's origin.
    empty_origin: u64,
    nodes: RefCell<BTreeMap<u64, Rc<Node>>>,
}

impl Catalog {
    /// The datasets of a pool which can give so many bytes to them.
    ///
    /// # Errors
    /// The root can't be had.
    #[boxed(?Send)]
    pub async fn open(
        rt: &Rt,
        dsl: &Dsl,
        blocks: Rc<dyn ReadBlocks>,
        capacity: u64,
    ) -> Result<Catalog, ZfsError> {
        let root = dsl.root().await?;
        let names = dsl.names(root.head.children).await?;
        let mut empty_origin = 0;
        if let Some((_, number)) = names.iter().find(|(name, _)| name == ORIGIN) {
            let directory = dsl.directory(*number, ORIGIN.to_owned()).await?;
            if let Some(head) = dsl.head(&directory).await? {
                empty_origin = head.head.previous_snapshot;
            }
        }
        let (rt, dsl) = (rt.clone(), dsl.clone());
        Ok(Catalog { rt, dsl, blocks, capacity, empty_origin, nodes: RefCell::default() })
    }

    /// The tree of names.
    pub fn dsl(&self) -> &Dsl {
        &self.dsl
    }

    /// The node with the pool's name.
    ///
    /// # Errors
    /// It can't be had.
    #[boxed(?Send)]
    pub async fn root(&self) -> Result<Rc<Node>, ZfsError> {
        let root = self.top().await?;
        root.objset()?;
        Ok(root)
    }

    async fn top(&self) -> Result<Rc<Node>, ZfsError> {
        let root = self.dsl.root().await?;
        let (number, found) = (root.number, self.node(root, None).await?);
        found.ok_or_else(|| self.dsl.mos().wrong(number, Problem::NoEntry("head dataset")))
    }

    /// The node of a name without `@` or `#`; nothing where there is none.
    ///
    /// # Errors
    /// It can't be had, or something on the way to it.
    #[boxed(?Send)]
    pub async fn find(&self, name: &str) -> Result<Option<Rc<Node>>, ZfsError> {
        let found = self.find_damaged(name).await?;
        if let Some(node) = &found {
            node.objset()?;
        }
        Ok(found)
    }

    /// The same, also where what it holds [can't be had](Node::damage).
    ///
    /// # Errors
    /// Something on the way can't be had.
    #[boxed(?Send)]
    pub async fn find_damaged(&self, name: &str) -> Result<Option<Rc<Node>>, ZfsError> {
        let mut parts = name.split('/');
        let mut node = self.top().await?;
        if parts.next() != Some(node.directory.name.as_str()) {
            return Ok(None);
        }
        for (depth, part) in parts.enumerate() {
            let table = node.directory.head.children;
            if depth >= DEPTH_MAX || table == 0 || RESERVED.contains(&part) {
                return Ok(None);
            }
            let zap = Zap::open(self.dsl.mos().dnode(table).await?).await?;
            let Some(value) = zap.get(part.as_bytes()).await? else { return Ok(None) };
            let wrong = || self.dsl.mos().wrong(table, Problem::Entry("of a child"));
            let number = value.number().ok_or_else(wrong)?;
            let directory = self.dsl.child(&node.directory, part, number).await?;
            match self.node(directory, Some(&node)).await? {
                Some(found) => node = found,
                None => return Ok(None),
            }
        }
        Ok(Some(node))
    }

    /// The nodes right below one, in the order of names.
    ///
    /// # Errors
    /// One can't be had.
    #[boxed(?Send)]
    pub async fn children(&self, of: &Rc<Node>) -> Result<Vec<Rc<Node>>, ZfsError> {
        let mut children = Vec::new();
        for (name, number) in self.dsl.children(&of.directory).await? {
            let directory = self.dsl.child(&of.directory, &name, number).await?;
            if let Some(child) = self.node(directory, Some(of)).await? {
                child.objset()?;
                children.push(child);
            }
        }
        Ok(children)
    }

    /// The same, with those whose [content can't be had](Node::damage), and beside them those of which nothing can.
    ///
    /// # Errors
    /// The table of names can't be had.
    #[boxed(?Send)]
    pub async fn children_and_damaged(&self, of: &Rc<Node>) -> Result<Children, ZfsError> {
        let mut found = Children::default();
        for (name, number) in self.dsl.children(&of.directory).await? {
            let child = match self.dsl.child(&of.directory, &name, number).await {
                Ok(directory) => self.node(directory, Some(of)).await,
                Err(error) => Err(error),
            };
            match child {
                Ok(child) => found.nodes.extend(child),
                Err(error) => found.lost.push((format!("{}/{name}", of.directory.name), error)),
            }
        }
        Ok(found)
    }

    async fn node(
        &self,
        directory: Directory,
        above: Option<&Rc<Node>>,
    ) -> Result<Option<Rc<Node>>, ZfsError> {
        if let Some(known) = self.nodes.borrow().get(&directory.number) {
            return Ok(Some(Rc::clone(known)));
        }
        let Some(head) = self.dsl.head(&directory).await? else { return Ok(None) };
        let stored = self.dsl.stored(&directory).await?;
        let from = above.map(|node| (node.directory.name.as_str(), node.set.as_slice()));
        let set = effective::of_directory(&stored, from);
        let objset = self.objset(&head).await;
        let kind = match &objset {
            Ok(objset) if objset.root().kind == ObjsetKind::Volume => Kind::Volume,
            _ => Kind::FileSystem,
        };
        let available = self.directory_available(&directory, above.map(|node| node.available));
        let node = Rc::new(Node { directory, head, kind, set, stored, objset, available });
        // What can't be had now is looked for again.
        if node.damage().is_none() {
            self.nodes.borrow_mut().insert(node.directory.number, Rc::clone(&node));
        }
        Ok(Some(node))
    }

    async fn objset(&self, dataset: &Dataset) -> Result<Objset, ZfsError> {
        let pointer = &dataset.head.pointer;
        Objset::open(&self.rt, &self.blocks, dataset.number, pointer, None).await
    }

    /// What a directory can take, by itself and all above it.
    fn directory_available(&self, directory: &Directory, above: Option<u64>) -> u64 {
        let head = &directory.head;
        let mut quota = if head.quota == 0 { u64::MAX } else { head.quota };
        let given = match above {
            Some(above) => above.saturating_add(head.reserved.saturating_sub(head.used_bytes)),
            None => {
                quota = quota.min(self.capacity);
                u64::MAX
            }
        };
        quota.saturating_sub(head.used_bytes).min(given)
    }

    /// A node as it is shown.
    ///
    /// # Errors
    /// Something that it refers to can't be had.
    #[boxed(?Send)]
    pub async fn view(&self, node: &Node) -> Result<View, ZfsError> {
        let mut view = View {
            name: node.directory.name.clone(),
            kind: node.kind,
            head_kind: node.kind,
            set: node.set.clone(),
            stored: node.stored.clone(),
            numbers: BTreeMap::new(),
            texts: BTreeMap::new(),
            file_system: BTreeMap::new(),
        };
        let (directory, head) = (&node.directory.head, &node.head.head);
        let own = |name: &str| match node.set.iter().find(|set| set.name == name) {
            Some(Effective { value: PropertyValue::Number(number), .. }) => *number,
            _ => 0,
        };
        let (quota, reserved) = (own("refquota"), own("refreservation"));
        let kept = reserved.saturating_sub(head.unique_bytes);
        let mut available = node.available.saturating_add(kept);
        if quota != 0 {
            available = available.min(quota.saturating_sub(head.referenced_bytes));
        }
        view.numbers.extend([
            ("used", directory.used_bytes),
            ("compressratio", ratio(directory.uncompressed_bytes, directory.compressed_bytes)),
            ("available", available),
            ("quota", directory.quota),
            ("reservation", directory.reserved),
            ("refquota", quota),
            ("refreservation", reserved),
            ("logicalused", directory.uncompressed_bytes),
        ]);
        if directory.flags & FLAG_USED_BREAKDOWN != 0 {
            let [head, snapshots, children, children_reserved, kept] = directory.used_breakdown;
            view.numbers.extend([
                ("usedbydataset", head),
                ("usedbysnapshots", snapshots),
                ("usedbychildren", children.saturating_add(children_reserved)),
                ("usedbyrefreservation", kept),
            ]);
        }
        if let Some(fields) = &node.directory.fields {
            for (name, field) in [
                ("filesystem_count", dir::fields::FILESYSTEM_COUNT),
                ("snapshot_count", dir::fields::SNAPSHOT_COUNT),
            ] {
                view.numbers.extend(fields.number(field).await?.map(|count| (name, count)));
            }
            let changed = fields.get(dir::fields::SNAPSHOTS_CHANGED.as_bytes()).await?;
            let changed = changed.and_then(|value| value.numbers.first().copied());
            view.numbers.insert("snapshots_changed", changed.unwrap_or(0));
        }
        if directory.origin != 0 && directory.origin != self.empty_origin {
            view.texts.insert("origin", self.dataset_name(directory.origin).await?);
        }
        self.add_dataset(&mut view, &node.head, &node.directory).await?;
        self.add_content(&mut view, node.objset()?).await?;
        Ok(view)
    }

    /// The snapshots of a node as they are shown, from the oldest on.
    ///
    /// # Errors
    /// Something that they refer to can't be had.
    #[boxed(?Send)]
    pub async fn snapshots(&self, node: &Node) -> Result<Vec<View>, ZfsError> {
        let mut views = Vec::new();
        for snapshot in self.dsl.snapshots(&node.head).await? {
            views.push(self.snapshot(node, snapshot).await?);
        }
        Ok(views)
    }

    /// A snapshot of a node as it is shown.
    ///
    /// # Errors
    /// Something that it refers to can't be had.
    #[boxed(?Send)]
    pub async fn snapshot(&self, node: &Node, snapshot: Dataset) -> Result<View, ZfsError> {
        let stored = self.dsl.stored_on_snapshot(&snapshot).await?;
        let set = effective::of_snapshot(&stored, &node.directory.name, &node.set);
        let head = &snapshot.head;
        let mut view = View {
            name: snapshot.name.clone(),
            kind: Kind::Snapshot,
            head_kind: node.kind,
            set,
            stored,
            numbers: BTreeMap::new(),
            texts: BTreeMap::new(),
            file_system: BTreeMap::new(),
        };
        view.numbers.extend([
            ("used", head.unique_bytes),
            ("compressratio", ratio(head.uncompressed_bytes, head.compressed_bytes)),
            ("numclones", head.children.saturating_sub(1)),
        ]);
        if let Some(clones) = self.clones(head).await? {
            view.texts.insert("clones", clones);
        }
        self.add_dataset(&mut view, &snapshot, &node.directory).await?;
        let objset = self.objset(&snapshot).await?;
        self.add_content(&mut view, &objset).await?;
        Ok(view)
    }

    /// The bookmarks of a node as they are shown, in the order of names.
    ///
    /// # Errors
    /// Their table can't be had.
    #[boxed(?Send)]
    pub async fn bookmarks(&self, node: &Node) -> Result<Vec<View>, ZfsError> {
        let Some(fields) = &node.head.fields else { return Ok(Vec::new()) };
        let Some(table) = fields.number(dataset_fields::BOOKMARKS).await? else {
            return Ok(Vec::new());
        };
        let zap = Zap::open(self.dsl.mos().dnode(table).await?).await?;
        let mut views = Vec::new();
        for entry in zap.entries().await? {
            let found = Bookmark::from_numbers(&entry.value.numbers);
            let found = found.map_err(|error| zap.dnode().wrong(error))?;
            let mut numbers = BTreeMap::from([
                ("guid", found.guid),
                ("createtxg", found.creation_txg),
                ("creation", found.creation_time),
                ("ivsetguid", found.ivset_guid),
            ]);
            if found.flags & bookmark::FLAG_HAS_FREED != 0 {
                let [referenced, _, uncompressed] = found.referenced;
                numbers.extend([("referenced", referenced), ("logicalreferenced", uncompressed)]);
            }
            views.push(View {
                name: format!("{}#{}", node.directory.name, entry.text()),
                kind: Kind::Bookmark,
                head_kind: node.kind,
                set: Vec::new(),
                stored: Vec::new(),
                numbers,
                texts: BTreeMap::new(),
                file_system: BTreeMap::new(),
            });
        }
        views.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(views)
    }

    /// What heads and snapshots have alike.
    async fn add_dataset(
        &self,
        view: &mut View,
        dataset: &Dataset,
        directory: &Directory,
    ) -> Result<(), ZfsError> {
        let head = &dataset.head;
        let references = match head.user_references {
            0 => 0,
            table => Zap::open(self.dsl.mos().dnode(table).await?).await?.len(),
        };
        view.numbers.extend([
            ("refcompressratio", ratio(head.uncompressed_bytes, head.compressed_bytes)),
            ("logicalreferenced", head.uncompressed_bytes),
            ("referenced", head.referenced_bytes),
            ("creation", head.creation_time),
            ("createtxg", head.creation_txg),
            ("guid", head.guid),
            ("unique", head.unique_bytes),
            ("objsetid", dataset.number),
            ("userrefs", references),
            ("defer_destroy", u64::from(head.flags & flags::DEFER_DESTROY != 0)),
            ("inconsistent", head.flags & flags::INCONSISTENT),
        ]);
        if head.previous_snapshot != 0 {
            let previous = self.bare(head.previous_snapshot).await?;
            let written = self.written(head, &previous).await?;
            view.numbers.insert("written", written);
        }
        if let Some(key) = self.dsl.crypto_key(directory).await? {
            self.add_key(view, dataset, key).await?;
        }
        Ok(())
    }

    async fn add_key(&self, view: &mut View, dataset: &Dataset, key: u64) -> Result<(), ZfsError> {
        use zfs_format::dsl::crypto_key::names;
        let zap = Zap::open(self.dsl.mos().dnode(key).await?).await?;
        // The key is not loaded by who only lists.
        view.numbers.insert("keystatus", 1);
        for (property, field) in [
            ("encryption", names::SUITE),
            ("keyguid", names::GUID),
            ("keyformat", "keyformat"),
            ("pbkdf2salt", "pbkdf2salt"),
            ("pbkdf2iters", "pbkdf2iters"),
        ] {
            view.numbers.extend(zap.number(field).await?.map(|number| (property, number)));
        }
        if let Some(fields) = &dataset.fields {
            let guid = fields.number(dataset_fields::IVSET_GUID).await?;
            view.numbers.extend(guid.map(|guid| ("ivsetguid", guid)));
        }
        if let Some(root) = zap.number(names::ROOT_DIRECTORY).await? {
            view.texts.insert("encryptionroot", self.directory_name(root).await?);
        }
        Ok(())
    }

    /// What the file system or volume itself says. Of an encrypted one too: these objects are not encrypted.
    async fn add_content(&self, view: &mut View, objset: &Objset) -> Result<(), ZfsError> {
        match objset.root().kind {
            ObjsetKind::FileSystem => {
                let zap = Zap::open(objset.dnode_without_bonus(master::OBJECT).await?).await?;
                view.file_system.extend(zap.number(master::VERSION).await?.map(|n| ("version", n)));
                for name in ["normalization", "utf8only", "casesensitivity"] {
                    let number = zap.number(name).await?.unwrap_or(0);
                    view.file_system.insert(name, number);
                }
            }
            ObjsetKind::Volume => {
                let zap = Zap::open(objset.dnode_without_bonus(VOLUME_PROPERTIES).await?).await?;
                view.numbers.extend(zap.number("size").await?.map(|size| ("volsize", size)));
                if view.kind == Kind::Volume {
                    let data = objset.dnode_without_bonus(VOLUME_DATA).await?;
                    view.numbers.insert("volblocksize", data.block_bytes());
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The names of a snapshot's clones, with commas between; nothing where they can't be told.
    async fn clones(&self, head: &DslDataset) -> Result<Option<String>, ZfsError> {
        if head.next_clones == 0 {
            return Ok(None);
        }
        let zap = Zap::open(self.dsl.mos().dnode(head.next_clones).await?).await?;
        // Old pools lack entries; then nothing is said.
        if zap.is_empty() || Some(zap.len()) != head.children.checked_sub(1) {
            return Ok(None);
        }
        let mut names = Vec::new();
        for entry in zap.entries().await? {
            let Some(number) = entry.number() else { continue };
            // What stands there may be a snapshot of the clone.
            names.push(self.directory_name(self.bare(number).await?.dir).await?);
        }
        Ok(Some(names.join(",")))
    }

    /// The whole name of a dataset's object.
    ///
    /// # Errors
    /// Something on the way up can't be had.
    #[boxed(?Send)]
    pub async fn dataset_name(&self, number: u64) -> Result<String, ZfsError> {
        let head = self.bare(number).await?;
        let directory = self.directory_name(head.dir).await?;
        let above = self.dsl.directory(head.dir, String::new()).await?;
        if above.head.head_dataset == number {
            return Ok(directory);
        }
        let of = self.bare(above.head.head_dataset).await?;
        let names = self.dsl.names(of.snapshot_names).await?;
        let name = names.into_iter().find(|(_, known)| *known == number).map(|(name, _)| name);
        let missing = || self.dsl.mos().wrong(number, Problem::NoEntry("name"));
        Ok(format!("{directory}@{}", name.ok_or_else(missing)?))
    }

    /// The whole name of a directory's object.
    async fn directory_name(&self, number: u64) -> Result<String, ZfsError> {
        let mut parts = Vec::new();
        let mut at = number;
        for _ in 0..=DEPTH_MAX {
            if let Some(known) = self.nodes.borrow().get(&at) {
                parts.push(known.directory.name.clone());
                break;
            }
            let directory = self.dsl.directory(at, String::new()).await?;
            if directory.head.parent == 0 {
                parts.push(self.dsl.pool().to_owned());
                break;
            }
            let above = self.dsl.directory(directory.head.parent, String::new()).await?;
            let names = self.dsl.names(above.head.children).await?;
            let missing = || self.dsl.mos().wrong(at, Problem::NoEntry("name"));
            let name = names.into_iter().find(|(_, known)| *known == at).ok_or_else(missing)?;
            parts.push(name.0);
            at = directory.head.parent;
        }
        parts.reverse();
        Ok(parts.join("/"))
    }
}

/// In hundredths; 1.00 of nothing.
fn ratio(uncompressed: u64, compressed: u64) -> u64 {
    let hundredths = u128::from(uncompressed) * 100;
    hundredths.checked_div(compressed.into()).map_or(100, |ratio| ratio.min(u64::MAX.into()) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_of_nothing_is_one() {
        assert_eq!((ratio(0, 0), ratio(764, 100), ratio(u64::MAX, 1)), (100, 764, u64::MAX));
    }
}
