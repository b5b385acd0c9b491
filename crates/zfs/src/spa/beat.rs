//! When groups of a pool that is open for writing are committed, and how much may still be written to it.
//!
//! **When.** [`Live::keep_synced`] commits the open group every [`SPAN`], and earlier when a fifth of what may be dirty is; who wants
//! durability ([`Live::make_durable`]) doesn't wait for either.
//!
//! **How much.** A group that finds no room can't be committed, and the pool stops. So new data is refused before:
//!
//! ```text
//!   room = size − taken − slop − dirty · (the most that a vdev makes of a byte) · copies
//! ```
//!
//! A block that is dirty counts a sector at the least.
//!
//! The slop is [`Writer::unreserved`](zfs_store::Writer::unreserved)'s. Nor may a dataset take what is kept free for another, or is
//! beyond a quota: [`room`](super::room). Metadata, deletions and what is wrong with this estimate live on the slop. What was
//! freed is *taken* for three groups more:
//! who lacks room commits some before giving up ([`Live::has_room`]).
//!
//! Source: OpenZFS, `txg.c`.

use super::datasets::reserve::Spares;
use super::live::{Live, LiveError};
use super::room;
use crate::error::ZfsError;
use futures_util::future::{Either, select};
use std::future::Future;
use std::pin::pin;
use std::time::Duration;
use tokio::sync::MutexGuard;
use zfs_format::vdev::{Vdev, VdevKind};
use zfs_store::alloc::Class;

/// How long changes wait at the most before they are committed: OpenZFS's `zfs_txg_timeout`.
const SPAN: Duration = Duration::from_secs(5);
/// Bytes with which no task is refused.
const ENOUGH_FOR_TASKS: u64 = 1 << 20;
/// Groups after which what was freed can be used again.
const GROUPS_UNTIL_FREE: usize = 4;

/// What a byte takes on such a vdev at the most, of blocks of whole sectors, or rows of a dRAID.
fn growth_of(kind: &VdevKind) -> u64 {
    match kind {
        VdevKind::Raidz(raidz) => 1 + raidz.parity,
        VdevKind::Draid(_) => 4,
        _ => 1,
    }
}

impl Live {
    /// Commits groups until it is told to end.
    ///
    /// # Errors
    /// The pool is stopped: changes are refused from then on.
    pub async fn keep_synced(&self, until: impl Future<Output = ()>) -> Result<(), LiveError> {
        let mut until = pin!(until);
        loop {
            let span = pin!(self.spa().rt().sleep(SPAN));
            let filled = pin!(self.syncer().groups().filled());
            let due = select(span, filled);
            if let Either::Left(_) = select(&mut until, due).await {
                return Ok(());
            }
            // A suspended pool has a group that waits, or nothing that could be written.
            if !self.suspension().passed().await {
                return Err(LiveError::GivenUp);
            }
            let is_due = self.freeing().waits() || self.syncer().owes_dtls();
            match is_due && !self.is_dirty() {
                true => self.sync(async |_| Ok(())).await?,
                false => self.make_durable().await?,
            }
        }
    }

    /// What was freed can be taken again some groups later: who has a task to do, and little room for it, waits for them. Says whether
    /// there is more than a little room then.
    ///
    /// # Errors
    /// The pool is stopped.
    pub(super) async fn await_freed(&self, one: &MutexGuard<'_, ()>) -> Result<bool, LiveError> {
        let writer = self.syncer().writer();
        for _ in 0..GROUPS_UNTIL_FREE {
            let waits = writer.space(|space| space.usage(Class::Normal)).waiting > 0;
            if writer.unreserved() >= ENOUGH_FOR_TASKS || !(waits || self.freeing().waits()) {
                break;
            }
            self.sync_alone(one, async |_| Ok(())).await?;
        }
        Ok(writer.unreserved() >= ENOUGH_FOR_TASKS)
    }

    /// Whether anything at all may still be changed: what lets go is, on a share of the slop. Beyond that it stays free for tasks that
    /// destroy something.
    pub fn has_reserve(&self) -> bool {
        self.syncer().writer().beyond_slop(Spares::Quarter as u32) > 0
    }

    /// Bytes that can still be written in so many copies.
    pub fn room(&self, copies: u64) -> u64 {
        let grows = copies.max(1).saturating_mul(self.growth());
        let dirty = self.syncer().groups().dirty_on_disk().saturating_mul(grows);
        self.syncer().writer().unreserved().saturating_sub(dirty) / grows
    }

    /// What a byte takes on a vdev at the most.
    fn growth(&self) -> u64 {
        let vdevs = self.spa().vdevs();
        vdevs.children.iter().map(|top| growth_of(&top.kind)).max().unwrap_or(1)
    }

    /// A change that makes a block dirty counts what the block takes on a vdev at the least, by what a byte takes at the most.
    pub(super) fn count_sectors(&self) {
        let least = |top: &Vdev| {
            let sector = 1 << top.ashift.unwrap_or(9).min(63);
            match &top.kind {
                // It takes a whole row.
                VdevKind::Draid(_) => {
                    let row = top.children.len() as u64;
                    sector * row.div_ceil(growth_of(&top.kind))
                }
                _ => sector,
            }
        };
        let vdevs = self.spa().vdevs();
        let least = vdevs.children.iter().map(least).max().unwrap_or(0);
        self.syncer().groups().set_least(least);
    }

    /// Bytes that a dataset can still take in so many copies: of what the pool has, and of what is left to it there.
    ///
    /// # Errors
    /// What is needed can't be had.
    async fn room_in(&self, dataset: u64, copies: u64) -> Result<u64, ZfsError> {
        let left = self.rooms.of(self.syncer(), dataset).await?;
        Ok(self.room_of(left, copies))
    }

    /// The same where so much is left to it.
    fn room_of(&self, left: u64, copies: u64) -> u64 {
        let dirty = self.syncer().groups().dirty_on_disk().saturating_mul(copies.max(1));
        self.room(copies).min(left.saturating_sub(dirty) / copies.max(1))
    }

    /// Whether it is known that so many bytes can be written to a dataset in so many copies; [`Live::has_room`] says more.
    pub fn has_room_now(&self, dataset: u64, bytes: u64, copies: u64) -> bool {
        let left = self.rooms.known(self.syncer(), dataset);
        left.is_some_and(|left| bytes <= self.room_of(left, copies))
    }

    /// Whether so many bytes can still be written to a dataset in so many copies, if need be after what was freed has become
    /// free.
    ///
    /// # Errors
    /// The pool is stopped, or what is needed can't be had.
    pub async fn has_room(&self, dataset: u64, bytes: u64, copies: u64) -> Result<Room, LiveError> {
        for _ in 0..GROUPS_UNTIL_FREE {
            if bytes <= self.room_in(dataset, copies).await? {
                return Ok(Room::Enough);
            }
            // What was let go is freed by tasks of their own.
            self.spa().rt().yield_now().await;
            let usage = self.syncer().writer().space(|space| space.usage(Class::Normal));
            if usage.waiting == 0 && !self.is_dirty() {
                break;
            }
            self.sync(async |_| Ok(())).await?;
        }
        if bytes <= self.room_in(dataset, copies).await? {
            return Ok(Room::Enough);
        }
        let used = self.spa().dsl().root().await?.head.used_bytes;
        let left = room::capacity(self.syncer()).saturating_sub(used);
        match bytes <= self.room_of(left, copies) {
            true => Ok(Room::QuotaReached),
            false => Ok(Room::PoolFull),
        }
    }
}

/// Whether something can be written, and why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// It can.
    Enough,
    /// The pool has no room for it.
    PoolFull,
    /// The pool would have; the dataset's quota, its `refquota`, or that of one above it, is reached.
    QuotaReached,
}
