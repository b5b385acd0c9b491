//! A disk group as a layout, and its rebalance as an operation.
//!
//! The group is put together by the host, over what the host sees as disks. Nothing is written to them
//! beforehand; the volume is allocated in full, as a data file is.
//!
//! A rebalance passes over a *list of moves*, not over members: what it is asked to carry out from one
//! place to another are the moves that lie there, each as long as an AU. So a study can sample it like
//! any other operation; the disks' zones then come in as the moves come to them. Its priority is its
//! power, not that of the study's operations.

use super::built::{Built, STAND_IN, unfit};
use crate::layout::{Layout, Redundancy, Striping};
use asm::{DiskGroup, GroupDisk, GroupSpec, Move};
use futures_util::future::LocalBoxFuture;
use lab::measure::ArrayOperations;
use lab::study::{DiskChange, OperationKind, Priority, Rebalance};
use lab::target::TargetError;
use rt::memory::MemoryDevice;
use rt::{DeviceRef, Request, Rt};
use std::cell::RefCell;
use std::rc::Rc;
use stdx::{ByteCount, Offset};

/// The disk that a rebalance empties.
const VICTIM: usize = 0;

/// Whether a group of this layout makes sense.
///
/// # Errors
/// What is wrong with it.
pub(super) fn check(name: &str, layout: &Layout) -> Result<(), TargetError> {
    let stand_in = |_| MemoryDevice::new("disk", STAND_IN) as DeviceRef;
    let disks = (0..layout.members()).map(stand_in).collect();
    spec(layout, disks).check().map_err(|error| unfit(name, &error))
}

/// Puts a group together; `spare` is what a rebalance may add.
///
/// # Errors
/// What is wrong with it.
pub(super) fn build(
    rt: &Rt,
    name: &str,
    layout: &Layout,
    disks: Vec<DeviceRef>,
    spare: Option<DeviceRef>,
) -> Result<Built, TargetError> {
    let group = DiskGroup::assemble(rt, name, spec(layout, disks));
    let group = group.map_err(|error| unfit(name, &error))?;
    let device = group.device();
    let (spare, moves) = (RefCell::new(spare), RefCell::default());
    let operations = Rc::new(Operations { group, spare, moves }) as Rc<dyn ArrayOperations>;
    Ok(Built { device, operations: Some(operations) })
}

fn spec(layout: &Layout, disks: Vec<DeviceRef>) -> GroupSpec {
    let count = disks.len().max(1);
    let groups = layout.failure_groups.map_or(count, |groups| groups as usize);
    let mut spec = GroupSpec::new(disks);
    for (number, disk) in spec.disks.iter_mut().enumerate() {
        disk.failure_group = (number * groups / count) as u16;
    }
    spec.redundancy = match layout.redundancy {
        None | Some(Redundancy::External) => asm::Redundancy::External,
        Some(Redundancy::Normal) => asm::Redundancy::Normal,
        Some(Redundancy::High) => asm::Redundancy::High,
    };
    spec.striping = match layout.striping {
        None | Some(Striping::Coarse) => asm::Striping::Coarse,
        Some(Striping::Fine) => asm::Striping::Fine,
    };
    spec.au = layout.au.unwrap_or(spec.au);
    spec
}

/// What a disk group can do, as the lab asks for it.
struct Operations {
    group: Rc<DiskGroup>,
    spare: RefCell<Option<DeviceRef>>,
    /// What the rebalance that is prepared moves.
    moves: RefCell<Rc<Vec<Move>>>,
}

impl ArrayOperations for Operations {
    fn extent(&self) -> ByteCount {
        self.group.au() * self.moves.borrow().len() as u64
    }

    fn grain(&self) -> ByteCount {
        self.group.au()
    }

    fn prepare(&self, kind: OperationKind) -> Result<(), String> {
        let OperationKind::Rebalance(Rebalance { change, .. }) = kind else {
            return Err("a disk group is only rebalanced".to_owned());
        };
        let changed = match change {
            DiskChange::Add => {
                let device = self.spare.borrow_mut().take();
                let no_spare = || "there is no spare disk; give the machine one more".to_owned();
                let device = device.ok_or_else(no_spare)?;
                // A group of its own: it may take copies of whatever any other disk holds.
                let taken = self.group.disks().iter().map(|disk| disk.failure_group).max();
                let failure_group = taken.map_or(0, |group| group + 1);
                self.group.enter_disks(vec![GroupDisk { device, failure_group }])
            }
            DiskChange::Drop => self.group.mark_drop(VICTIM),
        };
        changed.map_err(|error| error.to_string())?;
        let moves = self.group.plan().map_err(|error| error.to_string())?;
        if moves.is_empty() {
            return Err("nothing has to move; give the group more disks".to_owned());
        }
        *self.moves.borrow_mut() = Rc::new(moves);
        Ok(())
    }

    fn settle(&self) -> LocalBoxFuture<'static, Result<(), String>> {
        let flushed = self.group.device().submit(Request::flush());
        Box::pin(async move { flushed.await.map(drop).map_err(|error| error.to_string()) })
    }

    fn run(
        &self,
        kind: OperationKind,
        _: Priority,
        from: Offset,
        to: Offset,
    ) -> LocalBoxFuture<'static, Result<(), String>> {
        let (group, moves) = (Rc::clone(&self.group), Rc::clone(&self.moves.borrow()));
        Box::pin(async move {
            let OperationKind::Rebalance(Rebalance { power, .. }) = kind else {
                return Err("a disk group is only rebalanced".to_owned());
            };
            let index = |at: Offset| (at.from_start() / group.au()) as usize;
            let (first, last) = (index(from).min(moves.len()), index(to).min(moves.len()));
            let moved = group.carry_out(&moves[first.min(last)..last], power as usize).await;
            moved.map(drop).map_err(|error| error.to_string())
        })
    }
}
