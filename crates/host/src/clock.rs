//! The real clock, the calendar, and the processor time of this process.
//!
//! An [`Instant`] counts from the moment the runtime was made, by the system's
//! monotonic clock, which neither the administrator nor a leap second moves.
//!
//! **Processor time** is that of the whole process (`CLOCK_PROCESS_CPUTIME_ID`), not of the executor's
//! thread: the kernel's io_uring workers and our own worker threads are threads of the process, and
//! their time belongs to the I/O that caused it. What it leaves out is work that the kernel does in
//! threads of its own (write-back of dirty pages, interrupts). What it takes in too much is other
//! executors of the process that run at the same time: who measures processor time runs one.

use crate::sys;
use std::time::Duration;
use stdx::Instant;

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: std::time::Instant,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Clock {
        Clock { start: std::time::Instant::now() }
    }

    /// Time since the start.
    pub fn now(&self) -> Instant {
        Instant::START + self.start.elapsed()
    }

    /// Processor time that the process has used since it began.
    pub fn processor_time(&self) -> Duration {
        sys::process_cpu_time()
    }
}

/// What o'clock it is by the calendar, as the system has it: the administrator may set it, back as well.
#[derive(Clone, Copy, Debug, Default)]
pub struct CalendarClock;

impl rt::WallClock for CalendarClock {
    fn now(&self) -> rt::Timestamp {
        // Before 1970 no clock is set that a file system should believe.
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let since = since.unwrap_or_default();
        rt::Timestamp { seconds: since.as_secs() as i64, nanoseconds: since.subsec_nanos() }
    }
}
