//! A pool whose devices fail: what its property `failmode` says of that, and how it is resumed.
//!
//! By itself a pool that is open for writing *stops* when a write fails that no redundancy bears: who has it open for one command has nobody
//! who could resume it. Who holds it for long says so ([`Live::hold`]), and then the property counts:
//!
//! ```text
//!   wait       suspended: who changes, and who waits for a group, waits
//!   continue   suspended: changes are refused, and so is who asks for durability from then on; what is being committed waits
//!   panic      it stops
//! ```
//!
//! [`Live::clear`] resumes: what waited goes on with the group that it was in. [`Live::give_up`] ends it as a power cut would.
//!
//! What a group needs to read waits like a write where `failmode` is `wait`; else a group that can't read what it needs stops the pool.
//!
//! Source: OpenZFS, `zio.c` (`zio_suspend`), `zfs_ioctl.c` (`zfs_ioc_clear`).

use super::{CommitError, Live, LiveError};
use crate::error::ZfsError;
use crate::spa::open::Spa;
use crate::zap::Zap;
use async_recursion::async_recursion as boxed;
use futures_util::future::{Either, select};
use std::pin::pin;
use std::rc::Rc;
use zfs_format::pool_directory;
use zfs_format::vdev::Vdev;
use zfs_store::vdev::suspend::Reason;
use zfs_store::{OnFailure, Suspension};

/// What the configuration says of a leaf that somebody found to be bad.
const FAULT_MARKS: [&str; 3] = ["faulted", "degraded", "aux_state"];

/// A number among a pool's properties, where it is set.
///
/// # Errors
/// What is needed can't be had.
pub(super) async fn pool_number(spa: &Spa, name: &'static str) -> Result<Option<u64>, ZfsError> {
    let directory = Zap::open(spa.mos().dnode(pool_directory::OBJECT).await?).await?;
    let Some(number) = directory.number(pool_directory::PROPERTIES).await? else {
        return Ok(None);
    };
    Zap::open(spa.mos().dnode(number).await?).await?.number(name).await
}

/// Why a pool was not resumed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClearError {
    /// Its devices still fail, and it is suspended as before.
    #[error("I/O error")]
    Io,
    /// It was given up, or stopped.
    #[error(transparent)]
    Live(#[from] LiveError),
}

/// Takes marks off leaves; says whether one had any.
fn unmark(vdev: &mut Vdev, which: &impl Fn(u64) -> bool) -> bool {
    let before = vdev.other.len();
    if vdev.is_leaf() && which(vdev.guid) {
        vdev.other.retain(|(name, _)| !FAULT_MARKS.contains(&name.as_str().unwrap_or_default()));
    }
    let is_changed = vdev.other.len() != before;
    vdev.children.iter_mut().fold(is_changed, |changed, child| unmark(child, which) | changed)
}

impl Live {
    /// Whether the pool is suspended, and what happens when a write fails.
    pub fn suspension(&self) -> &Rc<Suspension> {
        self.syncer.writer().tree().suspension()
    }

    /// Somebody holds the pool who can resume it: its property `failmode` counts from here on.
    ///
    /// # Errors
    /// The property can't be had.
    #[boxed(?Send)]
    pub async fn hold(&self) -> Result<(), ZfsError> {
        self.is_held.set(true);
        self.follow_failmode().await
    }

    /// What happens on a failure follows what is set.
    pub(super) async fn follow_failmode(&self) -> Result<(), ZfsError> {
        const CONTINUE: u64 = 1;
        const PANIC: u64 = 2;
        let mode = pool_number(&self.spa, "failmode").await?.unwrap_or(0);
        self.panics.set(mode == PANIC);
        let on_failure = match mode {
            _ if !self.is_held.get() => OnFailure::Stop,
            CONTINUE => OnFailure::Continue,
            PANIC => OnFailure::Stop,
            _ => OnFailure::Wait,
        };
        self.suspension().set_on_failure(on_failure);
        Ok(())
    }

    /// Signs of life are given as is set.
    pub(super) async fn follow_multihost(&self) -> Result<(), ZfsError> {
        let is_on = pool_number(&self.spa, "multihost").await?.unwrap_or(0) != 0;
        self.syncer.mmp().set(is_on, self.spa.uberblock());
        Ok(())
    }

    /// Forgets the errors of a vdev and all below it, or of the whole pool; and resumes it, if it is suspended. Where another host may
    /// have taken it meanwhile, its devices are looked at: each time after `look_anew`, so that nothing of them is kept.
    ///
    /// # Errors
    /// It is suspended again at once, or is not written any more.
    #[boxed(?Send)]
    pub async fn clear(&self, vdev: Option<&Vdev>, look_anew: &dyn Fn()) -> Result<(), ClearError> {
        let is_meant = |guid: u64| vdev.is_none_or(|vdev| has(vdev, guid));
        self.syncer.writer().tree().clear(is_meant).await;
        let suspension = self.suspension();
        if suspension.reason().is_some() {
            let mmp = self.syncer.mmp();
            if mmp.is_on() {
                let groups = self.syncer.groups();
                let last = groups.syncing().unwrap_or(groups.last_synced()).0;
                let host = self.fresh.host().map_or(0, |(number, _)| number);
                if mmp.is_taken(last, host, look_anew).await {
                    return Err(ClearError::Live(LiveError::Taken));
                }
                mmp.begin_anew();
            }
            suspension.resume();
            // Until what waited is done, or fails anew.
            let between = pin!(self.syncing.lock());
            let fails = async {
                loop {
                    let changed = suspension.changed();
                    if suspension.reason().is_some() {
                        return;
                    }
                    changed.await;
                }
            };
            if let Either::Right(_) = select(between, pin!(fails)).await {
                return Err(ClearError::Io);
            }
        }
        self.check_stopped()?;
        let mut root = self.syncer.config().root;
        if unmark(&mut root, &is_meant) {
            self.syncer.change_config(|config| config.root = root);
            self.sync(async |_| Ok(())).await?;
        }
        Ok(())
    }

    /// Nobody resumes the pool any more: who waits is refused, and what was not made durable is lost.
    pub fn give_up(&self) {
        self.suspension().give_up();
    }

    /// Why it was suspended and is not resumed any more, where that is so.
    fn given_up(&self) -> Option<LiveError> {
        let suspension = self.suspension();
        let reason = suspension.reason().filter(|_| suspension.was_given_up())?;
        Some(match reason {
            Reason::Multihost if !self.is_held.get() => LiveError::NoSigns,
            _ => LiveError::GivenUp,
        })
    }

    /// Refuses what is new where nobody may wait for it.
    pub(super) fn check_suspended(&self) -> Result<(), LiveError> {
        match self.given_up() {
            Some(error) => Err(error),
            None if self.suspension().refuses() => Err(LiveError::Suspended),
            None => Ok(()),
        }
    }

    /// Why nothing more is written, after a group that is not in the pool.
    pub(super) fn why(&self, error: CommitError) -> LiveError {
        match self.given_up() {
            Some(given_up) => given_up,
            None if self.panics.get() && is_of_devices(&error) => LiveError::Panic(error),
            None => LiveError::Stopped(error),
        }
    }
}

/// Whether a vdev is the one of this GUID, or has it below.
fn has(vdev: &Vdev, guid: u64) -> bool {
    vdev.guid == guid || vdev.children.iter().any(|child| has(child, guid))
}

/// Whether it is that devices fail.
fn is_of_devices(error: &CommitError) -> bool {
    match error {
        CommitError::Flush(_) | CommitError::NoUberblock => true,
        CommitError::Zfs(error) => matches!(error, ZfsError::Write { .. }) || error.is_of_devices(),
        CommitError::Label(_) => false,
    }
}
