//! More members of a set with parity.

use super::*;
use crate::fixtures;
use crate::rig::runtime;
use ::fixtures::extent::{by_extent, places};
use md::assemble::Superblock;
use md::grow::{self, GrowError, Reshape, SizeWish};
use md::superblock::Features;
use sha2::{Digest, Sha256};

async fn reshape(
    rt: &Rt,
    devices: &[DeviceRef],
    slots: usize,
    add: &[NewMember],
) -> Result<(), GrowError> {
    let begun = Reshape::begin(rt, choose(devices).await, slots, add, NOW_S).await?;
    begun.run(|_, _| ()).await
}

#[test]
fn sets_with_parity_get_more_members_and_are_as_any_set_afterwards() {
    let shapes =
        [(Level::Raid5, 3, 4), (Level::Raid5, 2, 5), (Level::Raid4, 3, 4), (Level::Raid6, 4, 5)];
    for (level, before, after) in shapes {
        let runtime = runtime();
        let rt = runtime.handle();
        let test = async move {
            let what = format!("{level} {before} to {after}");
            let (mut disks, content) = made(&rt, &new(level, before), DISK, 1).await;
            let mut add = Vec::new();
            for number in before..after {
                let disk = noise(&format!("disk{number}."), DISK, 1);
                add.push(NewMember { device: disk.clone(), uuid: Uuid([number as u8 + 1; 16]) });
                disks.push(disk);
            }
            reshape(&rt, &devices(&disks[..before]), after, &add).await.expect("reshaped");
            let all = devices(&disks);
            let size = verify(&rt, &all, &content, &what).await;
            let row = content.len() as u64 / (before - level.parities()) as u64;
            assert_eq!(size.bytes(), row * (after - level.parities()) as u64, "{what}");
            check(&rt, &all, &what).await;
            let choice = choose(&all).await;
            for (slot, found) in choice.slots.iter().enumerate() {
                let found = found.as_ref().expect("a member");
                let Superblock::V1(sb) = &found.superblock else { panic!("version 1") };
                assert_eq!(found.name(), format!("disk{slot}."));
                assert_eq!((sb.features.bits(), sb.resync_offset), (0, u64::MAX), "{what}");
                assert_eq!(sb.reshape, Default::default());
                // As mdadm moves it: a whole row of each, and the end stays.
                let chunks = if before == 2 { 4 } else { after - level.parities() };
                let chunks = if level == Level::Raid6 { 3 } else { chunks } as u64;
                assert_eq!(sb.data_offset, 2048 - 8 * chunks, "{what}");
                assert_eq!(sb.data_offset + sb.data_size, DISK.bytes() / 512);
            }
            // Beyond the old end there are zeros, and the set takes writes there.
            let array =
                OpenArray::open(&rt, "a", choice, OpenOptions::default()).await.expect("opened");
            let beyond = read(&*array, content.len() as u64, 65_536).await.to_vec();
            assert!(beyond.iter().all(|byte| *byte == 0), "{what}");
            let set = live(&rt, &all).await.expect("opened");
            let at = Offset(size.bytes() - 4096);
            set.device().submit(Request::write(at, Buf::fill(5, 4096))).await.expect("written");
            set.stop().await.expect("stopped");
            check(&rt, &all, &what).await;
        };
        runtime.block_on(test).expect("it ends");
    }
}

/// Finishes the reshape on what is there. False where nothing was begun, or everything was done.
async fn finish(rt: &Rt, devices: &[DeviceRef], what: &str) -> bool {
    match Reshape::resume(rt, choose(devices).await, NOW_S).await {
        Ok(resumed) => {
            let done = resumed.run(|_, _| ()).await;
            done.unwrap_or_else(|error| panic!("{what}: {error}"));
            true
        }
        Err(GrowError::NothingToContinue { .. }) => false,
        Err(error) => panic!("{what}: {error}"),
    }
}

/// How many cuts there were, how often the reshape was resumed with all members, and how often with one lost.
fn cut_all(level: Level, slots: usize, seeds: u64) -> [u32; 3] {
    let mut counts = [0; 3];
    for seed in 0..seeds {
        let runtime = runtime();
        let rt = runtime.handle();
        let found = runtime.block_on(cut_everywhere(rt, level, slots, seed)).expect("it ends");
        counts.iter_mut().zip(found).for_each(|(count, found)| *count += found);
    }
    counts
}

#[test]
fn a_reshape_of_three_survives_a_power_cut_at_any_write() {
    ::fixtures::takes_long!();
    let counts = cut_all(Level::Raid5, 3, 4);
    assert!(counts[0] > by_extent(24, 120), "{counts:?}");
    assert!(counts[1..].iter().all(|count| *count > by_extent(18, 90)), "{counts:?}");
}

#[test]
fn a_reshape_of_two_survives_a_power_cut_at_any_write() {
    let counts = cut_all(Level::Raid5, 2, 3);
    assert!(counts[0] > by_extent(10, 50), "{counts:?}");
    assert!(counts[1..].iter().all(|count| *count > by_extent(6, 30)), "{counts:?}");
}

#[test]
fn a_reshape_of_raid_6_survives_a_power_cut_at_any_write() {
    ::fixtures::takes_long!();
    let counts = cut_all(Level::Raid6, 4, 2);
    assert!(counts[0] > by_extent(10, 50), "{counts:?}");
    assert!(counts[1..].iter().all(|count| *count > by_extent(6, 30)), "{counts:?}");
}

async fn cut_everywhere(rt: Rt, level: Level, slots: usize, seed: u64) -> [u32; 3] {
    let (mut disks, content) = made(&rt, &new_by_seed(level, slots, seed), DISK, seed).await;
    disks.push(noise("added.", DISK, seed));
    let (mut cuts, mut resumed, mut degraded) = (0, 0, 0);
    for at in places(1, 4) {
        let what = format!("{level} of {slots}, seed {seed}, cut {at}");
        let script = async |behind: Vec<DeviceRef>| {
            let add = NewMember { device: behind[slots].clone(), uuid: Uuid([9; 16]) };
            reshape(&rt, &behind[..slots], slots + 1, &[add]).await.is_ok()
        };
        let Some(cut) = cut_at(&rt, &disks, (seed, at), script).await else { break };
        cuts += 1;
        verify(&rt, &devices(&cut), &content, &what).await;
        // The same moment with a member lost.
        let mut rest: Vec<_> = cut.iter().map(|disk| copied(disk, DISK)).collect();
        let lost = Prng::for_part(seed * 10_000 + at, "lost").below(slots as u64 + 1) as usize;
        let lost = devices(&[rest.remove(lost)]).remove(0);
        let mut rest = devices(&rest);
        let what_lost = format!("{what}, one lost");
        verify(&rt, &rest, &content, &what_lost).await;
        if finish(&rt, &rest, &what_lost).await {
            degraded += 1;
            verify(&rt, &rest, &content, &what_lost).await;
            let choice = choose(&rest).await;
            assert_eq!((choice.facts.slots(), choice.degraded()), (slots + 1, 1), "{what_lost}");
            assert!(choice.facts.reshape().is_none(), "{what_lost}");
            // It comes back, with nothing of what was moved meanwhile, whatever its bitmap says.
            let set = live(&rt, &rest).await.expect("opened");
            let found = assemble::find(&lost).await.expect("readable");
            set.add(lost.clone(), found, Uuid([8; 16])).await.expect("added");
            for slot in set.needs_rebuild() {
                set.rebuild(slot, SyncPriority::High).await.expect("rebuilt");
            }
            set.stop().await.expect("stopped");
            rest.push(lost);
            verify(&rt, &rest, &content, &what_lost).await;
            assert_eq!(choose(&rest).await.degraded(), 0, "{what_lost}");
            check(&rt, &rest, &what_lost).await;
        }
        // And with all of them.
        let all = devices(&cut);
        resumed += u32::from(finish(&rt, &all, &what).await);
        let choice = choose(&all).await;
        if choice.facts.slots() == slots {
            // It was not begun: it can be, with the same disk.
            let add = if choice.spares.is_empty() { vec![added(&cut[slots])] } else { vec![] };
            reshape(&rt, &all[..if add.is_empty() { slots + 1 } else { slots }], slots + 1, &add)
                .await
                .unwrap_or_else(|error| panic!("{what}: {error}"));
        }
        verify(&rt, &all, &content, &what).await;
        check(&rt, &all, &what).await;
        let choice = choose(&all).await;
        assert_eq!((choice.facts.slots(), choice.degraded()), (slots + 1, 0), "{what}");
        verify_bitmaps(&all, seed, &what).await;
    }
    [cuts, resumed, degraded]
}

/// Nobody cuts the power, but a disk stops answering: the others go on, and it is known to be lost.
#[test]
fn a_reshape_goes_on_without_a_member_that_is_lost() {
    ::fixtures::takes_long!();
    let mut lost = 0;
    for at in places(1, 4).take_while(|at| *at < 60) {
        let runtime = runtime();
        let rt = runtime.handle();
        let test = async move {
            let (mut disks, content) = made(&rt, &new(Level::Raid5, 3), DISK, at).await;
            disks.push(noise("added.", DISK, at));
            let victim = (at % 4) as usize;
            let cut = PowerCut::new(devices(&disks)[victim].clone(), &rt);
            cut.cut_at_write(at, Prng::new(at));
            let mut there = devices(&disks);
            there[victim] = cut.clone();
            let add = NewMember { device: there[3].clone(), uuid: Uuid([9; 16]) };
            let done = reshape(&rt, &there[..3], 4, &[add]).await;
            if victim == 3 && done.is_err() {
                // The new device could not even be made a spare.
                assert!(at < 2, "cut {at}: {done:?}");
                return false;
            }
            done.expect("done");
            if !cut.is_cut() {
                return false;
            }
            cut.power_on().await.expect("whole");
            let all = devices(&disks);
            verify(&rt, &all, &content, &format!("cut {at}")).await;
            let choice = choose(&all).await;
            assert_eq!(choice.degraded(), 1, "cut {at}: it is not believed");
            true
        };
        lost += u32::from(runtime.block_on(test).expect("it ends"));
    }
    assert!(lost > by_extent(6, 30), "{lost}");
}

/// As md has it when a set without one member is grown: a spare stands in its slot, and the reshape fills it; the new
/// slot stays empty. Of the old geometry the spare has nothing, of the new one all that was moved.
#[test]
fn a_member_that_only_the_reshape_fills_is_read_where_it_was_moved() {
    let runtime = runtime();
    let rt = runtime.handle();
    let test = async move {
        let (mut disks, content) = made(&rt, &new(Level::Raid5, 3), DISK, 3).await;
        disks.push(noise("added.", DISK, 3));
        let mut seen = 0;
        for at in places(1, 4) {
            let script = async |behind: Vec<DeviceRef>| {
                let add = NewMember { device: behind[3].clone(), uuid: Uuid([9; 16]) };
                reshape(&rt, &behind[..3], 4, &[add]).await.is_ok()
            };
            let Some(cut) = cut_at(&rt, &disks, (3, at), script).await else { break };
            let found =
                assemble::find(&devices(&cut)[1]).await.expect("readable").expect("a member");
            let Superblock::V1(mut own) = found.superblock else { panic!("it was made as 1.2") };
            let moved = own.reshape.position / 3;
            if !own.features.has(Features::RESHAPE_ACTIVE) || moved == 0 {
                continue;
            }
            own.features = own.features.with(Features::RECOVERY_OFFSET, true);
            own.recovery_offset = moved;
            let start = own.new_data_offset().expect("it moves") + moved;
            let rest = DISK.bytes() - start * 512;
            cut[1].poke(found.at, &Buf::copy_of(&own.encode()).into());
            cut[1].poke(Offset(start * 512), &Buf::fill(0xbad, rest as usize).into());
            let three = devices(&cut[..3]);
            verify(&rt, &three, &content, &format!("cut {at}")).await;
            let resumed = Reshape::resume(&rt, choose(&three).await, NOW_S).await;
            let refused = resumed.err().expect("refused").to_string();
            assert!(refused.contains("a member that the reshape fills"), "{refused}");
            seen += 1;
        }
        assert!(seen > by_extent(2, 10), "{seen} cuts");
    };
    runtime.block_on(test).expect("it ends");
}

#[test]
fn what_can_not_be_grown_is_refused_with_its_mend_and_nothing_is_written() {
    let runtime = runtime();
    let rt = runtime.handle();
    let test = async move {
        let text = |result: Result<(), GrowError>| result.expect_err("refused").to_string();
        let (disks, _) = made(&rt, &new(Level::Raid5, 3), DISK, 1).await;
        let all = devices(&disks);
        let spare = noise("spare.", DISK, 1);
        let before: Vec<_> = disks.iter().map(|disk| disk.peek(Offset(0), DISK).to_vec()).collect();
        assert!(text(reshape(&rt, &all, 4, &[]).await).contains("--add"));
        assert!(text(reshape(&rt, &all, 3, &[added(&spare)]).await).contains("given more"));
        assert!(
            text(reshape(&rt, &all[..2], 4, &[added(&spare)]).await).contains("bring them back")
        );
        let small = noise("small.", ByteCount::mib(1), 1);
        assert!(text(reshape(&rt, &all, 4, &[added(&small)]).await).contains("use a larger one"));
        let resumed = Reshape::resume(&rt, choose(&all).await, NOW_S).await.map(|_| ());
        assert!(text(resumed).contains("nothing to continue"));
        let larger = grow::size(&rt, choose(&all).await, SizeWish::Max, NOW_S).await.map(|_| ());
        assert!(text(larger).contains("enlarge the members first"));
        let mirrors = grow::mirrors(&rt, choose(&all).await, 4, &[added(&spare)], NOW_S).await;
        assert!(text(mirrors).contains("raid5"));
        for (disk, before) in disks.iter().zip(before) {
            assert!(disk.peek(Offset(0), DISK).to_vec() == before, "{} is as it was", disk.name());
        }
        // Superblock at the end: the data begins at 0, and nothing is free before it.
        let old = NewArray { version: Version::V10, ..new(Level::Raid5, 3) };
        let (disks, _) = made(&rt, &old, DISK, 1).await;
        let refused = text(reshape(&rt, &devices(&disks), 4, &[added(&spare)]).await);
        assert!(refused.contains("--backup-file"), "{refused}");
        let start = spare.peek(Offset(0), ByteCount::kib(64)).to_vec();
        assert!(start == noise("spare.", DISK, 1).peek(Offset(0), ByteCount::kib(64)).to_vec());
    };
    runtime.block_on(test).expect("it ends");
}

/// The real md was stopped in the midst of this one.
#[test]
fn a_reshape_that_md_left_is_finished_with_all_members_and_with_one_lost() {
    ::fixtures::takes_long!();
    let Some(folder) = fixtures::folder() else { return };
    let name = "raid5-3-reshape-to-4";
    let manifest = fixtures::manifest(&folder, name);
    let images = ::fixtures::disks(&folder, name);
    for lost in [None, Some(2), Some(3)] {
        let there = (0..4).filter(|number| Some(*number) != lost);
        let disks: Vec<DeviceRef> =
            there.map(|number| images[number].device() as DeviceRef).collect();
        let size = fixtures::number(&manifest["array"]["size"]);
        let expected = manifest["array"]["sha256"].as_str().expect("a digest").to_owned();
        let runtime = runtime();
        let rt = runtime.handle();
        let test = async move {
            let resumed = Reshape::resume(&rt, choose(&disks).await, NOW_S).await.expect("resumed");
            resumed.run(|_, _| ()).await.expect("done");
            let choice = choose(&disks).await;
            assert_eq!((choice.facts.slots(), choice.facts.features().bits()), (4, 0));
            assert_eq!((choice.facts.data_offset(), choice.degraded()), (1664, 4 - disks.len()));
            let array = OpenArray::open(&rt, "a", choice, OpenOptions::default()).await;
            let array = array.expect("opened");
            assert_eq!(array.geometry().capacity.bytes(), size / 2 * 3);
            let mut hasher = Sha256::new();
            for from in (0..size).step_by(1 << 20) {
                let part = read(&*array, from, (1 << 20).min(size - from)).await;
                part.pieces().iter().for_each(|piece| hasher.update(piece.bytes()));
            }
            let digest: String =
                hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(digest, expected, "{lost:?} lost");
            if lost.is_none() {
                check(&rt, &disks, name).await;
            }
        };
        runtime.block_on(test).expect("it ends");
    }
}
