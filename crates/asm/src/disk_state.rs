//! What a disk is to its group, and how far it is emptied or filled: what plans, metadata and the group itself go by.

use stdx::Instant;

/// What a disk is to its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskState {
    /// In use.
    Member,
    /// In use until a rebalance has emptied it.
    Dropping,
    /// Empty and not used any more.
    Dropped,
    /// Not used any more; what it holds is out of date.
    Failed,
}

impl DiskState {
    pub(crate) fn number(self) -> u8 {
        match self {
            DiskState::Member => 1,
            DiskState::Dropping => 2,
            DiskState::Dropped => 3,
            DiskState::Failed => 4,
        }
    }

    pub(crate) fn of_number(number: u8) -> Option<DiskState> {
        match number {
            1 => Some(DiskState::Member),
            2 => Some(DiskState::Dropping),
            3 => Some(DiskState::Dropped),
            4 => Some(DiskState::Failed),
            _ => None,
        }
    }

    /// Whether what lies on the disk counts.
    pub(crate) fn works(self) -> bool {
        matches!(self, DiskState::Member | DiskState::Dropping)
    }
}

/// How far a rebalance is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Copies to move.
    pub moves: u64,
    /// Copies moved, or found not to need it any more.
    pub done: u64,
    /// When it began.
    pub began: Instant,
}
