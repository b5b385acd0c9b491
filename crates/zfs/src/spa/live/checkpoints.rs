//! The pool's checkpoint taken and discarded. See [`checkpoint`](super::super::checkpoint).

use super::super::checkpoint;
use super::super::kept;
use super::{Live, LiveError};
use async_recursion::async_recursion as boxed;

/// Why a checkpoint was not taken, or not discarded. In OpenZFS's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// There is one.
    #[error("checkpoint exists")]
    Exists,
    /// The last one is being discarded.
    #[error("currently discarding checkpoint")]
    Discarding,
    /// There is none.
    #[error("checkpoint does not exist")]
    Absent,
    /// The pool has no such feature, or its vdevs have no tables.
    #[error("operation not supported on this type of pool: it needs feature@zpool_checkpoint")]
    Unsupported,
    /// Nothing that it has now could be freed for what comes.
    #[error("out of space")]
    NoSpace,
    /// The pool can't be written.
    #[error(transparent)]
    Live(#[from] LiveError),
}

impl Live {
    /// Whether the pool has a checkpoint, or one is being discarded: its vdevs and its GUID stay as they are.
    ///
    /// # Errors
    /// It has one.
    pub fn check_no_checkpoint(&self) -> Result<(), CheckpointError> {
        match self.syncer().writer().space(|space| space.checkpoint()) {
            Some(_) => Err(CheckpointError::Exists),
            None if self.discarding.get() => Err(CheckpointError::Discarding),
            None => Ok(()),
        }
    }

    /// Takes a checkpoint of all that was changed up to now.
    ///
    /// # Errors
    /// There is one, or the pool can't have one; where it can't be written it is stopped.
    #[boxed(?Send)]
    pub async fn checkpoint(&self) -> Result<(), CheckpointError> {
        let one = self.alone().await;
        self.check_no_checkpoint()?;
        let tops = self.syncer().config().root.children;
        let mut tops = tops.iter().filter(|top| top.is_there());
        if !self.is_enabled(checkpoint::FEATURE) || !tops.all(|top| kept::table_of(top).is_some()) {
            return Err(CheckpointError::Unsupported);
        }
        if !self.await_freed(&one).await? {
            return Err(CheckpointError::NoSpace);
        }
        if self.is_dirty() {
            self.sync_alone(&one, async |_| Ok(())).await?;
        }
        let uberblock = self.spa().uberblock();
        // Nothing is freed between that group and the next.
        self.syncer().writer().space(|space| space.keep(Some(uberblock.txg)));
        let syncer = self.syncer();
        let taken =
            self.sync_alone(&one, async |maker| checkpoint::take(maker, syncer, &uberblock).await);
        taken.await?;
        Ok(self.follow_pool().await.map_err(LiveError::from)?)
    }

    /// Discards the checkpoint. What it kept is freed by the groups that follow ([`Live::finish_freeing`]).
    ///
    /// # Errors
    /// There is none; where the pool can't be written it is stopped.
    #[boxed(?Send)]
    pub async fn discard_checkpoint(&self) -> Result<(), CheckpointError> {
        let one = self.alone().await;
        match self.check_no_checkpoint() {
            Err(CheckpointError::Exists) => {}
            Err(error) => return Err(error),
            Ok(()) => return Err(CheckpointError::Absent),
        }
        self.syncer().writer().space(|space| space.keep(None));
        let syncer = self.syncer();
        self.sync_alone(&one, async |maker| checkpoint::begin_discard(maker, syncer).await).await?;
        self.discarding.set(true);
        self.freeing().look_again();
        Ok(())
    }
}
