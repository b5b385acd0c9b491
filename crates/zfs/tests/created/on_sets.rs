//! Pools on RAID sets whose power is cut: at each write to a member, with what was not flushed lost, torn, or there.
//!
//! What could break: a flush ends at the set, and what a group needs is in a member's cache only; a set that is dirty gives back
//! something else than what was flushed to it; a pool finds one of its two sets a group behind the other.

use super::cuts::{Left, look_at_files, write_files};
use super::stock::check_space;
use super::{DEVICE, Model, Rig, Seeded, check_copies, dump_device, features, top, zdb};
use fixtures::extent::{by_extent, places, some};
use md::assemble::{self, Choice};
use md::create::{NewArray, NewDevice, Policy};
use md::live::{LiveArray, LiveOptions};
use md::superblock::place::Version;
use md::superblock::{Stamp, Uuid};
use md::{Level, SyncPriority};
use rt::filter::PowerCut;
use rt::{Buf, Device, DeviceRef, Geometry, IoFuture, MemoryDevice, Request, Rt};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use stdx::{ByteCount, Prng};
use zfs::spa::config::LabelState;
use zfs::spa::create::{NewPool, create, root_of};
use zfs::spa::live::Live;
use zfs::spa::{OpenOptions, Spa, find};
use zfs_format::vdev::VdevKind;

const MEMBERS: usize = 3;
const SETS: usize = 2;
/// Room for half of a pool's device, superblock and bitmap.
const MEMBER: ByteCount = ByteCount(DEVICE / 2 + (4 << 20));

/// A member of a set, of which all lose their power when the first does.
struct OneMains {
    disks: Vec<Rc<PowerCut>>,
    first: usize,
    number: usize,
}

impl Device for OneMains {
    fn geometry(&self) -> Geometry {
        self.disks[self.number].geometry()
    }

    fn name(&self) -> Arc<str> {
        self.disks[self.number].name()
    }

    fn begin(&self, request: Request) -> IoFuture {
        let disk = &self.disks[self.number];
        if self.disks[self.first].is_cut() && !disk.is_cut() {
            disk.cut(Prng::for_part(self.number as u64, "cut"));
        }
        disk.submit(request)
    }
}

/// The members of new sets.
fn members(policy: Policy) -> Vec<Rc<MemoryDevice>> {
    let mut all = Vec::new();
    for set in 0..SETS {
        let new = NewArray {
            version: Version::V12,
            level: Level::Raid5,
            layout: 2,
            chunk: ByteCount::kib(64),
            data_offset: None,
            policy,
            name: format!("host:set{set}"),
            set_uuid: Uuid([set as u8 + 9; 16]),
            created: Stamp::from_seconds(1_800_000_000),
            // Zeros are.
            assume_clean: true,
            slots: MEMBERS,
            bitmap_chunk: None,
            size: None,
        };
        let uuid = |n: usize| Uuid([(set * MEMBERS + n) as u8 + 100; 16]);
        let given: Vec<Option<NewDevice>> =
            (0..MEMBERS).map(|n| Some(NewDevice { capacity: MEMBER, uuid: uuid(n) })).collect();
        let plan = new.plan(&given).expect("it fits");
        for (n, pieces) in plan.pieces.iter().enumerate() {
            let disk = MemoryDevice::new(&format!("set{set}.{n}"), MEMBER);
            for piece in pieces.iter().flatten() {
                disk.poke(piece.at, &Buf::copy_of(&piece.bytes).into());
            }
            all.push(disk);
        }
    }
    all
}

/// The sets on these devices, by their identities.
async fn opened(rt: &Rt, devices: &[DeviceRef]) -> Vec<LiveArray> {
    let mut found = Vec::new();
    for device in devices {
        found.extend(assemble::find(device).await.expect("readable"));
    }
    let mut sets = Vec::new();
    for (set, found) in assemble::sets(found) {
        let choice = Choice::of(set, found).expect("members");
        assert_eq!(choice.degraded(), 0, "nobody was lost");
        let options = LiveOptions { unix_s: 1_800_000_100, ..LiveOptions::default() };
        let name = format!("set{}", sets.len());
        sets.push(LiveArray::open(rt, &name, choice, options).await.expect("it opens"));
    }
    assert_eq!(sets.len(), SETS);
    sets
}

/// A pool of two RAID 5 sets: their members, and the executor.
fn new_pool(policy: Policy) -> Rig {
    let disks = (0..).zip(members(policy)).collect();
    let rig = Rig::over(disks, Rc::new(Seeded(Cell::new(Prng::new(3)))));
    let (rt, fresh) = (rig.runtime.handle(), Rc::clone(&rig.fresh));
    let devices: Vec<DeviceRef> = rig.devices().into_values().collect();
    let making = async move {
        let sets = opened(&rt, &devices).await;
        let tops = vec![top(0, VdevKind::File, 1), top(1, VdevKind::File, 1)];
        let new = NewPool {
            name: "tank".to_owned(),
            root: root_of(77, tops.clone()),
            spares: Vec::new(),
            cache: Vec::new(),
            features: features(),
            state: LabelState::Active,
            host: None,
            comment: None,
            compatibility: None,
            settings: Vec::new(),
            owner: (0, 0),
            properties: Vec::new(),
        };
        let devices = tops.iter().map(|top| top.guid).zip(sets.iter().map(LiveArray::device));
        create(&rt, new, &devices.collect(), &fresh).await.expect("it is made");
        for set in sets {
            set.stop().await.expect("it stops");
        }
    };
    rig.runtime.block_on(making).expect("it ends");
    rig
}

async fn spa_on(rt: &Rt, sets: &[LiveArray]) -> Rc<Spa> {
    let devices: Vec<DeviceRef> = sets.iter().map(LiveArray::device).collect();
    let found = find(&devices).await;
    assert_eq!(found.pools[0].members.len(), SETS);
    Rc::new(Spa::open(rt, &found.pools[0], OpenOptions::default()).await.expect("it opens"))
}

/// Cuts the power at a write to a member while files are written, and looks what is there. Says whether it came to a cut.
fn cut_at(base: &Rig, disk: usize, write: u64) -> bool {
    let rig = base.fork();
    let rt = rig.runtime.handle();
    let covered = rig.power_cuts();
    covered[disk].cut_at_write(write, Prng::new(write));
    let mains: Vec<DeviceRef> = (0..covered.len())
        .map(|number| {
            Rc::new(OneMains { disks: covered.clone(), first: disk, number }) as DeviceRef
        })
        .collect();
    let left = Left::<Model>::of(Rc::clone(&covered[disk]));
    let (known, its, fresh) = (left.clone(), rt.clone(), Rc::clone(&rig.fresh));
    let working = async move {
        let sets = opened(&its, &mains).await;
        let spa = spa_on(&its, &sets).await;
        let first = spa.uberblock().txg;
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        write_files(live, known).await;
        first
    };
    let first = rig.runtime.block_on(working).expect("it ends");
    let was_cut = covered[disk].is_cut();
    let after = super::cuts::after_cut(&rig, covered, write);
    let fresh = Rc::clone(&rig.fresh);
    let looking = async move {
        let sets = opened(&rt, &after).await;
        let spa = spa_on(&rt, &sets).await;
        let (txg, done) = (spa.uberblock().txg, left.done());
        assert!(txg == first + done || txg == first + 1 + done, "group {txg} after {done}");
        let state = left.state((txg - first) as usize);
        look_at_files(&spa, state.clone()).await;
        check_space(&spa, "after a cut").await;
        check_copies(&spa).await;
        // It goes on, beside the resync that the sets ask for.
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        for set in &sets {
            if set.needs_resync() {
                set.resync(SyncPriority::High).await.expect("it is resynchronised");
            }
        }
        live.close(LabelState::Exported).await.expect("it is closed");
        for set in sets {
            let array = set.array();
            let report = array.check(array.whole(), SyncPriority::High).await.expect("checked");
            assert_eq!(report.mismatched_sectors, 0, "parity is that of the data");
            set.stop().await.expect("it stops");
        }
        let sets = opened(&rt, &after).await;
        assert!(sets.iter().all(|set| !set.needs_resync()), "they were stopped cleanly");
        look_at_files(&*spa_on(&rt, &sets).await, state).await;
        sets.iter().map(LiveArray::device).collect::<Vec<_>>()
    };
    let devices = rig.runtime.block_on(looking).expect("it ends");
    if was_cut && write.is_multiple_of(13) {
        let folder = tempfile::tempdir().expect("a folder");
        for (n, device) in devices.into_iter().enumerate() {
            let path = folder.path().join(format!("set{n}"));
            rig.runtime.block_on(dump_device(device, path)).expect("it ends");
        }
        if let Some(text) = zdb(folder.path(), &["-bcc", "tank"]) {
            assert!(text.contains("No leaks (block sum matches space maps exactly)"), "{text}");
        }
    }
    was_cut
}

fn cuts(policy: Policy, step: u64) {
    let base = new_pool(policy);
    // Of each set a member.
    for disk in [1, MEMBERS + 2] {
        let mut cuts = 0;
        for write in places(step, 3).map(|place| place + disk as u64) {
            if !cut_at(&base, disk, write) {
                break;
            }
            cuts += 1;
        }
        println!("{policy:?}: {cuts} cuts of member {disk}");
        assert!(cuts > by_extent(1, 5), "the power was cut {cuts} times");
    }
}

#[test]
fn a_cut_at_any_write_leaves_a_pool_on_raid_5_sets_whole() {
    fixtures::takes_long!();
    for (policy, step) in some([(Policy::Resync, 3), (Policy::Ppl, 5)], 1) {
        cuts(policy, step);
    }
}

/// With a bitmap, too: `cargo test --test created -- --ignored on_sets`.
#[test]
#[ignore = "it takes minutes"]
fn a_cut_at_every_write_leaves_a_pool_on_raid_5_sets_whole() {
    for policy in [Policy::Resync, Policy::Bitmap, Policy::Ppl] {
        cuts(policy, 1);
    }
}
