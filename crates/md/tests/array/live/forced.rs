//! Sets of which too many members failed one after another, and that are started all the same.
//!
//! What could break: a member that is taken back though it is not needed, or an older one before a fresher; data that
//! was there and is not any more; parity that a log makes wrong; a set that is called clean though nobody compared its
//! copies; somebody who comes back by a bitmap that says nothing of what he missed; a power cut in the first
//! superblocks after which nothing opens the set.

use super::{BLOCK, Machine, SHAPES, choose, devices, live, new, read, resynchronised, write};
use crate::rig::runtime;
use ::fixtures::extent::{by_extent, places};
use md::assemble::{self, AssembleError, Choice, Found, OpenArray, OpenOptions, Superblock};
use md::create::{NewArray, Policy};
use md::live::{Added, LiveArray, LiveError, LiveOptions};
use md::superblock::{Features, Role, Uuid};
use md::{Level, SyncPriority};
use rt::filter::{Effect, Fault, Rule};
use rt::{Buf, Device, DeviceRef, IoErrorKind, MemoryDevice, OpKind, Request, Rt};
use std::rc::Rc;
use stdx::{ByteCount, Offset, Prng};

/// Blocks that were written and flushed before anything failed.
const OLD: u64 = 120;
/// Where the writes go that find a member failing: in a row of its own.
const LAST: u64 = 400;

fn set_of(level: Level, slots: usize, policy: Policy) -> NewArray {
    let bitmap_chunk = (policy == Policy::Bitmap).then(|| ByteCount::kib(64));
    NewArray { policy, bitmap_chunk, ..new(level, slots) }
}

/// The slots that fail, one after another: the last one is one too many.
fn victims(level: Level) -> &'static [usize] {
    match level {
        Level::Raid6 => &[3, 1, 2],
        Level::Raid10 => &[3, 2],
        _ => &[2, 1],
    }
}

/// A set whose members' disks were full one after another, and the word of each block.
async fn failed(rt: &Rt, new: &NewArray, slots: usize) -> (Vec<Rc<MemoryDevice>>, Vec<u64>) {
    let disks = resynchronised(rt, new, slots, 5).await;
    let faults: Vec<Rc<Fault>> =
        devices(&disks).into_iter().map(|disk| Fault::new(disk, rt, Prng::new(1))).collect();
    let seen: Vec<DeviceRef> = faults.iter().map(|fault| Rc::clone(fault) as DeviceRef).collect();
    let set = live(rt, &seen, false).await.expect("opened");
    let mut words: Vec<u64> = (0..OLD).map(|block| 1000 + block).collect();
    for (block, word) in words.iter().enumerate() {
        write(&set.device(), block as u64, *word).await.expect("written");
    }
    for (n, victim) in victims(new.level).iter().enumerate() {
        faults[*victim].add(Rule::new(Effect::Fail(IoErrorKind::NoSpace)).on(&[OpKind::Write]));
        let is_last = n + 1 == victims(new.level).len();
        let done = write(&set.device(), LAST, 7).await;
        assert!(is_last || done.is_ok(), "{}: it can do without {victim}", new.level);
        for block in (0..OLD).step_by(7).filter(|_| !is_last) {
            words[block as usize] = 2000 + 100 * n as u64 + block;
            write(&set.device(), block, words[block as usize]).await.expect("written");
        }
        if is_last {
            // A quiet moment may call the set clean.
            rt.sleep(md::live::QUIET * 3).await;
        }
    }
    (disks, words)
}

async fn forced(devices: &[DeviceRef]) -> Choice {
    let mut choice = choose(devices).await;
    choice.accept_stale();
    choice
}

async fn open(rt: &Rt, choice: Choice, force: bool) -> Result<LiveArray, LiveError> {
    let options = LiveOptions { force, unix_s: 1_800_000_200, ..LiveOptions::default() };
    LiveArray::open(rt, "live", choice, options).await
}

async fn superblock(device: &DeviceRef) -> md::superblock::v1::SuperblockV1 {
    match found(device).await.superblock {
        Superblock::V1(superblock) => *superblock,
        Superblock::V090(_) => unreachable!("it was made as 1.2"),
    }
}

async fn found(device: &DeviceRef) -> Found {
    assemble::find(device).await.expect("readable").expect("a member")
}

#[track_caller]
fn too_few(refused: AssembleError) -> (bool, String) {
    let text = refused.to_string();
    match refused {
        AssembleError::TooFew { force_helps, .. } => (force_helps, text),
        other => panic!("{other}"),
    }
}

async fn assert_content(array: &dyn Device, words: &[u64], what: &str) {
    for (block, word) in words.iter().enumerate() {
        assert_eq!(read(array, block as u64).await, Some(*word), "{what}, block {block}");
    }
}

async fn mismatches(set: &LiveArray) -> u64 {
    let report = set.array().check(set.array().whole(), SyncPriority::High).await;
    report.expect("checked").mismatched_sectors
}

#[test]
fn the_freshest_of_the_failed_members_is_taken_back_and_the_data_is_there() {
    for policy in [Policy::Resync, Policy::Bitmap] {
        for (level, slots) in SHAPES.into_iter().filter(|(level, _)| *level != Level::Raid1) {
            let runtime = runtime();
            let rt = runtime.handle();
            runtime
                .block_on(async move {
                    let (disks, words) = failed(&rt, &set_of(level, slots, policy), slots).await;
                    taken_back(&rt, &devices(&disks), &words, level).await;
                })
                .expect("it ends");
        }
    }
}

async fn taken_back(rt: &Rt, disks: &[DeviceRef], words: &[u64], level: Level) {
    let freshest = *victims(level).last().expect("some");
    let choice = choose(disks).await;
    assert!(choice.apart().is_empty(), "{level}: who failed did not go on");
    let (events, before) = (choice.facts.events(), superblock(&disks[freshest]).await.events);
    for refused in [
        OpenArray::open(rt, "a", choice.clone(), OpenOptions::default()).await.err(),
        match open(rt, choice.clone(), true).await {
            Err(LiveError::Assemble(error)) => Some(error),
            _ => None,
        },
    ] {
        let (helps, text) = too_few(refused.expect("refused"));
        let name = format!("disk{freshest}. (recorded as failed, ");
        assert!(helps && text.contains("--force") && text.contains(&name), "{level}: {text}");
    }

    let choice = forced(disks).await;
    let accepted: Vec<_> =
        choice.accepted.iter().map(|one| (one.slot, one.events, one.of)).collect();
    assert_eq!(accepted, [(freshest, before, events)], "{level}: no more than it takes");
    let options = OpenOptions::default();
    let array = OpenArray::open(rt, "a", choice.clone(), options).await.expect("opened");
    assert_content(&*array, words, "read only").await;

    let set = open(rt, choice, false).await.expect("it was forced when it was chosen");
    for (slot, disk) in disks.iter().enumerate() {
        let said = superblock(disk).await;
        let takes_part = slot == freshest || !victims(level).contains(&slot);
        assert_eq!(said.events > events, takes_part, "{level}: events of {slot}");
        if takes_part {
            let role = |number: usize| said.roles.get(number).copied();
            assert_eq!(role(freshest), Some(Role::Slot(freshest as u16)), "{level}");
            assert_eq!(role(victims(level)[0]), Some(Role::Faulty), "{level}");
            assert_eq!((said.events, said.resync_offset), (events + 1, 0), "{level}: dirty");
        }
    }
    assert!(set.needs_resync());
    assert_content(&*set.device(), words, "opened").await;
    set.resync(SyncPriority::High).await.expect("done");
    set.stop().await.expect("stopped");

    // From now on it is a degraded set like any other.
    let set = open(rt, choose(disks).await, false).await.expect("no force");
    assert!(!set.needs_resync());
    let left_out = victims(level)[0];
    let old = found(&disks[left_out]).await;
    assert_eq!(set.can_come_back(&old), None, "{level}: no bit tells what it missed");
    let added = set.add(Rc::clone(&disks[left_out]), Some(old), Uuid([9; 16])).await;
    assert_eq!(added.ok(), Some(Added::Spare), "{level}");
    for slot in set.needs_rebuild() {
        set.rebuild(slot, SyncPriority::High).await.expect("rebuilt");
    }
    if set.array().degraded() == 0 {
        assert_eq!(mismatches(&set).await, 0, "{level}");
    }
    assert_content(&*set.device(), words, "rebuilt").await;
    set.stop().await.expect("stopped");
}

/// Without the freshest it is the next one; and no force brings what is not there.
#[test]
fn an_older_member_is_taken_back_only_where_the_fresher_one_is_gone() {
    let runtime = runtime();
    let rt = runtime.handle();
    let test = async move {
        let (disks, words) = failed(&rt, &set_of(Level::Raid6, 5, Policy::Resync), 5).await;
        let [oldest, next, freshest] = [3, 1, 2];
        let mut there = devices(&disks);
        there.remove(freshest);
        let choice = forced(&there).await;
        let slots: Vec<usize> = choice.accepted.iter().map(|one| one.slot).collect();
        assert_eq!(slots, [next]);
        let array = OpenArray::open(&rt, "a", choice, OpenOptions::default()).await;
        let array = array.expect("opened");
        // Rows that it missed are torn; of those that nobody wrote since, all is right.
        let row = 3 * ByteCount::kib(16).bytes() / BLOCK;
        for block in row * 10..OLD {
            let word = words[block as usize];
            if word < 2000 {
                read(&*array, block).await.expect("readable");
            }
        }
        there.retain(|disk| *disk.name() == *"disk0." || *disk.name() == *"disk4.");
        let choice = forced(&there).await;
        assert!(choice.accepted.is_empty(), "two of five are too few");
        let refused = OpenArray::open(&rt, "a", choice, OpenOptions::default()).await;
        let (helps, text) = too_few(refused.err().expect("refused"));
        assert!(!helps && !text.contains("--force"), "{text}");
        there.push(devices(&disks)[oldest].clone());
        assert_eq!(forced(&there).await.accepted.len(), 1, "the oldest, where nobody else is");
    };
    runtime.block_on(test).expect("it ends");
}

/// Also the log of the one whose loss ended the set: nothing was written after it.
#[test]
fn a_partial_parity_log_of_a_member_that_was_there_to_the_end_closes_the_write_hole() {
    for last in 0..24_u64 {
        let runtime = runtime();
        let rt = runtime.handle();
        let test = async move {
            let new = set_of(Level::Raid5, 3, Policy::Ppl);
            let disks = resynchronised(&rt, &new, 3, 5).await;
            let faults: Vec<Rc<Fault>> = devices(&disks)
                .into_iter()
                .map(|disk| Fault::new(disk, &rt, Prng::new(1)))
                .collect();
            let seen: Vec<DeviceRef> = faults.iter().map(|one| Rc::clone(one) as _).collect();
            let set = live(&rt, &seen, false).await.expect("opened");
            for block in 0..24 {
                write(&set.device(), block, 100 + block).await.expect("written");
            }
            set.fail(2).await.expect("recorded");
            for block in 0..24 {
                write(&set.device(), block, 200 + block).await.expect("written");
            }
            // Its data can't be written, what lies before it can.
            let data = Offset(superblock(&seen[1]).await.data_offset * 512);
            let full = Rule::new(Effect::Fail(IoErrorKind::NoSpace)).on(&[OpKind::Write]);
            faults[1].add(full.within(data, super::DISK - data.from_start()));
            let done = write(&set.device(), last, 999).await;
            drop(set);
            let all = devices(&disks);
            if done.is_ok() {
                // It lay on other members alone.
                return;
            }
            let choice = forced(&all).await;
            assert_eq!(choice.accepted.len(), 1);
            let (set, other) = (choice.clone(), forced(&all).await);
            let array = OpenArray::open(&rt, "a", set, OpenOptions::default()).await;
            let array = array.expect("opened");
            let set = open(&rt, other, false).await.expect("opened");
            for block in (0..24).filter(|block| *block != last) {
                let expected = Some(200 + block);
                assert_eq!(read(&*array, block).await, expected, "{last} failed, {block}");
                assert_eq!(read(&*set.device(), block).await, expected, "{last} failed, {block}");
            }
            assert!(set.needs_resync(), "the log does not make it clean");
        };
        runtime.block_on(test).expect("it ends");
    }
}

/// What it has was made of the member that failed then, and may be newer than what is taken back.
#[test]
fn a_mirror_that_was_being_filled_is_filled_anew_from_the_member_that_is_taken_back() {
    let runtime = runtime();
    let rt = runtime.handle();
    let test = async move {
        let disks = resynchronised(&rt, &set_of(Level::Raid1, 2, Policy::Resync), 3, 5).await;
        let fault = Fault::new(devices(&disks).remove(0), &rt, Prng::new(1));
        let mut seen = devices(&disks);
        seen[0] = Rc::clone(&fault) as DeviceRef;
        let set = live(&rt, &seen, false).await.expect("opened");
        for block in 0..OLD {
            write(&set.device(), block, 1000 + block).await.expect("written");
        }
        set.fail(1).await.expect("recorded");
        let half = Offset(set.array().component_extent().bytes() / 2);
        let range = Offset(0)..half.round_down(ByteCount::mib(1));
        set.array().rebuild(1, range, SyncPriority::High).await.expect("half of it");
        write(&set.device(), LAST, 1).await.expect("written");
        fault.add(Rule::new(Effect::Fail(IoErrorKind::NoSpace)).on(&[OpKind::Write]));
        let _ = set.stop().await;
        drop(set);

        let all = devices(&disks);
        let refused = OpenArray::open(&rt, "a", choose(&all).await, OpenOptions::default()).await;
        let (helps, text) = too_few(refused.err().expect("nobody is whole"));
        assert!(helps && text.contains("disk0."), "{text}");
        let choice = forced(&all).await;
        let slots: Vec<usize> = choice.accepted.iter().map(|one| one.slot).collect();
        assert_eq!(slots, [0], "the source, and not the one that failed before");
        let set = open(&rt, choice, false).await.expect("opened");
        assert_eq!(superblock(&all[2]).await.recovery_offset, 0);
        set.resync(SyncPriority::High).await.expect("done");
        set.rebuild(1, SyncPriority::High).await.expect("filled");
        assert_eq!(mismatches(&set).await, 0);
        let words: Vec<u64> = (0..OLD).map(|block| 1000 + block).collect();
        assert_content(&*set.device(), &words, "filled").await;
        set.stop().await.expect("stopped");
        assert!(!superblock(&all[2]).await.features.has(Features::RECOVERY_OFFSET));
    };
    runtime.block_on(test).expect("it ends");
}

/// The freshest of them comes too late: the set went on without it.
#[test]
fn who_recorded_that_others_failed_does_not_come_back_by_the_bitmap_when_these_went_on() {
    let runtime = runtime();
    let rt = runtime.handle();
    let test = async move {
        let (disks, _) = failed(&rt, &set_of(Level::Raid5, 3, Policy::Bitmap), 3).await;
        let all = devices(&disks);
        let set = open(&rt, forced(&all[1..]).await, false).await.expect("opened");
        write(&set.device(), 0, 5).await.expect("written");
        let late = found(&all[0]).await;
        assert_eq!(set.can_come_back(&late), None);
        // Linux frees numbers instead of calling them faulty.
        let Superblock::V1(mut own) = late.superblock.clone() else { unreachable!() };
        own.roles.iter_mut().filter(|role| **role == Role::Faulty).for_each(|role| {
            *role = Role::Spare;
        });
        let superblock = Superblock::V1(own);
        assert_eq!(set.can_come_back(&Found { superblock, ..late.clone() }), None);
        let added = set.add(Rc::clone(&all[0]), Some(late), Uuid([9; 16])).await;
        assert_eq!(added.ok(), Some(Added::Spare));
    };
    runtime.block_on(test).expect("it ends");
}

#[test]
fn members_of_another_shape_cut_short_or_without_their_number_are_not_taken_back() {
    let runtime = runtime();
    let rt = runtime.handle();
    let test = async move {
        let (disks, _) = failed(&rt, &set_of(Level::Raid5, 3, Policy::Bitmap), 3).await;
        let all = devices(&disks);
        let whole = superblock(&all[1]).await;
        let at = Offset(whole.super_offset * 512);
        let changes: [fn(&mut md::superblock::v1::SuperblockV1); 5] = [
            |own| own.size -= 128,
            |own| own.chunk *= 2,
            |own| own.features = own.features.with(Features::BITMAP, false),
            |own| own.features = own.features.with(Features::RECOVERY_OFFSET, true),
            |own| own.device_number = 0,
        ];
        for (n, change) in changes.into_iter().enumerate() {
            let mut other = whole.clone();
            change(&mut other);
            disks[1].poke(at, &Buf::copy_of(&other.encode()).into());
            let slots: Vec<usize> =
                forced(&all).await.accepted.iter().map(|one| one.slot).collect();
            assert_eq!(slots, [2], "change {n}: the other one is taken");
        }
        disks[1].poke(at, &Buf::copy_of(&whole.encode()).into());
        let data_end = ByteCount((whole.data_offset + whole.size) * 512);
        let short = MemoryDevice::new("short", data_end - ByteCount(BLOCK));
        let bytes = disks[1].peek(Offset(0), short.geometry().capacity);
        short.poke(Offset(0), &bytes);
        let there = [Rc::clone(&all[0]), short as DeviceRef];
        assert!(forced(&there).await.accepted.is_empty());
    };
    runtime.block_on(test).expect("it ends");
}

#[test]
fn after_a_power_cut_in_the_first_superblocks_the_set_is_forced_again_and_has_its_data() {
    let mut cuts = 0;
    let sets = [
        set_of(Level::Raid5, 3, Policy::Bitmap),
        set_of(Level::Raid4, 3, Policy::Resync),
        set_of(Level::Raid5, 3, Policy::Ppl),
        set_of(Level::Raid6, 5, Policy::Bitmap),
        set_of(Level::Raid10, 4, Policy::Bitmap),
    ];
    for new in sets {
        let (level, slots) = (new.level, new.slots);
        let runtime = runtime();
        let rt = runtime.handle();
        let (images, words) = runtime
            .block_on(async move {
                let (disks, words) = failed(&rt, &new, slots).await;
                let image = |disk: &Rc<MemoryDevice>| disk.peek(Offset(0), super::DISK);
                (disks.iter().map(image).collect::<Vec<_>>(), words)
            })
            .expect("it ends");
        let freshest = *victims(level).last().expect("some");
        for first in [0, freshest] {
            for at in places(1, 4) {
                let (images, words) = (images.clone(), words.clone());
                let runtime = crate::rig::runtime();
                let rt = runtime.handle();
                let cut = async move {
                    let disk = |(n, image): (usize, &rt::SgList)| {
                        let disk = MemoryDevice::new(&format!("disk{n}."), super::DISK);
                        disk.poke(Offset(0), image);
                        disk
                    };
                    let disks: Vec<_> = images.iter().enumerate().map(disk).collect();
                    cut_once(&rt, &disks, &words, first, at).await
                };
                if runtime.block_on(cut).expect("it ends") {
                    break;
                }
                cuts += 1;
            }
        }
    }
    assert!(cuts > by_extent(12, 60), "{cuts} cuts");
}

/// True where all was done before the cut.
async fn cut_once(
    rt: &Rt,
    disks: &[Rc<MemoryDevice>],
    words: &[u64],
    first: usize,
    at: u64,
) -> bool {
    let mut machine = Machine::new(rt, disks);
    machine.cut_at_write(first, at, at);
    let behind = machine.devices();
    if let Ok(set) = open(rt, forced(&behind).await, false).await
        && set.resync(SyncPriority::High).await.is_ok()
    {
        let _ = write(&set.device(), LAST, 3).await;
        let _ = set.stop().await;
    }
    let was_over = !machine.is_off();
    let after = machine.power_on(at).await;
    if let Err(error) = open(rt, choose(&after).await, false).await {
        let known = matches!(
            error,
            LiveError::Assemble(AssembleError::TooFew { .. }) | LiveError::DirtyDegraded { .. }
        );
        assert!(known, "cut {at} of {first}: {error}");
    }
    let choice = forced(&after).await;
    let options = OpenOptions { force: true, ..OpenOptions::default() };
    let array = OpenArray::open(rt, "a", choice.clone(), options).await.expect("opened");
    assert_content(&*array, words, &format!("cut {at} of {first}")).await;
    let set = open(rt, choice, true).await.expect("opened for writing");
    set.resync(SyncPriority::High).await.expect("done");
    assert_content(&*set.device(), words, &format!("cut {at} of {first}, opened")).await;
    read_through(&*set.device()).await;
    set.stop().await.expect("stopped");
    open(rt, choose(&after).await, false).await.expect("without force");
    was_over
}

async fn read_through(array: &dyn Device) {
    let capacity = array.geometry().capacity;
    array.submit(Request::read(Offset(0), capacity)).await.expect("readable");
}
