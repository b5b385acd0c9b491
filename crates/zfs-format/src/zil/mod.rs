//! The intent log: what was acknowledged to programs before its transaction group was whole.
//!
//! The [header](ZilHeader) in each objset leads to a chain of blocks. Each block holds records and the pointer to the
//! next; the end is a block whose checksum is wrong.
//!
//! Source: OpenZFS, `zil.h`, `zil.c`.

use crate::block_pointer::BlockPointer;
use crate::wire::record;

record! {
    /// The header of an intent log, in its objset.
    ZilHeader = "intent log header", 192, {
        /// The transaction group in which the chain's blocks were claimed; 0 where they are not yet.
        claim_txg: u64,
        /// The highest record that was replayed.
        replay_sequence: u64,
        /// The first block of the chain.
        log: BlockPointer,
        /// The highest block that was claimed.
        claim_block_sequence: u64,
        /// 1 a replay is needed, 2 the next field is valid.
        flags: u64,
        /// The highest record that was claimed.
        claim_record_sequence: u64,
    }
}
