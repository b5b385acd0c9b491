//! What a RAID set can do with itself, as the lab asks for it.
//!
//! By itself the engine has several steps under way, so that members stream. A controller may have other habits
//! ([`OperationHabits`]): steps that wait for one another, with a pause of the firmware's own for each time that it
//! turns to the disks, to read and to write; and a first share that a rebuild goes over twice.
//!
//! **Verifying** reads back what was written. The drives may answer from their buffers, as they do where the
//! steps are short: twelve drives out of step would take two to three revolutions for a chunk that waits for the
//! platter, 17 to 25 ms, and the one published time leaves 9 ms for it.

use futures_util::future::LocalBoxFuture;
use lab::measure::ArrayOperations;
use lab::study::{InitialiseMethod, OperationKind, Priority};
use md::{Array, Initialise, Operation, SyncError, SyncPriority};
use rt::{DeviceRef, Rt};
use sim::profile::OperationHabits;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use stdx::{ByteCount, Offset};

/// The slot that a rebuild loses and a clone copies.
const VICTIM: usize = 0;
/// Why a RAID set is not rebalanced.
const NO_REBALANCE: &str = "only a disk group (level = \"asm\") is rebalanced";

/// An array's operations, as the lab asks for them.
pub(super) struct Operations {
    rt: Rt,
    array: Rc<Array>,
    spare: RefCell<Option<DeviceRef>>,
    habits: OperationHabits,
}

impl Operations {
    pub(super) fn new(
        rt: &Rt,
        array: Rc<Array>,
        spare: Option<DeviceRef>,
        habits: OperationHabits,
    ) -> Operations {
        Operations { rt: rt.clone(), array, spare: RefCell::new(spare), habits }
    }
}

impl ArrayOperations for Operations {
    fn extent(&self) -> ByteCount {
        self.array.component_extent()
    }

    fn reach(&self, kind: OperationKind) -> ByteCount {
        match kind {
            // Zeros that are written and read back go the same way.
            OperationKind::Initialise(_) => {
                self.array.extent_of(Operation::Initialise(Initialise::FromData))
            }
            OperationKind::Check => self.array.extent_of(Operation::Check),
            OperationKind::Clone | OperationKind::Rebuild | OperationKind::Rebalance(_) => {
                self.extent()
            }
        }
    }

    fn grain(&self) -> ByteCount {
        self.array.grain()
    }

    fn prepare(&self, kind: OperationKind) -> Result<(), String> {
        let take_spare = || {
            let spare = self.spare.borrow_mut().take();
            spare.ok_or_else(|| "there is no spare disk; give the machine one more".to_owned())
        };
        match kind {
            OperationKind::Initialise(_) | OperationKind::Check => Ok(()),
            OperationKind::Rebuild => {
                let spare = take_spare()?;
                self.array.fail(VICTIM);
                self.array.add_spare(spare).map_err(|error| error.to_string())
            }
            OperationKind::Clone => {
                let spare = take_spare()?;
                self.array.replace(VICTIM, spare).map_err(|error| error.to_string())
            }
            OperationKind::Rebalance(_) => Err(NO_REBALANCE.to_owned()),
        }
    }

    fn settle(&self) -> LocalBoxFuture<'static, Result<(), String>> {
        let array = Rc::clone(&self.array);
        Box::pin(async move {
            array.flush_caches().await;
            Ok(())
        })
    }

    fn twice(&self, kind: OperationKind) -> f64 {
        if kind == OperationKind::Rebuild { self.habits.rebuild_twice } else { 0.0 }
    }

    fn run(
        &self,
        kind: OperationKind,
        priority: Priority,
        from: Offset,
        to: Offset,
    ) -> LocalBoxFuture<'static, Result<(), String>> {
        let (rt, array, habits) = (self.rt.clone(), Rc::clone(&self.array), self.habits);
        let priority = match priority {
            Priority::Low => SyncPriority::Low,
            Priority::Normal => SyncPriority::Normal,
            Priority::High => SyncPriority::High,
        };
        if let OperationKind::Rebalance(_) = kind {
            return Box::pin(std::future::ready(Err(NO_REBALANCE.to_owned())));
        }
        Box::pin(async move {
            let Some(lock_step) = habits.lock_step else {
                let done = carry_out(&array, kind, from..to, priority).await;
                return done.map_err(|error| error.to_string());
            };
            let mut at = from;
            while at < to {
                let end = (at + lock_step.step).min(to);
                let done = carry_out(&array, kind, at..end, priority).await;
                done.map_err(|error| error.to_string())?;
                for _ in 0..turns(kind) {
                    rt.sleep(lock_step.pause).await;
                }
                at = end;
            }
            Ok(())
        })
    }
}

/// How often a step of an operation turns to the disks.
fn turns(kind: OperationKind) -> u32 {
    match kind {
        OperationKind::Initialise(InitialiseMethod::Zeros) | OperationKind::Check => 1,
        OperationKind::Initialise(InitialiseMethod::Parity | InitialiseMethod::ZerosVerified)
        | OperationKind::Clone
        | OperationKind::Rebuild
        | OperationKind::Rebalance(_) => 2,
    }
}

/// One stretch of an operation.
async fn carry_out(
    array: &Array,
    kind: OperationKind,
    range: Range<Offset>,
    priority: SyncPriority,
) -> Result<(), SyncError> {
    let zeros = Initialise::Zeros;
    match kind {
        OperationKind::Initialise(InitialiseMethod::Parity) => {
            array.initialise(Initialise::FromData, range, priority).await
        }
        OperationKind::Initialise(InitialiseMethod::Zeros) => {
            array.initialise(zeros, range, priority).await
        }
        OperationKind::Initialise(InitialiseMethod::ZerosVerified) => {
            array.initialise(zeros, range.clone(), priority).await?;
            array.check(range, priority).await.map(|_| ())
        }
        OperationKind::Rebuild => array.rebuild(VICTIM, range, priority).await,
        OperationKind::Clone => array.copy_to_replacement(VICTIM, range, priority).await,
        OperationKind::Check => array.check(range, priority).await.map(|_| ()),
        OperationKind::Rebalance(_) => unreachable!("a set is not rebalanced: refused before"),
    }
}
