//! A larger size, and more mirrors.

use super::*;
use crate::rig::runtime;
use ::fixtures::extent::{by_extent, places};
use md::grow::{self, GrowError, SizeWish};

/// Members that were enlarged, with noise behind their old end.
fn enlarged(disks: &[Rc<MemoryDevice>], size: ByteCount) -> Vec<Rc<MemoryDevice>> {
    let larger = |disk: &Rc<MemoryDevice>| {
        let larger = noise(&disk.name(), size, 77);
        larger.poke(Offset(0), &disk.peek(Offset(0), disk.geometry().capacity));
        larger
    };
    disks.iter().map(larger).collect()
}

/// Makes right what is not, as whoever opens the set for writing.
async fn settled(rt: &Rt, devices: &[DeviceRef]) -> Result<(), LiveError> {
    let set = live(rt, devices).await?;
    if set.needs_resync() {
        set.resync(SyncPriority::High).await?;
    }
    for slot in set.needs_rebuild() {
        set.rebuild(slot, SyncPriority::High).await?;
    }
    set.stop().await
}

#[test]
fn a_larger_size_survives_a_power_cut_at_any_write_and_the_new_part_is_synchronised() {
    fixtures::takes_long!();
    let larger = ByteCount(DISK.bytes() + (700 << 10));
    let mut cuts = 0;
    for (level, slots) in
        [(Level::Raid1, 2), (Level::Raid5, 3), (Level::Raid6, 4), (Level::Raid10, 4)]
    {
        for seed in 0..3 {
            let runtime = runtime();
            let rt = runtime.handle();
            let test = async move {
                let (disks, content) =
                    made(&rt, &new_by_seed(level, slots, seed), DISK, seed).await;
                let disks = enlarged(&disks, larger);
                for (number, at) in (0..).zip(places(1, 4)) {
                    let what = format!("{level}, seed {seed}, cut {at}");
                    let script = async |behind: Vec<DeviceRef>| {
                        let choice = choose(&behind).await;
                        let grown = grow::size(&rt, choice, SizeWish::Max, NOW_S).await;
                        grown.is_ok() && settled(&rt, &behind).await.is_ok()
                    };
                    let Some(cut) = cut_at(&rt, &disks, (seed, at), script).await else {
                        return number;
                    };
                    let all = devices(&cut);
                    let size = verify(&rt, &all, &content, &what).await;
                    settled(&rt, &all).await.expect("settled");
                    if size.bytes() == content.len() as u64 {
                        let choice = choose(&all).await;
                        let grown = grow::size(&rt, choice, SizeWish::Max, NOW_S).await;
                        grown.unwrap_or_else(|error| panic!("{what}: {error}"));
                        settled(&rt, &all).await.expect("settled");
                    }
                    let size = verify(&rt, &all, &content, &what).await;
                    let grown = size.bytes() - content.len() as u64;
                    let each = grown / (content.len() as u64 * 4 / DISK.bytes()).max(1);
                    assert!(each > 300 << 10, "{what}: {grown} more");
                    assert_eq!(choose(&all).await.facts.resync_offset(), u64::MAX, "{what}");
                    check(&rt, &all, &what).await;
                    verify_bitmaps(&all, seed, &what).await;
                }
                unreachable!("the script ends")
            };
            cuts += runtime.block_on(test).expect("it ends");
        }
    }
    assert!(cuts > by_extent(12, 60), "{cuts} cuts");
}

#[test]
fn a_size_is_rounded_to_whole_chunks_and_bounded_by_the_smallest_member() {
    let runtime = runtime();
    let rt = runtime.handle();
    let test = async move {
        let (disks, content) = made(&rt, &new(Level::Raid5, 3), DISK, 1).await;
        let mut larger = enlarged(&disks, ByteCount::mib(3));
        larger[1] = enlarged(&disks[1..2], ByteCount::kib(2500)).remove(0);
        let all = devices(&larger);
        let size = async |wish| grow::size(&rt, choose(&all).await, wish, NOW_S).await;
        let refused = size(SizeWish::Of(ByteCount::kib(1500))).await.expect_err("refused");
        assert!(refused.to_string().starts_with("disk1. can hold 1476 KiB"), "{refused}");
        let refused = size(SizeWish::Of(ByteCount::kib(1000))).await.expect_err("refused");
        assert!(matches!(refused, GrowError::Size { .. }), "{refused}");
        let given = size(SizeWish::Of(ByteCount(1_234_567))).await.expect("grown");
        assert_eq!(given, ByteCount(1_234_567).round_down(ByteCount::kib(4)));
        // What is new is not synchronised yet, and says so.
        assert_eq!(choose(&all).await.facts.resync_offset(), 1 << 11);
        let again = size(SizeWish::Max).await.expect_err("refused");
        assert!(matches!(again, GrowError::Dirty { .. }), "{again}");
        settled(&rt, &all).await.expect("settled");
        assert_eq!(size(SizeWish::Max).await.expect("grown"), ByteCount::kib(2500 - 1024));
        settled(&rt, &all).await.expect("settled");
        verify(&rt, &all, &content, "grown").await;
        check(&rt, &all, "grown").await;
    };
    runtime.block_on(test).expect("it ends");
}

/// The superblock lies at the end, and the power goes while it moves to the new one.
#[test]
fn a_superblock_at_the_end_moves_with_it() {
    fixtures::takes_long!();
    let larger = ByteCount::mib(3);
    let mut cuts = 0;
    for seed in 0..4 {
        let runtime = runtime();
        let rt = runtime.handle();
        let test = async move {
            let old = NewArray { version: Version::V10, ..new_by_seed(Level::Raid5, 3, seed) };
            let (disks, content) = made(&rt, &old, DISK, seed).await;
            let disks = enlarged(&disks, larger);
            let grown = async |devices: &[DeviceRef]| {
                let mut found = Vec::new();
                for device in devices {
                    let there = assemble::find(device).await?;
                    let hidden = grow::find_at_old_end(device, DISK).await?;
                    found.extend(there.or(hidden));
                }
                let choice = Choice::of(Uuid([7; 16]), found)?;
                grow::size(&rt, choice, SizeWish::Max, NOW_S).await
            };
            for (number, at) in (0..).zip(places(1, 4)) {
                let what = format!("seed {seed}, cut {at}");
                let script = async |behind: Vec<DeviceRef>| grown(&behind).await.is_ok();
                let Some(cut) = cut_at(&rt, &disks, (seed, at), script).await else {
                    return number;
                };
                let all = devices(&cut);
                match grown(&all).await {
                    Ok(_) | Err(GrowError::Dirty { .. }) => {}
                    Err(error) => panic!("{what}: {error}"),
                }
                settled(&rt, &all).await.expect("settled");
                let size = verify(&rt, &all, &content, &what).await;
                assert_eq!(size.bytes(), content.len() as u64 + (2 << 20), "{what}");
                check(&rt, &all, &what).await;
                verify_bitmaps(&all, seed, &what).await;
            }
            unreachable!("the script ends")
        };
        cuts += runtime.block_on(test).expect("it ends");
    }
    assert!(cuts > by_extent(1, 8), "{cuts} cuts");
}

#[test]
fn a_third_mirror_survives_a_power_cut_at_any_write_and_holds_everything() {
    let mut cuts = 0;
    for seed in 0..6 {
        let runtime = runtime();
        let rt = runtime.handle();
        let test = async move {
            let (mut disks, content) =
                made(&rt, &new_by_seed(Level::Raid1, 2, seed), DISK, seed).await;
            disks.push(noise("added.", DISK, seed));
            for (number, at) in (0..).zip(places(1, 4)) {
                let what = format!("seed {seed}, cut {at}");
                let script = async |behind: Vec<DeviceRef>| {
                    let add = NewMember { device: behind[2].clone(), uuid: Uuid([9; 16]) };
                    let choice = choose(&behind[..2]).await;
                    let grown = grow::mirrors(&rt, choice, 3, &[add], NOW_S).await;
                    grown.is_ok() && settled(&rt, &behind).await.is_ok()
                };
                let Some(cut) = cut_at(&rt, &disks, (seed, at), script).await else {
                    return number;
                };
                let all = devices(&cut);
                verify(&rt, &all, &content, &what).await;
                for first in 0..2 {
                    verify(&rt, &all[first..=first], &content, &what).await;
                }
                let choice = choose(&all).await;
                if choice.facts.slots() == 2 {
                    let is_spare = !choice.spares.is_empty();
                    let add = if is_spare { vec![] } else { vec![added(&cut[2])] };
                    let grown = grow::mirrors(&rt, choice, 3, &add, NOW_S).await;
                    grown.unwrap_or_else(|error| panic!("{what}: {error}"));
                }
                settled(&rt, &all).await.expect("settled");
                assert_eq!(choose(&all).await.degraded(), 0, "{what}");
                verify(&rt, &all[2..], &content, &what).await;
                check(&rt, &all, &what).await;
                verify_bitmaps(&all, seed, &what).await;
            }
            unreachable!("the script ends")
        };
        cuts += runtime.block_on(test).expect("it ends");
    }
    assert!(cuts > by_extent(4, 20), "{cuts} cuts");
}
