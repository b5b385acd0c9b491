//! What an I/O costs the processor of a simulated host, booked where it passes.
//!
//! Two layers take time of their own: the operating system, which submits an I/O and takes its completion (by the
//! host's profile), and a file system above it, for which a study may give a time. Direct I/O copies nothing. A
//! database's sessions are processes, each on whatever thread of the processor is free; all else is one program on one
//! thread.

use lab::study::{Kind, Workload};
use rt::{Device, DeviceRef, Geometry, IoFuture, Request, Rt, Work, WorkKind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::ByteCount;

/// A device, and what the host does for each request before it is handed down.
pub(crate) struct PaidIo {
    rt: Rt,
    below: DeviceRef,
    work: Work,
}

impl PaidIo {
    /// With the operating system's share of what a workload asks of a device.
    pub(crate) fn of_system(rt: &Rt, below: DeviceRef, workload: &Workload) -> DeviceRef {
        let work = Work::new(WorkKind::Io, ByteCount::ZERO);
        let work = match &workload.kind {
            Kind::Slob(_) => work.anywhere(),
            _ => work,
        };
        Rc::new(PaidIo { rt: rt.clone(), below, work })
    }

    /// With the share of a file system that takes so long for each request to a file.
    pub(crate) fn of_filesystem(rt: &Rt, file: DeviceRef, time: Duration) -> DeviceRef {
        if time.is_zero() {
            return file;
        }
        Rc::new(PaidIo { rt: rt.clone(), below: file, work: Work::program(time) })
    }
}

impl Device for PaidIo {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn name(&self) -> Arc<str> {
        self.below.name()
    }

    fn begin(&self, request: Request) -> IoFuture {
        let (rt, below, work) = (self.rt.clone(), Rc::clone(&self.below), self.work);
        IoFuture::new(async move {
            rt.charge(work).await;
            below.submit(request).await
        })
    }
}
