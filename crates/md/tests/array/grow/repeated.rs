//! A set that grows, and whose power goes again and again: while it grows, while that goes on, and while it is used
//! between.
//!
//! After each cut the set opens without force, with all members that it had; at the end it is grown, and whole.

use super::*;
use crate::rig::{Late, runtime};
use ::fixtures::extent::by_extent;
use md::assemble::Superblock;
use md::grow::{self, GrowError, Reshape, SizeWish};

/// Cuts in a row.
const CUTS_MAX: u64 = 4;

/// What grows.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Growth {
    Members,
    Mirrors,
    Size,
    Bitmap,
}

/// Goes on with what grows, or begins it. True where it is done.
async fn grown(rt: &Rt, devices: &[DeviceRef], growth: Growth, slots: usize) -> bool {
    // The power may be off already.
    let Ok(choice) = choice_of(devices).await else { return false };
    if choice.facts.reshape().is_some() {
        return match Reshape::resume(rt, choice, NOW_S).await {
            Ok(resumed) => resumed.run(|_, _| ()).await.is_ok(),
            refused => refused.is_ok(),
        };
    }
    if growth == Growth::Members {
        // A begin that was cut is taken back first.
        let resumed = Reshape::resume(rt, choice, NOW_S).await;
        if !matches!(resumed, Err(GrowError::NothingToContinue { .. })) {
            return false;
        }
    }
    let Ok(choice) = choice_of(devices).await else { return false };
    let has_spare = !choice.spares.is_empty();
    let last = devices.last().expect("a disk to add").clone();
    let add = NewMember { device: last, uuid: Uuid([9; 16]) };
    let add = if has_spare { Vec::new() } else { vec![add] };
    match growth {
        Growth::Members if choice.facts.slots() == slots => {
            match Reshape::begin(rt, choice, slots + 1, &add, NOW_S).await {
                Ok(begun) => begun.run(|_, _| ()).await.is_ok(),
                refused => refused.is_ok(),
            }
        }
        Growth::Mirrors if choice.facts.slots() == slots => {
            grow::mirrors(rt, choice, slots + 1, &add, NOW_S).await.is_ok()
        }
        Growth::Size => match grow::size(rt, choice, SizeWish::Max, NOW_S).await {
            Ok(_) | Err(GrowError::NoRoom { .. } | GrowError::Dirty { .. }) => true,
            refused => refused.is_ok(),
        },
        Growth::Bitmap if !choice.facts.features().has(md::superblock::Features::BITMAP) => {
            grow::add_bitmap(rt, choice, Some(ByteCount::kib(64)), NOW_S).await.is_ok()
        }
        _ => true,
    }
}

/// Opens the set, makes it whole, writes what is there already, and stops it. True where that went well; nothing is
/// done within a reshape.
async fn used(rt: &Rt, devices: &[DeviceRef], content: &[u8]) -> bool {
    match choice_of(devices).await {
        Ok(choice) if choice.facts.reshape().is_some() => return true,
        Ok(_) => {}
        Err(_) => return false,
    }
    let Ok(set) = live(rt, devices).await else { return false };
    let write = Request::write(Offset(8192), Buf::copy_of(&content[8192..12_288]));
    if set.device().submit(write).await.is_err() {
        return false;
    }
    if set.needs_resync() && set.resync(SyncPriority::High).await.is_err() {
        return false;
    }
    for slot in set.needs_rebuild() {
        if set.rebuild(slot, SyncPriority::High).await.is_err() {
            return false;
        }
    }
    set.stop().await.is_ok()
}

async fn assert_members(disks: &[Rc<MemoryDevice>], slots: usize, what: &str) {
    let choice = choose(&devices(disks)).await;
    let events: Vec<u64> = choice.taking_part().map(|found| found.superblock.events()).collect();
    let old: Vec<_> = choice.slots.iter().take(slots).map(Option::is_some).collect();
    assert!(old.iter().all(|is_there| *is_there), "{what}: {old:?} {events:?}");
    if choice.facts.reshape().is_some() {
        assert_eq!(choice.degraded(), 0, "{what}: {events:?}");
    }
}

/// How many cuts there were.
async fn cut_again(
    rt: Rt,
    growth: Growth,
    level: Level,
    slots: usize,
    seed: u64,
    stride: usize,
) -> u64 {
    let seed_of_set = if growth == Growth::Bitmap { seed * 2 } else { seed };
    let (mut disks, content) = made(&rt, &new_by_seed(level, slots, seed_of_set), DISK, seed).await;
    if growth == Growth::Size {
        let larger = |disk: &Rc<MemoryDevice>| copied(disk, ByteCount(DISK.bytes() + (300 << 10)));
        disks = disks.iter().map(larger).collect();
    }
    disks.push(noise("added.", DISK, seed));
    let mut cuts = 0;
    for at in (1 + seed % stride as u64..).step_by(stride) {
        let mut prng = Prng::for_part(seed * 10_000 + at, "again");
        let mut now = disks.clone();
        for cut in 0..1 + prng.below(CUTS_MAX) {
            let what = format!("{growth:?} {level} of {slots}, seed {seed}, at {at}, cut {cut}");
            let place = if cut == 0 { at } else { 1 + prng.below(24) };
            // Only a set that is clean and whole begins to grow.
            let before = choose(&devices(&now)).await;
            let is_settled = before.facts.resync_offset() == u64::MAX && before.degraded() == 0;
            let use_first = cut > 0 && (prng.chance(0.4) || !is_settled);
            let mut late = prng.fork();
            let (rt, content) = (&rt, &content);
            let script = async |behind: Vec<DeviceRef>| {
                let late = |disk| Late::new(disk, rt, late.fork()) as DeviceRef;
                let behind: Vec<DeviceRef> = behind.into_iter().map(late).collect();
                let all = if cut == 0 { behind[..slots].to_vec() } else { behind.clone() };
                (!use_first || used(rt, &all, content).await)
                    && grown(rt, &behind, growth, slots).await
                    && used(rt, &behind, content).await
            };
            let Some(left) = cut_at(rt, &now, (prng.below(1000), place), script).await else {
                if cut == 0 {
                    return cuts;
                }
                break;
            };
            cuts += 1;
            now = left;
            assert_members(&now, slots, &what).await;
            verify(rt, &devices(&now), content, &what).await;
        }
        let (all, what) = (devices(&now), format!("{growth:?} {level}, seed {seed}, at {at}"));
        assert!(used(&rt, &all, &content).await, "{what}");
        assert!(grown(&rt, &all, growth, slots).await, "{what}");
        assert!(used(&rt, &all, &content).await, "{what}");
        verify(&rt, &all, &content, &what).await;
        check(&rt, &all, &what).await;
        assert_eq!(choose(&all).await.degraded(), 0, "{what}");
    }
    unreachable!("the script ends")
}

fn campaign(seeds: std::ops::Range<u64>, stride: usize) -> u64 {
    let mut cuts = 0;
    for (growth, level, slots) in [
        (Growth::Members, Level::Raid5, 3),
        (Growth::Members, Level::Raid5, 2),
        (Growth::Members, Level::Raid4, 3),
        (Growth::Members, Level::Raid6, 4),
        (Growth::Mirrors, Level::Raid1, 2),
        (Growth::Size, Level::Raid5, 3),
        (Growth::Size, Level::Raid10, 4),
        (Growth::Bitmap, Level::Raid6, 4),
    ] {
        for seed in seeds.clone() {
            let runtime = runtime();
            let rt = runtime.handle();
            let growing = cut_again(rt, growth, level, slots, seed, stride);
            cuts += runtime.block_on(growing).expect("it ends");
        }
    }
    cuts
}

#[test]
fn a_set_that_grows_survives_cuts_that_follow_one_another() {
    fixtures::takes_long!();
    let cuts = campaign(0..2, by_extent(12, 4));
    assert!(cuts > by_extent(60, 200), "{cuts} cuts");
}

#[test]
#[ignore = "takes minutes: every write of many seeds"]
fn a_set_that_grows_survives_thousands_of_cuts_that_follow_one_another() {
    let cuts = campaign(100..112, 1);
    println!("{cuts} cuts");
    assert!(cuts > 4_000, "{cuts} cuts");
}

/// What two cuts left before members were levelled: `[e + 2, e + 1, e, e]`.
#[test]
fn a_reshape_whose_members_are_two_events_behind_is_read_and_ended_by_force() {
    fixtures::takes_long!();
    let mut seen = 0;
    for at in (1..90).step_by(3) {
        let runtime = runtime();
        let rt = runtime.handle();
        let test = async move {
            let (mut disks, content) = made(&rt, &new(Level::Raid5, 3), DISK, 3).await;
            disks.push(noise("added.", DISK, 3));
            let script =
                async |behind: Vec<DeviceRef>| grown(&rt, &behind, Growth::Members, 3).await;
            let Some(cut) = cut_at(&rt, &disks, (3, at), script).await else { return false };
            let all = devices(&cut);
            let choice = choose(&all).await;
            if choice.facts.reshape().is_none() || choice.degraded() > 0 {
                return false;
            }
            let (slots, most) = (choice.slots.clone(), choice.facts.events());
            // The first becomes the freshest, so it is one that has heard of the reshape.
            let first = slots[0].as_ref().expect("a member");
            if first.superblock.reshape().is_none() {
                return false;
            }
            for (slot, behind) in [0, 1, 2, 2].into_iter().enumerate() {
                let found = slots[slot].as_ref().expect("a member");
                let Superblock::V1(mut own) = found.superblock.clone() else { panic!("version 1") };
                own.events = most + 2 - behind;
                own.roles = match &choice.facts {
                    Superblock::V1(facts) => facts.roles.clone(),
                    Superblock::V090(_) => panic!("version 1"),
                };
                let bytes = Buf::copy_of(&own.encode());
                found.device.submit(Request::write_fua(found.at, bytes)).await.expect("written");
            }
            let refused = Reshape::resume(&rt, choose(&all).await, NOW_S).await.err();
            let refused = refused.expect("too few").to_string();
            assert!(refused.contains("--force"), "{refused}");
            let forced = async || {
                let mut choice = choose(&all).await;
                assert_eq!(choice.accept_stale().len(), 2);
                choice
            };
            let options = OpenOptions::default();
            let array = OpenArray::open(&rt, "a", forced().await, options).await.expect("opened");
            assert!(read(&*array, 0, content.len() as u64).await.to_vec() == content, "at {at}");
            let resumed = Reshape::resume(&rt, forced().await, NOW_S).await.expect("resumed");
            resumed.run(|_, _| ()).await.expect("done");
            verify(&rt, &all, &content, "ended").await;
            check(&rt, &all, "ended").await;
            assert_eq!(choose(&all).await.degraded(), 0);
            true
        };
        seen += u32::from(runtime.block_on(test).expect("it ends"));
    }
    assert!(seen > 5, "{seen}");
}
