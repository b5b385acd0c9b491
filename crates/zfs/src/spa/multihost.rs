//! Whether another host has a pool open: multi-modifier protection (MMP), as who wants to open the pool sees it.
//!
//! A host that has a pool with the property `multihost` open writes an uberblock every now and then, though nothing changes, and
//! says in it how often it does. Who finds such a pool not exported watches it for as long as that host could be silent and live:
//!
//! ```text
//!   2 · fail intervals · interval        the writer stops itself after so many intervals without a write
//!   20 · (interval + delay)              it never does; 20 s at the least
//! ```
//!
//! An uberblock that is newer by group, time or sequence is a sign of life. Who gives them: [`mmp`](super::mmp).
//!
//! Source: OpenZFS, `mmp.c`, `spa.c` (`spa_activity_check_duration`, `spa_activity_check`).

use async_recursion::async_recursion as boxed;
use rt::{DeviceRef, Rt};
use std::time::Duration;
use zfs_format::uberblock::Uberblock;
use zfs_store::label;

/// Intervals for which a pool is watched whose writer never stops itself: OpenZFS's `zfs_multihost_import_intervals`.
const INTERVALS: u64 = 20;
/// The interval where the uberblock doesn't say, in nanoseconds: OpenZFS's `zfs_multihost_interval`.
const INTERVAL_NS: u64 = 1_000_000_000;
/// How often a pool that is watched is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// How long a pool with this uberblock is to be watched; nothing where whoever wrote it gives no signs of life.
pub fn span(uberblock: &Uberblock) -> Option<Duration> {
    let mmp = uberblock.mmp().filter(|mmp| mmp.delay_ns != 0)?;
    let interval_ns = |ms: u32| u64::from(ms).saturating_mul(1_000_000);
    let silent = |interval_ns: u64| {
        let span = interval_ns.saturating_add(mmp.delay_ns).saturating_mul(INTERVALS);
        span.max(INTERVAL_NS * INTERVALS)
    };
    let span_ns = match (mmp.interval_ms, mmp.fail_intervals) {
        (Some(ms), Some(fails @ 1..)) => {
            interval_ns(ms).saturating_mul(fails.into()).saturating_mul(2)
        }
        (Some(ms), Some(0)) => silent(interval_ns(ms)),
        _ => silent(INTERVAL_NS),
    };
    Some(Duration::from_nanos(span_ns))
}

/// Watches a pool; true as soon as somebody writes to it. `look_anew` is called before each look: nothing may be kept of the devices.
#[boxed(?Send)]
pub async fn is_active(
    rt: &Rt,
    devices: &[DeviceRef],
    span: Duration,
    look_anew: &dyn Fn(),
) -> bool {
    look_anew();
    let first = newest(devices).await;
    let mut watched = Duration::ZERO;
    while watched < span {
        let next = LOOK.min(span - watched);
        rt.sleep(next).await;
        watched += next;
        look_anew();
        if newest(devices).await != first {
            return true;
        }
    }
    false
}

/// The best uberblock of some devices.
pub(super) struct Best {
    pub(super) uberblock: Uberblock,
    /// The number of the host that the newest label tells of.
    pub(super) host: Option<u64>,
}

pub(super) async fn best(devices: &[DeviceRef]) -> Option<Best> {
    let mut best: Option<Uberblock> = None;
    let mut newest: Option<(u64, Option<u64>)> = None;
    for device in devices {
        let labels = label::read(device).await;
        for (_, configuration) in labels.configurations() {
            let number = |name| configuration.list.u64(name).ok().flatten();
            let txg = number("txg").unwrap_or(0);
            if newest.is_none_or(|(newest, _)| txg > newest) {
                newest = Some((txg, number("hostid")));
            }
        }
        let Some(found) = labels.best_uberblock() else { continue };
        if best.as_ref().is_none_or(|best| found.uberblock.newer(best).is_gt()) {
            best = Some(found.uberblock.clone());
        }
    }
    let host = newest.and_then(|(_, host)| host);
    best.map(|uberblock| Best { uberblock, host })
}

/// What changes of the best uberblock with each sign of life.
async fn newest(devices: &[DeviceRef]) -> Option<(u64, u64, Option<u16>)> {
    let sequence = |of: &Uberblock| of.mmp().and_then(|mmp| mmp.sequence);
    let best = best(devices).await?.uberblock;
    Some((best.txg, best.timestamp, sequence(&best)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zfs_format::Endian;
    use zfs_format::uberblock::Mmp;
    use zfs_format::wire::Record;

    #[test]
    fn a_pool_is_watched_for_as_long_as_its_writer_may_be_silent() {
        let mut uberblock = Uberblock::decode(&[0; 216], Endian::Little).expect("zeros");
        assert_eq!(span(&uberblock), None, "older software");
        let mmp = |delay_ns, interval_ms, fail_intervals| Mmp {
            delay_ns,
            interval_ms,
            sequence: Some(1),
            fail_intervals,
        };
        for (mmp, seconds) in [
            (mmp(0, Some(1000), Some(10)), None),
            (mmp(5, Some(1000), Some(10)), Some(20)),
            (mmp(5, Some(500), Some(4)), Some(4)),
            (mmp(1_000_000_000, Some(1000), Some(0)), Some(40)),
            (mmp(1_000_000_000, None, None), Some(40)),
        ] {
            uberblock.set_mmp(mmp);
            assert_eq!(span(&uberblock), seconds.map(Duration::from_secs), "{mmp:?}");
        }
        uberblock.set_mmp(mmp(u64::MAX, Some(u32::MAX), Some(0)));
        assert!(span(&uberblock).is_some(), "a forged one ends some time");
    }
}
