//! What makes new things new: numbers, the time, who does it.

use super::host::{host_id, host_name};
use crate::error::Error;
use crate::random;
use ::zfs::dsl::make::Fresh;
use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};
use stdx::Prng;

/// Numbers that nothing else has, from the system's randomness; and the calendar's clock.
pub struct HostFresh {
    random: Cell<Prng>,
    command: Option<String>,
}

impl HostFresh {
    /// Seeded anew; for a command of the user's.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn new(command: Option<&str>) -> Result<HostFresh, Error> {
        Ok(HostFresh { random: Cell::new(random::prng()?), command: command.map(str::to_owned) })
    }
}

impl Fresh for HostFresh {
    fn number(&self) -> u64 {
        let mut random = self.random.replace(Prng::new(0));
        // A GUID of 0 is none.
        let number = random.next_u64() | 1;
        self.random.set(random);
        number
    }

    fn now(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }

    fn author(&self) -> (u64, String) {
        (::host::reading::process_owner().0.into(), host_name())
    }

    fn host(&self) -> Option<(u64, String)> {
        Some((host_id(), host_name()))
    }

    fn command(&self) -> Option<String> {
        self.command.clone()
    }
}
