//! Power cuts that follow one another: a set is started, cut, started again and cut again, up to [`CUTS_MAX`] times.
//!
//! **A run** is a case, what is lost beside the power, a seed and a number N. The first life is cut at the N-th write of
//! one disk, N = 1, 2, … until a life ends before it; each later one at a write near its start, where superblocks are
//! written. What a life does the seed says: it only starts, resynchronises and rebuilds what is to be; it writes; it falls
//! quiet between writes; it stops. Disks answer late and in any order, so a cut leaves any part of a pass over the
//! superblocks behind.
//!
//! **After each cut** the set opens without force (but for the one that starts a dirty and degraded set, where nothing
//! closes the write hole), all members that nobody failed take part and are whole, and all that was flushed is there.
//! **After the last** redundancy is made whole and compared.

use super::{CASES, CHUNK_SECTORS, Case, DISK, Expected, REGION, Run, SECTOR, choose, read_region};
use crate::mains::OneMains;
use crate::rig::{Late, runtime};
use ::fixtures::extent::by_extent;
use md::SyncPriority;
use md::assemble::{OpenArray, OpenOptions};
use md::live::{LiveArray, LiveError, LiveOptions, QUIET};
use rt::filter::PowerCut;
use rt::{Buf, DeviceRef, MemoryDevice, Request, Rt, SgList};
use std::rc::Rc;
use stdx::{Offset, Prng};

const CUTS_MAX: u64 = 4;
/// Later cuts come within so many writes of a disk.
const WRITES_AT_START: u64 = 12;

/// What is lost beside the power: nothing, a member before the first life, or one within it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Loss {
    Nothing,
    Before(usize),
    Within(usize),
}

impl Loss {
    fn slot(self) -> Option<usize> {
        match self {
            Loss::Nothing => None,
            Loss::Before(slot) | Loss::Within(slot) => Some(slot),
        }
    }
}

struct Lives {
    run: Run,
    loss: Loss,
    expected: Vec<Expected>,
    /// Sectors in the write hole of a degraded set.
    torn: Vec<bool>,
    /// It was started dirty and degraded, with nothing that closes the write hole: parity of rows that were being
    /// written may differ from then on, also where a rebuild had filled them.
    forced: bool,
    word: u64,
}

async fn open(rt: &Rt, devices: &[DeviceRef], force: bool) -> Result<LiveArray, LiveError> {
    let options = LiveOptions { force, unix_s: 1_800_000_100, ..LiveOptions::default() };
    LiveArray::open(rt, "live", choose(devices).await, options).await
}

async fn make_whole(set: &LiveArray) -> Result<(), LiveError> {
    if set.needs_resync() {
        set.resync(SyncPriority::High).await?;
    }
    for slot in set.needs_rebuild() {
        set.rebuild(slot, SyncPriority::High).await?;
    }
    Ok(())
}

impl Lives {
    fn case(&self) -> &Case {
        &self.run.case
    }

    fn what(&self, cut: u64) -> String {
        format!("{} {:?} after cut {cut}", self.run, self.loss)
    }

    /// How many cuts there were; none where the first life ended before it.
    async fn go(mut self, rt: &Rt, mut disks: Vec<DeviceRef>) -> u64 {
        let mut prng = Prng::for_part(self.run.seed ^ self.run.at << 20, "lives");
        if let Loss::Before(slot) = self.loss {
            let set = open(rt, &disks, false).await.expect("opened");
            set.fail(slot).await.expect("failed");
            set.stop().await.expect("stopped");
        }
        let array = OpenArray::open(rt, "a", choose(&disks).await, OpenOptions::default());
        let before = read_region(&*array.await.expect("opened")).await;
        let sector = |word: &Option<u64>| Expected {
            flushed: word.expect("a sector of one word"),
            since: Vec::new(),
        };
        self.expected = before.iter().map(sector).collect();
        let cuts = 1 + prng.below(CUTS_MAX);
        for cut in 0..cuts {
            let at = if cut == 0 { self.run.at } else { 1 + prng.below(WRITES_AT_START) };
            let (after, was_cut) = self.live_and_cut(rt, disks, at, &mut prng).await;
            if cut == 0 && !was_cut {
                return 0;
            }
            disks = after;
            self.look(rt, &disks, cut + 1).await;
        }
        self.end(rt, &disks, cuts).await;
        cuts
    }

    /// One life. Tells what survives it, and whether the power went before it ended.
    async fn live_and_cut(
        &mut self,
        rt: &Rt,
        disks: Vec<DeviceRef>,
        at: u64,
        prng: &mut Prng,
    ) -> (Vec<DeviceRef>, bool) {
        let lost = self.loss.slot();
        let cut: Vec<Rc<PowerCut>> =
            disks.into_iter().map(|disk| PowerCut::new(disk, rt)).collect();
        let journal = self.case().has_journal() && prng.chance(0.4);
        let first = match prng.below(self.case().slots as u64) as usize {
            _ if journal => self.case().slots + 1,
            slot if Some(slot) == lost => (slot + 1) % self.case().slots,
            slot => slot,
        };
        cut[first].cut_at_write(at, prng.fork());
        let late = |number| {
            let disk = OneMains::new(&cut, first, number);
            Late::new(Rc::new(disk), rt, prng.fork()) as DeviceRef
        };
        let behind: Vec<DeviceRef> = (0..cut.len()).map(late).collect();
        let went_well = self.live(rt, &behind, &cut[first], prng).await;
        let was_cut = cut[first].is_cut();
        assert!(went_well || was_cut, "{}: it fails for no other reason", self.run);
        let mut after = Vec::new();
        for disk in &cut {
            if !disk.is_cut() {
                disk.cut(prng.fork());
            }
            after.push(disk.power_on().await.expect("whole"));
        }
        (after, was_cut)
    }

    /// True where nothing failed.
    async fn live(
        &mut self,
        rt: &Rt,
        devices: &[DeviceRef],
        first: &Rc<PowerCut>,
        prng: &mut Prng,
    ) -> bool {
        let force = self.needs_force(devices).await;
        self.forced |= force;
        let Ok(set) = open(rt, devices, force).await else { return false };
        let earlier = self.word;
        let kind = prng.below(5);
        if kind <= 1 && make_whole(&set).await.is_err() {
            return false;
        }
        let device = set.device();
        for step in 0..if kind == 0 { 0 } else { 4 } {
            if step == 1
                && let Loss::Within(slot) = self.loss
            {
                // Refused where the set is not resynchronised: then it is not lost.
                let _ = set.fail(slot).await;
            }
            let (at, len) = (prng.below(REGION - 24), 1 + prng.below(24));
            self.word += 1;
            let sectors = at as usize..(at + len) as usize;
            self.expected[sectors].iter_mut().for_each(|sector| sector.since.push(self.word));
            let data = Buf::fill(self.word, (len * SECTOR) as usize);
            if device.submit(Request::write(Offset(at * SECTOR), data)).await.is_err() {
                return false;
            }
            if prng.chance(0.4) {
                let flushed = device.submit(Request::flush()).await.is_ok();
                if !flushed || first.is_cut() {
                    return flushed;
                }
                // What an earlier life had not flushed may be there or not, also after a flush.
                let of_life = |word: &u64| *word > earlier;
                for sector in &mut self.expected {
                    if let Some(word) = sector.since.last().copied().filter(of_life) {
                        sector.flushed = word;
                        sector.since.clear();
                    }
                }
            }
            if kind == 2 {
                rt.sleep(QUIET * 3).await;
            }
        }
        kind != 3 || set.stop().await.is_ok()
    }

    /// Whether nothing closes the write hole of the set as it is.
    async fn needs_force(&self, devices: &[DeviceRef]) -> bool {
        let is_open = self.case().level.parities() > 0 && !self.case().is_logged();
        is_open && choose(devices).await.degraded() > 0
    }

    /// Looks at what a cut left.
    async fn look(&mut self, rt: &Rt, after: &[DeviceRef], cut: u64) {
        let (choice, what) = (choose(after).await, self.what(cut));
        let lost = self.loss.slot();
        for slot in (0..self.case().slots).filter(|slot| Some(*slot) != lost) {
            let whole = |found: &md::assemble::Found| found.superblock.recovery_offset().is_none();
            let events: Vec<_> =
                choice.left_out.iter().map(|left| (left.found.name(), left.why)).collect();
            assert!(
                choice.slots[slot].as_ref().is_some_and(whole),
                "{what}: slot {slot}: {events:?}"
            );
        }
        assert_eq!(choice.journal.is_some(), self.case().has_journal(), "{what}: the journal");
        if choice.degraded() > 0 {
            self.note_torn(lost);
        }
        let options = OpenOptions { force: self.needs_force(after).await, raid0_original: None };
        let array = OpenArray::open(rt, "a", choice, options).await;
        let array = array.unwrap_or_else(|error| panic!("{what}: {error}"));
        self.verify(&read_region(&*array).await, &what);
    }

    /// A set that lacks a member was cut: what of it may be wrong from now on.
    fn note_torn(&mut self, lost: Option<usize>) {
        let (case, parity) = (self.run.case, self.case().level.parities() > 0);
        let row = |sector: usize| case.row_of(sector as u64);
        let open = |sector: &Expected| !sector.since.is_empty();
        let at = |sector: &usize| open(&self.expected[*sector]);
        let rows: Vec<u64> = (0..self.expected.len()).filter(at).map(row).collect();
        for sector in 0..self.expected.len() {
            self.torn[sector] |= match case.is_logged() {
                true if case.has_journal() => false,
                true => open(&self.expected[sector]) && lost == Some(case.slot_of(sector as u64)),
                false => parity && rows.contains(&row(sector)),
            };
        }
    }

    fn verify(&self, found: &[Option<u64>], what: &str) {
        for (at, (found, expected)) in found.iter().zip(&self.expected).enumerate() {
            let good = |word| word == expected.flushed || expected.since.contains(&word);
            let (flushed, since) = (expected.flushed, &expected.since);
            assert!(
                self.torn[at] || found.is_some_and(good),
                "{what}: sector {at}: {found:?}, not {flushed} or {since:?}"
            );
        }
    }

    /// Everything is made whole, and compared.
    async fn end(&self, rt: &Rt, disks: &[DeviceRef], cuts: u64) {
        let what = self.what(cuts);
        let force = self.needs_force(disks).await;
        let set = open(rt, disks, force).await;
        let set = set.unwrap_or_else(|error| panic!("{what}: {error}"));
        make_whole(&set).await.expect("whole");
        if set.array().degraded() == 0 && !self.forced && !force {
            let report = set.array().check(set.array().whole(), SyncPriority::High).await;
            assert_eq!(report.expect("checked").mismatched_sectors, 0, "{what}: check");
        }
        self.verify(&read_region(&*set.device()).await, &what);
        set.stop().await.expect("stopped");
        let array = OpenArray::open(rt, "a", choose(disks).await, OpenOptions::default()).await;
        let array = array.unwrap_or_else(|error| panic!("{what}: {error}"));
        self.verify(&read_region(&*array).await, &what);
    }
}

fn lives(case: Case, loss: Loss, seed: u64, at: u64, images: &[SgList]) -> u64 {
    let runtime = runtime();
    let rt = runtime.handle();
    let disk = |(n, image): (usize, &SgList)| {
        let disk = MemoryDevice::new(&format!("disk{n}."), DISK);
        disk.poke(Offset(0), image);
        disk as DeviceRef
    };
    let disks: Vec<DeviceRef> = images.iter().enumerate().map(disk).collect();
    let torn = vec![false; REGION as usize];
    let run = Run { case, seed, at };
    let lives = Lives { run, loss, expected: Vec::new(), torn, forced: false, word: 1_000_000 };
    runtime.block_on(async move { lives.go(&rt, disks).await }).expect("it ends")
}

/// Cuts at every `stride`-th write of the first lives of some seeds. Tells how many cuts there were.
fn campaign(seeds: std::ops::Range<u64>, stride: usize) -> u64 {
    let mut cuts = 0;
    for (n, case) in CASES.into_iter().enumerate() {
        assert!(CHUNK_SECTORS * case.data_members() <= REGION, "some rows");
        let images = case.disks();
        for seed in seeds.clone() {
            let victim = Prng::for_part(seed + n as u64, "lost").below(case.slots as u64) as usize;
            for loss in [Loss::Nothing, Loss::Before(victim), Loss::Within(victim)] {
                for at in (1 + (seed + n as u64) % stride as u64..).step_by(stride) {
                    match lives(case, loss, seed, at, &images) {
                        0 => break,
                        more => cuts += more,
                    }
                }
            }
        }
    }
    cuts
}

#[test]
fn after_cuts_that_follow_one_another_no_member_that_missed_nothing_is_left_out() {
    fixtures::takes_long!();
    let cuts = campaign(0..1, by_extent(8, 2));
    assert!(cuts > by_extent(120, 500), "{cuts} cuts");
}

#[test]
#[ignore = "takes minutes: every write of many first lives"]
fn after_ten_thousand_cuts_that_follow_one_another_no_member_is_left_out() {
    let cuts = campaign(100..115, 1);
    println!("{cuts} cuts");
    assert!(cuts > 10_000, "{cuts} cuts");
}
