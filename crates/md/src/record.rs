//! What must stand on the members before something else may happen.
//!
//! An array without metadata (a simulated one, RAID 0 of a logical volume) needs none of this. One that
//! Linux shall find again has a [`Recorder`], and then:
//!
//! 1. A write begins only after its recorder has said that it may ([`Recorder::before_write`]): the array is
//!    marked dirty, or the stretch in the bitmap is.
//! 2. A write, or a flush, is answered only after the loss of a member is recorded on the others
//!    ([`Recorder::before_answer`]). Otherwise a power cut could bring the lost member back as one that is
//!    up to date, without what was answered.
//! 3. When a write has ended the recorder hears of it ([`Recorder::after_write`]), and may take the mark
//!    back later.
//!
//! Rule 1 and 2 hold also where nobody waits for the answer: the write is a task of its own.

use crate::set::Set;
use rt::{IoErrorKind, IoFuture, OpKind, Request};
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;

/// Something under way that ends with nothing, or with why it can't be.
pub type Recording = Pin<Box<dyn Future<Output = Result<(), IoErrorKind>>>>;

/// See the [module](self). Ranges are of the members' data areas (of the array, in RAID 10).
pub trait Recorder {
    /// Ends when a write to this range may begin.
    fn before_write(&self, range: Range<u64>) -> Recording;

    /// Ends when the others know of each member that is lost. With an error nothing is answered as done.
    fn before_answer(&self) -> Recording;

    /// A write to this range has ended.
    fn after_write(&self, range: Range<u64>);
}

/// Carries out a request that changes something, between the recorder's two words.
pub(crate) fn recorded(
    set: &Rc<Set>,
    recorder: Rc<dyn Recorder>,
    range: Range<u64>,
    request: Request,
    submit: impl FnOnce(Request) -> IoFuture + 'static,
) -> IoFuture {
    let (completion, future) = IoFuture::pending();
    let (op, offset, len) = (request.kind(), request.offset.bytes(), request.len().bytes());
    let its_set = Rc::clone(set);
    let work = async move {
        let changes = op != OpKind::Flush;
        let allowed = match changes {
            true => recorder.before_write(range.clone()).await,
            false => Ok(()),
        };
        let mut result = match allowed {
            Ok(()) => submit(request).await,
            Err(kind) => Err(its_set.error(kind, op, offset, len)),
        };
        if let Err(kind) = recorder.before_answer().await {
            result = Err(its_set.error(kind, op, offset, len));
        }
        if changes {
            recorder.after_write(range);
        }
        completion.complete(result);
    };
    set.rt.spawn(work).detach();
    future
}
