//! Devices that an array lost: which, and why.
//!
//! The engine goes on without a device that fails, and nobody may be asking it anything at that moment. So each
//! loss is noted here, under a number that counts up, for whoever looks later: a monitor asks for those it has not
//! told yet, a report shows the last one of each slot. [`LOSSES_KEPT_MAX`] are kept; the oldest go first.
//!
//! A loss is told of a device, not of a slot: a spare or a replacement can be lost too.

use crate::member::MemberState;
use rt::{IoErrorKind, OpKind};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// So many losses are kept. A set has failed long before that many of its devices are lost without anybody looking.
pub const LOSSES_KEPT_MAX: usize = 64;

/// What md keeps on a member beside the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metadata {
    /// Its superblock.
    Superblock,
    /// Its copy of the write-intent bitmap.
    Bitmap,
    /// Its bad-block log.
    BadBlockLog,
    /// Its partial parity log.
    PartialParityLog,
}

/// Why a device is not used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Somebody said that it failed.
    ByHand,
    /// A request for data, or a flush, failed.
    Io {
        /// Which kind of request.
        op: OpKind,
        /// How it failed.
        kind: IoErrorKind,
    },
    /// What md keeps on it could not be written.
    Metadata {
        /// Which part.
        what: Metadata,
        /// How it failed.
        kind: IoErrorKind,
    },
    /// It has more bad places than its log can list.
    TooManyBadPlaces,
}

impl fmt::Display for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Metadata::Superblock => "superblock",
            Metadata::Bitmap => "bitmap",
            Metadata::BadBlockLog => "bad-block log",
            Metadata::PartialParityLog => "partial parity log",
        })
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::ByHand => f.write_str("failed by hand"),
            Cause::Io { op, kind } => write!(f, "{op}: {kind}"),
            Cause::Metadata { what, kind } => write!(f, "writing its {what}: {kind}"),
            Cause::TooManyBadPlaces => f.write_str("more bad places than its log lists"),
        }
    }
}

/// A device that was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Counts up, from 1.
    pub number: u64,
    /// The slot that it held or was to take over; none of a spare.
    pub slot: Option<usize>,
    /// What it was before.
    pub was: MemberState,
    /// Its name.
    pub device: Arc<str>,
    /// Why.
    pub cause: Cause,
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Losses {
    count: Cell<u64>,
    kept: RefCell<VecDeque<Loss>>,
}

impl Losses {
    /// Notes a device that is lost.
    pub(crate) fn note(
        &self,
        slot: Option<usize>,
        was: MemberState,
        device: Arc<str>,
        cause: Cause,
    ) {
        let number = self.count.get() + 1;
        self.count.set(number);
        let mut kept = self.kept.borrow_mut();
        if kept.len() == LOSSES_KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(Loss { number, slot, was, device, cause });
    }

    /// Those that came after the one with this number.
    pub(crate) fn after(&self, number: u64) -> Vec<Loss> {
        self.kept.borrow().iter().filter(|loss| loss.number > number).cloned().collect()
    }

    /// Why the last member of a slot was lost that held it.
    pub(crate) fn last_of(&self, slot: usize) -> Option<Cause> {
        let kept = self.kept.borrow();
        let held = |loss: &&Loss| loss.slot == Some(slot) && loss.was != MemberState::Replacement;
        kept.iter().rev().find(held).map(|loss| loss.cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log that grows for ever, or one that forgets the newest.
    #[test]
    fn the_newest_losses_are_kept_and_the_last_of_a_slot_is_told() {
        let losses = Losses::default();
        for number in 0..LOSSES_KEPT_MAX as u64 + 3 {
            let kind = IoErrorKind::Os(number as i32);
            let cause = Cause::Io { op: OpKind::Write, kind };
            losses.note(Some(1), MemberState::Active, "disk".into(), cause);
        }
        let all = losses.after(0);
        assert_eq!((all.len(), all[0].number), (LOSSES_KEPT_MAX, 4));
        assert_eq!(losses.after(LOSSES_KEPT_MAX as u64 + 2).len(), 1);
        losses.note(Some(1), MemberState::Replacement, "other".into(), Cause::ByHand);
        let last = IoErrorKind::Os(LOSSES_KEPT_MAX as i32 + 2);
        assert_eq!(losses.last_of(1), Some(Cause::Io { op: OpKind::Write, kind: last }));
        assert_eq!(losses.last_of(0), None);
    }
}
