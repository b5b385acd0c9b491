//! The write journal of RAID 4, 5 and 6, on a device of its own.
//!
//! | file | holds |
//! |---|---|
//! | `format` | meta blocks: bytes and values |
//! | `ring` | the blocks of a journal's device, which follow one another around its end |
//! | `log` | while the set is written: what goes to the ring first |
//! | `replay` | when a set is opened: what the ring holds is brought onto the members |
//! | `lost` | in place of a journal that is not there: nothing is written |

pub mod format;
pub(crate) mod log;
pub(crate) mod lost;
pub(crate) mod replay;
pub(crate) mod ring;
