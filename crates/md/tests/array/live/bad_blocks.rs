//! Members with entries in their bad-block logs.
//!
//! What could break: a bad place that is read, a write that clears the log before it is durable, a rebuild that
//! stops at a place that nobody has, or calls it good.

use super::{Machine, SHAPES, choose, devices, live, new, read, resynchronised, write};
use crate::rig::runtime;
use md::assemble::{self, OpenArray, OpenOptions};
use md::live::Added;
use md::superblock::Uuid;
use md::superblock::bad_blocks::BadBlock;
use md::{Level, SyncPriority};
use rt::filter::{Effect, Fault, Rule};
use rt::{DeviceRef, IoErrorKind, OpKind, Request};
use std::rc::Rc;
use stdx::{ByteCount, Offset, Prng};

/// The log of a device, in sectors of its data area.
async fn log(device: &DeviceRef) -> Vec<BadBlock> {
    let found = assemble::find(device).await.expect("readable").expect("a member");
    let start = found.superblock.data_offset();
    let log = assemble::bad_blocks(&found).await.expect("readable");
    log.into_iter().map(|bad| BadBlock { sector: bad.sector - start, ..bad }).collect()
}

/// The first bytes of two members can't be read; one of them is rebuilt.
#[test]
fn a_rebuild_notes_what_nobody_has_and_a_write_makes_it_good() {
    for (level, slots) in [(Level::Raid1, 2), (Level::Raid5, 4), (Level::Raid4, 3)] {
        let runtime = runtime();
        let rt = runtime.handle();
        let test = async move {
            let disks = resynchronised(&rt, &new(level, slots), slots, 1).await;
            let mut all = devices(&disks);
            let set = live(&rt, &all, false).await.expect("opened");
            for block in 0..40 {
                write(&set.device(), block, 100 + block).await.expect("written");
            }
            set.fail(1).await.expect("recorded");
            set.stop().await.expect("stopped");
            let choice = choose(&all).await;
            let start = Offset(choice.facts.data_offset() * 512);
            let fault = Fault::new(Rc::clone(&all[0]), &rt, Prng::new(1));
            let rule = Rule::new(Effect::Fail(IoErrorKind::Medium)).on(&[OpKind::Read]);
            let rule = rule.within(start, ByteCount(1024));
            let rule = fault.add(rule);
            all[0] = Rc::clone(&fault) as DeviceRef;
            let set = live(&rt, &all, false).await.expect("opened");
            let added = set.add(Rc::clone(&all[1]), None, Uuid([5; 16])).await;
            assert_eq!(added, Ok(Added::Spare));
            set.rebuild(1, SyncPriority::High).await.expect("all that can be had");
            set.stop().await.expect("stopped");
            drop(set);
            assert_eq!(log(&all[1]).await, [BadBlock { sector: 0, sectors: 8 }], "{level}");
            assert_eq!(choose(&all).await.degraded(), 0, "{level}");

            // What was noted is not given out; all else is right.
            let set = live(&rt, &all, false).await.expect("opened");
            let device = set.device();
            let mut lost = 0;
            for block in 0..40 {
                match read(&*device, block).await {
                    Some(word) => assert_eq!(word, 100 + block, "{level}, block {block}"),
                    None => lost += 1,
                }
            }
            assert!((1..=2).contains(&lost), "{level}: {lost} blocks");
            fault.remove(rule);
            for block in 0..40 {
                write(&device, block, 200 + block).await.expect("written");
            }
            set.stop().await.expect("stopped");
            assert_eq!(log(&all[1]).await, [], "{level}: written anew");
            let array = OpenArray::open(&rt, "a", choose(&all).await, OpenOptions::default()).await;
            let array = array.expect("opened");
            for block in 0..40 {
                assert_eq!(read(&*array, block).await, Some(200 + block), "{level}");
            }
        };
        runtime.block_on(test).expect("it ends");
    }
}

/// With the power cut at each write: an entry goes only when what was written over it is durable.
#[test]
fn an_entry_stays_until_the_write_over_it_is_durable() {
    for (level, slots) in SHAPES {
        for at in 1..40 {
            let runtime = runtime();
            let rt = runtime.handle();
            let test = async move {
                let disks = resynchronised(&rt, &new(level, slots), slots, 1).await;
                let all = devices(&disks);
                let set = live(&rt, &all, false).await.expect("opened");
                write(&set.device(), 0, 7).await.expect("written");
                set.stop().await.expect("stopped");
                spoil(&disks, &all).await;
                let mut machine = Machine::new(&rt, &disks);
                machine.cut_at_write(0, at, at);
                let set = live(&rt, &machine.devices(), false).await.expect("opened");
                // Read from the others, and written anew in the background.
                assert_eq!(read(&*set.device(), 0).await.unwrap_or(7), 7, "{level} cut {at}");
                let _ = write(&set.device(), 1, 8).await;
                let _ = set.device().submit(Request::flush()).await;
                rt.sleep(md::live::QUIET * 3).await;
                drop(set);
                let after = machine.power_on(at).await;
                let array = live(&rt, &after, true).await.expect("opened");
                if array.needs_resync() {
                    array.resync(SyncPriority::High).await.expect("done");
                }
                assert_eq!(read(&*array.device(), 0).await, Some(7), "{level} cut {at}");
                array.stop().await.expect("stopped");
            };
            runtime.block_on(test).expect("it ends");
        }
    }
}

/// The first sectors of the first member get noise, and an entry in the log.
async fn spoil(disks: &[Rc<rt::MemoryDevice>], all: &[DeviceRef]) {
    let found = assemble::find(&all[0]).await.expect("readable").expect("a member");
    let assemble::Superblock::V1(mut superblock) = found.superblock.clone() else { return };
    let start = superblock.data_offset;
    disks[0].poke(Offset(start * 512), &rt::Buf::fill(0xbad, 4096).into());
    let log = md::superblock::bad_blocks::encode(&[BadBlock { sector: start, sectors: 8 }], 8);
    let place = found.at.bytes() as i64 + i64::from(superblock.bad_blocks.offset) * 512;
    disks[0].poke(Offset(place as u64), &rt::Buf::copy_of(&log.expect("it fits")).into());
    superblock.features = superblock.features.with(md::superblock::Features::BAD_BLOCKS, true);
    disks[0].poke(found.at, &rt::Buf::copy_of(&superblock.encode()).into());
}
