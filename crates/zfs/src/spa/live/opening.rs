//! A pool is opened for writing: what it has is known to be written here, space maps and their logs are loaded, blocks of intent logs
//! are claimed before anything is allocated, and the logs are replayed.

use super::super::checkpoint;
use super::super::cloned;
use super::super::commit::Syncer;
use super::super::config::{LabelState, PoolConfig};
use super::super::dtls;
use super::super::error::GROUPS_KEPT;
use super::super::kept;
use super::super::lacking::lacking;
use super::super::logs::{self, FoundLog, Target};
use super::super::map_logs;
use super::super::obsolete;
use super::super::open::Spa;
use super::following::Enabled;
use super::suspended::pool_number;
use super::{GivenUpLog, Live, LiveError, LiveOptions};
use crate::dmu::{Counted, TxGroups, Txg};
use crate::dsl::catalog::Node;
use crate::dsl::make::Fresh;
use crate::dsl::moved_off;
use crate::error::Problem;
use crate::health::Present;
use crate::zil::IntentLog;
use crate::zvol::Volume;
use async_recursion::async_recursion as boxed;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use zfs_format::objset::ObjsetKind;
use zfs_format::uberblock::VERSION_BEFORE_FEATURES;
use zfs_format::vdev::{Vdev, VdevKind};
use zfs_store::Writer;

/// Features of pools that are written, besides those that need nothing of who writes.
const WRITTEN: [&str; 37] = [
    "async_destroy",
    "empty_bpobj",
    "lz4_compress",
    "multi_vdev_crash_dump",
    "enabled_txg",
    "hole_birth",
    "spacemap_v2",
    "extensible_dataset",
    "bookmarks",
    "embedded_data",
    "large_blocks",
    "large_dnode",
    "sha512",
    "skein",
    "edonr",
    "bookmark_v2",
    "allocation_classes",
    "resilver_defer",
    "device_rebuild",
    "zstd_compress",
    "draid",
    "zilsaxattr",
    "blake3",
    "spacemap_histogram",
    Counted::OBJECTS,
    Counted::PROJECTS,
    "log_spacemap",
    "head_errlog",
    "vdev_zaps_v2",
    "livelist",
    // Names that are longer than 255 bytes stay; new ones are not.
    "longname",
    // What was expanded; not what is being.
    "raidz_expansion",
    "bookmark_written",
    // What was removed; not what is being.
    "device_removal",
    moved_off::FEATURE,
    checkpoint::FEATURE,
    cloned::FEATURE,
];

/// The last group that a pool is written after: a million groups a second don't come there.
const TXG_MAX: u64 = 1 << 62;

impl Live {
    /// Opens for writing what is open for reading.
    ///
    /// # Errors
    /// The pool uses what is not written, or its space maps can't be had.
    #[boxed(?Send)]
    pub async fn open(spa: Rc<Spa>, fresh: &Rc<dyn Fresh>) -> Result<Live, LiveError> {
        Live::open_with(spa, fresh, LiveOptions::default()).await
    }

    /// The same, otherwise than as a rule.
    ///
    /// # Errors
    /// As of [`Live::open`].
    #[boxed(?Send)]
    pub async fn open_with(
        spa: Rc<Spa>,
        fresh: &Rc<dyn Fresh>,
        options: LiveOptions,
    ) -> Result<Live, LiveError> {
        let uberblock = spa.uberblock();
        if !spa.is_newest() && !options.taken_back {
            let far = spa.latest_txg() - uberblock.txg > GROUPS_KEPT;
            return Err(LiveError::Older { txg: uberblock.txg, far });
        }
        // What is given up must never be the newest again.
        let last = if options.taken_back { spa.latest_txg() } else { uberblock.txg };
        if last > TXG_MAX {
            return Err(spa.mos().wrong(0, Problem::Count("of groups")).into());
        }
        let features = spa.features();
        for feature in features.iter().filter(|feature| feature.count > 0) {
            let known = zfs_format::features::Feature::find(&feature.guid);
            if !known.is_some_and(|known| WRITTEN.contains(&known.name)) {
                return Err(LiveError::Feature(feature.guid.clone()));
            }
        }
        let enabled = Enabled(&features);
        refuse_lacking(&spa, &spa.vdevs())?;
        let mut logs = logs::find(&spa, options.without_log).await?;
        let root = spa.classified().await?;
        check_written(&spa, &root).await?;
        let is_multihost = pool_number(&spa, "multihost").await?.unwrap_or(0) != 0;
        if is_multihost && fresh.host().is_none_or(|(number, _)| number == 0) {
            return Err(LiveError::NoHostId);
        }
        let dtls = dtls::load(&spa, options.accepts_loss).await.map_err(LiveError::Dtl)?;
        let (mut allocator, unflushed) = map_logs::load(&spa, &root.children).await?;
        kept::load(&spa, &root.children, &mut allocator).await?;
        let kept = checkpoint::of(&spa).await?;
        allocator.keep(kept.map(|uberblock| uberblock.txg));
        let discarding = allocator.checkpoint().is_none() && enabled.in_use(checkpoint::FEATURE);
        let rewinds = uberblock.checkpoint_txg != 0 && !spa.is_newest();
        let last = if rewinds { last + 1 } else { last };
        if rewinds {
            let done = checkpoint::rewind(&spa, fresh.now()).await;
            done.map_err(LiveError::Stopped)?;
        }
        let new_salt = enabled.new_salt(spa.zio().salt().is_some(), &**fresh);
        if let Some(salt) = new_salt {
            spa.zio().set_salt(salt);
        }
        let writer = Writer::new(spa.rt(), Rc::clone(spa.tree()), allocator, spa.zio().salt());
        writer.set_clones(cloned::load(&spa, &spa.vdevs().children).await?);
        if options.without_log {
            logs::give_up_missing(&spa, &writer, &root.children);
        }
        logs::claim(&mut logs, &writer, (uberblock.txg, last + 1), spa.mos()).await?;
        let suspension = spa.tree().suspension();
        let groups = TxGroups::synced(spa.rt(), Txg(last), spa.dirty_max(), suspension);
        let policy = enabled.policy(&writer);
        let config = PoolConfig { host: fresh.host(), ..config(&spa, root) };
        let mos = spa.mos().clone();
        let mut syncer = Syncer::new(writer, groups, mos, uberblock.root, policy, config, fresh);
        syncer.set_dtls(dtls);
        // Before anything is written.
        syncer.mmp().set(is_multihost, uberblock.clone());
        syncer.set_map_form(enabled.map_form());
        if unflushed.is_some() || enabled.has_map_logs() {
            syncer.write_map_logs(unflushed);
        }
        if rewinds {
            // Labels are of the time since.
            syncer.change_config(|_| ());
        }
        let (open, stopped, syncing, freeing, rooms) = Default::default();
        let fresh = Rc::clone(fresh);
        let live = Live {
            spa,
            syncer,
            fresh,
            open,
            stopped,
            syncing,
            freeing,
            discarding: Cell::new(discarding),
            rooms,
            counted: Cell::new(enabled.counted()),
            new_salt: Cell::new(new_salt),
            tasks: Cell::new(0),
            destroyed: RefCell::default(),
            is_held: Cell::default(),
            panics: Cell::default(),
            given_up: RefCell::default(),
        };
        live.count_sectors();
        live.replay(logs, options.replay_bytes).await?;
        if pool_number(&live.spa, "autoexpand").await? == Some(1) {
            live.expand(None).await?;
        }
        Ok(live)
    }

    /// Replays logs that are claimed, in groups of so many bytes. Of a dataset that is damaged the log is given up from where nobody gets
    /// on, as in OpenZFS: else it would keep all others from being written.
    async fn replay(&self, logs: Vec<FoundLog>, bytes: u64) -> Result<(), LiveError> {
        for found in logs {
            let node = self.spa.catalog(0).await?.find(&found.name).await?;
            let node = node.ok_or_else(|| self.spa.mos().wrong(0, Problem::Absent))?;
            let log = self.log_of(&node).await?;
            log.claimed(found.claimed_in(self.syncer.groups().open().0), found.blocks.clone());
            let mut replayed = 0;
            match self.replay_one(&found, &node, &log, bytes, &mut replayed).await {
                Err(LiveError::Zfs(error)) if error.is_damage() => {
                    let records = (found.records.len() - replayed) as u64;
                    self.given_up.borrow_mut().push(GivenUpLog {
                        name: found.name,
                        records,
                        error,
                    });
                }
                done => done?,
            }
            log.replay_done();
        }
        match self.is_dirty() {
            true => self.sync(async |_| Ok(())).await,
            false => Ok(()),
        }
    }
}

impl Live {
    /// Logs that could not be replayed when the pool was opened, since their datasets are damaged.
    pub fn logs_given_up(&self) -> Vec<GivenUpLog> {
        self.given_up.borrow().clone()
    }

    async fn replay_one(
        &self,
        found: &FoundLog,
        node: &Node,
        log: &IntentLog,
        bytes: u64,
        replayed: &mut usize,
    ) -> Result<(), LiveError> {
        let objset = self.objset(node).await?;
        let target = match objset.root().kind {
            ObjsetKind::Volume => Target::Volume(Volume::open(&objset, &found.name).await?),
            _ => Target::Files(self.files(node).await?),
        };
        for logged in &found.records {
            target.replay(logged, self.fresh.now()).await?;
            log.replayed(logged.record.sequence);
            *replayed += 1;
            // Nobody else syncs yet.
            if self.syncer.groups().dirty_bytes() >= bytes {
                self.sync(async |_| Ok(())).await?;
            }
        }
        Ok(())
    }
}

/// What a pool's configuration says, as it is to be written.
fn config(spa: &Spa, root: Vdev) -> PoolConfig {
    let list = spa.config();
    let text = |name| list.text(name).ok().flatten().map(ToString::to_string);
    let features = list.list("features_for_read").ok().flatten();
    let features = features.map(|list| list.pairs.iter().map(|(name, _)| name.to_string()));
    PoolConfig {
        version: spa.uberblock().version,
        name: spa.name().to_owned(),
        guid: spa.guid(),
        state: LabelState::Active,
        host: None,
        comment: text("comment"),
        compatibility: text("compatibility"),
        root,
        features_for_read: features.map(Iterator::collect).unwrap_or_default(),
    }
}

/// Refuses a pool that has what is not written.
async fn check_written(spa: &Spa, root: &Vdev) -> Result<(), LiveError> {
    // Deadlists, attributes of files and what is counted had other forms then.
    if spa.uberblock().version < VERSION_BEFORE_FEATURES {
        return Err(LiveError::Unsupported("a version before 28"));
    }
    for vdev in &root.children {
        if matches!(&vdev.kind, VdevKind::Raidz(raidz) if raidz.expanding) {
            return Err(LiveError::Unsupported("a raidz that is being expanded"));
        }
    }
    if obsolete::is_removing(spa).await? {
        return Err(LiveError::Unsupported("a vdev that is being removed"));
    }
    Ok(())
}

/// Refuses a pool of which a top-level vdev lacks more devices than it can do without: what is there of it would be changed
/// until a write fails.
fn refuse_lacking(spa: &Spa, root: &Vdev) -> Result<(), LiveError> {
    let (all, away) = (spa.tree().leaf_guids(), spa.tree().leaves_away());
    let there = all.into_iter().map(|(_, guid)| guid).filter(|guid| !away.contains(guid));
    // Who ends too soon is there for readers alone.
    let short = spa.short().clone();
    let there = there.chain(short.keys().copied()).collect();
    let present = Present { there, short };
    let said = lacking(root.children.iter(), &present);
    if said.is_empty() { Ok(()) } else { Err(LiveError::Lacking(said.join("; "))) }
}
