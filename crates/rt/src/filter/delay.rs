//! Takes longer: a latency for each request, and a bandwidth that all share.
//!
//! A request first waits for the line: the line moves one request after another, in the order of
//! submission, at the given bandwidth (a flush, a discard and a write-zeroes move no bytes). Then it
//! waits for the latency, and only then goes down. So latencies overlap, transfers don't, and what the
//! device below takes comes on top.
//!
//! It is a blunt tool for tests and for "what if this link were slower"; `sim` has links, disks and
//! controllers that are modelled from data sheets.

use crate::device::{Device, DeviceRef, Geometry, IoFuture, OpKind, Request};
use crate::executor::Rt;
use std::cell::Cell;
use std::num::NonZeroU64;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::{ByteCount, Instant};

/// How much longer requests take. The default is not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slowness {
    /// Added to each request.
    pub latency: Duration,
    /// What the shared line moves; `None` is a line without limit.
    pub bytes_per_second: Option<NonZeroU64>,
}

/// See the [module](self).
pub struct Delay {
    below: DeviceRef,
    rt: Rt,
    slowness: Cell<Slowness>,
    line_free_at: Cell<Instant>,
}

impl Delay {
    /// `below`, slowed.
    pub fn new(below: DeviceRef, rt: &Rt, slowness: Slowness) -> Rc<Delay> {
        Rc::new(Delay {
            below,
            rt: rt.clone(),
            slowness: Cell::new(slowness),
            line_free_at: Cell::default(),
        })
    }

    /// Changes the slowness for requests that come from here on.
    pub fn set(&self, slowness: Slowness) {
        self.slowness.set(slowness);
    }

    /// When a request that comes now goes down.
    fn book(&self, request: &Request) -> Instant {
        let slowness = self.slowness.get();
        let mut at = self.rt.now();
        let moves = matches!(request.kind(), OpKind::Read | OpKind::Write);
        if let (Some(rate), true) = (slowness.bytes_per_second, moves) {
            at = at.max(self.line_free_at.get()) + transfer_time(request.len(), rate);
            self.line_free_at.set(at);
        }
        at + slowness.latency
    }
}

/// How long so many bytes take, rounded up to a nanosecond.
fn transfer_time(len: ByteCount, bytes_per_second: NonZeroU64) -> Duration {
    let nanos = (u128::from(len.bytes()) * 1_000_000_000).div_ceil(bytes_per_second.get().into());
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

impl Device for Delay {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn name(&self) -> Arc<str> {
        self.below.name()
    }

    fn begin(&self, request: Request) -> IoFuture {
        let at = self.book(&request);
        if at <= self.rt.now() {
            return self.below.submit(request);
        }
        let (sleep, below) = (self.rt.sleep_until(at), Rc::clone(&self.below));
        IoFuture::new(async move {
            sleep.await;
            below.submit(request).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;
    use crate::virtual_time::{run, runtime};
    use futures_util::future::join_all;
    use stdx::Offset;

    #[test]
    fn latencies_overlap_and_transfers_queue() {
        let runtime = runtime();
        let rt = runtime.handle();
        let slowness = Slowness {
            latency: Duration::from_micros(100),
            bytes_per_second: NonZeroU64::new(512_000_000),
        };
        let delay = Delay::new(MemoryDevice::new("m", ByteCount::mib(1)), &rt, slowness);
        run(&runtime, async move {
            let read = || delay.submit(Request::read(Offset(0), ByteCount(51_200)));
            join_all((0..10).map(|_| read())).await;
            // Ten transfers of 100 µs one after another, and the latency of the last.
            assert_eq!(rt.now().since(Instant::START), Duration::from_micros(1100));
            delay.set(Slowness::default());
            read().await.expect("read");
            assert_eq!(rt.now().since(Instant::START), Duration::from_micros(1100));
        });
    }
}
