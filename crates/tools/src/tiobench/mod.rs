//! tiobench: threads that read and write in sequence and at random.
//!
//! What `tiotest` 0.4.2 does (Mika Kuoppala), driven as `tiobench.pl` drives it; learnt from their
//! sources. One *case* is a file size, a block and a number of threads. Each thread has a file of its
//! own, of the size over the number of threads, and four phases follow one another, all threads going
//! at once in each:
//!
//! 1. sequential write, 2. random write, 3. sequential read, 4. random read.
//!
//! In a phase a thread opens its file (creating it), sets its size, moves its blocks by positional reads or
//! writes, makes the file durable and closes it. In the random phases it moves the number of random
//! operations over the number of threads, each at a random block.
//!
//! **Definitions.** The *rate* is the blocks of all threads over the time from the moment when all may
//! go to the end of the last one (2²⁰ B/s). *CPU* is what the process uses while a thread works, averaged
//! over the threads, over that time. *Latency* is that of single reads and writes: the mean and the
//! longest of all threads; `Lat%` is the share of them above 2 s and above 10 s. *CPU Eff* is the rate
//! over the CPU share.
//!
//! It leaves nothing behind, whether it ends well or not.

mod engine;
pub mod figures;
pub mod plan;
pub mod table;
#[cfg(test)]
mod tests;

pub use engine::{Step, run};
pub use figures::{CaseOutcome, Figure, Phase, TiobenchOutcome};
pub use plan::{Case, Plan, PlanError};
