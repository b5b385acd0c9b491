//! Remembers the last requests: what, where, when, how long, with what result.
//!
//! For tests that claim something about order and place ("the bitmap is written before the data"), and
//! for looking at what an engine really does. A ring: the newest records are kept, and how many were
//! dropped is counted. Records stand in the order of their answers; a request that was never answered
//! has none.

use crate::device::{
    Device, DeviceRef, Geometry, IoErrorKind, IoFuture, Op, OpKind, Priority, Request,
};
use crate::executor::Rt;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::{ByteCount, Instant, Offset};

/// Records kept at the most (some 5 MiB). More remembers longer.
pub const RECORDS_MAX: usize = 1 << 16;

/// One answered request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// When it was submitted.
    pub at: Instant,
    /// What.
    pub op: OpKind,
    /// Whether it was a write that had to be durable when answered.
    pub fua: bool,
    /// For whom.
    pub priority: Priority,
    /// Where.
    pub offset: Offset,
    /// How much.
    pub len: ByteCount,
    /// From submission to answer.
    pub latency: Duration,
    /// How it ended.
    pub result: Result<(), IoErrorKind>,
}

impl fmt::Display for TraceRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TraceRecord { at, op, offset, len, latency, .. } = self;
        let fua = if self.fua { " fua" } else { "" };
        write!(f, "{at} {op}{fua} {} +{} {} ns", offset.bytes(), len.bytes(), latency.as_nanos())?;
        match self.result {
            Ok(()) => Ok(()),
            Err(kind) => write!(f, " failed: {kind}"),
        }
    }
}

/// See the [module](self).
pub struct Trace {
    below: DeviceRef,
    rt: Rt,
    ring: Rc<RefCell<Ring>>,
}

#[derive(Default)]
struct Ring {
    records: VecDeque<TraceRecord>,
    dropped: u64,
}

impl Trace {
    /// `below`, traced.
    pub fn new(below: DeviceRef, rt: &Rt) -> Rc<Trace> {
        Rc::new(Trace { below, rt: rt.clone(), ring: Rc::default() })
    }

    /// The records, oldest first.
    pub fn records(&self) -> Vec<TraceRecord> {
        self.ring.borrow().records.iter().copied().collect()
    }

    /// How many records were dropped for newer ones.
    pub fn dropped(&self) -> u64 {
        self.ring.borrow().dropped
    }

    /// Forgets all records.
    pub fn clear(&self) {
        *self.ring.borrow_mut() = Ring::default();
    }
}

impl Device for Trace {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn name(&self) -> Arc<str> {
        self.below.name()
    }

    fn begin(&self, request: Request) -> IoFuture {
        let at = self.rt.now();
        let mut record = TraceRecord {
            at,
            op: request.kind(),
            fua: matches!(request.op, Op::Write { fua: true, .. }),
            priority: request.priority,
            offset: request.offset,
            len: request.len(),
            latency: Duration::ZERO,
            result: Ok(()),
        };
        let (rt, ring) = (self.rt.clone(), Rc::clone(&self.ring));
        let below = self.below.submit(request);
        IoFuture::new(async move {
            let result = below.await;
            record.latency = rt.now().since(at);
            record.result = result.as_ref().map(|_| ()).map_err(|error| error.kind);
            let mut ring = ring.borrow_mut();
            if ring.records.len() == RECORDS_MAX {
                ring.records.pop_front();
                ring.dropped += 1;
            }
            ring.records.push_back(record);
            result
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::{Delay, Fault, Slowness};
    use crate::virtual_time::{run, runtime};
    use crate::{Buf, MemoryDevice};
    use stdx::Prng;

    #[test]
    fn records_say_what_when_where_and_with_what_result() {
        let runtime = runtime();
        let rt = runtime.handle();
        let slowness = Slowness { latency: Duration::from_micros(5), ..Slowness::default() };
        let fault = Fault::new(MemoryDevice::new("m", ByteCount(4096)), &rt, Prng::new(1));
        let trace = Trace::new(Delay::new(fault.clone(), &rt, slowness), &rt);
        run(&runtime, async move {
            let write = Request::write_fua(Offset(512), Buf::zeros(1024));
            trace.submit(write).await.expect("written");
            fault.go_away();
            trace.submit(Request::read(Offset(0), ByteCount(512))).await.expect_err("gone");
            let lines: Vec<String> = trace.records().iter().map(TraceRecord::to_string).collect();
            assert_eq!(
                lines,
                [
                    "0.000000 s write fua 512 +1024 5000 ns",
                    "0.000005 s read 0 +512 5000 ns failed: the device is gone",
                ]
            );
        });
    }

    #[test]
    fn the_ring_keeps_the_newest_and_counts_the_rest() {
        let runtime = runtime();
        let trace = Trace::new(MemoryDevice::new("m", ByteCount::gib(1)), &runtime.handle());
        run(&runtime, async move {
            for i in 0..RECORDS_MAX as u64 + 10 {
                trace
                    .submit(Request::discard(Offset(512 * i), ByteCount(512)))
                    .await
                    .expect("done");
            }
            let records = trace.records();
            assert_eq!((records.len(), trace.dropped()), (RECORDS_MAX, 10));
            assert_eq!(records[0].offset, Offset(5120));
            trace.clear();
            assert_eq!((trace.records().len(), trace.dropped()), (0, 0));
        });
    }
}
