//! Bookmarks: moments of a dataset's past that stay known when the snapshot goes.
//!
//! They stand in a table that the dataset's own names. Only the first form is written here (the snapshot's GUID, group and time),
//! which is all that an increment needs to begin from; what was freed since (`bookmark_written`) is not counted.
//!
//! Source: OpenZFS, `dsl_bookmark.c`.

use super::{Done, TaskError, Tasks, check_part, done};
use crate::dmu::Dnode;
use crate::dsl::DEPTH_MAX;
use crate::dsl::make::METADATA_TABLE;
use crate::error::{Problem, ZfsError};
use crate::zap::{Zap, table};
use async_recursion::async_recursion as boxed;
use zfs_format::dsl::bookmark::{Bookmark, SHORT_NUMBERS};
use zfs_format::dsl::dataset::{DslDataset, fields, flags};
use zfs_format::wire::Record;
use zfs_format::zap::leaf::LeafValue;

/// The feature without which a pool has no bookmarks.
const FEATURE: &str = "bookmarks";
/// That of bookmarks with more than three numbers.
const FEATURE_LONG: &str = "bookmark_v2";
/// Names are normalised to upper case where the dataset says that case does not matter: `U8_TEXTPREP_TOUPPER`.
const TO_UPPER: u64 = 1;

/// Of what a bookmark is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BookmarkSource {
    /// A snapshot.
    Snapshot(u64),
    /// The bookmark of a dataset.
    Bookmark(u64, String),
}

impl Tasks<'_> {
    async fn bookmarks_table(&self, dataset: &Dnode) -> Result<Option<Dnode>, ZfsError> {
        if dataset.phys().object_type != METADATA_TABLE {
            return Ok(None);
        }
        match Zap::open(dataset.clone()).await?.number(fields::BOOKMARKS).await? {
            Some(number) => self.mos().dnode(number).await.map(Some),
            None => Ok(None),
        }
    }

    /// The bookmarks of a dataset.
    pub(super) async fn bookmarks_of(
        &self,
        dataset: &Dnode,
    ) -> Result<Vec<(String, Bookmark)>, ZfsError> {
        let Some(of) = self.bookmarks_table(dataset).await? else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for entry in Zap::open(of.clone()).await?.entries().await? {
            let mark = Bookmark::from_numbers(&entry.value.numbers);
            found.push((entry.text(), mark.map_err(|error| of.wrong(error))?));
        }
        Ok(found)
    }

    async fn bookmark_named(
        &self,
        dataset: &Dnode,
        name: &str,
    ) -> Result<Option<(String, Bookmark)>, ZfsError> {
        let head = self.maker.bonus::<DslDataset>(dataset)?;
        let any_case = head.flags & flags::CASE_INSENSITIVE != 0;
        let is_it = |known: &str| match any_case {
            true => known.to_uppercase() == name.to_uppercase(),
            false => known == name,
        };
        let all = self.bookmarks_of(dataset).await?;
        Ok(all.into_iter().find(|(known, _)| is_it(known)))
    }

    /// Whether a moment is of a dataset's past: of its own line, or of that which it began from.
    async fn is_before(&self, later: u64, line: u64, txg: u64) -> Result<bool, ZfsError> {
        let (_, head) = self.dataset(later).await?;
        let mut at = head.dir;
        for _ in 0..DEPTH_MAX {
            if at == line {
                return Ok(true);
            }
            let (_, directory) = self.directory(at).await?;
            if directory.origin == 0 {
                return Ok(false);
            }
            let (_, origin) = self.dataset(directory.origin).await?;
            if txg > origin.creation_txg {
                return Ok(false);
            }
            at = origin.dir;
        }
        let (what, limit) = ("clones of clones", DEPTH_MAX as u64);
        Err(self.mos().wrong(later, Problem::Limit { what, limit }))
    }

    /// What a bookmark of a dataset would say.
    async fn moment(&self, dataset: u64, source: &BookmarkSource) -> Done<Bookmark> {
        let (line, mark) = match source {
            BookmarkSource::Snapshot(number) => {
                let (_, head) = self.dataset(*number).await?;
                if head.next_snapshot == 0 {
                    return Ok(Err(TaskError::Type));
                }
                let numbers = [head.guid, head.creation_txg, head.creation_time];
                let mark = Bookmark::from_numbers(&numbers).map_err(|e| self.wrong(*number, e))?;
                (head.dir, mark)
            }
            BookmarkSource::Bookmark(of, name) => {
                let (object, head) = self.dataset(*of).await?;
                let Some((_, mark)) = self.bookmark_named(&object, name).await? else {
                    return Ok(Err(TaskError::Absent));
                };
                // A list of what was redacted is one bookmark's.
                (head.dir, Bookmark { redaction: 0, ..mark })
            }
        };
        Ok(match self.is_before(dataset, line, mark.creation_txg).await? {
            true => Ok(mark),
            false => Err(TaskError::NotAncestor),
        })
    }

    fn wrong(&self, object: u64, error: zfs_format::FormatError) -> ZfsError {
        ZfsError::Format { objset: 0, object, error }
    }

    /// Whether a bookmark can be made.
    ///
    /// # Errors
    /// What is needed can't be had. The other error: why it can't.
    #[boxed(?Send)]
    pub async fn check_bookmark(
        &self,
        dataset: u64,
        name: &str,
        source: &BookmarkSource,
    ) -> Done<()> {
        done!(check_part(name).map_err(TaskError::Name));
        if self.maker.uses(FEATURE).await?.is_none() {
            return Ok(Err(TaskError::Feature("bookmark")));
        }
        let (object, _) = self.dataset(dataset).await?;
        if self.bookmark_named(&object, name).await?.is_some() {
            return Ok(Err(TaskError::BookmarkExists));
        }
        done!(self.moment(dataset, source).await?);
        Ok(Ok(()))
    }

    /// Makes a bookmark of a dataset.
    ///
    /// # Errors
    /// As of [`Tasks::check_bookmark`].
    #[boxed(?Send)]
    pub async fn bookmark(&self, dataset: u64, name: &str, source: &BookmarkSource) -> Done<()> {
        done!(self.check_bookmark(dataset, name, source).await?);
        let mark = done!(self.moment(dataset, source).await?);
        let (object, _) = self.dataset(dataset).await?;
        self.syncer.note_deed();
        self.add_bookmark(&object, name, &mark).await.map(Ok)
    }

    /// Puts a bookmark among those of a dataset.
    pub(super) async fn add_bookmark(
        &self,
        dataset: &Dnode,
        name: &str,
        mark: &Bookmark,
    ) -> Result<(), ZfsError> {
        let of = match self.bookmarks_table(dataset).await? {
            Some(of) => of,
            None => {
                let new = table::normalizing(METADATA_TABLE, self.maker.fresh.number(), TO_UPPER);
                let of = self.mos().make(&new).await?;
                self.maker.count_use(FEATURE, 1).await?;
                self.maker.zapify(dataset).await?;
                let number = table::number(of.number());
                table::set(self.mos(), dataset, fields::BOOKMARKS, number).await?;
                of
            }
        };
        let numbers = mark.to_value();
        if numbers.len() > SHORT_NUMBERS {
            self.maker.count_use(FEATURE_LONG, 1).await?;
        }
        table::set(self.mos(), &of, name, LeafValue { number_bytes: 8, numbers }).await
    }

    /// Takes a bookmark away.
    ///
    /// # Errors
    /// What is needed can't be had. The other error: there is none.
    #[boxed(?Send)]
    pub async fn destroy_bookmark(&self, dataset: u64, name: &str) -> Done<()> {
        let (object, _) = self.dataset(dataset).await?;
        let Some((name, _)) = self.bookmark_named(&object, name).await? else {
            return Ok(Err(TaskError::Absent));
        };
        self.syncer.note_deed();
        self.remove_bookmark(&object, &name).await.map(Ok)
    }

    pub(super) async fn remove_bookmark(
        &self,
        dataset: &Dnode,
        name: &str,
    ) -> Result<(), ZfsError> {
        let Some(of) = self.bookmarks_table(dataset).await? else { return Ok(()) };
        let entries = Zap::open(of.clone()).await?.entries().await?;
        let entry = entries.iter().find(|entry| entry.name == name.as_bytes());
        if entry.is_some_and(|entry| entry.value.numbers.len() > SHORT_NUMBERS) {
            self.maker.count_use(FEATURE_LONG, -1).await?;
        }
        table::remove(self.mos(), &of, name).await.map(|_| ())
    }

    /// All bookmarks of a dataset go with it.
    pub(super) async fn free_bookmarks(&self, dataset: &Dnode) -> Result<(), ZfsError> {
        let Some(of) = self.bookmarks_table(dataset).await? else { return Ok(()) };
        for (name, _) in self.bookmarks_of(dataset).await? {
            self.remove_bookmark(dataset, &name).await?;
        }
        self.maker.count_use(FEATURE, -1).await?;
        self.maker.free_object(&of).await
    }
}
