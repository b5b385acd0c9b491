//! Checkpoints: committed blocks are written in place, and their records can be overwritten.
//!
//! In batches, in the order of their places, neighbours joined: this is where the journal pays, since
//! blocks that changed in many transactions are written once. Then a flush, then the journal's
//! superblock with the new tail; only then may records be overwritten.

use crate::core::{Core, Outcome};
use crate::journal::Journal;
use crate::journal::record::JournalSuper;
use crate::meta::MetaRef;
use crate::transfer::IN_FLIGHT_MAX;
use futures_util::{StreamExt, stream};
use rt::{Buf, BufMut, SgList};

/// Blocks in a batch. More joins more neighbours; their images are held in memory.
const BATCH_MAX: usize = 1024;

struct Waiting {
    block: MetaRef,
    transaction: u64,
    image: Buf,
}

impl Core {
    /// Writes everything in place that is committed now.
    pub(crate) async fn checkpoint(&self) -> Outcome<()> {
        let _turn = self.journal.checkpoint_turn.lock().await;
        let through = self.journal.committed();
        if self.journal.is_empty() {
            return Ok(());
        }
        loop {
            let batch = self.journal.batch(through);
            if batch.is_empty() {
                break;
            }
            let written = self.write_in_place(&batch).await;
            self.journal.batch_written(&batch, written.is_ok());
            if let Err(error) = written {
                self.shut_down(error);
                return Err(error);
            }
        }
        self.flush_device().await?;
        let (keep, new) = self.journal.tail();
        self.write_journal_super(new).await?;
        self.journal.cut_records(keep);
        Ok(())
    }

    /// Writes the journal's superblock, durably.
    pub(crate) async fn write_journal_super(&self, new: JournalSuper) -> Outcome<()> {
        // A whole unit: less could tear what a larger sector holds.
        let mut bytes = BufMut::zeroed(self.journal.block as usize);
        let encoded = new.encode();
        bytes[..encoded.len()].copy_from_slice(&encoded);
        self.write_device(self.journal.offset(0), bytes.into(), self.needs_flush()).await
    }

    async fn write_in_place(&self, batch: &[Waiting]) -> Outcome<()> {
        let mut writes: Vec<(u64, u64, SgList)> = Vec::new();
        for waiting in batch {
            let number = waiting.block.number;
            match writes.last_mut() {
                Some((_, end, data)) if *end == number => {
                    data.push(waiting.image.clone());
                    *end += 1;
                }
                _ => writes.push((number, number + 1, waiting.image.clone().into())),
            }
        }
        let writes = writes
            .into_iter()
            .map(|(number, _, data)| self.write_device(self.shape.offset(number), data, false));
        let writes = stream::iter(writes).buffer_unordered(IN_FLIGHT_MAX);
        writes.fold(Ok(()), async |so_far, write| so_far.and(write)).await
    }
}

impl Journal {
    /// Whether there is nothing to write in place and no record to let go.
    fn is_empty(&self) -> bool {
        let state = self.state.borrow();
        state.waiting.is_empty() && state.records.is_empty()
    }

    /// The oldest blocks that wait, in the order of their places.
    fn batch(&self, through: u64) -> Vec<Waiting> {
        let state = self.state.borrow();
        let oldest = state.waiting.range(..(through + 1, 0)).take(BATCH_MAX);
        let mut batch: Vec<Waiting> = oldest
            .map(|(&(transaction, _), block)| {
                let mut logging = block.logging.get();
                logging.writing = true;
                block.logging.set(logging);
                let image = block.committed_image.borrow().clone();
                let image = image.unwrap_or_else(|| {
                    assert!(
                        logging.running == 0 && logging.committing == 0,
                        "a block with changes has its committed image aside"
                    );
                    block.image()
                });
                Waiting { block: MetaRef::clone(block), transaction, image }
            })
            .collect();
        batch.sort_by_key(|waiting| waiting.block.number);
        batch
    }

    fn batch_written(&self, batch: &[Waiting], sound: bool) {
        let mut state = self.state.borrow_mut();
        for Waiting { block, transaction, .. } in batch {
            let mut logging = block.logging.get();
            logging.writing = false;
            // Otherwise it was committed again meanwhile, or freed.
            if sound && logging.logged_at == *transaction {
                logging.logged_at = 0;
                logging.logged = 0;
                state.waiting.remove(&(*transaction, block.number));
                block.committed_image.take();
            }
            block.logging.set(logging);
            block.written.notify_waiters();
        }
    }

    /// The oldest transaction whose record must stay, and the superblock that says so.
    fn tail(&self) -> (u64, JournalSuper) {
        let mut state = self.state.borrow_mut();
        if state.waiting.is_empty() {
            state.waiting_since = None;
        }
        let oldest = state.waiting.keys().next().map(|(transaction, _)| *transaction);
        let next = state.committing.unwrap_or(state.running);
        let keep = oldest.map_or(next, |oldest| oldest.min(next));
        let record = state.records.iter().find(|record| record.transaction >= keep);
        let (tail, transaction) =
            record.map_or((state.head, next), |record| (record.from, record.transaction));
        let unit = self.unit as u32;
        (keep, JournalSuper { unit, epoch: self.epoch, tail, transaction })
    }

    fn cut_records(&self, keep: u64) {
        let mut state = self.state.borrow_mut();
        while state.records.front().is_some_and(|record| record.transaction < keep) {
            state.records.pop_front();
        }
    }
}
