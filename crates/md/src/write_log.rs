//! Logs that close the write hole of sets with parity.
//!
//! A power cut in the middle of a row's write leaves data of one moment and parity of another. As long as all
//! members are there a resync mends that; with a member missing, what is computed from the row is wrong, also
//! for data that nobody wrote. A **write log** makes it right: before anything of a row is written, the log
//! holds durably what brings the row's data and parity together again.
//!
//! The engine knows a log by this trait only; without one it pays a look at an empty cell. What it promises:
//!
//! 1. It calls [`WriteLog::begin`] with all that it is about to write in rows whose locks it holds, and writes
//!    nothing of it before the answer.
//! 2. It keeps the [`Held`] that it gets until the members have answered. Without one it writes nothing.
//! 3. With a log of partial parities, writes of a band to members that do not follow one another in the row come
//!    one after another, since an entry can't describe them together.
//! 4. With a log of [pages](WriteLog::page), what it writes of a row are whole pages, each with all its parity, also
//!    the parity of a member that is not there.
//!
//! What the log promises: `begin` puts the writes down at once, in the order of calls, and ends when they stand
//! durably in the log. It forgets them only when they were let go and are durable on the members.
//!
//! There are two: [`ppl::log`](crate::ppl::log) and [`journal::log`](crate::journal::log); in place of a journal that is not there stands
//! [`journal::lost`](crate::journal::lost).

use rt::sync::oneshot;
use rt::{IoErrorKind, SgList};
use smallvec::SmallVec;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;

/// So many stretches are logged together at the most: fewer than the entries of a PPL header.
pub(crate) const STRETCHES_MAX: usize = 128;

/// A part of one row that is about to be written on the same members throughout.
pub(crate) struct Stretch {
    /// The row.
    pub(crate) row: u64,
    /// Which bytes of the members' data areas.
    pub(crate) places: Range<u64>,
    /// The data that is written, by slot.
    pub(crate) data: SmallVec<[(usize, SgList); 4]>,
    /// The parity that is written, by slot; with a log of partial parities none where it is not in use.
    pub(crate) parity: SmallVec<[(usize, SgList); 2]>,
    /// The exclusive-or of the data that is not written; none where all of it is.
    pub(crate) partial: Option<SgList>,
}

/// Ends when writes stand in the log, or can't.
pub(crate) type Beginning = Pin<Box<dyn Future<Output = Result<Held, IoErrorKind>>>>;

/// As long as this lives the log keeps what it was told.
#[derive(Default)]
pub(crate) struct Held(pub(crate) SmallVec<[oneshot::Sender<()>; 2]>);

/// See the [module](self).
pub(crate) trait WriteLog {
    /// How many bytes of partial parity the stretches of one call may have together; none where the log does
    /// not want partial parities.
    fn partial_max(&self) -> Option<u64>;

    /// Bytes of the pages that the log keeps; none where it keeps no data.
    fn page(&self) -> Option<u64>;

    /// How many whole rows one call may have.
    fn rows_max(&self) -> u64;

    /// Puts down what is about to be written: [`STRETCHES_MAX`] stretches at the most.
    fn begin(&self, stretches: &[Stretch]) -> Beginning;
}
