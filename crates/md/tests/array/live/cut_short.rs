//! Devices that end before they should: copies that were broken off, partitions that were made smaller.
//!
//! What could break: a member that is shut out though all that the set uses of it is there, one that is taken though
//! some is not, a superblock that goes on saying what md then refuses, a journal that is read past its end.

use super::{BLOCK, DISK, choose, devices, live, new, read, resynchronised, write};
use crate::rig::runtime;
use md::assemble::{self, Superblock, Why};
use md::create::{NewArray, Policy};
use md::{Level, SyncPriority};
use rt::{DeviceRef, MemoryDevice};
use std::rc::Rc;
use stdx::{ByteCount, Offset};

/// The first bytes of a disk.
fn start_of(disk: &MemoryDevice, len: ByteCount) -> Rc<MemoryDevice> {
    let short = MemoryDevice::new("short", len);
    short.poke(Offset(0), &disk.peek(Offset(0), len));
    short
}

async fn superblock(device: &DeviceRef) -> md::superblock::v1::SuperblockV1 {
    match assemble::find(device).await.expect("readable").expect("a member").superblock {
        Superblock::V1(superblock) => *superblock,
        Superblock::V090(_) => unreachable!("it was made as 1.2"),
    }
}

#[test]
fn a_member_that_is_cut_behind_what_the_set_uses_is_written_and_says_its_true_size() {
    let runtime = runtime();
    let rt = runtime.handle();
    let test = async move {
        let new = NewArray { size: Some(ByteCount::mib(3)), ..new(Level::Raid5, 3) };
        let disks = resynchronised(&rt, &new, 3, 1).await;
        let own = superblock(&devices(&disks)[1]).await;
        let used = ByteCount((own.data_offset + own.size) * 512);
        assert!(used + ByteCount(3 * BLOCK) < DISK, "there is a tail");

        let mut there = devices(&disks);
        there[1] = start_of(&disks[1], used - ByteCount(BLOCK)) as DeviceRef;
        let choice = choose(&there).await;
        let left: Vec<_> = choice.left_out.iter().map(|left| left.why).collect();
        assert_eq!(left, [Why::CutShort { has: used - ByteCount(BLOCK), needed: used }]);

        there[1] = start_of(&disks[1], used + ByteCount(3 * BLOCK)) as DeviceRef;
        let set = live(&rt, &there, false).await.expect("all that it uses is there");
        for block in 0..100 {
            write(&set.device(), block, 7 + block).await.expect("written");
        }
        set.stop().await.expect("stopped");
        let choice = choose(&there).await;
        assert_eq!((choice.degraded(), choice.left_out.len()), (0, 0));
        let said = superblock(&there[1]).await;
        assert_eq!((said.data_size, said.size), (own.size + 3 * BLOCK / 512, own.size));
        there.remove(0);
        let set = live(&rt, &there, true).await.expect("opened");
        assert_eq!(read(&*set.device(), 99).await, Some(106), "it has its part");
        set.resync(SyncPriority::High).await.expect("done");
        set.stop().await.expect("stopped");
    };
    runtime.block_on(test).expect("it ends");
}

#[test]
fn a_journal_that_is_cut_short_is_left_out_and_the_set_lacks_it() {
    let runtime = runtime();
    let rt = runtime.handle();
    let test = async move {
        let new = NewArray { policy: Policy::Journal, ..new(Level::Raid5, 3) };
        let disks = resynchronised(&rt, &new, 4, 1).await;
        let mut there = devices(&disks);
        there[3] = start_of(&disks[3], DISK - ByteCount::mib(1)) as DeviceRef;
        let choice = choose(&there).await;
        let left: Vec<_> = choice.left_out.iter().map(|left| left.why).collect();
        let cut = DISK - ByteCount::mib(1);
        assert!(
            matches!(left[..], [Why::CutShort { has, needed }] if has == cut && needed > cut),
            "{left:?}"
        );
        assert!(choice.lacks_journal() && choice.degraded() == 0);
    };
    runtime.block_on(test).expect("it ends");
}
