//! How much a workload may ask for.

/// Bytes of one read or write at the most: what is held in memory for it.
pub const IO_BYTES_MAX: u64 = 1 << 30;

/// The longest time that is waited for: a year.
pub const SECONDS_MAX: u64 = 366 * 86_400;
/// Files, leaf directories and directories of a fileset at the most: each takes some 60 bytes of
/// memory for as long as the workload runs. filebench has room for a million.
pub const ENTRIES_MAX: u64 = 4 << 20;
/// Descriptors of a thread: filebench's.
pub const DESCRIPTORS: usize = 129;
/// Flowops of all threads together, composites unfolded: a composite of composites could else ask for
/// any number.
pub const FLOWOPS_MAX: usize = 1 << 16;
/// Steps of a workload, `foreach` unfolded.
pub const STEPS_MAX: usize = 10_000;
