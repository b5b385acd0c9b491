//! Signs of life of a pool that is open for writing: multi-modifier protection (MMP), as who has the pool gives them.
//!
//! While its property `multihost` is on, each leaf gets an uberblock every [`INTERVAL`], in the last slot of one of its labels, which groups
//! leave alone. It is that of the last group in the pool, with the time and a count: so whoever takes it for the root has the same
//! pool, and who [watches](super::multihost) sees that somebody is there.
//!
//! ```text
//!   group N in the pool ──▶ its uberblock ──▶ again, sequence 1 ──▶ again, 2 ──▶ … ──▶ group N+1
//!                                             leaf after leaf, a label drawn each time
//! ```
//!
//! **No sign for [`FAIL_INTERVALS`] intervals**: another host that watched for twice as long may have taken the pool. So it is suspended before
//! anything more is written ([`zfs_store::Suspension`]): by who gives signs, or by who is about to write, where the whole process stood still. It is
//! resumed only if nobody else wrote ([`Mmp::is_taken`]).
//!
//! What it doesn't do: claim the pool with a number of its own before it writes, by which two hosts that take a pool in the same
//! moment would see each other (OpenZFS 2.4); who watches adds a part that is drawn, as OpenZFS did before.
//!
//! Source: OpenZFS, `mmp.c`, `spa.c` (`spa_mmp_remote_host_activity`).

use super::multihost;
use crate::dsl::make::Fresh;
use rt::{Rt, Task};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;
use stdx::Instant;
use zfs_format::label::LABELS;
use zfs_format::uberblock::{self, Uberblock};
use zfs_store::Tree;
use zfs_store::vdev::suspend::Reason;

/// Between two signs on one leaf: OpenZFS's `zfs_multihost_interval`.
pub const INTERVAL: Duration = Duration::from_secs(1);
/// Intervals without a sign after which the pool is suspended: OpenZFS's `zfs_multihost_fail_intervals`.
pub const FAIL_INTERVALS: u16 = 10;
/// Slots of each label that are kept for signs.
const SLOTS_KEPT: u64 = 1;
/// What a delay counts in the mean of all, one in so many.
const MEAN_OF: u64 = 128;

/// See the [module](self).
pub struct Mmp(Rc<Inner>);

struct Inner {
    rt: Rt,
    tree: Rc<Tree>,
    fresh: Rc<dyn Fresh>,
    is_on: Cell<bool>,
    /// The uberblock of the last group in the pool, with the last sign's time.
    last: RefCell<Option<Uberblock>>,
    sequence: Cell<u16>,
    delay: Cell<Duration>,
    last_sign: Cell<Instant>,
    /// The leaf that was chosen last, and those on which a sign is on its way.
    chosen: Cell<usize>,
    under_way: RefCell<BTreeSet<u64>>,
    giving: RefCell<Option<Task<()>>>,
}

impl Mmp {
    /// Of a pool on these vdevs; off.
    pub fn new(rt: &Rt, tree: &Rc<Tree>, fresh: &Rc<dyn Fresh>) -> Mmp {
        let (is_on, last, sequence, chosen, under_way, giving) = Default::default();
        let inner = Inner {
            rt: rt.clone(),
            tree: Rc::clone(tree),
            fresh: Rc::clone(fresh),
            is_on,
            last,
            sequence,
            delay: Cell::new(INTERVAL),
            last_sign: Cell::new(rt.now()),
            chosen,
            under_way,
            giving,
        };
        Mmp(Rc::new(inner))
    }

    /// Whether signs are given.
    pub fn is_on(&self) -> bool {
        self.0.is_on.get()
    }

    /// Gives signs from here on, or none; `root` is the uberblock of the last group in the pool.
    pub fn set(&self, is_on: bool, root: Uberblock) {
        if self.0.is_on.replace(is_on) == is_on {
            return;
        }
        self.0.last.borrow_mut().get_or_insert(root);
        self.begin_anew();
        let inner = Rc::clone(&self.0);
        let giving = is_on.then(|| self.0.rt.spawn(async move { inner.give().await }));
        *self.0.giving.borrow_mut() = giving;
    }

    /// Nothing was written for a while, and nothing was to be: the time counts from here.
    pub fn begin_anew(&self) {
        self.0.delay.set(INTERVAL);
        self.0.last_sign.set(self.0.rt.now());
        self.0.set_deadline();
    }

    /// Slots of each label that groups leave alone.
    pub fn slots_kept(&self) -> u64 {
        if self.is_on() { SLOTS_KEPT } else { 0 }
    }

    /// What the uberblock of a group says.
    pub fn state_in(&self, uberblock: &mut Uberblock) {
        if self.is_on() {
            self.0.state_in(uberblock, 0);
        }
    }

    /// A group is in the pool: that was a sign, too.
    pub fn group_done(&self, root: &Uberblock) {
        *self.0.last.borrow_mut() = Some(root.clone());
        self.0.sequence.set(0);
        if self.is_on() {
            self.0.note(true);
        }
    }

    /// Whether another host took the pool: its uberblock is none of ours, up to this group; or it changes while it is watched.
    pub async fn is_taken(&self, last_own: u64, host: u64, look_anew: &dyn Fn()) -> bool {
        look_anew();
        let devices = self.0.tree.devices();
        let Some(best) = multihost::best(&devices).await else { return false };
        let is_own = best.uberblock.txg <= last_own && best.host.is_none_or(|other| other == host);
        let span = multihost::span(&best.uberblock).unwrap_or(INTERVAL);
        !is_own || multihost::is_active(&self.0.rt, &devices, span, look_anew).await
    }
}

impl Drop for Mmp {
    fn drop(&mut self) {
        // The task has what it belongs to.
        self.0.giving.take();
    }
}

impl Inner {
    fn state_in(&self, uberblock: &mut Uberblock, sequence: u16) {
        uberblock.set_mmp(uberblock::Mmp {
            // 0 would say that it is off.
            delay_ns: (self.delay.get().as_nanos() as u64).max(1),
            interval_ms: Some(INTERVAL.as_millis() as u32),
            sequence: Some(sequence),
            fail_intervals: Some(FAIL_INTERVALS),
        });
    }

    fn set_deadline(&self) {
        let deadline = self.last_sign.get() + INTERVAL * u32::from(FAIL_INTERVALS);
        self.tree.suspension().set_deadline(self.is_on.get().then_some(deadline));
    }

    /// A sign was given, or could not be: others are told how long they have to wait for one.
    fn note(&self, was_given: bool) {
        let now = self.rt.now();
        let (since, known) = (now - self.last_sign.get(), self.delay.get());
        let mut delay = known.max(since);
        if was_given {
            self.last_sign.set(now);
            self.set_deadline();
            if since < known {
                let least = INTERVAL / self.tree.leaf_guids().len().max(1) as u32;
                let mean = (since + known * (MEAN_OF as u32 - 1)) / MEAN_OF as u32;
                delay = mean.max(least);
            }
        }
        self.delay.set(delay);
    }

    /// Gives signs, leaf after leaf, until nobody wants them.
    async fn give(self: Rc<Self>) {
        loop {
            let leaves = self.tree.leaf_guids();
            let next = self.rt.now() + INTERVAL / leaves.len().max(1) as u32;
            let suspension = self.tree.suspension();
            if suspension.reason().is_none() {
                if suspension.is_late(self.rt.now()) {
                    suspension.suspend(Reason::Multihost);
                } else {
                    self.sign(&leaves);
                }
            }
            self.rt.sleep_until(next).await;
        }
    }

    /// Begins one sign, on the next leaf on which none is on its way.
    fn sign(self: &Rc<Self>, leaves: &[(u32, u64)]) {
        let away = self.tree.leaves_away();
        let is_free = |guid: &u64| !away.contains(guid) && !self.under_way.borrow().contains(guid);
        let from = self.chosen.get() + 1;
        let order = (0..leaves.len()).map(|n| (from + n) % leaves.len());
        let Some(chosen) = order.into_iter().find(|n| is_free(&leaves[*n].1)) else {
            return self.note(false);
        };
        self.chosen.set(chosen);
        let Some(mut root) = self.last.borrow().clone() else { return };
        let now = self.fresh.now();
        if root.timestamp != now {
            root.timestamp = now;
            self.sequence.set(0);
        }
        let sequence = self.sequence.get().wrapping_add(1);
        self.sequence.set(sequence);
        self.state_in(&mut root, sequence);
        if let Some(last) = &mut *self.last.borrow_mut() {
            last.timestamp = root.timestamp;
        }
        let label = (self.fresh.number() >> 32) as usize % LABELS;
        let (own, leaf) = (Rc::clone(self), leaves[chosen].1);
        self.under_way.borrow_mut().insert(leaf);
        let signing = async move {
            let given = own.tree.write_sign(leaf, label, &root).await;
            own.under_way.borrow_mut().remove(&leaf);
            own.note(given);
        };
        self.rt.spawn(signing).detach();
    }
}
