//! What a directory and all below it take: the sums that are changed together, up to the root.
//!
//! A directory says how much it takes and which of its parts do. Of a child with a reservation the directory above counts at
//! least that; what the child has not used of it is a part of its own.
//!
//! Source: OpenZFS, `dsl_dir.c` (`dsl_dir_diduse_space`, `dsl_dir_diduse_transfer_space`, `parent_delta`).

use super::DEPTH_MAX;
use super::bpobj::Sums;
use super::make::Maker;
use crate::dmu::Dnode;
use crate::error::{Problem, ZfsError};
use crate::zap::Zap;
use std::cell::Cell;
use zfs_format::dsl::dir::{DslDir, FLAG_USED_BREAKDOWN, RESERVED};
use zfs_format::pool_directory;

/// A part of a directory's space, by its place among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The dataset's own.
    Head = 0,
    /// Its snapshots'.
    Snapshots = 1,
    /// The directories' below.
    Children = 2,
    /// What those have reserved and not used.
    ChildrenReserved = 3,
    /// What is kept free for the dataset itself.
    Reserved = 4,
}

fn add(to: &mut u64, change: i64) {
    *to = to.wrapping_add_signed(change);
}

/// Bytes that the directory above counts.
fn counted(head: &DslDir) -> i64 {
    head.used_bytes.max(head.reserved) as i64
}

impl Maker<'_> {
    /// A part of a directory takes so much more, or less.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn did_use(&self, directory: &Dnode, part: Part, sums: Sums) -> Result<(), ZfsError> {
        self.did_use_parts(directory, sums, &[(part, sums.used)]).await
    }

    /// A directory takes so much more, or less; its parts by the bytes that stand with them.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn did_use_parts(
        &self,
        directory: &Dnode,
        sums: Sums,
        parts: &[(Part, i64)],
    ) -> Result<(), ZfsError> {
        let (mut at, mut sums, mut parts) = (directory.clone(), sums, parts.to_vec());
        for _ in 0..=DEPTH_MAX {
            let above = Cell::new(0);
            self.edit::<DslDir>(&at, |head| {
                let before = counted(head);
                add(&mut head.used_bytes, sums.used);
                add(&mut head.compressed_bytes, sums.compressed);
                add(&mut head.uncompressed_bytes, sums.uncompressed);
                if head.flags & FLAG_USED_BREAKDOWN != 0 {
                    for (part, bytes) in &parts {
                        add(&mut head.used_breakdown[*part as usize], *bytes);
                    }
                }
                above.set(counted(head) - before);
            })
            .await?;
            match self.bonus::<DslDir>(&at)?.parent {
                0 => return Ok(()),
                parent => at = self.mos.dnode(parent).await?,
            }
            let reserved = above.get() - sums.used;
            parts = vec![(Part::Children, sums.used), (Part::ChildrenReserved, reserved)];
            sums.used = above.get();
        }
        let (what, limit) = ("directories in directories", DEPTH_MAX as u64);
        Err(at.problem(Problem::Limit { what, limit }))
    }

    /// Bytes of one part are another's from here on.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn transfer(
        &self,
        directory: &Dnode,
        bytes: i64,
        from: Part,
        to: Part,
    ) -> Result<(), ZfsError> {
        self.edit::<DslDir>(directory, |head| {
            if head.flags & FLAG_USED_BREAKDOWN != 0 {
                add(&mut head.used_breakdown[from as usize], -bytes);
                add(&mut head.used_breakdown[to as usize], bytes);
            }
        })
        .await
    }

    /// The directory of what is being freed.
    ///
    /// # Errors
    /// The pool has none.
    pub async fn free_directory(&self) -> Result<Dnode, ZfsError> {
        let directory = Zap::open(self.mos.dnode(pool_directory::OBJECT).await?).await?;
        let root = self.mos.dnode(directory.needed(pool_directory::ROOT_DATASET).await?).await?;
        let head = self.bonus::<DslDir>(&root)?;
        let children = Zap::open(self.mos.dnode(head.children).await?).await?;
        self.mos.dnode(children.needed(RESERVED[2]).await?).await
    }

    /// Bytes that are kept free for the dataset of a directory alone.
    ///
    /// # Errors
    /// Its properties can't be had.
    pub async fn kept_free(&self, directory: &DslDir) -> Result<u64, ZfsError> {
        let properties = Zap::open(self.mos.dnode(directory.properties).await?).await?;
        let set = properties.get(b"refreservation").await?;
        Ok(set.and_then(|value| value.number()).unwrap_or(0))
    }
}
