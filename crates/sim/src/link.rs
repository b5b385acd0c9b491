//! What lies between a host and its devices: bandwidth, latency, a limit of commands.
//!
//! Theory. A path carries one transfer at a time each way (or one at all, where it is not full
//! duplex), at the rate of its payload. Data is forwarded in frames, not whole: the device at the other
//! end starts on a write when its first frame is there, and a read begins to arrive while the device is
//! still reading. So a transfer that is faster than the device hides behind it, but for one frame. A
//! command goes over the path that is free first (round robin, when all are free). Beyond the command
//! limit, commands wait at the host.
//!
//! A command keeps its path. So that one stream is not bound to one lane of a wide port, what is larger than
//! the largest command of the adapter is cut, as hosts do, and the parts go side by side, each over the path
//! that is free first.
//!
//! [`Link`] is shared: attach all devices behind one port to one link.
//!
//! Not modelled: lost frames, arbitration, TCP's windows, a path that fails (a fault filter does).

use crate::profile::LinkProfile;
use futures_util::future::join_all;
use rt::sync::Semaphore;
use rt::{Device, DeviceRef, Geometry, IoFuture, Op, OpKind, Request, Rt, SgList};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use stdx::{ByteCount, Duration, Instant};

/// What travels as one: a SATA frame, four FC frames, some Ethernet frames.
const FRAME: ByteCount = ByteCount::kib(8);

/// Commands on a bus within a box: more than all its drives take.
const BUS_COMMANDS: usize = 1 << 20;

/// A link. See the [module](self).
pub struct Link {
    rt: Rt,
    ns_per_byte: f64,
    full_duplex: bool,
    half_latency: Duration,
    commands: Semaphore,
    command_max: Option<ByteCount>,
    paths: RefCell<Vec<Path>>,
}

/// When each direction of a path is free.
#[derive(Clone, Copy, Default)]
struct Path {
    down: Instant,
    up: Instant,
    /// How often it was chosen: ties go to the one that was chosen least.
    uses: u64,
}

impl Link {
    /// A link of this profile.
    pub fn new(rt: &Rt, profile: &LinkProfile) -> Rc<Link> {
        Rc::new(Link {
            rt: rt.clone(),
            ns_per_byte: 1e3 / profile.rate_mb_s.value,
            full_duplex: profile.full_duplex.value,
            half_latency: Duration::from_nanos((profile.latency_us.value * 500.0) as u64),
            commands: Semaphore::new(profile.command_limit.value as usize),
            command_max: profile.command_kb.as_ref().map(|kb| ByteCount::kib(kb.value)),
            paths: RefCell::new(vec![Path::default(); profile.paths.value as usize]),
        })
    }

    /// One path of this rate (10⁶ B/s) for both directions together, which takes no time and any number of
    /// commands: a bus within a box.
    pub(crate) fn bus(rt: &Rt, rate_mb_s: f64) -> Rc<Link> {
        Rc::new(Link {
            rt: rt.clone(),
            ns_per_byte: 1e3 / rate_mb_s,
            full_duplex: false,
            half_latency: Duration::ZERO,
            commands: Semaphore::new(BUS_COMMANDS),
            command_max: None,
            paths: RefCell::new(vec![Path::default()]),
        })
    }

    /// `device` as it is seen through the link.
    pub fn attach(self: &Rc<Self>, device: DeviceRef) -> DeviceRef {
        Rc::new(LinkedDevice { link: Rc::clone(self), device })
    }

    fn span(&self, bytes: ByteCount) -> Duration {
        Duration::from_nanos((bytes.bytes() as f64 * self.ns_per_byte) as u64)
    }

    /// Books a transfer on the best path, not before `from`; returns its start and end.
    fn book(&self, from: Instant, span: Duration, up: bool) -> (Instant, Instant) {
        let mut paths = self.paths.borrow_mut();
        let free = |path: &Path| if up { path.up } else { path.down };
        let best = paths.iter_mut().min_by_key(|path| (free(path).max(from), path.uses));
        let path = best.expect("a link has a path");
        path.uses += 1;
        let start = free(path).max(from);
        let end = start + span;
        if up || !self.full_duplex {
            path.up = end;
        }
        if !up || !self.full_duplex {
            path.down = end;
        }
        (start, end)
    }
}

struct LinkedDevice {
    link: Rc<Link>,
    device: DeviceRef,
}

impl Device for LinkedDevice {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn name(&self) -> Arc<str> {
        self.device.name()
    }

    fn begin(&self, request: Request) -> IoFuture {
        let command_max = self.link.command_max.filter(|max| request.len() > *max);
        match (command_max, &request.op) {
            (Some(max), Op::Read(_) | Op::Write { .. }) => self.begin_parts(request, max),
            _ => self.carry(request),
        }
    }
}

impl LinkedDevice {
    /// A request in commands of `max` and a rest, side by side.
    fn begin_parts(&self, request: Request, max: ByteCount) -> IoFuture {
        let (len, mut at, mut parts) = (request.len().bytes(), 0, Vec::new());
        while at < len {
            let end = (at + max.bytes()).min(len);
            let op = match &request.op {
                Op::Write { data, fua } => {
                    Op::Write { data: data.slice(at as usize..end as usize), fua: *fua }
                }
                _ => Op::Read(ByteCount(end - at)),
            };
            let offset = request.offset + ByteCount(at);
            parts.push(self.carry(Request { op, offset, priority: request.priority }));
            at = end;
        }
        IoFuture::new(async move {
            let mut whole = SgList::new();
            for part in join_all(parts).await {
                whole.append(part?);
            }
            Ok(whole)
        })
    }

    /// One command over the link and back.
    fn carry(&self, request: Request) -> IoFuture {
        let (link, device) = (Rc::clone(&self.link), Rc::clone(&self.device));
        IoFuture::new(async move {
            let _slot = link.commands.acquire().await.expect("nobody closes the semaphore");
            let rt = &link.rt;
            let span = link.span(request.len());
            let frame = link.span(request.len().min(FRAME));
            match request.kind() {
                OpKind::Write => {
                    let (start, end) = link.book(rt.now(), span, false);
                    rt.sleep_until(start + frame + link.half_latency).await;
                    let result = device.submit(request).await;
                    rt.sleep_until(rt.now().max(end + link.half_latency) + link.half_latency).await;
                    result
                }
                OpKind::Read => {
                    rt.sleep(link.half_latency).await;
                    let submitted = rt.now();
                    let result = device.submit(request).await;
                    // The data began to arrive while the device was at work.
                    let behind = rt.now().as_nanos().saturating_sub(span.as_nanos() as u64);
                    let from = submitted.max(Instant::from_nanos(behind));
                    let (_, end) = link.book(from, span, true);
                    rt.sleep_until(end.max(rt.now() + frame) + link.half_latency).await;
                    result
                }
                OpKind::Flush | OpKind::Discard | OpKind::WriteZeroes => {
                    rt.sleep(link.half_latency).await;
                    let result = device.submit(request).await;
                    rt.sleep(link.half_latency).await;
                    result
                }
            }
        })
    }
}
