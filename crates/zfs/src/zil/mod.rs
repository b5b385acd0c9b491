//! The intent log of a dataset. Here: the chain of its blocks on disk and the records in them, as they are read.
//!
//! ```text
//!   itx      what was changed and may have to be logged, in memory
//!   commit   what is due is written and made durable          chain   the blocks of a log that is written
//! ```
//!
//! A log holds what was acknowledged to programs before its transaction group was whole. A pool that was closed has empty
//! ones. One whose machine stopped has a chain in each dataset that was being written durably; whoever imports it
//! for writing carries the records out ("replay": [`spa`](crate::spa), [`zpl::replay`](crate::zpl::replay)). Here they are read:
//! to be replayed, counted, shown, or laid over the dataset in memory.
//!
//! Records of groups that are whole in the pool were carried out, and don't count. A chain ends at a block whose
//! checksum is wrong; that is how every chain ends. One that leads to a device that is missing is *cut*: whether there is
//! more, nobody knows. How long it may be is bounded by [`BLOCKS_MAX`].
//!
//! Source: OpenZFS, `zil.c`, `zfs_replay.c`.

mod chain;
mod commit;
mod indirect;
mod itx;
mod synchronous;

pub use commit::{Committed, IntentLog};
pub use indirect::Stored;
pub use itx::{Itx, What};
pub use synchronous::Synchronous;

use crate::dmu::Objset;
use crate::error::{Problem, ZfsError};
use async_recursion::async_recursion as boxed;
use std::collections::BTreeMap;
use stdx::planted::{self, Bug};
use zfs_format::Endian;
use zfs_format::block_pointer::BlockPointer;
use zfs_format::zil::record::{self, Body, LogRecord, Write};
use zfs_format::zil::{LogBlock, SEQUENCE_WORD, ZilHeader};
use zfs_store::Bookmark;
use zfs_store::transform::log_sum;

/// Blocks of a chain that are followed: at 4 KiB each, the shortest, 1 GiB. Who writes one ends it well before that
/// ([`IntentLog::commit`]).
pub const BLOCKS_MAX: usize = 1 << 18;

/// A block of a log, with what led to it.
pub struct Link {
    /// The pointer in the block before, or in the header.
    pub pointer: BlockPointer,
    /// What it holds.
    pub block: LogBlock,
}

/// A record, with the byte order of what follows its fields.
pub struct Logged {
    /// The record.
    pub record: LogRecord,
    /// The order.
    pub endian: Endian,
    /// Of a write: how far it and what is behind it in the log write the same object. A block to which it leads has all of that, and
    /// those behind it may only say how far the file goes.
    pub reach: u64,
}

/// A dataset's log, as far as it is there.
pub struct Log {
    /// Its blocks, in order.
    pub links: Vec<Link>,
    /// The place of the block that would come next, where one was reserved.
    pub end: BlockPointer,
    /// Whether it goes on where no device is: what comes then can't be known.
    pub is_cut: bool,
}

impl Default for Log {
    fn default() -> Log {
        Log { links: Vec::new(), end: BlockPointer::HOLE, is_cut: false }
    }
}

/// The records of a log that are not yet in the pool.
#[derive(Default)]
pub struct Unreplayed {
    /// They.
    pub records: Vec<Logged>,
    /// See [`Log::is_cut`].
    pub is_cut: bool,
}

/// The blocks of a dataset's log that are there, in order.
///
/// # Errors
/// The dataset is encrypted, and its key is not loaded; or there are more than [`BLOCKS_MAX`].
#[boxed(?Send)]
pub async fn chain(objset: &Objset) -> Result<Log, ZfsError> {
    let mut log = Log::default();
    let header = objset.root().zil.clone();
    let mut pointer = header.log;
    while !pointer.is_hole() {
        if log.links.len() == BLOCKS_MAX {
            // What comes behind was promised, too.
            let (what, limit) = ("blocks of an intent log", BLOCKS_MAX as u64);
            return Err(objset.wrong(0, Problem::Limit { what, limit }));
        }
        let block = pointer.checksum().words[SEQUENCE_WORD];
        let at = Bookmark { objset: objset.number(), object: 0, level: -2, block };
        let bytes = match objset.blocks().read(objset.request(pointer, at)).await {
            Ok(bytes) => bytes,
            Err(error) => {
                let error = ZfsError::from(error);
                if error.needs_key() {
                    return Err(error);
                }
                // Behind the last block that was claimed nothing counts.
                let counts = header.claim_txg == 0 || block <= header.claim_block_sequence;
                log.is_cut = counts && error.lacks_device();
                break;
            }
        };
        let function = pointer.checksum_function();
        let encrypted = pointer.uses_crypt();
        // An encrypted block was checked before it was decrypted, and no longer fits its checksum.
        let hash = |bytes: &[u8], endian| log_sum(function, bytes, endian);
        let decoded = match encrypted {
            false => LogBlock::decode(bytes.bytes(), &pointer, hash),
            true => LogBlock::decode_checked(bytes.bytes(), &pointer),
        };
        let Ok(block) = decoded else { break };
        let next = block.next;
        log.links.push(Link { pointer, block });
        pointer = next;
    }
    log.end = pointer;
    Ok(log)
}

/// The records of a dataset's log that are not yet in the pool: of groups after `synced`.
///
/// # Errors
/// As of [`chain`]; or a record can't be decoded.
#[boxed(?Send)]
pub async fn unreplayed(objset: &Objset, synced: u64) -> Result<Unreplayed, ZfsError> {
    let log = chain(objset).await?;
    let end = end_of(objset, &log, first_group(&objset.root().zil, synced)).await?;
    records_of(objset, log, synced, end)
}

/// The first group whose blocks belong to a log: after those that are whole, or from the one on in which it was claimed.
pub fn first_group(header: &ZilHeader, synced: u64) -> u64 {
    if header.claim_txg == 0 { synced.saturating_add(1) } else { header.claim_txg }
}

/// The sequence of the first record that leads to a block which isn't there, as a crash leaves it: log and blocks are on their way side by
/// side, and nobody was told of success. The log ends before it.
///
/// # Errors
/// Whether it is there can't be known: a device or the key is missing.
#[boxed(?Send)]
pub async fn end_of(objset: &Objset, log: &Log, first: u64) -> Result<u64, ZfsError> {
    for link in &log.links {
        for (sequence, write) in link.writes() {
            let pointer = write.pointer;
            if pointer.is_hole() || pointer.is_embedded() || pointer.logical_birth() < first {
                continue;
            }
            let object = write.object;
            let at = Bookmark { objset: objset.number(), object, level: -2, block: 0 };
            let read = objset.blocks().read(objset.request(pointer, at)).await;
            match read.map_err(ZfsError::from) {
                Ok(_) => {}
                Err(error) if error.needs_key() || error.lacks_device() => return Err(error),
                Err(_) if planted::is(Bug::TornBlockReplayed) => {}
                Err(_) => return Ok(sequence),
            }
        }
    }
    Ok(u64::MAX)
}

impl Link {
    /// The writes among its records, with their sequences.
    pub fn writes(&self) -> Vec<(u64, Write)> {
        record::written(&self.block.records, self.block.endian).unwrap_or_default()
    }
}

/// The same of a chain that was read, up to a [record](end_of).
///
/// # Errors
/// A record can't be decoded.
pub fn records_of(
    objset: &Objset,
    log: Log,
    synced: u64,
    end: u64,
) -> Result<Unreplayed, ZfsError> {
    let mut found = Unreplayed { records: Vec::new(), is_cut: log.is_cut };
    let header = objset.root().zil.clone();
    let replayed = header.replay_sequence;
    // Groups that came after a log was claimed hold nothing of it but what was replayed.
    let synced = match header.claim_txg {
        0 => synced,
        claimed => claimed - 1,
    };
    for link in log.links {
        let wrong = |error| ZfsError::Format { objset: objset.number(), object: 0, error };
        let endian = link.block.endian;
        let records = record::records(&link.block.records, endian).map_err(wrong)?;
        let counts = |record: &LogRecord| {
            record.txg > synced && record.sequence > replayed && record.sequence < end
        };
        let records = records.into_iter().filter(counts);
        found.records.extend(records.map(|record| Logged { record, endian, reach: 0 }));
    }
    let mut reaches = BTreeMap::<u64, u64>::new();
    for Logged { record, reach, .. } in found.records.iter_mut().rev() {
        if let Body::Write(write) | Body::Write2(write) = &record.body {
            let known = reaches.entry(write.object).or_default();
            *known = (*known).max(write.offset.saturating_add(write.length));
            *reach = *known;
        }
    }
    Ok(found)
}
