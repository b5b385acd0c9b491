//! Bptrees: datasets that are being destroyed in the background (feature `async_destroy`).
//!
//! The object is entries in a row, each the root of a tree and how far its destruction came; the bonus is the header.
//!
//! Source: OpenZFS, `bptree.h`.

use super::scan::ScanBookmark;
use crate::block_pointer::BlockPointer;
use crate::wire::record;

record! {
    /// The header of a bptree.
    BpTree = "bptree", 40, {
        /// The first entry that is left.
        begin: u64,
        /// Past the last entry.
        end: u64,
        /// Bytes that are left to free.
        bytes: u64,
        /// The same as compressed.
        compressed: u64,
        /// The same before compression.
        uncompressed: u64,
    }
}

record! {
    /// An entry of a bptree.
    BpTreeEntry = "bptree entry", 168, {
        /// The root of what is destroyed.
        pointer: BlockPointer,
        /// Only blocks born after this transaction group are freed.
        birth_txg: u64,
        /// Where to go on.
        resume: ScanBookmark,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_hold() {
        crate::wire::checks::holds_for_any_bytes::<BpTree>();
        crate::wire::checks::holds_for_any_bytes::<BpTreeEntry>();
    }
}
