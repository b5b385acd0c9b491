//! The profile of a link: what lies between a host and its devices.

use super::given::{Flaw, Given, profile};

profile! {
    /// A link, of one or several paths.
    LinkProfile {
        /// Payload of one path, each way (10⁶ B/s).
        rate_mb_s: Given<f64>,
        /// Whether both directions carry at once.
        full_duplex: Given<bool>,
        /// Whether all devices share it; if not, each has one of its own.
        shared: Given<bool>,
        /// Paths that share the load.
        paths: Given<u64>,
        /// What one command takes on its way there and back, beside its data.
        latency_us: Given<f64>,
        /// Commands under way at once; the next ones wait.
        command_limit: Given<u64>,
        /// The largest command (2¹⁰ B): what is larger is cut, and its parts go side by side; any size
        /// without.
        command_kb: Option<Given<u64>>,
    }
}

impl LinkProfile {
    pub(crate) fn check(&self) -> Result<(), Flaw> {
        Flaw::unless(self.rate_mb_s.value > 0.0, "rate_mb_s", "must be more than 0")?;
        let paths = (1..=64).contains(&self.paths.value);
        Flaw::unless(paths, "paths", "write a number of paths from 1 to 64")?;
        let command = |kb: u64| kb >= 4 && kb.is_multiple_of(4);
        let command = self.command_kb.as_ref().is_none_or(|kb| command(kb.value));
        Flaw::unless(command, "command_kb", "write a multiple of 4")?;
        Flaw::unless(self.command_limit.value > 0, "command_limit", "must be more than 0")
    }
}
