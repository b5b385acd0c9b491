//! Waiting for what a dead process still holds.
//!
//! A process that is killed is gone before its files are closed: requests of its io_uring hold them until the
//! kernel has wound up the ring, some milliseconds later, more on a busy machine. So long its locks are held, its
//! sockets take connections that nobody answers, and its block devices are in use. Who starts at once after it
//! (a service manager does) must not be told that it still runs: what is found held is asked for again until
//! [`HELD_MAX`] has passed.

use std::time::{Duration, Instant};

/// How long something that is held is asked for. More makes a refusal slower where somebody does hold it; less refuses
/// after a kill on a busy machine.
const HELD_MAX: Duration = Duration::from_secs(1);

/// How long to rest between two tries.
const REST: Duration = Duration::from_millis(20);

/// Tries until it is no longer held, for [`HELD_MAX`] at the most; the last outcome.
pub(crate) fn while_held<T>(mut try_it: impl FnMut() -> T, is_held: impl Fn(&T) -> bool) -> T {
    let begun = Instant::now();
    loop {
        let outcome = try_it();
        if !is_held(&outcome) || begun.elapsed() >= HELD_MAX {
            return outcome;
        }
        std::thread::sleep(REST);
    }
}
