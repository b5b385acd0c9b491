//! Reading every copy of every block, and saying what is wrong: a scrub that writes nothing.
//!
//! The walk gives blocks, and each is checked on all of its places with all their redundancy. They are checked in batches
//! ([`Zio::verify_all`](zfs_store::Zio::verify_all)) of up to [`BYTES_MAX`] and [`BLOCKS_MAX`], each in the order of places on the
//! vdevs, while the walk gathers the next. Errors are counted where they belong, on the leaves; a block is *damaged* only if no
//! place gives it.
//!
//! **Rules.**
//!
//! 1. Checksums are of what is stored, so no key is needed.
//! 2. Blocks that wait to be freed are left out, and the chains of intent logs, which end at a wrong checksum anyway.
//! 3. What can't be visited, because a block above it is damaged, is named by that block.
//! 4. A deduplicated or cloned block is checked as often as it is met.

use super::walk::{Reached, Visited};
use crate::dsl::Dataset;
use crate::error::ZfsError;
use crate::spa::Spa;
use crate::zap::Cursor;
use crate::zpl::{FileSystem, Node};
use async_recursion::async_recursion as boxed;
use futures_util::stream::{FuturesUnordered, StreamExt};
use rt::Priority;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use zfs_format::block_pointer::BlockPointer;
use zfs_format::checksum::ChecksumFunction;
use zfs_store::{BlockErrorKind, BlockRequest, Bookmark, Verified};

/// Bytes of a batch, one copy of each block. The longer a batch, the longer the stretches that are read; this much of it is
/// never in memory at once.
pub const BYTES_MAX: u64 = 64 << 20;
/// Blocks of a batch: what is known of each takes some 400 bytes.
pub const BLOCKS_MAX: usize = 8192;
/// Batches that are being checked at a time, while the next is gathered.
const BATCHES_MAX: usize = 2;
/// Damaged blocks that are told in full; the rest is counted.
pub const TOLD_MAX: usize = 10_000;
/// What stands for the hidden directory of extended attributes, as OpenZFS has it.
const HIDDEN_DIRECTORY: &[u8] = b"<xattrdir>";
/// Directories above a file at the most, when its path is looked for.
const DEPTH_MAX: usize = 256;

/// How far a scrub is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Blocks that were checked.
    pub blocks: u64,
    /// Bytes that they take on all devices.
    pub allocated: u64,
}

/// A block that can't be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// Where it stands.
    pub at: Bookmark,
    /// What points to it there.
    pub pointer: BlockPointer,
    /// Why.
    pub kind: BlockErrorKind,
}

/// What a scrub found.
#[derive(Clone, Debug, Default)]
pub struct Scrubbed {
    /// What was checked.
    pub progress: Progress,
    /// Blocks that can't be had, in the order in which they were met, as far as they are told.
    pub damaged: Vec<Damaged>,
    /// How many there are.
    pub damaged_count: u64,
    /// What hides others: they were not visited.
    pub hidden: Vec<ZfsError>,
    /// Places that can't give their block, though another can.
    pub lost_places: u64,
}

impl Scrubbed {
    /// Whether everything can be had.
    pub fn is_whole(&self) -> bool {
        self.damaged_count == 0 && self.hidden.is_empty()
    }

    fn add(&mut self, request: &BlockRequest, verified: Verified) {
        self.progress.blocks += 1;
        self.progress.allocated += request.pointer.allocated();
        self.lost_places += u64::from(verified.lost_places);
        if let Some(kind) = verified.damage {
            self.damaged_count += 1;
            if self.damaged.len() < TOLD_MAX {
                let (at, pointer) = (request.at, request.pointer);
                self.damaged.push(Damaged { at, pointer, kind });
            }
        }
    }

    fn hide(&mut self, error: ZfsError) {
        if self.hidden.len() < TOLD_MAX {
            self.hidden.push(error);
        }
    }
}

impl Spa {
    /// Checks every copy of every block; says how far it is after each batch.
    pub async fn scrub(&self, mut progress: impl FnMut(Progress)) -> Scrubbed {
        let mut found = Scrubbed::default();
        let mut walk = self.walk();
        let mut under_way = FuturesUnordered::new();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        loop {
            let next = walk.next().await;
            let is_last = next.is_none();
            match next {
                None => {}
                Some(Err(error)) => found.hide(error),
                Some(Ok(mut visited)) => {
                    if let Some(problem) = visited.problem.take() {
                        found.hide(problem);
                    }
                    if is_checked(&visited) {
                        bytes += visited.pointer.physical_size();
                        let mut request = BlockRequest::new(visited.pointer, visited.at);
                        request.priority = Priority::Background;
                        batch.push(request);
                    }
                }
            }
            if is_last || bytes >= BYTES_MAX || batch.len() >= BLOCKS_MAX {
                bytes = 0;
                let (zio, batch) = (Rc::clone(self.zio()), std::mem::take(&mut batch));
                under_way.push(self.rt().spawn(async move {
                    let verified = zio.verify_all(&batch).await;
                    (batch, verified)
                }));
            }
            while is_last || under_way.len() > BATCHES_MAX {
                let Some((batch, verified)) = under_way.next().await else { break };
                assert_eq!(batch.len(), verified.len(), "each block of a batch was checked");
                for (request, verified) in batch.iter().zip(verified) {
                    found.add(request, verified);
                }
                progress(found.progress);
            }
            if is_last {
                break;
            }
        }
        found.damaged.sort_by_key(|damaged| damaged.at);
        found
    }

    /// The names of all datasets and snapshots, by the objects of their objsets; without those that can't be had.
    #[boxed(?Send)]
    pub async fn dataset_names(&self) -> BTreeMap<u64, String> {
        let mut names = BTreeMap::from([(0, "the pool itself".to_owned())]);
        let Ok(root) = self.dsl().root().await else { return names };
        let Ok(directories) = self.dsl().below(root).await else { return names };
        for directory in directories {
            let Ok(Some(head)) = self.dsl().head(&directory).await else { continue };
            names.insert(head.number, head.name.clone());
            let snapshots = self.dsl().snapshots(&head).await.unwrap_or_default();
            names.extend(snapshots.into_iter().map(|Dataset { number, name, .. }| (number, name)));
        }
        names
    }
}

/// Whether a scrub has anything to read of it.
fn is_checked(visited: &Visited) -> bool {
    let function = visited.pointer.checksum_function();
    let is_chain = matches!(function, Some(ChecksumFunction::Zilog | ChecksumFunction::Zilog2));
    visited.reached != Reached::Freed && !visited.pointer.is_embedded() && !is_chain
}

/// The path of an object of a file system by its parents, from the root on; nothing where that can't be found. A name that stands in what
/// can't be read is told by the object's number; files of a hidden directory stand below the file whose extended attributes they are.
#[boxed(?Send)]
pub async fn path_of(files: &FileSystem, object: u64) -> Option<Vec<u8>> {
    let mut parts: Vec<Vec<u8>> = Vec::new();
    let mut node = files.node(object).await.ok()?;
    if node.attributes.links == 0 {
        return None;
    }
    let mut above = BTreeSet::new();
    for _ in 0..DEPTH_MAX {
        // Forged directories may lie in a circle.
        if !above.insert(node.number()) {
            return None;
        }
        if node.number() == files.root_number() {
            parts.reverse();
            return Some([b"/".as_slice(), &parts.join(b"/".as_slice())].concat());
        }
        let parent = files.node(node.attributes.parent).await.ok()?;
        parts.push(match parent.attributes.extended_attributes == node.number() {
            true => HIDDEN_DIRECTORY.to_vec(),
            false => match name_in(files, &parent, node.number()).await {
                Ok(name) => name?,
                Err(_) => format!("<{:#x}>", node.number()).into_bytes(),
            },
        });
        node = parent;
    }
    None
}

/// The name that a directory has for an object; nothing where it has none.
async fn name_in(
    files: &FileSystem,
    directory: &Node,
    object: u64,
) -> Result<Option<Vec<u8>>, ZfsError> {
    let mut cursor = Cursor::default();
    loop {
        let names = files.list(directory, cursor).await?;
        // A table that leads back to where it was would never end.
        let next = names.last().map(|last| last.next).filter(|next| *next > cursor);
        if let Some(name) = names.into_iter().find(|name| name.entry.object == object) {
            return Ok(Some(name.name));
        }
        match next {
            Some(next) => cursor = next,
            None => return Ok(None),
        }
    }
}
