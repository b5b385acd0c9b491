//! Sets that grow: larger members, more mirrors, more members of a set with parity, with the power cut at any write.
//!
//! What could break: data that is overwritten before its new place is recorded, a member read at the wrong offset
//! while superblocks differ, a position that runs ahead of the data, parity that is wrong behind it, a lost member
//! that is believed again, a new part that is taken to be synchronised.

use crate::fixtures;
use crate::rig::runtime;
use md::assemble::{self, AssembleError, Choice, OpenArray, OpenOptions, Superblock};
use md::create::{NewArray, NewDevice, Policy};
use md::grow::{self, GrowError, NewMember, Reshape, SizeWish};
use md::live::{LiveArray, LiveError, LiveOptions};
use md::superblock::place::Version;
use md::superblock::{Stamp, Uuid};
use md::{Level, SyncPriority};
use rt::filter::PowerCut;
use rt::{Buf, Device, DeviceRef, Geometry, IoFuture, MemoryDevice, Request, Rt, SgList};
use sha2::{Digest, Sha256};
use std::rc::Rc;
use stdx::{ByteCount, Offset, Prng};

const DISK: ByteCount = ByteCount::mib(2);
const NOW_S: u64 = 1_800_000_100;

fn new(level: Level, slots: usize) -> NewArray {
    NewArray {
        version: Version::V12,
        level,
        layout: if level == Level::Raid10 { 0x102 } else { 2 },
        chunk: if level == Level::Raid1 { ByteCount::ZERO } else { ByteCount::kib(4) },
        size: None,
        policy: Policy::Resync,
        bitmap_chunk: None,
        name: "host:grow".to_owned(),
        set_uuid: Uuid([7; 16]),
        created: Stamp::from_seconds(1_800_000_000),
        assume_clean: false,
        slots,
    }
}

fn devices(disks: &[Rc<MemoryDevice>]) -> Vec<DeviceRef> {
    disks.iter().map(|disk| Rc::clone(disk) as DeviceRef).collect()
}

async fn choice_of(devices: &[DeviceRef]) -> Result<Choice, AssembleError> {
    let mut found = Vec::new();
    for device in devices {
        found.extend(assemble::find(device).await?);
    }
    Choice::of(Uuid([7; 16]), found)
}

async fn choose(devices: &[DeviceRef]) -> Choice {
    let mut found = Vec::new();
    for device in devices {
        found.extend(assemble::find(device).await.expect("readable"));
    }
    let (set, found) = assemble::sets(found).pop_first().expect("a set");
    Choice::of(set, found).expect("members")
}

async fn live(rt: &Rt, devices: &[DeviceRef]) -> Result<LiveArray, LiveError> {
    let options = LiveOptions { force: false, unix_s: NOW_S };
    LiveArray::open(rt, "live", choice_of(devices).await?, options).await
}

/// A disk of a machine whose power goes for all disks at once.
struct OneMains {
    disks: Vec<Rc<PowerCut>>,
    first: usize,
    number: usize,
}

impl Device for OneMains {
    fn geometry(&self) -> Geometry {
        self.disks[self.number].geometry()
    }
    fn name(&self) -> Rc<str> {
        self.disks[self.number].name()
    }
    fn submit(&self, request: Request) -> IoFuture {
        let disk = &self.disks[self.number];
        if self.disks[self.first].is_cut() && !disk.is_cut() {
            disk.cut(Prng::for_part(self.number as u64, "cut"));
        }
        disk.submit(request)
    }
}

/// Every second one has a write-intent bitmap.
fn new_by_seed(level: Level, slots: usize, seed: u64) -> NewArray {
    let policy = if seed % 2 == 1 { Policy::Bitmap } else { Policy::Resync };
    let bitmap_chunk = (seed % 2 == 1).then(|| ByteCount::kib(64));
    NewArray { policy, bitmap_chunk, ..new(level, slots) }
}

/// Each member has the set's bitmap, none older than the superblock.
async fn verify_bitmaps(devices: &[DeviceRef], seed: u64, what: &str) {
    let choice = choose(devices).await;
    for found in choice.slots.iter().flatten() {
        let bitmap = assemble::bitmap(found).await.expect("readable");
        assert_eq!(bitmap.is_some(), seed % 2 == 1, "{what}");
        let Some((bitmap, _)) = bitmap else { continue };
        assert!(bitmap.events >= found.superblock.events(), "{what}: {}", found.name());
        let sectors = match choice.facts.level() {
            10 => choice.facts.size() * 2,
            _ => choice.facts.size(),
        };
        assert_eq!(bitmap.sync_sectors, sectors, "{what}: {}", found.name());
    }
}

/// A disk full of noise: nothing may rely on zeros.
fn noise(name: &str, size: ByteCount, seed: u64) -> Rc<MemoryDevice> {
    let disk = MemoryDevice::new(name, size);
    let word = Prng::for_part(seed, name).next_u64();
    disk.poke(Offset(0), &Buf::fill(word, size.bytes() as usize).into());
    disk
}

/// A set's content: each block of it tells its number and the seed.
fn content(size: ByteCount, seed: u64) -> Vec<u8> {
    let blocks = size.bytes() / 4096;
    (0..blocks).flat_map(|n| (n * 1_000_003 + seed).to_le_bytes().repeat(512)).collect()
}

/// Disks of a clean set with this content.
async fn made(
    rt: &Rt,
    new: &NewArray,
    size: ByteCount,
    seed: u64,
) -> (Vec<Rc<MemoryDevice>>, Vec<u8>) {
    let given: Vec<Option<NewDevice>> = (0..new.slots)
        .map(|n| Some(NewDevice { capacity: size, uuid: Uuid([n as u8 + 1; 16]) }))
        .collect();
    let plan = new.plan(&given).expect("it fits");
    let mut disks = Vec::new();
    for (number, pieces) in plan.pieces.iter().enumerate() {
        let disk = noise(&format!("disk{number}."), size, seed);
        for piece in pieces.iter().flatten() {
            disk.poke(piece.at, &Buf::copy_of(&piece.bytes).into());
        }
        disks.push(disk);
    }
    let set = live(rt, &devices(&disks)).await.expect("opened");
    set.resync(SyncPriority::High).await.expect("done");
    let content = content(set.device().geometry().capacity, seed);
    for (n, part) in content.chunks(1 << 20).enumerate() {
        let write = Request::write(Offset((n as u64) << 20), Buf::copy_of(part));
        set.device().submit(write).await.expect("written");
    }
    set.stop().await.expect("stopped");
    (disks, content)
}

/// The same bytes on another disk, of this size.
fn copied(disk: &MemoryDevice, size: ByteCount) -> Rc<MemoryDevice> {
    let copy = MemoryDevice::new(&disk.name(), size);
    copy.poke(Offset(0), &disk.peek(Offset(0), disk.geometry().capacity));
    copy
}

async fn read(device: &dyn Device, from: u64, len: u64) -> SgList {
    device.submit(Request::read(Offset(from), ByteCount(len))).await.expect("read")
}

/// Opens the set for reading, and compares what it holds; tells its size.
async fn verify(rt: &Rt, devices: &[DeviceRef], content: &[u8], what: &str) -> ByteCount {
    let array = OpenArray::open(rt, "a", choose(devices).await, OpenOptions::default()).await;
    let array = array.unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = read(&*array, 0, content.len() as u64).await.to_vec();
    if found != content {
        let at = found.iter().zip(content).position(|(found, wanted)| found != wanted);
        panic!("{what}: byte {at:?} is wrong");
    }
    array.geometry().capacity
}

/// Opens the set at rest, and compares parity or copies.
async fn check(rt: &Rt, devices: &[DeviceRef], what: &str) {
    let array = OpenArray::open(rt, "a", choose(devices).await, OpenOptions::default()).await;
    let array = array.expect("opened");
    let mut engines = array.engines();
    let (Some(engine), None) = (engines.next(), engines.next()) else {
        panic!("{what}: two shapes")
    };
    let report = engine.check(engine.whole(), SyncPriority::High).await.expect("checked");
    assert_eq!(report.mismatched_sectors, 0, "{what}: {:?}", report.mismatches.first());
}

fn added(disk: &Rc<MemoryDevice>) -> NewMember {
    NewMember { device: disk.clone(), uuid: Uuid([9; 16]) }
}

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

/// Power cuts of a script, at each write of one disk.
struct Cut {
    rt: Rt,
    /// The disks, with what survived.
    disks: Vec<Rc<MemoryDevice>>,
}

/// Runs a script on copies of disks whose power goes at a write; none where it ended before.
async fn cut_at<F: Future<Output = bool>>(
    rt: &Rt,
    disks: &[Rc<MemoryDevice>],
    (seed, at): (u64, u64),
    script: impl FnOnce(Vec<DeviceRef>) -> F,
) -> Option<Cut> {
    let copies: Vec<_> = disks.iter().map(|disk| copied(disk, disk.geometry().capacity)).collect();
    let cut: Vec<Rc<PowerCut>> =
        devices(&copies).into_iter().map(|disk| PowerCut::new(disk, rt)).collect();
    let mut prng = Prng::for_part(seed * 10_000 + at, "cut");
    // The same at each write, so that it ends where this disk's writes end.
    let first = (seed % disks.len() as u64) as usize;
    cut[first].cut_at_write(at, prng.fork());
    let behind = (0..disks.len())
        .map(|number| Rc::new(OneMains { disks: cut.clone(), first, number }) as DeviceRef);
    let ended = script(behind.collect()).await;
    let was_cut = cut[first].is_cut();
    assert!(ended || was_cut, "it fails for no other reason");
    for disk in &cut {
        if !disk.is_cut() {
            disk.cut(prng.fork());
        }
        disk.power_on().await.expect("whole");
    }
    was_cut.then(|| Cut { rt: rt.clone(), disks: copies })
}

impl Cut {
    /// Finishes the reshape on what is there; the last disk is the one that was added. Where nothing was begun,
    /// or everything was done, there is nothing to finish.
    async fn finish(&self, devices: &[DeviceRef], what: &str) -> bool {
        match Reshape::resume(&self.rt, choose(devices).await, NOW_S).await {
            Ok(resumed) => {
                let done = resumed.run(|_, _| ()).await;
                done.unwrap_or_else(|error| panic!("{what}: {error}"));
                true
            }
            Err(GrowError::NothingToContinue { .. }) => false,
            Err(error) => panic!("{what}: {error}"),
        }
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
    let counts = cut_all(Level::Raid5, 3, 4);
    assert!(counts[0] > 120 && counts[1] > 90 && counts[2] > 90, "{counts:?}");
}

#[test]
fn a_reshape_of_two_survives_a_power_cut_at_any_write() {
    let counts = cut_all(Level::Raid5, 2, 3);
    assert!(counts[0] > 50 && counts[1] > 30 && counts[2] > 30, "{counts:?}");
}

#[test]
fn a_reshape_of_raid_6_survives_a_power_cut_at_any_write() {
    let counts = cut_all(Level::Raid6, 4, 2);
    assert!(counts[0] > 50 && counts[1] > 30 && counts[2] > 30, "{counts:?}");
}

async fn cut_everywhere(rt: Rt, level: Level, slots: usize, seed: u64) -> [u32; 3] {
    let (mut disks, content) = made(&rt, &new_by_seed(level, slots, seed), DISK, seed).await;
    disks.push(noise("added.", DISK, seed));
    let (mut cuts, mut resumed, mut degraded) = (0, 0, 0);
    for at in 1.. {
        let what = format!("{level} of {slots}, seed {seed}, cut {at}");
        let script = async |behind: Vec<DeviceRef>| {
            let add = NewMember { device: behind[slots].clone(), uuid: Uuid([9; 16]) };
            reshape(&rt, &behind[..slots], slots + 1, &[add]).await.is_ok()
        };
        let Some(cut) = cut_at(&rt, &disks, (seed, at), script).await else { break };
        cuts += 1;
        verify(&rt, &devices(&cut.disks), &content, &what).await;
        // The same moment with a member lost.
        let mut rest: Vec<_> = cut.disks.iter().map(|disk| copied(disk, DISK)).collect();
        rest.remove(Prng::for_part(seed * 10_000 + at, "lost").below(slots as u64 + 1) as usize);
        let rest = devices(&rest);
        let what_lost = format!("{what}, one lost");
        verify(&rt, &rest, &content, &what_lost).await;
        if cut.finish(&rest, &what_lost).await {
            degraded += 1;
            verify(&rt, &rest, &content, &what_lost).await;
            let choice = choose(&rest).await;
            assert_eq!((choice.facts.slots(), choice.degraded()), (slots + 1, 1), "{what_lost}");
            assert!(choice.facts.reshape().is_none(), "{what_lost}");
        }
        // And with all of them.
        let all = devices(&cut.disks);
        resumed += u32::from(cut.finish(&all, &what).await);
        let choice = choose(&all).await;
        if choice.facts.slots() == slots {
            // It was not begun: it can be, with the same disk.
            let add =
                if choice.spares.is_empty() { vec![added(&cut.disks[slots])] } else { vec![] };
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
    let mut lost = 0;
    for at in 1..60 {
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
    assert!(lost > 30, "{lost}");
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
            text(reshape(&rt, &all[..2], 4, &[added(&spare)]).await).contains("rebuild it first")
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
    };
    runtime.block_on(test).expect("it ends");
}

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
                for at in 1.. {
                    let what = format!("{level}, seed {seed}, cut {at}");
                    let script = async |behind: Vec<DeviceRef>| {
                        let choice = choose(&behind).await;
                        let grown = grow::size(&rt, choice, SizeWish::Max, NOW_S).await;
                        grown.is_ok() && settled(&rt, &behind).await.is_ok()
                    };
                    let Some(cut) = cut_at(&rt, &disks, (seed, at), script).await else {
                        return at - 1;
                    };
                    let all = devices(&cut.disks);
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
    assert!(cuts > 60, "{cuts} cuts");
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
            for at in 1.. {
                let what = format!("seed {seed}, cut {at}");
                let script = async |behind: Vec<DeviceRef>| grown(&behind).await.is_ok();
                let Some(cut) = cut_at(&rt, &disks, (seed, at), script).await else {
                    return at - 1;
                };
                let all = devices(&cut.disks);
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
    assert!(cuts > 8, "{cuts} cuts");
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
            for at in 1.. {
                let what = format!("seed {seed}, cut {at}");
                let script = async |behind: Vec<DeviceRef>| {
                    let add = NewMember { device: behind[2].clone(), uuid: Uuid([9; 16]) };
                    let choice = choose(&behind[..2]).await;
                    let grown = grow::mirrors(&rt, choice, 3, &[add], NOW_S).await;
                    grown.is_ok() && settled(&rt, &behind).await.is_ok()
                };
                let Some(cut) = cut_at(&rt, &disks, (seed, at), script).await else {
                    return at - 1;
                };
                let all = devices(&cut.disks);
                verify(&rt, &all, &content, &what).await;
                for first in 0..2 {
                    verify(&rt, &all[first..=first], &content, &what).await;
                }
                let choice = choose(&all).await;
                if choice.facts.slots() == 2 {
                    let is_spare = !choice.spares.is_empty();
                    let add = if is_spare { vec![] } else { vec![added(&cut.disks[2])] };
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
    assert!(cuts > 20, "{cuts} cuts");
}

/// The real md was stopped in the midst of this one.
#[test]
fn a_reshape_that_md_left_is_finished_with_all_members_and_with_one_lost() {
    let Some(folder) = fixtures::folder() else { return };
    let name = "raid5-3-reshape-to-4";
    let manifest = fixtures::manifest(&folder, name);
    let images = fixtures::unpack(&folder, name);
    for lost in [None, Some(2), Some(3)] {
        let file = |number: usize| format!("disk{number}.raw");
        let there = (0..4).filter(|number| Some(*number) != lost);
        let disks: Vec<DeviceRef> = there
            .map(|number| fixtures::device(&images.path().join(file(number)), &file(number)))
            .collect();
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
