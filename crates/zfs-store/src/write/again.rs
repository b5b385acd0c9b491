//! Writes that are tried again: what is written while the pool is [suspended](crate::vdev::suspend), and what a flush that failed may
//! have dropped.
//!
//! ```text
//!   put     ── fails ──▶ suspended ── resumed ──▶ put again, in its place
//!   flush   ── fails ──▶ suspended ── resumed ──▶ all that was put since the last good one is put again ──▶ flush
//! ```
//!
//! **After a flush that failed** the system may have dropped what it was to make durable, and the next flush succeeds all the same. So
//! what was written since the last one that succeeded is kept until the next does: the bytes as they are stored, of one group at the
//! most, and what was written early of the next. Whoever can't be suspended keeps nothing.
//!
//! Each vdev's [pace](super::pace) is taken here.

use super::pace::Paces;
use crate::vdev::{OnFailure, Tree, WriteAt, WriteError};
use futures_util::future::join_all;
use rt::{Buf, Rt};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem;
use std::ops::Range;
use std::rc::Rc;
use stdx::planted::{self, Bug};

/// Blocks that are put again at once.
const AGAIN_MAX: usize = 32;

/// Writes to the vdevs of a pool that may be suspended. See the [module](self).
pub(super) struct Puts {
    rt: Rt,
    tree: Rc<Tree>,
    unflushed: RefCell<Unflushed>,
    paces: RefCell<Paces>,
}

/// What was written since the last flush that succeeded.
#[derive(Default)]
struct Unflushed {
    /// By place: the last that was written there.
    blocks: BTreeMap<[u64; 2], (WriteAt, Buf)>,
    /// Flushes that had failed when it was written, as the vdevs count them.
    failed: u64,
}

impl Unflushed {
    /// What was to be flushed is not: it was written before what is here.
    fn take_back(&mut self, before: BTreeMap<[u64; 2], (WriteAt, Buf)>) {
        let since = mem::replace(&mut self.blocks, before);
        self.blocks.extend(since);
    }
}

/// Whether it is worth another try when devices answer again.
fn may_pass(error: WriteError) -> bool {
    matches!(error, WriteError::Io { .. } | WriteError::Missing(_))
}

impl Puts {
    pub(super) fn new(rt: &Rt, tree: &Rc<Tree>) -> Puts {
        let (unflushed, paces) = Default::default();
        Puts { rt: rt.clone(), tree: Rc::clone(tree), unflushed, paces }
    }

    /// Bytes that each vdev takes a second, as far as that is known.
    pub(super) fn rates(&self) -> Vec<(u32, u64)> {
        self.paces.borrow_mut().rates().collect()
    }

    async fn write(&self, at: &WriteAt, bytes: Buf) -> Result<(), WriteError> {
        let (vdev, len) = (at.dva.vdev(), bytes.len() as u64);
        self.paces.borrow_mut().begin(vdev, self.rt.now());
        let written = self.tree.write(at, bytes).await;
        self.paces.borrow_mut().end(vdev, self.rt.now(), len);
        written
    }

    /// Writes a block at one of its places; waits while the pool is suspended.
    pub(super) async fn put(&self, at: WriteAt, bytes: Buf) -> Result<(), WriteError> {
        let suspension = self.tree.suspension();
        loop {
            if !suspension.may_write(|| self.rt.now()).await {
                return Err(WriteError::Suspended);
            }
            let Err(error) = self.write(&at, bytes.clone()).await else { break };
            if !may_pass(error) || !suspension.again().await {
                return Err(error);
            }
        }
        if suspension.on_failure() != OnFailure::Stop {
            self.unflushed.borrow_mut().blocks.insert(at.dva.words, (at, bytes));
        }
        Ok(())
    }

    /// Makes durable what was written before; waits while the pool is suspended. A leaf that fails misses these groups.
    ///
    /// # Errors
    /// Of a top-level vdev too few devices did it, and the pool is not suspended, or was given up.
    pub(super) async fn flush(&self, txgs: Range<u64>) -> Result<(), WriteError> {
        let (tree, suspension) = (&self.tree, self.tree.suspension());
        loop {
            if !suspension.may_write(|| self.rt.now()).await {
                return Err(WriteError::Suspended);
            }
            let may_be_lost = self.unflushed.borrow().failed != tree.flushes_failed();
            match suspension.on_failure() {
                OnFailure::Stop if may_be_lost => return Err(WriteError::Lost),
                _ if may_be_lost => self.put_again().await?,
                _ => {}
            }
            // What is put from here on is not meant.
            let before = mem::take(&mut self.unflushed.borrow_mut().blocks);
            let failed = tree.flushes_failed();
            let flushed = tree.flush(txgs.clone()).await;
            // Another's may have failed meanwhile: that of a label.
            if flushed.is_ok() && failed == tree.flushes_failed() {
                return Ok(());
            }
            self.unflushed.borrow_mut().take_back(before);
            if let Err(error) = flushed
                && (!may_pass(error) || !suspension.again().await)
            {
                return Err(error);
            }
        }
    }

    async fn put_again(&self) -> Result<(), WriteError> {
        let all: Vec<(WriteAt, Buf)> = {
            let mut unflushed = self.unflushed.borrow_mut();
            unflushed.failed = self.tree.flushes_failed();
            if planted::is(Bug::FlushTriedAgain) {
                return Ok(());
            }
            unflushed.blocks.values().cloned().collect()
        };
        for some in all.chunks(AGAIN_MAX) {
            let put = some.iter().map(|(at, bytes)| self.put(*at, bytes.clone()));
            for done in join_all(put).await {
                done?;
            }
        }
        Ok(())
    }
}
