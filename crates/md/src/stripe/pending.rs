//! What is put down at a row and waits for its lock.

use super::stream::StreamWrite;
use crate::member::Manner;
use crate::set::Parts;
use rt::SgList;
use rt::sync::oneshot;
use std::rc::Rc;

/// What is put down at a row.
pub(crate) struct PendingRow {
    pub(super) writes: Vec<PendingWrite>,
    pub(super) bytes: u64,
    /// Ends the wait for more.
    pub(super) fill: Option<oneshot::Sender<()>>,
}

/// A write, or a part of one, within a row.
pub(crate) struct PendingWrite {
    /// Byte of the array.
    pub(super) at: u64,
    pub(super) data: SgList,
    pub(super) manner: Manner,
    /// Whether keeping `data` would pin much more.
    pub(super) pins_much: bool,
    pub(super) parts: Rc<Parts>,
    pub(super) stream: Rc<StreamWrite>,
}
