//! File systems, volumes and snapshots that get another name, or another place in the tree.
//!
//! Only the tables of names change, and the sums of the directories above. What is inherited may be another afterwards.
//!
//! Source: OpenZFS, `dsl_dir.c` (`dsl_dir_rename_sync`), `dsl_dataset.c` (`dsl_dataset_rename_snapshot_sync`).

use super::limits::NAME_BYTES_MAX;
use super::reserve::Spares;
use super::{Done, TaskError, Tasks, check_part, done};
use crate::dsl::DEPTH_MAX;
use crate::dsl::bpobj::Sums;
use crate::dsl::space::Part;
use crate::error::{Problem, ZfsError};
use crate::zap::{Zap, table};
use async_recursion::async_recursion as boxed;
use std::collections::BTreeSet;
use zfs_format::dsl::dir::{DslDir, RESERVED};

impl Tasks<'_> {
    /// Names and directories below one.
    async fn children_of(&self, directory: &DslDir) -> Result<Vec<(String, u64)>, ZfsError> {
        let children = Zap::open(self.mos().dnode(directory.children).await?).await?;
        let entries = children.entries().await?;
        let all = entries.iter().filter_map(|entry| Some((entry.text(), entry.number()?)));
        Ok(all.filter(|(name, _)| !RESERVED.contains(&name.as_str())).collect())
    }

    /// The name under which a directory stands in another.
    pub(super) async fn child_name(&self, above: &DslDir, child: u64) -> Result<String, ZfsError> {
        let children = self.mos().dnode(above.children).await?;
        if let Some(known) = self.names.of(child) {
            let table = Zap::open(children.clone()).await?;
            let now = table.get(known.as_bytes()).await?.and_then(|value| value.number());
            if now == Some(child) {
                return Ok(known);
            }
        }
        let all = self.children_of(above).await?;
        let found = all.iter().find(|(_, known)| *known == child).map(|(name, _)| name.clone());
        self.names.learn(children, all);
        found.ok_or_else(|| self.mos().wrong(child, Problem::NoEntry("name")))
    }

    /// The directories from one up to the root, as they lie in each other, with their names; the root has none.
    pub(super) async fn line_of(&self, directory: u64) -> Result<Vec<(u64, String)>, ZfsError> {
        let (mut at, mut line) = (directory, Vec::new());
        for _ in 0..=DEPTH_MAX {
            let (_, state) = self.directory(at).await?;
            if state.parent == 0 {
                line.push((at, String::new()));
                return Ok(line);
            }
            let (_, above) = self.directory(state.parent).await?;
            line.push((at, self.child_name(&above, at).await?));
            at = state.parent;
        }
        let (what, limit) = ("directories in directories", DEPTH_MAX as u64);
        Err(self.mos().wrong(directory, Problem::Limit { what, limit }))
    }

    /// Bytes of the longest name at and below a directory, behind that one's; and how many levels there are below it.
    async fn longest_below(&self, directory: u64) -> Result<(usize, usize), ZfsError> {
        let (mut all, mut longest, mut deepest) = (BTreeSet::new(), 0, 0);
        let mut waiting = vec![(directory, 0, 0)];
        while let Some((number, len, depth)) = waiting.pop() {
            deepest = deepest.max(depth);
            if !all.insert(number) {
                return Err(self.mos().wrong(number, Problem::Circle));
            }
            let (_, state) = self.directory(number).await?;
            let (object, head) = self.dataset(state.head_dataset).await?;
            let names = Zap::open(self.mos().dnode(head.snapshot_names).await?).await?;
            let snapshots = names.entries().await?.iter().map(|entry| entry.name.len() + 1).max();
            let marks = self.maker.bookmarks_of(&object).await?;
            let marks = marks.iter().map(|(name, _)| name.len() + 1).max();
            longest = longest.max(len + snapshots.max(marks).unwrap_or(0));
            for (name, child) in self.children_of(&state).await? {
                waiting.push((child, len + 1 + name.len(), depth + 1));
            }
        }
        Ok((longest, deepest))
    }

    /// Gives a file system or volume this last part of its name, below that directory. `pool_bytes` are those of the pool's name.
    /// Who has it open, or something below it, goes on: all is known by its object.
    ///
    /// # Errors
    /// What is needed can't be had. The other error: the name is taken or can't be.
    #[boxed(?Send)]
    pub async fn rename(
        &self,
        directory: u64,
        parent: u64,
        name: &str,
        pool_bytes: usize,
    ) -> Done<()> {
        done!(check_part(name).map_err(TaskError::Name));
        let (object, state) = self.directory(directory).await?;
        if state.parent == 0 {
            return Ok(Err(TaskError::Pool));
        }
        let line = self.line_of(parent).await?;
        if line.iter().any(|(above, _)| *above == directory) {
            return Ok(Err(TaskError::Descendant));
        }
        let (above, target) = self.directory(parent).await?;
        let known = self.children_of(&target).await?;
        if known.iter().any(|(known, _)| known == name) {
            return Ok(Err(TaskError::Exists));
        }
        if !self.holds_others(&target).await? {
            return Ok(Err(TaskError::Parent));
        }
        let (longest, levels) = self.longest_below(directory).await?;
        let path: usize = line.iter().map(|(_, part)| part.len() + 1).sum();
        if pool_bytes + path + name.len() + longest > NAME_BYTES_MAX {
            return Ok(Err(TaskError::Long));
        }
        done!(self.check_depth(parent, levels).await?);
        done!(self.check_space(Spares::Half, 3));
        let text = format!("-> {}/{name}", self.whole_name(target.head_dataset).await?);
        self.tell_of("rename", state.head_dataset, &text).await?;
        self.move_space(&state, parent).await?;
        let (_, before) = self.directory(state.parent).await?;
        let old = self.child_name(&before, directory).await?;
        let names = self.mos().dnode(before.children).await?;
        table::remove(self.mos(), &names, &old).await?;
        self.maker.edit::<DslDir>(&object, |state| state.parent = above.number()).await?;
        let names = self.mos().dnode(target.children).await?;
        table::set(self.mos(), &names, name, table::number(directory)).await?;
        self.settings_changed.set(true);
        Ok(Ok(()))
    }

    /// What a directory takes is another's above it.
    async fn move_space(&self, state: &DslDir, parent: u64) -> Result<(), ZfsError> {
        if state.parent == parent {
            return Ok(());
        }
        let sums = Sums {
            used: state.used_bytes as i64,
            compressed: state.compressed_bytes as i64,
            uncompressed: state.uncompressed_bytes as i64,
        };
        let unused = state.reserved.saturating_sub(state.used_bytes) as i64;
        for (of, sign) in [(state.parent, -1), (parent, 1)] {
            let (of, _) = self.directory(of).await?;
            let mut moved = Sums::default();
            moved.add(sums, sign);
            let kept = unused.wrapping_mul(sign);
            let parts = [(Part::Children, moved.used), (Part::KeptForChildren, kept)];
            moved.used = moved.used.wrapping_add(kept);
            self.maker.did_use_parts(&of, moved, &parts).await?;
        }
        Ok(())
    }

    /// Whether a snapshot can get another name. One that isn't there needs none.
    ///
    /// # Errors
    /// What is needed can't be had. The other error: the name is taken or can't be.
    #[boxed(?Send)]
    pub async fn check_rename_snapshot(&self, dataset: u64, old: &str, new: &str) -> Done<()> {
        done!(check_part(new).map_err(TaskError::Name));
        let (_, head) = self.dataset(dataset).await?;
        if self.snapshot_named(&head, old).await?.is_none() {
            return Ok(Ok(()));
        }
        done!(self.check_fits(head.dir, new).await?);
        let is_taken = self.snapshot_named(&head, new).await?.is_some();
        Ok(if is_taken { Err(TaskError::Exists) } else { self.check_space(Spares::Half, 1) })
    }

    /// Gives a snapshot another name; says whether it was there.
    ///
    /// # Errors
    /// As of [`Tasks::check_rename_snapshot`].
    #[boxed(?Send)]
    pub async fn rename_snapshot(&self, dataset: u64, old: &str, new: &str) -> Done<bool> {
        done!(self.check_rename_snapshot(dataset, old, new).await?);
        let (_, head) = self.dataset(dataset).await?;
        let Some(number) = self.snapshot_named(&head, old).await? else { return Ok(Ok(false)) };
        let old = self.name_of(&head, number).await?;
        self.tell_of("rename", number, &format!("-> @{new}")).await?;
        let names = self.mos().dnode(head.snapshot_names).await?;
        table::remove(self.mos(), &names, &old).await?;
        table::set(self.mos(), &names, new, table::number(number)).await?;
        Ok(Ok(true))
    }
}
