//! What somebody sees who looks on while a set is open: its devices, what was lost, what is under way.
//!
//! Nothing is pushed. Who watches takes [`LiveArray::changed`], looks, and waits for it; whatever happens between
//! the look and the wait ends the wait at once, so nothing is missed. Losses are numbered ([`Loss`]), so that each
//! is told once.

use super::kept::{JournalState, Standing};
use super::live_array::LiveArray;
use crate::array::Engine;
use crate::loss::Loss;
use crate::member::MemberState;
use crate::sync::Operation;
use futures_util::FutureExt;
use futures_util::future::select;
use std::sync::Arc;

/// A device of a set that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceReport {
    /// Its number, by which superblocks list its role.
    pub number: usize,
    /// Its name.
    pub name: Arc<str>,
    /// What it is; a device that failed is listed until it is removed.
    pub state: MemberState,
    /// The slot that it holds or is to take over.
    pub slot: Option<usize>,
    /// Whether it is the journal.
    pub is_journal: bool,
}

/// What goes over the members beside the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// A member, or a replacement, is filled.
    Rebuild,
    /// Parity or copies are made right.
    Resync,
    /// They are compared.
    Check,
    /// They are compared and made right.
    Repair,
}

/// How far that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnderWay {
    /// What.
    pub activity: Activity,
    /// Per cent that are done, 0 to 100.
    pub percent: u64,
}

impl LiveArray {
    /// Ends with the next change of the set's devices after this was called: one came or went, the last stretch of
    /// one was filled, the journal failed; or a bug [broke](LiveArray::broken) the set, and from then on at once.
    pub fn changed(&self) -> impl Future<Output = ()> + '_ {
        let members = Box::pin(self.array.set.members.changed());
        select(members, self.fuse.wait()).map(drop)
    }

    /// The devices that were lost after the loss with this number, oldest first; 0 for all.
    pub fn losses(&self, after: u64) -> Vec<Loss> {
        self.array.set.members.losses(after)
    }

    /// All devices that were here when the set was opened, or came since, and were not removed.
    pub fn devices(&self) -> Vec<DeviceReport> {
        let report = |(number, name, standing)| {
            let (state, slot) = match standing {
                Standing::Member { slot, whole: true } => (MemberState::Active, Some(slot)),
                Standing::Member { slot, whole: false } => (MemberState::Rebuilding, Some(slot)),
                Standing::Replacement { slot } => (MemberState::Replacement, Some(slot)),
                Standing::Spare => (MemberState::Spare, None),
                Standing::Nobody => (MemberState::Failed, None),
            };
            DeviceReport { number, name, state, slot, is_journal: false }
        };
        let mut all: Vec<DeviceReport> = self.keeper.stands().into_iter().map(report).collect();
        if let JournalState::Here(journal) = self.keeper.journal() {
            let failed = journal.log.has_failed();
            all.push(DeviceReport {
                number: journal.number,
                name: journal.device.name(),
                state: if failed { MemberState::Failed } else { MemberState::Active },
                slot: None,
                is_journal: true,
            });
        }
        all
    }

    /// Whether the set goes on whichever of its working members is lost next.
    pub fn survives_another_loss(&self) -> bool {
        let members = &self.array.set.members;
        let mut active = (0..members.len()).filter(|slot| members.is_active(*slot));
        active.all(|slot| self.can_do_without(slot))
    }

    /// Whether more members are lost than the redundancy covers. Copies know it themselves, place by place: the
    /// last one is never given up.
    pub fn has_failed(&self) -> bool {
        match &self.array.engine {
            Engine::Stripes(stripes) => self.array.degraded() > stripes.map.parities(),
            Engine::Striped(_) | Engine::Mirror(_) => false,
        }
    }

    /// What goes over the members now, or is to.
    pub fn under_way(&self) -> Option<UnderWay> {
        let percent = |done: u64, of: u64| (u128::from(done) * 100 / u128::from(of.max(1))) as u64;
        let (array, members) = (&self.array, &self.array.set.members);
        let checks = |operation| matches!(operation, Operation::Check | Operation::Repair);
        if let Some(progress) = array.progress().filter(|one| checks(one.operation)) {
            let activity = match progress.operation {
                Operation::Check => Activity::Check,
                _ => Activity::Repair,
            };
            let all = progress.range.end.bytes() - progress.range.start.bytes();
            let percent = percent(progress.done.bytes(), all);
            return Some(UnderWay { activity, percent });
        }
        let filled = array
            .members()
            .into_iter()
            .filter(|one| matches!(one.state, MemberState::Rebuilding | MemberState::Replacement));
        if let Some(least) = filled.map(|one| one.recovered.bytes()).min() {
            let percent = percent(least, members.extent());
            return Some(UnderWay { activity: Activity::Rebuild, percent });
        }
        self.needs_resync().then(|| {
            let right = percent(array.set.clean_bytes(), members.extent());
            UnderWay { activity: Activity::Resync, percent: right }
        })
    }
}
