//! What the field's workloads share, over any [`FileTree`](rt::FileTree).
//!
//! The languages stand above, a crate each: `fio`, `filebench`, and `tools` for the smaller ones. This
//! crate knows none of them. It holds:
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
//! * [`run_error`]: why a run ended before its end.
//! * [`tickets`]: numbers that workers share out among themselves.
//! * [`whole_blocks`]: what files take of a file system that gives space by blocks.
//! * [`outcome`]: what a run gave, for a study to take up.
//!
//! Rule: an engine never asks whether the tree is real. Time comes from `rt`, randomness from a seed.

#![forbid(unsafe_code)]

pub mod blocks;
pub mod content;
pub mod crew;
pub mod filled;
pub mod gate;
pub mod io_failure;
pub mod one_buffer;
pub mod outcome;
pub mod run_error;
pub mod tickets;
pub mod whole_blocks;
