//! Sets that grow, with the power cut at any write.
//!
//! | file | what grows |
//! |---|---|
//! | `reshape` | the number of members of a set with parity: all data moves |
//! | `bitmap_change` | the write-intent bitmap comes, or goes |
//! | `repeated` | each of these, with the power cut again and again |
//! | `size` | the members, or their number in RAID 1: superblocks change, and the rest is synchronised |
//!
//! What could break: data that is overwritten before its new place is recorded, a member read at the wrong offset
//! while superblocks differ, a position that runs ahead of the data, parity that is wrong behind it, a lost member
//! that is believed again, a new part that is taken to be synchronised.

mod bitmap_change;
mod repeated;
mod reshape;
mod size;

use crate::mains::OneMains;
use md::assemble::{self, AssembleError, Choice, OpenArray, OpenOptions};
use md::create::{NewArray, NewDevice, Policy};
use md::grow::NewMember;
use md::live::{LiveArray, LiveError, LiveOptions};
use md::superblock::place::Version;
use md::superblock::{Stamp, Uuid};
use md::{Level, SyncPriority};
use rt::filter::{Overlap, PowerCut};
use rt::{Buf, Device, DeviceRef, MemoryDevice, Request, Rt, SgList};
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
        data_offset: None,
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
    let options = LiveOptions { unix_s: NOW_S, ..LiveOptions::default() };
    LiveArray::open(rt, "live", choice_of(devices).await?, options).await
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

/// Runs a script on copies of disks whose power goes at a write: what survived; none where it ended before.
async fn cut_at<F: Future<Output = bool>>(
    rt: &Rt,
    disks: &[Rc<MemoryDevice>],
    (seed, at): (u64, u64),
    script: impl FnOnce(Vec<DeviceRef>) -> F,
) -> Option<Vec<Rc<MemoryDevice>>> {
    let copies: Vec<_> = disks.iter().map(|disk| copied(disk, disk.geometry().capacity)).collect();
    let cut: Vec<Rc<PowerCut>> =
        devices(&copies).into_iter().map(|disk| PowerCut::new(disk, rt)).collect();
    let mut prng = Prng::for_part(seed * 10_000 + at, "cut");
    // The same at each write, so that it ends where this disk's writes end.
    let first = (seed % disks.len() as u64) as usize;
    cut[first].cut_at_write(at, prng.fork());
    let behind = (0..disks.len()).map(|number| {
        let disk = OneMains::new(&cut, first, number);
        Overlap::new(Rc::new(disk), rt) as DeviceRef
    });
    let ended = script(behind.collect()).await;
    let was_cut = cut[first].is_cut();
    assert!(ended || was_cut, "it fails for no other reason");
    for disk in &cut {
        if !disk.is_cut() {
            disk.cut(prng.fork());
        }
        disk.power_on().await.expect("whole");
    }
    was_cut.then_some(copies)
}
