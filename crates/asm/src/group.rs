//! A running disk group: the volume as a device, and disks that fail.
//!
//! **Reads** go to the first copy whose disk works (the primary, as in Oracle ASM; primaries are spread evenly, so
//! reads are). Where it gives an error the next copy is asked. **Writes** go to all copies at once and
//! are answered when all have them. A disk that fails a write while another copy took it is *failed*:
//! it is not used again, and the write is answered when that is recorded on the others. With external
//! redundancy no disk is ever failed; its errors come up. **Flushes** go to every disk. Nothing is
//! cached.
//!
//! A request is cut into pieces of extents ([`striping`](crate::striping)); each piece holds its extent, so that
//! a move happens before or after it. A write runs as a task of its own: dropping its future does not leave
//! it under way behind the back of a move.
//!
//! Blocks that were never written have any content, and copies of them need not agree.

use crate::disk_state::{DiskState, Progress};
use crate::locks::ExtentLocks;
use crate::map::Map;
use crate::metadata::{BLOCK, DiskLayout, ENTRIES, Header, TableBlock};
use crate::pattern::{Copy, Place, Shape};
use crate::spec::{Redundancy, Striping};
use crate::striping::{FINE_SET, FINE_STRIPE, Piece, pieces};
use futures_util::future::join_all;
use rt::sync::Mutex;
use rt::{
    Buf, Device, DeviceRef, Geometry, IoError, IoErrorKind, IoFuture, IoResult, Op, OpKind,
    Priority, Request, Rt, SgList,
};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use stdx::{ByteCount, Offset};

/// A disk, for showing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskReport {
    /// Its device's name; "missing" where there is none.
    pub name: Arc<str>,
    /// Its state.
    pub state: DiskState,
    /// Its failure group.
    pub failure_group: u16,
    /// AUs it has.
    pub aus: u32,
    /// AUs that hold copies.
    pub used: u32,
}

/// A disk of a running group.
pub(crate) struct Slot {
    /// `None` where it was not there when the group was opened.
    pub(crate) device: Option<DeviceRef>,
    pub(crate) shape: Shape,
    pub(crate) layout: DiskLayout,
    pub(crate) state: DiskState,
    /// The slot of the header that is not the latest.
    pub(crate) header_slot: u8,
    /// It has a header already.
    pub(crate) has_header: bool,
    /// The table blocks that were ever written.
    pub(crate) tables: BTreeMap<u32, Rc<Table>>,
}

/// A block of an allocation table.
#[derive(Default)]
pub(crate) struct Table {
    /// Counts changes in memory, and the last change that is on the disk.
    pub(crate) changed: Cell<u64>,
    written: Cell<u64>,
    pub(crate) generation: Cell<u64>,
    writing: Mutex<()>,
}

/// See the [module](self).
pub struct DiskGroup {
    pub(crate) rt: Rt,
    pub(crate) name: Arc<str>,
    pub(crate) id: u64,
    pub(crate) au: u64,
    pub(crate) redundancy: Redundancy,
    pub(crate) striping: Striping,
    pub(crate) initial: u16,
    pub(crate) geometry: Geometry,
    pub(crate) disks: RefCell<Vec<Slot>>,
    pub(crate) map: RefCell<Map>,
    pub(crate) locks: Rc<ExtentLocks>,
    /// Held while headers are written.
    pub(crate) recording: Mutex<()>,
    /// Counts changes that headers tell, and the last that they do tell.
    pub(crate) epoch: Cell<u64>,
    pub(crate) recorded: Cell<u64>,
    pub(crate) clean: Cell<bool>,
    pub(crate) in_step: Cell<bool>,
    /// An extent has no copy left.
    pub(crate) lost: Cell<bool>,
    /// One rebalance, or change of disks, at a time.
    pub(crate) operations: Mutex<()>,
    pub(crate) progress: RefCell<Option<Progress>>,
    pub(crate) this: Weak<DiskGroup>,
}

/// A copy that can be read and written now.
pub(crate) struct Live {
    pub(crate) copy: u8,
    pub(crate) disk: u16,
    pub(crate) device: DeviceRef,
    /// Where its AU begins on the disk.
    pub(crate) start: Offset,
}

impl DiskGroup {
    /// The volume as a device.
    pub fn device(&self) -> DeviceRef {
        self.this.upgrade().expect("a group that is called is alive")
    }

    /// How many copies each extent has.
    pub fn redundancy(&self) -> Redundancy {
        self.redundancy
    }

    /// Size of an AU.
    pub fn au(&self) -> ByteCount {
        ByteCount(self.au)
    }

    /// The disks, by number.
    pub fn disks(&self) -> Vec<DiskReport> {
        let map = self.map.borrow();
        let report = |(number, slot): (usize, &Slot)| DiskReport {
            name: slot.device.as_ref().map_or_else(|| "missing".into(), |device| device.name()),
            state: slot.state,
            failure_group: slot.shape.failure_group,
            aus: slot.shape.aus,
            used: map.copies_on(number as u16),
        };
        self.disks.borrow().iter().enumerate().map(report).collect()
    }

    /// Where the copies of an extent lie, the primary first: numbers of disks, `None` for a copy that is lost.
    pub fn copies_of(&self, extent: u32) -> Vec<Option<u16>> {
        let (map, disks) = (self.map.borrow(), self.disks.borrow());
        (0..self.redundancy.copies() as u8)
            .map(|copy| map.place(Copy { extent, copy }))
            .map(|place| place.map(|place| place.disk))
            .map(|disk| disk.filter(|disk| disks[*disk as usize].state.works()))
            .collect()
    }

    /// How many extents the volume has.
    pub fn extents(&self) -> u32 {
        self.map.borrow().extents()
    }

    /// Whether all copies agree but for what is under way. After a power cut they may not, until
    /// [`resync`](DiskGroup::resync).
    pub fn is_in_step(&self) -> bool {
        self.in_step.get()
    }

    /// Fails a disk: it is not used any more. Its extents have a copy less until a rebalance.
    ///
    /// # Errors
    /// Where there is only one copy, or the failure can't be recorded.
    pub async fn fail_disk(&self, disk: usize) -> Result<(), IoError> {
        if self.redundancy == Redundancy::External {
            return Err(self.error(&self.shown(OpKind::Write, 0, 0), IoErrorKind::TooFewMembers));
        }
        self.set_failed(disk as u16);
        let recorded = self.record().await;
        recorded.map_err(|kind| self.error(&self.shown(OpKind::Write, 0, 0), kind))
    }

    /// Says on all disks that nothing is under way, after the last request. A group that was closed
    /// needs no [`resync`](DiskGroup::resync).
    ///
    /// # Errors
    /// Where a disk can't take it.
    pub async fn close(&self) -> Result<(), IoError> {
        self.flush().await?;
        self.clean.set(true);
        self.epoch.set(self.epoch.get() + 1);
        let recorded = self.record().await;
        recorded.map_err(|kind| self.error(&self.shown(OpKind::Flush, 0, 0), kind))
    }

    pub(crate) fn shown(&self, op: OpKind, at: u64, len: u64) -> IoError {
        let kind = IoErrorKind::TooFewMembers;
        let (offset, len) = (Offset(at), ByteCount(len));
        IoError { kind, op, offset, len, device: Arc::clone(&self.name) }
    }

    fn error(&self, shown: &IoError, kind: IoErrorKind) -> IoError {
        IoError { kind, ..shown.clone() }
    }

    /// From now on a disk is not used.
    pub(crate) fn set_failed(&self, disk: u16) {
        {
            let mut disks = self.disks.borrow_mut();
            let Some(slot) = disks.get_mut(disk as usize) else { return };
            if !slot.state.works() {
                return;
            }
            slot.state = DiskState::Failed;
        }
        self.epoch.set(self.epoch.get() + 1);
        self.lost.set(self.lost.get() || self.first_lost().is_some());
    }

    /// The first extent that has no copy left.
    pub(crate) fn first_lost(&self) -> Option<u32> {
        (0..self.extents()).find(|extent| self.live(*extent).is_empty())
    }

    /// The copies of an extent that work, the primary first.
    pub(crate) fn live(&self, extent: u32) -> SmallVec<[Live; 3]> {
        let (map, disks) = (self.map.borrow(), self.disks.borrow());
        let mut live = SmallVec::new();
        for copy in 0..self.redundancy.copies() as u8 {
            let Some(place) = map.place(Copy { extent, copy }) else { continue };
            let slot = &disks[place.disk as usize];
            if let (true, Some(device)) = (slot.state.works(), &slot.device) {
                let start = self.au_start(slot, place);
                live.push(Live { copy, disk: place.disk, device: Rc::clone(device), start });
            }
        }
        live
    }

    pub(crate) fn au_start(&self, slot: &Slot, place: Place) -> Offset {
        Offset(slot.layout.data_start + u64::from(place.au) * self.au)
    }

    /// Sees to it that the headers of all working disks tell what is so now. Disks that can't take it
    /// are failed, where there is redundancy.
    pub(crate) async fn record(&self) -> Result<(), IoErrorKind> {
        if self.recorded.get() >= self.epoch.get() {
            return Ok(());
        }
        let _alone = self.recording.lock().await;
        while self.recorded.get() < self.epoch.get() {
            let epoch = self.epoch.get();
            let states: Vec<_> =
                self.disks.borrow().iter().map(|slot| (slot.shape, slot.state)).collect();
            // New disks first: a header lists no disk that has none.
            let have: Vec<bool> = self.disks.borrow().iter().map(|slot| slot.has_header).collect();
            let wiped = self.wipe(|disk| !have[disk]).await;
            let new = wiped.or(self.write_headers(epoch, &states, |disk| !have[disk]).await);
            let old = self.write_headers(epoch, &states, |disk| have[disk]).await;
            let failed = new.or(old);
            let left = self.disks.borrow().iter().any(|slot| slot.state.works());
            // Nobody is left to tell: what is not recorded is not so.
            if !left {
                return Err(failed.unwrap_or(IoErrorKind::TooFewMembers));
            }
            if let (Some(kind), Redundancy::External) = (failed, self.redundancy) {
                return Err(kind);
            }
            self.recorded.set(epoch);
        }
        Ok(())
    }

    /// Makes zeros of header and table of the disks for which `which` holds, so that nothing of an
    /// earlier group is taken for this one's. Gives an error, if there was one.
    async fn wipe(&self, which: impl Fn(usize) -> bool) -> Option<IoErrorKind> {
        let mut disks = Vec::new();
        for (number, slot) in self.disks.borrow().iter().enumerate() {
            if let (true, Some(device)) = (which(number), &slot.device) {
                disks.push((number, Rc::clone(device), slot.layout));
            }
        }
        let wipes = disks.into_iter().map(async |(number, device, layout)| {
            let wipe = Request::write_zeroes(Offset::ZERO, ByteCount(layout.metadata_len()));
            let wiped = match device.submit(wipe).await {
                Ok(_) => device.submit(Request::flush()).await,
                failed => failed,
            };
            (number, wiped)
        });
        let mut failed = None;
        for (number, wiped) in join_all(wipes).await {
            let Err(error) = wiped else { continue };
            failed = Some(error.kind);
            if self.redundancy != Redundancy::External {
                self.set_failed(number as u16);
            }
        }
        failed
    }

    /// Writes the headers of the disks for which `which` holds. Gives an error, if there was one.
    async fn write_headers(
        &self,
        epoch: u64,
        states: &[(Shape, DiskState)],
        which: impl Fn(usize) -> bool,
    ) -> Option<IoErrorKind> {
        let (mut whose, mut writes) = (Vec::new(), Vec::new());
        for (number, slot) in self.disks.borrow().iter().enumerate() {
            // A disk that was dropped is told so, that it is not taken for a member again.
            let told = slot.state != DiskState::Failed && which(number);
            let Some(device) = slot.device.as_ref().filter(|_| told) else { continue };
            let header = self.header(number as u16, epoch, states.to_vec());
            let at = Offset(DiskLayout::header_at(slot.header_slot));
            let data = Buf::copy_of(&header.encode());
            whose.push((number, slot.state));
            writes.push(device.submit(Request::write_fua(at, data)));
        }
        let results = join_all(writes).await;
        let mut failed = None;
        for ((number, state), result) in whose.into_iter().zip(results) {
            match result {
                Ok(_) => {
                    let slot = &mut self.disks.borrow_mut()[number];
                    slot.header_slot ^= 1;
                    slot.has_header = true;
                }
                // It is not used any more, whether it knows or not.
                Err(_) if state == DiskState::Dropped => {}
                Err(error) => {
                    failed = Some(error.kind);
                    if self.redundancy != Redundancy::External {
                        self.set_failed(number as u16);
                    }
                }
            }
        }
        failed
    }

    fn header(&self, disk: u16, epoch: u64, disks: Vec<(Shape, DiskState)>) -> Header {
        Header {
            disk,
            group: self.id,
            epoch,
            au: self.au,
            extents: self.extents(),
            copies: self.redundancy.copies() as u8,
            striping: self.striping,
            clean: self.clean.get(),
            in_step: self.in_step.get(),
            initial: self.initial,
            disks,
        }
    }

    /// Notes that the table entry of an AU has changed; [`write_table`](DiskGroup::write_table) writes it.
    pub(crate) fn touch(&self, place: Place) {
        let block = place.au / ENTRIES;
        let mut disks = self.disks.borrow_mut();
        let table = disks[place.disk as usize].tables.entry(block).or_default();
        table.changed.set(table.changed.get() + 1);
    }

    /// Writes the table block of an AU, as it is now. Several that wait for one block share a write.
    pub(crate) async fn write_table(&self, place: Place) -> Result<(), IoErrorKind> {
        let block = place.au / ENTRIES;
        let (table, device, aus) = {
            let disks = self.disks.borrow();
            let slot = &disks[place.disk as usize];
            let Some(table) = slot.tables.get(&block) else { return Ok(()) };
            let device = slot.device.clone().ok_or(IoErrorKind::Gone)?;
            (Rc::clone(table), device, slot.shape.aus)
        };
        let wanted = table.changed.get();
        let _alone = table.writing.lock().await;
        if table.written.get() >= wanted {
            return Ok(());
        }
        let (now, generation) = (table.changed.get(), table.generation.get() + 1);
        let first = block * ENTRIES;
        let entries = {
            let map = self.map.borrow();
            let aus = first..aus.min(first + ENTRIES);
            aus.map(|au| map.claim(Place { disk: place.disk, au })).collect()
        };
        let content = TableBlock { group: self.id, generation, disk: place.disk, block, entries };
        let at = Offset(DiskLayout::table_at(block, (generation % 2) as u8));
        let request = Request::write_fua(at, Buf::copy_of(&content.encode()));
        device.submit(request.with_priority(Priority::Background)).await.map_err(|e| e.kind)?;
        // Only now: a write that failed leaves the other slot as the latest, and this one to be written.
        table.generation.set(generation);
        table.written.set(now);
        Ok(())
    }

    fn pieces(&self, request: &Request) -> Vec<Piece> {
        let start = request.offset.bytes();
        pieces(self.striping, self.au, start..start + request.len().bytes()).collect()
    }

    async fn read(self: Rc<Self>, request: Request) -> IoResult {
        let parts = self.pieces(&request);
        if let [piece] = parts[..] {
            let read = self.read_piece(piece, request.priority).await;
            return read.map_err(|kind| IoError::of(&request, &*self, kind));
        }
        let parts = parts.into_iter().map(|piece| self.read_piece(piece, request.priority));
        let mut data = SgList::new();
        for part in join_all(parts).await {
            data.append(part.map_err(|kind| IoError::of(&request, &*self, kind))?);
        }
        Ok(data)
    }

    async fn read_piece(&self, piece: Piece, priority: Priority) -> Result<SgList, IoErrorKind> {
        let _extent = self.locks.shared(piece.extent).await;
        let mut failed = IoErrorKind::TooFewMembers;
        for live in self.live(piece.extent) {
            let at = live.start + ByteCount(piece.at);
            let read = Request::read(at, ByteCount(piece.len)).with_priority(priority);
            match live.device.submit(read).await {
                Ok(data) => return Ok(data),
                Err(error) => failed = error.kind,
            }
        }
        Err(failed)
    }

    async fn change(self: Rc<Self>, request: Request) -> IoResult {
        let (mut from, mut parts) = (0, Vec::new());
        for piece in self.pieces(&request) {
            let len = ByteCount(piece.len);
            let op = match &request.op {
                Op::Write { data, fua } => {
                    Op::Write { data: data.slice(from..from + len.as_usize()), fua: *fua }
                }
                Op::WriteZeroes(_) => Op::WriteZeroes(len),
                _ => Op::Discard(len),
            };
            from += len.as_usize();
            parts.push(self.change_piece(piece, op, request.priority));
        }
        for part in join_all(parts).await {
            part.map_err(|kind| IoError::of(&request, &*self, kind))?;
        }
        Ok(SgList::new())
    }

    async fn change_piece(
        &self,
        piece: Piece,
        op: Op,
        priority: Priority,
    ) -> Result<(), IoErrorKind> {
        let _extent = self.locks.shared(piece.extent).await;
        let live = self.live(piece.extent);
        let writes = live.iter().map(|live| {
            let offset = live.start + ByteCount(piece.at);
            live.device.submit(Request { op: op.clone(), offset, priority })
        });
        let results = join_all(writes).await;
        let first = results.iter().find_map(|result| result.as_ref().err()).map(|error| error.kind);
        if results.iter().all(Result::is_err) {
            return Err(first.unwrap_or(IoErrorKind::TooFewMembers));
        }
        for (live, result) in live.iter().zip(&results) {
            if result.is_err() {
                self.set_failed(live.disk);
            }
        }
        if first.is_some() || live.len() < self.redundancy.copies() {
            // Somebody lacks this write: it is answered when the others know that.
            self.record().await?;
        }
        Ok(())
    }

    pub(crate) async fn flush(&self) -> Result<(), IoError> {
        let (mut whose, mut flushes) = (Vec::new(), Vec::new());
        for (number, slot) in self.disks.borrow().iter().enumerate() {
            if let (true, Some(device)) = (slot.state.works(), &slot.device) {
                whose.push(number as u16);
                flushes.push(device.submit(Request::flush()));
            }
        }
        let mut failed = None;
        for (number, result) in whose.into_iter().zip(join_all(flushes).await) {
            let Err(error) = result else { continue };
            failed = Some(error.kind);
            if self.redundancy != Redundancy::External {
                self.set_failed(number);
            }
        }
        let shown = self.shown(OpKind::Flush, 0, 0);
        // What was answered is durable on the disks that are left, if those have a copy of everything; also
        // where the others had failed before this flush.
        if self.lost.get() {
            return Err(self.error(&shown, failed.unwrap_or(IoErrorKind::TooFewMembers)));
        }
        if let (Some(kind), Redundancy::External) = (failed, self.redundancy) {
            return Err(self.error(&shown, kind));
        }
        // A disk that failed was not flushed: the others must say so before this is answered.
        self.record().await.map_err(|kind| self.error(&shown, kind))
    }
}

/// The shape of a volume over these disks.
pub(crate) fn geometry(disks: &[DeviceRef], au: u64, extents: u32, striping: Striping) -> Geometry {
    let shapes: Vec<Geometry> = disks.iter().map(|disk| disk.geometry()).collect();
    let block = |of: fn(&Geometry) -> ByteCount| shapes.iter().map(of).max();
    let logical = block(|shape| shape.logical_block).unwrap_or(ByteCount(BLOCK));
    Geometry {
        capacity: ByteCount(u64::from(extents) * au),
        logical_block: logical,
        physical_block: block(|shape| shape.physical_block).unwrap_or(logical),
        optimal_io: match striping {
            Striping::Coarse => ByteCount(au),
            Striping::Fine => ByteCount(FINE_STRIPE * FINE_SET),
        },
        rotational: shapes.iter().any(|shape| shape.rotational),
        volatile_cache: shapes.iter().any(|shape| shape.volatile_cache),
    }
}

impl Device for DiskGroup {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn begin(&self, request: Request) -> IoFuture {
        let Some(this) = self.this.upgrade() else {
            return IoFuture::ready(Err(IoError::of(&request, self, IoErrorKind::Gone)));
        };
        match request.kind() {
            OpKind::Read => IoFuture::new(this.read(request)),
            OpKind::Flush => {
                IoFuture::new(async move { this.flush().await.map(|()| SgList::new()) })
            }
            OpKind::Write | OpKind::WriteZeroes | OpKind::Discard => {
                let (completion, answer) = IoFuture::pending();
                let task = async move { completion.complete(this.change(request).await) };
                self.rt.spawn(task).detach();
                answer
            }
        }
    }
}
