//! Deadlists in use: what a dataset's predecessor has and it no longer has, by when it was born.
//!
//! The lists of a deadlist have a key each: a list holds blocks that were born after its key, up to the next key. There is a key
//! for each snapshot before the predecessor, so that when a snapshot goes, what only it had is whole lists of the one after it:
//!
//! ```text
//!   … ── P ── S ── N        S goes: N's lists from P's moment on are freed, S's deadlist joins N's
//! ```
//!
//! Keys of snapshots that are gone are taken out of heads and clones; elsewhere they may stay, and mean nothing.
//!
//! A [livelist](super::livelist) has the same form, and says in its lists also what was freed.
//!
//! Source: OpenZFS, `dsl_deadlist.c`.

use super::bpobj::{Sums, Told, append_told, header, sums_of};
use super::make::Maker;
use crate::dmu::Dnode;
use crate::error::{Problem, ZfsError};
use crate::zap::{Zap, table};
use std::collections::BTreeMap;
use std::ops::Range;
use stdx::planted::{self, Bug};
use zfs_format::block_pointer::BlockPointer;
use zfs_format::dsl::deadlist::DeadlistHeader;
use zfs_format::dsl::{name_number, number_name};
use zfs_store::Tree;

/// A deadlist that is open.
pub struct Deadlist<'a> {
    maker: &'a Maker<'a>,
    object: Dnode,
    /// Its lists by their keys.
    lists: BTreeMap<u64, u64>,
    is_livelist: bool,
}

impl<'a> Deadlist<'a> {
    /// Opens one.
    ///
    /// # Errors
    /// It can't be had, or is of before pool version 26.
    pub async fn open(maker: &'a Maker<'a>, number: u64) -> Result<Deadlist<'a>, ZfsError> {
        let object = maker.mos.dnode(number).await?;
        let mut lists = BTreeMap::new();
        for entry in Zap::open(object.clone()).await?.entries().await? {
            let wrong = || object.problem(Problem::Entry("of a deadlist"));
            let key = name_number(&entry.name).ok_or_else(wrong)?;
            lists.insert(key, entry.number().ok_or_else(wrong)?);
        }
        Ok(Deadlist { maker, object, lists, is_livelist: false })
    }

    /// Opens a livelist.
    ///
    /// # Errors
    /// As of [`Deadlist::open`].
    pub async fn open_livelist(
        maker: &'a Maker<'a>,
        number: u64,
    ) -> Result<Deadlist<'a>, ZfsError> {
        let list = Deadlist::open(maker, number).await?;
        Ok(Deadlist { is_livelist: true, ..list })
    }

    /// An empty one with these keys.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn make(
        maker: &'a Maker<'a>,
        keys: impl IntoIterator<Item = u64>,
    ) -> Result<u64, ZfsError> {
        let object = maker.deadlist().await?;
        let keys: Vec<u64> = keys.into_iter().collect();
        maker.add_keys(&object, &keys).await?;
        Ok(object.number())
    }

    /// Its keys, from the oldest on.
    pub fn keys(&self) -> impl Iterator<Item = u64> + '_ {
        self.lists.keys().copied()
    }

    /// Its lists with their keys, from the oldest on.
    pub fn lists(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.lists.iter().map(|(key, list)| (*key, *list))
    }

    /// All that is in it.
    ///
    /// # Errors
    /// It is none.
    pub fn space(&self) -> Result<Sums, ZfsError> {
        let header = self.maker.bonus::<DeadlistHeader>(&self.object)?;
        Ok(Sums {
            used: header.used as i64,
            compressed: header.compressed as i64,
            uncompressed: header.uncompressed as i64,
        })
    }

    /// What is in the lists with keys in a range.
    ///
    /// # Errors
    /// One can't be had.
    pub async fn space_in(&self, keys: Range<u64>) -> Result<Sums, ZfsError> {
        let mut sums = Sums::default();
        if keys.is_empty() {
            return Ok(sums);
        }
        let empty = self.maker.empty_list().await?;
        let lists = self.lists.range(keys).map(|(_, list)| *list);
        for list in lists.filter(|list| Some(*list) != empty) {
            sums.add(sums_of(&header(&self.maker.mos.dnode(list).await?)?), 1);
        }
        Ok(sums)
    }

    async fn count(&self, sums: Sums, sign: i64) -> Result<(), ZfsError> {
        self.maker
            .edit::<DeadlistHeader>(&self.object, |header| {
                let DeadlistHeader { used, compressed, uncompressed, .. } = header;
                sums.count_in(sign, [used, compressed, uncompressed]);
            })
            .await
    }

    async fn set_list(&mut self, key: u64, list: u64) -> Result<(), ZfsError> {
        self.lists.insert(key, list);
        let name = number_name(key);
        table::set(self.maker.mos, &self.object, &name, table::number(list)).await
    }

    async fn take_list(&mut self, key: u64) -> Result<Option<u64>, ZfsError> {
        table::remove(self.maker.mos, &self.object, &number_name(key)).await?;
        Ok(self.lists.remove(&key))
    }

    /// It gets an empty list for a key.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn add_key(&mut self, key: u64) -> Result<(), ZfsError> {
        let list = self.maker.add_list(&self.object, key, self.is_livelist).await?;
        self.lists.insert(key, list);
        Ok(())
    }

    /// The list of a key goes; the blocks in it are somebody else's.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn drop_list(&mut self, key: u64) -> Result<(), ZfsError> {
        let Some(list) = self.take_list(key).await? else { return Ok(()) };
        self.count(sums_of(&header(&self.maker.mos.dnode(list).await?)?), -1).await?;
        self.maker.free_lists(list).await
    }

    /// It goes, and has no lists any more.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn destroy_empty(self) -> Result<(), ZfsError> {
        self.maker.free_object(&self.object).await
    }

    /// Puts blocks into it; says what they are.
    ///
    /// # Errors
    /// One is older than all keys, or what is needed can't be had.
    pub async fn insert(
        &mut self,
        pointers: &[BlockPointer],
        tree: &Tree,
    ) -> Result<Sums, ZfsError> {
        self.tell(pointers, Told::Allocated, tree).await
    }

    /// Says of blocks in a livelist that they were freed.
    ///
    /// # Errors
    /// As of [`Deadlist::insert`].
    pub async fn insert_freed(
        &mut self,
        pointers: &[BlockPointer],
        tree: &Tree,
    ) -> Result<Sums, ZfsError> {
        self.tell(pointers, Told::Freed, tree).await
    }

    async fn tell(
        &mut self,
        pointers: &[BlockPointer],
        told: Told,
        tree: &Tree,
    ) -> Result<Sums, ZfsError> {
        if pointers.is_empty() {
            return Ok(Sums::default());
        }
        let maker = self.maker;
        let mut by_key: BTreeMap<u64, Vec<BlockPointer>> = BTreeMap::new();
        let mut sums = Sums::default();
        for pointer in pointers {
            if planted::nth(Bug::DeadLost, 20) {
                continue;
            }
            let wrong = u64::from(planted::is(Bug::DeadInWrongList));
            let key = self.lists.range(..pointer.logical_birth() + wrong).next_back();
            let missing = || self.object.problem(Problem::Entry("of a deadlist"));
            let (key, _) = key.ok_or_else(missing)?;
            by_key.entry(*key).or_default().push(*pointer);
            sums.add(Sums::of(tree, pointer), 1);
        }
        let empty = maker.empty_list().await?;
        for (key, pointers) in by_key {
            let mut list = self.lists[&key];
            if Some(list) == empty {
                maker.drop_empty_list(1).await?;
                list = maker.list_of(self.is_livelist).await?.number();
                self.set_list(key, list).await?;
            }
            let list = maker.mos.dnode(list).await?;
            append_told(maker.mos, &list, &pointers, told, tree).await?;
        }
        self.count(sums, told.sign()).await?;
        Ok(sums)
    }

    /// The lists from a key on go into another list, whole; says what is in them.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn move_into(
        &mut self,
        into: &Dnode,
        from: u64,
        tree: &Tree,
    ) -> Result<Sums, ZfsError> {
        let sums = self.space_in(from..u64::MAX).await?;
        let keys: Vec<u64> = self.lists.range(from..).map(|(key, _)| *key).collect();
        // There is a key for each snapshot that was before, of which most have no block here.
        let (empty, mut dropped) = (self.maker.empty_list().await?, 0);
        for key in keys {
            match self.take_list(key).await? {
                Some(list) if Some(list) == empty => dropped += 1,
                Some(list) => self.maker.enqueue_list(into, list, tree).await?,
                None => {}
            }
        }
        self.maker.drop_empty_list(dropped).await?;
        self.count(sums, -1).await?;
        Ok(sums)
    }

    /// A list joins that of a key, or of the nearest one before.
    async fn join(&mut self, key: u64, list: u64, tree: &Tree) -> Result<(), ZfsError> {
        let missing = || self.object.problem(Problem::Entry("of a deadlist"));
        let found = self.lists.range(..=key).next_back().ok_or_else(missing)?;
        let (key, known) = (*found.0, *found.1);
        if Some(known) == self.maker.empty_list().await? {
            self.maker.drop_empty_list(1).await?;
            return self.set_list(key, list).await;
        }
        let into = self.maker.mos.dnode(known).await?;
        self.maker.enqueue_list(&into, list, tree).await
    }

    /// Another deadlist joins it, and is no more.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn merge(&mut self, other: Deadlist<'_>, tree: &Tree) -> Result<(), ZfsError> {
        self.count(other.space()?, 1).await?;
        // Of many snapshots that hold nothing of their own most lists are empty.
        let empty = self.maker.empty_list().await?;
        let is_empty = |list: &u64| Some(*list) == empty;
        for (key, list) in other.lists.iter().filter(|(_, list)| !is_empty(list)) {
            self.join(*key, *list, tree).await?;
        }
        let dropped = other.lists.values().filter(|list| is_empty(list)).count();
        self.maker.drop_empty_list(dropped).await?;
        self.maker.free_object(&other.object).await
    }

    /// A key goes: its list joins the one before.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn remove_key(&mut self, key: u64, tree: &Tree) -> Result<(), ZfsError> {
        // The first one has nothing before it, and holds whatever is older.
        if self.lists.keys().next() == Some(&key) {
            return Ok(());
        }
        match self.take_list(key).await? {
            Some(list) => self.join(key, list, tree).await,
            None => Ok(()),
        }
    }

    /// It goes with its lists; the blocks in them are somebody else's.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn destroy(self) -> Result<(), ZfsError> {
        for list in self.lists.values() {
            self.maker.free_lists(*list).await?;
        }
        self.maker.free_object(&self.object).await
    }
}
