//! Disks come and go: adding, dropping, and the rebalance that moves extents.
//!
//! A rebalance [plans](crate::plan) and then moves copy by copy, as the crash argument in `metadata` has
//! it, `power` at a time, beside host I/O, which waits only for the extent that it wants. Each move
//! is a task that nobody can drop in its middle; dropping the rebalance starts no more of them.
//!
//! A move that turns out to make no sense any more (a disk failed meanwhile) is left out; the next
//! rebalance sees to it. A dropped disk that is empty afterwards leaves the group.

use crate::disk_state::{DiskState, Progress};
use crate::group::{DiskGroup, Live, Slot};
use crate::metadata::DiskLayout;
use crate::pattern::{Copy, Place, Shape};
use crate::plan::{Move, plan};
use crate::spec::{DISKS_MAX, GroupDisk, Redundancy, SpecError};
use rt::sync::oneshot;
use rt::{IoErrorKind, Op, Priority, Request, SgList};
use std::collections::{BTreeMap, VecDeque};
use stdx::ByteCount;

/// The highest power: moves under way at once. Oracle's `ASM_POWER_LIMIT` has the same bound since
/// 11.2.0.2.
pub const POWER_MAX: usize = 1024;

/// Why a change of disks or a rebalance is not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the texts name")]
pub enum RebalanceError {
    #[error("the group has no disk {disk} that could be dropped: it has {disks}")]
    NoDisk { disk: usize, disks: usize },
    #[error(
        "without disk {disk} there are {groups} failure groups left, and {redundancy} redundancy needs \
         {copies}: add a disk first"
    )]
    FailureGroups { disk: usize, groups: usize, redundancy: Redundancy, copies: usize },
    #[error("{copies} copies have no disk to go to: add disks, or make the volume smaller")]
    NoRoom { copies: u64 },
    #[error("the disks of the group are being changed: wait until that has ended")]
    Busy,
    #[error(transparent)]
    Disk(#[from] SpecError),
    #[error("moving extent {extent} to disk {disk}: {kind}")]
    Move { extent: u32, disk: u16, kind: IoErrorKind },
    #[error("recording the disks of the group: {0}")]
    Record(IoErrorKind),
    #[error("extent {extent} has no copy left that can be read: {kind}")]
    Lost { extent: u32, kind: IoErrorKind },
}

/// One move at its end: whether the copy was moved.
type Moved = Result<bool, RebalanceError>;

impl DiskGroup {
    /// Adds disks, which hold nothing until a [rebalance](DiskGroup::rebalance). What lies on them is
    /// lost.
    ///
    /// # Errors
    /// Where one is not fit, or can't be written.
    pub async fn add_disks(&self, disks: Vec<GroupDisk>) -> Result<(), RebalanceError> {
        self.enter_disks(disks)?;
        self.record().await.map_err(RebalanceError::Record)
    }

    /// As [`add_disks`](DiskGroup::add_disks), but in memory only: the next moves record it first.
    ///
    /// # Errors
    /// Where one is not fit.
    pub fn enter_disks(&self, disks: Vec<GroupDisk>) -> Result<(), RebalanceError> {
        let _alone = self.operations.try_lock().map_err(|_| RebalanceError::Busy)?;
        let all = self.disks.borrow().len() + disks.len();
        if all > DISKS_MAX {
            return Err(SpecError::Disks { disks: all }.into());
        }
        let mut slots = Vec::new();
        for disk in disks {
            let (layout, shape) = look_at(&disk, self.au)?;
            slots.push(Slot {
                device: Some(disk.device),
                shape,
                layout,
                state: DiskState::Member,
                header_slot: 0,
                has_header: false,
                tables: BTreeMap::new(),
            });
        }
        for slot in slots {
            self.map.borrow_mut().add_disk(slot.shape.aus);
            self.disks.borrow_mut().push(slot);
        }
        self.epoch.set(self.epoch.get() + 1);
        Ok(())
    }

    /// Marks a disk to be dropped: the next [rebalance](DiskGroup::rebalance) empties it.
    ///
    /// # Errors
    /// Where the others can't take what it holds.
    pub async fn drop_disk(&self, disk: usize) -> Result<(), RebalanceError> {
        self.mark_drop(disk)?;
        self.record().await.map_err(RebalanceError::Record)
    }

    /// As [`drop_disk`](DiskGroup::drop_disk), but in memory only: the next moves record it first.
    ///
    /// # Errors
    /// Where the others can't take what it holds.
    pub fn mark_drop(&self, disk: usize) -> Result<(), RebalanceError> {
        let _alone = self.operations.try_lock().map_err(|_| RebalanceError::Busy)?;
        let states = self.states();
        if states.get(disk).is_none_or(|(_, state)| *state != DiskState::Member) {
            return Err(RebalanceError::NoDisk { disk, disks: states.len() });
        }
        let mut after = states;
        after[disk].1 = DiskState::Dropping;
        let mut groups: Vec<u16> = after
            .iter()
            .filter(|(_, state)| *state == DiskState::Member)
            .map(|(shape, _)| shape.failure_group)
            .collect();
        groups.sort_unstable();
        groups.dedup();
        let (redundancy, copies) = (self.redundancy, self.redundancy.copies());
        if groups.len() < copies {
            let groups = groups.len();
            return Err(RebalanceError::FailureGroups { disk, groups, redundancy, copies });
        }
        let homeless = plan(&self.map.borrow(), &after, copies).homeless;
        if homeless > 0 {
            return Err(RebalanceError::NoRoom { copies: homeless });
        }
        self.disks.borrow_mut()[disk].state = DiskState::Dropping;
        self.epoch.set(self.epoch.get() + 1);
        Ok(())
    }

    fn states(&self) -> Vec<(Shape, DiskState)> {
        self.disks.borrow().iter().map(|slot| (slot.shape, slot.state)).collect()
    }

    /// What a rebalance would move now.
    ///
    /// # Errors
    /// Where copies that must move have nowhere to go.
    pub fn plan(&self) -> Result<Vec<Move>, RebalanceError> {
        let plan = plan(&self.map.borrow(), &self.states(), self.redundancy.copies());
        match plan.homeless {
            0 => Ok(plan.moves),
            copies => Err(RebalanceError::NoRoom { copies }),
        }
    }

    /// Moves what must move, `power` copies at a time (1 to [`POWER_MAX`]; what is beyond is taken for
    /// the nearest). Returns how many moved.
    ///
    /// # Errors
    /// The first that happened; what moved until then counts.
    pub async fn rebalance(&self, power: usize) -> Result<u64, RebalanceError> {
        let moves = self.plan()?;
        let moved = self.carry_out(&moves, power).await?;
        self.finish_drops().await?;
        Ok(moved)
    }

    /// How far the rebalance under way is.
    pub fn progress(&self) -> Option<Progress> {
        *self.progress.borrow()
    }

    /// Carries out moves of a [plan](DiskGroup::plan), all or a part of them, in their order, `power` at a
    /// time. Returns how many copies moved.
    ///
    /// # Errors
    /// The first that happened; those under way are waited for.
    pub async fn carry_out(&self, moves: &[Move], power: usize) -> Result<u64, RebalanceError> {
        let _alone = self.operations.lock().await;
        let power = power.clamp(1, POWER_MAX);
        self.record().await.map_err(RebalanceError::Record)?;
        let progress = Progress { moves: moves.len() as u64, done: 0, began: self.rt.now() };
        *self.progress.borrow_mut() = Some(progress);
        let _ends = EndProgress(self);
        let mut flying: VecDeque<oneshot::Receiver<Moved>> = VecDeque::new();
        let (mut moved, mut failure, mut next) = (0, None, moves.iter());
        loop {
            if failure.is_none()
                && flying.len() < power
                && let Some(step) = next.next()
            {
                flying.push_back(self.start(*step));
                continue;
            }
            let Some(step) = flying.pop_front() else { break };
            match step.await.expect("a move ends with a result") {
                Ok(one) => moved += u64::from(one),
                Err(error) => failure = failure.or(Some(error)),
            }
            if let Some(progress) = &mut *self.progress.borrow_mut() {
                progress.done += 1;
            }
        }
        failure.map_or(Ok(moved), Err)
    }

    /// Lets disks leave that are to be dropped and are empty.
    ///
    /// # Errors
    /// Where that can't be recorded.
    pub async fn finish_drops(&self) -> Result<(), RebalanceError> {
        let _alone = self.operations.lock().await;
        let mut changed = false;
        for (number, slot) in self.disks.borrow_mut().iter_mut().enumerate() {
            let empty = self.map.borrow().copies_on(number as u16) == 0;
            if slot.state == DiskState::Dropping && empty {
                slot.state = DiskState::Dropped;
                changed = true;
            }
        }
        if changed {
            self.epoch.set(self.epoch.get() + 1);
        }
        self.record().await.map_err(RebalanceError::Record)
    }

    /// Makes all copies agree with the first that works, after a group was opened that was not closed;
    /// `power` extents at a time.
    ///
    /// # Errors
    /// Where an extent can't be read or written.
    pub async fn resync(&self, power: usize) -> Result<(), RebalanceError> {
        let _alone = self.operations.lock().await;
        let mut flying: VecDeque<oneshot::Receiver<Moved>> = VecDeque::new();
        let mut failure = None;
        let mut extents = 0..self.extents();
        loop {
            if failure.is_none()
                && flying.len() < power.clamp(1, POWER_MAX)
                && let Some(extent) = extents.next()
            {
                let this = self.this.upgrade().expect("a group that is called is alive");
                flying.push_back(self.in_own_task(async move { this.agree(extent).await }));
                continue;
            }
            let Some(step) = flying.pop_front() else { break };
            failure = failure.or(step.await.expect("a step ends with a result").err());
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        self.flush().await.map_err(|error| RebalanceError::Record(error.kind))?;
        self.in_step.set(true);
        self.epoch.set(self.epoch.get() + 1);
        self.record().await.map_err(RebalanceError::Record)
    }

    /// Copies an extent's first copy over the others.
    async fn agree(&self, extent: u32) -> Moved {
        let _extent = self.locks.alone(extent).await;
        let data = self.read_whole(extent, None).await?;
        for live in self.live(extent).iter().skip(1) {
            let write = Request::write(live.start, data.clone());
            let written = live.device.submit(write.with_priority(Priority::Background)).await;
            written.map_err(|error| {
                let (disk, kind) = (live.disk, error.kind);
                RebalanceError::Move { extent, disk, kind }
            })?;
        }
        Ok(false)
    }

    fn start(&self, step: Move) -> oneshot::Receiver<Moved> {
        let this = self.this.upgrade().expect("a group that is called is alive");
        self.in_own_task(async move { this.move_copy(step).await })
    }

    fn in_own_task(&self, work: impl Future<Output = Moved> + 'static) -> oneshot::Receiver<Moved> {
        let (sender, receiver) = oneshot::channel();
        let task = async move {
            // Nobody waits where the rebalance was dropped; what was done counts all the same.
            let _ = sender.send(work.await);
        };
        self.rt.spawn(task).detach();
        receiver
    }

    /// Moves a copy. The steps are those of the crash argument in `metadata`.
    async fn move_copy(&self, step: Move) -> Moved {
        let Move { extent, copy, to } = step;
        let copy = Copy { extent, copy };
        let _extent = self.locks.alone(extent).await;
        if !self.makes_sense(copy, to) {
            return Ok(false);
        }
        let from = self.map.borrow().place(copy);
        let Some(place) = self.map.borrow_mut().take_free(to) else { return Ok(false) };
        let failed = |kind| RebalanceError::Move { extent, disk: to, kind };

        let written = match self.read_whole(extent, Some(copy.copy)).await {
            Ok(data) => self.write_whole(place, data).await.map_err(failed),
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            self.map.borrow_mut().give_back(place);
            return Err(error);
        }

        self.map.borrow_mut().set_claim(place, copy);
        self.touch(place);
        if let Err(kind) = self.write_table(place).await {
            return self.undo(place, kind).await.and(Err(failed(kind)));
        }

        if let Some(from) = from {
            self.map.borrow_mut().clear_claim(from);
            self.touch(from);
            let works = self.disks.borrow()[from.disk as usize].state.works();
            if works && let Err(kind) = self.write_table(from).await {
                // Two claims, and both hold the same bytes; the later one counts. Only where its disk is
                // lost could the older come back, so its disk must not be taken for sound.
                self.map.borrow_mut().relocate(copy, place);
                if self.redundancy != Redundancy::External {
                    self.set_failed(from.disk);
                    self.record().await.map_err(RebalanceError::Record)?;
                }
                return Err(RebalanceError::Move { extent, disk: from.disk, kind });
            }
            self.map.borrow_mut().relocate(copy, place);
            if works {
                self.map.borrow_mut().give_back(from);
            }
        } else {
            self.map.borrow_mut().relocate(copy, place);
        }
        Ok(true)
    }

    /// A claim could not be written, and may be on the disk or not: takes it back, or fails the disk.
    async fn undo(&self, place: Place, kind: IoErrorKind) -> Result<(), RebalanceError> {
        self.map.borrow_mut().clear_claim(place);
        self.touch(place);
        if self.write_table(place).await.is_ok() {
            self.map.borrow_mut().give_back(place);
            return Ok(());
        }
        // With one copy there is nobody to fall back to: the AU stays out of use, and the error comes up.
        if self.redundancy == Redundancy::External {
            return Err(RebalanceError::Record(kind));
        }
        self.set_failed(place.disk);
        self.record().await.map_err(RebalanceError::Record)
    }

    /// Whether a copy may go to a disk, as things are now.
    fn makes_sense(&self, copy: Copy, to: u16) -> bool {
        let disks = self.disks.borrow();
        let Some(target) = disks.get(to as usize) else { return false };
        if target.state != DiskState::Member || copy.extent >= self.extents() {
            return false;
        }
        let map = self.map.borrow();
        let here = map.place(copy).is_some_and(|place| place.disk == to);
        let others = (0..self.redundancy.copies() as u8).filter(|other| *other != copy.copy);
        let mut others = others.filter_map(|other| map.place(Copy { copy: other, ..copy }));
        let together = others.any(|place| {
            let slot = &disks[place.disk as usize];
            slot.state.works() && slot.shape.failure_group == target.shape.failure_group
        });
        !here && !together && (copy.copy as usize) < self.redundancy.copies()
    }

    /// Reads an extent: the copy that is wished for, if all agree, else the first that works.
    async fn read_whole(&self, extent: u32, wished: Option<u8>) -> Result<SgList, RebalanceError> {
        let mut live = self.live(extent);
        if self.in_step.get()
            && let Some(index) = live.iter().position(|live| Some(live.copy) == wished)
        {
            live.swap(0, index);
        }
        let mut failed = IoErrorKind::TooFewMembers;
        for Live { device, start, .. } in live {
            let read = Request::read(start, ByteCount(self.au));
            match device.submit(read.with_priority(Priority::Background)).await {
                Ok(data) => return Ok(data),
                Err(error) => failed = error.kind,
            }
        }
        Err(RebalanceError::Lost { extent, kind: failed })
    }

    async fn write_whole(&self, place: Place, data: SgList) -> Result<(), IoErrorKind> {
        let (device, start) = {
            let disks = self.disks.borrow();
            let slot = &disks[place.disk as usize];
            (slot.device.clone().ok_or(IoErrorKind::Gone)?, self.au_start(slot, place))
        };
        let op = Op::Write { data, fua: true };
        let write = Request { op, offset: start, priority: Priority::Background };
        device.submit(write).await.map(drop).map_err(|error| error.kind)
    }
}

/// There is no progress to show when this is dropped.
struct EndProgress<'a>(&'a DiskGroup);

impl Drop for EndProgress<'_> {
    fn drop(&mut self) {
        self.0.progress.borrow_mut().take();
    }
}

/// Whether a disk is fit for a group, and how it is laid out.
pub(crate) fn look_at(disk: &GroupDisk, au: u64) -> Result<(DiskLayout, Shape), SpecError> {
    let geometry = disk.device.geometry();
    let name = || disk.device.name().to_string();
    let block = geometry.logical_block;
    if !ByteCount(crate::metadata::BLOCK).is_multiple_of(block) {
        return Err(SpecError::Block { name: name(), block });
    }
    let layout = DiskLayout::new(geometry.capacity.bytes(), au);
    let layout = layout.ok_or_else(|| {
        let (capacity, au) = (geometry.capacity, ByteCount(au));
        SpecError::DiskTooSmall { name: name(), capacity, au }
    })?;
    Ok((layout, Shape { aus: layout.aus, failure_group: disk.failure_group }))
}
