//! What tasks leave alone of the slop.
//!
//! **Tasks** live on the slop, and leave a share of it alone: all of it what makes something new, half of it what changes something, a
//! quarter what lets go. So there is always room to destroy something. A group that finds no room can't be committed, and the pool
//! is not written any more: a task is refused long before.
//!
//! Source: OpenZFS, `dsl_synctask.c` (`dsl_sync_task_sync`), `dsl_pool.c` (`dsl_pool_adjustedsize`).

use zfs_store::Writer;

/// Bytes of a block that a task writes to the MOS, with its copies.
const TASK_BLOCK_BYTES: u64 = 3 * (16 << 10);

/// How much of the slop a task leaves alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spares {
    /// What makes something new: all of it.
    All,
    /// What changes something: half.
    Half,
    /// What lets something go, or says how much may be taken: a quarter.
    Quarter,
}

impl Spares {
    /// Whether a task that leaves so much has room for so many blocks of the MOS.
    pub(super) fn has_room(self, writer: &Writer, blocks: u64) -> bool {
        let left = writer.beyond_slop(self as u32);
        // With nothing left it is within what it should leave alone.
        left > 0 && blocks * TASK_BLOCK_BYTES <= left
    }
}
