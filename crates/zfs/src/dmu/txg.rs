//! Transaction groups: which of them live, and how much is changed in them.
//!
//! ```text
//!   open      changes join it
//!   syncing   closed: its changes are being written. There may be none
//! ```
//!
//! A change joins the open group and ends before anybody waits ([`change`](super::change)), so when [`TxGroups::rotate`]
//! runs, no transaction is under way, and a group needs no time to quiesce.
//!
//! **Suspended.** While the pool's devices take no writes ([`Suspension`]) nothing joins the open group: who changes waits, or is
//! refused, as the property `failmode` says.
//!
//! **Never synced.** Groups may be declared never to be synced: their changes stay in memory, for who looks at what would
//! be. How much that may be is bounded; beyond it a change is refused.
//!
//! **Waiting.** Where groups are synced, who changes something [waits](super::throttle) the longer the more is dirty.
//!
//! Source: OpenZFS, `txg.c`, `dmu_tx.c`; `docs/theory/pools.md` for what is otherwise here.

use super::throttle::Throttle;
use crate::error::Problem;
use futures_util::future::select;
use rt::Rt;
use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use stdx::Instant;
use tokio::sync::Notify;
use zfs_store::Suspension;

/// Bytes of changes that are held in memory where nothing is synced: the memory of a machine, not the length of a log, is
/// the bound.
pub const DIRTY_BYTES_MAX: u64 = 1 << 30;

/// The number of a transaction group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Txg(pub u64);

/// The groups of a pool that live. Clones are handles of the same.
#[derive(Clone)]
pub struct TxGroups(Rc<Inner>);

struct Inner {
    open: Cell<Txg>,
    syncing: Cell<Option<Txg>>,
    /// Changed in the open and in the syncing group, in bytes.
    dirty: [Cell<u64>; 2],
    /// What of that takes on a device, where each takes some bytes at the least.
    takes: [Cell<u64>; 2],
    /// Bytes that a block takes on a device at the least.
    least: Cell<u64>,
    /// Changes by who syncs, up to now.
    synced_changes: Cell<u64>,
    throttle: Throttle,
    /// Where they are synced.
    rt: Option<Rt>,
    /// Until when the last of those waits that a delay holds up.
    delayed: Cell<Instant>,
    /// Wakes who waits until less is dirty.
    done: Notify,
    /// Wakes who syncs, when enough is dirty for a group.
    filled: Notify,
    /// Nothing is synced any more.
    is_stopped: Cell<bool>,
    suspension: Rc<Suspension>,
}

impl TxGroups {
    /// Groups after `synced`, which are never synced.
    pub fn never_synced(synced: Txg, dirty_max: u64) -> TxGroups {
        TxGroups::new(synced, dirty_max, None, Rc::default())
    }

    /// Groups after `synced`, which whoever made them [closes](TxGroups::rotate) and syncs, of a pool that may be suspended.
    pub fn synced(rt: &Rt, synced: Txg, dirty_max: u64, suspension: &Rc<Suspension>) -> TxGroups {
        TxGroups::new(synced, dirty_max, Some(rt.clone()), Rc::clone(suspension))
    }

    fn new(synced: Txg, dirty_max: u64, rt: Option<Rt>, suspension: Rc<Suspension>) -> TxGroups {
        let open = Cell::new(Txg(synced.0.saturating_add(1)));
        let (syncing, dirty, done, filled, is_stopped) = Default::default();
        let (takes, least, synced_changes) = Default::default();
        let (throttle, delayed) = (Throttle::of(dirty_max), Cell::new(Instant::START));
        TxGroups(Rc::new(Inner {
            open,
            syncing,
            dirty,
            takes,
            least,
            synced_changes,
            throttle,
            rt,
            delayed,
            done,
            filled,
            is_stopped,
            suspension,
        }))
    }

    /// Who syncs them, as long as that goes on.
    fn syncs(&self) -> Option<&Rt> {
        self.0.rt.as_ref().filter(|_| !self.0.is_stopped.get())
    }

    fn is_suspended(&self) -> bool {
        self.0.suspension.reason().is_some()
    }

    /// Too much is dirty, and syncing makes it less; or the pool is suspended.
    fn is_full(&self) -> bool {
        let is_full = self.0.throttle.is_full(self.dirty_bytes());
        self.syncs().is_some() && (is_full || self.is_suspended())
    }

    /// How long a change waits now, with the executor on which it does.
    fn delay(&self) -> Option<(&Rt, Duration)> {
        Some((self.syncs()?, self.0.throttle.delay(self.dirty_bytes())?))
    }

    /// Whether a change has to wait.
    pub(super) fn holds_up(&self) -> bool {
        self.delay().is_some() || self.is_full()
    }

    /// Waits as long as a change has to.
    pub(super) async fn throttle(&self) {
        if let Some((rt, delay)) = self.delay().filter(|_| !self.is_suspended()) {
            let until = self.0.delayed.get().max(rt.now()) + delay;
            self.0.delayed.set(until);
            rt.sleep_until(until).await;
        }
        self.wait_for_room().await;
    }

    /// Waits while too much is dirty, or the pool is suspended.
    pub(super) async fn wait_for_room(&self) {
        while self.is_full() && !self.0.suspension.refuses() {
            if !self.0.suspension.passed().await {
                return;
            }
            let done = self.0.done.notified();
            if self.is_full() {
                select(pin!(done), pin!(self.0.suspension.changed())).await;
            }
        }
    }

    /// Waits until the open group is so large that it is to be committed.
    pub async fn filled(&self) {
        while self.0.dirty[0].get() < self.0.throttle.sync_at() {
            self.0.filled.notified().await;
        }
    }

    /// Nothing is synced any more: what would be changed is refused.
    pub fn stop(&self) {
        self.0.is_stopped.set(true);
        self.0.done.notify_waiters();
    }

    /// Bytes that are changed and not in the pool.
    pub fn dirty_bytes(&self) -> u64 {
        self.0.dirty.iter().map(Cell::get).sum()
    }

    /// What that takes on a device: a block of some bytes takes a sector.
    pub fn dirty_on_disk(&self) -> u64 {
        self.0.takes.iter().map(Cell::get).sum()
    }

    /// From here on a changed block counts so many bytes at the least in [`TxGroups::dirty_on_disk`].
    pub fn set_least(&self, bytes: u64) {
        self.0.least.set(bytes);
    }

    /// How often something was changed by who syncs: whether a task has changed anything can be seen by it.
    pub fn changes_by_sync(&self) -> u64 {
        self.0.synced_changes.get()
    }

    /// Joins the group that is being synced: only who syncs it may.
    pub fn join_syncing(&self) -> Tx {
        let txg = self.syncing().expect("a group is being synced");
        Tx { groups: self.clone(), txg, changes: Cell::new(0) }
    }

    /// The group that was being synced is in the pool.
    ///
    /// # Panics
    /// There is none.
    pub fn done(&self) {
        let done = self.0.syncing.take();
        assert!(done.is_some(), "a group was being synced");
        self.0.dirty[1].set(0);
        self.0.takes[1].set(0);
        self.0.done.notify_waiters();
    }

    /// The group that changes join.
    pub fn open(&self) -> Txg {
        self.0.open.get()
    }

    /// Joins the open group.
    ///
    /// # Errors
    /// More is changed than is held.
    pub(super) fn join(&self) -> Result<Tx, Problem> {
        if self.0.is_stopped.get() {
            return Err(Problem::Stopped);
        }
        if self.0.rt.is_some() && self.is_suspended() {
            return Err(Problem::Suspended);
        }
        // Who syncs makes others wait; one change may go beyond.
        if self.0.rt.is_none() && self.0.throttle.is_full(self.dirty_bytes()) {
            let (what, limit) = ("bytes of changes in memory", self.0.throttle.most());
            return Err(Problem::Limit { what, limit });
        }
        Ok(Tx { groups: self.clone(), txg: self.open(), changes: Cell::new(0) })
    }

    /// Closes the open group and opens the next.
    ///
    /// # Panics
    /// The group before is not synced yet: that is a bug of ours.
    pub fn rotate(&self) {
        assert!(self.0.syncing.get().is_none(), "one group syncs at a time");
        let closed = self.open();
        self.0.syncing.set(Some(closed));
        self.0.dirty[1].set(self.0.dirty[0].replace(0));
        self.0.takes[1].set(self.0.takes[0].replace(0));
        self.0.open.set(Txg(closed.0 + 1));
    }

    /// The last group that is in the pool.
    pub fn last_synced(&self) -> Txg {
        Txg(self.syncing().unwrap_or(self.open()).0 - 1)
    }

    /// The group that is being synced.
    pub fn syncing(&self) -> Option<Txg> {
        self.0.syncing.get()
    }
}

/// A transaction: a place in the open group, for as long as nobody waits.
pub struct Tx {
    groups: TxGroups,
    txg: Txg,
    changes: Cell<u64>,
}

impl Tx {
    /// The group that it joined.
    pub fn txg(&self) -> Txg {
        self.txg
    }

    /// Something was changed, and takes so many bytes more than before.
    pub(super) fn changed(&self, bytes: u64) {
        let is_open = self.txg == self.groups.open();
        assert!(
            is_open || Some(self.txg) == self.groups.syncing(),
            "a transaction ends before its group closes"
        );
        self.changes.set(self.changes.get() + 1);
        if !is_open {
            let all = &self.groups.0.synced_changes;
            all.set(all.get() + 1);
        }
        let takes = &self.groups.0.takes[usize::from(!is_open)];
        let on_disk = if bytes == 0 { 0 } else { bytes.max(self.groups.0.least.get()) };
        takes.set(takes.get().saturating_add(on_disk));
        let dirty = &self.groups.0.dirty[usize::from(!is_open)];
        let (before, enough) = (dirty.get(), self.groups.0.throttle.sync_at());
        dirty.set(before.saturating_add(bytes));
        if is_open && before < enough && dirty.get() >= enough {
            self.groups.0.filled.notify_waiters();
        }
    }

    /// How often something was changed in it.
    pub(super) fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// What was frozen by a group is of the one that syncs.
    pub(super) fn check_frozen(&self, frozen: Txg) {
        let known = Some(frozen) == self.groups.syncing();
        assert!(known && frozen < self.txg, "what a group froze is its own until it is synced");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_changed_is_bounded_over_both_groups() {
        let groups = TxGroups::never_synced(Txg(7), 100);
        let tx = groups.join().expect("there is room");
        assert_eq!((tx.txg(), groups.syncing()), (Txg(8), None));
        tx.changed(60);
        groups.rotate();
        assert_eq!((groups.open(), groups.syncing()), (Txg(9), Some(Txg(8))));
        let tx = groups.join().expect("there is room");
        tx.changed(40);
        assert!(groups.join().is_err() && tx.changes() == 1);
    }

    #[test]
    #[should_panic(expected = "ends before its group closes")]
    fn a_transaction_that_outlives_its_group_is_a_bug() {
        let groups = TxGroups::never_synced(Txg(7), 100);
        let tx = groups.join().expect("there is room");
        groups.rotate();
        groups.done();
        tx.changed(1);
    }
}
