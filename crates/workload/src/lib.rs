//! The field's workloads, in the field's languages, over any [`FileTree`](rt::FileTree).
//!
//! Each tool is a folder: its language (a parser that refuses what it does not know by name, file,
//! line and column), its engine, and the output that its users know. What they share:
//!
//! * [`crew`]: who runs the workers of a load. On the host each worker is a thread with a runtime of
//!   its own, as the tools' processes and threads are; simulated, all are tasks of one simulated host.
//! * [`content`]: what is written: random by default, compressible or repeated on request, never zeros
//!   by accident.
//! * [`blocks`]: content made beforehand, for tools that write one buffer again and again.
//! * [`filled`]: files that are written whole before a load reads them.
//! * [`gate`]: workers that begin at the same moment.
//! * [`io_failure`]: an I/O that failed, in a form that crosses threads.
//! * [`one_buffer`]: reading and writing with one buffer, by plain system calls.
//! * [`tickets`]: numbers that workers share out among themselves.
//! * [`outcome`]: what a run gave, for a study to take up.
//!
//! Rule: an engine never asks whether the tree is real. Time comes from `rt`, randomness from a seed.

#![forbid(unsafe_code)]

pub mod blocks;
pub mod bonnie;
pub mod content;
pub mod crew;
pub mod filebench;
pub mod filled;
pub mod fio;
pub mod gate;
pub mod io_failure;
pub mod iometer;
pub mod one_buffer;
pub mod outcome;
pub mod probe;
pub mod slob;
pub mod smallfiles;
pub mod tickets;
pub mod tiobench;
