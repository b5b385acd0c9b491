//! Files that are written from end to end before a load reads them.
//!
//! A file that was only given a size has holes, which no disk is asked for; one that was only allocated
//! is answered from the file system's notes ("never written"). Both make every read too fast. So the
//! tools that need a file write it, in order, several blocks at once.

use crate::content::Source;
use crate::io_failure::IoFailure;
use rt::{FileRef, Request, Rt};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stdx::{ByteCount, Offset};

/// How a file is written.
#[derive(Clone, Copy, Debug)]
pub struct Filling {
    /// How much is written at once.
    pub block: ByteCount,
    /// Writes under way at once.
    pub outstanding: usize,
}

struct Shared {
    next: Cell<u64>,
    end: u64,
    block: u64,
    source: RefCell<Source>,
    failure: RefCell<Option<IoFailure>>,
    stop: Arc<AtomicBool>,
    file: FileRef,
}

/// Writes these bytes of a file in order, and makes them durable. Where `stop` is raised, it ends
/// before.
///
/// # Errors
/// [`IoFailure`], of the first write that failed.
pub async fn fill(
    rt: &Rt,
    file: &FileRef,
    range: Range<u64>,
    how: Filling,
    source: Source,
    stop: &Arc<AtomicBool>,
) -> Result<(), IoFailure> {
    let shared = Rc::new(Shared {
        next: Cell::new(range.start),
        end: range.end,
        block: how.block.bytes().max(1),
        source: RefCell::new(source),
        failure: RefCell::new(None),
        stop: Arc::clone(stop),
        file: Rc::clone(file),
    });
    let lanes: Vec<_> =
        (0..how.outstanding.max(1)).map(|_| rt.spawn(lane(Rc::clone(&shared)))).collect();
    for lane in lanes {
        lane.await;
    }
    if let Some(failure) = shared.failure.borrow_mut().take() {
        return Err(failure);
    }
    file.sync().await?;
    Ok(())
}

async fn lane(shared: Rc<Shared>) {
    loop {
        let at = shared.next.get();
        let over = shared.stop.load(Ordering::Relaxed) || shared.failure.borrow().is_some();
        if at >= shared.end || over {
            return;
        }
        let len = shared.block.min(shared.end - at);
        shared.next.set(at + len);
        let data = shared.source.borrow_mut().next(len as usize);
        if let Err(error) = shared.file.submit(Request::write(Offset(at), data)).await {
            shared.failure.borrow_mut().get_or_insert(error.into());
            return;
        }
    }
}
