//! A pool taken back: to the newest state of which all that leads to data is there.
//!
//! Where the newest uberblock doesn't lead to a pool (a device lied about what was durable), one of those before it may: space that a
//! group freed is not used again for two more groups, so what two groups back was there is there. Further back parts may be overwritten:
//! that is tried only where it is asked for.
//!
//! A state is whole when the pool opens there, its space maps and what it notes of its devices can be had, and nothing that leads on is damaged of what was written from
//! two groups before it on. What is damaged of older blocks is so in all states, and no reason to give up newer ones.
//!
//! A state of whose groups some are [newly lost](super::Spa::newly_lost) isn't whole either, unless that is accepted: those before the first of them
//! have none of it.
//!
//! Nothing is written here. Who goes on from such a state writes groups after the newest that was ever on a label
//! ([`LiveOptions::taken_back`](super::live::LiveOptions)): so no uberblock that was given up is the best again.
//!
//! Source: OpenZFS, `spa.c` (`spa_load_best`, `spa_load_verify`).

use super::dtls;
use super::error::{GROUPS_KEPT, OpenError};
use super::found::FoundPool;
use super::map_logs;
use super::open::{OpenOptions, Spa};
use crate::error::ZfsError;
use crate::show;
use async_recursion::async_recursion as boxed;
use rt::Rt;
use std::rc::Rc;

/// How a pool is taken back.
#[derive(Clone, Copy, Debug, Default)]
pub struct Back {
    /// To any state, however old it is.
    pub far: bool,
    /// Though groups of it are lost.
    pub accepts_loss: bool,
}

/// Opens the newest state that is whole.
///
/// # Errors
/// There is none, a device is missing, or the pool is of a kind that is not read: what was wrong with the newest.
#[boxed(?Send)]
pub async fn newest_whole(
    rt: &Rt,
    found: &FoundPool,
    options: OpenOptions,
    how: Back,
) -> Result<Rc<Spa>, OpenError> {
    let Back { far, accepts_loss } = how;
    let mut txgs: Vec<u64> = found.uberblocks().iter().map(|uberblock| uberblock.txg).collect();
    txgs.dedup();
    let newest = txgs.first().copied().unwrap_or(0);
    let mut first = None;
    for txg in txgs.into_iter().filter(|txg| far || newest - txg <= GROUPS_KEPT) {
        let options = OpenOptions { txg: Some(txg), ..options };
        let error = match Spa::open_as(rt, found, options).await {
            Ok(spa) => {
                let pool = found.name.clone();
                let lost = spa.newly_lost(found);
                match lost.is_empty() || accepts_loss {
                    false => OpenError::Lost { pool, groups: show::groups(&lost), far },
                    true => match check(&spa, accepts_loss).await {
                        Ok(()) => return Ok(Rc::new(spa)),
                        Err(error) => OpenError::Zfs { pool, error: Box::new(error) },
                    },
                }
            }
            Err(error @ OpenError::Zfs { .. }) => error,
            // Older states lack it too.
            Err(error) => return Err(error),
        };
        first.get_or_insert(error);
    }
    match first {
        Some(error) => Err(Spa::explained(rt, found, options, error).await),
        None => Err(OpenError::NoUberblock { pool: found.name.clone() }),
    }
}

/// Whether what leads to data is there.
async fn check(spa: &Spa, accepts_loss: bool) -> Result<(), ZfsError> {
    dtls::load(spa, accepts_loss).await?;
    let root = spa.classified().await?;
    map_logs::load(spa, &root.children).await?;
    let recent = spa.uberblock().txg.saturating_sub(GROUPS_KEPT);
    let mut walk = spa.walk();
    while let Some(visited) = walk.next().await {
        let visited = visited?;
        if let Some(problem) = visited.problem
            && visited.pointer.logical_birth() >= recent
        {
            return Err(problem);
        }
    }
    Ok(())
}
