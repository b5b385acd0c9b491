//! A disk group from the outside. What could break: bytes in the wrong place or gone, after failures and
//! while extents move; copies that share a failure group; more moves than needed; and a group that a
//! power cut leaves without some of its bytes.

use asm::{
    DiskGroup, DiskState, GroupDisk, GroupSpec, Missing, Move, OpenError, POWER_MAX,
    RebalanceError, Redundancy, SpecError, Striping,
};
use proptest::prelude::*;
use rt::filter::{Overlap, PowerCut, Slice};
use rt::memory::MemoryDevice;
use rt::{Buf, Device, DeviceRef, IoErrorKind, Request, Rt, Runtime};
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::{ByteCount, Offset, Prng};

mod clock;

const AU: u64 = 1 << 20;

fn disk(name: &str, aus: u64) -> DeviceRef {
    // One AU more for header and table.
    MemoryDevice::new(name, ByteCount((aus + 1) * AU))
}

fn disks(count: u64, aus: u64) -> Vec<DeviceRef> {
    (0..count).map(|number| disk(&format!("disk {number}"), aus)).collect()
}

fn spec(disks: Vec<DeviceRef>, redundancy: Redundancy) -> GroupSpec {
    GroupSpec { redundancy, id: 7, ..GroupSpec::new(disks) }
}

fn runtime() -> Runtime {
    Runtime::new(clock::clock())
}

fn run<F>(runtime: &Runtime, future: F) -> F::Output
where
    F: Future + 'static,
    F::Output: 'static,
{
    runtime.block_on(future).expect("no stall")
}

/// Each live copy of each extent lies in a failure group of its own.
fn check_copies(group: &DiskGroup) {
    let disks = group.disks();
    for extent in 0..group.extents() {
        let mut groups: Vec<u16> = group
            .copies_of(extent)
            .into_iter()
            .flatten()
            .map(|disk| disks[usize::from(disk)].failure_group)
            .collect();
        let copies = groups.len();
        groups.sort_unstable();
        groups.dedup();
        assert_eq!(groups.len(), copies, "extent {extent}: two copies in one failure group");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write {
        sector: u64,
        sectors: u64,
    },
    Read {
        sector: u64,
        sectors: u64,
    },
    Zeroes {
        sector: u64,
        sectors: u64,
    },
    Fail(usize),
    Add(u64),
    Drop(usize),
    /// A rebalance of this power, with writes while it runs.
    Rebalance(usize, u64),
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let place = || (0_u64..12 * 2048, 1_u64..3000);
    let step = prop_oneof![
        6 => place().prop_map(|(sector, sectors)| Step::Write { sector, sectors }),
        4 => place().prop_map(|(sector, sectors)| Step::Read { sector, sectors }),
        1 => place().prop_map(|(sector, sectors)| Step::Zeroes { sector, sectors }),
        1 => (0_usize..6).prop_map(Step::Fail),
        1 => (6_u64..20).prop_map(Step::Add),
        1 => (0_usize..6).prop_map(Step::Drop),
        2 => (1_usize..9, 0_u64..12 * 2048).prop_map(|(power, at)| Step::Rebalance(power, at)),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..30)
}

/// The group under test, and the plain array that it must be like.
struct Rig {
    rt: Rt,
    group: Rc<DiskGroup>,
    devices: Vec<DeviceRef>,
    bytes: Vec<u8>,
    prng: Prng,
    /// Disks that may still fail before the next rebalance makes all copies anew.
    spare_failures: usize,
}

impl Rig {
    async fn write(&mut self, sector: u64, sectors: u64) {
        let (at, len) = self.clip(sector, sectors);
        let range = at as usize..(at + len) as usize;
        self.prng.fill(&mut self.bytes[range.clone()]);
        let data = Buf::copy_of(&self.bytes[range]);
        self.group.submit(Request::write(Offset(at), data)).await.expect("written");
    }

    fn clip(&self, sector: u64, sectors: u64) -> (u64, u64) {
        let all = self.bytes.len() as u64 / 512;
        let at = sector % all;
        (at * 512, sectors.min(all - at) * 512)
    }

    async fn read(&self, sector: u64, sectors: u64) {
        let (at, len) = self.clip(sector, sectors);
        let read = Request::read(Offset(at), ByteCount(len));
        let data = self.group.submit(read).await.expect("read").to_vec();
        assert!(data == self.bytes[at as usize..(at + len) as usize], "bytes at {at}, {len}");
    }

    fn working(&self) -> Vec<usize> {
        let disks = self.group.disks();
        (0..disks.len()).filter(|disk| disks[*disk].state == DiskState::Member).collect()
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Write { sector, sectors } => self.write(sector, sectors).await,
            Step::Read { sector, sectors } => self.read(sector, sectors).await,
            Step::Zeroes { sector, sectors } => {
                let (at, len) = self.clip(sector, sectors);
                self.bytes[at as usize..(at + len) as usize].fill(0);
                let request = Request::write_zeroes(Offset(at), ByteCount(len));
                self.group.submit(request).await.expect("zeroed");
            }
            Step::Fail(disk) => {
                let working = self.working();
                if self.spare_failures > 0 && working.len() > 2 {
                    self.spare_failures -= 1;
                    let disk = working[disk % working.len()];
                    self.group.fail_disk(disk).await.expect("recorded");
                }
            }
            Step::Add(aus) => {
                if self.devices.len() < 12 {
                    let number = self.devices.len() as u16;
                    let device = disk(&format!("disk {number}"), aus);
                    self.devices.push(Rc::clone(&device));
                    let added = GroupDisk { device, failure_group: number };
                    self.group.add_disks(vec![added]).await.expect("added");
                }
            }
            Step::Drop(disk) => {
                let working = self.working();
                let dropped = self.group.drop_disk(working[disk % working.len()]).await;
                assert!(matches!(
                    dropped,
                    Ok(())
                        | Err(RebalanceError::NoRoom { .. } | RebalanceError::FailureGroups { .. })
                ));
            }
            Step::Rebalance(power, at) => self.rebalance(power, at).await,
            Step::Reopen => {
                self.group.close().await.expect("closed");
                let devices = self.devices.clone();
                let opened = DiskGroup::open(&self.rt, "group", devices, Missing::Refuse).await;
                self.group = opened.expect("opened");
                assert!(self.group.is_in_step());
            }
        }
    }

    async fn rebalance(&mut self, power: usize, at: u64) {
        let planned = match self.group.plan() {
            Ok(planned) => planned,
            Err(RebalanceError::NoRoom { .. }) => return,
            Err(error) => panic!("{error}"),
        };
        let group = Rc::clone(&self.group);
        let moving = self.rt.spawn(async move { group.rebalance(power).await });
        for i in 0..6 {
            self.write(at + i * 900, 700).await;
            self.rt.yield_now().await;
            self.read(at + i * 500, 1000).await;
        }
        let moved = moving.await.expect("moved");
        assert_eq!(moved, planned.len() as u64, "nothing got in the way");
        self.spare_failures = self.group.redundancy().copies() - 1;
        // With mirrors a copy that had to move may stand in the way of a better place for another; so
        // the second may find an odd one.
        let again = self.group.plan().expect("still");
        let odd = if self.group.redundancy() == Redundancy::External { 0 } else { 2 };
        assert!(again.len() <= odd, "a second rebalance has nothing to do, but {again:?}");
        for disk in self.group.disks() {
            assert_ne!(disk.state, DiskState::Dropping, "empty, so it has left");
            assert!(disk.state == DiskState::Member || disk.used == 0);
        }
        for extent in 0..self.group.extents() {
            assert!(self.group.copies_of(extent).iter().all(Option::is_some), "extent {extent}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_group_behaves_as_bytes_while_disks_come_and_go(
        steps in steps(),
        which in 0..3_usize,
        fine: bool,
        sizes in prop::collection::vec(10_u64..24, 3..6),
        seed: u64,
    ) {
        let redundancy = [Redundancy::External, Redundancy::Normal, Redundancy::High][which];
        let devices: Vec<DeviceRef> =
            sizes.iter().enumerate().map(|(i, aus)| disk(&format!("disk {i}"), *aus)).collect();
        let striping = if fine { Striping::Fine } else { Striping::Coarse };
        let volume = Some(ByteCount(8 * AU));
        let spec = GroupSpec { striping, volume, ..spec(devices.clone(), redundancy) };
        let runtime = runtime();
        let rt = runtime.handle();
        run(&runtime, async move {
            let group = DiskGroup::create(&rt, "group", spec).await.expect("a sound wish");
            let bytes = vec![0; group.geometry().capacity.as_usize()];
            let (prng, spare_failures) = (Prng::new(seed), redundancy.copies() - 1);
            let mut rig = Rig { rt, group, devices, bytes, prng, spare_failures };
            for step in steps {
                rig.step(step).await;
                check_copies(&rig.group);
            }
            let sectors = rig.bytes.len() as u64 / 512;
            rig.read(0, sectors).await;
        });
    }
}

/// Writes while a disk comes and another goes, and the power is cut at a write of any kind: of data, of
/// a table, of a header. All disks lie on one device, so they lose their power together.
fn cut_in_a_rebalance(redundancy: Redundancy, cut_at: u64, seed: u64) -> bool {
    let runtime = runtime();
    let rt = runtime.handle();
    run(&runtime, async move {
        let (count, aus) = (5_u64, 14_u64);
        let each = ByteCount((aus + 1) * AU);
        let whole = MemoryDevice::new("all", ByteCount(each.bytes() * count));
        let slices = |below: &DeviceRef| {
            let slice = |n: u64| Slice::new(Rc::clone(below), Offset(each.bytes() * n), each);
            (0..count).map(|n| slice(n) as DeviceRef).collect::<Vec<DeviceRef>>()
        };
        let cut = PowerCut::new(whole, &rt);
        let mut devices = slices(&(Overlap::new(Rc::clone(&cut) as DeviceRef, &rt) as DeviceRef));
        let late = devices.pop().expect("five");
        let spec = GroupSpec { volume: Some(ByteCount(12 * AU)), ..spec(devices, redundancy) };
        let group = DiskGroup::create(&rt, "group", spec).await.expect("created");
        // What was flushed before, for each sector that is written: one in each extent.
        let mut possible: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for extent in 0..12_u64 {
            let at = extent * AU + 512 * extent;
            group.submit(Request::write(Offset(at), Buf::fill(extent + 1, 512))).await.expect("ok");
            possible.insert(at, vec![extent + 1]);
        }
        group.submit(Request::flush()).await.expect("flushed");
        let begun = cut.writes();
        cut.cut_at_write(begun + cut_at, Prng::new(seed));
        let moving = {
            let group = Rc::clone(&group);
            rt.spawn(async move {
                let device = late;
                group.add_disks(vec![GroupDisk { device, failure_group: 4 }]).await?;
                group.rebalance(2).await?;
                group.drop_disk(1).await?;
                group.rebalance(3).await
            })
        };
        let mut prng = Prng::new(seed);
        for word in 100..140 {
            let extent = prng.below(12);
            let at = extent * AU + 512 * extent;
            let words = possible.get_mut(&at).expect("known");
            words.push(word);
            let fua = word % 5 == 0;
            let data = Buf::fill(word, 512);
            let write = if fua {
                Request::write_fua(Offset(at), data)
            } else {
                Request::write(Offset(at), data)
            };
            let written = group.submit(write).await.is_ok();
            if fua && written {
                *words = vec![word];
            }
            if word % 7 == 0 && group.submit(Request::flush()).await.is_ok() {
                possible.values_mut().for_each(|words| {
                    words.drain(..words.len() - 1);
                });
            }
            rt.yield_now().await;
        }
        let ended = moving.await.is_ok();
        if !cut.is_cut() {
            assert!(ended, "nothing else goes wrong");
            cut.cut(Prng::new(seed));
        }
        let below = cut.power_on().await.expect("what survived");
        let group = DiskGroup::open(&rt, "group", slices(&below), Missing::Refuse).await;
        let group = group.expect("opened");
        check_copies(&group);
        let read = async |group: &Rc<DiskGroup>, at: u64| {
            let read = Request::read(Offset(at), ByteCount(512));
            let bytes = group.submit(read).await.expect("read").to_vec();
            u64::from_le_bytes(bytes[..8].try_into().expect("eight"))
        };
        let mut seen = BTreeMap::new();
        for (at, words) in &possible {
            let word = read(&group, *at).await;
            assert!(words.contains(&word), "at {at}: {word}, not one of {words:?}");
            seen.insert(*at, word);
        }
        // With the copies in step again, and one disk less, each sector is what it was seen to be.
        if redundancy != Redundancy::External {
            group.resync(4).await.expect("in step");
            let member = group.disks().iter().position(|disk| disk.state == DiskState::Member);
            group.fail_disk(member.expect("one")).await.expect("failed");
        }
        group.rebalance(4).await.expect("goes on");
        for (at, word) in seen {
            assert_eq!(read(&group, at).await, word, "at {at}");
        }
        ended
    })
}

#[test]
fn a_power_cut_anywhere_in_a_rebalance_loses_nothing_that_was_flushed() {
    for redundancy in [Redundancy::External, Redundancy::Normal, Redundancy::High] {
        let (mut cut_at, mut ended) = (1, false);
        while !ended {
            ended = cut_in_a_rebalance(redundancy, cut_at, cut_at);
            cut_at += 1;
            assert!(cut_at < 2000, "the rebalance ends some time");
        }
        println!("{redundancy}: cut after each of {cut_at} writes");
        assert!(cut_at > 30, "{cut_at} writes only");
    }
}

#[test]
fn one_disk_more_moves_its_part_and_no_more() {
    let runtime = runtime();
    let rt = runtime.handle();
    run(&runtime, async move {
        let spec = GroupSpec {
            volume: Some(ByteCount(240 * AU)),
            ..spec(disks(4, 100), Redundancy::External)
        };
        let group = DiskGroup::create(&rt, "group", spec).await.expect("created");
        let added = GroupDisk { device: disk("new", 100), failure_group: 4 };
        group.add_disks(vec![added]).await.expect("added");
        let moves = group.plan().expect("a plan");
        assert_eq!(moves.len(), 240 / 5);
        assert!(moves.iter().all(|step| step.to == 4));
        assert_eq!(group.rebalance(POWER_MAX + 1).await.expect("moved"), 48);
        assert!(group.disks().iter().all(|disk| disk.used == 48));
        group.drop_disk(2).await.expect("there is room");
        assert_eq!(group.rebalance(1).await.expect("moved"), 48);
        let states: Vec<_> = group.disks().iter().map(|disk| disk.state).collect();
        assert_eq!(states[2], DiskState::Dropped);
        assert!(group.disks().iter().all(|disk| disk.used == 60 || disk.used == 0));
    });
}

#[test]
fn a_disk_that_fails_a_write_is_left_out_and_stays_out() {
    let runtime = runtime();
    let rt = runtime.handle();
    run(&runtime, async move {
        let mut devices = disks(3, 20);
        let sound = devices.clone();
        let faulty = rt::filter::Fault::new(Rc::clone(&devices[1]), &rt, Prng::new(1));
        devices[1] = Rc::clone(&faulty) as DeviceRef;
        let wish = spec(devices, Redundancy::Normal);
        let group = DiskGroup::create(&rt, "group", wish).await.expect("created");
        let all = group.geometry().capacity;
        let fill = |word| Request::write(Offset(0), Buf::fill(word, all.as_usize()));
        group.submit(fill(1)).await.expect("written");
        faulty.add(rt::filter::Rule::new(rt::filter::Effect::Fail(IoErrorKind::Medium)));
        group.submit(fill(2)).await.expect("one copy of each is left");
        assert_eq!(group.disks()[1].state, DiskState::Failed);
        // With the disk back and sound, what it holds is still out of date.
        let group = DiskGroup::open(&rt, "group", sound, Missing::Refuse).await.expect("opened");
        assert_eq!(group.disks()[1].state, DiskState::Failed);
        let bytes = group.submit(Request::read(Offset(0), all)).await.expect("read").to_vec();
        assert!(bytes.as_chunks::<8>().0.iter().all(|word| *word == 2_u64.to_le_bytes()));
        // Two disks and two copies: everything is made whole again on the two.
        group.rebalance(8).await.expect("made whole");
        group.fail_disk(0).await.expect("failed");
        let bytes = group.submit(Request::read(Offset(0), all)).await.expect("read").to_vec();
        assert!(bytes.as_chunks::<8>().0.iter().all(|word| *word == 2_u64.to_le_bytes()));
    });
}

#[test]
fn what_can_not_be_done_is_refused_by_name() {
    let runtime = runtime();
    let rt = runtime.handle();
    run(&runtime, async move {
        let wish = spec(disks(1, 20), Redundancy::Normal);
        let error = DiskGroup::assemble(&rt, "g", wish).err().expect("one failure group");
        assert!(error.to_string().contains("2 copies"), "{error}");
        let wish = GroupSpec { au: ByteCount(3 << 20), ..spec(disks(2, 20), Redundancy::External) };
        assert!(matches!(DiskGroup::assemble(&rt, "g", wish), Err(SpecError::Au { .. })));
        let tiny = MemoryDevice::new("tiny", ByteCount(AU)) as DeviceRef;
        let wish = spec(vec![tiny], Redundancy::External);
        assert!(matches!(DiskGroup::assemble(&rt, "g", wish), Err(SpecError::DiskTooSmall { .. })));
        let volume = Some(ByteCount(AU * 1000));
        let wish = GroupSpec { volume, ..spec(disks(2, 20), Redundancy::External) };
        assert!(matches!(DiskGroup::assemble(&rt, "g", wish), Err(SpecError::Volume { .. })));

        let devices = disks(3, 20);
        let wish = spec(devices.clone(), Redundancy::Normal);
        let group = DiskGroup::create(&rt, "g", wish).await.expect("created");
        assert!(matches!(group.drop_disk(9).await, Err(RebalanceError::NoDisk { .. })));
        group.fail_disk(0).await.expect("failed");
        let error = group.drop_disk(1).await.expect_err("one would be left");
        assert!(error.to_string().contains("add a disk first"), "{error}");
        let step = Move { extent: u32::MAX, copy: 7, to: 99 };
        assert_eq!(group.carry_out(&[step], 1).await, Ok(0), "a move that makes no sense");

        let none = DiskGroup::open(&rt, "g", disks(2, 20), Missing::Refuse).await;
        assert_eq!(none.err(), Some(OpenError::NoHeader));
        let some = vec![devices[1].clone()];
        let missing = DiskGroup::open(&rt, "g", some.clone(), Missing::Refuse).await;
        assert_eq!(missing.err(), Some(OpenError::Missing { disk: 2 }));
        let lost = DiskGroup::open(&rt, "g", some, Missing::TakeAsFailed).await;
        assert!(matches!(lost.err(), Some(OpenError::Lost { .. })));
        let twice = vec![devices[1].clone(), devices[1].clone(), devices[2].clone()];
        let mixed = DiskGroup::open(&rt, "g", twice, Missing::Refuse).await;
        assert!(matches!(mixed.err(), Some(OpenError::Mixed { .. })));
    });
}
