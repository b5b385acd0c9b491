//! A background service of a RAID controller: what its firmware reads of each drive for itself.
//!
//! Arrays scan their media while they work, so that a sector which has gone bad is found before a
//! rebuild needs it. The scan takes the arm: two seeks and a read each time. Initialising, cloning and
//! rebuilding, which stream, lose more by that than random I/O does.
//!
//! The model: the service goes over the drive in order, from a random place (a scan of a week can be
//! anywhere when a study begins) and round again, in reads of one length, so many bytes a second. Only
//! one is under way; a late one delays the next, it is not made up for. It pauses when the drive had no
//! request for `PAUSE_AFTER`: nothing is there then that it could slow down, and a simulation in
//! which nothing else happens comes to its end.
//!
//! Not modelled: a service that yields to host I/O (a profile would give it a lower rate), and what it
//! does when it finds an error.

use crate::profile::ServiceRate;
use rt::{Device, DeviceRef, Geometry, IoFuture, Priority, Request, Rt};
use std::cell::Cell;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use stdx::{ByteCount, Duration, Instant, Offset, Prng};

/// Without a request for so long, the service pauses.
const PAUSE_AFTER: Duration = Duration::from_secs(1);

/// A drive under a background service. See the [module](self).
pub struct ServicedDevice {
    rt: Rt,
    device: DeviceRef,
    this: Weak<ServicedDevice>,
    read: ByteCount,
    period: Duration,
    at: Cell<Offset>,
    last_request: Cell<Instant>,
    awake: Cell<bool>,
}

impl ServicedDevice {
    /// `device` under a service of this rate, which begins at a random place.
    pub fn over(
        rt: &Rt,
        device: DeviceRef,
        rate: ServiceRate,
        prng: &mut Prng,
    ) -> Rc<ServicedDevice> {
        let capacity = device.geometry().capacity;
        let read = ByteCount(rate.read_bytes).min(capacity);
        let reads = (capacity.bytes() / read.bytes().max(1)).max(1);
        Rc::new_cyclic(|this| ServicedDevice {
            rt: rt.clone(),
            device,
            this: Weak::clone(this),
            read,
            period: Duration::from_secs_f64(read.bytes() as f64 / (rate.mb_s * 1e6)),
            at: Cell::new(Offset(prng.below(reads) * read.bytes())),
            last_request: Cell::new(Instant::START),
            awake: Cell::new(false),
        })
    }

    fn wake(&self) {
        self.last_request.set(self.rt.now());
        if self.awake.replace(true) {
            return;
        }
        let (weak, rt) = (Weak::clone(&self.this), self.rt.clone());
        let task = self.rt.spawn(async move {
            while let Some(this) = weak.upgrade() {
                if rt.now().since(this.last_request.get()) > PAUSE_AFTER {
                    this.awake.set(false);
                    return;
                }
                let due = rt.now() + this.period;
                let capacity = this.device.geometry().capacity;
                let at = this.at.get();
                let next = at + this.read;
                let fits = (next + this.read).from_start() <= capacity;
                this.at.set(if fits { next } else { Offset::ZERO });
                let request = Request::read(at, this.read).with_priority(Priority::Background);
                let read = this.device.submit(request);
                drop(this);
                // What the service reads nobody needs; an error it leaves to whoever meets it.
                let _ = read.await;
                rt.sleep_until(due).await;
            }
        });
        task.detach();
    }
}

impl Device for ServicedDevice {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn name(&self) -> Arc<str> {
        self.device.name()
    }

    fn begin(&self, request: Request) -> IoFuture {
        self.wake();
        self.device.submit(request)
    }
}
