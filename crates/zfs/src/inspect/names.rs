//! Names for what is damaged: datasets and snapshots, and the paths of files in them.
//!
//! A file is known by its object; its name stands in the directory that it says it lies in, and so on up. Where a directory on the way
//! can't be read, the object stands for the name that it lost: `/photos/<0x33>`. What has no name (it was removed, or is no file, or
//! its dataset's key is missing) has no path.
//!
//! **What is noted of a head.** With the feature `head_errlog` a pool notes a damaged block by the head that it was reached from, also
//! where only a snapshot still has it. So the head and its snapshots are asked, each whether the block that it has there was born in
//! the group that is noted. Snapshots may be many: no more than `LOOKUPS_MAX` blocks are looked at.
//!
//! Source: OpenZFS, `spa_errlog.c` (`check_filesystem`), `zfs_znode.c` (`zfs_obj_to_path_impl`).

use super::scrub::path_of;
use super::state::DamagedBlock;
use crate::dmu::Objset;
use crate::dsl::Dataset;
use crate::spa::Spa;
use crate::zpl::FileSystem;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Blocks of heads and snapshots that are looked at for all that is noted: each may cost a read.
const LOOKUPS_MAX: usize = 1 << 16;
/// What the pool's own objects are called, as OpenZFS does.
const METADATA: &[u8] = b"<metadata>";

/// See the [module](self).
pub struct Names<'a> {
    spa: &'a Spa,
    datasets: Rc<BTreeMap<u64, String>>,
    /// Nothing for what is no file system, or can't be had.
    systems: BTreeMap<u64, Option<FileSystem>>,
    paths: BTreeMap<(u64, u64), Option<Vec<u8>>>,
    /// Snapshots of heads.
    snapshots: BTreeMap<u64, Rc<Vec<Dataset>>>,
    left: usize,
}

impl<'a> Names<'a> {
    /// Of the datasets and snapshots of a pool.
    pub async fn of(spa: &'a Spa) -> Names<'a> {
        let datasets = Rc::new(spa.dataset_names().await);
        let (systems, paths, snapshots) = Default::default();
        Names { spa, datasets, systems, paths, snapshots, left: LOOKUPS_MAX }
    }

    /// The names of all datasets and snapshots, by the objects of their objsets.
    pub fn datasets(&self) -> &Rc<BTreeMap<u64, String>> {
        &self.datasets
    }

    /// The file system of an objset; nothing where it is none, or can't be had.
    pub async fn system(&mut self, objset: u64) -> Option<FileSystem> {
        if let Entry::Vacant(place) = self.systems.entry(objset) {
            let opened = match self.datasets.get(&objset) {
                Some(name) => open(self.spa, name).await,
                None => None,
            };
            let system = match opened {
                Some(objset) => FileSystem::open(&objset).await.ok(),
                None => None,
            };
            place.insert(system);
        }
        self.systems.get(&objset).cloned().flatten()
    }

    /// The path of an object of an objset; nothing where it has none.
    pub async fn path(&mut self, objset: u64, object: u64) -> Option<Vec<u8>> {
        if let Some(known) = self.paths.get(&(objset, object)) {
            return known.clone();
        }
        let path = match self.system(objset).await {
            Some(system) => path_of(&system, object).await,
            None => None,
        };
        self.paths.insert((objset, object), path.clone());
        path
    }

    /// What is noted as damaged, each file once for each dataset and snapshot that has it: `tank/home@monday:/a/b`.
    pub async fn of_damaged(&mut self, damaged: &BTreeSet<DamagedBlock>) -> Vec<Vec<u8>> {
        let (mut places, mut all) = (BTreeSet::new(), Vec::new());
        for block in damaged {
            for objset in self.having(block).await {
                if places.insert((objset, block.object)) {
                    let path = self.path(objset, block.object).await;
                    all.push(self.shown(objset, block.object, path));
                }
            }
        }
        all
    }

    fn shown(&self, objset: u64, object: u64, path: Option<Vec<u8>>) -> Vec<u8> {
        let dataset = match self.datasets.get(&objset) {
            _ if objset == 0 => METADATA.to_vec(),
            Some(name) => name.clone().into_bytes(),
            // One that was destroyed since has no name any more.
            None => format!("<{objset:#x}>").into_bytes(),
        };
        let path = path.unwrap_or_else(|| format!("<{object:#x}>").into_bytes());
        [&dataset[..], b":", &path].concat()
    }

    /// The objsets that have a block: the one that is noted, where that is all that is known.
    async fn having(&mut self, block: &DamagedBlock) -> Vec<u64> {
        let head = block.dataset;
        let Some(birth) = block.birth.filter(|_| self.datasets.contains_key(&head)) else {
            return vec![head];
        };
        let mut having = Vec::new();
        if self.has(head, block, birth).await {
            having.push(head);
        }
        for snapshot in &*self.snapshots(head).await {
            // Of a block above the data it is not known until when it was there.
            let is_enough = block.level != 0 && !having.is_empty();
            if is_enough || self.left == 0 {
                break;
            }
            if snapshot.head.creation_txg >= birth && self.has(snapshot.number, block, birth).await
            {
                having.push(snapshot.number);
            }
        }
        if having.is_empty() { vec![head] } else { having }
    }

    /// Whether an objset has the block that was born then, as far as that can be told.
    async fn has(&mut self, objset: u64, block: &DamagedBlock, birth: u64) -> bool {
        self.left = self.left.saturating_sub(1);
        let Some(name) = self.datasets.get(&objset) else { return false };
        let Some(opened) = open(self.spa, name).await else { return false };
        let Ok(dnode) = opened.dnode_without_bonus(block.object).await else { return false };
        if block.level == 0 {
            let pointer = dnode.pointer(block.block).await;
            return pointer.ok().flatten().is_some_and(|pointer| pointer.logical_birth() == birth);
        }
        // A file that was made before the block was born is the one that had it.
        match self.system(objset).await {
            Some(system) => {
                let node = system.node(block.object).await;
                node.is_ok_and(|node| node.attributes.generation <= birth)
            }
            None => true,
        }
    }

    async fn snapshots(&mut self, head: u64) -> Rc<Vec<Dataset>> {
        if let Some(known) = self.snapshots.get(&head) {
            return Rc::clone(known);
        }
        let found = match self.datasets.get(&head) {
            Some(name) => self.spa.dsl().find(name).await.ok().flatten(),
            None => None,
        };
        let snapshots = match found {
            Some((_, head)) => self.spa.dsl().snapshots(&head).await.unwrap_or_default(),
            None => Vec::new(),
        };
        let snapshots = Rc::new(snapshots);
        self.snapshots.insert(head, Rc::clone(&snapshots));
        snapshots
    }
}

async fn open(spa: &Spa, name: &str) -> Option<Objset> {
    let (directory, dataset) = spa.dsl().find(name).await.ok()??;
    spa.objset(&directory, &dataset).await.ok()
}
