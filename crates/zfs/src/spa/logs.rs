//! Intent logs of a pool that was not closed: claimed and replayed before anything else is written.
//!
//! ```text
//!   found     each dataset's chain, read
//!   claimed   its blocks are taken from what is free: no space map knows those that were allocated in the group that never was
//!   replayed  each record by an ordinary change in the open group; the header counts them by sequence
//!   gone      the last group frees the blocks and leaves an empty header
//! ```
//!
//! **A crash on the way** finds the log again: until the first group is in the pool, as it was; later, by a header that says in which
//! group its blocks were claimed and up to where its records were replayed.
//!
//! **A pool that was taken back to its checkpoint** has logs that lead to what was written since: these are given up, and the blocks that
//! they had then are freed.
//!
//! What can't be replayed keeps the pool from being written: what was acknowledged is not given up without being asked. A log that goes
//! on where a device is missing ends there if somebody says so; what was allocated on log devices that are missing is free then, for
//! nothing but logs lies there.
//!
//! Source: OpenZFS, `zil.c` (`zil_claim`, `zil_replay`), `spa.c` (`spa_ld_claim_log_blocks`).

use super::open::Spa;
use crate::dmu::Objset;
use crate::error::{Problem, ZfsError};
use crate::zil::{self, Log, Logged};
use crate::zpl::FileSystem;
use crate::zpl::attributes::Moment;
use crate::zvol::Volume;
use std::collections::BTreeSet;
use stdx::planted::{self, Bug};
use zfs_format::block_pointer::BlockPointer;
use zfs_format::object_type::ObjectType;
use zfs_format::uberblock::Uberblock;
use zfs_format::vdev::Vdev;
use zfs_format::zil::record::{Body, Write};
use zfs_format::zil::{SEQUENCE_WORD, ZilHeader, flags};
use zfs_store::Writer;
use zfs_store::alloc::Class;

/// A dataset's log that was found.
pub(super) struct FoundLog {
    /// The dataset's name.
    pub(super) name: String,
    header: ZilHeader,
    pub(super) records: Vec<Logged>,
    /// Blocks of the chain, and those that its writes lead to.
    pub(super) blocks: Vec<BlockPointer>,
}

/// The logs of all datasets, each with what is to be replayed; up to where a device is missing, if that is what is left. Datasets that are
/// damaged have none, as in OpenZFS (`zil_claim`).
///
/// # Errors
/// One can't be had, as a whole.
pub(super) async fn find(spa: &Spa, may_be_cut: bool) -> Result<Vec<FoundLog>, ZfsError> {
    let dsl = spa.dsl();
    let Uberblock { txg: synced, checkpoint_txg, .. } = spa.uberblock();
    let rewound = Some(checkpoint_txg).filter(|checkpoint| *checkpoint != 0);
    let mut found = Vec::new();
    for directory in dsl.below(dsl.root().await?).await? {
        let Some(head) = dsl.head(&directory).await? else { continue };
        let objset = match spa.objset(&directory, &head).await {
            Ok(objset) => objset,
            // Nobody gets at a log whose dataset is damaged, and the pool is written without it.
            Err(error) if error.is_of_devices() || error.lacks_device() || error.needs_key() => {
                return Err(error);
            }
            Err(_) => continue,
        };
        let header = objset.root().zil.clone();
        if header.log.is_hole() {
            continue;
        }
        let log = zil::chain(&objset).await?;
        if let Some(checkpoint) = rewound.filter(|_| header.claim_txg == 0) {
            let blocks = blocks_until(&log, checkpoint);
            found.push(FoundLog { name: head.name, header, records: Vec::new(), blocks });
            continue;
        }
        if log.is_cut && !may_be_cut {
            return Err(objset.wrong(0, Problem::LogCut));
        }
        let end = zil::end_of(&objset, &log, zil::first_group(&header, synced)).await?;
        let mut blocks = blocks_of(&log, &header, synced, end);
        blocks.retain(|block| block.dvas().all(|dva| spa.tree().can_be_written(dva.vdev())));
        let unreplayed = zil::records_of(&objset, log, synced, end)?;
        found.push(FoundLog { name: head.name, header, records: unreplayed.records, blocks });
    }
    // Those that are given up go with the first group, however much there is to be replayed of others.
    found.sort_by_key(|log| rewound.is_some() && log.header.claim_txg != 0);
    Ok(found)
}

/// The blocks of a log of a pool that was taken back to its checkpoint: those behind it are of the time since. Nothing of such a log is
/// replayed.
fn blocks_until(log: &Log, checkpoint: u64) -> Vec<BlockPointer> {
    let all = log.links.iter().map(|link| link.pointer).chain([log.end]);
    all.take_while(|block| !block.is_hole() && block.logical_birth() <= checkpoint).collect()
}

/// What a log holds of the pool's space. A block that several records lead to counts once.
fn blocks_of(log: &Log, header: &ZilHeader, synced: u64, end: u64) -> Vec<BlockPointer> {
    let counts = |block: &BlockPointer| {
        let sequence = block.checksum().words[SEQUENCE_WORD];
        header.claim_txg == 0 || sequence <= header.claim_block_sequence
    };
    // Behind a record whose block isn't there nothing is the log's.
    let last = log.links.iter().position(|link| link.writes().iter().any(|(at, _)| *at == end));
    let links = &log.links[..last.map_or(log.links.len(), |last| last + 1)];
    let mut blocks: Vec<BlockPointer> = links.iter().map(|link| link.pointer).collect();
    if planted::is(Bug::LastLogBlockUnclaimed) {
        blocks.pop();
    }
    if last.is_none() {
        blocks.push(log.end);
    }
    blocks.retain(|block| !block.is_hole() && counts(block));
    // Blocks that writes lead to belong to the log if they are of a group that never was.
    let first = zil::first_group(header, synced);
    let mut seen = BTreeSet::new();
    let writes = links.iter().flat_map(|link| link.writes()).filter(|(at, _)| *at < end);
    for (_, Write { pointer, .. }) in writes {
        if !pointer.is_hole()
            && !pointer.is_embedded()
            && pointer.logical_birth() >= first
            && seen.insert(pointer.dva(0).words)
        {
            blocks.push(pointer);
        }
    }
    blocks
}

/// What is allocated on log devices that are missing is freed with the first group.
pub(super) fn give_up_missing(spa: &Spa, writer: &Writer, tops: &[Vdev]) {
    let is_lost =
        |top: &&Vdev| Class::of(top) == Class::Log && !spa.tree().can_be_written(top.id as u32);
    for top in tops.iter().filter(is_lost) {
        writer.space(|space| space.free_all(top.id as u32));
    }
}

/// Takes the blocks of logs that no space map knows.
///
/// They are taken in the `first` group that will be written, which is not the one after `synced` where the pool was taken back.
///
/// A clone begins with its origin's header, whose log is the origin's: one that leads to what is free is of nobody.
///
/// # Errors
/// One is allocated to something else: the log or the pool is damaged.
pub(super) async fn claim(
    logs: &mut [FoundLog],
    writer: &Writer,
    (synced, first): (u64, u64),
    mos: &Objset,
) -> Result<(), ZfsError> {
    let is_stale = |log: &FoundLog| {
        let first = &log.header.log;
        let is_known = log.header.claim_txg != 0 || first.logical_birth() <= synced;
        is_known && !writer.holds(first)
    };
    for log in logs.iter_mut().filter(|log| is_stale(log)) {
        log.blocks.clear();
        log.records.clear();
    }
    for log in logs.iter().filter(|log| log.header.claim_txg == 0) {
        for block in log.blocks.iter().filter(|block| block.logical_birth() > synced) {
            if !writer.claim(first, block).await {
                return Err(mos.wrong(0, Problem::Entry("of an intent log's space")));
            }
        }
    }
    for block in logs.iter().flat_map(|log| &log.blocks) {
        if !writer.holds(block) {
            return Err(mos.wrong(0, Problem::Entry("of an intent log's space")));
        }
    }
    Ok(())
}

impl FoundLog {
    /// What the header says until the log is replayed: what was claimed, and in which group.
    pub(super) fn claimed_in(&self, txg: u64) -> ZilHeader {
        let mut header = self.header.clone();
        if header.claim_txg == 0 {
            let chain = |block: &&BlockPointer| block.object_type() == ObjectType::INTENT_LOG;
            let sequences = self.blocks.iter().filter(chain);
            let sequences = sequences.map(|block| block.checksum().words[SEQUENCE_WORD]);
            header.claim_txg = txg;
            header.claim_block_sequence = sequences.max().unwrap_or(0);
            let last = self.records.last().map_or(0, |logged| logged.record.sequence);
            header.claim_record_sequence = last;
            header.flags = flags::REPLAY_NEEDED | flags::RECORD_CLAIM_VALID;
        }
        header
    }
}

/// Whatever carries out records.
pub(super) enum Target {
    Files(FileSystem),
    Volume(Volume),
}

impl Target {
    pub(super) async fn replay(&self, logged: &Logged, now: u64) -> Result<(), ZfsError> {
        match self {
            Target::Volume(volume) => volume.replay(&logged.record).await,
            Target::Files(files) => {
                files.replay(logged).await?;
                // A file that was written has a new time, or who looks at times takes it for what it was.
                match &logged.record.body {
                    Body::Write(Write { object, .. }) => {
                        files.touch(*object, Moment::of([now, 0])).await
                    }
                    _ => Ok(()),
                }
            }
        }
    }
}
