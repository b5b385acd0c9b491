//! A bug of ours, which an assertion finds: it breaks one set, and nothing more is written to that.
//!
//! What could break: the program ends with all that it serves; requests that wait for ever; a superblock that says
//! "clean" over rows that were half written.

use super::*;
use md::superblock::SUPERBLOCK_BYTES;
use md::superblock::v1::SuperblockV1;
use rt::{Geometry, IoFuture};
use std::cell::Cell;

/// A disk whose driver has a bug: from the moment on that it is armed a request of the data panics, when it is handed
/// over or when its answer is polled.
struct Buggy {
    disk: Rc<MemoryDevice>,
    armed: Rc<Cell<bool>>,
    at_once: bool,
    /// Writes that reached the disk after it was armed.
    written: Rc<Cell<u32>>,
}

impl Device for Buggy {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }
    fn name(&self) -> std::sync::Arc<str> {
        self.disk.name()
    }
    fn begin(&self, request: Request) -> IoFuture {
        // Superblocks are written as they should be.
        let is_data = request.offset >= Offset(1 << 20);
        if self.armed.get() && is_data {
            assert!(!self.at_once, "a bug");
            return IoFuture::new(async { panic!("a bug") });
        }
        if self.armed.get() && request.kind() != rt::OpKind::Read {
            self.written.set(self.written.get() + 1);
        }
        self.disk.submit(request)
    }
}

#[test]
fn a_panic_in_a_set_ends_its_requests_with_errors_and_nothing_says_clean_after_it() {
    for (level, slots) in SHAPES.into_iter().chain([(Level::Raid0, 2)]) {
        for (at_once, reads) in [(false, false), (true, false), (false, true), (true, true)] {
            let runtime = crate::rig::runtime();
            let rt = runtime.handle();
            let done = runtime.block_on(async move {
                let new = NewArray { assume_clean: true, ..new(level, slots) };
                let disks = disks(&new, slots, 3);
                let (armed, written) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
                let buggy = |disk: &Rc<MemoryDevice>| {
                    let (disk, armed) = (Rc::clone(disk), Rc::clone(&armed));
                    Rc::new(Buggy { disk, armed, at_once, written: Rc::clone(&written) })
                        as DeviceRef
                };
                let devices: Vec<DeviceRef> = disks.iter().map(buggy).collect();
                let set = live(&rt, &devices, false).await.expect("opens");
                let other = MemoryDevice::new("other", DISK);
                write(&set.device(), 0, 7).await.expect("written");
                armed.set(true);
                // The second one is under way when the first one panics.
                let what = format!("{level} {at_once} {reads}");
                let device = set.device();
                if reads {
                    assert_eq!(read(&*device, 300).await, None, "{what}");
                } else {
                    let both = (write(&device, 300, 8), write(&device, 310, 8));
                    let (one, two) = futures_util::future::join(both.0, both.1).await;
                    assert!(one.is_err() && two.is_err(), "{what}");
                }
                let panicked = set.broken().expect("it is broken");
                assert_eq!(panicked.message, "a bug", "{what}");
                let writes = written.get();
                assert!(write(&device, 1, 8).await.is_err(), "{what}");
                assert_eq!(read(&*device, 0).await, None, "{what}");
                let stopped = set.stop().await.expect_err("it can't be stopped").to_string();
                assert!(stopped.contains("a bug") && stopped.contains("power cut"), "{stopped}");
                rt.sleep(std::time::Duration::from_secs(10)).await;
                assert_eq!(written.get(), writes, "{what}: nothing was written after it");
                // Others go on.
                other.submit(Request::write(Offset(0), Buf::zeros(512))).await.expect("written");
                let says_clean = |disk: &Rc<MemoryDevice>| {
                    let bytes = disk.peek(Offset(4096), ByteCount(SUPERBLOCK_BYTES as u64));
                    SuperblockV1::decode(&bytes.to_vec()).expect("a superblock").is_clean()
                };
                let has_parity = !matches!(level, Level::Raid0);
                assert!(!has_parity || !disks.iter().any(says_clean), "{what}");
                armed.set(false);
                let set = live(&rt, &devices, false).await.expect("opens again");
                assert_eq!(read(&*set.device(), 0).await, Some(7), "{what}");
            });
            done.expect("all is done");
        }
    }
}
