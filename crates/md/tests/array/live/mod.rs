//! Sets open for writing: what their superblocks say after each step, and after a power cut at any write.
//!
//! What could break: a flushed byte that is lost, a lost member that is believed when it comes back, a set
//! that is called clean while copies differ, a resync that begins anew or ends too early, a spare that is
//! believed before it is filled.

use crate::mains::OneMains;
use md::Level;
use md::assemble::{self, Choice};
use md::create::{NewArray, NewDevice, Policy};
use md::live::{LiveArray, LiveError, LiveOptions};
use md::superblock::place::Version;
use md::superblock::{Stamp, Uuid};
use rt::filter::{Overlap, PowerCut};
use rt::{Buf, Device, DeviceRef, MemoryDevice, Request, Rt};
use std::rc::Rc;
use stdx::{ByteCount, Offset, Prng};

mod apart;
mod bad_blocks;
mod behind;
mod bitmap;
mod broken;
mod contradiction;
mod cut_short;
mod failed_spare;
mod forced;
mod joined_early;
mod journal;
mod life;
mod power;
mod resync;
mod watch;

const DISK: ByteCount = ByteCount::mib(8);
const BLOCK: u64 = 4096;

fn new(level: Level, slots: usize) -> NewArray {
    NewArray {
        version: Version::V12,
        level,
        layout: if level == Level::Raid10 { 0x102 } else { 2 },
        chunk: if level == Level::Raid1 { ByteCount::ZERO } else { ByteCount::kib(16) },
        size: None,
        data_offset: None,
        policy: Policy::Resync,
        bitmap_chunk: None,
        name: "host:live".to_owned(),
        set_uuid: Uuid([7; 16]),
        created: Stamp::from_seconds(1_800_000_000),
        assume_clean: false,
        slots,
    }
}

/// Disks with the metadata of a new set.
fn disks(new: &NewArray, count: usize, seed: u64) -> Vec<Rc<MemoryDevice>> {
    let given: Vec<Option<NewDevice>> = (0..count)
        .map(|n| Some(NewDevice { capacity: DISK, uuid: Uuid([n as u8 + 1; 16]) }))
        .collect();
    let plan = new.plan(&given).expect("it fits");
    let mut prng = Prng::new(seed);
    let disk = |(number, pieces): (usize, &Option<Vec<md::create::Piece>>)| {
        let disk = MemoryDevice::new(&format!("disk{number}."), DISK);
        // Noise: nothing may rely on zeros.
        disk.poke(Offset(0), &Buf::fill(prng.next_u64(), DISK.bytes() as usize).into());
        for piece in pieces.iter().flatten() {
            disk.poke(piece.at, &Buf::copy_of(&piece.bytes).into());
        }
        disk
    };
    plan.pieces.iter().enumerate().map(disk).collect()
}

fn devices(disks: &[Rc<MemoryDevice>]) -> Vec<DeviceRef> {
    disks.iter().map(|disk| Rc::clone(disk) as DeviceRef).collect()
}

async fn choose(devices: &[DeviceRef]) -> Choice {
    let mut found = Vec::new();
    for device in devices {
        found.extend(assemble::find(device).await.expect("readable"));
    }
    let (set, found) = assemble::sets(found).pop_first().expect("a set");
    Choice::of(set, found).expect("members")
}

async fn live(rt: &Rt, devices: &[DeviceRef], force: bool) -> Result<LiveArray, LiveError> {
    let options = LiveOptions { force, unix_s: 1_800_000_100, ..LiveOptions::default() };
    LiveArray::open(rt, "live", choose(devices).await, options).await
}

async fn write(array: &DeviceRef, block: u64, word: u64) -> Result<(), rt::IoError> {
    let data = Buf::fill(word, BLOCK as usize);
    array.submit(Request::write(Offset(block * BLOCK), data)).await.map(|_| ())
}

async fn read(array: &dyn Device, block: u64) -> Option<u64> {
    let read = Request::read(Offset(block * BLOCK), ByteCount(BLOCK));
    let data = array.submit(read).await.ok()?.into_contiguous();
    let bytes = data.bytes();
    let word = u64::from_le_bytes(bytes[..8].try_into().expect("eight"));
    bytes.chunks(8).all(|other| other == &bytes[..8]).then_some(word)
}

const SHAPES: [(Level, usize); 5] = [
    (Level::Raid1, 3),
    (Level::Raid10, 4),
    (Level::Raid4, 3),
    (Level::Raid5, 4),
    (Level::Raid6, 5),
];

/// Disks with volatile caches that lose their power together.
struct Machine {
    rt: Rt,
    disks: Vec<Rc<PowerCut>>,
    first: usize,
}

impl Machine {
    fn new(rt: &Rt, disks: &[Rc<MemoryDevice>]) -> Machine {
        let disks = devices(disks).into_iter().map(|disk| PowerCut::new(disk, rt)).collect();
        Machine { rt: rt.clone(), disks, first: 0 }
    }

    /// Cuts the power when the `at`-th write of the disk `first` comes.
    fn cut_at_write(&mut self, first: usize, at: u64, seed: u64) {
        self.first = first;
        self.disks[first].cut_at_write(at, Prng::for_part(seed, "first cut"));
    }

    /// Its disks, as it sees them.
    fn devices(&self) -> Vec<DeviceRef> {
        let disk = |number| OneMains::new(&self.disks, self.first, number);
        let watched = |number| Overlap::new(Rc::new(disk(number)), &self.rt) as DeviceRef;
        (0..self.disks.len()).map(watched).collect()
    }

    fn is_off(&self) -> bool {
        self.disks[self.first].is_cut()
    }

    /// Cuts the power of what is still on, and gives the disks with what survived.
    async fn power_on(&self, seed: u64) -> Vec<DeviceRef> {
        for (number, disk) in self.disks.iter().enumerate() {
            if !disk.is_cut() {
                disk.cut(Prng::for_part(seed, &format!("cut of {number}")));
            }
        }
        let mut after = Vec::new();
        for disk in &self.disks {
            after.push(disk.power_on().await.expect("whole"));
        }
        after
    }
}

/// Disks of a new set that was resynchronised and stopped.
async fn resynchronised(rt: &Rt, new: &NewArray, count: usize, seed: u64) -> Vec<Rc<MemoryDevice>> {
    let disks = disks(new, count, seed);
    let set = live(rt, &devices(&disks), false).await.expect("opened");
    set.resync(md::SyncPriority::High).await.expect("done");
    set.stop().await.expect("stopped");
    disks
}
