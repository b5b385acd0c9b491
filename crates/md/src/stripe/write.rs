//! Writes of parts of a row, and the division of a write into whole rows and parts.
//!
//! **Batches.** A partial write is put down at its row, and a task that takes the row's lock carries out
//! all that is put down there at that moment. So writes that are submitted together, or that come while
//! the row is busy, go together: what were many small writes may be a full row. They are laid over one
//! another in the order of coming. The last part of a stream waits for its row to fill, as long as the
//! stream has more under way than waits there, but no longer than [`STREAM_WAIT_MAX`].
//!
//! **The task**, holding the lock: plan, gather what the plan wants, compute the parity of all bands in
//! one `compute`, write data and parity to all members at once, keep what is known in the cache,
//! answer. With FUA asked by one write of a batch, the batch's member writes carry it.
//!
//! **Memory.** The cache keeps slices of the callers' buffers where the slice is a good part of the
//! buffer, and copies otherwise, so that a few kilobytes don't pin a megabyte.

use super::Stripes;
use super::pending::{PendingRow, PendingWrite};
use super::plan::{Band, Mode, View};
use crate::layout::parity::Row;
use crate::member::{Manner, Writes};
use crate::parity::Sums;
use crate::pieces::Pieces;
use crate::set::Parts;
use futures_util::future::select;
use rt::sync::oneshot;
use rt::{Buf, IoErrorKind, IoFuture, Op, Priority, Request, SgList};
use std::collections::btree_map::Entry;
use std::rc::Rc;
use stdx::Duration;

/// The cache keeps a slice of a write's buffer where it is at least this part of it.
const PINNED_SHARE_MIN: usize = 4;

/// So long at the most a stream's last part waits for its row to fill: a disk's answer or two, which is
/// what it takes the writer to send more.
const STREAM_WAIT_MAX: Duration = Duration::from_millis(10);

impl Stripes {
    pub(super) fn write(self: &Rc<Self>, request: Request) -> IoFuture {
        let (start, len) = (request.offset.bytes(), request.len().bytes());
        let (end, row_bytes) = (start + len, self.map.row_bytes());
        let full = start.div_ceil(row_bytes)..end / row_bytes;
        let has_full = full.start < full.end;
        // What lies before and behind the whole rows; without any, the one or two rows it touches.
        let cut_head = if has_full {
            full.start * row_bytes
        } else {
            end.min((start / row_bytes + 1) * row_bytes)
        };
        let cut_tail = if has_full { full.end * row_bytes } else { cut_head };
        let parts =
            usize::from(start < cut_head) + usize::from(has_full) + usize::from(cut_tail < end);
        let (completion, future) = IoFuture::pending();
        let parts = Parts::new(self.set.host_begins(), &request, parts, completion);
        let mut manner =
            Manner { fua: request.is_fua(), priority: request.priority, zeroes: false };
        let (data, zeroes) = match request.op {
            Op::Write { data, .. } => (data, false),
            _ => (SgList::zeros(len as usize), true),
        };
        let stream = self.streams.borrow_mut().note(start, end, row_bytes);
        for (from, to) in [(start, cut_head), (cut_tail, end)] {
            if from < to {
                let piece = data.slice((from - start) as usize..(to - start) as usize);
                let pins_much = piece.len() * PINNED_SHARE_MIN < data.len();
                let (parts, stream) = (Rc::clone(&parts), Rc::clone(&stream));
                self.put_down(PendingWrite {
                    at: from,
                    data: piece,
                    manner,
                    pins_much,
                    parts,
                    stream,
                });
            }
        }
        if has_full {
            manner.zeroes = zeroes;
            let data = data.slice((cut_head - start) as usize..(cut_tail - start) as usize);
            let this = Rc::clone(self);
            let rows = async move {
                let result = this.write_rows(full, data, manner).await;
                drop(stream);
                parts.done(result);
            };
            self.set.rt.spawn(rows).detach();
        }
        future
    }

    /// Puts a partial write down at its row.
    fn put_down(self: &Rc<Self>, write: PendingWrite) {
        let row = write.at / self.map.row_bytes();
        let end = write.at + write.data.len() as u64;
        assert!(
            write.at < end && end <= (row + 1) * self.map.row_bytes(),
            "a part lies in one row"
        );
        match self.pending.borrow_mut().entry(row) {
            Entry::Occupied(mut waiting) => {
                self.set.stats.borrow_mut().batched_writes += 1;
                let waiting = waiting.get_mut();
                waiting.bytes += write.data.len() as u64;
                waiting.writes.push(write);
                if !self.may_fill(waiting) {
                    waiting.fill.take();
                }
            }
            Entry::Vacant(place) => {
                let bytes = write.data.len() as u64;
                let mut waiting = PendingRow { writes: vec![write], bytes, fill: None };
                let more = self.may_fill(&waiting).then(|| {
                    let (fill, more) = oneshot::channel();
                    waiting.fill = Some(fill);
                    more
                });
                place.insert(waiting);
                self.set.rt.spawn(Rc::clone(self).write_batch(row, more)).detach();
            }
        }
    }

    /// Whether more of a stream is to be expected at a row.
    fn may_fill(&self, waiting: &PendingRow) -> bool {
        let Some(last) = waiting.writes.last() else { return false };
        let end = last.at + last.data.len() as u64;
        waiting.bytes < self.map.row_bytes()
            && !end.is_multiple_of(self.map.row_bytes())
            && !last.manner.fua
            && last.stream.goes_on(end, waiting.writes.len())
    }

    /// Carries out what is put down at a row.
    async fn write_batch(self: Rc<Self>, row: u64, more: Option<oneshot::Receiver<()>>) {
        if let Some(more) = more {
            // Ends when the sender is dropped: nothing more is to be expected.
            let patience = self.set.rt.sleep(STREAM_WAIT_MAX);
            select(more, patience).await;
        }
        let _permit = self.active.acquire().await.expect("the semaphore is never closed");
        let guard = self.locks.exclusive(row..row + 1).await;
        let batch = self.pending.borrow_mut().remove(&row).expect("a batch was put down").writes;
        let of_partials = self.log().is_some_and(|log| log.partial_max().is_some());
        let apart = of_partials && !self.follow_one_another(row, &batch);
        let mut result = Ok(());
        for together in batch.chunks(if apart { 1 } else { batch.len() }) {
            result = result.and(self.write_parts(row, together).await);
        }
        drop(guard);
        for write in batch {
            drop(write.stream);
            write.parts.done(result);
        }
    }

    async fn write_parts(&self, number: u64, batch: &[PendingWrite]) -> Result<(), IoErrorKind> {
        let row = self.map.row(number);
        let places = self.places(&(number..number + 1));
        self.covered(&places)?;
        let members = &self.set.members;
        let mut new = self.nothing_known();
        let mut manner = Manner { priority: Priority::Background, ..Manner::default() };
        for write in batch {
            manner.fua |= write.manner.fua;
            manner.priority = manner.priority.min(write.manner.priority);
            self.lay(write, &mut new, false);
        }
        let mut known = self.nothing_known();
        let cached = self.cache.borrow_mut().take(number);
        cached.into_iter().flatten().for_each(|(slot, pieces)| known[slot] = pieces);
        let log = self.log();
        let page = log.as_ref().and_then(|log| log.page());
        if let Some(page) = page {
            // Boxed, as what else has to do with a log: or each write would carry it.
            Box::pin(self.widen(page, &mut new, &mut known, manner.priority)).await?;
        }
        let all_parity = page.is_some();
        let view = View {
            map: &self.map,
            row: &row,
            new: &new,
            old: &known,
            readable: |slot: usize, range: &_| members.readable(slot, range),
            clean: self.set.is_clean(&places),
            all_parity,
        };
        let plan = view.plan();
        if !plan.wants.is_empty() {
            self.count_cached(&plan.wants, &known);
            self.gather(&plan.wants, &mut known, manner.priority).await?;
        }
        self.add_parity(&row, &plan.bands, &mut new, &known, all_parity).await;

        if let Some(log) = log {
            Box::pin(self.write_logged(&*log, number, &plan.bands, &new, &known, manner)).await?;
        } else {
            let mut writes = Writes::default();
            for (slot, pieces) in new.iter_mut().enumerate() {
                // The parity stays, to be known afterwards.
                let pieces = match row.is_parity(slot) {
                    true => pieces.clone(),
                    false => std::mem::take(pieces),
                };
                for (at, data) in pieces.into_iter() {
                    let end = at + data.len() as u64;
                    assert!(
                        places.start <= at && end <= places.end,
                        "a row is written in its places"
                    );
                    members.write(slot, at, data, manner, &mut writes);
                }
            }
            members.settle(writes, |_| false).await;
        }
        self.covered(&places)?;

        for parity in [Some(row.p), row.q].into_iter().flatten() {
            // Parity that is not in use was not made: what the cache has of it is of the old data.
            plan.bands.iter().for_each(|band| known[parity].remove(&band.range));
            let made = std::mem::take(&mut new[parity]);
            made.into_iter().for_each(|(at, data)| known[parity].insert(at, data));
        }
        for write in batch {
            self.lay(write, &mut known, true);
        }
        self.cache.borrow_mut().put(number, known);
        Ok(())
    }

    /// Lays a write's data over what is there, by slot and place.
    pub(super) fn lay(&self, write: &PendingWrite, pieces: &mut [Pieces], to_keep: bool) {
        let (mut at, end) = (write.at, write.at + write.data.len() as u64);
        while at < end {
            let (place, rest) = self.map.locate(at);
            let len = rest.min(end - at);
            let from = (at - write.at) as usize;
            let mut data = write.data.slice(from..from + len as usize);
            if to_keep && write.pins_much {
                data = data.pieces().iter().map(unpinned).collect();
            }
            pieces[place.slot].insert(place.at, data);
            at += len;
        }
    }

    /// Computes the parity of all bands and adds it to what is to be written: what is in use, or all.
    async fn add_parity(
        &self,
        row: &Row,
        bands: &[Band],
        new: &mut [Pieces],
        known: &[Pieces],
        all: bool,
    ) {
        let in_use = |slot: usize, band: &Band| all || self.set.members.writable(slot, &band.range);
        let mut sums = Sums::default();
        let mut targets = Vec::with_capacity(bands.len());
        for band in bands {
            let range = &band.range;
            let p = in_use(row.p, band).then_some(row.p);
            let q = row.q.filter(|q| in_use(*q, band));
            let mut stats = self.set.stats.borrow_mut();
            match band.mode {
                Mode::Plain => continue,
                Mode::Full | Mode::Reconstruct => {
                    if band.mode == Mode::Reconstruct {
                        stats.reconstruct_writes += 1;
                    } else if range.end - range.start == self.map.chunk {
                        stats.full_stripe_writes += 1;
                    }
                    let mut data = vec![None; self.map.coefficients()];
                    for index in 0..self.map.data {
                        let slot = self.map.data_slot(row, index);
                        let bytes = new[slot].get(range).or_else(|| known[slot].get(range));
                        data[self.map.coefficient(row, slot)] =
                            Some(bytes.expect("the plan wanted what is not written"));
                    }
                    // Q is made together with P.
                    let parities = if q.is_some() { 2 } else { 1 };
                    sums.generate(data, parities);
                    targets.push((range, Some(row.p), q));
                }
                Mode::Modify => {
                    stats.read_modify_writes += 1;
                    let old = |slot: usize| {
                        known[slot].get(range).expect("the plan wanted what is changed")
                    };
                    let changes = (0..self.map.data).filter_map(|index| {
                        let slot = self.map.data_slot(row, index);
                        let new = new[slot].get(range)?;
                        Some((self.map.coefficient(row, slot), old(slot), new))
                    });
                    let known_parity =
                        |slot: Option<usize>| slot.and_then(|slot| known[slot].get(range));
                    let parities = [known_parity(p), known_parity(q)];
                    // Both gone since the plan was made: nothing to compute.
                    let there =
                        [p.filter(|_| parities[0].is_some()), q.filter(|_| parities[1].is_some())];
                    if there == [None, None] {
                        continue;
                    }
                    sums.update(parities, changes);
                    targets.push((range, there[0], there[1]));
                }
            }
        }
        if sums.is_empty() {
            return;
        }
        for ((range, p, q), made) in targets.into_iter().zip(sums.compute(&self.set.rt).await) {
            let slots = [p, q].into_iter().flatten();
            for (slot, parity) in slots.zip(made) {
                let len = range.end - range.start;
                assert_eq!(parity.len() as u64, len, "parity is as long as its band");
                new[slot].insert(range.start, parity);
            }
        }
    }

    fn count_cached(&self, wants: &[(usize, std::ops::Range<u64>)], known: &[Pieces]) {
        let (mut all, mut missed) = (0, 0);
        for (slot, range) in wants {
            all += range.end - range.start;
            known[*slot].gaps(range, |gap| missed += gap.end - gap.start);
        }
        let mut stats = self.set.stats.borrow_mut();
        stats.cache_hit_bytes += all - missed;
        stats.cache_miss_bytes += missed;
    }
}

/// The same bytes in memory of their own; a fill has none.
fn unpinned(piece: &Buf) -> Buf {
    match piece.fill_word() {
        Some(_) => piece.clone(),
        None => Buf::copy_of(piece.bytes()),
    }
}
