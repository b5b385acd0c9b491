//! Steps of background operations on RAID 1 and RAID 10. The theory stands in [`sync`](super).
//!
//! A step covers a stretch of the members' data areas. A rebuild visits what the slot has there; the
//! others visit each chunk whose *primary* copy lies there, wherever the other copies are, so that over
//! all steps each chunk is visited once. (In a far layout all primaries lie in the first part of the
//! members: steps beyond it find nothing to do.) The lock is over the bytes of the array that the step
//! visits, and what lies between them.

use super::compare::differences;
use super::{
    CheckReport, Initialise, Mismatch, Operation, StepResult, SyncError, chunks, io_error,
    target_of,
};
use crate::layout::Place;
use crate::member::{DeviceId, Manner, Writes};
use crate::raid1::{Mirror, RETRY_GRAIN};
use crate::spread::Spread;
use crate::together::all;
use rt::{IoErrorKind, IoFuture, Priority, SgList};
use smallvec::SmallVec;
use std::ops::Range;
use stdx::RangeSet;
use stdx::{ByteCount, Offset};

/// How a background operation writes.
const MANNER: Manner = Manner { fua: false, priority: Priority::Background, zeroes: false };

/// A part of a chunk: where in the array, and where on the member that led there.
struct Visit {
    bytes: Range<u64>,
    place: Place,
}

impl Mirror {
    /// Carries out one step over these places.
    pub(crate) async fn step(&self, operation: Operation, places: Range<u64>) -> StepResult {
        let target = target_of(&self.set, operation)?;
        let visits = match target {
            Some((slot, _)) => self.visits_of(slot, &places),
            None => self.primaries(&places),
        };
        let first = visits.iter().map(|visit| visit.bytes.start).min();
        let last = visits.iter().map(|visit| visit.bytes.end).max();
        let mut report = CheckReport::default();
        if let (Some(first), Some(last)) = (first, last) {
            let _guard = self.locks.exclusive(first..last).await;
            match operation {
                Operation::Initialise(Initialise::FromData) => {
                    self.make_copies(&visits, &places).await?
                }
                Operation::Initialise(Initialise::Zeros) => {
                    self.write_zeros(&visits, &places).await?
                }
                Operation::Rebuild(_) | Operation::Replace(_) => {
                    self.fill_target(operation, &visits, &places).await?
                }
                Operation::Check => self.compare_copies(&visits, false, &mut report).await?,
                Operation::Repair => self.compare_copies(&visits, true, &mut report).await?,
            }
            self.note_clean(operation, &places);
        } else {
            // Nothing of the array lies here: nothing is wrong here.
            self.note_clean(operation, &places);
            if let Some((slot, replacement)) = target {
                self.set.members.filled(
                    slot,
                    self.set.members.target_id(slot, replacement),
                    places,
                );
            }
        }
        Ok(report)
    }

    /// Notes that copies are equal now, under the lock of what was visited.
    fn note_clean(&self, operation: Operation, places: &Range<u64>) {
        if matches!(operation, Operation::Initialise(_) | Operation::Repair) {
            self.set.set_clean(places.clone());
        }
    }

    /// What a slot has in these places.
    fn visits_of(&self, slot: usize, places: &Range<u64>) -> Vec<Visit> {
        let visit = |(place, len): (Place, u64)| {
            let start = self.map.array_byte(place)?;
            Some(Visit { bytes: start..start + len, place })
        };
        chunks(slot, places, self.map.chunk()).filter_map(visit).collect()
    }

    /// The chunks whose primary copy lies in these places, in the order of the array.
    fn primaries(&self, places: &Range<u64>) -> Vec<Visit> {
        let all = (0..self.set.members.len()).flat_map(|slot| self.visits_of(slot, places));
        let mut visits: Vec<Visit> = all
            .filter(|visit| self.map.locate(visit.bytes.start).first() == Some(&visit.place))
            .collect();
        visits.sort_unstable_by_key(|visit| visit.bytes.start);
        visits
    }

    /// The data of all visits, each read from the copy that `choice` prefers.
    async fn read_visits(
        &self,
        visits: &[Visit],
        choice: impl Fn(&Visit, &Spread) -> Option<Place>,
    ) -> Result<SgList, SyncError> {
        let members = &self.set.members;
        let mut spread = Spread::default();
        for visit in visits {
            let failed = io_error(visit.place.at);
            let place = choice(visit, &spread).ok_or_else(|| failed(IoErrorKind::TooFewMembers))?;
            spread.add(place.slot, place.at, visit.bytes.end - visit.bytes.start, members.len());
        }
        let read = |run: &crate::spread::Run| {
            members.read(run.slot, run.at, run.len, Priority::Background)
        };
        let futures: SmallVec<[IoFuture; 4]> = spread.runs.iter().map(read).collect();
        let ids: SmallVec<[DeviceId; 4]> =
            spread.runs.iter().map(|run| members.id(run.slot)).collect();
        let results = all(futures).await;
        if results.iter().all(Result::is_ok) {
            let answers: SmallVec<[SgList; 4]> = results.into_iter().flatten().collect();
            return Ok(spread.assemble(&answers));
        }
        for ((run, id), result) in spread.runs.iter().zip(ids).zip(&results) {
            if let Err(error) = result {
                members.read_failed(run.slot, id, error.kind, |slot| self.is_last(slot));
            }
        }
        // Piece by piece: from the same copy where it can, else from another, and then written anew.
        let mut whole = SgList::new();
        for visit in visits {
            let chosen = choice(visit, &Spread::default());
            let mut at = visit.bytes.start;
            while at < visit.bytes.end {
                let piece = at..(at + RETRY_GRAIN).min(visit.bytes.end);
                let within = at - visit.bytes.start;
                let first = chosen.map(|place| Place { at: place.at + within, ..place });
                let read = self.read_with_others(first, piece.clone(), Priority::Background).await;
                let (data, bad) = read.map_err(io_error(visit.place.at + within))?;
                if !bad.is_empty() {
                    self.write_bad(&piece, &data, &bad).await;
                }
                whole.append(data);
                at = piece.end;
            }
        }
        Ok(whole)
    }

    /// Any copy but those of `but`.
    fn any_copy(&self, visit: &Visit, spread: &Spread, but: &[usize]) -> Option<Place> {
        self.choose(&visit.bytes, &spread.runs, but).map(|(slot, at)| Place { slot, at })
    }

    async fn fill_target(
        &self,
        operation: Operation,
        visits: &[Visit],
        places: &Range<u64>,
    ) -> Result<(), SyncError> {
        let members = &self.set.members;
        let Some((slot, replacement)) = target_of(&self.set, operation)? else { return Ok(()) };
        if !replacement && members.readable(slot, places) {
            return Ok(());
        }
        let choice = |visit: &Visit, spread: &Spread| {
            if replacement && members.readable(slot, places) {
                return Some(visit.place);
            }
            self.any_copy(visit, spread, &[slot])
        };
        let data = match self.read_visits(visits, choice).await {
            Err(SyncError::Io { kind: IoErrorKind::Medium, .. }) => {
                return self.fill_in_pages(operation, visits, places).await;
            }
            read => read?,
        };
        let Some((slot, replacement)) = target_of(&self.set, operation)? else { return Ok(()) };
        let mut target = Spread::default();
        for visit in visits {
            target.add(slot, visit.place.at, visit.bytes.end - visit.bytes.start, members.len());
        }
        let parts = target.scatter(&data);
        let mut writes = Writes::default();
        let mut id = members.target_id(slot, replacement);
        for (run, data) in target.runs.iter().zip(parts) {
            id = members.fill(slot, replacement, run.at, data, MANNER, &mut writes);
        }
        members.settle(writes, |_| false).await;
        if members.filled(slot, id, places.clone()) {
            Ok(())
        } else {
            Err(SyncError::TargetLost { slot })
        }
    }

    /// Fills a target page by page. What no copy has is noted as bad on the target, as md does, so that all
    /// else is there again.
    async fn fill_in_pages(
        &self,
        operation: Operation,
        visits: &[Visit],
        places: &Range<u64>,
    ) -> Result<(), SyncError> {
        let members = &self.set.members;
        let (mut writes, mut filled) = (Writes::default(), None);
        for visit in visits {
            let mut at = visit.bytes.start;
            while at < visit.bytes.end {
                let piece = at..(at + RETRY_GRAIN).min(visit.bytes.end);
                let place = visit.place.at + (at - visit.bytes.start);
                let target = target_of(&self.set, operation)?;
                let Some((slot, replacement)) = target else { return Ok(()) };
                filled = Some((slot, members.target_id(slot, replacement)));
                match self.read_with_others(None, piece.clone(), Priority::Background).await {
                    Ok((data, _)) => {
                        members.fill(slot, replacement, place, data, MANNER, &mut writes);
                    }
                    Err(kind) => {
                        let page = place..place + (piece.end - piece.start);
                        let is_noted = kind == IoErrorKind::Medium
                            && self.set.note_unreadable(slot, replacement, page);
                        if !is_noted {
                            return Err(io_error(place)(kind));
                        }
                    }
                }
                at = piece.end;
            }
        }
        members.settle(writes, |_| false).await;
        match filled {
            Some((slot, id)) if !members.filled(slot, id, places.clone()) => {
                Err(SyncError::TargetLost { slot })
            }
            _ => Ok(()),
        }
    }

    /// Writes all copies but the first, which was read.
    async fn make_copies(&self, visits: &[Visit], places: &Range<u64>) -> Result<(), SyncError> {
        let members = &self.set.members;
        let choice = |visit: &Visit, spread: &Spread| {
            let len = visit.bytes.end - visit.bytes.start;
            if members.readable(visit.place.slot, &(visit.place.at..visit.place.at + len)) {
                return Some(visit.place);
            }
            self.any_copy(visit, spread, &[])
        };
        let data = self.read_visits(visits, choice).await?;
        let mut copies: SmallVec<[Spread; 4]> =
            SmallVec::from_iter((1..self.map.copies()).map(|_| Spread::default()));
        for visit in visits {
            let places = self.map.locate(visit.bytes.start);
            for (place, spread) in places.iter().skip(1).zip(&mut copies) {
                spread.add(
                    place.slot,
                    place.at,
                    visit.bytes.end - visit.bytes.start,
                    members.len(),
                );
            }
        }
        let mut writes = Writes::default();
        for spread in &copies {
            for (run, data) in spread.runs.iter().zip(spread.scatter(&data)) {
                members.write(run.slot, run.at, data, MANNER, &mut writes);
            }
        }
        let spared = members.settle(writes, |slot| self.is_last(slot)).await;
        spared.map_or(Ok(()), |kind| Err(io_error(places.start)(kind)))
    }

    async fn write_zeros(&self, visits: &[Visit], places: &Range<u64>) -> Result<(), SyncError> {
        for run in runs(visits) {
            let zeros = SgList::zeros((run.end - run.start) as usize);
            if let Some(kind) = self.write_copies(run.start, &zeros, MANNER).await {
                return Err(io_error(places.start)(kind));
            }
        }
        Ok(())
    }

    async fn compare_copies(
        &self,
        visits: &[Visit],
        repair: bool,
        report: &mut CheckReport,
    ) -> Result<(), SyncError> {
        let members = &self.set.members;
        let there = |visit: &Visit, copy: usize| {
            let place = self.map.locate(visit.bytes.start)[copy];
            let len = visit.bytes.end - visit.bytes.start;
            members.readable(place.slot, &(place.at..place.at + len)).then_some(place)
        };
        // All copies of all visits at once.
        let copies = self.map.copies();
        let reads = (0..copies).map(|copy| async move {
            let complete = visits.iter().all(|visit| there(visit, copy).is_some());
            if !complete {
                return Ok(None);
            }
            self.read_visits(visits, |visit, _| there(visit, copy)).await.map(Some)
        });
        let mut read = Vec::new();
        for (copy, data) in futures_util::future::join_all(reads).await.into_iter().enumerate() {
            read.extend(data?.map(|data| (copy, data)));
        }
        if read.len() < copies {
            return Err(SyncError::Degraded);
        }
        let Some((_, first)) = read.first().cloned() else { return Err(SyncError::Degraded) };
        let pairs = read.iter().skip(1).map(|(_, data)| (first.clone(), data.clone())).collect();
        let found = differences(&self.set.rt, pairs).await;
        let mut writes = Writes::default();
        let mut start = 0;
        for visit in visits {
            let end = start + (visit.bytes.end - visit.bytes.start);
            let mut wrong = RangeSet::default();
            for (copy, ranges) in (1..).zip(&found) {
                for range in ranges.iter().filter(|range| range.start < end && range.end > start) {
                    let part = range.start.max(start) - start..range.end.min(end) - start;
                    wrong.insert(part.clone());
                    if repair {
                        let place = self.map.locate(visit.bytes.start)[copy];
                        let right = (start + part.start) as usize..(start + part.end) as usize;
                        let right = first.slice(right);
                        members.write(
                            place.slot,
                            place.at + part.start,
                            right,
                            MANNER,
                            &mut writes,
                        );
                    }
                }
            }
            for part in wrong.within(0..end - start) {
                let at = Offset(visit.place.at + part.start);
                let array = Some(Offset(visit.bytes.start + part.start));
                let len = ByteCount(part.end - part.start);
                report.add(Mismatch { at, len, suspect: None, array });
            }
            start = end;
        }
        let spared = members.settle(writes, |slot| self.is_last(slot)).await;
        spared.map_or(Ok(()), |kind| Err(io_error(visits[0].place.at)(kind)))
    }
}

/// The stretches of the array that visits make up.
fn runs(visits: &[Visit]) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for visit in visits {
        match runs.last_mut() {
            Some(last) if last.end == visit.bytes.start => last.end = visit.bytes.end,
            _ => runs.push(visit.bytes.clone()),
        }
    }
    runs
}
