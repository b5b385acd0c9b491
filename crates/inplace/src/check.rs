//! Walks everything and compares: what points to blocks and inodes, and what the maps say.
//!
//! Rules: each block belongs to one owner (a group's metadata, an inode's data or tables, a directory)
//! or is free; bitmaps and descriptors say the same; each inode in use has one name, or is an orphan, and
//! its record is sound; no name leads to a free inode; sizes of directories fit their blocks.
//!
//! It runs on a mounted file system, after a sync, and keeps others out meanwhile. It repairs nothing:
//! this is a model, and what it finds is a bug.

use crate::core::{Core, Outcome};
use crate::filesystem::FileSystem;
use crate::group::bits;
use crate::inode::{Inode, Kind};
use crate::layout::Extent;
use crate::mapping::{Root, What};
use crate::settings::{CHUNK_INODES, Mapping};
use rt::{TreeError, TreeOp};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;

/// Faults that are listed; more are counted only.
const FAULTS_LISTED_MAX: usize = 100;

/// Something that does not agree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the texts name")]
pub enum Fault {
    #[error("block {block} belongs to two owners, one of them {owner}")]
    BlockTwice { block: u64, owner: String },
    #[error("block {block} of {owner} lies where no data can lie")]
    BlockStray { block: u64, owner: String },
    #[error("the bitmap of region {region} has {used} blocks in use; {owned} have an owner")]
    Bitmap { region: u32, used: u64, owned: u64 },
    #[error("the descriptor of region {region} says {said} free blocks, the bitmap {free}")]
    FreeBlocks { region: u32, said: u32, free: u64 },
    #[error("the descriptor of group {group} says {said} directories, there are {found}")]
    Directories { group: u32, said: u32, found: u32 },
    #[error("inode {inode} is in use and has neither a name nor a slot among the orphans")]
    InodeLost { inode: u64 },
    #[error("inode {inode} has a name ({name}) and is not in use")]
    InodeFree { inode: u64, name: String },
    #[error("inode {inode} has {found} names and says {links}")]
    Links { inode: u64, found: u32, links: u32 },
    #[error("inode {inode} says {said} blocks and has {found}")]
    Blocks { inode: u64, said: u64, found: u64 },
    #[error("inode {inode} is a file where its name says directory, or the reverse")]
    Kind { inode: u64 },
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Files, those without a name that are still open among them.
    pub files: u64,
    /// Directories, with the root.
    pub directories: u64,
    /// Blocks in use, without the tables before the groups and the journal.
    pub blocks_used: u64,
    /// What does not agree.
    pub faults: Vec<Fault>,
    /// How many faults there are, with those not listed.
    pub fault_count: u64,
}

struct Walk {
    report: CheckReport,
    /// Extents that have an owner, by region: start to length.
    owned: BTreeMap<u32, BTreeMap<u64, u64>>,
    names: BTreeMap<u64, u32>,
    directories: BTreeMap<u32, u32>,
}

impl Walk {
    fn fault(&mut self, fault: Fault) {
        self.report.fault_count += 1;
        if self.report.faults.len() < FAULTS_LISTED_MAX {
            self.report.faults.push(fault);
        }
    }

    /// Notes the owner of blocks.
    fn own(&mut self, core: &Core, extent: Extent, owner: &str) {
        let mut start = extent.start;
        while start < extent.end() {
            let Some(region) = core.shape.region_of(start) else {
                self.fault(Fault::BlockStray { block: start, owner: owner.to_owned() });
                return;
            };
            let len = (extent.end() - start).min(core.shape.region(region).end() - start);
            let owned = self.owned.entry(region).or_default();
            let before = owned.range(..=start).next_back().map(|(s, len)| s + len);
            let after = owned.range(start..).next().map(|(s, _)| *s);
            if before.is_some_and(|end| end > start) || after.is_some_and(|s| s < start + len) {
                self.fault(Fault::BlockTwice { block: start, owner: owner.to_owned() });
            } else {
                owned.insert(start, len);
                self.report.blocks_used += len;
            }
            start += len;
        }
    }
}

impl FileSystem {
    /// Checks everything. See the [module](self).
    ///
    /// # Errors
    /// When something can't be read, or is damaged so that the walk can't go on.
    pub async fn check(&self) -> Result<CheckReport, TreeError> {
        let core = self.core();
        let checked = async {
            core.sync_all().await?;
            let _namespace = core.namespace.write().await;
            // What the first commit's frees released is entered by now.
            core.commit_metadata(core.journal.running()).await?;
            core.check_all().await
        };
        checked.await.map_err(|kind| TreeError {
            op: TreeOp::Status,
            path: PathBuf::from(&*core.name),
            kind,
        })
    }
}

impl Core {
    async fn check_all(self: &Rc<Self>) -> Outcome<CheckReport> {
        let mut walk = Walk {
            report: CheckReport::default(),
            owned: BTreeMap::new(),
            names: BTreeMap::new(),
            directories: BTreeMap::new(),
        };
        let in_use = self.check_groups(&mut walk).await?;
        // Every inode that is in use, and those that names lead to.
        let mut seen = BTreeSet::new();
        walk.names.insert(self.root, 1);
        let mut to_see = vec![self.root];
        while let Some(number) = to_see.pop() {
            if !seen.insert(number) {
                continue;
            }
            let inode = self.inode(number).await?;
            self.check_inode(&mut walk, &inode).await?;
            if inode.kind != Kind::Directory {
                continue;
            }
            for entry in self.all_names(&inode).await? {
                if !in_use.contains(&entry.inode) {
                    let (inode, name) = (entry.inode, entry.name);
                    walk.fault(Fault::InodeFree { inode, name });
                    continue;
                }
                *walk.names.entry(entry.inode).or_default() += 1;
                if self.inode(entry.inode).await?.kind != entry.kind {
                    walk.fault(Fault::Kind { inode: entry.inode });
                }
                to_see.push(entry.inode);
            }
        }
        let orphans = self.inodes.orphans();
        for number in in_use {
            if orphans.contains(&number) {
                let inode = self.inode(number).await?;
                self.check_inode(&mut walk, &inode).await?;
                continue;
            }
            let found = walk.names.get(&number).copied().unwrap_or(0);
            if found == 0 {
                walk.fault(Fault::InodeLost { inode: number });
                continue;
            }
            let links = self.inode(number).await?.body.borrow().links;
            if links != found {
                walk.fault(Fault::Links { inode: number, found, links });
            }
        }
        self.check_maps(&mut walk).await?;
        Ok(walk.report)
    }

    /// The groups' own metadata; returns the inodes in use.
    async fn check_groups(&self, walk: &mut Walk) -> Outcome<BTreeSet<u64>> {
        let mut in_use = BTreeSet::new();
        for group in 0..self.shape.groups {
            let (start, len) = (self.shape.group_start(group), self.shape.group_metadata());
            if self.descriptor(self.shape.first_region(group)).has_bitmap {
                walk.own(self, Extent { start, len }, "the group");
            }
            for block in self.map_blocks_of(group).await? {
                walk.own(self, Extent { start: block, len: 1 }, "the inode map");
            }
            for (chunk, free) in self.chunks_of(group).await? {
                if self.shape.table_inodes == 0 {
                    let len = self.shape.chunk_blocks();
                    walk.own(self, Extent { start: chunk, len }, "a chunk of inodes");
                }
                let first = chunk * self.shape.inodes_per_block();
                let used = (0..CHUNK_INODES).filter(|slot| free >> slot & 1 == 0);
                in_use.extend(used.map(|slot| first + slot));
            }
        }
        Ok(in_use)
    }

    async fn check_inode(&self, walk: &mut Walk, inode: &Inode) -> Outcome<()> {
        let owner = format!("inode {}", inode.number);
        let mut found = 0;
        match self.settings.mapping {
            Mapping::Extents => {
                self.load_extents(inode).await?;
                let body = inode.body.borrow();
                let Root::Extents(list) = &body.root else { unreachable!("one form in a tree") };
                for extent in list.all() {
                    walk.own(self, extent, &owner);
                    found += extent.len;
                }
                for block in list.chain() {
                    walk.own(self, Extent { start: *block, len: 1 }, &owner);
                    found += 1;
                }
            }
            Mapping::Indirect => {
                for table in self.tables_of(inode).await? {
                    walk.own(self, Extent { start: table, len: 1 }, &owner);
                    found += 1;
                }
                let end = crate::mapping::file_blocks_max(&self.shape, self.settings.mapping);
                let mut at = 0;
                while at < end {
                    let run = self.lookup(inode, at, end - at).await?;
                    if let What::At(start) = run.what {
                        walk.own(self, Extent { start, len: run.len }, &owner);
                        found += run.len;
                    }
                    at += run.len;
                }
            }
        }
        let said = inode.body.borrow().blocks;
        if said != found {
            walk.fault(Fault::Blocks { inode: inode.number, said, found });
        }
        match inode.kind {
            Kind::File => walk.report.files += 1,
            Kind::Directory => {
                walk.report.directories += 1;
                let block = inode.number / self.shape.inodes_per_block();
                let group = self.shape.group_of_region(self.shape.region_of(block).unwrap_or(0));
                *walk.directories.entry(group).or_default() += 1;
            }
        }
        Ok(())
    }

    /// Bitmaps and descriptors against what has an owner.
    async fn check_maps(&self, walk: &mut Walk) -> Outcome<()> {
        for number in 0..self.shape.regions {
            let descriptor = self.descriptor(number);
            let region = self.shape.region(number);
            let extents = walk.owned.remove(&number).unwrap_or_default();
            let owned: u64 = extents.values().sum();
            let metadata =
                if descriptor.has_bitmap { 0 } else { self.shape.region_metadata(number) };
            let mut used = 0;
            if descriptor.has_bitmap {
                let bitmap = self.block(self.shape.bitmap_block(number)).await?;
                let bytes = bitmap.bytes();
                used = bits(&bytes, 0, region.len, true);
                let all_set = extents.iter().all(|(start, len)| {
                    let from = start - region.start;
                    bits(&bytes, from, from + len, true) == *len
                });
                if !all_set || used != owned {
                    walk.fault(Fault::Bitmap { region: number, used, owned });
                }
            } else if owned > 0 {
                walk.fault(Fault::Bitmap { region: number, used: 0, owned });
            }
            let free = region.len - metadata - used;
            if u64::from(descriptor.free_blocks) != free {
                let said = descriptor.free_blocks;
                walk.fault(Fault::FreeBlocks { region: number, said, free });
            }
        }
        for group in 0..self.shape.groups {
            let said = self.descriptor(self.shape.first_region(group)).directories;
            let found = walk.directories.get(&group).copied().unwrap_or(0);
            if said != found {
                walk.fault(Fault::Directories { group, said, found });
            }
        }
        Ok(())
    }
}
