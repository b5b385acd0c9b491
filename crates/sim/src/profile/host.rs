//! The profile of a host: its cores, and what each kind of work costs one of them.

use super::given::{Flaw, Given, profile};

profile! {
    /// A computer.
    HostProfile {
        /// Cores.
        cores: Given<u64>,
        /// Hardware threads a core; one where the profile doesn't say.
        threads_per_core: Option<Given<u64>>,
        /// What a core does in a time with all of its threads busy, in parts of what it does with one.
        threads_gain: Option<Given<f64>>,
        /// Submitting one I/O to the operating system and taking its completion.
        io_us: Given<f64>,
        /// A read or a write that the page cache answers, beside copying its bytes: the system call, finding the
        /// pages, noting the change. 1.0 µs (0.4 to 2) where the profile says nothing.
        call_us: Option<Given<f64>>,
        /// Copying (10⁶ B/s), as all rates below: of one core, over the bytes that the work reads.
        copy_mb_s: Given<f64>,
        /// XOR parity.
        parity_p_mb_s: Given<f64>,
        /// P and Q.
        parity_pq_mb_s: Given<f64>,
        /// P, Q and R.
        parity_pqr_mb_s: Given<f64>,
        /// Computing lost members.
        reconstruct_mb_s: Given<f64>,
        /// Comparing.
        compare_mb_s: Given<f64>,
    }
}

/// What a buffered call costs where a profile doesn't say (µs): an estimate, 0.4 to 2. Reading a byte that is in the
/// page cache takes 0.44 µs and writing one 0.7 on a server of 2024 (ext4, Linux 6.18, a virtual machine); processors of
/// 2007 to 2012 have half of its clock and do less in a cycle, but had no barriers against speculation in each call.
pub const CALL_US: f64 = 1.0;

/// The most hardware threads of a core: more than any processor has.
const THREADS_MAX: u64 = 64;

impl HostProfile {
    /// Hardware threads a core.
    pub fn threads(&self) -> u64 {
        self.threads_per_core.as_ref().map_or(1, |threads| threads.value)
    }

    /// What a buffered call costs, beside the copy (µs).
    pub fn call_us(&self) -> f64 {
        self.call_us.as_ref().map_or(CALL_US, |call| call.value)
    }

    pub(crate) fn check(&self) -> Result<(), Flaw> {
        let cores = (1..=1024).contains(&self.cores.value);
        Flaw::unless(cores, "cores", "write a number of cores from 1 to 1024")?;
        let threads = self.threads();
        let few = (1..=THREADS_MAX).contains(&threads);
        Flaw::unless(few, "threads_per_core", "write a number of threads from 1 to 64")?;
        match &self.threads_gain {
            None => {
                let mend = "say beside it what a core gains by them: threads_gain";
                Flaw::unless(threads == 1, "threads_per_core", mend)?;
            }
            Some(gain) => {
                let mend = "write a number from 1 to threads_per_core";
                let fits = (1.0..=threads as f64).contains(&gain.value);
                Flaw::unless(fits, "threads_gain", mend)?;
            }
        }
        for entry in self.entries().iter().filter(|entry| entry.key.ends_with("_mb_s")) {
            let positive = entry.number.is_some_and(|rate| rate > 0.0);
            Flaw::unless(positive, entry.key, "must be more than 0")?;
        }
        Ok(())
    }
}
