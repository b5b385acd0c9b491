//! SLOB: single 8 KiB blocks at random places, as a database reads and writes them.
//!
//! SLOB (Kevin Closson's "Silly Little Oracle Benchmark") makes an Oracle database do nothing but
//! physical I/O. This is the I/O without the database, with SLOB's parameters: what a storage gives to
//! such a database at the most.
//!
//! * [`conf`] reads `slob.conf`; [`plan`](mod@plan) makes sessions of it;
//! * `session` is one session, `scatter` where its rows lie, `log` the log writer;
//! * [`engine`] makes the files and runs it; [`tally`] is what is counted; [`output`] the report.
//!
//! What it doesn't have: the database, whose cache, locks and processor time stand between the
//! sessions and the storage. Its figures are not SLOB's on the same storage, they are their limit.

pub mod conf;
pub mod engine;
mod log;
pub mod output;
pub mod plan;
mod scatter;
mod session;
pub mod tally;

pub use conf::{Conf, ConfError, parse};
pub use engine::{SlobError, SlobOutcome, run};
pub use plan::{Options, Plan, PlanError, plan};
