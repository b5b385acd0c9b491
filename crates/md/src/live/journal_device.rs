//! The journal of a set that is open: what it is now, and how it comes and goes.
//!
//! **It fails** by itself, or because somebody says so: recorded in the superblocks, and from then on no data is
//! written, as with md. The set can be read. **It is removed** when it has failed.
//!
//! **One is added** to a set that has none: to one that was opened without its journal, or that never had one. The
//! journal's device gets an empty log and its superblock, then the members say that there is a journal, and only
//! then is anything logged. As long as the set is not resynchronised a journal can't be added: it would keep wrong
//! what is wrong. Nor beside a bitmap or a partial parity log, which md excludes.
//!
//! **It is emptied** where something was made right past it: what it holds of the same place is older.

use super::error::LiveError;
use super::fuse::Below;
use super::kept::{JournalState, KeptJournal};
use super::live_array::LiveArray;
use crate::array::Engine;
use crate::assemble::{AssembleError, Found, Superblock};
use crate::journal::log::{Journal, Start};
use crate::journal::ring::ring;
use crate::superblock::journal::{BLOCK_BYTES, BLOCK_SECTORS, MetaBlock, seed};
use crate::superblock::v1::BadBlockPlace;
use crate::superblock::{ALL_SECTORS, Features, Role, SECTOR, Uuid, bad_blocks};
use async_recursion::async_recursion as boxed;
use rt::{DeviceRef, IoErrorKind};
use std::rc::Rc;
use std::sync::Arc;
use stdx::{ByteCount, Offset};

/// The journal of a set that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalReport {
    /// Its device.
    pub device: Arc<str>,
    /// Whether it has failed: nothing can be written then.
    pub failed: bool,
}

impl LiveArray {
    /// The journal; none where the set has none, or was opened without it.
    pub fn journal(&self) -> Option<JournalReport> {
        match self.keeper.journal() {
            JournalState::Here(journal) => {
                let failed = journal.log.has_failed();
                Some(JournalReport { device: journal.device.name(), failed })
            }
            _ => None,
        }
    }

    /// Whether no data can be written, because the journal is not here or has failed.
    pub fn lacks_journal(&self) -> bool {
        let state = self.keeper.journal();
        !matches!(state, JournalState::None) && state.working().is_none()
    }

    /// Fails the journal, and records it. No data is written from then on.
    ///
    /// # Errors
    /// Where the superblocks can't be written.
    #[boxed(?Send)]
    pub async fn fail_journal(&self) -> Result<(), LiveError> {
        if let JournalState::Here(journal) = self.keeper.journal() {
            journal.log.fail(IoErrorKind::Gone);
            self.keeper.write().await.map_err(|kind| self.superblocks(kind))?;
        }
        Ok(())
    }

    /// Ends when nothing that the journal holds is needed any more. Nothing to do without one.
    pub(super) async fn empty_journal(&self) -> Result<(), LiveError> {
        match self.keeper.journal().working() {
            Some(journal) => journal.log.empty().await.map_err(|kind| self.superblocks(kind)),
            None => Ok(()),
        }
    }

    /// Gives a set that has none a journal on this device, whatever that holds. `uuid` is the device's identity.
    /// Nothing may be written to the set meanwhile.
    ///
    /// # Errors
    /// Where the set can't have one, or the device is too small or can't be written.
    #[boxed(?Send)]
    pub async fn add_journal(&self, device: DeviceRef, uuid: Uuid) -> Result<(), LiveError> {
        let set = self.set;
        let cant = |why| Err(LiveError::CantHaveJournal { set, why });
        let Engine::Stripes(stripes) = &self.array.engine else {
            return cant("has no parity, so a journal is of no use to it");
        };
        if self.keeper.journal().working().is_some() {
            return cant("has a journal: fail and remove it first");
        }
        if self.keeper.intent().is_some() || self.log.is_some() {
            return cant("has a bitmap or a partial parity log, and a journal excludes those");
        }
        if self.keeper.resynced_sectors() != ALL_SECTORS || self.suspect.borrow().total() > 0 {
            return cant("is to be resynchronised before it gets a journal");
        }
        if !stripes.map.chunk.is_multiple_of(BLOCK_BYTES as u64) {
            return cant("has chunks that are not whole pages of 4 KiB, which a journal keeps");
        }
        self.refuse_known(&device)?;
        let device = Below::over(&device, &self.fuse);
        let template = self.keeper.template().ok_or_else(|| self.gone())?;
        let place = template.version().place(device.geometry().capacity);
        let small = || AssembleError::JournalSmall {
            device: device.name().to_string(),
            capacity: device.geometry().capacity,
            least: Journal::bytes_min(&stripes.map) + ByteCount(template.data_offset * SECTOR),
        };
        let place = place.ok_or_else(small)?.bytes() / SECTOR;
        let end = if place > template.data_offset {
            place.saturating_sub(template.super_offset.saturating_sub(template.data_size))
        } else {
            device.geometry().capacity.bytes() / SECTOR
        };
        let data_size = end.checked_sub(template.data_offset).ok_or_else(small)?;
        if ByteCount(data_size * SECTOR) < Journal::bytes_min(&stripes.map) {
            return Err(small().into());
        }
        let number = self.free_number()?;
        let mut superblock = self.superblock_like(&template, place, data_size, number, uuid);
        superblock.features = superblock.features | Features::JOURNAL;
        superblock.roles.resize(superblock.roles.len().max(number + 1), Role::Spare);
        superblock.roles[number] = Role::Journal;
        let at = Offset(place * SECTOR);
        let BadBlockPlace { sectors, offset, .. } = superblock.bad_blocks;
        if sectors > 0
            && let Ok(bytes) = bad_blocks::encode(&[], sectors)
        {
            let log_at = at.bytes().saturating_add_signed(i64::from(offset) * SECTOR as i64);
            self.write_to(&device, Offset(log_at), bytes).await?;
        }
        self.wipe_others(&device, at).await?;
        // Greater than any that a block of an earlier journal of this set can have.
        let [a, b, c, d, ..] = uuid.0;
        let sequence = self.keeper.events() << 32 | u64::from(u32::from_le_bytes([a, b, c, d]));
        let first = MetaBlock { sequence, position: 0, payloads: Vec::new() }.encode(seed(set));
        self.write_to(&device, Offset(template.data_offset * SECTOR), first).await?;
        // Before any member names it: whoever finds the set in between has the journal, or does not need it.
        superblock.events = self.keeper.events();
        let sealed = superblock.sealed();
        let bytes = sealed.map_err(|error| AssembleError::format(&device.name(), error))?;
        self.write_to(&device, at, bytes).await?;
        let superblock = Superblock::V1(Box::new(superblock));
        let found = Found { device: Rc::clone(&device), superblock, at };
        self.forget_lost(&device);
        let start = Start { head: BLOCK_SECTORS, sequence: sequence + 1, tail: 0 };
        let log = Journal::new(&self.array.set, &stripes.map, seed(set), ring(&found)?, start);
        self.keeper.keep_journal(JournalState::Here(KeptJournal::of(&found, Rc::clone(&log))));
        let begun = log.begin_log().await;
        begun.map_err(|kind| self.superblocks(kind))?;
        stripes.log_with(log);
        Ok(())
    }
}
