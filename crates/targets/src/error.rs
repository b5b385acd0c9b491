//! Why a study has no machine to run on.

use lab::target::TargetError;
use std::fmt;

/// Why a study has no machine to run on. One line, with the mend.
#[derive(Debug)]
pub struct MachineError(pub(crate) String);

impl fmt::Display for MachineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A factor has made a simulated machine of a real one, or the reverse.
pub(crate) fn mixed_kinds() -> TargetError {
    TargetError::Unfit {
        what: "[machine]".to_owned(),
        why: "one study runs on one kind of machine".to_owned(),
        mend: "write two studies".to_owned(),
    }
}
