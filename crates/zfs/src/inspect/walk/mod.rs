//! Every block of a pool, once: what a scrub reads and what a count counts.
//!
//! ```text
//!   PoolWalk (pool)   what waits to be freed → destroyed datasets → deleted livelists → the MOS → each dataset
//!   Walk (tree)       one tree: the objset's block, its log, the meta-dnode's tree, every object's tree
//!   Lists (lists)     pointers in bpobjs, bptrees, livelists
//! ```
//!
//! A snapshot and what came after it share blocks. A block is a dataset's own if it was born after the dataset's previous
//! snapshot: so each block is met once, at the oldest dataset that reaches it, and a subtree whose root is older is not
//! entered. A clone begins after its origin. Only deduplicated and cloned blocks are met more often.
//!
//! **Rules.**
//!
//! 1. The walk is pulled: [`PoolWalk::next`] gives one block, and whoever pulls reads as many side by side as it likes.
//! 2. The walk itself reads what leads on: objsets, indirect blocks, blocks of dnodes. It begins those that come next
//!    while the one before is awaited, [`AHEAD`] of them at a time.
//! 3. One that can't be had is given with its error, and what is below it stays unvisited.
//! 4. No key is needed. Of an encrypted dataset objsets and indirect blocks are in the clear, and of dnodes all but
//!    the bonus; so blocks of dnodes are read as they are stored.
//! 5. Indirect blocks and blocks of dnodes are never shared, so there can't be more of them than fit the pool; a
//!    forged one that refers to itself a thousand times is cut off there.
//! 6. What a pointer says it leads to must be what its place needs: level and, at the bottom, dnodes or not.
//!
//! Order: objects by number, blocks from front to back; an indirect block before what is below.
//!
//! Source for which blocks these are: OpenZFS, `dmu_traverse.c`, `zdb.c`.

pub(crate) mod lists;
mod log;
mod pool;
pub(crate) mod tree;

pub use pool::PoolWalk;
pub use tree::{AHEAD, Reached, Visited};
