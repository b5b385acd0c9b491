//! Writes of whole rows: the fast way.
//!
//! Nothing is read and nothing is copied: the members get slices of the caller's data, the parity is
//! made from the same slices into fresh buffers, and since rows that follow one another are contiguous
//! on every member, each member gets one request for several rows, data and parity chunks in a list.
//! Rows go in batches whose member requests are as long as [`MEMBER_REQUEST_MAX`] allows; the parity of
//! a batch is one `compute`; a long write has [`BATCHES_IN_FLIGHT_MAX`] batches under way.
//!
//! Writing zeros to whole rows makes zero parity, so every member is asked to zero its part, in its own
//! way where it has one.

use super::Stripes;
use crate::member::{Manner, Writes};
use crate::parity::Sums;
use crate::write_log::{Held, Stretch};
use futures_util::stream::{self, StreamExt};
use rt::{IoErrorKind, SgList};
use std::ops::Range;

/// Batches of one request under way: one in the processor, the others at the members.
const BATCHES_IN_FLIGHT_MAX: usize = 4;
/// How much of each member is zeroed in one step: locks are not held for terabytes.
const ZERO_STEP: u64 = 256 << 20;

impl Stripes {
    /// Writes whole rows.
    pub(super) async fn write_rows(
        &self,
        rows: Range<u64>,
        data: SgList,
        manner: Manner,
    ) -> Result<(), IoErrorKind> {
        let step =
            if manner.zeroes { (ZERO_STEP / self.map.chunk).max(1) } else { self.rows_in_step() };
        let step = self.log().map_or(step, |log| step.min(log.rows_max()));
        if rows.end - rows.start <= step {
            return self.write_rows_now(rows, data, manner).await;
        }
        let starts = (rows.start..rows.end).step_by(step as usize);
        let batches = stream::iter(starts).map(|start| {
            let end = (start + step).min(rows.end);
            let byte = |row: u64| ((row - rows.start) * self.map.row_bytes()) as usize;
            self.write_rows_now(start..end, data.slice(byte(start)..byte(end)), manner)
        });
        let results = batches.buffer_unordered(BATCHES_IN_FLIGHT_MAX);
        // All end, whatever one of them meets.
        results
            .fold(Ok(()), async |so_far: Result<(), IoErrorKind>, result| so_far.and(result))
            .await
    }

    async fn write_rows_now(
        &self,
        rows: Range<u64>,
        data: SgList,
        manner: Manner,
    ) -> Result<(), IoErrorKind> {
        assert_eq!(
            data.len() as u64,
            (rows.end - rows.start) * self.map.row_bytes(),
            "rows are whole"
        );
        let _guard = self.locks.exclusive(rows.clone()).await;
        let places = self.places(&rows);
        self.covered(&places)?;
        self.forget(rows.clone());
        if manner.zeroes {
            self.zero_rows(&rows, manner).await?;
        } else {
            self.write_and_settle(&rows, self.by_member(&rows, data).await, manner).await?;
        }
        self.set.stats.borrow_mut().full_stripe_writes += rows.end - rows.start;
        self.covered(&places)
    }

    /// What each member gets of these rows: the caller's data, and the parity made from it.
    async fn by_member(&self, rows: &Range<u64>, data: SgList) -> Vec<SgList> {
        let chunk = self.map.chunk as usize;
        let mut sums = Sums::default();
        let mut chunks = Vec::with_capacity((rows.end - rows.start) as usize * self.map.data);
        let mut at = 0;
        for number in rows.clone() {
            let row = self.map.row(number);
            let mut inputs = vec![None; self.map.coefficients()];
            for index in 0..self.map.data {
                let slot = self.map.data_slot(&row, index);
                let piece = data.slice(at..at + chunk);
                at += chunk;
                inputs[self.map.coefficient(&row, slot)] = Some(piece.clone());
                chunks.push((slot, piece));
            }
            sums.generate(inputs, self.map.parities());
        }
        let mut by_member = vec![SgList::new(); self.map.disks];
        let mut chunks = chunks.into_iter();
        for (number, parities) in rows.clone().zip(sums.compute(&self.set.rt).await) {
            let row = self.map.row(number);
            for (slot, piece) in chunks.by_ref().take(self.map.data) {
                by_member[slot].append(piece);
            }
            for (slot, parity) in [Some(row.p), row.q].into_iter().flatten().zip(parities) {
                by_member[slot].append(parity);
            }
        }
        by_member
    }

    async fn write_and_settle(
        &self,
        rows: &Range<u64>,
        by_member: Vec<SgList>,
        manner: Manner,
    ) -> Result<(), IoErrorKind> {
        let start = self.places(rows).start;
        let len = (rows.end - rows.start) * self.map.chunk;
        let is_whole = |list: &SgList| list.len() as u64 == len;
        assert!(by_member.iter().all(is_whole), "each member gets its chunk of each row");
        let held = self.log_rows(rows, &by_member).await?;
        let mut writes = Writes::default();
        for (slot, data) in by_member.iter().enumerate() {
            self.set.members.write(slot, start, data.clone(), manner, &mut writes);
        }
        self.set.members.settle(writes, |_| false).await;
        drop(held);
        Ok(())
    }

    /// Logs whole rows, where there is a log.
    async fn log_rows(&self, rows: &Range<u64>, by_member: &[SgList]) -> Result<Held, IoErrorKind> {
        let Some(log) = self.log() else { return Ok(Held::default()) };
        let start = self.places(rows).start;
        let stretch = |number: u64| {
            let (row, places) = (self.map.row(number), self.places(&(number..number + 1)));
            let part = (places.start - start) as usize..(places.end - start) as usize;
            let all = by_member.iter().map(|data| data.slice(part.clone())).enumerate();
            let all_parity = log.page().is_some();
            let is_there = |slot: &usize| all_parity || self.set.members.writable(*slot, &places);
            let (parity, data): (Vec<_>, Vec<_>) = all.partition(|(slot, _)| row.is_parity(*slot));
            let parity = parity.into_iter().filter(|(slot, _)| is_there(slot)).collect();
            Stretch { row: number, places, data: data.into(), parity, partial: None }
        };
        let stretches: Vec<Stretch> = rows.clone().map(stretch).collect();
        log.begin(&stretches).await
    }

    async fn zero_rows(&self, rows: &Range<u64>, manner: Manner) -> Result<(), IoErrorKind> {
        let places = self.places(rows);
        let zeros = SgList::zeros((places.end - places.start) as usize);
        let held = self.log_rows(rows, &vec![zeros.clone(); self.map.disks]).await?;
        let mut writes = Writes::default();
        for slot in 0..self.map.disks {
            self.set.members.write(slot, places.start, zeros.clone(), manner, &mut writes);
        }
        let unable = self.set.members.settle(writes, |_| true).await.is_some();
        drop(held);
        if unable {
            // Not every member knows how, or one failed: plain writes tell.
            let by_member = vec![zeros; self.map.disks];
            let manner = Manner { zeroes: false, ..manner };
            self.write_and_settle(rows, by_member, manner).await?;
        }
        Ok(())
    }
}
