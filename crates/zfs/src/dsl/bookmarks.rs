//! What bookmarks say of space: what a snapshot reached, and what of that was freed before the next snapshot (feature
//! `bookmark_written`), so that `written#BOOKMARK` can be told when the snapshot is gone.
//!
//! ```text
//!   #b     at S: what S reaches; freed = what N, the snapshot after it or the head, has on its deadlist
//!   a block dies that was born up to #b, and no snapshot is after #b        freed += it
//!   S goes, #b before it and no snapshot between                            freed += what S's next has dead of what was born up to #b
//! ```
//!
//! So that the last can be told, a deadlist has a key for the moment of a bookmark whose snapshot is gone, as it has one for each
//! snapshot: added when the next snapshot is taken, and taken out with the last bookmark of that moment.
//!
//! Source: OpenZFS, `dsl_bookmark.c` (`dsl_bookmark_set_phys`, `dsl_bookmark_block_killed`, `dsl_bookmark_ds_destroyed`,
//! `dsl_bookmark_snapshotted`, `dsl_bookmark_next_changed`).

use super::ZAP_METADATA;
use super::bpobj::Sums;
use super::deadlist::Deadlist;
use super::make::Maker;
use crate::dmu::Dnode;
use crate::error::ZfsError;
use crate::zap::{Zap, table};
use stdx::planted::{self, Bug};
use zfs_format::block_pointer::BlockPointer;
use zfs_format::dsl::bookmark::{Bookmark, FLAG_HAS_FREED, FLAG_SNAPSHOT_EXISTS};
use zfs_format::dsl::dataset::{DslDataset, fields};
use zfs_format::wire::Record;
use zfs_format::zap::leaf::LeafValue;
use zfs_store::Tree;

/// The feature of bookmarks that say what was freed.
pub const FEATURE_WRITTEN: &str = "bookmark_written";

/// Whether a bookmark says what was freed.
pub fn has_freed(mark: &Bookmark) -> bool {
    mark.flags & FLAG_HAS_FREED != 0
}

/// Bookmarks that no snapshot is after, and what the head frees of what they reached.
#[derive(Default)]
pub struct Marked(Vec<(String, Bookmark, Sums)>);

impl Marked {
    /// A block is not the head's any more.
    pub fn killed(&mut self, pointer: &BlockPointer, tree: &Tree) {
        let birth = pointer.logical_birth();
        for (_, _, freed) in self.0.iter_mut().filter(|(_, mark, _)| birth <= mark.creation_txg) {
            if !planted::nth(Bug::MarkedFreeLost, 10) {
                freed.add(Sums::of(tree, pointer), 1);
            }
        }
    }
}

fn add_freed(mark: &mut Bookmark, sums: Sums) {
    let [used, compressed, uncompressed] = &mut mark.freed_before_next;
    sums.count_in(1, [used, compressed, uncompressed]);
}

impl Maker<'_> {
    /// The table of the bookmarks of a dataset.
    ///
    /// # Errors
    /// It can't be had.
    pub async fn bookmarks_table(&self, dataset: &Dnode) -> Result<Option<Dnode>, ZfsError> {
        if dataset.phys().object_type != ZAP_METADATA {
            return Ok(None);
        }
        match Zap::open(dataset.clone()).await?.number(fields::BOOKMARKS).await? {
            Some(number) => self.mos.dnode(number).await.map(Some),
            None => Ok(None),
        }
    }

    /// The bookmarks of a dataset.
    ///
    /// # Errors
    /// They can't be had.
    pub async fn bookmarks_of(&self, dataset: &Dnode) -> Result<Vec<(String, Bookmark)>, ZfsError> {
        let Some(of) = self.bookmarks_table(dataset).await? else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for entry in Zap::open(of.clone()).await?.entries().await? {
            let mark = Bookmark::from_numbers(&entry.value.numbers);
            found.push((entry.text(), mark.map_err(|error| of.wrong(error))?));
        }
        Ok(found)
    }

    /// Those that say what was freed.
    async fn counting_bookmarks(
        &self,
        dataset: &Dnode,
    ) -> Result<Vec<(String, Bookmark)>, ZfsError> {
        let mut marks = self.bookmarks_of(dataset).await?;
        marks.retain(|(_, mark)| has_freed(mark));
        Ok(marks)
    }

    async fn set_bookmark(
        &self,
        dataset: &Dnode,
        name: &str,
        mark: &Bookmark,
    ) -> Result<(), ZfsError> {
        let Some(of) = self.bookmarks_table(dataset).await? else { return Ok(()) };
        let value = LeafValue { number_bytes: 8, numbers: mark.to_value() };
        table::set(self.mos, &of, name, value).await
    }

    /// A bookmark says what a snapshot reaches and what was freed since, where the pool has the feature.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn count_in_bookmark(
        &self,
        mark: &mut Bookmark,
        snapshot: &DslDataset,
    ) -> Result<(), ZfsError> {
        if self.uses(FEATURE_WRITTEN).await?.is_none() {
            return Ok(());
        }
        let next = self.mos.dnode(snapshot.next_snapshot).await?;
        let next = self.bonus::<DslDataset>(&next)?.deadlist;
        mark.flags = FLAG_HAS_FREED | FLAG_SNAPSHOT_EXISTS;
        let DslDataset { referenced_bytes, compressed_bytes, uncompressed_bytes, .. } = snapshot;
        mark.referenced = [*referenced_bytes, *compressed_bytes, *uncompressed_bytes];
        mark.freed_before_next = [0; 3];
        add_freed(mark, Deadlist::open(self, next).await?.space()?);
        Ok(())
    }

    /// The bookmarks of a head that no snapshot is after.
    ///
    /// # Errors
    /// They can't be had.
    pub async fn marked_of(&self, dataset: &Dnode, head: &DslDataset) -> Result<Marked, ZfsError> {
        let mut marks = self.counting_bookmarks(dataset).await?;
        marks.retain(|(_, mark)| mark.creation_txg >= head.previous_snapshot_txg);
        let none = Sums::default();
        Ok(Marked(marks.into_iter().map(|(name, mark)| (name, mark, none)).collect()))
    }

    /// Bookmarks are told what a group freed.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn settle_bookmarks(&self, dataset: &Dnode, marked: Marked) -> Result<(), ZfsError> {
        let none = Sums::default();
        for (name, mut mark, freed) in marked.0.into_iter().filter(|(.., freed)| *freed != none) {
            add_freed(&mut mark, freed);
            self.set_bookmark(dataset, &name, &mark).await?;
        }
        Ok(())
    }

    /// A snapshot is about to go, of the line of a head: what was freed before the next one is more for those that come before it.
    /// Says whether a bookmark needs its moment further on.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn bookmarks_lose(&self, line: &Dnode, gone: &DslDataset) -> Result<bool, ZfsError> {
        let marks = self.counting_bookmarks(line).await?;
        if marks.is_empty() {
            return Ok(false);
        }
        let next = self.mos.dnode(gone.next_snapshot).await?;
        let next = Deadlist::open(self, self.bonus::<DslDataset>(&next)?.deadlist).await?;
        let mut is_needed = false;
        for (name, mut mark) in marks {
            if mark.creation_txg == gone.creation_txg {
                mark.flags &= !FLAG_SNAPSHOT_EXISTS;
                is_needed = true;
            } else if (gone.previous_snapshot_txg..gone.creation_txg).contains(&mark.creation_txg) {
                let freed = next.space_in(0..mark.creation_txg).await?;
                add_freed(&mut mark, freed);
            } else {
                continue;
            }
            self.set_bookmark(line, &name, &mark).await?;
        }
        Ok(is_needed)
    }

    /// Moments of bookmarks after a head's last snapshot.
    ///
    /// # Errors
    /// They can't be had.
    pub async fn moments_after(
        &self,
        dataset: &Dnode,
        head: &DslDataset,
    ) -> Result<Vec<u64>, ZfsError> {
        if planted::is(Bug::MarkedMomentLost) {
            return Ok(Vec::new());
        }
        let marks = self.counting_bookmarks(dataset).await?;
        let moments = marks.into_iter().map(|(_, mark)| mark.creation_txg);
        Ok(moments.filter(|txg| *txg > head.previous_snapshot_txg).collect())
    }

    /// A snapshot is followed by another than before: bookmarks of it say what that one freed.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn next_changed(&self, dataset: &Dnode, snapshot: u64) -> Result<(), ZfsError> {
        let snapshot = self.bonus::<DslDataset>(&self.mos.dnode(snapshot).await?)?;
        for (name, mut mark) in self.counting_bookmarks(dataset).await? {
            if mark.creation_txg == snapshot.creation_txg {
                self.count_in_bookmark(&mut mark, &snapshot).await?;
                self.set_bookmark(dataset, &name, &mark).await?;
            }
        }
        Ok(())
    }
}
