//! An array: one device made of several, and what can be done to it while it runs.
//!
//! [`Array`] is a [`Device`], so it is used, traced, sliced and nested as any other. It checks each
//! request and hands it to one of three engines, by level: `raid0`, `raid1`, `stripe`. A flush goes to
//! every member. Members come and go through the methods here; background operations stand in
//! [`sync`](crate::sync).

use crate::locks::RangeLock;
use crate::loss::Cause;
use crate::member::{MemberReport, Members};
use crate::raid0::Striped;
use crate::raid1::Mirror;
use crate::record::{Recorder, recorded};
use crate::set::{Set, Stats};
use crate::spec::{ArraySpec, Level, Map, STRIPE_CACHE_PER_MEMBER_DEFAULT, SpecError};
use crate::stripe::Stripes;

use crate::superblock::SECTOR;
use crate::sync::operation::{Operation, Progress};
use crate::together::all;
use async_recursion::async_recursion as boxed;
use rt::sync::Mutex;
use rt::{Device, DeviceRef, Geometry, IoErrorKind, IoFuture, OpKind, Request, Rt, SgList};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use stdx::ByteCount;

/// How a level does I/O.
#[derive(Clone)]
pub(crate) enum Engine {
    Striped(Rc<Striped>),
    Mirror(Rc<Mirror>),
    Stripes(Rc<Stripes>),
}

/// A running array: see the head of this file.
pub struct Array {
    pub(crate) set: Rc<Set>,
    pub(crate) engine: Engine,
    geometry: Geometry,
    grain: ByteCount,
    /// One background operation at a time.
    pub(crate) operations: Mutex<()>,
    pub(crate) progress: RefCell<Option<Progress>>,
    recorder: RefCell<Option<Rc<dyn Recorder>>>,
}

impl Array {
    /// Makes an array of this description, which reads and writes nothing yet.
    ///
    /// # Errors
    /// What is wrong with the description, and the mend.
    pub fn create(rt: &Rt, name: &str, spec: ArraySpec) -> Result<Rc<Array>, SpecError> {
        let plan = spec.plan()?;
        let geometry = geometry(&spec, plan.capacity, plan.block);
        let disks = spec.members.len();
        let cache = spec.stripe_cache.unwrap_or(STRIPE_CACHE_PER_MEMBER_DEFAULT * disks as u64);
        let members = Members::new(spec.members, spec.data_offset.bytes(), plan.extent);
        let set = Rc::new(Set::new(rt, name, spec.level, members, spec.clean));
        let mut grain = ByteCount(plan.block).max(ByteCount::kib(4));
        let engine = match plan.map {
            Map::Striped(map) => Engine::Striped(Rc::new(Striped { set: Rc::clone(&set), map })),
            Map::Mirrored(map) => {
                if spec.level == Level::Raid10 {
                    grain = ByteCount(map.chunk());
                }
                Engine::Mirror(Rc::new(Mirror {
                    set: Rc::clone(&set),
                    map,
                    locks: Rc::new(RangeLock::default()),
                }))
            }
            Map::Parity(map) => {
                grain = ByteCount(map.chunk);
                Engine::Stripes(Rc::new(Stripes::new(Rc::clone(&set), map, cache.bytes())))
            }
        };
        Ok(Rc::new(Array {
            set,
            engine,
            geometry,
            grain,
            operations: Mutex::default(),
            progress: RefCell::default(),
            recorder: RefCell::default(),
        }))
    }

    /// From now on changes are recorded: see [`Recorder`].
    pub fn record_with(&self, recorder: Rc<dyn Recorder>) {
        *self.recorder.borrow_mut() = Some(recorder);
    }

    /// Which range of the members' data areas a range of the array lies on (RAID 10: the range itself, as
    /// md counts there).
    fn component_range(&self, request: &Request) -> std::ops::Range<u64> {
        let (start, end) = (request.offset.bytes(), (request.offset + request.len()).bytes());
        match &self.engine {
            Engine::Stripes(stripes) => {
                let row = stripes.map.row_bytes();
                start / row * stripes.map.chunk..end.div_ceil(row) * stripes.map.chunk
            }
            Engine::Mirror(_) | Engine::Striped(_) => start..end,
        }
    }

    /// The array as a device.
    pub fn device(self: &Rc<Self>) -> DeviceRef {
        Rc::clone(self) as DeviceRef
    }

    /// The level.
    pub fn level(&self) -> Level {
        self.set.level
    }

    /// How many bytes of each member a background operation passes over.
    pub fn component_extent(&self) -> ByteCount {
        ByteCount(self.set.members.extent())
    }

    /// Up to which place of the members an operation finds something to do. Of what has copies all but those that fill a slot
    /// visit each chunk where its first copy lies, and in a far layout first copies lie in the first part of the members.
    pub fn extent_of(&self, operation: Operation) -> ByteCount {
        match (&self.engine, operation) {
            (_, Operation::Rebuild(_) | Operation::Replace(_)) => self.component_extent(),
            (Engine::Mirror(mirror), _) => ByteCount(mirror.map.primaries_end()),
            _ => self.component_extent(),
        }
    }

    /// Has the members' volatile caches write back what they hold. It is no request of the host's.
    #[boxed(?Send)]
    pub async fn flush_caches(&self) {
        self.set.members.flush_caches().await;
    }

    /// The grid on which a background operation's stretch begins and ends: a chunk, or a page where
    /// there are none.
    pub fn grain(&self) -> ByteCount {
        self.grain
    }

    /// Up to which place of the members parity and copies are right, where a superblock says up to which sector: of the
    /// members, and in RAID 10 of the array.
    pub(crate) fn right_until(&self, sectors: u64) -> u64 {
        let (bytes, extent) = (sectors.saturating_mul(SECTOR), self.component_extent().bytes());
        match &self.engine {
            Engine::Mirror(mirror) if self.level() == Level::Raid10 => {
                mirror.map.primaries_until(bytes)
            }
            _ => bytes.min(extent),
        }
    }

    /// The same the other way round. `place` lies on the array's grain.
    pub(crate) fn sectors_until(&self, place: u64) -> u64 {
        match &self.engine {
            Engine::Mirror(mirror) if self.level() == Level::Raid10 => {
                mirror.map.primaries_before(place) / SECTOR
            }
            _ => place / SECTOR,
        }
    }

    /// The members: slots in order, each followed by its replacement, then spares.
    pub fn members(&self) -> Vec<MemberReport> {
        self.set.members.reports()
    }

    /// What the array has done since it was made.
    pub fn stats(&self) -> Stats {
        *self.set.stats.borrow()
    }

    /// How many slots are not active.
    pub fn degraded(&self) -> usize {
        let members = &self.set.members;
        (0..members.len()).filter(|slot| !members.is_active(*slot)).count()
    }

    /// Whether parity and copies are known to be right everywhere.
    pub fn is_clean(&self) -> bool {
        self.set.all_clean()
    }

    /// Fails a member: it is not used any more. A replacement takes its place.
    pub fn fail(&self, slot: usize) {
        self.set.members.fail(slot, Cause::ByHand);
    }

    /// Adds a spare, which a [rebuild](Array::rebuild) takes.
    ///
    /// # Errors
    /// Where it is too small, or there are too many.
    pub fn add_spare(&self, device: DeviceRef) -> Result<(), SpecError> {
        self.check_size(&device)?;
        let name = device.name();
        match self.set.members.add_spare(device) {
            true => Ok(()),
            false => Err(SpecError::TooManySpares { name: name.to_string() }),
        }
    }

    /// Gives a working member a replacement, which [`Array::copy_to_replacement`] fills.
    ///
    /// # Errors
    /// Where it is too small.
    pub fn replace(&self, slot: usize, device: DeviceRef) -> Result<(), SpecError> {
        self.check_size(&device)?;
        self.set.members.begin_replace(slot, device);
        Ok(())
    }

    fn check_size(&self, device: &DeviceRef) -> Result<(), SpecError> {
        let needed = ByteCount(self.set.members.data_offset()) + self.component_extent();
        let capacity = device.geometry().capacity;
        if capacity >= needed {
            return Ok(());
        }
        Err(SpecError::SpareTooSmall { name: device.name().to_string(), capacity, needed })
    }
}

impl Device for Array {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn name(&self) -> Arc<str> {
        Arc::clone(&self.set.name)
    }

    fn begin(&self, request: Request) -> IoFuture {
        let recorder = self.recorder.borrow().clone();
        if let Some(recorder) = recorder
            && request.kind() != OpKind::Read
        {
            let (range, engine) = (self.component_range(&request), self.engine.clone());
            let set = Rc::clone(&self.set);
            return recorded(&self.set, recorder, range, request, move |request| {
                submit_to(&set, &engine, request)
            });
        }
        submit_to(&self.set, &self.engine, request)
    }
}

/// Hands a request that was checked to the engine of the level.
fn submit_to(set: &Rc<Set>, engine: &Engine, request: Request) -> IoFuture {
    if request.kind() == OpKind::Flush {
        return flush(set, engine);
    }
    match engine {
        Engine::Striped(striped) => striped.submit(request),
        Engine::Mirror(mirror) => mirror.submit(request),
        Engine::Stripes(stripes) => stripes.submit(request),
    }
}

/// A flush of every member.
fn flush(set: &Rc<Set>, engine: &Engine) -> IoFuture {
    let set = Rc::clone(set);
    let engine = engine.clone();
    let (mut whose, mut futures) = (SmallVec::<[_; 4]>::new(), SmallVec::new());
    for (slot, id, device) in set.members.devices() {
        whose.push((slot, id));
        futures.push(device.submit(Request::flush()));
    }
    IoFuture::new(async move {
        let mut spared = None;
        for ((slot, id), result) in whose.into_iter().zip(all(futures).await) {
            let Err(error) = result else { continue };
            let can_spare = |slot| match &engine {
                Engine::Striped(_) => true,
                Engine::Mirror(mirror) => mirror.is_last(slot),
                Engine::Stripes(_) => false,
            };
            let cause = Cause::Io { op: error.op, kind: error.kind };
            if !set.members.write_failed(slot, id, cause, can_spare) {
                spared = spared.or(Some(error.kind));
            }
        }
        if let Engine::Stripes(stripes) = &engine {
            let lost = (0..set.members.len()).filter(|slot| !set.members.is_active(*slot)).count();
            if lost > stripes.map.parities() {
                spared = Some(IoErrorKind::TooFewMembers);
            }
        }
        match spared {
            None => Ok(SgList::new()),
            Some(kind) => Err(set.error(kind, OpKind::Flush, 0, 0)),
        }
    })
}

/// The array's shape, from its members'.
fn geometry(spec: &ArraySpec, capacity: u64, block: u64) -> Geometry {
    let shapes: Vec<Geometry> =
        spec.members.iter().flatten().map(|member| member.geometry()).collect();
    let disks = spec.members.len() as u64;
    let data = match spec.level {
        Level::Linear | Level::Raid1 => 0,
        Level::Raid0 => disks,
        Level::Raid10 => disks / 2,
        Level::Raid4 | Level::Raid5 | Level::Raid6 => disks - spec.level.parities() as u64,
    };
    let block = ByteCount(block);
    Geometry {
        capacity: ByteCount(capacity).round_down(block),
        logical_block: block,
        physical_block: shapes.iter().map(|shape| shape.physical_block).max().unwrap_or(block),
        optimal_io: spec.chunk * data,
        rotational: shapes.iter().any(|shape| shape.rotational),
        volatile_cache: shapes.iter().any(|shape| shape.volatile_cache),
    }
}
