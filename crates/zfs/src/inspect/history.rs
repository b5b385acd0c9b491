//! The pool's history: who did what to it, and when.
//!
//! The record of the pool's creation stays; the others lie in a ring, of which the oldest are overwritten.
//!
//! Source: OpenZFS, `spa_history.c`.

use crate::error::{Problem, ZfsError};
use crate::spa::Spa;
use crate::zap::Zap;
use async_recursion::async_recursion as boxed;
use zfs_format::history::{self, History};
use zfs_format::nvlist::NvList;
use zfs_format::pool_directory;
use zfs_format::wire::Record;

/// Bytes of history that are read: OpenZFS's ring has 1 GiB at the most; what is shown at once is bounded here.
const BYTES_MAX: u64 = 256 << 20;

impl Spa {
    /// All records, from the oldest on.
    ///
    /// # Errors
    /// The object can't be had, or a record is none.
    #[boxed(?Send)]
    pub async fn history(&self) -> Result<Vec<NvList>, ZfsError> {
        let directory = Zap::open(self.mos().dnode(pool_directory::OBJECT).await?).await?;
        let Some(number) = directory.number(pool_directory::HISTORY).await? else {
            return Ok(Vec::new());
        };
        let object = self.mos().dnode(number).await?;
        let wrong = |error| object.wrong(error);
        let header = History::decode(&object.phys().bonus, object.endian()).map_err(wrong)?;
        let limit = |what| object.problem(Problem::Limit { what, limit: BYTES_MAX });
        let ring = header.bytes_max.saturating_sub(header.create_bytes);
        let length = header.end.saturating_sub(header.begin);
        if length > ring || length > BYTES_MAX || header.create_bytes > BYTES_MAX {
            return Err(limit("bytes of the history"));
        }
        let mut bytes = object.read(0, header.create_bytes as usize).await?.to_vec();
        let mut at = header.begin;
        while at < header.end {
            let place = header.physical(at).ok_or_else(|| limit("bytes of the history"))?;
            // Up to the ring's end.
            let len = (header.end - at).min(header.bytes_max.saturating_sub(place));
            if len == 0 {
                return Err(limit("bytes of the history"));
            }
            bytes.extend(object.read(place, len as usize).await?.to_vec());
            at += len;
        }
        let records = history::records(&bytes).map_err(wrong)?;
        Ok(records.into_iter().map(|(list, _)| list).collect())
    }
}
