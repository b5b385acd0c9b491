//! The power is cut at each write of a script.

use super::{BLOCK, Machine, SHAPES, choose, devices, disks, live, new, write};
use crate::rig::runtime;
use ::fixtures::extent::{by_extent, places};
use md::assemble::{OpenArray, OpenOptions};
use md::create::NewArray;
use md::{Level, SyncPriority};
use rt::{Device, Request};
use std::collections::{BTreeMap, BTreeSet};
use stdx::{ByteCount, Offset, Prng};

/// What may stand in a block.
#[derive(Default)]
struct Expected {
    flushed: Option<u64>,
    since: Vec<u64>,
}

/// A script of writes, flushes and the loss of a member, with the power cut at each write of each disk.
#[test]
fn after_a_power_cut_at_any_write_no_flushed_byte_is_lost() {
    let mut cuts = 0;
    for (level, slots) in SHAPES {
        for seed in 0..6_u64 {
            for at in places(1, 4) {
                let is_over = cut_once(level, slots, seed, at);
                cuts += u32::from(!is_over);
                if is_over {
                    break;
                }
            }
        }
    }
    assert!(cuts > by_extent(80, 400), "{cuts} cuts");
}

/// True where the script ended before the cut.
fn cut_once(level: Level, slots: usize, seed: u64, at: u64) -> bool {
    let runtime = runtime();
    let rt = runtime.handle();
    let test = async move {
        let new = NewArray { assume_clean: level == Level::Raid1, ..new(level, slots) };
        let disks = disks(&new, slots, seed);
        if level != Level::Raid1 {
            let set = live(&rt, &devices(&disks), false).await.expect("opened");
            set.resync(SyncPriority::High).await.expect("done");
            set.stop().await.expect("stopped");
        }
        let mut prng = Prng::for_part(seed, "script");
        let victim = prng.below(slots as u64) as usize;
        let mut machine = Machine::new(&rt, &disks);
        machine.cut_at_write(prng.below(slots as u64) as usize, at, seed);
        let set = live(&rt, &machine.devices(), false).await.expect("opened");
        let device = set.device();
        let mut blocks: BTreeMap<u64, Expected> = BTreeMap::new();
        let mut word = 1;
        let mut ended = true;
        for step in 0..24 {
            word += 1;
            let block = prng.below(40);
            blocks.entry(block).or_default().since.push(word);
            if write(&device, block, word).await.is_err() || machine.is_off() {
                ended = false;
                break;
            }
            if step == 12 {
                let _ = set.fail(victim).await;
            }
            if step % 5 == 4 {
                let flushed = device.submit(Request::flush()).await.is_ok();
                if !flushed || machine.is_off() {
                    ended = false;
                    break;
                }
                for expected in blocks.values_mut() {
                    expected.flushed = expected.since.last().copied().or(expected.flushed);
                    expected.since.clear();
                }
            }
        }
        drop((set, device));
        let after = machine.power_on(seed).await;
        let choice = choose(&after).await;
        let degraded = choice.degraded() > 0;
        let options = OpenOptions { force: true, ..OpenOptions::default() };
        let array = OpenArray::open(&rt, "a", choice, options).await.expect("opened");
        // Where the set is dirty and degraded, a row that was being written may have wrong parity: without a
        // log nothing closes this hole. All other rows must be right.
        let blocks_a_row = (slots - level.parities()) as u64 * (ByteCount::kib(16).bytes() / BLOCK);
        let open_rows: BTreeSet<u64> = blocks
            .iter()
            .filter(|(_, expected)| !expected.since.is_empty())
            .map(|(block, _)| block / blocks_a_row)
            .collect();
        for (block, expected) in &blocks {
            let in_hole =
                degraded && level.parities() > 0 && open_rows.contains(&(block / blocks_a_row));
            let Some(flushed) = expected.flushed.filter(|_| !in_hole) else { continue };
            let read = Request::read(Offset(block * BLOCK), ByteCount(BLOCK));
            let data = array.submit(read).await.expect("readable").to_vec();
            for sector in data.chunks(512) {
                let found = u64::from_le_bytes(sector[..8].try_into().expect("eight"));
                let good = found == flushed || expected.since.contains(&found);
                assert!(good, "{level} seed {seed} cut {at} block {block}: {found}, not {flushed}");
            }
        }
        ended
    };
    runtime.block_on(test).expect("it ends")
}
