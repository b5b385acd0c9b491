//! In place of a journal that is not there: a log that takes nothing, so nothing is written.
//!
//! A set that has lost its journal can be read, and its members can be failed and removed. A write without the
//! journal would open the write hole again, in a set that says of itself that it has none; so it is refused, as md
//! does.

use crate::write_log::{Beginning, STRETCHES_MAX, Stretch, WriteLog};
use rt::IoErrorKind;

/// See the [module](self).
pub(crate) struct LostJournal;

impl WriteLog for LostJournal {
    fn partial_max(&self) -> Option<u64> {
        None
    }

    fn page(&self) -> Option<u64> {
        None
    }

    fn rows_max(&self) -> u64 {
        STRETCHES_MAX as u64
    }

    fn begin(&self, _: &[Stretch]) -> Beginning {
        Box::pin(std::future::ready(Err(IoErrorKind::ReadOnly)))
    }
}
