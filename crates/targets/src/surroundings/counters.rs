//! How busy this host's processor is, by the kernel's own account.
//!
//! All cores: the first line of `/proc/stat`, whose ticks are only held against each other. A core that
//! the hypervisor had taken away (`steal`) counts as busy: there was none of it to be had. The thread that
//! asks: `/proc/thread-self/schedstat`, in nanoseconds on a processor.

use super::kernel::Kernel;
use lab::measure::{HostSample, HostView};
use lab::pitfalls::HostUse;
use std::time::Duration;

/// Of the fields of the line `cpu`, which stand for work: user, nice, system, irq, softirq, steal. The
/// others are idle and iowait; guests are in user and nice already.
const BUSY_FIELDS: [usize; 6] = [0, 1, 2, 5, 6, 7];
/// How many fields make the whole.
const ALL_FIELDS: usize = 8;

/// This host's counters.
pub struct HostCounters {
    kernel: Kernel,
    one_thread: bool,
}

impl HostCounters {
    /// Counters of a host on which the thread that asks makes all of the load.
    pub fn of_one_thread() -> HostCounters {
        HostCounters { kernel: Kernel::this(), one_thread: true }
    }

    /// Counters of a host on which several threads make the load.
    pub fn of_threads() -> HostCounters {
        HostCounters { kernel: Kernel::this(), one_thread: false }
    }

    #[cfg(test)]
    pub(super) fn told_by(kernel: Kernel) -> HostCounters {
        HostCounters { kernel, one_thread: true }
    }
}

impl HostView for HostCounters {
    fn sample(&self) -> HostSample {
        let read = |file: &str| std::fs::read_to_string(self.kernel.proc.join(file)).ok();
        HostSample {
            all: read("stat").and_then(|text| all_cores(&text)),
            load_thread: match self.one_thread {
                true => read("thread-self/schedstat").and_then(|text| on_processor(&text)),
                false => None,
            },
        }
    }
}

fn all_cores(text: &str) -> Option<HostUse> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Option<Vec<u64>> =
        line.split_whitespace().take(ALL_FIELDS).map(|field| field.parse().ok()).collect();
    let fields = fields.filter(|fields| fields.len() == ALL_FIELDS)?;
    Some(HostUse {
        busy: BUSY_FIELDS.iter().try_fold(0_u64, |sum, &field| sum.checked_add(fields[field]))?,
        total: fields.iter().try_fold(0_u64, |sum, &field| sum.checked_add(field))?,
    })
}

fn on_processor(text: &str) -> Option<Duration> {
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}
