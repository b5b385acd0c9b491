//! The profile of a host: its cores, and what each kind of work costs one of them.

use super::given::{Flaw, Given, profile};

profile! {
    /// A computer.
    HostProfile {
        /// Cores.
        cores: Given<u64>,
        /// Submitting one I/O to the operating system and taking its completion.
        io_us: Given<f64>,
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

impl HostProfile {
    pub(crate) fn check(&self) -> Result<(), Flaw> {
        let cores = (1..=1024).contains(&self.cores.value);
        Flaw::unless(cores, "cores", "write a number of cores from 1 to 1024")?;
        for entry in self.entries().iter().filter(|entry| entry.key.ends_with("_mb_s")) {
            let positive = entry.number.is_some_and(|rate| rate > 0.0);
            Flaw::unless(positive, entry.key, "must be more than 0")?;
        }
        Ok(())
    }
}
