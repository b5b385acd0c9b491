//! What Linux md writes on members: superblocks, bitmap, bad-block log, the partial parity log, the journal, and sets of
//! members with changes in any of them.
//!
//! Checksums are mended before anything is decoded: what is behind them is what is looked for.

use crate::damage::{CHANGE_BYTES, Change};
use crate::machine::{Input, device, disk, run};
use md::assemble::{self, Choice, Found, OpenArray, OpenOptions};
use md::create::{NewArray, NewDevice, Policy};
use md::superblock::bitmap::{BitmapSuperblock, Bits};
use md::superblock::journal::{self, MetaBlock, Payload};
use md::superblock::place::Version;
use md::superblock::ppl::{Entry, HEADER_BYTES, Header};

use md::superblock::v1::SuperblockV1;
use md::superblock::v090::SuperblockV090;
use md::superblock::{MAGIC, Role, SUPERBLOCK_BYTES, Stamp, Uuid, bad_blocks};
use md::{Level, SyncPriority};
use rt::{Device, DeviceRef, Geometry, IoFuture, MemoryDevice, OpKind, Request};
use std::rc::Rc;
use std::sync::Arc;
use stdx::{ByteCount, Offset};

const DISK: ByteCount = ByteCount::mib(4);
/// Where superblock 0.90 has its checksum.
const V090_CHECKSUM_AT: usize = 152;
/// Where superblock 1.x has its checksum, and the number of its roles.
const V1_CHECKSUM_AT: usize = 216;
const V1_ROLES_NUMBER_AT: usize = 220;
const V1_ROLES_AT: usize = 256;
/// Where the partial parity log's header has its checksum.
const PPL_CHECKSUM_AT: usize = 532;
const JOURNAL_MAGIC: u32 = 0x6433_c509;
const JOURNAL_CHECKSUM_AT: usize = 4;
/// Bytes that are read of an open set, and the longest set that is checked for parity.
const READ_MAX: u64 = 1 << 20;

fn word(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    u32::from_le_bytes(four.unwrap_or_default())
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(place) = bytes.get_mut(at..at + 4) {
        place.copy_from_slice(&value.to_le_bytes());
    }
}

/// The sum of all words, with the carry of 32 bits folded in once: md's own checksum.
fn folded(bytes: &[u8]) -> u32 {
    let mut sum = 0_u64;
    for chunk in bytes.chunks(4) {
        let mut four = [0; 4];
        four[..chunk.len()].copy_from_slice(chunk);
        sum += u64::from(u32::from_le_bytes(four));
    }
    ((sum & 0xffff_ffff) as u32).wrapping_add((sum >> 32) as u32)
}

/// Gives a superblock of either form the checksum that its bytes have.
fn mend_superblock(bytes: &mut [u8]) {
    if word(bytes, 0) != MAGIC {
        return;
    }
    if word(bytes, 4) == 0 {
        put(bytes, V090_CHECKSUM_AT, 0);
        let sum = folded(&bytes[..bytes.len().min(SUPERBLOCK_BYTES)]);
        put(bytes, V090_CHECKSUM_AT, sum);
    } else {
        let roles = word(bytes, V1_ROLES_NUMBER_AT) as usize;
        let end = V1_ROLES_AT.saturating_add(roles.saturating_mul(2)).min(bytes.len());
        put(bytes, V1_CHECKSUM_AT, 0);
        let sum = folded(&bytes[..end]);
        put(bytes, V1_CHECKSUM_AT, sum);
    }
}

/// Superblocks 0.90 and 1.x: what is decoded encodes to the same, and every question about it has an answer.
pub fn superblock(input: &[u8]) {
    let mut bytes = input.to_vec();
    bytes.resize(SUPERBLOCK_BYTES, 0);
    put(&mut bytes, 0, MAGIC);
    mend_superblock(&mut bytes);
    if let Ok(superblock) = SuperblockV1::decode(&bytes) {
        let again = superblock.encode();
        assert_eq!(SuperblockV1::decode(&again).as_ref(), Ok(&superblock));
        let _ = (superblock.version(), superblock.role(), superblock.name(), superblock.ppl());
        let _ = (superblock.bitmap_offset(), superblock.new_data_offset(), superblock.is_clean());
        assert_eq!(superblock.checksum(), word(&again, V1_CHECKSUM_AT));
    }
    if let Ok(superblock) = SuperblockV090::decode(&bytes) {
        let _ = superblock.resync_offset();
        for number in [0, 1, 26, 27, u32::MAX] {
            let _ = superblock.role_of(number);
        }
    }
}

/// The bitmap's superblock and its bits: as many as the superblock says, or an error; memory is what was given.
pub fn bitmap(input: &[u8]) {
    let Ok(superblock) = BitmapSuperblock::decode(input) else { return };
    let again = superblock.encode();
    assert_eq!(BitmapSuperblock::decode(&again).as_ref(), Ok(&superblock));
    let behind = input.get(md::superblock::bitmap::SUPERBLOCK_BYTES..).unwrap_or_default();
    if let Ok(mut bits) = Bits::decode(&superblock, behind) {
        assert_eq!(bits.count(), superblock.bits());
        assert!(bits.bytes().len() <= behind.len());
        let set: Vec<u64> = bits.set_bits().collect();
        assert_eq!(set.len() as u64, bits.dirty());
        assert!(set.iter().all(|bit| bits.get(*bit) && *bit < bits.count()));
        for bit in set {
            bits.set(bit, false);
        }
        assert_eq!(bits.dirty(), 0);
    }
}

/// The bad-block log.
pub fn bad_block_log(input: &[u8]) {
    let mut input = Input::new(input);
    let shift = input.byte();
    let Ok(list) = bad_blocks::decode(input.rest(), shift) else { return };
    for block in &list {
        assert!(block.sector.checked_add(block.sectors).is_some(), "{block:?} ends");
    }
    if shift == 0
        && let Ok(bytes) = bad_blocks::encode(&list, bad_blocks::SECTORS_MAX)
    {
        assert_eq!(bad_blocks::decode(&bytes, 0), Ok(list));
    }
}

fn mend_ppl(bytes: &mut [u8]) {
    put(bytes, PPL_CHECKSUM_AT, 0);
    let blank =
        Entry { data_sector: 0, parity_bytes: 0, data_bytes: 0, parity_slot: 0, checksum: 0 };
    let sum = blank.with_checksum_of(bytes).checksum;
    put(bytes, PPL_CHECKSUM_AT, sum);
}

/// The header of the partial parity log.
pub fn ppl(input: &[u8]) {
    let mut bytes = input.to_vec();
    bytes.resize(HEADER_BYTES, 0);
    mend_ppl(&mut bytes);
    if let Ok(header) = Header::decode(&bytes) {
        let again = header.encode().expect("what was decoded fits");
        assert_eq!(Header::decode(&again).as_ref(), Ok(&header));
        for entry in &header.entries {
            let _ = entry.fits(&bytes);
        }
    }
}

fn mend_meta_block(bytes: &mut [u8], seed: u32) {
    put(bytes, JOURNAL_CHECKSUM_AT, 0);
    let sum = journal::checksum(seed, bytes);
    put(bytes, JOURNAL_CHECKSUM_AT, sum);
}

/// A meta block of the journal.
pub fn meta_block(input: &[u8]) {
    let mut bytes = input.to_vec();
    bytes.resize(journal::BLOCK_BYTES, 0);
    put(&mut bytes, 0, JOURNAL_MAGIC);
    mend_meta_block(&mut bytes, 0);
    if let Ok(block) = MetaBlock::decode(&bytes, 0) {
        assert!(block.has_room(0) && block.blocks() <= journal::BLOCK_BYTES as u64);
        assert_eq!(MetaBlock::decode(&block.encode(0), 0).as_ref(), Ok(&block));
    }
}

/// What a set is made as: one kind for each engine and each structure beside the superblock.
const KINDS: [(Level, u32, Policy, Version); 7] = [
    (Level::Raid1, 0, Policy::Bitmap, Version::V12),
    (Level::Raid5, 2, Policy::Ppl, Version::V12),
    (Level::Raid6, 2, Policy::Bitmap, Version::V11),
    (Level::Raid10, 0x102, Policy::Bitmap, Version::V10),
    (Level::Raid0, 0, Policy::Resync, Version::V12),
    (Level::Raid5, 2, Policy::Resync, Version::V12),
    (Level::Raid5, 2, Policy::Journal, Version::V12),
];

/// A new set of three or four members, each with what `create` writes and a little data.
fn set(kind: usize) -> Vec<Rc<MemoryDevice>> {
    let (level, layout, policy, version) = KINDS[kind % KINDS.len()];
    let slots = if level == Level::Raid6 { 4 } else { 3 };
    let new = NewArray {
        version,
        level,
        layout,
        chunk: ByteCount::kib(64),
        data_offset: None,
        policy,
        name: "host:fuzz".to_owned(),
        set_uuid: Uuid([3; 16]),
        created: Stamp::from_seconds(1_800_000_000),
        assume_clean: true,
        slots,
        bitmap_chunk: None,
        size: None,
    };
    let device = |n| Some(NewDevice { capacity: DISK, uuid: Uuid([n as u8 + 1; 16]) });
    // The last device is the journal.
    let devices = slots + usize::from(policy == Policy::Journal);
    let plan = new.plan(&(0..devices).map(device).collect::<Vec<_>>()).expect("it fits");
    let pieces = plan.pieces.into_iter().enumerate();
    let disks = pieces.map(|(n, pieces)| {
        let pieces = pieces.expect("each slot has a device");
        let parts: Vec<(u64, &[u8])> =
            pieces.iter().map(|piece| (piece.at.bytes(), piece.bytes.as_slice())).collect();
        disk(&format!("sd{n}"), DISK, &parts)
    });
    disks.collect()
}

/// Where something with a meaning may lie, from a superblock's own place: itself, its bitmap, its logs.
async fn spoil(disk: &Rc<MemoryDevice>, at: Offset, place: u8, change: Change) {
    let superblock = disk.peek(at, ByteCount(SUPERBLOCK_BYTES as u64)).to_vec();
    let superblock = SuperblockV1::decode(&superblock).ok();
    let log = superblock.filter(|superblock| superblock.role() == Some(Role::Journal));
    let from = match place % 4 {
        0 | 1 => at.bytes(),
        // The first block of the journal.
        2 if log.is_some() => log.as_ref().map_or(0, |log| log.data_offset * 512),
        // The places that `create` gives to bitmap, bad-block log and partial parity log.
        2 => at.bytes().saturating_add(4096),
        _ => at.bytes().saturating_add(32 << 10),
    };
    let from = Offset(from.min(DISK.bytes() - SUPERBLOCK_BYTES as u64));
    let mut bytes = disk.peek(from, ByteCount(SUPERBLOCK_BYTES as u64)).to_vec();
    change.apply(&mut bytes);
    if from == at {
        mend_superblock(&mut bytes);
    } else if let Some(log) = log {
        mend_meta_block(&mut bytes, journal::seed(log.set_uuid));
    } else {
        mend_ppl_where_one_is(&mut bytes);
    }
    disk.poke(from, &rt::Buf::copy_of(&bytes).into());
}

/// Leaves other structures as they are.
fn mend_ppl_where_one_is(bytes: &mut [u8]) {
    const RESERVED: usize = 512;
    if bytes.get(..RESERVED).is_some_and(|front| front.iter().all(|byte| *byte == 0xff)) {
        mend_ppl(bytes);
    }
}

/// Reads the front and the end, and checks parity or copies where there is little.
async fn read_all(array: &Rc<OpenArray>) {
    let capacity = array.geometry().capacity.bytes();
    let block = array.geometry().logical_block.bytes();
    let len = READ_MAX.min(capacity) / block * block;
    for at in [0, (capacity - len) / block * block] {
        let _ = array.submit(Request::read(Offset(at), ByteCount(len))).await;
    }
    for engine in array.engines() {
        if engine.geometry().capacity.bytes() <= 16 * READ_MAX {
            let _ = engine.check(engine.whole(), SyncPriority::High).await;
        }
    }
}

/// A member on which nothing may be written.
struct ReadOnly(DeviceRef);

impl Device for ReadOnly {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn name(&self) -> Arc<str> {
        self.0.name()
    }

    fn begin(&self, request: Request) -> IoFuture {
        assert_eq!(request.kind(), OpKind::Read, "{}: nothing is written", self.0.name());
        self.0.submit(request)
    }
}

/// Whole sets whose members were changed, and whose checksums fit again: they open or are refused, reads end, and
/// nothing is written.
///
/// Input: the kind of set, then changes: member, place, change.
pub fn whole_set(input: &[u8]) {
    let input = input.to_vec();
    run(async move |rt| {
        let mut input = Input::new(&input);
        let kind = input.byte();
        let force = kind & 0x80 != 0;
        let disks = set(usize::from(kind & 0x7f));
        let version = KINDS[usize::from(kind & 0x7f) % KINDS.len()].3;
        let at = version.place(DISK).expect("there is room");
        for _ in 0..CHANGES_MAX {
            if input.is_empty() {
                break;
            }
            let (member, place) = (usize::from(input.byte()), input.byte());
            let change = Change::of(&mut input);
            if member >= 0xc0 {
                // The same on all of them: otherwise the freshest alone counts.
                for disk in &disks {
                    spoil(disk, at, place, change).await;
                }
            } else {
                spoil(&disks[member % disks.len()], at, place, change).await;
            }
        }
        let devices: Vec<DeviceRef> =
            disks.iter().map(|disk| Rc::new(ReadOnly(device(disk))) as DeviceRef).collect();
        let mut found: Vec<Found> = Vec::new();
        for device in &devices {
            if let Ok(Some(one)) = assemble::find(device).await {
                let _ = assemble::bitmap(&one).await;
                let _ = assemble::bad_blocks(&one).await;
                found.push(one);
            }
        }
        for (uuid, found) in assemble::sets(found) {
            let Ok(choice) = Choice::of(uuid, found) else { continue };
            let _ = choice.degraded();
            let options = OpenOptions { force, raid0_original: force.then_some(false) };
            if let Ok(array) = OpenArray::open(&rt, "fuzz", choice, options).await {
                read_all(&array).await;
            }
        }
    });
}

fn content(disk: &Rc<MemoryDevice>) -> Vec<u8> {
    disk.peek(Offset::ZERO, DISK).to_vec()
}

/// Changes of one input.
const CHANGES_MAX: usize = 24;

/// Seeds of [`superblock`].
pub fn superblock_seeds() -> Vec<Vec<u8>> {
    let of = |kind: usize| {
        let at = KINDS[kind].3.place(DISK).expect("there is room");
        set(kind)[0].peek(at, ByteCount(512)).to_vec()
    };
    (0..KINDS.len()).map(of).collect()
}

/// Seeds of [`bitmap`].
pub fn bitmap_seeds() -> Vec<Vec<u8>> {
    let disks = set(0);
    let at = KINDS[0].3.place(DISK).expect("there is room").bytes();
    let whole = content(&disks[0]);
    let found = (at as usize..whole.len() - 4).find(|at| whole[*at..].starts_with(b"bitm"));
    found.map(|at| whole[at..at + 1024].to_vec()).into_iter().collect()
}

/// Seeds of [`bad_block_log`].
pub fn bad_block_seeds() -> Vec<Vec<u8>> {
    let list =
        [(8, 8), (4096, 512)].map(|(sector, sectors)| bad_blocks::BadBlock { sector, sectors });
    let bytes = bad_blocks::encode(&list, 1).expect("it fits");
    vec![[&[0], &bytes[..]].concat(), vec![0xff; 513]]
}

/// Seeds of [`ppl`].
pub fn ppl_seeds() -> Vec<Vec<u8>> {
    let entry = Entry {
        data_sector: 128,
        parity_bytes: 4096,
        data_bytes: 8192,
        parity_slot: 2,
        checksum: 7,
    };
    let header = Header { signature: 5, generation: 9, entries: vec![entry; 3] };
    vec![header.encode().expect("three fit")[..640].to_vec()]
}

/// Seeds of [`meta_block`].
pub fn meta_block_seeds() -> Vec<Vec<u8>> {
    let payloads = vec![
        Payload::Data { sector: 128, checksum: 5 },
        Payload::Parity { sector: 64, p: 6, q: None },
        Payload::Parity { sector: 72, p: 7, q: Some(8) },
        Payload::Flush { sectors: vec![64, 72] },
    ];
    let block = MetaBlock { sequence: 9, position: 24, payloads };
    vec![block.encode(0)[..256].to_vec()]
}

/// Seeds of [`whole_set`].
pub fn set_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for kind in 0..KINDS.len() as u8 {
        seeds.push(vec![kind]);
        // The number of slots, the size, the layout, the chunk, the offset of the data, the features; on all members.
        for at in [8_u16, 72, 76, 80, 84, 88, 92, 96, 128, 136, 144, 152, 156, 160, 200, 208, 220] {
            for edge in [0, 1, 4, 9] {
                let mut seed = vec![kind, 0xff, 0];
                seed.extend(Change::bytes(if at % 8 == 0 { 3 } else { 7 }, at, edge));
                seeds.push(seed);
            }
        }
    }
    debug_assert!(seeds.iter().all(|seed| seed.len() <= 3 + CHANGE_BYTES));
    seeds
}
