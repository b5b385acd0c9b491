//! What is to become of a set that is opened, and what a person accepts for it.

use crate::assemble::choice::Choice;
use crate::window::Writes;

/// What a person may ask for beyond the rules, of a set that is only read.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// Open a dirty and degraded array too: stripes that were being written may come back wrong.
    pub force: bool,
    /// RAID 0 of several zones that does not say its rule: `true` is the one of kernels up to 3.13.
    pub raid0_original: Option<bool>,
}

/// What is to become of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It is read, in a reshape too. Nothing is written to any device.
    Look {
        /// See [`OpenOptions::raid0_original`].
        raid0_original: Option<bool>,
    },
    /// It is written, with spares, replacements, bitmap and logs; its superblocks are kept true.
    Live {
        /// It may lack its journal: devices come and go, and no data is written.
        without_journal: bool,
    },
}

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    pub(crate) purpose: Purpose,
    force: bool,
}

impl Mode {
    /// To look at it.
    pub(crate) fn look(options: OpenOptions) -> Mode {
        let raid0_original = options.raid0_original;
        Mode { purpose: Purpose::Look { raid0_original }, force: options.force }
    }

    /// To live with it.
    pub(crate) fn live(force: bool, without_journal: bool) -> Mode {
        Mode { purpose: Purpose::Live { without_journal }, force }
    }

    pub(crate) fn is_live(&self) -> bool {
        matches!(self.purpose, Purpose::Live { .. })
    }

    /// What may be lost or wrong is accepted: somebody said so, here or when members were taken back.
    pub(crate) fn is_forced(&self, choice: &Choice) -> bool {
        self.force || choice.is_forced()
    }

    /// Where what the opening itself writes goes.
    pub(crate) fn writes(&self) -> Writes {
        if self.is_live() { Writes::Through } else { Writes::Kept }
    }

    /// By which rule a RAID 0 is read that does not say its own.
    pub(crate) fn raid0_original(&self) -> Option<bool> {
        match self.purpose {
            Purpose::Look { raid0_original } => raid0_original,
            Purpose::Live { .. } => None,
        }
    }
}
