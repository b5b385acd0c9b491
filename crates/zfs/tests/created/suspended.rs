//! Pools whose devices fail while they are written: suspended and resumed, refused, stopped, given up.
//!
//! What could break: what was acknowledged is lost by a suspension, or by a flush that failed and is tried again; a group goes into the pool
//! without what its devices did not take; a leaf that fails is believed; somebody waits for ever, or goes on though the pool is suspended.

use super::logs::Cut;
use super::{Rig, raidz, top, volumes};
use fixtures::extent::some;
use rt::filter::{Effect, Fault, Rule};
use rt::{
    Buf, Device, DeviceRef, Geometry, IoError, IoErrorKind, IoFuture, MemoryDevice, Op, OpKind,
    Request, SgList, Task,
};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::{ByteCount, Offset, Prng, RangeSet};
use zfs::dsl::make::Fresh;
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::live::{ClearError, Live, LiveError};
use zfs::zap::table;
use zfs::zvol::live::LiveVolume;
use zfs_format::vdev::VdevKind;
use zfs_store::vdev::suspend::Reason;
use zfs_store::{OnFailure, VdevHealth};

const WRITES: [OpKind; 2] = [OpKind::Write, OpKind::Flush];
const BLOCK: u64 = 16 << 10;

/// Bytes of a block that no compression makes shorter.
fn bytes(seed: u64) -> Buf {
    Buf::copy_of(&Prng::new(seed).bytes(BLOCK as usize))
}

/// A pool with a volume that is held, with this `failmode`.
async fn held(spa: Rc<Spa>, fresh: &Rc<dyn Fresh>, mode: u64) -> (Rc<Live>, LiveVolume) {
    let live = Rc::new(Live::open(spa, fresh).await.expect("it opens for writing"));
    volumes::make(&live, volumes::new("v", 4 << 20, BLOCK, 0)).await.expect("it is made");
    let mode = Some(table::number(mode));
    let set = live.task(async |tasks| tasks.set_pool_property("failmode", mode, "x").await);
    set.await.expect("it is written").expect("it is set");
    live.hold().await.expect("it is read");
    let volume = volumes::open(&live, "tank/v").await;
    for n in 0..4 {
        put(&volume, n, n).await.expect("it is written");
        volumes::flush(&volume).await;
    }
    (live, volume)
}

async fn put(volume: &LiveVolume, block: u64, seed: u64) -> Result<(), IoErrorKind> {
    let written = volume.submit(Request::write(Offset(block * BLOCK), bytes(seed))).await;
    written.map(drop).map_err(|error| error.kind)
}

/// Written and durable, in time.
fn put_durable(
    live: &Live,
    volume: &LiveVolume,
    block: u64,
    seed: u64,
) -> Task<Result<(), IoErrorKind>> {
    let volume = volume.clone();
    live.spa().rt().spawn(async move {
        put(&volume, block, seed).await?;
        volume.submit(Request::flush()).await.map(drop).map_err(|error| error.kind)
    })
}

async fn is_there(volume: &dyn Device, block: u64, seed: u64) {
    let read = Request::read(Offset(block * BLOCK), ByteCount(BLOCK));
    let read = volume.submit(read).await.expect("it is read").into_contiguous();
    assert!(read.bytes() == bytes(seed).bytes(), "block {block}");
}

async fn seconds(live: &Live, seconds: u64) {
    live.spa().rt().sleep(Duration::from_secs(seconds)).await;
}

fn fault(rig: &Rig, disk: usize) -> Rc<Fault> {
    let disk = Rc::clone(&rig.disks[disk].1) as DeviceRef;
    Fault::new(disk, &rig.runtime.handle(), Prng::new(1))
}

fn full() -> Rule {
    Rule::new(Effect::Fail(IoErrorKind::NoSpace)).on(&WRITES)
}

/// What a pool that nobody has open holds of its volume.
fn check(rig: &Rig, expected: Vec<(u64, u64)>) {
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let volume = volumes::open(&live, "tank/v").await;
        for (block, seed) in expected {
            is_there(&volume, block, seed).await;
        }
        drop(volume);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}

#[test]
fn a_pool_whose_device_is_full_waits_and_goes_on() {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    let device = fault(&rig, 0);
    let devices = vec![Rc::clone(&device) as DeviceRef];
    rig.with_devices(devices, async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let (live, volume) = held(spa, &fresh, 0).await;
        let rule = device.add(full());
        let waiting = put_durable(&live, &volume, 4, 50);
        seconds(&live, 1).await;
        assert_eq!(live.suspension().reason(), Some(Reason::Io));
        let later = put_durable(&live, &volume, 5, 60);
        seconds(&live, 100).await;
        assert!(!waiting.is_finished() && !later.is_finished(), "they wait");
        is_there(&volume, 2, 2).await;
        assert_eq!(live.clear(None, &|| ()).await, Err(ClearError::Io), "it is still full");
        assert!(!waiting.is_finished() && live.suspension().reason().is_some());
        device.remove(rule);
        assert_eq!(live.clear(None, &|| ()).await, Ok(()));
        assert_eq!((waiting.await, later.await), (Ok(()), Ok(())));
        assert_eq!(live.suspension().reason(), None);
        let errors = &live.spa().tree().report()[0].errors;
        assert_eq!(errors.write, 0, "clear forgets what was before");
        assert_eq!(live.spa().tree().dtl(1000), Some(RangeSet::default()), "it misses nothing");
        drop(volume);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    check(&rig, vec![(0, 0), (3, 3), (4, 50), (5, 60)]);
}

/// At each write of a group: nothing of it is lost, whichever it is that fails.
#[test]
fn a_group_goes_on_whichever_of_its_writes_fails() {
    fixtures::takes_long!();
    let pools = [vec![top(0, VdevKind::File, 1)], vec![top(0, raidz(1), 3)]];
    for tops in some(pools, 1) {
        let base = Rig::new(tops);
        let (mut requests, mut times) = (0, 0);
        loop {
            let disks = base.disks.iter().map(|(guid, disk)| (*guid, disk.fork())).collect();
            let rig = Rig::over(disks, Rc::clone(&base.fresh));
            let all: Vec<Rc<Fault>> = (0..rig.disks.len()).map(|n| fault(&rig, n)).collect();
            let devices = all.iter().map(|one| Rc::clone(one) as DeviceRef).collect();
            let was_hit = rig.with_devices(devices, async move |spa: Rc<Spa>, fresh| {
                let (live, volume) = held(spa, &fresh, 0).await;
                let rules: Vec<_> = all.iter().map(|one| one.add(full().after(requests))).collect();
                let waiting = put_durable(&live, &volume, 4, 50);
                let other = Rc::clone(&live);
                let group =
                    live.spa().rt().spawn(async move { other.sync(async |_| Ok(())).await });
                seconds(&live, 1).await;
                let was_hit = live.suspension().reason().is_some();
                all.iter().zip(&rules).for_each(|(one, rule)| one.remove(*rule));
                let cleared = live.clear(None, &|| ()).await;
                assert_eq!(cleared, Ok(()));
                assert_eq!((waiting.await, group.await), (Ok(()), Ok(())));
                drop(volume);
                live.close(LabelState::Exported).await.expect("it is closed");
                was_hit
            });
            times += usize::from(was_hit);
            if requests % 16 == 3 || !was_hit {
                check(&rig, vec![(1, 1), (4, 50)]);
            }
            if !was_hit && requests > 10 {
                break;
            }
            requests += 1 + requests / 5;
        }
        assert!(times > 8, "{times}");
    }
}

/// A disk with a cache, which it drops when a flush fails; the next flush succeeds all the same, as the kernel's do.
struct Forgetful {
    below: Rc<MemoryDevice>,
    before: RefCell<Vec<(Offset, SgList)>>,
    fails: Cell<bool>,
    dropped: Cell<usize>,
}

impl Device for Forgetful {
    fn geometry(&self) -> Geometry {
        Geometry { volatile_cache: true, ..self.below.geometry() }
    }

    fn name(&self) -> Arc<str> {
        self.below.name()
    }

    fn begin(&self, request: Request) -> IoFuture {
        match &request.op {
            Op::Write { data, .. } => {
                let before = self.below.peek(request.offset, ByteCount(data.len() as u64));
                self.before.borrow_mut().push((request.offset, before));
            }
            Op::Flush if self.fails.get() => {
                let before = self.before.take();
                self.dropped.set(self.dropped.get() + before.len());
                before.iter().rev().for_each(|(at, bytes)| self.below.poke(*at, bytes));
                let error = IoError::of(&request, self, IoErrorKind::Medium);
                return IoFuture::ready(Err(error));
            }
            Op::Flush => self.before.borrow_mut().clear(),
            _ => {}
        }
        self.below.begin(request)
    }
}

#[test]
fn what_a_flush_that_failed_dropped_is_written_again() {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    let (before, fails, dropped) = Default::default();
    let below = Rc::clone(&rig.disks[0].1);
    let device = Rc::new(Forgetful { below, before, fails, dropped });
    let devices = vec![Rc::clone(&device) as DeviceRef];
    rig.with_devices(devices, async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let (live, volume) = held(spa, &fresh, 0).await;
        for round in 0..3 {
            device.fails.set(true);
            let waiting = put_durable(&live, &volume, 4 + round, 50 + round);
            seconds(&live, 1).await;
            assert_eq!(live.suspension().reason(), Some(Reason::Io));
            device.fails.set(false);
            assert_eq!(live.clear(None, &|| ()).await, Ok(()));
            assert_eq!(waiting.await, Ok(()));
        }
        assert!(device.dropped.get() > 20, "{}", device.dropped.get());
        drop(volume);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    check(&rig, vec![(3, 3), (4, 50), (5, 51), (6, 52)]);
}

#[test]
fn a_leaf_that_fails_is_taken_out_and_taken_back() {
    let rig = Rig::new(vec![top(0, VdevKind::Mirror, 2)]);
    let device = fault(&rig, 1);
    let devices = vec![Rc::clone(&rig.disks[0].1) as DeviceRef, Rc::clone(&device) as DeviceRef];
    rig.with_devices(devices, async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let (live, volume) = held(spa, &fresh, 0).await;
        let health = |live: &Live| live.spa().tree().report()[0].children[1].clone();
        let rule = device.add(full());
        put_durable(&live, &volume, 4, 50).await.expect("the other takes it");
        live.sync(async |_| Ok(())).await.expect("it is written");
        assert_eq!(live.suspension().reason(), None);
        assert_eq!(health(&live).health, VdevHealth::Faulted);
        assert!(health(&live).errors.write > 0);
        assert_eq!(live.clear(None, &|| ()).await, Ok(()));
        assert_eq!(health(&live).health, VdevHealth::Faulted, "it does not answer");
        device.remove(rule);
        let other = live.spa().vdevs().children[0].children[0].clone();
        assert_eq!(live.clear(Some(&other), &|| ()).await, Ok(()));
        assert_eq!(health(&live).health, VdevHealth::Faulted, "another was meant");
        assert_eq!(live.clear(None, &|| ()).await, Ok(()));
        assert_eq!((health(&live).health, health(&live).errors.write), (VdevHealth::Online, 0));
        let missed = live.spa().tree().dtl(1002).expect("it is one");
        assert!(!missed.is_empty());
        put_durable(&live, &volume, 5, 60).await.expect("it is written");
        live.sync(async |_| Ok(())).await.expect("it is written");
        assert_eq!(live.spa().tree().dtl(1002), Some(missed), "it gets what is new");
        drop(volume);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    check(&rig, vec![(4, 50), (5, 60)]);
}

/// A device that answers is borne with for a while.
#[test]
fn a_leaf_that_fails_again_and_again_is_taken_out_though_it_answers() {
    let rig = Rig::new(vec![top(0, VdevKind::Mirror, 2)]);
    let device = fault(&rig, 1);
    let devices = vec![Rc::clone(&rig.disks[0].1) as DeviceRef, Rc::clone(&device) as DeviceRef];
    rig.with_devices(devices, async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let (live, volume) = held(spa, &fresh, 0).await;
        // Its labels can be written.
        let data = full().on(&[OpKind::Write]).within(Offset(4 << 20), ByteCount(1 << 40));
        device.add(data.at_most(3));
        put_durable(&live, &volume, 4, 50).await.expect("the other takes it");
        let health = || live.spa().tree().report()[0].children[1].health;
        assert_eq!(health(), VdevHealth::Online);
        device.add(full().within(Offset(4 << 20), ByteCount(1 << 40)));
        for n in 0..20 {
            put_durable(&live, &volume, 4, 70 + n).await.expect("the other takes it");
        }
        assert_eq!(health(), VdevHealth::Faulted);
    });
    rig.judge();
}

#[test]
fn with_continue_new_writes_are_refused_and_reads_answered() {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    let device = fault(&rig, 0);
    let devices = vec![Rc::clone(&device) as DeviceRef];
    rig.with_devices(devices, async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let (live, volume) = held(spa, &fresh, 1).await;
        let rule = device.add(full());
        let waiting = put_durable(&live, &volume, 4, 50);
        seconds(&live, 1).await;
        assert!(live.suspension().refuses() && !waiting.is_finished());
        assert_eq!(put(&volume, 5, 60).await, Err(IoErrorKind::Medium));
        let flushed = volume.submit(Request::flush()).await;
        assert!(flushed.is_err(), "what it asks for can't be had");
        assert_eq!(live.make_durable().await, Err(LiveError::Suspended));
        is_there(&volume, 2, 2).await;
        is_there(&volume, 4, 50).await;
        device.remove(rule);
        assert_eq!(live.clear(None, &|| ()).await, Ok(()));
        assert_eq!(waiting.await, Ok(()));
        put_durable(&live, &volume, 5, 61).await.expect("it is written");
        drop(volume);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    check(&rig, vec![(3, 3), (4, 50), (5, 61)]);
}

#[test]
fn with_panic_and_without_a_holder_it_stops() {
    for (is_held, mode) in [(true, 2), (false, 0)] {
        let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
        let device = fault(&rig, 0);
        let devices = vec![Rc::clone(&device) as DeviceRef];
        rig.with_devices(devices, async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let (live, volume) = held(spa, &fresh, mode).await;
            if !is_held {
                live.suspension().set_on_failure(OnFailure::Stop);
            }
            device.add(full());
            assert!(put_durable(&live, &volume, 4, 50).await.is_err());
            let stopped = live.make_durable().await;
            match is_held {
                true => assert!(matches!(stopped, Err(LiveError::Panic(_))), "{stopped:?}"),
                false => assert!(matches!(stopped, Err(LiveError::Stopped(_))), "{stopped:?}"),
            }
            assert!(put(&volume, 5, 60).await.is_err());
            is_there(&volume, 2, 2).await;
        });
        check(&rig, vec![(0, 0), (3, 3)]);
    }
}

#[test]
fn a_pool_that_is_given_up_ends_and_loses_what_a_cut_would() {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    let device = fault(&rig, 0);
    let devices = vec![Rc::clone(&device) as DeviceRef];
    rig.with_devices(devices, async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let (live, volume) = held(spa, &fresh, 0).await;
        device.add(full());
        let waiting = put_durable(&live, &volume, 4, 50);
        seconds(&live, 1).await;
        let later = put_durable(&live, &volume, 5, 60);
        let keeper = Rc::clone(&live);
        let rt = live.spa().rt();
        let keeping =
            rt.spawn(async move { keeper.keep_synced(std::future::pending::<()>()).await });
        seconds(&live, 10).await;
        live.give_up();
        assert!(waiting.await.is_err() && later.await.is_err());
        assert_eq!(keeping.await, Err(LiveError::GivenUp));
        assert_eq!(live.close(LabelState::Exported).await, Err(LiveError::GivenUp));
        assert_eq!(live.clear(None, &|| ()).await, Err(ClearError::Live(LiveError::GivenUp)));
    });
    check(&rig, vec![(0, 0), (3, 3)]);
}

/// The power goes while it is suspended: what was acknowledged before is there.
#[test]
fn a_cut_while_it_is_suspended_is_one_like_any_other() {
    fixtures::takes_long!();
    let base = Rig::new(vec![top(0, VdevKind::File, 1)]);
    for requests in [0, 1, 2, 5, 9, 14] {
        let mut cut = Cut::at(&base, 0, u64::MAX);
        let rt = cut.rig.runtime.handle();
        let device = Fault::new(cut.devices().remove(0), &rt, Prng::new(1));
        let devices = vec![Rc::clone(&device) as DeviceRef];
        cut.rig.with_devices(devices, async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let (live, volume) = held(spa, &fresh, 0).await;
            device.add(full().after(requests));
            let waiting = put_durable(&live, &volume, 4, 50);
            let other = Rc::clone(&live);
            let group = live.spa().rt().spawn(async move { other.sync(async |_| Ok(())).await });
            seconds(&live, 1).await;
            assert!(live.suspension().reason().is_some() && !group.is_finished());
            // They end with the executor.
            waiting.detach();
            group.detach();
        });
        let (_, left) = cut.power_on(0, requests);
        cut.rig.with_devices(left, async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
            let volume = volumes::open(&live, "tank/v").await;
            for n in 0..4 {
                is_there(&volume, n, n).await;
            }
            drop(volume);
            live.close(LabelState::Exported).await.expect("it is closed");
        });
        cut.rig.judge();
    }
}

/// No device answers: who reads waits, too, and gets it when they do.
#[test]
fn who_reads_from_devices_that_are_gone_waits_for_them() {
    let rig = Rig::new(vec![top(0, raidz(1), 3)]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let (live, volume) = held(spa, &fresh, 0).await;
        drop(volume);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    let all: Vec<Rc<Fault>> = (0..3).map(|n| fault(&rig, n)).collect();
    let devices = all.iter().map(|one| Rc::clone(one) as DeviceRef).collect();
    rig.with_devices(devices, async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        live.hold().await.expect("it is read");
        let volume = volumes::open(&live, "tank/v").await;
        all[..2].iter().for_each(|one| one.go_away());
        let reader = volume.clone();
        let reading = live.spa().rt().spawn(async move { is_there(&reader, 1, 1).await });
        seconds(&live, 60).await;
        assert!(!reading.is_finished() && live.suspension().reason() == Some(Reason::Io));
        all.iter().for_each(|one| one.come_back());
        assert_eq!(live.clear(None, &|| ()).await, Ok(()));
        reading.await;
    });
    rig.judge();
}
