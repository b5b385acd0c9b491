//! Sets with a write-intent bitmap.
//!
//! What could break: a bit that is not durable when its write begins, one that goes while a member lacks what it
//! stands for, a member that is caught up in too few places or believed too early, a replacement that is taken for
//! whole, a flushed byte that is lost.

use super::{
    BLOCK, DISK, Machine, SHAPES, choose, devices, live, new, read, resynchronised, write,
};
use crate::rig::runtime;
use ::fixtures::extent::{by_extent, places};
use md::assemble::{self, Found, OpenArray, OpenOptions};
use md::create::{NewArray, Policy};
use md::live::{Added, LiveArray};
use md::superblock::Uuid;
use md::{Level, SyncPriority};
use rt::filter::Trace;
use rt::{Buf, Device, DeviceRef, MemoryDevice, OpKind, Request, Rt};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use stdx::{ByteCount, Offset, Prng};

/// Longer than bits stay.
const LONG: Duration = Duration::from_secs(11);

fn with_bitmap(level: Level, slots: usize) -> NewArray {
    NewArray { policy: Policy::Bitmap, bitmap_chunk: Some(ByteCount::kib(64)), ..new(level, slots) }
}

async fn found(device: &DeviceRef) -> Found {
    assemble::find(device).await.expect("readable").expect("a member")
}

/// Bits that are set on a device.
async fn bits(device: &DeviceRef) -> u64 {
    let bitmap = assemble::bitmap(&found(device).await).await.expect("readable");
    bitmap.expect("a bitmap").1.dirty()
}

async fn flush(set: &LiveArray) {
    set.device().submit(Request::flush()).await.expect("flushed");
}

/// How many sectors of a set differ.
async fn differing(rt: &Rt, devices: &[DeviceRef]) -> u64 {
    let array = OpenArray::open(rt, "a", choose(devices).await, OpenOptions::default()).await;
    let engine = array.expect("opened").engines().next().cloned().expect("one");
    engine.check(engine.whole(), SyncPriority::High).await.expect("compared").mismatched_sectors
}

#[test]
fn bits_stand_before_a_write_and_go_when_it_was_quiet_and_at_the_end() {
    for (level, slots) in SHAPES {
        let runtime = runtime();
        let rt = runtime.handle();
        let test = async move {
            let disks = devices(&resynchronised(&rt, &with_bitmap(level, slots), slots, 1).await);
            let set = live(&rt, &disks, false).await.expect("opened");
            assert_eq!(bits(&disks[1]).await, 0, "{level}: a clean set has none");
            write(&set.device(), 0, 1).await.expect("written");
            write(&set.device(), 200, 1).await.expect("written");
            for disk in &disks {
                assert_eq!(bits(disk).await, 2, "{level}: on every member");
            }
            rt.sleep(LONG).await;
            for disk in &disks {
                assert_eq!(bits(disk).await, 0, "{level}: cleared lazily");
            }
            write(&set.device(), 300, 1).await.expect("written");
            set.stop().await.expect("stopped");
            assert_eq!(bits(&disks[0]).await, 0, "{level}: cleared at the end");
        };
        runtime.block_on(test).expect("it ends");
    }
}

/// The rest of the set is not even read.
#[test]
fn a_dirty_set_resynchronises_the_stretches_of_its_bits_alone() {
    for (level, slots) in SHAPES {
        let runtime = runtime();
        let rt = runtime.handle();
        let test = async move {
            let disks = resynchronised(&rt, &with_bitmap(level, slots), slots, 2).await;
            let mut machine = Machine::new(&rt, &disks);
            machine.cut_at_write(0, u64::MAX, 0);
            let set = live(&rt, &machine.devices(), false).await.expect("opened");
            write(&set.device(), 100, 5).await.expect("written");
            drop(set);
            let after = machine.power_on(7).await;
            assert_eq!(bits(&after[0]).await, 1, "{level}");
            let traced: Vec<Rc<Trace>> =
                after.iter().map(|disk| Trace::new(Rc::clone(disk), &rt)).collect();
            let seen: Vec<DeviceRef> =
                traced.iter().map(|disk| Rc::clone(disk) as DeviceRef).collect();
            let set = live(&rt, &seen, false).await.expect("opened");
            assert!(set.needs_resync());
            let before: u64 = traced.iter().map(|disk| read_bytes(disk)).sum();
            set.resync(SyncPriority::High).await.expect("done");
            let read: u64 = traced.iter().map(|disk| read_bytes(disk)).sum::<u64>() - before;
            assert!(read <= slots as u64 * 128 * 1024, "{level}: {read} bytes were read");
            set.stop().await.expect("stopped");
            assert_eq!(differing(&rt, &after).await, 0, "{level}");
        };
        runtime.block_on(test).expect("it ends");
    }
}

fn read_bytes(disk: &Trace) -> u64 {
    let reads = disk.records().into_iter().filter(|record| record.op == OpKind::Read);
    reads.map(|record| record.len.bytes()).sum()
}

#[test]
fn a_member_that_was_away_is_caught_up_where_bits_are_set_and_else_becomes_a_spare() {
    for (level, slots) in SHAPES {
        let runtime = runtime();
        let rt = runtime.handle();
        let test = async move {
            let disks = resynchronised(&rt, &with_bitmap(level, slots), slots, 3).await;
            let all = devices(&disks);
            let set = live(&rt, &all, false).await.expect("opened");
            for block in 0..400 {
                write(&set.device(), block, 10 + block).await.expect("written");
            }
            rt.sleep(LONG).await;
            set.fail(1).await.expect("recorded");
            write(&set.device(), 50, 1000).await.expect("written");
            set.stop().await.expect("stopped");
            assert!(bits(&all[0]).await > 0, "{level}: bits stay while a member is away");

            let set = live(&rt, &all, false).await.expect("opened");
            write(&set.device(), 51, 1001).await.expect("written");
            rt.sleep(LONG).await;
            let old = found(&all[1]).await;
            assert_eq!(set.can_come_back(&old), Some(1), "{level}");
            let added = set.add(Rc::clone(&all[1]), Some(old), Uuid([9; 16])).await;
            let Ok(Added::Back { slot: 1, missed }) = added else { panic!("{level}: {added:?}") };
            assert!(missed <= ByteCount::kib(128), "{level}: {missed}");
            write(&set.device(), 300, 1002).await.expect("written");
            assert_eq!(set.needs_rebuild(), [1]);
            set.rebuild(1, SyncPriority::High).await.expect("caught up");
            set.stop().await.expect("stopped");
            assert_eq!(bits(&all[1]).await, 0, "{level}: cleared when all are there");
            assert_eq!((choose(&all).await.degraded(), differing(&rt, &all).await), (0, 0));

            // Away again, and meanwhile another one takes the slot and bits are cleared.
            let set = live(&rt, &all, false).await.expect("opened");
            set.fail(1).await.expect("recorded");
            let old = found(&all[1]).await;
            let other = MemoryDevice::new("other.", DISK) as DeviceRef;
            let added = set.add(Rc::clone(&other), None, Uuid([8; 16])).await;
            assert_eq!(added, Ok(Added::Spare));
            set.rebuild(1, SyncPriority::High).await.expect("rebuilt");
            write(&set.device(), 20, 2000).await.expect("written");
            rt.sleep(LONG).await;
            set.fail(1).await.expect("recorded");
            assert_eq!(set.can_come_back(&old), None, "{level}: it is older than the clearing");
            let recent = found(&other).await;
            assert_eq!(set.can_come_back(&recent), Some(1), "{level}");
            let added = set.add(Rc::clone(&all[1]), Some(old), Uuid([7; 16])).await;
            assert_eq!(added, Ok(Added::Spare));
            set.rebuild(1, SyncPriority::High).await.expect("rebuilt");
            set.remove(&recent).await.expect("removed");
            set.stop().await.expect("stopped");
            assert_eq!(differing(&rt, &all).await, 0, "{level}");
            let array = OpenArray::open(&rt, "a", choose(&all).await, OpenOptions::default());
            let array = array.await.expect("opened");
            for (block, word) in [(50, 1000), (51, 1001), (300, 1002), (20, 2000), (21, 31)] {
                assert_eq!(read(&*array, block).await, Some(word), "{level}, block {block}");
            }
        };
        runtime.block_on(test).expect("it ends");
    }
}

/// A machine without bitmaps wrote to the set: what the bitmap says is older than the superblocks.
#[test]
fn a_bitmap_that_is_older_than_the_set_counts_as_all_set() {
    let runtime = runtime();
    let rt = runtime.handle();
    let test = async move {
        let disks = resynchronised(&rt, &with_bitmap(Level::Raid1, 2), 2, 4).await;
        let all = devices(&disks);
        let set = live(&rt, &all, false).await.expect("opened");
        write(&set.device(), 1, 1).await.expect("written");
        drop(set);
        for (disk, device) in disks.iter().zip(&all) {
            // The bitmap's events are at byte 24; it lies 4 KiB behind the superblock.
            let at = found(device).await.at + ByteCount(4096 + 24);
            disk.poke(at, &Buf::copy_of(&1_u64.to_le_bytes()).into());
        }
        // What no bit knows of.
        disks[1].poke(
            Offset(found(&all[1]).await.superblock.data_offset() * 512 + (5 << 20)),
            &Buf::fill(77, 512).into(),
        );
        let set = live(&rt, &all, false).await.expect("opened");
        set.resync(SyncPriority::High).await.expect("done");
        set.stop().await.expect("stopped");
        assert_eq!(differing(&rt, &all).await, 0);
    };
    runtime.block_on(test).expect("it ends");
}

#[derive(Default)]
struct Expected {
    flushed: Option<u64>,
    since: Vec<u64>,
}

/// Writes and flushes, and what must stand in each block.
struct Host {
    prng: Prng,
    word: u64,
    blocks: BTreeMap<u64, Expected>,
}

impl Host {
    async fn write(&mut self, set: &LiveArray, count: usize) -> Option<()> {
        for _ in 0..count {
            self.word += 1;
            let block = self.prng.below(60) * 7;
            self.blocks.entry(block).or_default().since.push(self.word);
            write(&set.device(), block, self.word).await.ok()?;
        }
        Some(())
    }

    async fn flush(&mut self, set: &LiveArray, machine: &Machine) -> Option<()> {
        let done = set.device().submit(Request::flush()).await.is_ok();
        if !done || machine.is_off() {
            return None;
        }
        for expected in self.blocks.values_mut() {
            expected.flushed = expected.since.last().copied().or(expected.flushed);
            expected.since.clear();
        }
        Some(())
    }
}

/// The life of a set with a spare behind its slots; ends early where the power goes.
async fn script(
    rt: &Rt,
    seen: &[DeviceRef],
    machine: &Machine,
    host: &mut Host,
    victim: usize,
) -> Option<()> {
    let set = live(rt, seen, false).await.ok()?;
    host.write(&set, 4).await?;
    host.flush(&set, machine).await?;
    rt.sleep(LONG).await;
    host.write(&set, 3).await?;
    set.fail(victim).await.ok()?;
    host.write(&set, 3).await?;
    host.flush(&set, machine).await?;
    let old = assemble::find(&seen[victim]).await.ok()??;
    let added = set.add(Rc::clone(&seen[victim]), Some(old), Uuid([99; 16])).await.ok()?;
    assert!(matches!(added, Added::Back { .. }) || machine.is_off(), "{added:?}");
    host.write(&set, 2).await?;
    for slot in set.needs_rebuild() {
        set.rebuild(slot, SyncPriority::High).await.ok()?;
    }
    host.write(&set, 2).await?;
    host.flush(&set, machine).await?;
    rt.sleep(LONG).await;
    let spare = seen.last()?;
    set.add(Rc::clone(spare), None, Uuid([98; 16])).await.ok()?;
    set.begin_replace(victim, None).await.ok()?;
    host.write(&set, 3).await?;
    set.replace(victim, SyncPriority::High).await.ok()?;
    host.write(&set, 3).await?;
    host.flush(&set, machine).await?;
    set.stop().await.ok()?;
    (!machine.is_off()).then_some(())
}

#[test]
fn after_a_power_cut_at_any_write_of_a_life_with_a_bitmap_all_is_right_again() {
    fixtures::takes_long!();
    let mut cuts = 0;
    for (level, slots) in SHAPES {
        for seed in 0..2 {
            for at in places(1, 4) {
                if cut_once(level, slots, seed, at) {
                    break;
                }
                cuts += 1;
            }
        }
    }
    assert!(cuts > by_extent(60, 300), "{cuts} cuts");
}

fn cut_once(level: Level, slots: usize, seed: u64, at: u64) -> bool {
    let runtime = runtime();
    let rt = runtime.handle();
    let test = async move {
        let mut disks = resynchronised(&rt, &with_bitmap(level, slots), slots, seed).await;
        disks.push(MemoryDevice::new("spare.", DISK));
        let mut prng = Prng::for_part(seed, "script");
        let victim = prng.below(slots as u64) as usize;
        let mut machine = Machine::new(&rt, &disks);
        machine.cut_at_write((victim + 1) % slots, at, seed * 1000 + at);
        let mut host = Host { prng, word: 1, blocks: BTreeMap::new() };
        let seen = machine.devices();
        let ended = script(&rt, &seen, &machine, &mut host, victim).await.is_some();
        let after = machine.power_on(seed * 1000 + at).await;
        let case = format!("{level} seed {seed} cut {at}");

        let choice = choose(&after).await;
        let hole = choice.degraded() > 0 && level.parities() > 0;
        let left: Vec<Found> = choice.left_out.iter().map(|one| one.found.clone()).collect();
        let set = live(&rt, &after, true).await.unwrap_or_else(|error| panic!("{case}: {error}"));
        for old in left {
            if set.can_come_back(&old).is_some() {
                let added = set.add(Rc::clone(&old.device), Some(old), Uuid([97; 16])).await;
                assert!(matches!(added, Ok(Added::Back { .. })), "{case}: {added:?}");
            }
        }
        if set.needs_resync() {
            set.resync(SyncPriority::High).await.expect("done");
        }
        for slot in set.needs_rebuild() {
            set.rebuild(slot, SyncPriority::High).await.expect("rebuilt");
        }
        for slot in set.needs_replace() {
            set.replace(slot, SyncPriority::High).await.expect("replaced");
        }
        set.stop().await.expect("stopped");
        drop(set);
        let choice = choose(&after).await;
        assert_eq!(choice.degraded(), 0, "{case}: whole again");
        assert_eq!(differing(&rt, &after).await, 0, "{case}: copies and parity");
        // Where a parity set was dirty and degraded, a row that was being written may be wrong: without a log
        // nothing closes this hole. All other rows must be right.
        let blocks_a_row = (slots - level.parities()) as u64 * (ByteCount::kib(16).bytes() / BLOCK);
        let open_rows: BTreeSet<u64> = host
            .blocks
            .iter()
            .filter(|(_, expected)| !expected.since.is_empty())
            .map(|(block, _)| block / blocks_a_row)
            .collect();
        let array = OpenArray::open(&rt, "a", choice, OpenOptions::default()).await;
        let array = array.expect("opened");
        for (block, expected) in &host.blocks {
            let in_hole = hole && open_rows.contains(&(block / blocks_a_row));
            let Some(flushed) = expected.flushed.filter(|_| !in_hole) else { continue };
            let read = Request::read(Offset(block * BLOCK), ByteCount(BLOCK));
            let data = array.submit(read).await.expect("readable").to_vec();
            for sector in data.chunks(512) {
                let found = u64::from_le_bytes(sector[..8].try_into().expect("eight"));
                let good = found == flushed || expected.since.contains(&found);
                assert!(good, "{case} block {block}: {found}, not {flushed}");
            }
        }
        ended
    };
    runtime.block_on(test).expect("it ends")
}

/// Once more, with everything in order, to see that the script does what it says.
#[test]
fn the_life_with_a_bitmap_ends_with_the_replacement_in_the_slot() {
    let runtime = runtime();
    let rt = runtime.handle();
    let test = async move {
        let mut disks = resynchronised(&rt, &with_bitmap(Level::Raid5, 3), 3, 1).await;
        disks.push(MemoryDevice::new("spare.", DISK));
        let mut machine = Machine::new(&rt, &disks);
        machine.cut_at_write(0, u64::MAX, 0);
        let mut host = Host { prng: Prng::new(1), word: 1, blocks: BTreeMap::new() };
        let seen = machine.devices();
        script(&rt, &seen, &machine, &mut host, 2).await.expect("it ends");
        let choice = choose(&seen).await;
        let names: Vec<String> = choice.slots.iter().flatten().map(Found::name).collect();
        assert_eq!(names, ["disk0.", "disk1.", "spare."]);
        assert!(choice.replacements.is_empty() && choice.spares.is_empty());
        let set = live(&rt, &seen, false).await.expect("opened");
        flush(&set).await;
        set.stop().await.expect("stopped");
    };
    runtime.block_on(test).expect("it ends");
}
