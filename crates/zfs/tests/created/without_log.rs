//! Pools whose log device is missing: taken without it, and what only it had is given up.
//!
//! What could break: what was acknowledged is given up without being asked; what is left of a log is taken for a whole one; its space is
//! lost; the pool can't be written without the device, or trusts it when it is back.

use super::volumes::{self, PUT_BLOCK, byte, put};
use super::{Rig, raidz, top};
use rt::DeviceRef;
use std::rc::Rc;
use zfs::dsl::make::Fresh;
use zfs::error::{Problem, ZfsError};
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::live::{Live, LiveError, LiveOptions};
use zfs_format::vdev::{Vdev, VdevKind};

fn log(id: u64, kind: VdevKind, leaves: u64) -> Vdev {
    Vdev { is_log: Some(1), ..top(id, kind, leaves) }
}

#[test]
fn a_pool_is_taken_without_its_log_device_where_that_is_asked() {
    fixtures::takes_long!();
    for logs in [
        vec![log(2, VdevKind::File, 1)],
        vec![log(2, VdevKind::Mirror, 2), log(3, VdevKind::File, 1)],
    ] {
        let lost: Vec<u64> =
            logs.iter().flat_map(|log| log.leaves().into_iter().map(|leaf| leaf.guid)).collect();
        let rig = Rig::new([vec![top(0, raidz(1), 3), top(1, VdevKind::File, 1)], logs].concat());
        rig.with(async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
            volumes::make(&live, volumes::new("v", 4 << 20, PUT_BLOCK, 0))
                .await
                .expect("it is made");
            let volume = volumes::open(&live, "tank/v").await;
            for n in 0..4 {
                put(&volume, n, 1 + n as u8).await;
            }
            live.sync(async |_| Ok(())).await.expect("it is written");
            for n in 4..40 {
                put(&volume, n, 1 + n as u8).await;
            }
            // Nothing is closed.
        });
        let is_left = |(guid, _): &(u64, DeviceRef)| !lost.contains(guid);
        let left = || rig.devices().into_iter().filter(is_left).map(|(_, device)| device).collect();
        rig.with_devices(left(), async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let refused = Live::open(spa, &fresh).await.err();
            let is_cut = |problem: &Problem| *problem == Problem::LogCut;
            assert!(
                matches!(&refused, Some(LiveError::Zfs(ZfsError::Object { problem, .. })) if is_cut(problem)),
                "{refused:?}"
            );
        });
        rig.with_devices(left(), async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let options = LiveOptions { without_log: true, ..LiveOptions::default() };
            let live = Live::open_with(spa, &fresh, options).await;
            let live = Rc::new(live.expect("it opens for writing"));
            let volume = volumes::open(&live, "tank/v").await;
            assert_eq!(
                (byte(&volume, 3).await, byte(&volume, 4).await),
                (4, 0),
                "as it was synced"
            );
            put(&volume, 50, 9).await;
            live.sync(async |_| Ok(())).await.expect("it is written");
            put(&volume, 51, 10).await;
            // Nor here: what was logged without the device is found without it.
        });
        rig.with_devices(left(), async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let live = Rc::new(Live::open(spa, &fresh).await.expect("nothing is missing for it"));
            let volume = volumes::open(&live, "tank/v").await;
            assert_eq!((byte(&volume, 50).await, byte(&volume, 51).await), (9, 10));
            drop(volume);
            live.close(LabelState::Exported).await.expect("it is closed");
        });
        rig.judge();
        // It is back, and used again.
        rig.with(async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
            let volume = volumes::open(&live, "tank/v").await;
            for n in 60..70 {
                put(&volume, n, 1 + n as u8).await;
            }
        });
        rig.with(async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
            let volume = volumes::open(&live, "tank/v").await;
            assert_eq!((byte(&volume, 3).await, byte(&volume, 69).await), (4, 70));
            drop(volume);
            live.close(LabelState::Exported).await.expect("it is closed");
        });
        rig.judge();
    }
}
