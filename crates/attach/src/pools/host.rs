//! Whose pools are: this host's number, and whether a pool may be written from here.
//!
//! A pool that is open says in its labels which host has it. Before one is written that was not exported:
//!
//! ```text
//!   the kernel of this host has it imported    refused, whatever is forced
//!   this host had it last                      taken: whoever had it open here ended without closing it
//!   another host had it, or nobody knows       only where that is forced
//!     … and its property multihost is on       refused, whatever is forced, if a sign of life is seen (MMP)
//! ```
//!
//! With `multihost` on a pool that another host closed is watched as well: two may take it at the same moment. A part of the time is drawn,
//! so that the one that is done first is seen by the other.
//!
//! The number is that of OpenZFS: of `ZFS_HOSTID` in the environment (for tests), or in `/etc/hostid`, where `zgenhostid` writes
//! it. A host without one is nobody in particular.
//!
//! Source: OpenZFS, `gethostid.c`, `zpool_main.c` (`zfs_force_import_required`), `spa.c` (`spa_activity_check_required`).

use super::find::Pools;
use crate::error::Error;
use crate::event::Event;
use crate::random;
use ::host::forget_cached;
use ::zfs::spa::{FoundPool, PoolState, multihost};
use std::path::Path;
use std::rc::Rc;

/// Where the kernel's module tells of the pools that it has.
const KERNEL_POOLS: &str = "/proc/spl/kstat/zfs";

/// The part of the time for which a pool is watched that is drawn: up to so many thousandths more.
const DRAWN_OF_1000: u64 = 250;

/// This host's number; 0 where it has none.
pub fn host_id() -> u64 {
    if let Ok(text) = std::env::var("ZFS_HOSTID") {
        let number = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => text.parse(),
        };
        return number.unwrap_or(0) & u64::from(u32::MAX);
    }
    let bytes = std::fs::read("/etc/hostid").unwrap_or_default();
    bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes).into())
}

/// This host's name.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim_end().to_owned()
}

/// Refuses a pool that another host, or this host's kernel, may have in use.
///
/// # Errors
/// It may; some of that can be forced.
pub fn check_not_in_use(pools: &Pools, found: &Rc<FoundPool>, force: bool) -> Result<(), Error> {
    let name = || found.name.clone();
    let is_open = found.state == PoolState::Active;
    if is_open && kernel_has(found.guid, &found.name) {
        return Err(Error::PoolInKernel { name: name() });
    }
    let last = found.number("hostid").unwrap_or(0);
    if last != 0 && last == host_id() {
        return Ok(());
    }
    let host = || found.text("hostname").unwrap_or_else(|| "<unknown>".to_owned());
    if is_open && !force {
        return Err(match last {
            0 => Error::PoolInUse { name: name() },
            id => {
                let seconds = found.uberblock.as_ref().map_or(0, |uberblock| uberblock.timestamp);
                Error::PoolOfOther { name: name(), host: host(), id, seconds }
            }
        });
    }
    let Some(span) = found.uberblock.as_ref().and_then(multihost::span) else { return Ok(()) };
    if found.state == PoolState::Destroyed {
        return Ok(());
    }
    if host_id() == 0 {
        return Err(Error::NoHostId { name: name() });
    }
    let drawn = random::prng()?.below(DRAWN_OF_1000);
    let span = span + span.mul_f64(drawn as f64 / 1000.0);
    let context = pools.disks().context();
    context.tell(Event::ActivityCheck { pool: name(), seconds: span.as_secs().max(1) });
    let (rt, devices) = (pools.rt(), found.devices().into_values().collect::<Vec<_>>());
    // What this host keeps of the devices is its own past.
    let files = pools.paths_of(found);
    let look_anew = move || files.iter().for_each(|file| forget_cached(file));
    let watching = async move { multihost::is_active(&rt, &devices, span, &look_anew).await };
    match pools.wait(watching) {
        true => Err(Error::PoolActive { name: name(), host: host(), id: last }),
        false => Ok(()),
    }
}

/// Whether the kernel has a pool imported: by its GUID, and by its name where older modules don't tell that.
pub(super) fn kernel_has(guid: u64, name: &str) -> bool {
    has_pool(Path::new(KERNEL_POOLS), guid, name)
}

fn has_pool(place: &Path, guid: u64, name: &str) -> bool {
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    entries.filter(|entry| entry.path().join("state").exists()).any(|entry| {
        match std::fs::read_to_string(entry.path().join("guid")) {
            Ok(text) => text.trim().parse() == Ok(guid),
            Err(_) => entry.file_name().to_str() == Some(name),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// What could break: a pool that the kernel has under another name is taken for one that it doesn't have.
    #[test]
    fn the_kernel_has_pools_by_guid_and_by_name_where_it_tells_no_more() {
        let place = tempfile::tempdir().expect("a folder");
        for (name, file, text) in [
            ("renamed", "state", "ONLINE"),
            ("renamed", "guid", "77\n"),
            ("older", "state", "ONLINE"),
            ("none", "other", ""),
        ] {
            let folder = place.path().join(name);
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(folder.join(file), text).expect("written");
        }
        let has = |guid, name| has_pool(place.path(), guid, name);
        assert!(has(77, "tank") && has(5, "older"));
        assert!(!has(78, "renamed") && !has(5, "none") && !has(5, "tank"));
        assert!(!has_pool(&place.path().join("absent"), 77, "tank"));
    }
}
