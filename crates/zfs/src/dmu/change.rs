//! A change of objects: planned and carried out without waiting.
//!
//! A change must see one state and carry out all of it or nothing, and what it needs to look at may have to be read. So it is
//! a function that doesn't wait. It looks at blocks that are in memory; where one isn't, it ends with [`Blocked::Need`] before
//! it has changed anything, the block is read and held, and the function runs again. Once all is there it plans and
//! applies in one go: nothing else ran in between, so what it saw is what it changes.
//!
//! ```text
//!   objset.change(|tx| {
//!       let directory = objset.resident(number)?;     plan: may need a block
//!       let place = zap.plan_insert(name)?;
//!       zap.insert(tx, place);                        apply: can't fail
//!       Ok(())
//!   }).await
//! ```
//!
//! [`Objset::look`] runs the same for who only wants to see one state.
//!
//! Each round holds one block more, and a change looks at few: [`HOLDS_MAX`] bounds the rounds.
//!
//! Source: `docs/theory/pools.md`; OpenZFS's way is `dmu_tx.c`.

use super::objset::Objset;
use super::step::{Blocked, Hold, Step};
use super::txg::{Tx, TxGroups};
use crate::error::{Problem, ZfsError};
use async_recursion::async_recursion as boxed;

/// Blocks that one change looks at, at the most: indirect ones, leaves of a table, the blocks of a table of pointers that is
/// doubled. More than the largest directory's table has (2^20 leaves in blocks of 16 KiB: 512).
const HOLDS_MAX: usize = 4096;

impl Objset {
    /// Carries out a change.
    ///
    /// # Errors
    /// What it needs can't be had; or more is changed already than is held.
    pub async fn change<T>(&self, mut how: impl FnMut(&Tx) -> Step<T>) -> Result<T, ZfsError> {
        let mut done = None;
        self.carry_out(None, &mut |tx| how(tx).map(|given| done = Some(given))).await?;
        Ok(done.expect("it was carried out"))
    }

    /// Carries out a change in the group that syncs, for who syncs it: of what nobody changes in the open one.
    ///
    /// # Errors
    /// What it needs can't be had.
    pub async fn change_syncing<T>(
        &self,
        groups: &TxGroups,
        mut how: impl FnMut(&Tx) -> Step<T>,
    ) -> Result<T, ZfsError> {
        let mut done = None;
        self.carry_out(Some(groups), &mut |tx| how(tx).map(|given| done = Some(given))).await?;
        Ok(done.expect("it was carried out"))
    }

    /// In the group of `syncing` that syncs; without, in the open one. Compiled once, whatever the change is.
    #[boxed(?Send)]
    async fn carry_out(
        &self,
        syncing: Option<&TxGroups>,
        how: &mut dyn FnMut(&Tx) -> Step<()>,
    ) -> Result<(), ZfsError> {
        let mut held = Vec::new();
        if syncing.is_none() {
            self.throttle().await;
        }
        loop {
            let tx = match syncing {
                Some(groups) => groups.join_syncing(),
                None => {
                    self.wait_for_room().await;
                    self.join()?
                }
            };
            let blocked = match how(&tx) {
                Ok(()) => return Ok(()),
                Err(blocked) => blocked,
            };
            assert!(tx.changes() == 0, "what changes something has planned all of it before");
            drop(tx);
            self.unblock(blocked, &mut held).await?;
        }
    }

    /// Carries out a change at once; nothing where it has to wait, or can't be done: [`Objset::change`] says.
    pub fn change_now<T>(&self, how: impl FnOnce(&Tx) -> Step<T>) -> Option<T> {
        if self.holds_up() {
            return None;
        }
        let tx = self.join().ok()?;
        let done = how(&tx).ok();
        let is_whole = done.is_some() || tx.changes() == 0;
        assert!(is_whole, "what changes something has planned all of it before");
        done
    }

    /// Looks at one state.
    ///
    /// # Errors
    /// What is looked at can't be had.
    pub async fn look<T>(&self, mut how: impl FnMut() -> Step<T>) -> Result<T, ZfsError> {
        let mut held = Vec::new();
        loop {
            match how() {
                Ok(seen) => return Ok(seen),
                Err(blocked) => self.unblock(blocked, &mut held).await?,
            }
        }
    }

    #[boxed(?Send)]
    async fn unblock(&self, blocked: Blocked, held: &mut Vec<Hold>) -> Result<(), ZfsError> {
        let need = match blocked {
            Blocked::Wrong(error) => return Err(error),
            Blocked::Need(need) => need,
        };
        if held.len() >= HOLDS_MAX {
            let (what, limit) = ("blocks that one change looks at", HOLDS_MAX as u64);
            return Err(self.wrong(0, Problem::Limit { what, limit }));
        }
        held.push(need.read().await?);
        Ok(())
    }
}
