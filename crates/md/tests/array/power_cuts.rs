//! Power cuts: scripts of work on a live set, the power cut at a write, and what must be true afterwards.
//!
//! **A run** is a case (level, layout, consistency policy), a seed and a number N. The seed makes a script:
//! writes of a sector to several rows, some at once, flushes, quiet times, the loss of a member and its rebuild
//! on a spare. When the N-th write reaches one disk the power goes for all disks. Of what was not flushed each
//! write survives whole, in parts or not at all, as the seed says. Where a log closes the write hole a disk may
//! be lost at the same moment. N = 1, 2, … until the script ends before the cut.
//!
//! **Afterwards**, read only as well as opened for writing:
//!
//! 1. each sector holds what was flushed last, or something written since;
//! 2. where members are missing and nothing closes the write hole, rows that were being written are excused;
//!    with a partial parity log only what was being written on the missing member itself is, as md has it; with
//!    a journal nothing is;
//! 3. when the resync that the set asks for is done, or where it asks for none, a check finds no difference.
//!
//! `cargo test --test array power_cuts` makes some of them, the long form all of many seeds:
//! `cargo test --test array power_cuts -- --ignored --nocapture`. A new kind of work is a new [`Step`], a new
//! kind of set a new line of [`CASES`]. [`repeated`] cuts again and again.

mod repeated;

use crate::mains::OneMains;
use crate::rig::runtime;
use ::fixtures::extent::by_extent;
use md::assemble::{self, Choice, OpenArray, OpenOptions};
use md::create::{NewArray, NewDevice, Piece, Policy};
use md::live::{LiveArray, LiveOptions, QUIET};
use md::superblock::place::Version;
use md::superblock::v1::SuperblockV1;
use md::superblock::{Role, Stamp, Uuid};
use md::{Level, SyncPriority};
use rt::filter::{Overlap, PowerCut};
use rt::{Buf, Device, DeviceRef, MemoryDevice, Request, Rt, SgList};
use std::rc::Rc;
use stdx::{ByteCount, Offset, Prng};

const DISK: ByteCount = ByteCount::mib(8);
const SECTOR: u64 = 512;
const CHUNK: ByteCount = ByteCount::kib(16);
const CHUNK_SECTORS: u64 = CHUNK.bytes() / SECTOR;
/// Sectors at the start of the array that scripts write to: some rows.
const REGION: u64 = 400;
const STEPS: usize = 24;

/// A kind of set.
#[derive(Clone, Copy, Debug)]
struct Case {
    level: Level,
    layout: u32,
    slots: usize,
    policy: Policy,
    /// Sectors of each member's partial parity log, or of the journal, where not as many as `create` gives it.
    log_sectors: Option<u16>,
}

const fn case(level: Level, layout: u32, slots: usize, policy: Policy) -> Case {
    Case { level, layout, slots, policy, log_sectors: None }
}

/// With a log of a header and two pages: one record, so that rows go in several rounds.
const SMALL_LOG: Case = Case { log_sectors: Some(24), ..case(Level::Raid5, 2, 5, Policy::Ppl) };

const CASES: [Case; 25] = [
    case(Level::Raid1, 0, 3, Policy::Resync),
    case(Level::Raid10, 0x102, 4, Policy::Resync),
    case(Level::Raid10, 0x201, 4, Policy::Resync),
    case(Level::Raid10, 0x10201, 5, Policy::Resync),
    case(Level::Raid4, 0, 4, Policy::Resync),
    case(Level::Raid5, 2, 4, Policy::Resync),
    case(Level::Raid5, 1, 3, Policy::Resync),
    case(Level::Raid6, 2, 5, Policy::Resync),
    case(Level::Raid6, 10, 5, Policy::Resync),
    case(Level::Raid1, 0, 2, Policy::Bitmap),
    case(Level::Raid10, 0x102, 4, Policy::Bitmap),
    case(Level::Raid5, 2, 4, Policy::Bitmap),
    case(Level::Raid5, 2, 4, Policy::Ppl),
    case(Level::Raid5, 2, 6, Policy::Ppl),
    case(Level::Raid5, 0, 5, Policy::Ppl),
    case(Level::Raid5, 1, 4, Policy::Ppl),
    case(Level::Raid5, 3, 3, Policy::Ppl),
    SMALL_LOG,
    case(Level::Raid4, 0, 4, Policy::Journal),
    case(Level::Raid5, 2, 4, Policy::Journal),
    case(Level::Raid5, 1, 3, Policy::Journal),
    case(Level::Raid6, 2, 5, Policy::Journal),
    case(Level::Raid6, 10, 6, Policy::Journal),
    SMALL_JOURNAL,
    SMALL_JOURNAL_6,
];

/// With a ring that goes round: rows of 3 data members and parity take a quarter of it.
const SMALL_JOURNAL: Case =
    Case { log_sectors: Some(640), ..case(Level::Raid5, 2, 4, Policy::Journal) };
const SMALL_JOURNAL_6: Case =
    Case { log_sectors: Some(768), ..case(Level::Raid6, 2, 5, Policy::Journal) };

impl Case {
    fn is_logged(&self) -> bool {
        matches!(self.policy, Policy::Ppl | Policy::Journal)
    }

    fn has_journal(&self) -> bool {
        self.policy == Policy::Journal
    }

    fn data_members(&self) -> u64 {
        (self.slots - self.level.parities()) as u64
    }

    /// The slot of a sector in RAID 5 of the layouts 0 to 3.
    fn slot_of(&self, sector: u64) -> usize {
        let (chunk, slots) = (sector / CHUNK_SECTORS, self.slots as u64);
        let (row, index) = (chunk / self.data_members(), chunk % self.data_members());
        let turn = row % slots;
        let parity = if self.layout.is_multiple_of(2) { slots - 1 - turn } else { turn };
        let slot = if self.layout >= 2 {
            (parity + 1 + index) % slots
        } else {
            index + u64::from(index >= parity)
        };
        slot as usize
    }

    fn row_of(&self, sector: u64) -> u64 {
        sector / (CHUNK_SECTORS * self.data_members())
    }

    fn new_array(&self) -> NewArray {
        NewArray {
            version: Version::V12,
            level: self.level,
            layout: self.layout,
            chunk: if self.level == Level::Raid1 { ByteCount::ZERO } else { CHUNK },
            data_offset: None,
            policy: self.policy,
            name: "host:cut".to_owned(),
            set_uuid: Uuid([9; 16]),
            created: Stamp::from_seconds(1_800_000_000),
            assume_clean: false,
            slots: self.slots,
            bitmap_chunk: None,
            size: None,
        }
    }

    /// Disks of a new set of this kind, a spare behind them, and behind that the journal.
    fn new_disks(&self) -> Vec<Rc<MemoryDevice>> {
        let count = self.slots + 1 + usize::from(self.has_journal());
        let given: Vec<Option<NewDevice>> = (0..count)
            .map(|n| Some(NewDevice { capacity: DISK, uuid: Uuid([n as u8 + 1; 16]) }))
            .collect();
        let plan = self.new_array().plan(&given).expect("it fits");
        let disk = |(n, pieces): (usize, &Option<Vec<Piece>>)| {
            let disk = MemoryDevice::new(&format!("disk{n}."), DISK);
            // Noise: nothing may rely on zeros.
            let noise = Prng::new(n as u64).next_u64();
            disk.poke(Offset(0), &Buf::fill(noise, DISK.bytes() as usize).into());
            for piece in pieces.iter().flatten() {
                let mut bytes = piece.bytes.clone();
                if let (Some(sectors), Ok(mut superblock)) =
                    (self.log_sectors, SuperblockV1::decode(&bytes))
                {
                    match superblock.role() {
                        Some(Role::Journal) => superblock.data_size = u64::from(sectors),
                        _ if self.has_journal() => {}
                        _ => superblock.bitmap_or_ppl = SuperblockV1::ppl_field(8, sectors),
                    }
                    bytes = superblock.encode();
                }
                disk.poke(piece.at, &Buf::copy_of(&bytes).into());
            }
            disk
        };
        plan.pieces.iter().enumerate().map(disk).collect()
    }

    /// The same, resynchronised.
    fn disks(&self) -> Vec<SgList> {
        let runtime = runtime();
        let rt = runtime.handle();
        let this = *self;
        let made = async move {
            let disks = this.new_disks();
            let devices: Vec<DeviceRef> = disks.iter().map(|disk| Rc::clone(disk) as _).collect();
            let set = open(&rt, &devices, false).await;
            set.resync(SyncPriority::High).await.expect("done");
            set.stop().await.expect("stopped");
            disks.iter().map(|disk| disk.peek(Offset(0), DISK)).collect()
        };
        runtime.block_on(made).expect("it ends")
    }
}

async fn choose(devices: &[DeviceRef]) -> Choice {
    let mut found = Vec::new();
    for device in devices {
        found.extend(assemble::find(device).await.expect("readable"));
    }
    let (set, found) = assemble::sets(found).pop_first().expect("a set");
    Choice::of(set, found).expect("members")
}

async fn open(rt: &Rt, devices: &[DeviceRef], force: bool) -> LiveArray {
    let options = LiveOptions { force, unix_s: 1_800_000_100, ..LiveOptions::default() };
    LiveArray::open(rt, "live", choose(devices).await, options).await.expect("opened")
}

/// One thing that a script does.
#[derive(Clone, Debug)]
enum Step {
    /// Writes at once, of stretches that do not overlap: sector and length.
    Write(Vec<(u64, u64)>),
    Flush,
    Quiet,
    Fail(usize),
    Rebuild(usize),
}

/// What a seed makes of a case.
fn script(case: &Case, seed: u64) -> Vec<Step> {
    let mut prng = Prng::for_part(seed, "script");
    let victim = prng.below(case.slots as u64) as usize;
    let loses = prng.chance(0.5);
    let mut steps = Vec::new();
    for step in 0..STEPS {
        let mut stretches: Vec<(u64, u64)> = Vec::new();
        for _ in 0..1 + prng.below(4) {
            let row = CHUNK_SECTORS * case.data_members();
            let (start, len) = match prng.below(8) {
                0 => (prng.below(REGION / row) * row, row),
                1 => (prng.below(REGION), 1 + prng.below(12)),
                2 => (prng.below(REGION), 1 + prng.below(2 * CHUNK_SECTORS)),
                _ => (prng.below(REGION / 8) * 8, 8 * (1 + prng.below(3))),
            };
            let end = (start + len).min(REGION);
            if stretches.iter().all(|(at, len)| end <= *at || *at + len <= start) {
                stretches.push((start, end - start));
            }
        }
        steps.push(Step::Write(stretches));
        if prng.chance(0.3) {
            steps.push(Step::Flush);
        }
        if prng.chance(0.08) {
            steps.push(Step::Quiet);
        }
        if loses && step == STEPS / 3 {
            steps.push(Step::Fail(victim));
        }
        if loses && step == 2 * STEPS / 3 && prng.chance(0.6) {
            steps.push(Step::Rebuild(victim));
        }
    }
    steps
}

/// What may stand in a sector.
#[derive(Clone, Default)]
struct Expected {
    flushed: u64,
    since: Vec<u64>,
}

struct Run {
    case: Case,
    seed: u64,
    at: u64,
}

impl Run {
    /// True where the script ended before the cut.
    fn go(self, images: &[SgList]) -> bool {
        let runtime = runtime();
        let rt = runtime.handle();
        let disks: Vec<DeviceRef> = images
            .iter()
            .enumerate()
            .map(|(n, image)| {
                let disk = MemoryDevice::new(&format!("disk{n}."), DISK);
                disk.poke(Offset(0), image);
                disk as DeviceRef
            })
            .collect();
        runtime.block_on(async move { self.cut_and_look(&rt, disks).await }).expect("it ends")
    }

    async fn cut_and_look(&self, rt: &Rt, disks: Vec<DeviceRef>) -> bool {
        let array = OpenArray::open(rt, "a", choose(&disks).await, OpenOptions::default());
        let before = read_region(&*array.await.expect("opened")).await;
        let sector = |word: &Option<u64>| Expected {
            flushed: word.expect("a sector of one word"),
            since: Vec::new(),
        };
        let mut expected: Vec<Expected> = before.iter().map(sector).collect();

        let mut prng = Prng::for_part(self.seed, "cut");
        let cut: Vec<Rc<PowerCut>> =
            disks.into_iter().map(|disk| PowerCut::new(disk, rt)).collect();
        // A journal is written more often than each member.
        let journal = self.case.has_journal() && prng.chance(0.6);
        let member = prng.below(self.case.slots as u64) as usize;
        let first = if journal { self.case.slots + 1 } else { member };
        cut[first].cut_at_write(self.at, Prng::for_part(self.seed ^ self.at << 20, "first cut"));
        let behind: Vec<DeviceRef> = (0..cut.len())
            .map(|number| {
                let disk = OneMains::new(&cut, first, number);
                Overlap::new(Rc::new(disk), rt) as DeviceRef
            })
            .collect();
        let ended = self.work(rt, &behind, &cut[first], &mut expected).await;
        for (number, disk) in cut.iter().enumerate() {
            if !disk.is_cut() {
                disk.cut(Prng::for_part(self.seed ^ self.at << 20, &format!("cut of {number}")));
            }
        }
        let mut after = Vec::new();
        for disk in &cut {
            after.push(disk.power_on().await.expect("whole"));
        }
        if self.case.is_logged() && choose(&after).await.degraded() == 0 && prng.chance(0.75) {
            after.remove(prng.below(self.case.slots as u64) as usize);
            if self.case.level.parities() == 2 && prng.chance(0.5) {
                after.remove(prng.below(self.case.slots as u64 - 1) as usize);
            }
        }
        self.look(rt, &after, &expected).await;
        ended
    }

    /// Runs the script. True where it ended with the power on.
    async fn work(
        &self,
        rt: &Rt,
        devices: &[DeviceRef],
        first: &Rc<PowerCut>,
        expected: &mut [Expected],
    ) -> bool {
        let set = open(rt, devices, false).await;
        let device = set.device();
        let mut word = 0;
        for step in script(&self.case, self.seed) {
            let went_well = match step {
                Step::Write(stretches) => {
                    let mut writes = Vec::new();
                    for (at, len) in stretches {
                        word += 1;
                        let sectors = at as usize..(at + len) as usize;
                        expected[sectors].iter_mut().for_each(|sector| sector.since.push(word));
                        let data = Buf::fill(word, (len * SECTOR) as usize);
                        writes.push(device.submit(Request::write(Offset(at * SECTOR), data)));
                    }
                    let mut all = true;
                    for write in writes {
                        all &= write.await.is_ok();
                    }
                    all
                }
                Step::Flush => {
                    let flushed = device.submit(Request::flush()).await.is_ok();
                    if flushed && !first.is_cut() {
                        for sector in expected.iter_mut() {
                            sector.flushed = sector.since.last().copied().unwrap_or(sector.flushed);
                            sector.since.clear();
                        }
                    }
                    flushed
                }
                Step::Quiet => {
                    rt.sleep(QUIET * 3).await;
                    true
                }
                Step::Fail(slot) => set.fail(slot).await.is_ok(),
                Step::Rebuild(slot) => set.rebuild(slot, SyncPriority::High).await.is_ok(),
            };
            if !went_well || first.is_cut() {
                return false;
            }
        }
        true
    }

    /// Looks at what the cut left.
    async fn look(&self, rt: &Rt, after: &[DeviceRef], expected: &[Expected]) {
        let force = !self.case.is_logged();
        let choice = choose(after).await;
        let gone: Vec<usize> = (0..self.case.slots)
            .filter(|slot| {
                let member = choice.member(*slot);
                member.is_none_or(|found| found.superblock.recovery_offset().is_some())
            })
            .collect();
        let options = OpenOptions { force, ..OpenOptions::default() };
        let array = OpenArray::open(rt, "a", choice, options).await.expect("opened");
        self.verify(&read_region(&*array).await, expected, &gone, "read only");

        let set = open(rt, after, force).await;
        self.verify(&read_region(&*set.device()).await, expected, &gone, "opened");
        if !gone.is_empty() {
            set.stop().await.expect("stopped");
            let array = OpenArray::open(rt, "a", choose(after).await, options);
            let content = read_region(&*array.await.expect("opened")).await;
            self.verify(&content, expected, &gone, "opened again");
            return;
        }
        if set.needs_resync() {
            set.resync(SyncPriority::High).await.expect("done");
        }
        let report = set.array().check(set.array().whole(), SyncPriority::High).await;
        assert_eq!(report.expect("checked").mismatched_sectors, 0, "{self}: check");
        self.verify(&read_region(&*set.device()).await, expected, &gone, "synchronised");
    }

    fn verify(&self, found: &[Option<u64>], expected: &[Expected], gone: &[usize], when: &str) {
        let parity = self.case.level.parities() > 0;
        let row = |sector: usize| self.case.row_of(sector as u64);
        let open_rows: Vec<u64> =
            (0..expected.len()).filter(|at| !expected[*at].since.is_empty()).map(row).collect();
        for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
            let excused = match self.case.is_logged() {
                true if self.case.has_journal() => false,
                true => !expected.since.is_empty() && gone.contains(&self.case.slot_of(at as u64)),
                false => parity && !gone.is_empty() && open_rows.contains(&row(at)),
            };
            let good = |word| word == expected.flushed || expected.since.contains(&word);
            let flushed = expected.flushed;
            assert!(
                excused || found.is_some_and(good),
                "{self}: {when}, missing {gone:?}, sector {at}: {found:?}, not {flushed} or {:?}",
                expected.since
            );
        }
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} seed {} cut {}", self.case, self.seed, self.at)
    }
}

/// The word of each sector of the region; none where a sector is not one word.
async fn read_region(array: &dyn Device) -> Vec<Option<u64>> {
    let read = Request::read(Offset(0), ByteCount(REGION * SECTOR));
    let data = array.submit(read).await.expect("readable").to_vec();
    let word = |sector: &[u8]| {
        let word = u64::from_le_bytes(sector[..8].try_into().expect("eight"));
        sector.chunks(8).all(|other| other == &sector[..8]).then_some(word)
    };
    data.chunks(SECTOR as usize).map(word).collect()
}

/// Cuts at every `stride`-th write of the scripts of some seeds. Tells how many cuts there were.
fn campaign(seeds: std::ops::Range<u64>, stride: usize) -> usize {
    let mut cuts = 0;
    for case in CASES {
        let images = case.disks();
        for seed in seeds.clone() {
            for at in (1 + seed % stride as u64..).step_by(stride) {
                if (Run { case, seed, at }).go(&images) {
                    break;
                }
                cuts += 1;
            }
        }
    }
    cuts
}

/// The rows that a log names are right after it was read; of the others nothing is known as long as a resync is
/// under way, and a set that is taken for clean would never learn.
#[test]
fn a_log_does_not_end_a_resync_that_was_not_done() {
    let runtime = runtime();
    let rt = runtime.handle();
    let test = async move {
        let disks = case(Level::Raid5, 2, 4, Policy::Ppl).new_disks();
        let devices: Vec<DeviceRef> = disks.iter().map(|disk| Rc::clone(disk) as _).collect();
        let set = open(&rt, &devices, false).await;
        let write = Request::write(Offset(0), Buf::fill(1, 4096));
        set.device().submit(write).await.expect("written");
        // As if the machine stopped here.
        drop(set);
        let again = open(&rt, &devices, false).await;
        assert!(again.needs_resync());
        again.resync(SyncPriority::High).await.expect("done");
        let write = Request::write(Offset(0), Buf::fill(2, 4096));
        again.device().submit(write).await.expect("written");
        drop(again);
        let clean = open(&rt, &devices, false).await;
        assert!(!clean.needs_resync(), "the log says all that was being written");
        let report = clean.array().check(clean.array().whole(), SyncPriority::High).await;
        assert_eq!(report.expect("checked").mismatched_sectors, 0);
    };
    runtime.block_on(test).expect("it ends");
}

#[test]
fn after_a_power_cut_nothing_flushed_is_lost_and_logs_close_the_write_hole() {
    fixtures::takes_long!();
    let cuts = campaign(0..by_extent(1, 4), by_extent(9, 3));
    assert!(cuts > by_extent(30, 500), "{cuts} cuts");
}

#[test]
#[ignore = "takes minutes: every write of many scripts"]
fn after_ten_thousand_power_cuts_nothing_flushed_is_lost() {
    let cuts = campaign(100..120, 1);
    println!("{cuts} cuts");
    assert!(cuts > 10_000, "{cuts} cuts");
}
