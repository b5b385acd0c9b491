//! Asserts that no two writes in flight overlap, and that answers have the length that was asked for.
//!
//! Requests in flight together may be done in any order (rule 2 of [`Device`]). So two writes of one
//! place, in flight together, leave any of the two there: whoever submits them has lost data already,
//! though the disk below may hide it for years by doing them in order. This filter lies under an engine
//! in a test and panics at the second of them, by the names of both.
//!
//! | in flight, with | write, write-zeroes | discard | read |
//! |---|---|---|---|
//! | write, write-zeroes | **panics** | **panics**: the later may win | counted |
//! | discard | **panics** | allowed: both leave anything | counted |
//!
//! **A read of a place that is being written** is allowed: each of its sectors is the old one or the new
//! one, and who reads so (a client that doesn't wait for its own write) may. An engine that needs one
//! of the two must not; its test asks for [`Overlap::reads_of_writes`].
//!
//! **A write whose future was dropped** is still under way (rule 5): its range is free when the device
//! has answered, for which the filter waits in a task of its own.
//!
//! Cost: each request looks at all that are in flight. It is for tests.

use crate::device::{Device, DeviceRef, Geometry, IoFuture, IoResult, OpKind, Request};
use crate::executor::Rt;
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use stdx::ByteCount;

/// See the [module](self).
pub struct Overlap {
    below: DeviceRef,
    rt: Rt,
    flights: Rc<Flights>,
}

#[derive(Default)]
struct Flights {
    /// What is in flight that has a range: all but flushes.
    open: RefCell<Slab<(OpKind, Range<u64>)>>,
    reads_of_writes: Cell<u64>,
}

impl Overlap {
    /// `below`, watched.
    pub fn new(below: DeviceRef, rt: &Rt) -> Rc<Overlap> {
        Rc::new(Overlap { below, rt: rt.clone(), flights: Rc::default() })
    }

    /// How many reads were in flight together with a write of the same place.
    pub fn reads_of_writes(&self) -> u64 {
        self.flights.reads_of_writes.get()
    }

    /// Enters a request among those in flight.
    ///
    /// # Panics
    /// If it writes what another one in flight writes.
    fn enter(&self, request: &Request) -> usize {
        let (kind, start) = (request.kind(), request.offset.bytes());
        let range = start..start + request.len().bytes();
        let mut open = self.flights.open.borrow_mut();
        let touched = open.iter().filter(|(_, (_, other))| {
            kind != OpKind::Flush && other.start < range.end && range.start < other.end
        });
        let mut torn = false;
        for (_, (other_kind, other)) in touched {
            match (kind, *other_kind) {
                (OpKind::Read, OpKind::Read) | (OpKind::Discard, OpKind::Discard) => {}
                (OpKind::Read, _) | (_, OpKind::Read) => torn = true,
                _ => panic!(
                    "{}: {kind} of {} at {} while a {other_kind} of {} at byte {} is under way",
                    self.below.name(),
                    request.len(),
                    request.offset,
                    ByteCount(other.end - other.start),
                    other.start,
                ),
            }
        }
        let flights = &self.flights;
        flights.reads_of_writes.set(flights.reads_of_writes.get() + u64::from(torn));
        open.insert((kind, range))
    }
}

impl Device for Overlap {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn name(&self) -> Arc<str> {
        self.below.name()
    }

    fn begin(&self, request: Request) -> IoFuture {
        let key = self.enter(&request);
        let answer_bytes = match request.kind() {
            OpKind::Read => request.len().as_usize(),
            _ => 0,
        };
        let below = Some(self.below.submit(request));
        let (rt, flights) = (self.rt.clone(), Rc::clone(&self.flights));
        IoFuture::new(Flight { below, rt, flights, key, answer_bytes })
    }
}

/// A request in flight; leaves the table when it is answered, though nobody may wait for that any more.
struct Flight {
    below: Option<IoFuture>,
    rt: Rt,
    flights: Rc<Flights>,
    key: usize,
    answer_bytes: usize,
}

impl Future for Flight {
    type Output = IoResult;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<IoResult> {
        let below = self.below.as_mut().expect("a future is not polled after its end");
        let Poll::Ready(result) = Pin::new(below).poll(context) else { return Poll::Pending };
        self.below = None;
        let (kind, range) = self.flights.open.borrow_mut().remove(self.key);
        if let Ok(data) = &result {
            let (len, at) = (ByteCount(range.end - range.start), range.start);
            let came = data.len();
            assert_eq!(came, self.answer_bytes, "bytes that answer a {kind} of {len} at byte {at}");
        }
        Poll::Ready(result)
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if let Some(below) = self.below.take() {
            let (flights, key) = (Rc::clone(&self.flights), self.key);
            let rest = async move {
                let _ = below.await;
                flights.open.borrow_mut().remove(key);
            };
            self.rt.spawn(rest).detach();
        }
    }
}

#[cfg(test)]
mod tests {
    //! What could break: two writes that overlap pass, or such that don't are refused; a write counts as
    //! done while the disk still does it.

    use super::*;
    use crate::MemoryDevice;
    use crate::filter::{Delay, Slowness};
    use crate::sg::SgList;
    use crate::virtual_time::{run, runtime};
    use futures_util::future::join_all;
    use std::time::Duration;
    use stdx::Offset;

    const LATENCY: Duration = Duration::from_micros(10);

    fn watched(rt: &Rt) -> Rc<Overlap> {
        let slowness = Slowness { latency: LATENCY, ..Slowness::default() };
        Overlap::new(Delay::new(MemoryDevice::new("m", ByteCount::mib(1)), rt, slowness), rt)
    }

    fn write(sector: u64, sectors: usize) -> Request {
        Request::write(Offset(512 * sector), SgList::zeros(512 * sectors))
    }

    fn read(sector: u64, sectors: u64) -> Request {
        Request::read(Offset(512 * sector), ByteCount(512 * sectors))
    }

    /// Submits these together.
    fn together(requests: Vec<Request>) -> u64 {
        let runtime = runtime();
        let device = watched(&runtime.handle());
        run(&runtime, async move {
            let answers = join_all(requests.into_iter().map(|request| device.submit(request)));
            answers.await.into_iter().for_each(|answer| drop(answer.expect("done")));
            device.reads_of_writes()
        })
    }

    #[test]
    fn neighbours_reads_and_flushes_pass_and_torn_reads_are_counted() {
        let discard = || Request::discard(Offset(0), ByteCount(1024));
        assert_eq!(together(vec![write(0, 2), write(2, 1), write(3, 5), Request::flush()]), 0);
        assert_eq!(together(vec![read(0, 4), read(1, 2), discard(), discard()]), 2);
        assert_eq!(together(vec![read(0, 2), write(1, 3), read(3, 1), read(4, 1)]), 2);
    }

    #[test]
    #[should_panic(expected = "m: write of 512 B at byte 1024 while a write of 1 KiB at byte 512")]
    fn a_write_over_one_that_is_under_way_panics() {
        together(vec![write(1, 2), write(2, 1)]);
    }

    #[test]
    #[should_panic(expected = "write-zeroes of 512 B at byte 0 while a discard of 1 KiB at byte 0")]
    fn zeroes_over_a_discard_that_is_under_way_panic() {
        let (at, len) = (Offset(0), ByteCount(512));
        together(vec![Request::discard(at, ByteCount(1024)), Request::write_zeroes(at, len)]);
    }

    #[test]
    #[should_panic(expected = "while a write of 512 B at byte 0 is under way")]
    fn a_write_that_nobody_waits_for_is_still_under_way() {
        let runtime = runtime();
        let device = watched(&runtime.handle());
        run(&runtime, async move {
            drop(device.submit(write(0, 1)));
            let _ = device.submit(write(0, 1)).await;
        });
    }

    #[test]
    fn a_place_is_free_again_when_the_device_has_answered_whoever_waits() {
        let runtime = runtime();
        let rt = runtime.handle();
        let device = watched(&rt);
        run(&runtime, async move {
            drop(device.submit(write(0, 1)));
            rt.sleep(2 * LATENCY).await;
            device.submit(write(0, 1)).await.expect("written");
            device.submit(write(0, 1)).await.expect("written");
            assert_eq!(device.reads_of_writes(), 0);
        });
    }
}
