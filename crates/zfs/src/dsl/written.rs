//! What was written since a snapshot or bookmark.
//!
//! What is reached now and was not then: the difference of what both reach, and what was freed between, which the deadlists
//! of all snapshots between have by birth.
//!
//! Source: OpenZFS 2.3, `dsl_dataset.c` (`dsl_dataset_space_written_impl`), `dsl_deadlist.c`.

use super::catalog::{Catalog, Node};
use crate::error::{Problem, ZfsError};
use crate::zap::{Match, Zap};
use async_recursion::async_recursion as boxed;
use zfs_format::dsl::bookmark::{self, Bookmark};
use zfs_format::dsl::bpobj::BpObj;
use zfs_format::dsl::dataset::{DslDataset, fields as dataset_fields};
use zfs_format::dsl::deadlist::Deadlist;
use zfs_format::dsl::name_number;
use zfs_format::wire::Record;

impl Catalog {
    /// What a dataset's bonus says.
    pub(super) async fn bare(&self, number: u64) -> Result<DslDataset, ZfsError> {
        Ok(self.dsl.dataset(number, String::new()).await?.head)
    }

    /// Bytes that a dataset reaches and an older snapshot of it did not.
    pub(super) async fn written(
        &self,
        new: &DslDataset,
        old: &DslDataset,
    ) -> Result<u64, ZfsError> {
        let mut written = new.referenced_bytes.wrapping_sub(old.referenced_bytes);
        let mut at = new.clone();
        while at.previous_snapshot_txg > old.creation_txg {
            written = written.wrapping_add(self.freed(at.deadlist, Some(old.creation_txg)).await?);
            at = self.before(&at).await?;
        }
        Ok(written.wrapping_add(self.freed(at.deadlist, None).await?))
    }

    /// Bytes in a deadlist; only of blocks born up to a transaction group, if one is given.
    async fn freed(&self, deadlist: u64, until: Option<u64>) -> Result<u64, ZfsError> {
        if deadlist == 0 {
            return Ok(0);
        }
        let object = self.dsl.mos().dnode(deadlist).await?;
        let dnode = object.phys();
        let found = Deadlist::decode(dnode.object_type, &dnode.bonus, object.endian());
        let header = match found.map_err(|error| object.wrong(error))? {
            // Pools before version 26: only the sum can be told without reading every pointer.
            Deadlist::Old(list) => return Ok(list.bytes),
            Deadlist::New(header) => header,
        };
        let Some(until) = until else { return Ok(header.used) };
        let mut bytes = 0u64;
        let zap = Zap::open(object).await?;
        for entry in zap.entries().await? {
            let is_older = name_number(&entry.name).is_some_and(|from| from < until);
            let Some(number) = entry.number().filter(|_| is_older) else { continue };
            let list = self.dsl.mos().dnode(number).await?;
            let list = BpObj::decode(&list.phys().bonus, list.endian())
                .map_err(|error| list.wrong(error))?;
            bytes = bytes.wrapping_add(list.bytes);
        }
        Ok(bytes)
    }

    /// `written@SNAPSHOT`: bytes written since; nothing where there is no such snapshot.
    ///
    /// # Errors
    /// Something that it refers to can't be had.
    #[boxed(?Send)]
    pub async fn written_since(
        &self,
        node: &Node,
        snapshot: &str,
    ) -> Result<Option<u64>, ZfsError> {
        let table = node.head.head.snapshot_names;
        if table == 0 {
            return Ok(None);
        }
        let zap = Zap::open(self.dsl.mos().dnode(table).await?).await?;
        let value = zap.get_as(snapshot.as_bytes(), Match::of_snapshots(&node.head.head)).await?;
        let Some(number) = value.and_then(|value| value.number()) else { return Ok(None) };
        let old = self.bare(number).await?;
        self.written(&node.head.head, &old).await.map(Some)
    }

    /// `written#BOOKMARK`: bytes written since; nothing where there is no such bookmark, or it doesn't say enough.
    ///
    /// # Errors
    /// Something that it refers to can't be had.
    #[boxed(?Send)]
    pub async fn written_since_bookmark(
        &self,
        node: &Node,
        name: &str,
    ) -> Result<Option<u64>, ZfsError> {
        let Some(fields) = &node.head.fields else { return Ok(None) };
        let Some(table) = fields.number(dataset_fields::BOOKMARKS).await? else { return Ok(None) };
        let zap = Zap::open(self.dsl.mos().dnode(table).await?).await?;
        let meant = Match::of_snapshots(&node.head.head);
        let Some(value) = zap.get_as(name.as_bytes(), meant).await? else { return Ok(None) };
        let mark = Bookmark::from_numbers(&value.numbers);
        let mark = mark.map_err(|error| zap.dnode().wrong(error))?;
        if mark.flags & bookmark::FLAG_HAS_FREED == 0 {
            return Ok(None);
        }
        let head = &node.head.head;
        let mut written = head.referenced_bytes.wrapping_sub(mark.referenced[0]);
        let mut at = head.clone();
        while at.previous_snapshot_txg > mark.creation_txg {
            written = written.wrapping_add(self.freed(at.deadlist, Some(mark.creation_txg)).await?);
            at = self.before(&at).await?;
        }
        Ok(Some(written.wrapping_add(mark.freed_before_next[0])))
    }

    /// The snapshot before one; each is older than the next.
    async fn before(&self, at: &DslDataset) -> Result<DslDataset, ZfsError> {
        let number = at.previous_snapshot;
        let before = self.bare(number).await?;
        match before.previous_snapshot_txg >= at.previous_snapshot_txg {
            true => Err(self.dsl.mos().wrong(number, Problem::Twice)),
            false => Ok(before),
        }
    }
}
