//! Brings together what is known of rows: reads it, or computes it from the others.
//!
//! The one place where lost data is computed. The caller holds the lock of the rows, says what it wants
//! of which slot, and hands over what it knows already; afterwards all that it wanted is known.
//!
//! In rounds: whatever of the wanted is not known is read where its member can be read. Where it can't,
//! the row's other members are wanted for the same places, and when they are known, it is computed: P
//! before Q, both where two are lost. A member that fails, or a place that can't be read, in one round
//! is computed in the next. So the rounds end: each takes away a member or a place.
//!
//! **Bad places.** A long read that fails is done again in grains of a page, so that two members with
//! bad places in the same rows don't hinder one another. What was wanted and had to be computed because
//! its place is bad is written again to its member, which gives disks the chance to remap the sector.

use super::Stripes;
use super::plan::Wants;
use crate::layout::parity::Row;
use crate::member::{DeviceId, Manner, Writes};
use crate::parity::{Part, Sums};
use crate::pieces::Pieces;
use crate::raid1::RETRY_GRAIN;
use crate::spec::MEMBERS_MAX;
use crate::spread::MEMBER_REQUEST_MAX;
use crate::together::all;
use rt::{IoErrorKind, IoFuture, Priority};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Range;
use stdx::RangeSet;

/// Each round takes away a member or finds bad places on one more; more rounds mean that something is
/// wrong with us.
const ROUNDS_MAX: usize = 2 * MEMBERS_MAX;

/// Places that could not be read, by slot.
type BadPlaces = BTreeMap<usize, RangeSet>;

/// The slots from which something is computed.
type Sources = SmallVec<[usize; 16]>;

/// A part of a row of one slot that must be computed.
struct Lost {
    slot: usize,
    range: Range<u64>,
}

impl Stripes {
    /// Makes all that is wanted known.
    pub(crate) async fn gather(
        &self,
        wants: &[(usize, Range<u64>)],
        known: &mut [Pieces],
        priority: Priority,
    ) -> Result<(), IoErrorKind> {
        let mut bad = BadPlaces::new();
        for _ in 0..ROUNDS_MAX {
            let mut reads = Wants::new();
            let mut lost = Vec::new();
            for (slot, range) in wants {
                known[*slot].gaps(range, |gap| {
                    if self.can_read(*slot, &gap, &bad) {
                        reads.push((*slot, gap));
                    } else {
                        self.split_rows(&gap, |range| lost.push(Lost { slot: *slot, range }));
                    }
                });
            }
            if reads.is_empty() && lost.is_empty() {
                return Ok(());
            }
            let direct = reads.len();
            let mut sources = Vec::with_capacity(lost.len());
            for lost in &lost {
                let row = self.map.row(lost.range.start / self.map.chunk);
                let used = self.sources(&row, lost, known, &bad)?;
                for slot in &used {
                    known[*slot].gaps(&lost.range, |gap| reads.push((*slot, gap)));
                }
                sources.push((row, used));
            }
            if !reads.is_empty() {
                let sorted = direct == reads.len() && direct < 2;
                let reads = if sorted { reads } else { joined(reads) };
                // What can't be read is rare: what deals with it is boxed, or each write would carry it.
                let failed = self.read_once(reads, known, priority).await;
                if !failed.is_empty() {
                    Box::pin(self.read_again(failed, known, &mut bad, priority)).await;
                }
                continue;
            }
            Box::pin(self.compute_lost(&lost, &sources, known, &bad)).await;
        }
        unreachable!("each round takes away a member or a place")
    }

    /// Computes what is lost, each from its sources, which are known.
    async fn compute_lost(
        &self,
        lost: &[Lost],
        sources: &[(Row, Sources)],
        known: &mut [Pieces],
        bad: &BadPlaces,
    ) {
        let mut sums = Sums::default();
        for (lost, (row, used)) in lost.iter().zip(sources) {
            self.add_sum(&mut sums, row, lost, used, known);
        }
        let results = sums.compute(&self.set.rt).await;
        let mut writes = Writes::default();
        for (lost, mut result) in lost.iter().zip(results) {
            let data = result.pop().expect("a reconstruction gives what is wanted");
            let len = lost.range.end - lost.range.start;
            assert_eq!(data.len() as u64, len, "what is computed is what was lost");
            self.set.stats.borrow_mut().reconstructed_bytes += len;
            if bad.get(&lost.slot).is_some_and(|bad| bad.touches(&lost.range)) {
                let manner = Manner::default();
                let (at, data) = (lost.range.start, data.clone());
                self.set.members.write(lost.slot, at, data, manner, &mut writes);
                self.set.members.count_corrected(lost.slot);
                self.set.stats.borrow_mut().corrected += 1;
            }
            known[lost.slot].insert(lost.range.start, data);
        }
        self.set.members.settle(writes, |_| false).await;
    }

    fn can_read(&self, slot: usize, range: &Range<u64>, bad: &BadPlaces) -> bool {
        self.set.members.readable(slot, range)
            && !bad.get(&slot).is_some_and(|bad| bad.touches(range))
    }

    /// Cuts places at the borders of rows.
    fn split_rows(&self, range: &Range<u64>, mut each: impl FnMut(Range<u64>)) {
        let mut at = range.start;
        while at < range.end {
            let end = (at / self.map.chunk + 1) * self.map.chunk;
            each(at..end.min(range.end));
            at = end;
        }
    }

    /// The slots from which what is lost can be computed: all other data that can be had, and as many
    /// parities as data is lost.
    fn sources(
        &self,
        row: &Row,
        lost: &Lost,
        known: &[Pieces],
        bad: &BadPlaces,
    ) -> Result<Sources, IoErrorKind> {
        let can_have = |slot: usize| {
            let mut can = slot != lost.slot;
            known[slot].gaps(&lost.range, |gap| can &= self.can_read(slot, &gap, bad));
            can
        };
        let mut used = Sources::new();
        let data = (0..self.map.data).map(|index| self.map.data_slot(row, index));
        used.extend(data.filter(|slot| can_have(*slot)));
        let unknown = self.map.data - used.len();
        let parities = [Some(row.p), row.q].into_iter().flatten().filter(|slot| can_have(*slot));
        used.extend(parities.take(unknown));
        if used.len() < self.map.data {
            return Err(if bad.is_empty() {
                IoErrorKind::TooFewMembers
            } else {
                IoErrorKind::Medium
            });
        }
        Ok(used)
    }

    fn add_sum(&self, sums: &mut Sums, row: &Row, lost: &Lost, used: &[usize], known: &[Pieces]) {
        let part = |slot: usize| {
            if slot == lost.slot {
                Part::Wanted
            } else if used.contains(&slot) {
                Part::Here(known[slot].get(&lost.range).expect("what is used was read"))
            } else {
                Part::Lost
            }
        };
        assert_eq!(used.len(), self.map.data, "as many are used as there is data in a row");
        let mut data = vec![Part::Hole; self.map.coefficients()];
        for index in 0..self.map.data {
            let slot = self.map.data_slot(row, index);
            data[self.map.coefficient(row, slot)] = part(slot);
        }
        let parity = [Some(row.p), row.q].into_iter().flatten().map(part).collect();
        sums.reconstruct(data, parity);
    }

    /// Reads once more, in grains, what met a bad place; what can't be read is noted.
    async fn read_again(
        &self,
        failed: Wants,
        known: &mut [Pieces],
        bad: &mut BadPlaces,
        priority: Priority,
    ) {
        let mut again = Wants::new();
        for (slot, range) in failed {
            let grains = range.start / RETRY_GRAIN..range.end.div_ceil(RETRY_GRAIN);
            let grains = grains.map(|grain| grain * RETRY_GRAIN..(grain + 1) * RETRY_GRAIN);
            again.extend(
                grains.map(|grain| (slot, grain.start.max(range.start)..grain.end.min(range.end))),
            );
        }
        // Two reads of one slot may have told of a bad place and then of a device that is gone, and a
        // failed slot's replacement stands in it at once, empty where it was not filled yet. Asked
        // again, it would answer what it happens to hold. What is left out here is still a gap: the
        // next round computes it.
        again.retain(|(slot, range)| self.set.members.readable(*slot, range));
        if !again.is_empty() {
            for (slot, range) in self.read_once(again, known, priority).await {
                bad.entry(slot).or_default().insert(range);
            }
        }
    }

    /// Reads, all at once; gives back what met a bad place.
    async fn read_once(&self, reads: Wants, known: &mut [Pieces], priority: Priority) -> Wants {
        let members = &self.set.members;
        let submit = |(slot, range): &(usize, Range<u64>)| {
            members.read(*slot, range.start, range.end - range.start, priority)
        };
        let futures: SmallVec<[IoFuture; 4]> = reads.iter().map(submit).collect();
        let ids: SmallVec<[DeviceId; 4]> =
            reads.iter().map(|(slot, _)| members.id(*slot)).collect();
        let mut failed = Wants::new();
        for (((slot, range), id), result) in reads.into_iter().zip(ids).zip(all(futures).await) {
            match result {
                Ok(data) => {
                    let asked = range.end - range.start;
                    assert_eq!(data.len() as u64, asked, "a member answers what it is asked for");
                    known[slot].insert(range.start, data);
                }
                Err(error) if members.read_failed(slot, id, error.kind, |_| false) => {
                    failed.push((slot, range))
                }
                Err(_) => {}
            }
        }
        failed
    }
}

/// Reads in the order of slots and places, those that touch joined up to the longest request.
fn joined(mut reads: Wants) -> Wants {
    reads.sort_unstable_by_key(|(slot, range)| (*slot, range.start));
    let mut joined = Wants::with_capacity(reads.len());
    for (slot, range) in reads {
        if let Some((last_slot, last)) = joined.last_mut()
            && *last_slot == slot
            && range.start <= last.end
            && range.end - last.start <= MEMBER_REQUEST_MAX.max(last.end - last.start)
        {
            last.end = last.end.max(range.end);
            continue;
        }
        joined.push((slot, range));
    }
    joined
}
