//! Why a step of the opening goes no further. Who opens the set says it in the words of what was asked for.

use crate::assemble::error::AssembleError;
use crate::spec::SpecError;
use crate::superblock::Uuid;

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It can't be an array at all.
    Assemble(AssembleError),
    /// It can be read, and this keeps it from being written.
    ReadOnly(&'static str),
    /// Its journal is not here, and so many of its members.
    NoJournal { missing: usize },
    /// It was not stopped cleanly and lacks so many of its members.
    DirtyDegraded { missing: usize },
    /// The engine does not take it.
    Spec(SpecError),
}

impl From<AssembleError> for Refusal {
    fn from(error: AssembleError) -> Refusal {
        Refusal::Assemble(error)
    }
}

impl Refusal {
    /// The same of a set that was to be looked at.
    pub(super) fn of_look(self, set: Uuid) -> AssembleError {
        match self {
            Refusal::Assemble(error) => error,
            Refusal::ReadOnly(what) => AssembleError::Unsupported { set, what },
            Refusal::NoJournal { missing } => AssembleError::NoJournal { set, missing },
            Refusal::DirtyDegraded { missing } => AssembleError::DirtyDegraded { set, missing },
            Refusal::Spec(error) => AssembleError::Spec { set, error },
        }
    }
}
