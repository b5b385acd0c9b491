//! A write-intent bitmap comes to a set, and goes.

use super::*;
use crate::rig::runtime;
use ::fixtures::extent::{by_extent, places};
use md::grow::{self, GrowError};
use md::live::Added;

const VERSIONS: [Version; 3] = [Version::V10, Version::V11, Version::V12];

#[test]
fn a_bitmap_comes_and_goes_and_a_power_cut_at_any_write_leaves_the_set_with_one_or_without() {
    fixtures::takes_long!();
    let mut cuts = 0;
    for (n, version) in VERSIONS.into_iter().enumerate() {
        for (level, slots) in [(Level::Raid1, 2), (Level::Raid6, 4), (Level::Raid10, 4)] {
            let runtime = runtime();
            let rt = runtime.handle();
            let test = async move {
                let seed = n as u64;
                let (disks, content) =
                    made(&rt, &NewArray { version, ..new(level, slots) }, DISK, seed).await;
                for (number, at) in (0..).zip(places(1, 4)) {
                    let what = format!("{level} {version}, cut {at}");
                    let script = async |behind: Vec<DeviceRef>| {
                        let chunk = Some(ByteCount::kib(64));
                        let choice = choose(&behind).await;
                        let added = grow::add_bitmap(&rt, choice, chunk, NOW_S).await;
                        let Ok(set) = live(&rt, &behind).await else { return false };
                        let written = write(&set, &content).await && set.stop().await.is_ok();
                        let Ok(choice) = choice_of(&behind).await else { return false };
                        let removed = grow::remove_bitmap(&rt, choice, NOW_S).await;
                        added.is_ok() && written && removed.is_ok()
                    };
                    let Some(cut) = cut_at(&rt, &disks, (seed, at), script).await else {
                        return number;
                    };
                    let all = devices(&cut);
                    let set = live(&rt, &all).await.expect("opened");
                    if set.needs_resync() {
                        set.resync(SyncPriority::High).await.expect("done");
                    }
                    assert!(write(&set, &content).await, "{what}");
                    set.stop().await.expect("stopped");
                    verify(&rt, &all, &content, &what).await;
                    check(&rt, &all, &what).await;
                    let choice = choose(&all).await;
                    let has = |found: &assemble::Found| {
                        found.superblock.features().has(md::superblock::Features::BITMAP)
                    };
                    let with = choice.slots.iter().flatten().filter(|found| has(found)).count();
                    assert!(with == 0 || with == slots, "{what}: {with} have a bitmap");
                    if with > 0 {
                        verify_bitmaps(&all, 1, &what).await;
                    }
                }
                unreachable!("the script ends")
            };
            cuts += runtime.block_on(test).expect("it ends");
        }
    }
    assert!(cuts > by_extent(12, 60), "{cuts} cuts");
}

/// Writes all of the content again.
async fn write(set: &LiveArray, content: &[u8]) -> bool {
    set.device().submit(Request::write(Offset(0), Buf::copy_of(content))).await.is_ok()
}

#[test]
fn a_member_that_was_away_is_caught_up_by_a_bitmap_that_was_added() {
    for version in VERSIONS {
        let runtime = runtime();
        let rt = runtime.handle();
        let test = async move {
            let new = NewArray { version, ..new(Level::Raid5, 3) };
            let (disks, mut content) = made(&rt, &new, DISK, 5).await;
            let all = devices(&disks);
            let chunk = grow::add_bitmap(&rt, choose(&all).await, None, NOW_S).await.expect("room");
            assert_eq!(chunk, ByteCount::mib(64));
            let again = grow::add_bitmap(&rt, choose(&all).await, None, NOW_S).await;
            assert!(matches!(again, Err(GrowError::HasBitmap { .. })));
            grow::remove_bitmap(&rt, choose(&all).await, NOW_S).await.expect("removed");
            let least = Some(ByteCount::kib(4));
            let chunk = grow::add_bitmap(&rt, choose(&all).await, least, NOW_S).await;
            assert_eq!(chunk.expect("room"), ByteCount::kib(4));

            let two = live(&rt, &all[1..]).await.expect("degraded");
            content[..4096].fill(0xa5);
            assert!(write(&two, &content[..4096]).await);
            two.stop().await.expect("stopped");
            let set = live(&rt, &all[1..]).await.expect("degraded");
            let found = assemble::find(&all[0]).await.expect("readable");
            let back = set.add(Rc::clone(&all[0]), found, Uuid([9; 16])).await.expect("added");
            let Added::Back { slot: 0, missed } = back else { panic!("{version}: {back:?}") };
            assert!(missed < ByteCount::kib(64), "{version}: {missed}");
            set.rebuild(0, SyncPriority::High).await.expect("rebuilt");
            set.stop().await.expect("stopped");
            verify(&rt, &all, &content, "caught up").await;
            check(&rt, &all, "caught up").await;
        };
        runtime.block_on(test).expect("it ends");
    }
}

#[test]
fn what_can_have_no_bitmap_says_why() {
    let runtime = runtime();
    let rt = runtime.handle();
    let test = async move {
        let (disks, _) = made(&rt, &new(Level::Raid5, 3), DISK, 6).await;
        let all = devices(&disks);
        let add = async |devices: &[DeviceRef], chunk: u64| {
            let chunk = Some(ByteCount(chunk));
            let added = grow::add_bitmap(&rt, choose(devices).await, chunk, NOW_S).await;
            added.expect_err("refused").to_string()
        };
        assert!(add(&all, 5000).await.contains("power of two from 4 KiB"));
        assert!(add(&all[1..], 65536).await.contains("lacks 1 of its members"));
        let none = grow::remove_bitmap(&rt, choose(&all).await, NOW_S).await;
        assert!(matches!(none, Err(GrowError::HasNoBitmap { .. })));
        let (disks, _) = made(&rt, &new(Level::Raid0, 2), DISK, 6).await;
        assert!(add(&devices(&disks), 65536).await.contains("keeps no write-intent bitmap"));
        let ppl = NewArray { policy: Policy::Ppl, ..new(Level::Raid5, 3) };
        let (disks, _) = made(&rt, &ppl, ByteCount::mib(4), 6).await;
        assert!(add(&devices(&disks), 65536).await.contains("a partial parity log"));
    };
    runtime.block_on(test).expect("it ends");
}
