//! I/O on RAID 1 and RAID 10.
//!
//! **Reads** go to one copy. Which: one that goes on where a piece of this request ended; else, as md
//! does, a rotating member whose last request ended just there (so a sequential stream keeps its
//! member), else one that is idle, else the one whose head is nearest (rotating members), then the one
//! with the fewest requests in flight, then the lowest slot. Of far copies on rotating members, as in md, always that
//! at the lowest address: a stream goes on over all members as on a RAID 0, in the fast half. Where the copies are not known to be equal
//! (an array not yet initialised), always the first: reading twice must give the same.
//!
//! **A bad place** ([`Medium`](IoErrorKind::Medium)) is read from another copy, block by block where
//! no copy has all of it, and written again in the background under the lock of its range. Any other
//! error fails the member and the read goes on with the others.
//!
//! **Writes** go to all copies at once. A member that fails one is failed; the write is done when one
//! copy of each byte is. The last copy is never failed: its error is the host's. Writes share the lock
//! of their range, so that a background operation, which takes it alone, sees and makes equal copies.
//! Two writes of the host at the same time to the same bytes may leave copies unequal, as in md: who
//! does that has no order to rely on anyway, and file systems don't.
//!
//! What failed in the middle of a write (some copies new, some old, when the power is cut) is for a
//! resync to make equal; the bitmap that makes it short comes with the superblocks.

use crate::layout::Place;
use crate::layout::copies::MirroredMap;
use crate::locks::RangeLock;
use crate::member::{DeviceId, Manner, Writes};
use crate::set::{Parts, Set};
use crate::spread::{Run, Spread};
use crate::together::all_noted;
use rt::{IoErrorKind, IoFuture, Op, Priority, Request, SgList};
use smallvec::SmallVec;
use std::ops::Range;
use std::rc::Rc;

/// The grain in which a read that met a bad place is tried again: a page, as in md.
pub(crate) const RETRY_GRAIN: u64 = 4096;

/// See the [module](self).
pub(crate) struct Mirror {
    pub(crate) set: Rc<Set>,
    pub(crate) map: MirroredMap,
    /// Over bytes of the array.
    pub(crate) locks: Rc<RangeLock>,
}

impl Mirror {
    /// Carries out a request that was checked; flushes don't come here.
    pub(crate) fn submit(self: &Rc<Self>, request: Request) -> IoFuture {
        if request.is_empty() {
            return IoFuture::ready(Ok(SgList::new()));
        }
        match &request.op {
            Op::Read(_) => self.read(request),
            _ => self.write(request),
        }
    }

    /// Whether the array can't do without this slot: some byte would have no copy left.
    pub(crate) fn is_last(&self, slot: usize) -> bool {
        let members = &self.set.members;
        self.map.uncovered(|other| other != slot && members.is_active(other)) > 0
    }

    /// The pieces of a range of the array.
    pub(crate) fn pieces(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let mut at = range.start;
        std::iter::from_fn(move || {
            let len = self.map.piece(at).min(range.end - at);
            (len > 0).then(|| {
                at += len;
                at - len..at
            })
        })
    }

    /// The copy to read a piece from, but none of `tried`.
    pub(crate) fn choose(
        &self,
        piece: &Range<u64>,
        runs: &[Run],
        tried: &[usize],
    ) -> Option<(usize, u64)> {
        let members = &self.set.members;
        let len = piece.end - piece.start;
        let copies = self.map.locate(piece.start);
        let candidates = copies.iter().filter(|place| {
            members.readable(place.slot, &(place.at..place.at + len))
                && !tried.contains(&place.slot)
        });
        let first = copies.first()?;
        if !self.set.is_clean(&(first.at..first.at + len)) {
            return candidates.map(|place| (place.slot, place.at)).next();
        }
        let recent = &runs[runs.len().saturating_sub(members.len())..];
        let goes_on = |slot: usize, at: u64| {
            recent.iter().any(|run| run.slot == slot && run.at + run.len == at)
        };
        let lowest_first = self.map.has_far_copies();
        candidates
            .min_by_key(|place| {
                let in_flight = members.in_flight(place.slot);
                let distance = members.distance(place.slot, place.at);
                if lowest_first && distance.is_some() {
                    return (false, false, false, Some(place.at), in_flight, place.slot);
                }
                let stays = goes_on(place.slot, place.at);
                let is_under_head = distance == Some(0);
                (!stays, !is_under_head, in_flight > 0, distance, in_flight, place.slot)
            })
            .map(|place| (place.slot, place.at))
    }

    fn read(self: &Rc<Self>, request: Request) -> IoFuture {
        let host = self.set.host_begins();
        let (at, priority) = (request.offset.bytes(), request.priority);
        let len = request.len().bytes();
        let members = &self.set.members;
        let mut spread = Spread::default();
        for piece in self.pieces(at..at + len) {
            let Some((slot, place)) = self.choose(&piece, &spread.runs, &[]) else {
                return IoFuture::ready(Err(self.set.error(
                    IoErrorKind::TooFewMembers,
                    request.kind(),
                    at,
                    len,
                )));
            };
            spread.add(slot, place, piece.end - piece.start, members.len());
        }
        let futures: SmallVec<[IoFuture; 4]> = spread
            .runs
            .iter()
            .map(|run| {
                members.count_in_flight(run.slot, 1);
                members.read(run.slot, run.at, run.len, priority)
            })
            .collect();
        let asked: SmallVec<[DeviceId; 4]> =
            spread.runs.iter().map(|run| members.id(run.slot)).collect();
        let slots = spread.runs.iter().map(|run| Some(run.slot)).collect();
        let mut flight = Flight { set: Rc::clone(&self.set), slots };
        let this = Rc::clone(self);
        IoFuture::new(async move {
            let _host = host;
            let results = all_noted(futures, |run| flight.landed(run)).await;
            if results.iter().all(Result::is_ok) {
                let answers: SmallVec<[SgList; 2]> = results.into_iter().flatten().collect();
                return Ok(spread.assemble(&answers));
            }
            let mut answers: SmallVec<[SgList; 2]> = SmallVec::new();
            for ((run, id), result) in spread.runs.iter().zip(asked).zip(results) {
                match result {
                    Ok(data) => answers.push(data),
                    Err(error) => {
                        let rescue = Box::pin(this.rescue(run, id, error.kind, priority));
                        let data =
                            rescue.await.map_err(|kind| this.set.error(kind, error.op, at, len))?;
                        answers.push(data);
                    }
                }
            }
            Ok(spread.assemble(&answers))
        })
    }

    /// Reads from other copies what a run could not give.
    async fn rescue(
        self: &Rc<Self>,
        run: &Run,
        id: DeviceId,
        kind: IoErrorKind,
        priority: Priority,
    ) -> Result<SgList, IoErrorKind> {
        let members = &self.set.members;
        let bad_place = members.read_failed(run.slot, id, kind, |slot| self.is_last(slot));
        let mut whole = SgList::new();
        let mut at = run.at;
        while at < run.at + run.len {
            // Small enough that two bad places on different copies rarely meet.
            let len = RETRY_GRAIN.min(run.at + run.len - at);
            let byte = self.map.array_byte(Place { slot: run.slot, at });
            let byte = byte.expect("what was read for the host is in the array");
            let len = len.min(self.map.piece(byte));
            let place = Place { slot: run.slot, at };
            let (data, bad) =
                self.read_with_others(Some(place), byte..byte + len, priority).await?;
            if bad_place && !bad.is_empty() {
                self.mend(byte..byte + len, bad);
            }
            whole.append(data);
            at += len;
        }
        Ok(whole)
    }

    /// Reads a small range from the copy at `first`, or from any that has it; tells which had not.
    pub(crate) async fn read_with_others(
        &self,
        first: Option<Place>,
        piece: Range<u64>,
        priority: Priority,
    ) -> Result<(SgList, SmallVec<[usize; 4]>), IoErrorKind> {
        let (members, len) = (&self.set.members, piece.end - piece.start);
        let mut tried: SmallVec<[usize; 4]> = SmallVec::new();
        let mut bad: SmallVec<[usize; 4]> = SmallVec::new();
        let mut worst = IoErrorKind::TooFewMembers;
        let first = first.filter(|place| members.readable(place.slot, &(place.at..place.at + len)));
        let mut next =
            first.map(|place| (place.slot, place.at)).or_else(|| self.choose(&piece, &[], &tried));
        // Ends: each round tries a copy that was not tried.
        while let Some((slot, at)) = next {
            tried.push(slot);
            let id = members.id(slot);
            match members.read(slot, at, len, priority).await {
                Ok(data) => return Ok((data, bad)),
                Err(error) => {
                    worst = error.kind;
                    if members.read_failed(slot, id, error.kind, |slot| self.is_last(slot)) {
                        bad.push(slot);
                    }
                }
            }
            next = self.choose(&piece, &[], &tried);
        }
        Err(worst)
    }

    /// Writes a bad place anew, in the background.
    fn mend(self: &Rc<Self>, piece: Range<u64>, bad: SmallVec<[usize; 4]>) {
        let this = Rc::clone(self);
        self.set.rt.spawn(async move { this.mend_now(piece, &bad).await }).detach();
    }

    async fn mend_now(&self, piece: Range<u64>, bad: &[usize]) {
        let _guard = self.locks.exclusive(piece.clone()).await;
        // Another write may have changed the bytes since they were read for the host.
        if let Ok((data, _)) =
            self.read_with_others(None, piece.clone(), Priority::Foreground).await
        {
            self.write_bad(&piece, &data, bad).await;
        }
    }

    /// Writes to the copies that could not be read, under the lock.
    pub(crate) async fn write_bad(&self, piece: &Range<u64>, data: &SgList, bad: &[usize]) {
        let members = &self.set.members;
        let mut writes = Writes::default();
        for place in self.map.locate(piece.start) {
            if bad.contains(&place.slot) {
                members.write(place.slot, place.at, data.clone(), Manner::default(), &mut writes);
                members.count_corrected(place.slot);
                self.set.stats.borrow_mut().corrected += 1;
            }
        }
        members.settle(writes, |slot| self.is_last(slot)).await;
    }

    fn write(self: &Rc<Self>, request: Request) -> IoFuture {
        let (completion, future) = IoFuture::pending();
        let parts = Parts::new(self.set.host_begins(), &request, 1, completion);
        let this = Rc::clone(self);
        // A task of its own: the guard must outlive the members' writes, whoever drops the answer.
        self.set.rt.spawn(async move { parts.done(this.write_now(request).await) }).detach();
        future
    }

    async fn write_now(&self, request: Request) -> Result<(), IoErrorKind> {
        let (at, len) = (request.offset.bytes(), request.len().bytes());
        let _guard = self.locks.shared(at..at + len).await;
        let (data, zeroes, fua) = match request.op {
            Op::Write { data, fua } => (data, false, fua),
            Op::WriteZeroes(len) => (SgList::zeros(len.as_usize()), true, false),
            Op::Discard(_) => return Ok(()),
            Op::Read(_) | Op::Flush => unreachable!("only writes come here"),
        };
        let manner = Manner { fua, priority: request.priority, zeroes };
        let mut failure = self.write_copies(at, &data, manner).await;
        if zeroes && failure.is_some() {
            failure = self.write_copies(at, &data, Manner { zeroes: false, ..manner }).await;
        }
        failure.map_or(Ok(()), Err)
    }

    /// Writes to every copy. Fails where a byte has no copy left that was written.
    pub(crate) async fn write_copies(
        &self,
        at: u64,
        data: &SgList,
        manner: Manner,
    ) -> Option<IoErrorKind> {
        let members = &self.set.members;
        let mut spread: SmallVec<[Spread; 4]> = SmallVec::new();
        let mut reached = true;
        for piece in self.pieces(at..at + data.len() as u64) {
            let len = piece.end - piece.start;
            let copies = self.map.locate(piece.start);
            assert!(!copies.is_empty(), "each byte has a place");
            spread.resize_with(copies.len(), Spread::default);
            for (place, spread) in copies.iter().zip(&mut spread) {
                spread.add(place.slot, place.at, len, members.len());
            }
            reached &= copies.iter().any(|place| members.is_active(place.slot));
        }
        if !reached {
            return Some(IoErrorKind::TooFewMembers);
        }
        let mut writes = Writes::default();
        for spread in &spread {
            for (run, data) in spread.runs.iter().zip(spread.scatter(data)) {
                members.write(run.slot, run.at, data, manner, &mut writes);
            }
        }
        // Zeroing in a member's own way may be unknown to it: that fails nobody, it is done by writing.
        let spare_it = |slot: usize| manner.zeroes || self.is_last(slot);
        members.settle(writes, spare_it).await
    }
}

/// The runs of a read, each counted as in flight on its slot until its own answer comes: where the next read goes depends on that, and
/// the slots of a wide set answer at different times. Or until this is dropped, since nobody waits any more.
struct Flight {
    set: Rc<Set>,
    /// By the run's number; none of one that has come.
    slots: SmallVec<[Option<usize>; 4]>,
}

impl Flight {
    /// The answer of a run has come.
    fn landed(&mut self, run: usize) {
        if let Some(slot) = self.slots[run].take() {
            self.set.members.count_in_flight(slot, -1);
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        (0..self.slots.len()).for_each(|run| self.landed(run));
    }
}
