//! A long life of one pool, from one seed: files, volumes, snapshots, clones, promotions, rollbacks, renames, destroys, holds,
//! bookmarks, properties, in random order, with starts and power cuts in between, beside a model.
//!
//! Every other seed's pool has logs of space maps.
//!
//! What could break: what only an aged pool shows. Numbers of objects and groups that come again, space maps that were written
//! often, trees that are half freed when the power goes, lists that were handed from one dataset to another more than once.
//!
//! Each round ends in one of three ways: the pool is exported; it is left as it is, unclean; or the power goes at some write of a
//! group, and what is found is the group before or that one. Then **the shadow** is asserted: the blocks that are reached, and what is
//! allocated, are one and the same; the books agree with a walk; contents are the model's. `zdb` looks now and then.
//!
//! The suite runs some hundred steps. A campaign: `LONG_STEPS=200000 SEED=1 cargo test --release --locked --test created
//! a_long_life -- --ignored --nocapture`.

use super::cuts::after_cut;
use super::datasets::{Files, World, check_books, free_directory, node, task};
use super::volumes;
use super::{Rig, drawn, features_and, raidz, top};
use fixtures::extent::some;
use rt::{Device, DeviceRef};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::Prng;
use zfs::dsl::make::Fresh;
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::live::Live;
use zfs::zap::table;
use zfs::zvol::Volume;
use zfs_format::vdev::{Vdev, VdevKind};

/// Steps between two starts of the pool.
const STEPS_A_ROUND: usize = 40;
/// Rounds between two looks of `zdb`.
const ROUNDS_A_JUDGE: usize = 8;
/// What there is at the most, so that the pool doesn't fill up, and its comparison ends.
const FILE_SYSTEMS_MAX: usize = 8;
const SNAPSHOTS_MAX: usize = 24;
const VOLUMES_MAX: usize = 3;
const FILES_BYTES_MAX: usize = 8 << 20;
/// Of some 230 MiB.
const USED_BYTES_MAX: u64 = 110 << 20;
const WAITING_BYTES_MAX: u64 = 24 << 20;
const MIB: u64 = 1 << 20;

/// A volume as the model has it.
#[derive(Clone, Default)]
struct Bytes {
    now: Vec<u8>,
    snapshots: BTreeMap<String, Vec<u8>>,
}

/// All of the pool as the model has it.
#[derive(Clone)]
struct Life {
    world: World,
    volumes: BTreeMap<String, Bytes>,
    steps: usize,
}

/// How a round ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Exported,
    Left,
    /// The power goes at this write to this disk, if the group has as many.
    Cut(usize, u64),
}

impl Life {
    fn new() -> Life {
        let all = [("tank".to_owned(), Files::default())].into();
        let world = World { all, made: 0, others: Vec::new() };
        Life { world, volumes: BTreeMap::new(), steps: 0 }
    }

    async fn step(&mut self, live: &Rc<Live>, random: &mut Prng) {
        self.steps += 1;
        match random.below(10) {
            0 => self.set_property(live, random).await,
            1 | 2 => self.write_volume(live, random).await,
            3 => self.change_volumes(live, random).await,
            _ => self.world.step(live, random).await,
        }
        self.prune(live, random).await;
    }

    /// Something is stored otherwise from here on.
    async fn set_property(&mut self, live: &Live, random: &mut Prng) {
        const CHOICES: [(&str, &[u64]); 5] = [
            // Off, lzjb, gzip-6, zle, lz4.
            ("compression", &[2, 3, 10, 14, 15]),
            // fletcher2, fletcher4, sha256.
            ("checksum", &[6, 7, 8]),
            ("copies", &[1, 2, 3]),
            ("recordsize", &[512, 4096, 16 << 10, 128 << 10]),
            // Legacy, auto.
            ("dnodesize", &[0, 1, 2 << 10, 4 << 10, 16 << 10]),
        ];
        let of = self.world.pick(random);
        let (name, choices) = CHOICES[random.below(CHOICES.len() as u64) as usize];
        let value = choices[random.below(choices.len() as u64) as usize];
        let directory = node(live, &of).await.directory.number;
        let value = random.chance(0.8).then(|| table::number(value));
        let set =
            task(live, async |tasks| tasks.set_property(directory, name, value.clone()).await);
        set.await.expect("it is set");
    }

    fn pick_volume(&self, random: &mut Prng) -> Option<String> {
        let count = self.volumes.len() as u64;
        (count > 0).then(|| self.volumes.keys().nth(random.below(count) as usize).cloned())?
    }

    async fn write_volume(&mut self, live: &Rc<Live>, random: &mut Prng) {
        let Some(name) = self.pick_volume(random) else {
            return self.change_volumes(live, random).await;
        };
        let volume = volumes::open(live, &name).await;
        let model = &mut self.volumes.get_mut(&name).expect("it is known").now;
        for _ in 0..4 {
            volumes::change(&volume, model, random).await;
        }
        if random.chance(0.3) {
            volumes::flush(&volume).await;
        }
        volumes::compare(&volume, model).await;
    }

    /// One is made, gets another size, or a snapshot; or goes.
    async fn change_volumes(&mut self, live: &Rc<Live>, random: &mut Prng) {
        let picked = self.pick_volume(random);
        let Some(name) = picked.filter(|_| random.chance(0.7)) else {
            return self.make_volume(live, random).await;
        };
        match random.below(4) {
            0 => {
                let bytes = self.volumes.remove(&name).expect("it is known");
                for snapshot in bytes.snapshots.keys() {
                    destroy_snapshot(live, &format!("{name}@{snapshot}")).await;
                }
                let number = node(live, &name).await.head.number;
                let done = task(live, async |tasks| tasks.destroy(number).await).await;
                done.expect("it goes");
                self.world.others.retain(|other| *other != name);
            }
            1 => {
                let volume = volumes::open(live, &name).await;
                let block = volume.volume().block().bytes();
                let size = (MIB / 2 + random.below(MIB)).next_multiple_of(block);
                volume.volume().resize(size).await.expect("it is done");
                let now = &mut self.volumes.get_mut(&name).expect("it is known").now;
                now.resize(size as usize, 0);
            }
            _ => {
                let bytes = self.volumes.get_mut(&name).expect("it is known");
                if bytes.snapshots.len() > 2 {
                    let (oldest, _) = bytes.snapshots.pop_first().expect("there are some");
                    destroy_snapshot(live, &format!("{name}@{oldest}")).await;
                }
                let short = format!("s{}", self.steps);
                volumes::snapshot(live, &name, &short).await.expect("it is taken");
                bytes.snapshots.insert(short, bytes.now.clone());
            }
        }
    }

    async fn make_volume(&mut self, live: &Live, random: &mut Prng) {
        if self.volumes.len() >= VOLUMES_MAX {
            return;
        }
        let short = format!("v{}", self.steps);
        let block = [4096, 8 << 10, 64 << 10][random.below(3) as usize];
        let new = volumes::new(&short, MIB, block, 0);
        volumes::make(live, new).await.expect("it is made");
        let name = format!("tank/{short}");
        let now = vec![0; MIB as usize];
        self.volumes.insert(name.clone(), Bytes { now, ..Bytes::default() });
        self.world.others.push(name);
    }

    /// Some of what there is too much of goes.
    async fn prune(&mut self, live: &Live, random: &mut Prng) {
        let snapshots =
            |world: &World| world.all.values().map(|fs| fs.snapshots.len()).sum::<usize>();
        let mut tries = 0;
        while tries < 50 && snapshots(&self.world) > SNAPSHOTS_MAX {
            tries += 1;
            let of = self.world.pick(random);
            match random.below(3) {
                0 => self.world.hold(live, &of, random).await,
                _ => self.world.destroy_snapshot(live, &of, random).await,
            }
        }
        while tries < 100 && self.world.all.len() > FILE_SYSTEMS_MAX {
            tries += 1;
            let of = self.world.pick(random);
            self.world.destroy_snapshot(live, &of, random).await;
            self.world.destroy(live, &of).await;
        }
        let names: Vec<String> = self.world.all.keys().cloned().collect();
        for of in names {
            let bytes = self.world.all[&of].now.values().map(Vec::len).sum::<usize>();
            if bytes > FILES_BYTES_MAX {
                self.world.remove_files(live, &of).await;
            }
        }
        // What was destroyed is freed by some blocks a group, and copies and snapshots take more than files are long.
        for _ in 0..40 {
            while free_directory(live.spa()).await.used_bytes > WAITING_BYTES_MAX {
                live.sync(async |_| Ok(())).await.expect("it is written");
            }
            let used = live.spa().dsl().root().await.expect("it is read").head.used_bytes;
            if used <= USED_BYTES_MAX {
                break;
            }
            let of = self.world.pick(random);
            self.world.destroy_snapshot(live, &of, random).await;
            self.world.remove_files(live, &of).await;
            live.sync(async |_| Ok(())).await.expect("it is written");
        }
    }

    /// Changes that wait for the next group.
    async fn write_some(&mut self, live: &Rc<Live>, random: &mut Prng) {
        for _ in 0..3 {
            let of = self.world.pick(random);
            let fs = super::datasets::files(live, &of).await;
            super::change(&fs, &mut self.world.fs(&of).now, random).await;
        }
        if let Some(name) = self.pick_volume(random) {
            let volume = volumes::open(live, &name).await;
            let now = &mut self.volumes.get_mut(&name).expect("it is known").now;
            volumes::change_unlogged(&volume, now, random).await;
        }
    }

    async fn compare(&self, spa: &Spa) {
        self.world.compare(spa).await;
        for (name, bytes) in &self.volumes {
            let all =
                bytes.snapshots.iter().map(|(short, bytes)| (format!("{name}@{short}"), bytes));
            for (name, bytes) in all.chain([(name.clone(), &bytes.now)]) {
                let found = spa.dsl().find(&name).await.expect("it is read").expect("it is there");
                let objset = spa.objset(&found.0, &found.1).await.expect("it opens");
                let volume = Volume::open(&objset, &name).await.expect("it is one");
                assert_eq!(volume.size().bytes(), bytes.len() as u64, "{name}");
                volumes::compare(&volume as &dyn Device, bytes).await;
            }
        }
    }
}

async fn destroy_snapshot(live: &Live, name: &str) {
    let number = super::datasets::number(live, name).await;
    let done = task(live, async |tasks| tasks.destroy_snapshot(number, false).await).await;
    done.expect("it goes");
}

/// What is allocated is what is reached.
pub(crate) async fn assert_shadow(spa: &Spa) {
    let mut claims = spa.claims().await.expect("the maps are read");
    let mut walk = spa.walk();
    while let Some(visited) = walk.next().await {
        let visited = visited.expect("it is read");
        claims.claim(spa, &visited).await.expect("it is claimed");
    }
    assert_eq!(claims.fault_count, 0, "{:?}", claims.faults);
    for (vdev, left) in claims.left() {
        assert_eq!(left.allocated(), 0, "vdev {vdev}: space that nobody reaches");
    }
}

/// A pool that lives for so many steps.
fn live_long(seed: u64, steps: usize, tops: Vec<Vdev>) {
    let features = drawn(seed, features_and(&["large_dnode"]));
    let mut rig = Rig::with_features(tops, features);
    let life = Rc::new(RefCell::new(Life::new()));
    let random = Rc::new(RefCell::new(Prng::new(seed)));
    let mut round = 0;
    while life.borrow().steps < steps {
        round += 1;
        let end = {
            let mut random = random.borrow_mut();
            match random.below(3) {
                0 => End::Exported,
                1 => End::Left,
                _ => End::Cut(random.below(rig.disks.len() as u64) as usize, 1 + random.below(60)),
            }
        };
        one_round(&mut rig, &life, &random, end);
        let known = Rc::clone(&life);
        rig.with(async move |spa: Rc<Spa>, _| {
            let life = known.borrow().clone();
            life.compare(&spa).await;
            check_books(&spa).await;
            assert_shadow(&spa).await;
        });
        if round % ROUNDS_A_JUDGE == 0 {
            println!("seed {seed}: {} steps", life.borrow().steps);
            rig.judge();
        }
    }
    rig.judge();
}

fn one_round(rig: &mut Rig, life: &Rc<RefCell<Life>>, random: &Rc<RefCell<Prng>>, end: End) {
    let covered = rig.power_cuts();
    let devices = covered.iter().map(|cut| Rc::clone(cut) as DeviceRef).collect();
    let (shared, drawn, powered) = (Rc::clone(life), Rc::clone(random), covered.clone());
    // The group that is under way at a cut, and what it leaves.
    let (under_way, next) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(None)));
    let (group, left) = (Rc::clone(&under_way), Rc::clone(&next));
    rig.with_devices(devices, async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        live.freeing().set_blocks_max(50);
        let (mut life, mut random) = (shared.borrow().clone(), drawn.borrow_mut());
        for _ in 0..STEPS_A_ROUND {
            life.step(&live, &mut random).await;
        }
        live.sync(async |_| Ok(())).await.expect("it is written");
        match end {
            End::Exported => live.close(LabelState::Exported).await.expect("it is closed"),
            End::Left => {}
            End::Cut(disk, write) => {
                *shared.borrow_mut() = life.clone();
                life.write_some(&live, &mut random).await;
                *left.borrow_mut() = Some(life);
                group.set(live.syncer().groups().open().0);
                let at = powered[disk].writes() + write;
                powered[disk].cut_at_write(at, Prng::new(at));
                let synced = live.sync(async |_| Ok(())).await;
                assert!(synced.is_ok() || powered[disk].is_cut(), "{synced:?}");
                return;
            }
        }
        *shared.borrow_mut() = life;
    });
    if matches!(end, End::Cut(..)) {
        let seed = random.borrow_mut().next_u64();
        let all = after_cut(rig, covered, seed);
        let txg = Rc::new(Cell::new(0));
        let found = Rc::clone(&txg);
        rig.with_devices(all, async move |spa: Rc<Spa>, _| found.set(spa.uberblock().txg));
        let group = under_way.get();
        assert!(txg.get() == group || txg.get() + 1 == group, "{} at {group}", txg.get());
        if txg.get() == group {
            *life.borrow_mut() = next.take().expect("it came to the cut");
        }
    }
}

#[test]
fn a_pool_is_as_its_model_over_many_starts_and_cuts() {
    fixtures::takes_long!();
    let pools = [(1, vec![top(0, VdevKind::Mirror, 2)]), (2, vec![top(0, raidz(1), 3)])];
    for (seed, tops) in some(pools, 1) {
        live_long(seed, 160, tops);
    }
}

/// As long as `LONG_STEPS` says, from `SEED`.
#[test]
#[ignore = "a campaign"]
fn a_long_life() {
    let number = |name: &str, otherwise| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    };
    let (seed, steps) = (number("SEED", 1) as u64, number("LONG_STEPS", 5000));
    live_long(seed, steps, vec![top(0, raidz(1), 3), top(1, VdevKind::Mirror, 2)]);
}
