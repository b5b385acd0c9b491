//! Steps of background operations on RAID 4, 5 and 6. The theory stands in [`sync`](super).
//!
//! **Who is wrong.** Where a row of RAID 6 does not agree, each member in turn is taken for the wrong one: it is
//! computed from P and the others, and where Q agrees with that, it explains what differs. If exactly one does, by
//! all bytes of a sector, it is the one. Its bytes are what a repair puts right; where nobody explains it alone, the data
//! is taken for right and parity made anew.

use super::compare::differences;
use super::{
    CheckReport, Initialise, Mismatch, Operation, SECTOR, StepResult, SyncError, io_error,
    target_of,
};
use crate::layout::Place;
use crate::member::{Manner, Writes};
use crate::parity::{Part, Sums};
use crate::pieces::Pieces;
use crate::raid1::RETRY_GRAIN;
use crate::stripe::Stripes;
use rt::{IoErrorKind, Priority, SgList};
use std::ops::Range;
use stdx::RangeSet;
use stdx::{ByteCount, Offset};

/// How a background operation writes.
const MANNER: Manner = Manner { fua: false, priority: Priority::Background, zeroes: false };

impl Stripes {
    /// Carries out one step over these places.
    pub(crate) async fn step(&self, operation: Operation, places: Range<u64>) -> StepResult {
        let rows = self.rows(&places);
        let _guard = self.locks.exclusive(rows.clone()).await;
        match operation {
            Operation::Initialise(Initialise::FromData) => self.make_parity(&rows, &places).await?,
            Operation::Initialise(Initialise::Zeros) => self.write_zeros(&rows, &places).await?,
            Operation::Rebuild(_) | Operation::Replace(_) => {
                self.fill_target(operation, &places).await?
            }
            Operation::Check => return self.compare_parity(&rows, &places, false).await,
            Operation::Repair => return self.compare_parity(&rows, &places, true).await,
        }
        Ok(CheckReport::default())
    }

    async fn make_parity(&self, rows: &Range<u64>, places: &Range<u64>) -> Result<(), SyncError> {
        let mut known = self.nothing_known();
        let mut wants = Vec::new();
        for number in rows.clone() {
            let row = self.map.row(number);
            let chunk = self.places(&(number..number + 1));
            wants.extend(
                (0..self.map.data).map(|index| (self.map.data_slot(&row, index), chunk.clone())),
            );
        }
        self.gather(&wants, &mut known, Priority::Background)
            .await
            .map_err(io_error(places.start))?;
        self.forget(rows.clone());
        let mut writes = Writes::default();
        for (number, parities) in rows.clone().zip(self.parities_of(rows, &known).await) {
            let row = self.map.row(number);
            for (slot, parity) in [Some(row.p), row.q].into_iter().flatten().zip(parities) {
                self.set.members.write(slot, number * self.map.chunk, parity, MANNER, &mut writes);
            }
        }
        self.set.members.settle(writes, |_| false).await;
        self.covered(places).map_err(io_error(places.start))?;
        self.set.set_clean(places.clone());
        Ok(())
    }

    /// The parity of rows whose data is known, row by row.
    async fn parities_of(
        &self,
        rows: &Range<u64>,
        known: &[Pieces],
    ) -> Vec<crate::parity::Parities> {
        let mut sums = Sums::default();
        for number in rows.clone() {
            let row = self.map.row(number);
            let chunk = self.places(&(number..number + 1));
            let mut data = vec![None; self.map.coefficients()];
            for index in 0..self.map.data {
                let slot = self.map.data_slot(&row, index);
                data[self.map.coefficient(&row, slot)] = known[slot].get(&chunk);
            }
            sums.generate(data, self.map.parities());
        }
        sums.compute(&self.set.rt).await.into_vec()
    }

    async fn write_zeros(&self, rows: &Range<u64>, places: &Range<u64>) -> Result<(), SyncError> {
        self.forget(rows.clone());
        let zeros = SgList::zeros((places.end - places.start) as usize);
        let mut writes = Writes::default();
        for slot in 0..self.map.disks {
            self.set.members.write(slot, places.start, zeros.clone(), MANNER, &mut writes);
        }
        self.set.members.settle(writes, |_| false).await;
        self.covered(places).map_err(io_error(places.start))?;
        self.set.set_clean(places.clone());
        Ok(())
    }

    /// Fills a rebuilding slot or a replacement.
    async fn fill_target(
        &self,
        operation: Operation,
        places: &Range<u64>,
    ) -> Result<(), SyncError> {
        let members = &self.set.members;
        let Some((slot, replacement)) = target_of(&self.set, operation)? else { return Ok(()) };
        if !replacement && members.readable(slot, places) {
            return Ok(());
        }
        let mut known = self.nothing_known();
        let mut wants = Vec::new();
        if !replacement {
            // All the others, whole, so that each is one long read: what one row does without would cut it.
            let others = (0..self.map.disks)
                .filter(|other| *other != slot && members.readable(*other, places));
            wants.extend(others.map(|other| (other, places.clone())));
        }
        wants.push((slot, places.clone()));
        if let Err(kind) = self.gather(&wants, &mut known, Priority::Background).await {
            // Too many members away is one thing; some bad places too many another.
            self.covered(places).map_err(io_error(places.start))?;
            return self.fill_in_pages(operation, places, kind).await;
        }
        let data = known[slot].get(places).expect("what was gathered is known");
        // The slot may have failed meanwhile, and its replacement may stand in it now.
        let Some((slot, replacement)) = target_of(&self.set, operation)? else { return Ok(()) };
        let mut writes = Writes::default();
        let id = members.fill(slot, replacement, places.start, data, MANNER, &mut writes);
        members.settle(writes, |_| false).await;
        if members.filled(slot, id, places.clone()) {
            Ok(())
        } else {
            Err(SyncError::TargetLost { slot })
        }
    }

    /// Fills a target page by page. What can't be had from anywhere is noted as bad on the target, as md
    /// does, so that all else is there again.
    async fn fill_in_pages(
        &self,
        operation: Operation,
        places: &Range<u64>,
        first: IoErrorKind,
    ) -> Result<(), SyncError> {
        let members = &self.set.members;
        let (mut at, mut writes, mut filled) = (places.start, Writes::default(), None);
        while at < places.end {
            let page = at..(at + RETRY_GRAIN).min(places.end);
            let Some((slot, replacement)) = target_of(&self.set, operation)? else { return Ok(()) };
            let mut known = self.nothing_known();
            let read = self.gather(&[(slot, page.clone())], &mut known, Priority::Background).await;
            match (read, known[slot].get(&page)) {
                (Ok(()), Some(data)) => {
                    let id = members.fill(slot, replacement, at, data, MANNER, &mut writes);
                    filled = Some((slot, id));
                }
                _ => {
                    self.covered(places).map_err(io_error(at))?;
                    if !self.set.note_unreadable(slot, replacement, page.clone()) {
                        return Err(io_error(at)(first));
                    }
                    filled = filled.or(Some((slot, members.target_id(slot, replacement))));
                }
            }
            at = page.end;
        }
        members.settle(writes, |_| false).await;
        match filled {
            Some((slot, id)) if !members.filled(slot, id, places.clone()) => {
                Err(SyncError::TargetLost { slot })
            }
            _ => Ok(()),
        }
    }

    async fn compare_parity(
        &self,
        rows: &Range<u64>,
        places: &Range<u64>,
        repair: bool,
    ) -> StepResult {
        let members = &self.set.members;
        if !(0..self.map.disks).all(|slot| members.readable(slot, places)) {
            return Err(SyncError::Degraded);
        }
        let mut known = self.nothing_known();
        let wants: Vec<_> = (0..self.map.disks).map(|slot| (slot, places.clone())).collect();
        self.gather(&wants, &mut known, Priority::Background)
            .await
            .map_err(io_error(places.start))?;
        let made = self.parities_of(rows, &known).await;
        let mut pairs = Vec::new();
        let mut whose = Vec::new();
        for (number, parities) in rows.clone().zip(made) {
            let row = self.map.row(number);
            let chunk = self.places(&(number..number + 1));
            for (slot, parity) in [Some(row.p), row.q].into_iter().flatten().zip(parities) {
                pairs.push((known[slot].get(&chunk).expect("all was read"), parity.clone()));
                whose.push((number, slot, parity));
            }
        }
        let found = differences(&self.set.rt, pairs).await;
        let mut report = CheckReport::default();
        let mut writes = Writes::default();
        let parities = self.map.parities();
        for (row, found) in whose.chunks(parities).zip(found.chunks(parities)) {
            let start = row[0].0 * self.map.chunk;
            let mut sectors: Vec<Range<u64>> = found.iter().flatten().cloned().collect();
            sectors.sort_unstable_by_key(|range| range.start);
            // Where a chunk of data was wrong alone, its parity is right.
            let mut data_was_wrong = RangeSet::default();
            for range in joined(sectors) {
                let whole = start + range.start..start + range.end;
                for (at, suspect) in self.suspects(&known, whole) {
                    let slot = suspect.as_ref().map(|suspect| suspect.slot);
                    let place = slot.map(|slot| Place { slot, at: at.start });
                    report.add(Mismatch {
                        at: Offset(at.start),
                        len: ByteCount(at.end - at.start),
                        suspect: slot,
                        array: place.and_then(|place| self.map.array_byte(place)).map(Offset),
                    });
                    if let Some(Suspect { slot, right: Some(right) }) = suspect.filter(|_| repair) {
                        members.write(slot, at.start, right, MANNER, &mut writes);
                        data_was_wrong.insert(at);
                    }
                }
            }
            for ((_, slot, parity), ranges) in row.iter().zip(found) {
                for range in ranges.iter().filter(|_| repair) {
                    let (mut from, end) = (start + range.start, start + range.end);
                    while let Some(gap) = data_was_wrong.gap(from, end) {
                        let (first, last) = (gap.start - start, gap.end - start);
                        let right = parity.slice(first as usize..last as usize);
                        members.write(*slot, gap.start, right, MANNER, &mut writes);
                        from = gap.end;
                    }
                }
            }
        }
        if repair {
            self.forget(rows.clone());
            members.settle(writes, |_| false).await;
            self.covered(places).map_err(io_error(places.start))?;
            self.set.set_clean(places.clone());
        }
        Ok(report)
    }

    /// Who was wrong in these places of a row: at once where it is one member all over, else sector by sector;
    /// neighbours that say the same are one.
    fn suspects(&self, known: &[Pieces], at: Range<u64>) -> Vec<(Range<u64>, Option<Suspect>)> {
        let whole = self.suspect(known, &at);
        if whole.is_some() || self.map.row(at.start / self.map.chunk).q.is_none() {
            return vec![(at, whole)];
        }
        let mut found: Vec<(Range<u64>, Option<Suspect>)> = Vec::new();
        let mut from = at.start;
        while from < at.end {
            let sector = from..(from + SECTOR.bytes()).min(at.end);
            from = sector.end;
            let suspect = self.suspect(known, &sector);
            match found.last_mut() {
                Some((range, before)) if Suspect::same(before, &suspect) => {
                    range.end = sector.end;
                    if let (Some(before), Some(suspect)) = (before, suspect)
                        && let (Some(all), Some(next)) = (&mut before.right, suspect.right)
                    {
                        all.append(next);
                    }
                }
                _ => found.push((sector, suspect)),
            }
        }
        found
    }

    /// The one member of a row that, if it alone is wrong in these places, explains what differs. Only
    /// RAID 6 can tell.
    fn suspect(&self, known: &[Pieces], at: &Range<u64>) -> Option<Suspect> {
        let row = self.map.row(at.start / self.map.chunk);
        row.q?;
        let explained_by = |slot: usize| {
            let part = |other: usize| {
                if other == slot {
                    Some(Part::Wanted)
                } else {
                    known[other].get(at).map(Part::Here)
                }
            };
            // Computed from P (or, where P is meant, from the data), does it agree with Q?
            let mut data = vec![None; self.map.coefficients()];
            for index in 0..self.map.data {
                let other = self.map.data_slot(&row, index);
                data[self.map.coefficient(&row, other)] = part(other);
            }
            let right = self.solved(data, part(row.p)?, part(row.q?)?)?;
            Some(Suspect { slot, right })
        };
        let mut suspects = (0..self.map.disks).filter_map(explained_by);
        suspects.next().filter(|_| suspects.next().is_none())
    }

    /// Whether the wanted member can be so that P and Q are both right, and how it is then if it is data.
    fn solved(&self, data: Vec<Option<Part>>, p: Part, q: Part) -> Option<Option<SgList>> {
        let wanted_data = data.iter().flatten().any(|part| matches!(part, Part::Wanted));
        let mut right = None;
        let mut lists: Vec<Option<SgList>> = data
            .iter()
            .map(|part| match part {
                Some(Part::Here(bytes)) => Some(bytes.clone()),
                _ => None,
            })
            .collect();
        if wanted_data {
            let parts = data.iter().map(|part| part.clone().unwrap_or(Part::Hole)).collect();
            let mut sums = Sums::default();
            sums.reconstruct(parts, vec![p.clone(), Part::Lost]);
            let solved = sums.compute_now().pop().and_then(|mut found| found.pop());
            let place = data.iter().position(|part| matches!(part, Some(Part::Wanted)));
            if let (Some(place), Some(solved)) = (place, solved) {
                lists[place] = Some(solved.clone());
                right = Some(solved);
            }
        }
        let mut sums = Sums::default();
        sums.generate(lists, 2);
        let made = sums.compute_now().pop()?;
        let agrees = [p, q].iter().zip(&made).all(|(part, made)| match part {
            Part::Here(bytes) => bytes.to_vec() == made.to_vec(),
            _ => true,
        });
        agrees.then_some(right)
    }
}

/// The member that alone explains what differs.
struct Suspect {
    slot: usize,
    /// What should stand there, if it is data; parity is known without it.
    right: Option<SgList>,
}

impl Suspect {
    /// Whether both blame the same member, or both nobody.
    fn same(a: &Option<Suspect>, b: &Option<Suspect>) -> bool {
        a.as_ref().map(|one| one.slot) == b.as_ref().map(|one| one.slot)
    }
}

/// Sorted ranges, those that touch or overlap joined.
fn joined(ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}
