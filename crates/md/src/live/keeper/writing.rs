//! Bad-block logs, bitmap and superblocks, whole and in order, as things are now.

use super::Keeper;
use crate::array::Array;
use crate::live::kept::{Kept, Standing};
use crate::loss::{Cause, Metadata};
use crate::member::MemberState;
use crate::superblock::v1::SuperblockV1;
use crate::superblock::{Features, SECTOR, bad_blocks};
use rt::sync::oneshot;
use rt::{Buf, IoError, IoErrorKind, Request};
use std::rc::Rc;
use stdx::{ByteCount, Offset};

impl Keeper {
    /// Writes everything as things are now.
    ///
    /// In a task of its own: a rebuild is dropped when its server ends, and what it had begun to write must not
    /// reach the members after what is written then.
    pub(in crate::live) async fn write(&self) -> Result<(), IoErrorKind> {
        let Some(myself) = self.myself.upgrade() else { return Err(IoErrorKind::Gone) };
        let (answer, written) = oneshot::channel();
        let write = async move {
            let _alone = myself.writing.lock().await;
            // Nobody may be left to hear it.
            let _ = answer.send(myself.write_all().await);
        };
        self.rt.spawn(write).detach();
        written.await.unwrap_or(Err(IoErrorKind::Gone))
    }

    /// With the lock held.
    pub(super) async fn write_all(&self) -> Result<(), IoErrorKind> {
        let Some(array) = self.array.upgrade() else { return Err(IoErrorKind::Gone) };
        self.level(&array).await;
        // With these nothing is on disk yet, in each round until its superblocks are written.
        let mut events = self.events.get() + 1;
        // Ends: each round but the last loses a device.
        loop {
            let changes = array.set.members.changes();
            self.count_to(events);
            self.write_logs(&array).await;
            self.make_whole(&array).await;
            let mut failed = !self.write_bits(&array, true).await;
            events += u64::from(!failed);
            let all = self.all_standing(&array);
            let there = all.iter().filter(|(_, standing)| *standing != Standing::Nobody);
            let (mut writes, seconds) = (Vec::new(), self.seconds());
            for (kept, standing) in there.filter(|_| !failed) {
                let bytes = sealed(&self.superblock_of(kept, *standing, &all, seconds));
                let write = Request::write_fua(kept.at, Buf::copy_of(&bytes));
                writes.push((kept, kept.device.submit(write)));
            }
            for (kept, write) in writes {
                if let Err(error) = write.await {
                    kept.is_lost(&array, unwritten(Metadata::Superblock, &error));
                    failed = true;
                }
            }
            // Its tail leaves behind what the members' superblocks must not need any more.
            let state = self.journal();
            if let Some(journal) = state.working().filter(|_| !failed) {
                let bytes = sealed(&self.superblock_of_journal(journal, &all, seconds));
                let write = Request::write_fua(journal.at, Buf::copy_of(&bytes));
                if let Err(error) = journal.device.submit(write).await {
                    journal.log.fail(error.kind);
                    failed = true;
                }
            }
            if !failed {
                self.recorded.set(changes);
                let members = &array.set.members;
                let is_there = |slot: &usize| {
                    matches!(members.state(*slot), MemberState::Active | MemberState::Rebuilding)
                };
                let lost = members.len() - (0..members.len()).filter(is_there).count();
                // Mirrors know themselves when nobody is left.
                let covered = array.level().parities();
                let too_few = covered > 0 && lost > covered;
                return if too_few { Err(IoErrorKind::TooFewMembers) } else { Ok(()) };
            }
            if self.standing(&array).is_empty() {
                return Err(IoErrorKind::TooFewMembers);
            }
        }
    }

    /// Before the first pass: all that are here have the events of the freshest. Who can't be written is lost.
    async fn level(&self, array: &Rc<Array>) {
        for straggler in self.behind.take() {
            let there = self.standing(array);
            let is_it = |(kept, _): &&(Rc<Kept>, Standing)| kept.number == straggler.number;
            let journal = self.journal();
            let journal = journal.working().filter(|journal| journal.number == straggler.number);
            match (there.iter().find(is_it), journal) {
                (Some((kept, _)), _) => {
                    if let Err(error) = straggler.level().await {
                        kept.is_lost(array, unwritten(Metadata::Superblock, &error));
                    }
                }
                (None, Some(journal)) => {
                    if let Err(error) = straggler.level().await {
                        journal.log.fail(error.kind);
                    }
                }
                // It has gone meanwhile.
                (None, None) => {}
            }
        }
    }

    /// Who has got all that it should have is whole when that is durable.
    async fn make_whole(&self, array: &Rc<Array>) {
        for (kept, standing) in self.standing(array) {
            let has_all = matches!(standing, Standing::Member { whole: true, .. });
            if has_all && kept.filled.get().is_some() {
                match kept.device.submit(Request::flush()).await {
                    Ok(_) => kept.filled.set(None),
                    Err(error) => {
                        kept.is_lost(array, Cause::Io { op: error.op, kind: error.kind });
                    }
                }
            }
        }
    }

    /// A slot, or its replacement, is right up to this byte and that is durable.
    pub(in crate::live) async fn note_filled(
        &self,
        slot: usize,
        replacement: bool,
        bytes: u64,
    ) -> Result<(), IoErrorKind> {
        let Some(array) = self.array.upgrade() else { return Err(IoErrorKind::Gone) };
        let extent = array.component_extent().bytes();
        assert!(bytes <= extent, "nobody is filled further than its end");
        for (kept, standing) in self.standing(&array) {
            let is_it = match standing {
                Standing::Member { slot: own, whole: false } => own == slot && !replacement,
                Standing::Replacement { slot: own } => own == slot && replacement,
                _ => false,
            };
            if is_it {
                kept.filled.set(Some(bytes));
            }
        }
        self.write().await
    }

    /// Writes what is to be written of the bitmap; with `superblock` its superblock in any case. False where a
    /// member could not be written, which is lost now.
    pub(super) async fn write_bits(&self, array: &Rc<Array>, superblock: bool) -> bool {
        let Some(intent) = &self.intent else { return true };
        let there = self.standing(array);
        let blocks = there.iter().map(|(kept, _)| kept.block());
        let block = blocks.max().unwrap_or(ByteCount(SECTOR));
        let pages = intent.take_pages(superblock, self.events.get(), block);
        let mut writes = Vec::new();
        for (kept, _) in there.iter().filter(|(_, standing)| standing.slot().is_some()) {
            let sectors = kept.superblock.borrow().bitmap_offset().map_or(0, i64::from);
            let start = kept.at.bytes().saturating_add_signed(sectors * SECTOR as i64);
            let whole = kept.without_bitmap.get().then(|| intent.whole(block));
            for (at, bytes) in whole.as_ref().unwrap_or(&pages.pieces) {
                let write = Request::write_fua(Offset(start + at), Buf::copy_of(bytes));
                writes.push((kept, kept.device.submit(write)));
            }
        }
        let mut all = true;
        for (kept, write) in writes {
            match write.await {
                Ok(_) => kept.without_bitmap.set(false),
                Err(error) => {
                    kept.is_lost(array, unwritten(Metadata::Bitmap, &error));
                    all = false;
                }
            }
        }
        if !all {
            intent.put_back(pages);
        }
        all
    }

    /// Writes bad-block logs that changed. What was written over a bad place is flushed first.
    async fn write_logs(&self, array: &Rc<Array>) {
        for (kept, _) in self.standing(array) {
            if !kept.area.take_changed() {
                continue;
            }
            let blocks = kept.area.bad_blocks();
            let (place, start) = (kept.superblock.borrow().bad_blocks, kept.at.bytes());
            let at = start.saturating_add_signed(i64::from(place.offset) * SECTOR as i64);
            let log = (place.sectors > 0 && place.shift == 0)
                .then(|| bad_blocks::encode(&blocks, place.sectors).ok())
                .flatten();
            // Where the log does not hold it, the device is not worth keeping, as in md.
            let written = match log {
                Some(bytes) => {
                    let write = Request::write_fua(Offset(at), Buf::copy_of(&bytes));
                    let written = match kept.device.submit(Request::flush()).await {
                        Ok(_) => kept.device.submit(write).await,
                        Err(error) => Err(error),
                    };
                    written.map(|_| ()).map_err(|error| unwritten(Metadata::BadBlockLog, &error))
                }
                None if blocks.is_empty() => Ok(()),
                None => Err(Cause::TooManyBadPlaces),
            };
            let mut superblock = kept.superblock.borrow_mut();
            superblock.features =
                superblock.features.with(Features::BAD_BLOCKS, !blocks.is_empty());
            drop(superblock);
            if let Err(cause) = written {
                kept.is_lost(array, cause);
            }
        }
    }
}

fn unwritten(what: Metadata, error: &IoError) -> Cause {
    Cause::Metadata { what, kind: error.kind }
}

/// What is written to a device of an open set. That it reads back was asked when the set was opened, or the device came.
fn sealed(superblock: &SuperblockV1) -> Vec<u8> {
    superblock.sealed().expect("the superblock of an open set reads back")
}
