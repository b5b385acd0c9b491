//! The space of directories: what each takes with all below it, what is kept free for whom, and what is left.
//!
//! ```text
//!   used = head + snapshots + children + kept for children + kept for the head
//!                                 │              └ what a child's `reservation` is beyond what the child takes
//!                                 │                             └ what the head's `refreservation` is beyond what only it reaches
//!                                 └ of the children below: as much as they take
//! ```
//!
//! So what is kept free is *used* as long as nobody takes it, in the directory itself and in all above. What is then taken of it
//! changes the parts, and not the sum.
//!
//! Source: OpenZFS, `dsl_dir.c` (`dsl_dir_diduse_space`, `dsl_dir_diduse_transfer_space`, `dsl_dir_space_available`),
//! `dsl_dataset.c` (`parent_delta`).

use super::DEPTH_MAX;
use super::bpobj::Sums;
use super::make::Maker;
use crate::dmu::{Dnode, Objset};
use crate::error::{Problem, ZfsError};
use crate::zap::Zap;
use stdx::planted::{self, Bug};
use zfs_format::dsl::dir::{DslDir, FLAG_USED_BREAKDOWN, RESERVED};
use zfs_format::pool_directory;
use zfs_format::wire::Record;

/// The property that keeps space free for a head.
pub const HEAD_RESERVATION: &str = "refreservation";
/// The same, brought by a stream.
const HEAD_RESERVATION_RECEIVED: &str = "refreservation$recvd";

/// The property that bounds what a head reaches.
pub const HEAD_QUOTA: &str = "refquota";
/// The same, brought by a stream.
const HEAD_QUOTA_RECEIVED: &str = "refquota$recvd";

/// A part of a directory's space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// What its head reaches, and no snapshot.
    Head = 0,
    /// What only snapshots reach.
    Snapshots = 1,
    /// What is below it.
    Children = 2,
    /// What is kept free for what is below it.
    KeptForChildren = 3,
    /// What is kept free for its head.
    KeptForHead = 4,
}

fn add(to: &mut u64, change: i64) {
    *to = to.wrapping_add_signed(change);
}

/// How `max(has, kept)` changes when `has` does.
pub(crate) fn beyond(has: u64, change: i64, kept: u64) -> i64 {
    let after = has.wrapping_add_signed(change);
    after.max(kept).wrapping_sub(has.max(kept)) as i64
}

fn too_deep(at: &Dnode) -> ZfsError {
    let (what, limit) = ("directories in directories", DEPTH_MAX as u64);
    at.problem(Problem::Limit { what, limit })
}

impl Maker<'_> {
    /// A part of a directory takes so much more, or less.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn did_use(&self, directory: &Dnode, part: Part, sums: Sums) -> Result<(), ZfsError> {
        self.did_use_parts(directory, sums, &[(part, sums.used)]).await
    }

    /// A directory takes so much more, by these parts; and so do all above it, but for what was kept free for it there.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn did_use_parts(
        &self,
        directory: &Dnode,
        sums: Sums,
        parts: &[(Part, i64)],
    ) -> Result<(), ZfsError> {
        // What a damaged pool has counted wraps, as its counters do.
        let whole = parts.iter().fold(0_i64, |whole, (_, bytes)| whole.wrapping_add(*bytes));
        assert!(whole == sums.used, "the parts of a space are all of it");
        let (mut at, mut sums, mut parts) = (directory.clone(), sums, parts.to_vec());
        for _ in 0..=DEPTH_MAX {
            let before = self.bonus::<DslDir>(&at)?;
            self.edit::<DslDir>(&at, |dir| {
                add(&mut dir.used_bytes, sums.used);
                add(&mut dir.compressed_bytes, sums.compressed);
                add(&mut dir.uncompressed_bytes, sums.uncompressed);
                for (part, bytes) in &parts {
                    if dir.flags & FLAG_USED_BREAKDOWN != 0 {
                        add(&mut dir.used_breakdown[*part as usize], *bytes);
                    }
                }
            })
            .await?;
            if before.parent == 0 {
                return Ok(());
            }
            let kept = if planted::is(Bug::KeptCountedTwice) { 0 } else { before.reserved };
            let above = beyond(before.used_bytes, sums.used, kept);
            parts = vec![
                (Part::Children, sums.used),
                (Part::KeptForChildren, above.wrapping_sub(sums.used)),
            ];
            sums.used = above;
            at = self.mos.dnode(before.parent).await?;
        }
        Err(too_deep(&at))
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
                add(&mut head.used_breakdown[from as usize], bytes.wrapping_neg());
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
}

/// Bytes that are kept free for the head of a directory.
///
/// # Errors
/// The table of its properties can't be had.
pub(crate) async fn kept_for_head(mos: &Objset, dir: &DslDir) -> Result<u64, ZfsError> {
    set_for_head(mos, dir, [HEAD_RESERVATION, HEAD_RESERVATION_RECEIVED]).await
}

/// Bytes that the head of a directory may reach; 0 where that is not bounded.
///
/// # Errors
/// As of [`kept_for_head`].
pub(crate) async fn head_quota(mos: &Objset, dir: &DslDir) -> Result<u64, ZfsError> {
    set_for_head(mos, dir, [HEAD_QUOTA, HEAD_QUOTA_RECEIVED]).await
}

/// A number among a directory's own properties, as it was set or else brought.
async fn set_for_head(
    mos: &Objset,
    dir: &DslDir,
    names: [&'static str; 2],
) -> Result<u64, ZfsError> {
    if dir.properties == 0 {
        return Ok(0);
    }
    let properties = Zap::open(mos.dnode(dir.properties).await?).await?;
    let [set, brought] = names;
    match properties.number(set).await? {
        Some(bytes) => Ok(bytes),
        None => Ok(properties.number(brought).await?.unwrap_or(0)),
    }
}

/// What a directory can still take, by itself and all above it, where the pool can give `capacity` to datasets.
///
/// # Errors
/// One can't be had.
pub(crate) async fn available(
    mos: &Objset,
    directory: u64,
    capacity: u64,
) -> Result<u64, ZfsError> {
    let mut chain = Vec::new();
    let mut number = directory;
    while number != 0 {
        let at = mos.dnode(number).await?;
        if chain.len() > DEPTH_MAX {
            return Err(too_deep(&at));
        }
        let dir = DslDir::decode(&at.phys().bonus, at.endian()).map_err(|error| at.wrong(error))?;
        number = dir.parent;
        chain.push(dir);
    }
    let mut left = u64::MAX;
    for dir in chain.iter().rev() {
        let mut quota = if dir.quota == 0 { u64::MAX } else { dir.quota };
        if dir.parent == 0 {
            quota = quota.min(capacity);
        }
        let given = left.saturating_add(dir.reserved.saturating_sub(dir.used_bytes));
        left = quota.saturating_sub(dir.used_bytes).min(given);
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What could break: space that is kept free and taken counts twice, or not at all.
    #[test]
    fn what_is_taken_of_what_is_kept_free_is_counted_once() {
        assert_eq!(beyond(10, 5, 0), 5);
        assert_eq!(beyond(10, 5, 100), 0);
        assert_eq!(beyond(98, 5, 100), 3);
        assert_eq!(beyond(103, -5, 100), -3);
        assert_eq!(beyond(200, -5, 100), -5);
    }
}
