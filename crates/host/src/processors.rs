//! Processors: on which one a program ran last, and on which this thread may run.
//!
//! A thread that another starts runs where that one may. So a thread that lives on while the executor's thread is
//! [bound](bind) somewhere says [`as_started`] first.

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};
use std::sync::OnceLock;

/// Where the process could run before a thread of it was bound: nothing where that can't be told, as on machines with more
/// processors than the system's list has room for (1024).
static STARTED: OnceLock<Option<CpuSet>> = OnceLock::new();

fn started() -> Option<&'static CpuSet> {
    STARTED.get_or_init(|| sched_getaffinity(None).ok()).as_ref()
}

/// Binds this thread to one processor; says whether it is.
pub(crate) fn bind(processor: usize) -> bool {
    let Some(started) = started().filter(|_| processor < CpuSet::MAX_CPU) else { return false };
    let mut one = CpuSet::new();
    one.set(processor);
    // What the administrator keeps this process from stays so.
    started.is_set(processor) && sched_setaffinity(None, &one).is_ok()
}

/// This thread may run where the process could when it began.
pub(crate) fn as_started() {
    if let Some(Some(started)) = STARTED.get() {
        // It is bound still, and works all the same.
        let _ = sched_setaffinity(None, started);
    }
}

/// Where a thread of this machine runs, or ran last. Nothing where it ended.
pub(crate) fn of(thread: Pid) -> Option<usize> {
    // "PID (NAME) STATE …", the processor is the 39th (proc_pid_stat(5)); a name may hold anything.
    let stat = std::fs::read(format!("/proc/{}/stat", thread.as_raw_nonzero())).ok()?;
    let name_end = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(&stat[name_end + 1..]).ok()?;
    rest.split_ascii_whitespace().nth(39 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    //! What could break: the processor of another field; a thread that stays bound.

    use super::*;

    #[test]
    fn a_bound_thread_runs_where_it_is_bound_until_it_is_not() {
        std::thread::spawn(|| {
            let before = sched_getaffinity(None).expect("it can be asked");
            let last = (0..CpuSet::MAX_CPU).rev().find(|&n| before.is_set(n)).expect("one");
            assert!(bind(last));
            std::thread::yield_now();
            let mine = rustix::thread::gettid();
            assert_eq!((of(mine), rustix::thread::sched_getcpu()), (Some(last), last));
            assert!(!bind(CpuSet::MAX_CPU), "there is none of this number");
            as_started();
            assert!(sched_getaffinity(None).expect("it can be asked") == before);
        })
        .join()
        .expect("no panic");
    }
}
