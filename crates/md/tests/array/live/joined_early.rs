//! A device that joins a set, and whoever adds it is killed after any of its writes.
//!
//! What could break: the device holds something by then that nobody knows, so that the same command, given again, takes it
//! for somebody else's content and refuses it.

use super::*;
use md::create::Policy;
use md::grow::{self, NewMember, Reshape};
use rt::{Geometry, IoFuture};
use rt::{IoError, IoErrorKind, OpKind};
use std::cell::Cell;

/// A disk to which so many writes get.
struct Dies {
    disk: Rc<MemoryDevice>,
    writes_left: Cell<usize>,
}

impl Device for Dies {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }
    fn name(&self) -> std::sync::Arc<str> {
        self.disk.name()
    }
    fn begin(&self, request: Request) -> IoFuture {
        if matches!(request.kind(), OpKind::Write | OpKind::WriteZeroes) {
            let left = self.writes_left.get();
            if left == 0 {
                return IoFuture::ready(Err(IoError::of(&request, self, IoErrorKind::Gone)));
            }
            self.writes_left.set(left - 1);
        }
        self.disk.submit(request)
    }
}

/// Adds an empty disk in one of three ways, with so many writes to it; the disk.
async fn add(rt: &Rt, way: usize, writes: usize) -> Rc<MemoryDevice> {
    let level = if way == 1 { Level::Raid1 } else { Level::Raid5 };
    let slots = if way == 1 { 2 } else { 3 };
    let size = Some(ByteCount::mib(1));
    let new = NewArray { assume_clean: true, size, policy: Policy::Bitmap, ..new(level, slots) };
    let disks = disks(&new, slots, 1);
    let empty = MemoryDevice::new("empty", DISK);
    let device: DeviceRef =
        Rc::new(Dies { disk: Rc::clone(&empty), writes_left: Cell::new(writes) });
    let uuid = Uuid([99; 16]);
    let choice = choose(&devices(&disks)).await;
    // It fails, as it may.
    match way {
        0 => {
            let set = live(rt, &devices(&disks), false).await.expect("opens");
            let _ = set.add(device, None, uuid).await;
        }
        1 => {
            let _ = grow::mirrors(rt, choice, 3, &[NewMember { device, uuid }], 1).await;
        }
        _ => {
            let _ = Reshape::begin(rt, choice, 4, &[NewMember { device, uuid }], 1).await;
        }
    }
    empty
}

#[test]
fn a_device_that_joins_is_empty_or_a_device_of_the_set_after_each_write() {
    let runtime = crate::rig::runtime();
    let rt = runtime.handle();
    let done = runtime.block_on(async move {
        for way in 0..3 {
            for writes in 0..8 {
                let disk = add(&rt, way, writes).await;
                let bytes = disk.peek(Offset(0), DISK).to_vec();
                let found = assemble::find(&(disk as DeviceRef)).await.expect("readable");
                let is_of_set = found.is_some_and(|one| one.superblock.set_uuid() == Uuid([7; 16]));
                let is_empty = bytes.iter().all(|byte| *byte == 0);
                assert_eq!(is_empty, writes == 0, "way {way}: the writes get there");
                assert!(is_empty || is_of_set, "way {way} after {writes} writes");
            }
        }
    });
    done.expect("all is done");
}
