//! Superblocks with one field changed and a right checksum, on one member or on all of a small set.
//!
//! What could break: a number that sizes a table or an allocation, a sum that overflows, a place that a write then
//! overwrites; a word of one member that is believed about the whole set, so that content is read at the wrong places
//! with success. Each case opens the set for reading and for writing, reads, writes a block and closes. None may panic
//! or take much memory, and where one member was changed nothing wrong may be read.
//!
//! It is a program of its own, for its memory to be measured.

#[path = "array/rig.rs"]
#[allow(dead_code, reason = "the arrays to be tried are those of other tests")]
mod rig;

use md::assemble::{self, Choice, OpenArray, OpenOptions};
use md::create::{NewArray, NewDevice, Policy};
use md::live::{LiveArray, LiveOptions};
use md::superblock::place::Version;
use md::superblock::{SUPERBLOCK_BYTES, Stamp, Uuid};
use md::{Level, SyncPriority};
use rt::{Buf, Device, DeviceRef, MemoryDevice, Request, Rt, SgList};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use stdx::{ByteCount, Offset, Prng};

const DISK: ByteCount = ByteCount::mib(8);
const BLOCK: u64 = 4096;
const PLACE: Offset = Offset(4096);
/// Cases that are tried, of some hundred thousand. (25 000 were tried once, with the faults that this found.)
const CASES: usize = 1000;
/// What the program may have used at the most. One field that is believed takes gigabytes.
const MEMORY_KIB_MAX: u64 = 768 << 10;

/// A field of the superblock: name, place, bytes, and whether it tells of its own device alone. Of that there is no
/// second witness, so what is read by it can't be doubted.
type Field = (&'static str, usize, usize, bool);

const FIELDS: [Field; 37] = [
    ("feature_map", 8, 4, true),
    ("pad0", 12, 4, false),
    ("set_uuid", 16, 8, false),
    ("set_name", 32, 8, false),
    ("ctime", 64, 8, false),
    ("level", 72, 4, false),
    ("layout", 76, 4, false),
    ("size", 80, 8, false),
    ("chunksize", 88, 4, false),
    ("raid_disks", 92, 4, false),
    ("bitmap_offset", 96, 4, false),
    ("ppl_offset", 96, 2, false),
    ("ppl_size", 98, 2, false),
    ("new_level", 100, 4, false),
    ("reshape_position", 104, 8, false),
    ("delta_disks", 112, 4, false),
    ("new_layout", 116, 4, false),
    ("new_chunk", 120, 4, false),
    ("new_offset", 124, 4, false),
    ("data_offset", 128, 8, true),
    ("data_size", 136, 8, true),
    ("super_offset", 144, 8, false),
    ("recovery_offset", 152, 8, false),
    ("dev_number", 160, 4, false),
    ("cnt_corrected_read", 164, 4, false),
    ("device_uuid", 168, 8, false),
    ("devflags", 184, 1, false),
    ("bblog_shift", 185, 1, false),
    ("bblog_size", 186, 2, false),
    ("bblog_offset", 188, 4, false),
    ("utime", 192, 8, false),
    ("events", 200, 8, false),
    ("resync_offset", 208, 8, false),
    ("max_dev", 220, 4, false),
    ("dev_roles[0]", 256, 2, false),
    ("dev_roles[1]", 258, 2, false),
    ("dev_roles[3]", 262, 2, false),
];

/// What a field is made, from what it is.
fn values(own: u64, bits: u32) -> Vec<u64> {
    let mask = u64::MAX >> (64 - bits);
    let mut all = vec![
        0,
        1,
        2,
        3,
        4,
        7,
        8,
        16,
        63,
        64,
        65,
        127,
        128,
        255,
        256,
        257,
        512,
        1023,
        1919,
        1920,
        1921,
        2048,
        4095,
        4096,
        0xff00,
        0xff01,
        0xfffd,
        0xfffe,
        0xffff,
        0x1_0000,
        0x0010_0000,
    ];
    let near = [1, 2, 3, 8, 64].map(|step| [own.wrapping_add(step), own.wrapping_sub(step)]);
    all.extend(near.as_flattened());
    all.extend([own ^ 1, own ^ 2, own ^ 4, own ^ 8, own ^ 64, own.wrapping_mul(2), own / 2]);
    all.extend(
        (8..64).flat_map(|bit| [1 << bit, (1_u64 << bit) - 1, (1_u64 << bit).wrapping_neg()]),
    );
    all.extend([u64::MAX, u64::MAX - 1, i64::MAX as u64, i32::MAX as u64, !own]);
    all.iter_mut().for_each(|value| *value &= mask);
    all.retain(|value| *value != own);
    all.sort_unstable();
    all.dedup();
    all
}

/// A set as it lies on its disks, and its content by block.
struct Model {
    what: &'static str,
    disks: Vec<SgList>,
    blocks: u64,
}

fn word(block: u64) -> u64 {
    (block + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn new(level: Level, slots: usize, policy: Policy) -> NewArray {
    NewArray {
        version: Version::V12,
        level,
        layout: if level == Level::Raid10 { 0x102 } else { 2 },
        chunk: if level == Level::Raid1 { ByteCount::ZERO } else { ByteCount::kib(64) },
        size: None,
        data_offset: None,
        policy,
        bitmap_chunk: None,
        name: "host:set".to_owned(),
        set_uuid: Uuid([7; 16]),
        created: Stamp::from_seconds(1_800_000_000),
        assume_clean: true,
        slots,
    }
}

fn made_of(disks: &[SgList]) -> Vec<Rc<MemoryDevice>> {
    let disk = |(n, bytes): (usize, &SgList)| {
        let disk = MemoryDevice::new(&format!("disk{n}"), DISK);
        disk.poke(Offset(0), bytes);
        disk
    };
    disks.iter().enumerate().map(disk).collect()
}

async fn choose(disks: &[Rc<MemoryDevice>]) -> Result<Choice, String> {
    let mut found = Vec::new();
    for disk in disks {
        let device = Rc::clone(disk) as DeviceRef;
        // What can't be read is passed over, as the commands do.
        found.extend(assemble::find(&device).await.ok().flatten());
    }
    let set = Uuid([7; 16]);
    found.retain(|one| one.superblock.set_uuid() == set);
    Choice::of(set, found).map_err(|error| error.to_string())
}

async fn live(rt: &Rt, disks: &[Rc<MemoryDevice>]) -> Result<LiveArray, String> {
    let options = LiveOptions { unix_s: 1_800_000_100, ..LiveOptions::default() };
    let choice = choose(disks).await?;
    LiveArray::open(rt, "set", choice, options).await.map_err(|error| error.to_string())
}

/// A set of this kind, written all over.
async fn model(rt: &Rt, what: &'static str, new: &NewArray, count: usize) -> Model {
    let given: Vec<Option<NewDevice>> = (0..count)
        .map(|n| Some(NewDevice { capacity: DISK, uuid: Uuid([n as u8 + 1; 16]) }))
        .collect();
    let plan = new.plan(&given).expect("it fits");
    let disks = made_of(&vec![SgList::zeros(0); count]);
    for (disk, pieces) in disks.iter().zip(&plan.pieces) {
        for piece in pieces.iter().flatten() {
            disk.poke(piece.at, &Buf::copy_of(&piece.bytes).into());
        }
    }
    let set = live(rt, &disks).await.expect("opens");
    let blocks = set.device().geometry().capacity.bytes() / BLOCK;
    for block in 0..blocks {
        let data = Buf::fill(word(block), BLOCK as usize);
        set.device().submit(Request::write(Offset(block * BLOCK), data)).await.expect("written");
    }
    set.stop().await.expect("stops");
    let disks = disks.iter().map(|disk| disk.peek(Offset(0), DISK)).collect();
    Model { what, disks, blocks }
}

/// Puts a value into a field, and makes the checksum right again.
fn mutate(disk: &MemoryDevice, at: usize, bytes: usize, value: u64) {
    let mut superblock = disk.peek(PLACE, ByteCount(SUPERBLOCK_BYTES as u64)).to_vec();
    superblock[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
    superblock[216..220].fill(0);
    let count = u32::from_le_bytes(superblock[220..224].try_into().expect("four")) as usize;
    let end = count.saturating_mul(2).saturating_add(256).min(SUPERBLOCK_BYTES);
    let mut sum = 0_u64;
    for part in superblock[..end].chunks(4) {
        let mut four = [0; 4];
        four[..part.len()].copy_from_slice(part);
        sum += u64::from(u32::from_le_bytes(four));
    }
    let sum = (sum as u32).wrapping_add((sum >> 32) as u32);
    superblock[216..220].copy_from_slice(&sum.to_le_bytes());
    disk.poke(PLACE, &Buf::copy_of(&superblock).into());
}

fn value_of(disk: &MemoryDevice, at: usize, bytes: usize) -> u64 {
    let superblock = disk.peek(PLACE, ByteCount(SUPERBLOCK_BYTES as u64)).to_vec();
    let mut eight = [0; 8];
    eight[..bytes].copy_from_slice(&superblock[at..at + bytes]);
    u64::from_le_bytes(eight)
}

/// Reads some blocks; tells of the first that is wrong. One that can't be read is not wrong.
async fn read(device: &dyn Device, blocks: u64, written: Option<u64>) -> Result<(), String> {
    let end = (device.geometry().capacity.bytes() / BLOCK).min(blocks);
    for n in 0..24 {
        let block = if n == 23 { end.saturating_sub(1) } else { end * n / 23 };
        let request = Request::read(Offset(block * BLOCK), ByteCount(BLOCK));
        let Ok(data) = device.submit(request).await else { continue };
        let expected = if written == Some(block) { !word(block) } else { word(block) };
        let bytes = expected.to_le_bytes().repeat(BLOCK as usize / 8);
        if data.to_vec() != bytes {
            return Err(format!("block {block} of {end} is wrong"));
        }
    }
    Ok(())
}

/// Carries out a case; whether the set was opened.
async fn attempt(rt: Rt, disks: Vec<Rc<MemoryDevice>>, blocks: u64) -> Result<bool, String> {
    let mut opened = false;
    if let Ok(choice) = choose(&disks).await {
        let options = OpenOptions::default();
        if let Ok(array) = OpenArray::open(&rt, "set", choice, options).await {
            read(&*array, blocks, None).await.map_err(|text| format!("read only: {text}"))?;
            opened = true;
        }
    }
    let Ok(set) = live(&rt, &disks).await else { return Ok(opened) };
    read(&*set.device(), blocks, None).await.map_err(|text| format!("live: {text}"))?;
    let block = (set.device().geometry().capacity.bytes() / BLOCK).min(blocks) / 23;
    let data = Buf::fill(!word(block), BLOCK as usize);
    let written = set.device().submit(Request::write(Offset(block * BLOCK), data)).await;
    let written = written.is_ok().then_some(block);
    read(&*set.device(), blocks, written).await.map_err(|text| format!("written: {text}"))?;
    // As a server goes on: what is to be made right or filled.
    let mut whole = !set.needs_resync() || set.resync(SyncPriority::High).await.is_ok();
    for slot in set.needs_rebuild() {
        whole &= set.rebuild(slot, SyncPriority::High).await.is_ok();
    }
    let stopped = set.stop().await.is_ok();
    drop(set);
    if let (true, true, Ok(set)) = (whole, stopped, live(&rt, &disks).await) {
        read(&*set.device(), blocks, written).await.map_err(|text| format!("again: {text}"))?;
        let _ = set.stop().await;
    }
    Ok(true)
}

/// The most memory that this program has used.
fn memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    line.and_then(|line| line.split_whitespace().nth(1))
        .and_then(|kib| kib.parse().ok())
        .unwrap_or(0)
}

#[test]
fn no_field_of_a_superblock_makes_a_panic_takes_much_memory_or_gives_wrong_content() {
    let runtime = rig::runtime();
    let rt = runtime.handle();
    let kinds = [
        ("raid1 with a bitmap", new(Level::Raid1, 2, Policy::Bitmap), 2),
        ("raid1 of three with a spare", new(Level::Raid1, 3, Policy::Resync), 4),
        ("raid5", new(Level::Raid5, 3, Policy::Resync), 3),
        ("raid5 with a bitmap and a spare", new(Level::Raid5, 3, Policy::Bitmap), 4),
        ("raid5 with a PPL", new(Level::Raid5, 3, Policy::Ppl), 3),
        ("raid5 with a journal", new(Level::Raid5, 3, Policy::Journal), 4),
        ("raid6", new(Level::Raid6, 4, Policy::Resync), 4),
        ("raid10", new(Level::Raid10, 4, Policy::Bitmap), 4),
        ("raid0", new(Level::Raid0, 3, Policy::Resync), 3),
        ("linear", new(Level::Linear, 2, Policy::Resync), 2),
    ];
    let its_rt = rt.clone();
    let models = runtime.block_on(async move {
        let mut models = Vec::new();
        for (what, new, count) in &kinds {
            models.push(model(&its_rt, what, new, *count).await);
        }
        models
    });
    let models = models.expect("all is done");
    let mut cases = Vec::new();
    for (kind, model) in models.iter().enumerate() {
        let disks = made_of(&model.disks);
        for field in FIELDS {
            for value in values(value_of(&disks[0], field.1, field.2), field.2 as u32 * 8) {
                for odd in (0..disks.len()).map(Some).chain([None]) {
                    cases.push((kind, field, value, odd));
                }
            }
        }
    }
    let mut prng = Prng::new(12);
    let (mut opened, mut faults) = (0, Vec::new());
    for _ in 0..CASES {
        let (kind, (field, at, bytes, own_word), value, odd) =
            cases[prng.below(cases.len() as u64) as usize];
        let model = &models[kind];
        let disks = made_of(&model.disks);
        let changed = |n: &usize| odd.is_none() || odd == Some(*n);
        (0..disks.len()).filter(changed).for_each(|n| mutate(&disks[n], at, bytes, value));
        let case = format!("{}: {field} = {value:#x} on {odd:?}", model.what);
        let runtime = rig::runtime();
        let before = memory_kib();
        let end = catch_unwind(AssertUnwindSafe(|| {
            runtime.block_on(attempt(runtime.handle(), disks, model.blocks))
        }));
        match end {
            Err(_) => faults.push(format!("{case}: a panic")),
            Ok(Err(stalled)) => faults.push(format!("{case}: {stalled}")),
            Ok(Ok(Ok(was_opened))) => opened += usize::from(was_opened),
            // All of them say the same: nobody can know better.
            Ok(Ok(Err(_))) if odd.is_none() || own_word => {}
            Ok(Ok(Err(text))) => faults.push(format!("{case}: {text}")),
        }
        let took = memory_kib();
        if took > MEMORY_KIB_MAX && before <= MEMORY_KIB_MAX {
            faults.push(format!("{case}: {took} KiB of memory"));
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    assert!(opened > CASES / 4 && opened < CASES, "{opened} of {CASES} were opened");
}
