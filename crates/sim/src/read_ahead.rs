//! Reading through the host's page cache: read-ahead of the block layer, and the copy to the program.
//!
//! `hdparm -t` and `dd` without `direct` read a block device through the page cache. What the device
//! sees then are not the program's reads but the system's read-ahead windows, whose limit is set by
//! `blockdev --setra`. So two things decide the rate of one stream: whether the next window is being
//! read while the program takes in the last, and how large the windows are.
//!
//! **The rules**, after Linux (`mm/readahead.c`, "on-demand readahead"; Wu, Xi and Xu, "On the design of
//! a new Linux readahead framework", 2008):
//!
//! 1. A read that goes on where an earlier one ended, or begins at the start of the device, belongs to a
//!    stream. Any other is read by itself, in one request, and may become a stream with the next.
//! 2. A stream's first window is the read, rounded up to a power of two, times 4 where that is no more
//!    than 1/32 of the limit, times 2 where it is no more than 1/4, else the limit.
//! 3. The next window is 4 times the last below 1/16 of the limit, twice up to half of it, else the limit.
//! 4. When a read enters the newest window, the next one is started, without waiting.
//! 5. Each read costs the host a call, and the copy to the program; each window an I/O, paid where it goes down.
//! 6. A window that was read once is forgotten, and so is what a write covers.
//!
//! With a limit of 0 nothing is read ahead. Not modelled: keeping pages for a second read (`hdparm`
//! drops the cache, and a benchmark that is answered from it measures memory), writing through the page
//! cache (writes pass as direct ones do), the splitting of a window at the device's largest request.

use rt::sync::Notify;
use rt::{
    Device, DeviceRef, Geometry, IoFuture, IoResult, Op, OpKind, Request, Rt, SgList, Work,
    WorkKind,
};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use stdx::{ByteCount, Offset};

/// Streams that are followed; the one that was longest idle makes room. As many as the largest
/// number of processes that the studies let read at once.
const STREAMS_MAX: usize = 64;
/// Windows of a stream: the one that is used up, the one that is coming, and as many again for reads
/// of the program that overtake one another.
const WINDOWS_MAX: usize = 4;
/// The unit of the page cache.
const PAGE: u64 = 4096;
/// The largest limit: Linux takes more, but a window is one request here, and no interface takes more.
pub const READ_AHEAD_MAX: ByteCount = ByteCount::mib(32);

/// A device read through the page cache. See the [module](self).
pub struct HostReadAhead {
    rt: Rt,
    below: DeviceRef,
    limit: u64,
    this: Weak<HostReadAhead>,
    /// The longest idle first.
    streams: RefCell<VecDeque<Rc<RefCell<Stream>>>>,
}

/// One sequential reader.
#[derive(Default)]
struct Stream {
    /// Where its next read begins, if it is one.
    next: u64,
    /// The size of its newest window; 0 before the first.
    size: u64,
    /// In the order in which they were started; the last is the newest.
    windows: Vec<Window>,
}

#[derive(Clone)]
struct Window {
    range: Range<u64>,
    fetch: Rc<Fetch>,
}

/// A window that is being read, or has been.
#[derive(Default)]
struct Fetch {
    result: RefCell<Option<IoResult>>,
    done: Notify,
}

impl HostReadAhead {
    /// `below` through a page cache that reads so far ahead, [`READ_AHEAD_MAX`] at the most.
    pub fn over(rt: &Rt, below: DeviceRef, limit: ByteCount) -> Rc<HostReadAhead> {
        let limit = limit.min(READ_AHEAD_MAX).round_down(ByteCount(PAGE)).bytes();
        Rc::new_cyclic(|this| HostReadAhead {
            rt: rt.clone(),
            below,
            limit,
            this: Weak::clone(this),
            streams: RefCell::default(),
        })
    }

    async fn read(self: Rc<Self>, request: Request) -> IoResult {
        let len = request.len();
        let range = request.offset.bytes()..request.offset.bytes() + len.bytes();
        let data = match self.stream(&range) {
            Some(stream) => self.read_stream(&stream, range, request).await?,
            None => self.below.submit(request).await?,
        };
        let call = Work::new(WorkKind::Call, ByteCount::ZERO).and(WorkKind::Copy, len);
        self.rt.charge(call.anywhere()).await;
        Ok(data)
    }

    /// The stream that this read goes on with. A new one is entered where there is none.
    fn stream(&self, range: &Range<u64>) -> Option<Rc<RefCell<Stream>>> {
        if self.limit == 0 {
            return None;
        }
        let mut streams = self.streams.borrow_mut();
        let known = streams.iter().position(|stream| stream.borrow().next == range.start);
        let (stream, goes_on) = match known.and_then(|index| streams.remove(index)) {
            Some(stream) => (stream, true),
            None => (Rc::default(), range.start == 0),
        };
        // At once: the program's next read may come before this one is answered.
        stream.borrow_mut().next = range.end;
        if streams.len() == STREAMS_MAX {
            streams.pop_front();
        }
        streams.push_back(Rc::clone(&stream));
        goes_on.then_some(stream)
    }

    async fn read_stream(
        &self,
        stream: &RefCell<Stream>,
        range: Range<u64>,
        request: Request,
    ) -> IoResult {
        let (mut at, mut data) = (range.start, SgList::new());
        while at < range.end {
            let window = self.window(&mut stream.borrow_mut(), at, range.end);
            while window.fetch.result.borrow().is_none() {
                window.fetch.done.notified().await;
            }
            let fetched = match &*window.fetch.result.borrow() {
                Some(Ok(fetched)) => Some(fetched.clone()),
                _ => None,
            };
            let Some(fetched) = fetched else {
                // The window failed, perhaps beyond what the program wants: read that by itself.
                stream.borrow_mut().windows.clear();
                return self.below.submit(request).await;
            };
            let to = window.range.end.min(range.end);
            let from = (at - window.range.start) as usize;
            data.append(fetched.slice(from..from + (to - at) as usize));
            at = to;
        }
        Ok(data)
    }

    /// The window in which `at` lies, of a read that ends at `end`; the next is under way when it is
    /// given.
    fn window(&self, stream: &mut Stream, at: u64, end: u64) -> Window {
        let known = stream.windows.iter().position(|window| window.range.contains(&at));
        let index = known.unwrap_or_else(|| {
            self.start(stream, at, end - at);
            stream.windows.len() - 1
        });
        let window = stream.windows[index].clone();
        if index + 1 == stream.windows.len() && window.range.end < self.capacity() {
            self.start(stream, window.range.end, PAGE);
        }
        while stream.windows.len() > WINDOWS_MAX {
            stream.windows.remove(0);
        }
        window
    }

    fn capacity(&self) -> u64 {
        self.below.geometry().capacity.bytes()
    }

    /// Starts reading a stream's next window, from `at`.
    fn start(&self, stream: &mut Stream, at: u64, wanted: u64) {
        stream.size = match stream.size {
            0 => first_window(wanted, self.limit),
            size => next_window(size, self.limit),
        };
        let range = at..(at + stream.size).min(self.capacity());
        let fetch = Rc::new(Fetch::default());
        stream.windows.push(Window { range: range.clone(), fetch: Rc::clone(&fetch) });
        let below = Rc::clone(&self.below);
        let task = self.rt.spawn(async move {
            let len = ByteCount(range.end - range.start);
            let result = below.submit(Request::read(Offset(range.start), len)).await;
            *fetch.result.borrow_mut() = Some(result);
            fetch.done.notify_waiters();
        });
        task.detach();
    }

    /// What is about to be written, or was, is not served from a window.
    fn forget(&self, range: &Range<u64>) {
        for stream in self.streams.borrow().iter() {
            let stream = &mut *stream.borrow_mut();
            let stale =
                |window: &Window| window.range.start < range.end && range.start < window.range.end;
            if let Some(first) = stream.windows.iter().position(stale) {
                stream.windows.truncate(first);
            }
        }
    }
}

/// Rule 2: the first window of a stream, in bytes.
fn first_window(read: u64, limit: u64) -> u64 {
    let size = read.next_multiple_of(PAGE).next_power_of_two();
    let size = if size <= limit / 32 {
        size * 4
    } else if size <= limit / 4 {
        size * 2
    } else {
        limit
    };
    size.min(limit)
}

/// Rule 3: the window after one of this size.
fn next_window(size: u64, limit: u64) -> u64 {
    let factor = if size < limit / 16 { 4 } else { 2 };
    (size * factor).min(limit)
}

impl Device for HostReadAhead {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn name(&self) -> Arc<str> {
        self.below.name()
    }

    fn begin(&self, request: Request) -> IoFuture {
        let Some(this) = self.this.upgrade() else { return self.below.submit(request) };
        match &request.op {
            Op::Read(_) => IoFuture::new(this.read(request)),
            _ if request.kind() == OpKind::Flush => self.below.submit(request),
            _ => IoFuture::new(async move {
                let range = request.offset.bytes()..request.offset.bytes() + request.len().bytes();
                this.forget(&range);
                let result = this.below.submit(request).await;
                this.forget(&range);
                result
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    //! What could break: windows of the wrong size, a stream that waits for each window, and bytes of
    //! before a write.

    use super::*;
    use crate::Machine;
    use proptest::prelude::*;
    use rt::{Buf, MemoryDevice};

    #[test]
    fn windows_grow_as_linux_lets_them() {
        let kib = |n: u64| n << 10;
        assert_eq!(first_window(kib(4), kib(128)), kib(16));
        assert_eq!(first_window(512, kib(128)), kib(16));
        assert_eq!(first_window(kib(16), kib(128)), kib(32));
        assert_eq!(first_window(kib(64), kib(128)), kib(128));
        assert_eq!(first_window(kib(2048), kib(128)), kib(128));
        assert_eq!(next_window(kib(4), kib(128)), kib(16));
        assert_eq!(next_window(kib(16), kib(128)), kib(32));
        assert_eq!(next_window(kib(128), kib(128)), kib(128));
    }

    proptest! {
        /// Windows are a cache: a wrong cut or a stale window would show.
        #[test]
        fn reading_ahead_gives_the_bytes_of_the_device(
            steps in prop::collection::vec((any::<bool>(), any::<bool>(), 0_u64..200, 1_u64..40), 1..60),
            limit_kib in 0_u64..64,
        ) {
            let machine = Machine::builder(1).build();
            let disk = MemoryDevice::new("disk", ByteCount(256 * 512));
            let device = HostReadAhead::over(&machine.rt(), disk, ByteCount::kib(limit_kib));
            machine.run(async move {
                let mut bytes = vec![0_u8; 256 * 512];
                let mut at = 0;
                for (index, (write, on, block, blocks)) in steps.into_iter().enumerate() {
                    at = if on && at + blocks <= 256 { at } else { block };
                    let blocks = blocks.min(256 - at);
                    let range = (at * 512) as usize..((at + blocks) * 512) as usize;
                    let place = Offset(at * 512);
                    if write {
                        bytes[range.clone()].fill(index as u8 + 1);
                        let data = Buf::copy_of(&bytes[range]);
                        device.submit(Request::write(place, data)).await.expect("written");
                    } else {
                        let read = Request::read(place, ByteCount(blocks * 512));
                        let read = device.submit(read).await.expect("read");
                        assert_eq!(read.to_vec(), &bytes[range]);
                    }
                    at += blocks;
                }
            }).expect("no stall");
        }
    }

    #[test]
    fn a_stream_of_small_reads_over_a_slow_link_is_faster_with_a_longer_window() {
        let rate = |limit: ByteCount| {
            let machine = Machine::builder(1)
                .host("opteron-2008")
                .expect("a host")
                .link("iscsi-1g-1500")
                .expect("a link")
                .drives("hua723030ala640", 1)
                .expect("a drive")
                .build();
            let disk = machine.devices()[0].clone();
            let device = HostReadAhead::over(&machine.rt(), disk, limit);
            let count = 4000_u64;
            machine
                .run(async move {
                    for i in 0..count {
                        let read = Request::read(Offset(i * 4096), ByteCount(4096));
                        device.submit(read).await.expect("read");
                    }
                })
                .expect("no stall");
            count as f64 * 4.096e-3 / machine.rt().now().as_nanos() as f64 * 1e9
        };
        let (none, small, large) =
            (rate(ByteCount::ZERO), rate(ByteCount::kib(4)), rate(ByteCount::kib(128)));
        println!("4 KiB reads in order: {none:.1}, {small:.1}, {large:.1} MB/s");
        assert!(small > 1.9 * none && large > 2.0 * small && large < 118.0);
    }
}
