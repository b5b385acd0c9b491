//! IOMeter, SLOB and the probes on a tree that takes time, in virtual time.
//!
//! What could break: an engine that does other I/O than its tool (other places, sizes, numbers
//! outstanding), or reckons figures that do not fit what it did. The tree here remembers every request.

mod iometer;
mod probe;
mod slob;
mod slow_tree;
