//! A host bus adapter, or a RAID controller.
//!
//! Theory. Each command occupies the controller's processor for a while, and all data passes one inner
//! bus; both are booked in the order of arrival. A plain adapter ([`Controller::attach`]) is only that.
//! A RAID controller puts its [cache](CachedDevice) before each of its LUNs ([`Controller::cached`]).
//!
//! **What a user can set** ([`ControllerOptions`]), where it is not as the profile says:
//!
//! | option | says | default |
//! |---|---|---|
//! | cache | write-back answers a write from the cache, write-through from the volume | write-back with a battery |
//! | flush | honoured: a flush writes the cache back, and flushes the volume; ignored: it is answered at once | ignored with a battery |
//! | cache size | a smaller or larger cache, as where a test is scaled down | the profile's |
//! | read-ahead | how far a stream is read ahead; 0 for not at all | the profile's |
//!
//! Ignoring a flush is safe with a battery, and why arrays do it. Without one, a power cut then loses
//! what was answered and flushed; so it does in the model.
//!
//! Several LUNs share processor, bus and parity engine, and each has an equal part of the cache:
//! controllers of the time divided it no other way that is published.

mod cache;

pub use cache::CachedDevice;

use crate::profile::ControllerProfile;
use rt::{Device, DeviceRef, Geometry, IoFuture, Request, Rt};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use stdx::{ByteCount, Duration, Instant};

/// Whether a cache answers writes, or only keeps them for reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachePolicy {
    /// A write is answered when it is in the cache.
    WriteBack,
    /// A write is answered when the volume has it.
    WriteThrough,
}

/// What becomes of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushPolicy {
    /// It is answered when all that was written is durable.
    Honoured,
    /// It is answered at once, and nothing is done.
    Ignored,
}

/// What is set otherwise than the profile says. See the [module](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct ControllerOptions {
    /// Write-back or write-through.
    pub cache: Option<CachePolicy>,
    /// What becomes of a flush.
    pub flush: Option<FlushPolicy>,
    /// How far a stream is read ahead.
    pub read_ahead: Option<ByteCount>,
    /// The size of the cache.
    pub cache_size: Option<ByteCount>,
}

/// A controller. See the [module](self).
pub struct Controller {
    rt: Rt,
    overhead: Duration,
    ns_per_byte: f64,
    processor: Cell<Instant>,
    bus: Cell<Instant>,
    cache: CacheLimits,
}

/// What a cache can hold and does.
#[derive(Clone, Copy)]
struct CacheLimits {
    bytes: u64,
    /// Keeps what it holds through a power cut.
    battery: bool,
    write_back: bool,
    flush_ignored: bool,
    /// Share of the cache above which it writes back at full speed, 0 to 1.
    mark: f64,
    piece_bytes: u64,
    depth: usize,
    read_ahead: u64,
}

impl Controller {
    /// A controller of this profile.
    pub fn new(rt: &Rt, profile: &ControllerProfile) -> Rc<Controller> {
        Controller::with_options(rt, profile, ControllerOptions::default())
    }

    /// A controller of this profile, set so.
    pub fn with_options(
        rt: &Rt,
        profile: &ControllerProfile,
        options: ControllerOptions,
    ) -> Rc<Controller> {
        let by_profile = (profile.cache_mb.value * 1_048_576.0) as u64;
        let bytes = options.cache_size.map_or(by_profile, ByteCount::bytes);
        let battery = profile.battery_backed.value && bytes > 0;
        let write_back = match options.cache {
            None => battery,
            Some(policy) => policy == CachePolicy::WriteBack && bytes > 0,
        };
        let flush_ignored = match options.flush {
            None => battery && write_back,
            Some(policy) => policy == FlushPolicy::Ignored,
        };
        let read_ahead = options.read_ahead.map_or(profile.read_ahead_kb.value * 1024, |size| {
            // More than a quarter of the cache would push out what was read ahead before it is used.
            size.bytes().min(bytes / 4)
        });
        Rc::new(Controller {
            rt: rt.clone(),
            overhead: Duration::from_nanos((profile.command_overhead_us.value * 1e3) as u64),
            ns_per_byte: 1e3 / profile.throughput_mb_s.value,
            processor: Cell::new(Instant::START),
            bus: Cell::new(Instant::START),
            cache: CacheLimits {
                bytes,
                battery,
                write_back,
                flush_ignored,
                mark: profile.destage_percent.value / 100.0,
                piece_bytes: profile.destage_kb.value * 1024,
                depth: profile.destage_depth.value as usize,
                read_ahead,
            },
        })
    }

    /// `device` behind the controller as a plain adapter.
    pub fn attach(self: &Rc<Self>, device: DeviceRef) -> DeviceRef {
        Rc::new(AttachedDevice { controller: Rc::clone(self), device })
    }

    /// Occupies the processor and the bus; returns when both are done.
    fn pass(&self, bytes: ByteCount) -> Instant {
        let now = self.rt.now();
        self.processor.set(now.max(self.processor.get()) + self.overhead);
        let span = Duration::from_nanos((bytes.bytes() as f64 * self.ns_per_byte) as u64);
        self.bus.set(now.max(self.bus.get()) + span);
        self.processor.get().max(self.bus.get())
    }
}

struct AttachedDevice {
    controller: Rc<Controller>,
    device: DeviceRef,
}

impl Device for AttachedDevice {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn name(&self) -> Arc<str> {
        self.device.name()
    }

    fn begin(&self, request: Request) -> IoFuture {
        let (controller, device) = (Rc::clone(&self.controller), Rc::clone(&self.device));
        IoFuture::new(async move {
            // The data streams through while the device is at work; only the command comes first.
            let passed = controller.pass(request.len());
            controller.rt.sleep(controller.overhead).await;
            let result = device.submit(request).await;
            controller.rt.sleep_until(passed).await;
            result
        })
    }
}
