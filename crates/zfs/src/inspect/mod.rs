//! What one can ask of a pool that is open: all its blocks, whether they are right, what takes its space, and what it says of
//! itself.
//!
//! ```text
//!   walk       every block of the pool, once            scrub      reading each copy of them, and saying what is wrong
//!   claims     what space maps say, held against them   count      how many there are, by type and level
//!   space      what vdevs hold, and what is allocated   sharing    what deduplication and cloning save
//!   state      scans, removals, checkpoints, errors     history    who did what, and when
//!   property   the pool's properties, each as text         accounts   who takes what of a file system
//!   names      names for what is damaged
//!   obsolete   what of removed vdevs nobody names, and is counted so
//! ```
//!
//! Nothing here changes a pool or is needed to open one; the life of a pool is [`spa`](crate::spa).

pub mod accounts;
pub mod claims;
pub mod count;
pub mod history;
pub mod names;
pub mod obsolete;
pub mod property;
pub mod scrub;
pub mod sharing;
pub mod space;
pub mod state;
pub mod walk;
