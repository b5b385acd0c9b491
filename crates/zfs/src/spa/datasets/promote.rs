//! A clone that takes the place of what it began from.
//!
//! The snapshots up to its origin become its own; what it began from is its clone from then on. No block changes hands: a
//! deadlist is about a dataset and the one before it, whoever's directory they are in. Only the books move:
//!
//! ```text
//!   A ── B ── C ── fs                A ── B ── C ── fs      (fs a clone of B)
//!         └── clone            →           └── clone        (A, B are clone's)
//! ```
//!
//! **Space.** Each snapshot gave birth to what it reaches, less what the one before reached, and what it lacks of that one; so the
//! snapshots that move gave birth to what the origin reaches and what is on their deadlists, less what their own
//! origin reaches. What snapshots take is what is on the deadlists of all of a directory that was born after its origin.
//!
//! Source: OpenZFS, `dsl_dataset.c` (`dsl_dataset_promote_check`, `dsl_dataset_promote_sync`).

use super::limits::NAME_BYTES_MAX;
use super::reserve::Spares;
use super::{Done, TaskError, Tasks, done};
use crate::dmu::Dnode;
use crate::dsl::bpobj::Sums;
use crate::dsl::deadlist::Deadlist;
use crate::dsl::space::Part;
use crate::error::{Problem, ZfsError};
use crate::zap::{Zap, table};
use async_recursion::async_recursion as boxed;
use stdx::planted::{self, Bug};
use zfs_format::dsl::dataset::{DslDataset, flags};
use zfs_format::dsl::dir::DslDir;
use zfs_format::object_type::ObjectType;

/// A dataset of a line of snapshots.
struct Member {
    object: Dnode,
    state: DslDataset,
}

/// All that a promotion is about.
struct Promotion {
    clone: Member,
    /// The clone's directory, and that of what it began from.
    ours: (Dnode, DslDir),
    theirs: (Dnode, DslDir),
    /// What becomes the clone's, from the origin back.
    shared: Vec<Member>,
    /// The clone and its snapshots, from the newest back.
    own: Vec<Member>,
    /// The head that it began from, and its snapshots after the origin, from the newest back.
    rest: Vec<Member>,
    /// Names of what becomes the clone's.
    names: Vec<String>,
}

impl Tasks<'_> {
    /// The datasets from one back to another, without that.
    async fn line(&self, from: u64, until: u64) -> Result<Vec<Member>, ZfsError> {
        let (mut at, mut line) = (from, Vec::<Member>::new());
        while at != until && at != 0 {
            let (object, state) = self.dataset(at).await?;
            let before = |last: &Member| last.state.previous_snapshot_txg;
            if line.last().is_some_and(|last| state.previous_snapshot_txg >= before(last)) {
                return Err(self.mos().wrong(at, Problem::Circle));
            }
            at = state.previous_snapshot;
            line.push(Member { object, state });
        }
        Ok(line)
    }

    async fn promotion(&self, dataset: u64) -> Done<Promotion> {
        let (object, state) = self.dataset(dataset).await?;
        let clone = Member { object, state };
        if clone.state.next_snapshot != 0 {
            return Ok(Err(TaskError::Type));
        }
        let ours = self.directory(clone.state.dir).await?;
        if ours.1.origin == 0 || clone.state.flags & flags::NO_PROMOTE != 0 {
            return Ok(Err(TaskError::NotClone));
        }
        let (_, origin) = self.dataset(ours.1.origin).await?;
        let theirs = self.directory(origin.dir).await?;
        // What all begin as has no directory to give.
        if theirs.1.origin == 0 {
            return Ok(Err(TaskError::NotClone));
        }
        let shared = self.line(ours.1.origin, theirs.1.origin).await?;
        let own = self.line(dataset, ours.1.origin).await?;
        let rest = self.line(theirs.1.head_dataset, ours.1.origin).await?;
        let mut names = Vec::new();
        if let Some(head) = rest.first() {
            for member in &shared {
                names.push(self.name_of(&head.state, member.object.number()).await?);
            }
        }
        Ok(Ok(Promotion { clone, ours, theirs, shared, own, rest, names }))
    }

    /// Whether a clone can take the place of what it began from.
    ///
    /// # Errors
    /// What is needed can't be had. The other error: it is no clone, or a name is taken or would be too long.
    #[boxed(?Send)]
    pub async fn check_promote(&self, dataset: u64) -> Done<()> {
        let what = done!(self.promotion(dataset).await?);
        done!(self.check_space(Spares::Half, 2 + what.shared.len() as u64));
        let clone_bytes = self.name_bytes(what.ours.0.number()).await?;
        let is_long = |name: &str| clone_bytes + 1 + name.len() > NAME_BYTES_MAX;
        for name in &what.names {
            if is_long(name) {
                return Ok(Err(TaskError::Long));
            }
            if self.snapshot_named(&what.clone.state, name).await?.is_some() {
                return Ok(Err(TaskError::Conflict(name.clone())));
            }
        }
        let known = self.maker.bookmarks_of(&what.clone.object).await?;
        for (name, _) in self.moving_bookmarks(&what).await? {
            if is_long(&name) {
                return Ok(Err(TaskError::Long));
            }
            if known.iter().any(|(known, _)| *known == name) {
                return Ok(Err(TaskError::Conflict(name)));
            }
        }
        Ok(Ok(()))
    }

    /// Bookmarks of what becomes the clone's.
    async fn moving_bookmarks(
        &self,
        what: &Promotion,
    ) -> Result<Vec<(String, zfs_format::dsl::bookmark::Bookmark)>, ZfsError> {
        let (Some(head), Some(origin)) = (what.rest.first(), what.shared.first()) else {
            return Ok(Vec::new());
        };
        let mut marks = self.maker.bookmarks_of(&head.object).await?;
        marks.retain(|(_, mark)| mark.creation_txg <= origin.state.creation_txg);
        Ok(marks)
    }

    /// Lets a clone take the place of what it began from.
    ///
    /// # Errors
    /// As of [`Tasks::check_promote`].
    #[boxed(?Send)]
    pub async fn promote(&self, dataset: u64) -> Done<()> {
        done!(self.check_promote(dataset).await?);
        let what = done!(self.promotion(dataset).await?);
        let (Some(origin), Some(first), Some(head)) =
            (what.shared.first(), what.own.last(), what.rest.first())
        else {
            return Ok(Err(TaskError::NotClone));
        };
        let moved = self.space_moved(&what, origin, first).await?;
        self.turn(&what, origin, first).await?;
        self.turn_clones(&what, head.object.number()).await?;
        for (name, mark) in self.moving_bookmarks(&what).await? {
            self.remove_bookmark(&head.object, &name).await?;
            self.add_bookmark(&what.clone.object, &name, &mark).await?;
        }
        self.maker.next_changed(&what.clone.object, origin.object.number()).await?;
        self.move_snapshots(&what, head, origin.state.next_snapshot).await?;
        let (from, to) = (head.object.number(), what.clone.object.number());
        self.move_errors(from, to, origin.state.creation_txg).await?;
        // What is whose own since its origin is another from here on.
        self.maker.end_livelist(&what.ours.0).await?;
        self.maker.end_livelist(&what.theirs.0).await?;
        self.tell_of("promote", what.clone.object.number(), " ").await?;
        self.move_books(&what, origin, moved).await.map(Ok)
    }

    /// The origin is followed by the clone, and what followed it before began as its clone.
    async fn turn(
        &self,
        what: &Promotion,
        origin: &Member,
        first: &Member,
    ) -> Result<(), ZfsError> {
        let maker = self.maker;
        let (old, new) = (origin.state.next_snapshot, first.object.number());
        maker.edit::<DslDataset>(&origin.object, |origin| origin.next_snapshot = new).await?;
        if origin.state.next_clones != 0 {
            maker.remove_from_set(origin.state.next_clones, new).await?;
            maker.add_to_set(origin.state.next_clones, old).await?;
        }
        let (above, from) = (what.theirs.1.origin, origin.object.number());
        maker.edit::<DslDir>(&what.ours.0, |directory| directory.origin = above).await?;
        maker.edit::<DslDir>(&what.theirs.0, |directory| directory.origin = from).await
    }

    /// Which directories say that they have which clones.
    async fn turn_clones(&self, what: &Promotion, head: u64) -> Result<(), ZfsError> {
        let maker = self.maker;
        let clone = what.clone.object.number();
        if what.theirs.1.clones != 0 {
            maker.remove_from_set(what.theirs.1.clones, clone).await?;
        }
        let (_, above) = self.dataset(what.theirs.1.origin).await?;
        let (_, above) = self.directory(above.dir).await?;
        if above.clones != 0 {
            maker.add_to_set(above.clones, clone).await?;
            maker.remove_from_set(above.clones, head).await?;
        }
        let clones = self.clones_of(&what.ours.0).await?;
        maker.add_to_set(clones, head).await
    }

    /// The set of a directory's clones.
    async fn clones_of(&self, directory: &Dnode) -> Result<u64, ZfsError> {
        let known = self.maker.bonus::<DslDir>(directory)?.clones;
        if known != 0 {
            return Ok(known);
        }
        let clones = self.maker.table(ObjectType::DSL_CLONES).await?.number();
        self.maker.edit::<DslDir>(directory, |directory| directory.clones = clones).await?;
        Ok(clones)
    }

    /// Snapshots, and clones of theirs, are the clone's directory's from here on.
    async fn move_snapshots(
        &self,
        what: &Promotion,
        head: &Member,
        old_next: u64,
    ) -> Result<(), ZfsError> {
        let (maker, mos) = (self.maker, self.mos());
        let theirs = mos.dnode(head.state.snapshot_names).await?;
        let ours = mos.dnode(what.clone.state.snapshot_names).await?;
        let directory = what.ours.0.number();
        for (member, name) in what.shared.iter().zip(&what.names) {
            table::remove(mos, &theirs, name).await?;
            table::set(mos, &ours, name, table::number(member.object.number())).await?;
            if !planted::is(Bug::PromotedLeftBehind) {
                maker.edit::<DslDataset>(&member.object, |state| state.dir = directory).await?;
            }
            if member.state.next_clones == 0 || what.theirs.1.clones == 0 {
                continue;
            }
            let clones = Zap::open(mos.dnode(member.state.next_clones).await?).await?;
            let entries = clones.entries().await?;
            // What followed the origin was counted before.
            let others = entries.iter().filter_map(|entry| entry.number());
            for clone in others.filter(|clone| *clone != old_next) {
                let (_, state) = self.dataset(clone).await?;
                let (_, its) = self.directory(state.dir).await?;
                maker.remove_from_set(what.theirs.1.clones, its.head_dataset).await?;
                let clones = self.clones_of(&what.ours.0).await?;
                maker.add_to_set(clones, its.head_dataset).await?;
            }
        }
        Ok(())
    }

    /// What is on the deadlists of a line, of what was born after a moment.
    async fn dead_in(&self, line: &[Member], since: u64) -> Result<i64, ZfsError> {
        let mut used = 0_i64;
        for member in line {
            let dead = Deadlist::open(self.maker, member.state.deadlist).await?;
            used = used.wrapping_add(dead.space_in(since..u64::MAX).await?.used);
        }
        Ok(used)
    }

    /// What moves, what snapshots of both take afterwards, and what only the origin has.
    async fn space_moved(
        &self,
        what: &Promotion,
        origin: &Member,
        first: &Member,
    ) -> Result<Moved, ZfsError> {
        let of = |state: &DslDataset| Sums {
            used: state.referenced_bytes as i64,
            compressed: state.compressed_bytes as i64,
            uncompressed: state.uncompressed_bytes as i64,
        };
        let mut sums = of(&origin.state);
        for member in what.shared.iter().filter(|member| member.state.previous_snapshot != 0) {
            sums.add(Deadlist::open(self.maker, member.state.deadlist).await?.space()?, 1);
        }
        let (_, above) = self.dataset(what.theirs.1.origin).await?;
        sums.add(of(&above), -1);
        let since = above.creation_txg;
        let shared = self.dead_in(&what.shared, since).await?;
        let ours = shared.wrapping_add(self.dead_in(&what.own, since).await?);
        let theirs = self.dead_in(&what.rest, origin.state.creation_txg).await?;
        let first = Deadlist::open(self.maker, first.state.deadlist).await?;
        let unique = first.space_in(origin.state.previous_snapshot_txg..u64::MAX).await?.used;
        Ok(Moved { sums, ours, theirs, unique })
    }

    async fn move_books(
        &self,
        what: &Promotion,
        origin: &Member,
        moved: Moved,
    ) -> Result<(), ZfsError> {
        let maker = self.maker;
        let snapshots = |of: &DslDir| of.used_breakdown[Part::Snapshots as usize] as i64;
        let more = moved.ours.wrapping_sub(snapshots(&what.ours.1));
        let parts = [(Part::Snapshots, more), (Part::Head, moved.sums.used.wrapping_sub(more))];
        maker.did_use_parts(&what.ours.0, moved.sums, &parts).await?;
        let less = moved.theirs.wrapping_sub(snapshots(&what.theirs.1));
        let mut given = Sums::default();
        given.add(moved.sums, -1);
        let parts = [(Part::Snapshots, less), (Part::Head, given.used.wrapping_sub(less))];
        maker.did_use_parts(&what.theirs.0, given, &parts).await?;
        let unique = moved.unique as u64;
        maker.edit::<DslDataset>(&origin.object, |origin| origin.unique_bytes = unique).await
    }
}

/// Space that a promotion moves.
struct Moved {
    sums: Sums,
    /// What snapshots of the clone's directory take afterwards, and those of the other.
    ours: i64,
    theirs: i64,
    /// What only the origin has.
    unique: i64,
}
