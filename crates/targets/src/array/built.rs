//! A layout that was built, and why one can't be.

use lab::measure::ArrayOperations;
use lab::target::TargetError;
use rt::DeviceRef;
use std::rc::Rc;
use stdx::ByteCount;

/// Size of the stand-ins on which a layout is tried out before anything runs; they take no memory.
pub(crate) const STAND_IN: ByteCount = ByteCount::gib(1024);

/// A layout, built.
pub struct Built {
    /// What the load sees.
    pub device: DeviceRef,
    /// What the array can do; `None` for a plain disk.
    pub operations: Option<Rc<dyn ArrayOperations>>,
}

pub(crate) fn unfit(name: &str, error: &dyn std::error::Error) -> TargetError {
    TargetError::Unfit {
        what: format!("layout '{name}'"),
        why: error.to_string(),
        mend: "correct the table of that name under [layouts]".to_owned(),
    }
}
