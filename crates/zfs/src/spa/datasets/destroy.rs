//! Snapshots, file systems and volumes destroyed.
//!
//! **A snapshot.** What only it has stands in the deadlist of the one after it: those lists go to the pool's list of what is to be
//! freed, whole. Its own deadlist joins the next one's, and its neighbours are each other's from then on. What it shared
//! with one neighbour alone is that one's own now (`unique_bytes`).
//!
//! ```text
//!   P ── S ── N       freed: N's deadlist from P's moment on; N's deadlist ∪= S's; N follows P
//! ```
//!
//! **A head.** It has no snapshots and nothing lies below it. Its [livelist](crate::dsl::livelist), or its tree, of what was born
//! after its origin, is handed to [`freeing`]; the directory goes.
//!
//! A snapshot that is held, or began a clone, may be destroyed *deferred*: it goes when the last of these does.
//!
//! Source: OpenZFS, `dsl_destroy.c`.

use super::reserve::Spares;
use super::{Done, TaskError, Tasks, done};
use crate::dmu::Dnode;
use crate::dsl::bpobj::Sums;
use crate::dsl::deadlist::Deadlist;
use crate::dsl::space::{Part, kept_for_head};
use crate::error::ZfsError;
use crate::spa::freeing;
use crate::zap::{Zap, table};
use async_recursion::async_recursion as boxed;
use stdx::planted::{self, Bug};
use zfs_format::dsl::dataset::{DslDataset, flags};
use zfs_format::dsl::dir::DslDir;
use zfs_format::objset::ObjsetKind;
use zfs_format::pool_directory;
use zfs_store::Tree;

impl Tasks<'_> {
    pub(super) fn tree(&self) -> &Tree {
        self.syncer.writer().tree()
    }

    /// How many holds a snapshot has.
    pub(super) async fn hold_count(&self, of: &DslDataset) -> Result<u64, ZfsError> {
        match of.user_references {
            0 => Ok(0),
            table => Ok(Zap::open(self.mos().dnode(table).await?).await?.len()),
        }
    }

    /// The moment of the snapshot that a directory began as; 0 of none.
    pub(super) async fn origin_txg(&self, directory: &DslDir) -> Result<u64, ZfsError> {
        match directory.origin {
            0 => Ok(0),
            origin => Ok(self.dataset(origin).await?.1.creation_txg),
        }
    }

    /// Whether a snapshot can be destroyed; `defer` lets it wait for who needs it.
    ///
    /// # Errors
    /// What is needed can't be had. The other error: somebody needs it, or it is none.
    #[boxed(?Send)]
    pub async fn check_destroy_snapshot(&self, snapshot: u64, defer: bool) -> Done<()> {
        let (_, head) = self.dataset(snapshot).await?;
        if head.next_snapshot == 0 {
            return Ok(Err(TaskError::Type));
        }
        done!(self.check_space(Spares::Quarter, 0));
        Ok(match () {
            () if defer => Ok(()),
            () if self.hold_count(&head).await? > 0 => Err(TaskError::Held),
            () if head.children > 1 => Err(TaskError::Cloned),
            () => Ok(()),
        })
    }

    /// Destroys a snapshot, or has it destroyed when nobody needs it any more.
    ///
    /// # Errors
    /// As of [`Tasks::check_destroy_snapshot`].
    #[boxed(?Send)]
    pub async fn destroy_snapshot(&self, snapshot: u64, defer: bool) -> Done<()> {
        done!(self.check_destroy_snapshot(snapshot, defer).await?);
        let (object, head) = self.dataset(snapshot).await?;
        if head.children > 1 || self.hold_count(&head).await? > 0 {
            self.tell_of("defer_destroy", snapshot, " ").await?;
            let waits = |head: &mut DslDataset| head.flags |= flags::DEFER_DESTROY;
            return self.maker.edit::<DslDataset>(&object, waits).await.map(Ok);
        }
        // What has no name any more can't be told of.
        self.tell_of("destroy", snapshot, " ").await?;
        self.remove_snapshot(snapshot).await.map(Ok)
    }

    /// A snapshot that was waiting to be destroyed goes, where nobody needs it any more.
    pub(super) async fn settle_deferred(&self, snapshot: u64) -> Result<(), ZfsError> {
        let (_, head) = self.dataset(snapshot).await?;
        let waits = head.flags & flags::DEFER_DESTROY != 0;
        if waits && head.children == 1 && self.hold_count(&head).await? == 0 {
            self.remove_snapshot(snapshot).await?;
        }
        Ok(())
    }

    async fn remove_snapshot(&self, number: u64) -> Result<(), ZfsError> {
        let maker = self.maker;
        let (snapshot, head) = self.dataset(number).await?;
        let (_, line) = self.directory(head.dir).await?;
        let line = self.mos().dnode(line.head_dataset).await?;
        let is_marked = maker.bookmarks_lose(&line, &head).await?;
        self.open.destroyed(head.guid);
        maker.drop_features(&snapshot).await?;
        let before = self.unlink(number, &head).await?;
        let (next, after) = self.dataset(head.next_snapshot).await?;
        maker
            .edit::<DslDataset>(&next, |next| {
                next.previous_snapshot = head.previous_snapshot;
                next.previous_snapshot_txg = head.previous_snapshot_txg;
            })
            .await?;
        self.give_up(&head, before, after.deadlist).await?;
        maker.give_up_moved_off(&snapshot, &next, self.tree()).await?;
        let (_, directory) = self.directory(head.dir).await?;
        match after.next_snapshot {
            0 => self.count_head(&next, &directory, after.unique_bytes).await?,
            _ => self.count_next(&next, &after, &head).await?,
        }
        if !is_marked {
            self.remove_clones_key(head.dir, head.creation_txg).await?;
            if after.next_snapshot != 0 {
                let deadlist = maker.bonus::<DslDataset>(&line)?.deadlist;
                let mut deadlist = Deadlist::open(maker, deadlist).await?;
                deadlist.remove_key(head.creation_txg, self.tree()).await?;
            }
        }
        if after.next_snapshot != 0 {
            maker.remove_moved_off_key(&line, head.creation_txg, self.tree()).await?;
        }
        let (_, of) = self.dataset(directory.head_dataset).await?;
        let name = self.name_of(&of, number).await?;
        let names = self.mos().dnode(of.snapshot_names).await?;
        table::remove(self.mos(), &names, &name).await?;
        self.clear_boot(number).await?;
        for table in [head.next_clones, head.properties, head.user_references] {
            self.free_table(table).await?;
        }
        maker.free_object(&snapshot).await
    }

    /// What came before a snapshot is not followed by it any more. Says what that is, where it is of the same line.
    async fn unlink(&self, number: u64, head: &DslDataset) -> Result<Option<Dnode>, ZfsError> {
        if head.previous_snapshot == 0 {
            return Ok(None);
        }
        let (before, state) = self.dataset(head.previous_snapshot).await?;
        if state.next_snapshot == number {
            let follows = head.next_snapshot;
            let how = |before: &mut DslDataset| before.next_snapshot = follows;
            self.maker.edit::<DslDataset>(&before, how).await?;
            return Ok(Some(before));
        }
        // It was the first of a clone's: the next one is.
        if state.next_clones != 0 {
            self.maker.remove_from_set(state.next_clones, number).await?;
            self.maker.add_to_set(state.next_clones, head.next_snapshot).await?;
        }
        Ok(None)
    }

    /// Blocks that only a snapshot has are freed, and its deadlist joins the one after it.
    async fn give_up(
        &self,
        head: &DslDataset,
        before: Option<Dnode>,
        next_deadlist: u64,
    ) -> Result<(), ZfsError> {
        let maker = self.maker;
        let mut next = Deadlist::open(maker, next_deadlist).await?;
        if let Some(before) = before {
            let since = maker.bonus::<DslDataset>(&before)?.previous_snapshot_txg;
            let own = next.space_in(since..head.previous_snapshot_txg).await?;
            let how = |before: &mut DslDataset| {
                before.unique_bytes = before.unique_bytes.wrapping_add_signed(own.used);
            };
            maker.edit::<DslDataset>(&before, how).await?;
        }
        let list = freeing::list(maker).await?;
        let freed = next.move_into(&list, head.previous_snapshot_txg, self.tree()).await?;
        let (directory, _) = self.directory(head.dir).await?;
        let mut less = Sums::default();
        less.add(freed, -1);
        maker.did_use(&directory, Part::Snapshots, less).await?;
        maker.did_use(&maker.free_directory().await?, Part::Head, freed).await?;
        let own = Deadlist::open(maker, head.deadlist).await?;
        next.merge(own, self.tree()).await
    }

    /// No clone of what a directory has, or of its clones, needs to tell that moment apart any more.
    pub(super) async fn remove_clones_key(&self, directory: u64, key: u64) -> Result<(), ZfsError> {
        let mut waiting = vec![directory];
        while let Some(directory) = waiting.pop() {
            let (_, of) = self.directory(directory).await?;
            if of.clones == 0 {
                continue;
            }
            let clones = Zap::open(self.mos().dnode(of.clones).await?).await?;
            for clone in clones.entries().await?.iter().filter_map(|entry| entry.number()) {
                let (object, clone) = self.dataset(clone).await?;
                let (_, its) = self.directory(clone.dir).await?;
                if self.origin_txg(&its).await? > key {
                    let mut deadlist = Deadlist::open(self.maker, clone.deadlist).await?;
                    deadlist.remove_key(key, self.tree()).await?;
                    self.maker.remove_moved_off_key(&object, key, self.tree()).await?;
                    waiting.push(clone.dir);
                }
            }
        }
        Ok(())
    }

    /// The snapshot after one that goes has for its own what both had and nobody else.
    async fn count_next(
        &self,
        next: &Dnode,
        after: &DslDataset,
        gone: &DslDataset,
    ) -> Result<(), ZfsError> {
        let maker = self.maker;
        let (_, later) = self.dataset(after.next_snapshot).await?;
        let later = Deadlist::open(maker, later.deadlist).await?;
        let own = later.space_in(gone.previous_snapshot_txg..gone.creation_txg).await?;
        let how = |next: &mut DslDataset| {
            next.unique_bytes = next.unique_bytes.wrapping_add_signed(own.used);
        };
        maker.edit::<DslDataset>(next, how).await
    }

    /// What a head alone has: all that it reaches but what the snapshot before it reaches, too.
    async fn count_head(
        &self,
        head: &Dnode,
        directory: &DslDir,
        before: u64,
    ) -> Result<(), ZfsError> {
        let maker = self.maker;
        let state = maker.bonus::<DslDataset>(head)?;
        let older = match state.previous_snapshot {
            0 => 0,
            number => self.dataset(number).await?.1.referenced_bytes,
        };
        let dead = Deadlist::open(maker, state.deadlist).await?.space()?.used;
        let shared = older.wrapping_sub(dead as u64);
        let unique = state.referenced_bytes.wrapping_sub(shared);
        let how = |head: &mut DslDataset| {
            head.unique_bytes = unique;
            head.flags |= flags::UNIQUE_ACCURATE;
        };
        maker.edit::<DslDataset>(head, how).await?;
        // What is kept free for it is the less the more it has.
        let kept = kept_for_head(maker.mos, directory).await?;
        let less = unique.min(kept).wrapping_sub(before.min(kept)) as i64;
        if less != 0 {
            let (of, _) = self.directory(state.dir).await?;
            let sums = Sums { used: less.wrapping_neg(), ..Sums::default() };
            maker.did_use(&of, Part::KeptForHead, sums).await?;
        }
        Ok(())
    }

    /// The pool does not boot from a dataset that goes.
    async fn clear_boot(&self, dataset: u64) -> Result<(), ZfsError> {
        let directory = Zap::open(self.syncer.directory().await?).await?;
        let Some(properties) = directory.number(pool_directory::PROPERTIES).await? else {
            return Ok(());
        };
        let properties = self.mos().dnode(properties).await?;
        if Zap::open(properties.clone()).await?.number("bootfs").await? == Some(dataset) {
            table::remove(self.mos(), &properties, "bootfs").await?;
        }
        Ok(())
    }

    /// Whether a file system or volume can be destroyed.
    ///
    /// # Errors
    /// What is needed can't be had. The other error: why it can't.
    #[boxed(?Send)]
    pub async fn check_destroy(&self, dataset: u64) -> Done<()> {
        let (object, head) = self.dataset(dataset).await?;
        if head.next_snapshot != 0 {
            return Ok(Err(TaskError::Type));
        }
        let (_, directory) = self.directory(head.dir).await?;
        if directory.parent == 0 {
            return Ok(Err(TaskError::Pool));
        }
        if head.previous_snapshot != 0 {
            let (_, before) = self.dataset(head.previous_snapshot).await?;
            if before.next_snapshot == dataset {
                return Ok(Err(TaskError::Busy));
            }
        }
        if !Zap::open(self.mos().dnode(directory.children).await?).await?.is_empty() {
            return Ok(Err(TaskError::Children));
        }
        done!(self.check_space(Spares::Quarter, 0));
        self.check_log(&object).await
    }

    /// Whether somebody uses a volume: who does so is not told to let go of it, as those are who use a file system.
    ///
    /// # Errors
    /// What it is can't be had.
    pub async fn is_served(&self, dataset: u64) -> Result<bool, ZfsError> {
        if !self.open.is_used(dataset) {
            return Ok(false);
        }
        let (object, _) = self.dataset(dataset).await?;
        Ok(self.open_objset(&object).await?.root().kind == ObjsetKind::Volume)
    }

    /// A dataset has no log that somebody would have to replay, or writes.
    pub(super) async fn check_log(&self, dataset: &Dnode) -> Done<()> {
        if self.open.is_used(dataset.number()) {
            return Ok(Err(TaskError::Busy));
        }
        let root = self.open_objset(dataset).await?.root();
        Ok(if root.zil.log.is_hole() { Ok(()) } else { Err(TaskError::Log) })
    }

    /// Destroys a file system or volume.
    ///
    /// # Errors
    /// As of [`Tasks::check_destroy`], and where somebody has it open.
    #[boxed(?Send)]
    pub async fn destroy(&self, dataset: u64) -> Done<()> {
        done!(self.check_destroy(dataset).await?);
        done!(self.close(dataset));
        self.tell_of("destroy", dataset, " ").await?;
        let maker = self.maker;
        let (object, head) = self.dataset(dataset).await?;
        let (directory, state) = self.directory(head.dir).await?;
        self.drop_reservations(&directory).await?;
        maker.drop_features(&object).await?;
        let origin = self.leave_origin(dataset, &head).await?;
        Deadlist::open(maker, head.deadlist).await?.destroy().await?;
        maker.drop_moved_off(&object).await?;
        let (_, now) = self.directory(head.dir).await?;
        let sums = Sums {
            used: now.used_bytes as i64,
            compressed: now.compressed_bytes as i64,
            uncompressed: now.uncompressed_bytes as i64,
        };
        match self.give_up_livelist(&directory, sums).await? {
            true => {}
            false => self.give_up_tree(&head, &directory, sums).await?,
        }
        self.free_table(head.snapshot_names).await?;
        self.free_bookmarks(&object).await?;
        self.clear_boot(dataset).await?;
        self.forget_errors(dataset).await?;
        maker.free_object(&object).await?;
        self.remove_directory(&directory, &state).await?;
        if let Some(origin) = origin {
            self.settle_deferred(origin).await?;
        }
        Ok(Ok(()))
    }

    /// What is on a clone's livelist is to be freed, where there is one and it says all that the clone takes. Says whether it is.
    async fn give_up_livelist(&self, directory: &Dnode, sums: Sums) -> Result<bool, ZfsError> {
        let maker = self.maker;
        let Some(list) = maker.livelist_of(directory).await? else { return Ok(false) };
        let listed = Deadlist::open(maker, list).await?.space()?;
        if (listed.used, listed.compressed) != (sums.used, sums.compressed) {
            maker.end_livelist(directory).await?;
            return Ok(false);
        }
        let mut less = Sums::default();
        less.add(sums, -1);
        maker.did_use(directory, Part::Head, less).await?;
        // What stands in pointers is not on it.
        maker.did_use(&maker.free_directory().await?, Part::Head, listed).await?;
        maker.hand_over_livelist(directory).await?;
        Ok(true)
    }

    /// What a head reaches and its origin doesn't is to be freed.
    pub(super) async fn give_up_tree(
        &self,
        head: &DslDataset,
        directory: &Dnode,
        sums: Sums,
    ) -> Result<(), ZfsError> {
        let maker = self.maker;
        let mut less = Sums::default();
        less.add(sums, -1);
        maker.did_use(directory, Part::Head, less).await?;
        maker.did_use(&maker.free_directory().await?, Part::Head, sums).await?;
        let all = planted::is(Bug::OriginFreed);
        let tree = (&head.pointer, if all { 0 } else { head.previous_snapshot_txg });
        let (freeing, writer) = (self.freeing, self.syncer.writer());
        freeing.add_tree(maker, writer, self.blocks, tree, sums).await
    }

    /// Nothing is kept free for a directory any more.
    async fn drop_reservations(&self, directory: &Dnode) -> Result<(), ZfsError> {
        let state = self.maker.bonus::<DslDir>(directory)?;
        let kept = state.used_breakdown[Part::KeptForHead as usize] as i64;
        if kept != 0 {
            let sums = Sums { used: kept.wrapping_neg(), ..Sums::default() };
            self.maker.did_use(directory, Part::KeptForHead, sums).await?;
        }
        let state = self.maker.bonus::<DslDir>(directory)?;
        let unused = state.reserved.saturating_sub(state.used_bytes) as i64;
        self.maker.edit::<DslDir>(directory, |directory| directory.reserved = 0).await?;
        if unused == 0 {
            return Ok(());
        }
        let (above, _) = self.directory(state.parent).await?;
        let sums = Sums { used: unused.wrapping_neg(), ..Sums::default() };
        self.maker.did_use(&above, Part::KeptForChildren, sums).await
    }

    /// A clone is its origin's no more; says which that was.
    async fn leave_origin(&self, dataset: u64, head: &DslDataset) -> Result<Option<u64>, ZfsError> {
        if head.previous_snapshot == 0 {
            return Ok(None);
        }
        let (origin, state) = self.dataset(head.previous_snapshot).await?;
        if state.next_clones != 0 {
            self.maker.remove_from_set(state.next_clones, dataset).await?;
        }
        let how = |origin: &mut DslDataset| origin.children = origin.children.saturating_sub(1);
        self.maker.edit::<DslDataset>(&origin, how).await?;
        let (_, of) = self.directory(state.dir).await?;
        if of.clones != 0 {
            self.maker.remove_from_set(of.clones, dataset).await?;
        }
        Ok(Some(head.previous_snapshot))
    }

    /// A directory without a dataset goes.
    async fn remove_directory(&self, object: &Dnode, state: &DslDir) -> Result<(), ZfsError> {
        let (_, above) = self.directory(state.parent).await?;
        let name = self.child_name(&above, object.number()).await?;
        let names = self.mos().dnode(above.children).await?;
        table::remove(self.mos(), &names, &name).await?;
        self.free_delegation(state.delegation).await?;
        for table in [state.children, state.properties, state.clones] {
            self.free_table(table).await?;
        }
        self.maker.free_object(object).await
    }

    /// Who may do what stands in tables of a table.
    async fn free_delegation(&self, table: u64) -> Result<(), ZfsError> {
        if table == 0 {
            return Ok(());
        }
        let all = Zap::open(self.mos().dnode(table).await?).await?;
        for of in all.entries().await?.iter().filter_map(|entry| entry.number()) {
            self.free_table(of).await?;
        }
        self.free_table(table).await
    }
}
