//! Writes of parts of a row through a [write log](crate::write_log).
//!
//! In **rounds**: each takes as many bands as the log takes at once (a band that is longer is cut), logs them,
//! writes their data and parity, waits for the members, and lets go of the log. As a rule there is one round.
//!
//! The **partial parity** of a band is the exclusive-or of the data that is not written there: where parity was
//! made from all data, of the data that was read; where it was changed by a difference, of the old parity and
//! the old data of what is written.
//!
//! **Apart.** A log entry names the first of the members that are written and how many follow it in the order of
//! data. Writes of a batch that leave a gap in some band therefore go one after another: each alone is a
//! stretch of the array, which never leaves one.
//!
//! **Pages.** For a log of pages a write is [widened](Stripes::widen) to whole pages by what stands there; it has no
//! partial parities, and nothing needs to go apart.

use super::Stripes;
use super::pending::PendingWrite;
use super::plan::{Band, Mode};
use crate::layout::parity::Row;
use crate::member::{Manner, Writes};
use crate::parity::Sums;
use crate::pieces::Pieces;
use crate::write_log::{STRETCHES_MAX, Stretch, WriteLog};
use rt::{IoErrorKind, Priority, SgList};
use std::rc::Rc;

impl Stripes {
    /// The log, where there is one.
    pub(super) fn log(&self) -> Option<Rc<dyn WriteLog>> {
        self.log.borrow().clone()
    }

    /// From now on rows are logged before they are written.
    pub(crate) fn log_with(&self, log: Rc<dyn WriteLog>) {
        *self.log.borrow_mut() = Some(log);
    }

    /// Whether these writes leave no gap between the members that they write, in each band.
    pub(super) fn follow_one_another(&self, number: u64, batch: &[PendingWrite]) -> bool {
        let row = self.map.row(number);
        let mut new = self.nothing_known();
        batch.iter().for_each(|write| self.lay(write, &mut new, false));
        let mut edges: Vec<u64> = new
            .iter()
            .flat_map(Pieces::iter)
            .flat_map(|(at, data)| [at, at + data.len() as u64])
            .collect();
        edges.sort_unstable();
        edges.dedup();
        edges.windows(2).all(|pair| {
            let range = pair[0]..pair[1];
            let written = |index: &usize| new[self.map.data_slot(&row, *index)].holds(&range);
            let first = (0..self.map.data).find(written);
            let last = (0..self.map.data).rfind(written);
            match (first, last) {
                (Some(first), Some(last)) => (first..=last).all(|index| written(&index)),
                _ => true,
            }
        })
    }

    /// Writes the data and parity of these bands, each logged before.
    pub(super) async fn write_logged(
        &self,
        log: &dyn WriteLog,
        number: u64,
        bands: &[Band],
        new: &[Pieces],
        known: &[Pieces],
        manner: Manner,
    ) -> Result<(), IoErrorKind> {
        let row = self.map.row(number);
        let (most, partials) = match log.partial_max() {
            Some(most) => (most, self.partial_parities(&row, bands, new, known).await),
            None => (u64::MAX, vec![None; bands.len()]),
        };
        let (mut round, mut logged) = (Vec::new(), 0);
        for (band, partial) in bands.iter().zip(partials) {
            let mut at = band.range.start;
            while at < band.range.end {
                let room = if partial.is_some() { most - logged } else { u64::MAX };
                if room == 0 || round.len() == STRETCHES_MAX {
                    self.write_round(log, std::mem::take(&mut round), manner).await?;
                    logged = 0;
                    continue;
                }
                let places = at..band.range.end.min(at.saturating_add(room));
                let part = |list: &SgList| {
                    let (from, to) =
                        (places.start - band.range.start, places.end - band.range.start);
                    list.slice(from as usize..to as usize)
                };
                let partial = partial.as_ref().map(part);
                logged += partial.as_ref().map_or(0, |partial| partial.len() as u64);
                at = places.end;
                round.push(self.stretch(number, &row, places, new, partial));
            }
        }
        self.write_round(log, round, manner).await
    }

    /// Widens what is to be written of each member to whole pages, by what stands there.
    pub(super) async fn widen(
        &self,
        page: u64,
        new: &mut [Pieces],
        known: &mut [Pieces],
        priority: Priority,
    ) -> Result<(), IoErrorKind> {
        let mut wants = Vec::new();
        for (slot, pieces) in new.iter().enumerate() {
            for (at, data) in pieces.iter() {
                let end = at + data.len() as u64;
                for edge in [at - at % page..at, end..end.next_multiple_of(page)] {
                    pieces.gaps(&edge, |gap| wants.push((slot, gap)));
                }
            }
        }
        if wants.is_empty() {
            return Ok(());
        }
        self.gather(&wants, known, priority).await?;
        for (slot, gap) in wants {
            let there = known[slot].get(&gap).expect("it was gathered");
            new[slot].insert(gap.start, there);
        }
        Ok(())
    }

    /// What of `new` lies in these places.
    fn stretch(
        &self,
        number: u64,
        row: &Row,
        places: std::ops::Range<u64>,
        new: &[Pieces],
        partial: Option<SgList>,
    ) -> Stretch {
        let all = new.iter().enumerate();
        let there = all.filter_map(|(slot, new)| Some((slot, new.get(&places)?)));
        let len = (places.end - places.start) as usize;
        assert!(
            partial.as_ref().is_none_or(|partial| partial.len() == len),
            "a partial parity is as long as what is written"
        );
        let (parity, data): (Vec<_>, Vec<_>) = there.partition(|(slot, _)| row.is_parity(*slot));
        Stretch { row: number, places, data: data.into(), parity: parity.into(), partial }
    }

    async fn write_round(
        &self,
        log: &dyn WriteLog,
        round: Vec<Stretch>,
        manner: Manner,
    ) -> Result<(), IoErrorKind> {
        assert!(round.len() <= STRETCHES_MAX, "a round is what the log takes at once");
        let held = log.begin(&round).await?;
        let mut writes = Writes::default();
        for stretch in &round {
            for (slot, data) in stretch.data.iter().chain(&stretch.parity) {
                self.set.members.write(
                    *slot,
                    stretch.places.start,
                    data.clone(),
                    manner,
                    &mut writes,
                );
            }
        }
        self.set.members.settle(writes, |_| false).await;
        drop(held);
        Ok(())
    }

    /// The partial parity of each band that has one.
    async fn partial_parities(
        &self,
        row: &Row,
        bands: &[Band],
        new: &[Pieces],
        known: &[Pieces],
    ) -> Vec<Option<SgList>> {
        let mut sums = Sums::default();
        let mut whose = Vec::new();
        for (index, band) in bands.iter().enumerate() {
            let range = &band.range;
            if !new[row.p].holds(range) {
                continue;
            }
            let slots = (0..self.map.data).map(|index| self.map.data_slot(row, index));
            let written = |slot: &usize| new[*slot].holds(range);
            let inputs: Vec<usize> = match band.mode {
                Mode::Full | Mode::Plain => continue,
                Mode::Reconstruct => slots.filter(|slot| !written(slot)).collect(),
                Mode::Modify => slots.filter(written).chain([row.p]).collect(),
            };
            let of = |slot: usize| known[slot].get(range).expect("the plan wanted it");
            sums.generate(inputs.into_iter().map(|slot| Some(of(slot))).collect(), 1);
            whose.push(index);
        }
        let mut partials = vec![None; bands.len()];
        if sums.is_empty() {
            return partials;
        }
        for (index, made) in whose.into_iter().zip(sums.compute(&self.set.rt).await) {
            partials[index] = made.into_iter().next();
        }
        partials
    }
}
