//! The partial parity log of RAID 5, on the members themselves.
//!
//! | file | holds |
//! |---|---|
//! | `format` | headers and entries: bytes and values |
//! | `space` | where on a member its log lies |
//! | `log` | while the set is written: what goes to the logs first |
//! | `recovery` | when a set is opened that was not stopped: parity is put right by the logs |

pub mod format;
pub(crate) mod log;
pub(crate) mod recovery;
pub(crate) mod space;
