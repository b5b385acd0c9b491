//! Bookmarks: moments of a dataset's past that stay known when the snapshot goes.
//!
//! They stand in a table that the dataset's own names: the snapshot's GUID, group and time, which is all that an increment needs to
//! begin from; and what the snapshot reached, where the pool [counts](crate::dsl::bookmarks) what was freed since.
//!
//! Source: OpenZFS, `dsl_bookmark.c`.

use super::reserve::Spares;
use super::{Done, TaskError, Tasks, check_part, done};
use crate::dmu::Dnode;
use crate::dsl::DEPTH_MAX;
use crate::dsl::bookmarks::{FEATURE_WRITTEN, has_freed};
use crate::dsl::deadlist::Deadlist;
use crate::dsl::make::METADATA_TABLE;
use crate::error::{Problem, ZfsError};
use crate::zap::{Match, Wanted, Zap, table};
use async_recursion::async_recursion as boxed;
use zfs_format::dsl::bookmark::{Bookmark, FLAG_SNAPSHOT_EXISTS, SHORT_NUMBERS};
use zfs_format::dsl::dataset::{DslDataset, fields};
use zfs_format::wire::Record;
use zfs_format::zap::leaf::LeafValue;
use zfs_format::zap::normalization::UPPER;

/// The feature without which a pool has no bookmarks.
const FEATURE: &str = "bookmarks";
/// That of bookmarks with more than three numbers.
const FEATURE_LONG: &str = "bookmark_v2";

/// Of what a bookmark is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BookmarkSource {
    /// A snapshot.
    Snapshot(u64),
    /// The bookmark of a dataset.
    Bookmark(u64, String),
}

impl Tasks<'_> {
    async fn bookmark_named(
        &self,
        dataset: &Dnode,
        name: &str,
    ) -> Result<Option<(String, Bookmark)>, ZfsError> {
        let head = self.maker.bonus::<DslDataset>(dataset)?;
        let wanted = Wanted::new(name.as_bytes(), Match::of_snapshots(&head), (0, 0, UPPER));
        let all = self.maker.bookmarks_of(dataset).await?;
        Ok(all.into_iter().find(|(known, _)| wanted.is(known.as_bytes())))
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
                let mark = Bookmark::from_numbers(&numbers);
                let mut mark = mark.map_err(|error| self.wrong(*number, error))?;
                self.maker.count_in_bookmark(&mut mark, &head).await?;
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
        let (object, head) = self.dataset(dataset).await?;
        done!(self.check_fits(head.dir, name).await?);
        if self.bookmark_named(&object, name).await?.is_some() {
            return Ok(Err(TaskError::BookmarkExists));
        }
        done!(self.moment(dataset, source).await?);
        Ok(self.check_space(Spares::All, 1))
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
        let (then, guid) = (mark.creation_txg, mark.guid);
        let (of, more) = match source {
            BookmarkSource::Snapshot(number) => {
                (*number, format!("target_txg={then} redact_obj=0"))
            }
            BookmarkSource::Bookmark(..) => (dataset, format!("source_guid={guid}")),
        };
        let text = format!("name={name} creation_txg={then} {more}");
        self.tell_of("bookmark", of, &text).await?;
        self.add_bookmark(&object, name, &mark).await.map(Ok)
    }

    /// Puts a bookmark among those of a dataset.
    pub(super) async fn add_bookmark(
        &self,
        dataset: &Dnode,
        name: &str,
        mark: &Bookmark,
    ) -> Result<(), ZfsError> {
        let of = match self.maker.bookmarks_table(dataset).await? {
            Some(of) => of,
            None => {
                let new = table::normalizing(METADATA_TABLE, self.maker.fresh.number(), UPPER);
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
        if has_freed(mark) {
            self.maker.count_use(FEATURE_WRITTEN, 1).await?;
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
        let Some((name, mark)) = self.bookmark_named(&object, name).await? else {
            return Ok(Err(TaskError::Absent));
        };
        done!(self.check_space(Spares::Quarter, 0));
        self.tell_of("remove bookmark", dataset, &format!("name={name}")).await?;
        self.remove_bookmark(&object, &name).await?;
        self.forget_moment(&object, &mark).await.map(Ok)
    }

    /// Deadlists need not tell the moment of a bookmark that went apart any more, where nothing else is of it.
    async fn forget_moment(&self, object: &Dnode, gone: &Bookmark) -> Result<(), ZfsError> {
        let head = self.maker.bonus::<DslDataset>(object)?;
        let txg = gone.creation_txg;
        let is_told = has_freed(gone) && txg < head.previous_snapshot_txg;
        if !is_told || gone.flags & FLAG_SNAPSHOT_EXISTS != 0 {
            return Ok(());
        }
        let others = self.maker.bookmarks_of(object).await?;
        if others.iter().any(|(_, mark)| has_freed(mark) && mark.creation_txg == txg) {
            return Ok(());
        }
        self.remove_clones_key(head.dir, txg).await?;
        let mut deadlist = Deadlist::open(self.maker, head.deadlist).await?;
        deadlist.remove_key(txg, self.tree()).await
    }

    pub(super) async fn remove_bookmark(
        &self,
        dataset: &Dnode,
        name: &str,
    ) -> Result<(), ZfsError> {
        let Some(of) = self.maker.bookmarks_table(dataset).await? else { return Ok(()) };
        let entries = Zap::open(of.clone()).await?.entries().await?;
        let entry = entries.iter().find(|entry| entry.name == name.as_bytes());
        if entry.is_some_and(|entry| entry.value.numbers.len() > SHORT_NUMBERS) {
            self.maker.count_use(FEATURE_LONG, -1).await?;
        }
        let mark = entry.map(|entry| Bookmark::from_numbers(&entry.value.numbers));
        if let Some(mark) = mark
            && has_freed(&mark.map_err(|error| of.wrong(error))?)
        {
            self.maker.count_use(FEATURE_WRITTEN, -1).await?;
        }
        table::remove(self.mos(), &of, name).await.map(|_| ())
    }

    /// All bookmarks of a dataset go with it.
    pub(super) async fn free_bookmarks(&self, dataset: &Dnode) -> Result<(), ZfsError> {
        let Some(of) = self.maker.bookmarks_table(dataset).await? else { return Ok(()) };
        for (name, _) in self.maker.bookmarks_of(dataset).await? {
            self.remove_bookmark(dataset, &name).await?;
        }
        self.maker.count_use(FEATURE, -1).await?;
        self.maker.free_object(&of).await
    }
}
