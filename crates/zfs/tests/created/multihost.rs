//! Pools with `multihost=on`: signs of life, given in time, seen by others, and what happens when they can't be given.
//!
//! What could break: another host takes a pool that somebody has; one that nobody has can't be taken; a sign takes the place of a
//! group's uberblock; who could give no sign goes on writing.

use super::{Rig, Seeded, raidz, top, volumes};
use rt::filter::{Effect, Fault, Rule};
use rt::{Device, DeviceRef, IoErrorKind, OpKind, Request, Rt};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;
use stdx::{ByteCount, Offset, Prng};
use zfs::dsl::make::Fresh;
use zfs::spa::config::LabelState;
use zfs::spa::live::{ClearError, Live, LiveError, Reason};
use zfs::spa::{OpenOptions, Spa, find, multihost};
use zfs::zap::table;
use zfs_format::vdev::VdevKind;

/// A host with a number, whose clock goes.
struct Host {
    number: u64,
    rt: Rt,
    random: Seeded,
}

impl Host {
    fn of(rig: &Rig, number: u64) -> Rc<dyn Fresh> {
        let random = Seeded(Cell::new(Prng::new(number)));
        Rc::new(Host { number, rt: rig.runtime.handle(), random })
    }
}

impl Fresh for Host {
    fn number(&self) -> u64 {
        self.random.number()
    }

    fn now(&self) -> u64 {
        1_700_000_000 + self.rt.now().as_nanos() / 1_000_000_000
    }

    fn host(&self) -> Option<(u64, String)> {
        Some((self.number, "here".to_owned()))
    }
}

async fn set(live: &Live, value: u64) {
    let value = Some(table::number(value));
    let done = live.task(async |tasks| tasks.set_pool_property("multihost", value, "x").await);
    done.await.expect("it is written").expect("it is set");
}

/// A pool that has it on, closed.
fn made(rig: &Rig) {
    let fresh = Host::of(rig, 7);
    rig.with(async move |spa: Rc<Spa>, _| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        volumes::make(&live, volumes::new("v", 1 << 20, 16 << 10, 0)).await.expect("it is made");
        set(&live, 1).await;
        live.close(LabelState::Exported).await.expect("it is closed");
    });
}

async fn opened(rt: &Rt, devices: &[DeviceRef]) -> Rc<Spa> {
    let found = find(devices).await;
    let spa = Spa::open(rt, &found.pools[0], OpenOptions::default()).await;
    Rc::new(spa.expect("it opens"))
}

fn all(rig: &Rig) -> Vec<DeviceRef> {
    rig.devices().into_values().collect()
}

fn faults(rig: &Rig) -> Vec<Rc<Fault>> {
    let cover = |disk: DeviceRef| Fault::new(disk, &rig.runtime.handle(), Prng::new(1));
    all(rig).into_iter().map(cover).collect()
}

/// How long another has to watch a pool.
async fn span(rt: &Rt, devices: &[DeviceRef]) -> Option<Duration> {
    multihost::span(&opened(rt, devices).await.uberblock())
}

#[test]
fn who_has_a_pool_is_seen_and_who_has_let_go_of_it_is_not() {
    fixtures::takes_long!();
    for tops in
        [vec![top(0, VdevKind::File, 1)], vec![top(0, raidz(1), 3), top(1, VdevKind::Mirror, 2)]]
    {
        let rig = Rig::new(tops);
        made(&rig);
        let (fresh, devices) = (Host::of(&rig, 7), all(&rig));
        rig.with(async move |spa: Rc<Spa>, _| {
            let rt = spa.rt().clone();
            let seconds = Duration::from_secs;
            assert_eq!(span(&rt, &devices).await, Some(seconds(20)));
            assert!(
                !multihost::is_active(&rt, &devices, seconds(20), &|| ()).await,
                "nobody has it"
            );
            let live = Live::open(spa, &fresh).await.expect("it opens for writing");
            for _ in 0..3 {
                // Nothing is written but signs.
                rt.sleep(seconds(50)).await;
                let began = rt.now();
                assert!(multihost::is_active(&rt, &devices, seconds(20), &|| ()).await);
                assert!(rt.now() - began <= seconds(3), "each second");
            }
            // Whoever takes the newest for the root has the same pool.
            let other = opened(&rt, &devices).await;
            assert_eq!(other.uberblock().txg, live.spa().uberblock().txg);
            assert_eq!(other.uberblock().root, live.spa().uberblock().root);
            // Each group leaves the signs alone, and they leave the groups.
            for _ in 0..5 {
                live.sync(async |_| Ok(())).await.expect("it is written");
                rt.sleep(seconds(3)).await;
            }
            let groups: BTreeSet<u64> =
                find(&devices).await.pools[0].uberblocks().iter().map(|one| one.txg).collect();
            let last = live.spa().uberblock().txg;
            assert!((last - 5..=last).all(|txg| groups.contains(&txg)), "{groups:?}");
            set(&live, 0).await;
            live.sync(async |_| Ok(())).await.expect("it is written");
            rt.sleep(seconds(2)).await;
            assert!(
                !multihost::is_active(&rt, &devices, seconds(20), &|| ()).await,
                "it gives none"
            );
            assert_eq!(span(&rt, &devices).await, None);
            set(&live, 1).await;
            assert!(
                multihost::is_active(&rt, &devices, seconds(20), &|| ()).await,
                "it gives them again"
            );
            live.close(LabelState::Exported).await.expect("it is closed");
            rt.sleep(seconds(2)).await;
            assert!(!multihost::is_active(&rt, &devices, seconds(20), &|| ()).await, "it let go");
        });
        rig.judge();
    }
}

#[test]
fn who_has_no_number_takes_no_such_pool() {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    made(&rig);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        assert_eq!(Live::open(spa, &fresh).await.err(), Some(LiveError::NoHostId));
    });
}

/// The labels take nothing; all else does.
fn labels_full() -> Rule {
    let labels = Rule::new(Effect::Fail(IoErrorKind::NoSpace)).on(&[OpKind::Write]);
    labels.within(Offset(0), ByteCount(512 << 10))
}

fn end_labels_full() -> Rule {
    let labels = Rule::new(Effect::Fail(IoErrorKind::NoSpace)).on(&[OpKind::Write]);
    labels.within(Offset(super::DEVICE - (512 << 10)), ByteCount(512 << 10))
}

#[test]
fn who_can_give_no_signs_writes_nothing_more() {
    for is_held in [true, false] {
        let rig = Rig::new(vec![top(0, VdevKind::Mirror, 2)]);
        made(&rig);
        let (fresh, faults) = (Host::of(&rig, 7), faults(&rig));
        let covered = faults.iter().map(|one| Rc::clone(one) as DeviceRef).collect();
        rig.with_devices(covered, async move |spa: Rc<Spa>, _| {
            let rt = spa.rt().clone();
            let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
            let volume = volumes::open(&live, "tank/v").await;
            if is_held {
                live.hold().await.expect("it is read");
            }
            let rules: Vec<_> = faults
                .iter()
                .map(|one| [one.add(labels_full()), one.add(end_labels_full())])
                .collect();
            rt.sleep(Duration::from_secs(9)).await;
            assert_eq!(live.suspension().reason(), None, "it bears that for a while");
            rt.sleep(Duration::from_secs(4)).await;
            assert_eq!(live.suspension().reason(), Some(Reason::Multihost));
            let other = volume.clone();
            let write = Request::write(Offset(0), rt::Buf::copy_of(&[5; 16 << 10]));
            let writing = rt.spawn(async move { other.submit(write).await });
            let synced = live.spa().uberblock().txg;
            rt.sleep(Duration::from_secs(30)).await;
            for (one, rules) in faults.iter().zip(rules) {
                rules.into_iter().for_each(|rule| one.remove(rule));
            }
            rt.sleep(Duration::from_secs(30)).await;
            assert_eq!(live.spa().uberblock().txg, synced, "not before somebody says so");
            match is_held {
                true => {
                    assert!(!writing.is_finished());
                    assert_eq!(live.clear(None, &|| ()).await, Ok(()));
                    writing.await.expect("it goes on");
                    live.sync(async |_| Ok(())).await.expect("it is written");
                    rt.sleep(Duration::from_secs(60)).await;
                    assert_eq!(live.suspension().reason(), None);
                    drop(volume);
                    live.close(LabelState::Exported).await.expect("it is closed");
                }
                false => {
                    assert!(writing.await.is_err());
                    let refused = live.sync(async |_| Ok(())).await;
                    assert_eq!(refused, Err(LiveError::NoSigns));
                }
            }
        });
        rig.judge();
    }
}

/// The devices are away from here for so long that another host took the pool.
#[test]
fn a_pool_that_another_host_took_is_not_resumed() {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    made(&rig);
    let (fresh, other, faults) = (Host::of(&rig, 7), Host::of(&rig, 8), faults(&rig));
    let (covered, devices) =
        (faults.iter().map(|one| Rc::clone(one) as DeviceRef).collect(), all(&rig));
    rig.with_devices(covered, async move |spa: Rc<Spa>, _| {
        let rt = spa.rt().clone();
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        live.hold().await.expect("it is read");
        faults[0].go_away();
        rt.sleep(Duration::from_secs(15)).await;
        assert_eq!(live.suspension().reason(), Some(Reason::Multihost));
        let span = span(&rt, &devices).await.expect("it is on");
        assert!(!multihost::is_active(&rt, &devices, span, &|| ()).await, "it writes nothing");
        let taken = opened(&rt, &devices).await;
        let taken = Live::open(taken, &other).await.expect("it opens for writing");
        taken.sync(async |_| Ok(())).await.expect("it is written");
        faults[0].come_back();
        assert_eq!(live.clear(None, &|| ()).await, Err(ClearError::Live(LiveError::Taken)));
        // Even when the other has let go of it.
        taken.close(LabelState::Exported).await.expect("it is closed");
        assert_eq!(live.clear(None, &|| ()).await, Err(ClearError::Live(LiveError::Taken)));
        live.give_up();
        assert_eq!(live.close(LabelState::Exported).await, Err(LiveError::GivenUp));
    });
    rig.judge();
}

/// The process stood still for a while: it writes nothing before it has looked.
#[test]
fn who_slept_for_too_long_does_not_write_first() {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    made(&rig);
    let (fresh, faults) = (Host::of(&rig, 7), faults(&rig));
    let covered = faults.iter().map(|one| Rc::clone(one) as DeviceRef).collect();
    rig.with_devices(covered, async move |spa: Rc<Spa>, _| {
        let rt = spa.rt().clone();
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        live.hold().await.expect("it is read");
        let volume = volumes::open(&live, "tank/v").await;
        // Each request takes so long that signs come too late, and the group's writes after that.
        let slow = faults[0].add(Rule::new(Effect::Delay(Duration::from_secs(25))));
        let write = Request::write(Offset(0), rt::Buf::copy_of(&[5; 16 << 10]));
        volume.submit(write).await.expect("it is in memory");
        let other = Rc::clone(&live);
        let group = rt.spawn(async move { other.sync(async |_| Ok(())).await });
        let before = live.spa().uberblock().txg;
        rt.sleep(Duration::from_secs(200)).await;
        assert_eq!(live.suspension().reason(), Some(Reason::Multihost));
        assert_eq!(live.spa().uberblock().txg, before);
        faults[0].remove(slow);
        assert_eq!(live.clear(None, &|| ()).await, Ok(()));
        group.await.expect("it is written");
        drop(volume);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}
