//! Commits.
//!
//! | form | what goes to the device |
//! |---|---|
//! | blocks | the record; flush; the mark, with `fua` |
//! | ranges | flush; the record, with `fua` |
//!
//! In both, the flush makes the data durable that was written before, and in the first form the record
//! too, before the mark. Where nothing is volatile, or without barriers, there are no flushes and no
//! `fua`; only the order is left.

use crate::core::{Core, Outcome};
use crate::journal::record::Free;
use crate::journal::{Journal, record};
use crate::meta::MetaRef;
use crate::settings::JournalForm;
use rt::{Buf, SgList, TreeErrorKind};
use std::collections::BTreeSet;
use std::rc::Rc;

/// A transaction on its way to the device.
struct Snapshot {
    transaction: u64,
    record: SgList,
    mark: Option<SgList>,
    blocks: Vec<MetaRef>,
    frees: Vec<Free>,
}

impl Core {
    /// Commits all transactions up to this one, after all dirty data where the mount is ordered.
    pub(crate) async fn commit(self: &Rc<Self>, through: u64) -> Outcome<()> {
        if self.journal.committed() >= through {
            return self.check_open();
        }
        if self.options.ordered {
            self.write_back_all().await?;
        }
        self.commit_metadata(through).await
    }

    /// Commits all transactions up to this one. Callers may hold inodes.
    pub(crate) async fn commit_metadata(&self, through: u64) -> Outcome<()> {
        loop {
            self.check_open()?;
            if self.journal.committed() >= through {
                return Ok(());
            }
            let _turn = self.journal.commit_turn.lock().await;
            self.check_open()?;
            if self.journal.committed() >= through {
                return Ok(());
            }
            match self.commit_once().await {
                Ok(true) => {}
                // There is nothing in the running transaction.
                Ok(false) => return Ok(()),
                Err(error) => {
                    self.shut_down(error);
                    return Err(error);
                }
            }
        }
    }

    /// Commits the running transaction, if there is anything in it.
    async fn commit_once(&self) -> Outcome<bool> {
        self.store_times().await?;
        let Some(snapshot) = self.journal.snapshot() else { return Ok(false) };
        let Snapshot { transaction, record, mark, blocks, frees } = snapshot;
        let record_len = record.len() as u64;
        let mark_len = mark.as_ref().map_or(0, SgList::len) as u64;
        let place = self.journal_room(transaction, record_len + mark_len).await?;
        let at = |place| self.journal.offset(place);
        let fua = self.needs_flush();
        match mark {
            Some(mark) => {
                self.write_device(at(place), record, false).await?;
                self.flush_device().await?;
                self.write_device(at(place + record_len), mark, fua).await?;
            }
            None => {
                self.flush_device().await?;
                self.write_device(at(place), record, fua).await?;
            }
        }
        self.journal.committed_now(transaction, &blocks, self.rt.now());
        self.release(frees).await;
        Ok(true)
    }

    /// Takes room for a record, after a checkpoint where there is none.
    async fn journal_room(&self, transaction: u64, len: u64) -> Outcome<u64> {
        if let Some(place) = self.journal.place(transaction, len) {
            return Ok(place);
        }
        self.checkpoint().await?;
        // All that is committed is in place now, so only a record larger than the area does not fit.
        self.journal.place(transaction, len).ok_or(TreeErrorKind::NoSpace)
    }

    /// Lets what a transaction freed be granted, now that it is committed.
    async fn release(&self, frees: Vec<Free>) {
        for Free { extent, metadata } in frees {
            for number in (extent.start..extent.end()).take_while(|_| metadata) {
                let Some(block) = self.cached_block(number) else { continue };
                self.journal.drop_block(&block);
                while block.logging.get().writing {
                    block.written.notified().await;
                }
                drop(block);
                self.meta.forget(number);
            }
            self.space.borrow_mut().release(&self.shape, extent);
        }
    }
}

/// These bytes and as many zeros as the last unit lacks, in pieces that begin and end on multiples of the unit.
fn on_units(list: &SgList, unit: usize) -> SgList {
    let mut units = SgList::new();
    // What is not on whole units yet.
    let mut bytes: Vec<u8> = Vec::new();
    for piece in list.pieces() {
        let first = bytes.len().next_multiple_of(unit) - bytes.len();
        let whole = match piece.fill_word() {
            Some(_) => piece.len().saturating_sub(first) / unit * unit,
            None => 0,
        };
        let (from, to) = if whole > 0 { (first, first + whole) } else { (0, 0) };
        bytes.extend_from_slice(piece.slice(0..from).bytes());
        if whole > 0 {
            units.push(Buf::copy_of(&std::mem::take(&mut bytes)));
            units.push(piece.slice(from..to));
        }
        bytes.extend_from_slice(piece.slice(to..piece.len()).bytes());
    }
    bytes.resize(bytes.len().next_multiple_of(unit), 0);
    units.push(Buf::copy_of(&bytes));
    units
}

impl Journal {
    /// Takes the running transaction, and begins the next.
    fn snapshot(&self) -> Option<Snapshot> {
        let mut state = self.state.borrow_mut();
        if state.blocks.is_empty() && state.frees.is_empty() {
            return None;
        }
        let transaction = state.running;
        let frees = std::mem::take(&mut state.frees);
        let freed: BTreeSet<u64> = frees
            .iter()
            .filter(|free| free.metadata)
            .flat_map(|free| free.extent.start..free.extent.end())
            .collect();
        let mut entries = Vec::with_capacity(state.blocks.len());
        for (number, block) in std::mem::take(&mut state.blocks) {
            let mut logging = block.logging.get();
            let changed = std::mem::take(&mut logging.running);
            if !freed.contains(&number) {
                logging.committing = match self.form {
                    JournalForm::Blocks => u64::MAX,
                    JournalForm::Ranges => changed | logging.logged,
                };
                entries.push((MetaRef::clone(&block), logging.committing));
            }
            block.logging.set(logging);
        }
        state.running += 1;
        state.committing = Some(transaction);
        state.bytes = 0;
        state.began = None;
        let with_mark = self.form == JournalForm::Blocks;
        let (record, crc) = record::encode(self.epoch, transaction, with_mark, &frees, &entries);
        let unit = self.unit as usize;
        let mark = with_mark.then(|| {
            let mark = record::mark(self.epoch, transaction, crc);
            on_units(&Buf::copy_of(&mark).into(), unit)
        });
        let blocks = entries.into_iter().map(|(block, _)| block).collect();
        Some(Snapshot { transaction, record: on_units(&record, unit), mark, blocks, frees })
    }

    /// The record is durable: its blocks wait to be written in place.
    fn committed_now(&self, transaction: u64, blocks: &[MetaRef], now: stdx::Instant) {
        let mut state = self.state.borrow_mut();
        for block in blocks {
            let mut logging = block.logging.get();
            if logging.logged_at != 0 {
                state.waiting.remove(&(logging.logged_at, block.number));
            }
            logging.logged = std::mem::take(&mut logging.committing);
            logging.logged_at = transaction;
            block.logging.set(logging);
            let image = block.committing_image.take();
            *block.committed_image.borrow_mut() = image;
            state.waiting.insert((transaction, block.number), MetaRef::clone(block));
        }
        state.waiting_since.get_or_insert(now);
        state.committed = transaction;
        state.committing = None;
    }

    /// A block is metadata no more: it need not be written in place.
    fn drop_block(&self, block: &MetaRef) {
        let mut logging = block.logging.get();
        self.state.borrow_mut().waiting.remove(&(logging.logged_at, block.number));
        logging.logged_at = 0;
        logging.logged = 0;
        block.logging.set(logging);
        block.committed_image.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_in_pieces_on_units_is_the_same_bytes() {
        let (some, ones) = (Buf::copy_of(&[7; 200]), |len| Buf::fill(u64::MAX, len));
        let counted = Buf::fill(0x0706_0504_0302_0100, 3000);
        for pieces in [
            vec![some.clone()],
            vec![ones(5000)],
            vec![some.clone(), ones(300), some.clone()],
            vec![some.clone(), ones(312), some.clone()],
            vec![some.clone(), ones(8000), some.clone(), counted.clone(), some.clone()],
            vec![some.clone(), ones(312), counted.slice(3..2000), counted, ones(512)],
        ] {
            let mut list = SgList::new();
            pieces.into_iter().for_each(|piece| list.push(piece));
            let units = on_units(&list, 512);
            assert!(units.pieces().iter().all(|piece| piece.len() % 512 == 0));
            let mut bytes = list.to_vec();
            bytes.resize(bytes.len().next_multiple_of(512), 0);
            assert_eq!(units.to_vec(), bytes);
            // No more of a fill is written out than its ends.
            let unlike = units.pieces().iter().filter(|piece| piece.fill_word().is_none());
            let held: usize = unlike.map(Buf::len).sum();
            assert!(held <= 3 * 1024, "{held}");
        }
    }
}
