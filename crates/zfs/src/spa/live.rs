//! A pool that is open for writing.
//!
//! ```text
//!   open      as for reading; then space maps and their logs are loaded, and intent logs' blocks are claimed
//!   run       datasets are opened once, and shared; changes join the open group
//!   sync      the open group closes, its datasets are written, what is asked of the pool itself is done, the group is committed
//!   export    a last group whose labels say so
//! ```
//!
//! What concerns the pool as a whole (a new dataset, a snapshot, a property) is a *task*: it is done by who syncs, within a group,
//! and its answer comes when that group is in the pool.
//!
//! **Datasets that are open** follow what is set for them: after a task that set something they are stored by the new
//! properties; after one that enabled a feature the pool is written by it (`following`). One that is destroyed or taken back must not be in use: it is closed, and opened anew by who asks next.
//! A dataset is opened between two groups, so that no task is half done then.
//!
//! When a group can't be committed nothing more is written ([`LiveError::Stopped`]): what is on the devices is the group before. Where
//! somebody holds the pool it is suspended before that, and goes on when its devices do (`suspended`).
//!
//! Source: OpenZFS, `spa.c`, `dsl_synctask.c`.

mod checkpoints;
mod following;
mod opening;
mod suspended;

pub use suspended::ClearError;
pub use zfs_store::vdev::suspend::Reason;

pub use checkpoints::CheckpointError;

use super::checkpoint;
use super::commit::{CommitError, Syncer};
use super::config::LabelState;
use super::datasets::names::KnownNames;
use super::datasets::{OpenDatasets, TaskError, Tasks};
use super::freeing::Freeing;
use super::history::{self, Deed};
use super::open::Spa;
use super::room::Rooms;
use crate::dmu::{Caching, Counted, Dnode, Objset, Policy};
use crate::dsl::catalog::Node;
use crate::dsl::features::{of_checksum, of_compression};
use crate::dsl::make::{Fresh, Maker};
use crate::error::{Problem, ZfsError};
use crate::zap::table;
use crate::zil::{Committed, IntentLog, Stored};
use crate::zpl::FileSystem;
use async_recursion::async_recursion as boxed;
use futures_util::future::LocalBoxFuture;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use stdx::planted::{self, Bug};
use tokio::sync::{Mutex, MutexGuard};
use zfs_format::checksum::ChecksumFunction;
use zfs_format::compression::Compression;
use zfs_format::dsl::property::PropertyValue;
use zfs_format::features::Feature;
use zfs_format::objset::ObjsetKind;
use zfs_format::pool_directory;
use zfs_format::zap::leaf::LeafValue;
use zfs_store::{ReadBlocks, Salt};

/// Bytes of changes after which a replay ends a group.
const REPLAY_BYTES: u64 = 128 << 20;

/// The feature that lets intent logs have records of extended attributes.
const EXTENDED_LOGGED: &str = "zilsaxattr";

/// Why a pool is not written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LiveError {
    /// Something can't be had.
    #[error(transparent)]
    Zfs(#[from] ZfsError),
    /// What a device of it missed that was away can't be read.
    #[error("what a device of it lacks that was away can't be read: {0}")]
    Dtl(ZfsError),
    /// A group is not in the pool.
    #[error("the pool is not written any more: {0}")]
    Stopped(CommitError),
    /// The pool uses what is not written.
    #[error("it uses {0}, and such pools are only read")]
    Feature(String),
    /// A group is not in the pool, and its property `failmode` is `panic`.
    #[error(
        "it has encountered an uncorrectable I/O failure, and its property failmode is panic: {0}"
    )]
    Panic(CommitError),
    /// It is suspended, and its property `failmode` is `continue`.
    #[error("pool I/O is currently suspended")]
    Suspended,
    /// It was suspended, and nobody waits for its devices any more.
    #[error(
        "it was suspended, and is left as a power cut would leave it: what was not made durable is lost"
    )]
    GivenUp,
    /// The pool has what is not written.
    #[error("it has {0}, and such pools are only read")]
    Unsupported(&'static str),
    /// Its newest group can't be opened, and an older one is.
    #[error(
        "its newest transaction group can't be opened, and group {txg} can: spindle zpool import {} takes the pool back, and what came after is lost",
        if *far { "-FX" } else { "-F" }
    )]
    Older {
        /// The group that is open.
        txg: u64,
        /// Whether it is further back than groups are kept whole.
        far: bool,
    },
    /// Its property `multihost` is on, and this host has no number.
    #[error(
        "its property multihost is on, and this host has no hostid by which others know it: zgenhostid sets one"
    )]
    NoHostId,
    /// It could give no signs of life.
    #[error(
        "no sign of life could be written for too long (its property multihost is on): another host may have taken it"
    )]
    NoSigns,
    /// It can be read here and there, and no group of it could be written.
    #[error("{0}: attach them, or name where they lie with one more -d")]
    Lacking(String),
    /// It was suspended, and another host took it meanwhile.
    #[error("another host has taken it")]
    Taken,
}

/// The log of a damaged dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenUpLog {
    /// The dataset.
    pub name: String,
    /// Records that were not replayed.
    pub records: u64,
    /// Why not.
    pub error: ZfsError,
}

/// How a pool is opened for writing.
#[derive(Clone, Copy, Debug)]
pub struct LiveOptions {
    /// It was taken back: what was written after the group that is open is given up.
    pub taken_back: bool,
    /// Log devices are missing, and what only they have is given up.
    pub without_log: bool,
    /// Though what devices lack that were away can't be read: it is what is known of it from then on.
    pub accepts_loss: bool,
    /// Bytes of changes after which a replay of intent logs ends a group. More takes memory; less takes groups, of which each
    /// costs a few flushes.
    pub replay_bytes: u64,
}

impl Default for LiveOptions {
    fn default() -> LiveOptions {
        let (taken_back, without_log, accepts_loss) = Default::default();
        LiveOptions { taken_back, without_log, accepts_loss, replay_bytes: REPLAY_BYTES }
    }
}

/// A dataset that is open for writing.
struct OpenDataset {
    objset: Objset,
    /// Its object in the MOS.
    dataset: Dnode,
    policy: RefCell<Rc<Policy>>,
    /// It was changed in the group that syncs.
    closed: Cell<bool>,
    /// Its files, if somebody asked for them.
    files: RefCell<Option<FileSystem>>,
    log: Rc<IntentLog>,
    /// From the group that syncs on it says that its log may have records of extended attributes.
    says_extended: Cell<bool>,
}

/// A pool that is open for writing. See the [module](self).
pub struct Live {
    spa: Rc<Spa>,
    syncer: Syncer,
    fresh: Rc<dyn Fresh>,
    open: RefCell<BTreeMap<u64, Rc<OpenDataset>>>,
    stopped: RefCell<Option<LiveError>>,
    /// One group syncs at a time.
    syncing: Mutex<()>,
    freeing: Freeing,
    /// What a checkpoint kept is to be freed.
    discarding: Cell<bool>,
    pub(super) rooms: Rooms,
    /// What is counted in file systems.
    counted: Cell<Counted>,
    /// The salt of the pool's checksums, where it had none: until the first group is written.
    new_salt: Cell<Option<Salt>>,
    tasks: Cell<u64>,
    /// Snapshots that were destroyed since the pool is open, by GUID.
    destroyed: RefCell<BTreeSet<u64>>,
    /// Somebody could resume it.
    is_held: Cell<bool>,
    /// Its property `failmode` is `panic`.
    panics: Cell<bool>,
    given_up: RefCell<Vec<GivenUpLog>>,
}

impl OpenDataset {
    /// Whether nobody has it but the table of what is open, and who syncs.
    fn is_unused(self: &Rc<Self>) -> bool {
        let is_own = match &*self.files.borrow() {
            // The file system has a handle of its objset, and so has the log.
            Some(files) => files.handles() == 1 && self.objset.handles() == 3,
            None => self.objset.handles() == 2,
        };
        is_own && Rc::strong_count(self) <= 2
    }

    /// Whether it can be closed: nobody has it, and it has no log.
    fn is_idle(self: &Rc<Self>) -> bool {
        self.is_unused() && self.log.is_empty()
    }
}

impl OpenDatasets for Live {
    fn is_used(&self, dataset: u64) -> bool {
        self.open.borrow().get(&dataset).is_some_and(|open| !open.is_idle())
    }

    fn close(&self, dataset: u64) -> bool {
        let is_idle = !self.is_used(dataset);
        if is_idle {
            self.open.borrow_mut().remove(&dataset);
        }
        is_idle
    }

    fn destroyed(&self, snapshot: u64) {
        if !planted::is(Bug::DestroyedIsRead) {
            self.destroyed.borrow_mut().insert(snapshot);
        }
    }
}

impl Live {
    /// The pool as it is read.
    pub fn spa(&self) -> &Rc<Spa> {
        &self.spa
    }

    /// What syncs it.
    pub fn syncer(&self) -> &Syncer {
        &self.syncer
    }

    /// New numbers, and the time.
    pub fn fresh(&self) -> &dyn Fresh {
        &*self.fresh
    }

    /// The objset of a dataset, open for writing; whoever asks has the same.
    ///
    /// # Errors
    /// It can't be had.
    #[boxed(?Send)]
    pub async fn objset(&self, node: &Node) -> Result<Objset, ZfsError> {
        Ok(self.dataset(node).await?.objset.clone())
    }

    /// The file system of a dataset, open for writing; whoever asks has the same.
    ///
    /// # Errors
    /// It can't be had, or is none.
    #[boxed(?Send)]
    pub async fn files(&self, node: &Node) -> Result<FileSystem, ZfsError> {
        let open = self.dataset(node).await?;
        if let Some(files) = &*open.files.borrow() {
            return Ok(files.clone());
        }
        let files = FileSystem::open(&open.objset).await?;
        self.shape(&files, node);
        files.set_log(Rc::clone(&open.log));
        // Another may have opened it meanwhile: what it learns of layouts is to be known to all.
        Ok(open.files.borrow_mut().get_or_insert(files).clone())
    }

    /// The intent log of a dataset that is open for writing.
    ///
    /// # Errors
    /// It can't be had.
    #[boxed(?Send)]
    pub async fn log_of(&self, node: &Node) -> Result<Rc<IntentLog>, ZfsError> {
        Ok(Rc::clone(&self.dataset(node).await?.log))
    }

    /// Whether somebody has a dataset open.
    pub fn is_used(&self, dataset: u64) -> bool {
        self.open.borrow().get(&dataset).is_some_and(|open| !open.is_unused())
    }

    async fn dataset(&self, node: &Node) -> Result<Rc<OpenDataset>, ZfsError> {
        let number = node.head.number;
        if let Some(open) = self.open.borrow().get(&number) {
            return Ok(Rc::clone(open));
        }
        let _between = self.syncing.lock().await;
        // Another may have opened it meanwhile; or it was destroyed, and another has its number.
        if let Some(open) = self.open.borrow().get(&number) {
            return Ok(Rc::clone(open));
        }
        let now = self.spa.dsl().dataset(number, node.head.name.clone()).await?;
        if now.head.guid != node.head.head.guid {
            return Err(self.spa.mos().wrong(number, Problem::Absent));
        }
        let objset = self.spa.objset(&node.directory, &now).await?;
        let dataset = self.spa.mos().dnode(number).await?;
        objset.change_in(self.syncer.groups().clone());
        objset.set_counted(self.counted.get());
        objset.set_caching(Caching::of(set_number(node, "primarycache")));
        let policy = RefCell::new(Rc::new(self.policy(node)));
        let (closed, files) = (Cell::new(false), RefCell::default());
        let (writer, groups) = (self.syncer.writer().clone(), self.syncer.groups().clone());
        let log = IntentLog::new(objset.clone(), writer, groups, Rc::clone(&self.fresh));
        let log = Rc::new(log);
        log.set_stored(stored(node, &policy.borrow()));
        let says_extended = Cell::new(false);
        let open = OpenDataset { objset, dataset, policy, closed, files, log, says_extended };
        let open = Rc::new(open);
        self.open.borrow_mut().insert(number, Rc::clone(&open));
        Ok(open)
    }

    /// What was destroyed and is to be freed.
    pub fn freeing(&self) -> &Freeing {
        &self.freeing
    }

    /// Syncs groups until all that was destroyed is free.
    ///
    /// # Errors
    /// The pool is stopped.
    #[boxed(?Send)]
    pub async fn finish_freeing(&self) -> Result<(), LiveError> {
        while self.freeing.waits() {
            self.sync(async |_| Ok(())).await?;
        }
        Ok(())
    }

    /// Whether a feature of this short name is enabled.
    fn is_enabled(&self, name: &str) -> bool {
        Feature::named(name).is_some_and(|feature| self.spa.has_feature(feature.guid))
    }

    /// How a dataset's blocks are stored, by its properties. What the pool has no feature for is stored as if nothing were set.
    fn policy(&self, node: &Node) -> Policy {
        let of = self.syncer.policy();
        let is_taken = |feature: Option<&str>| feature.is_none_or(|name| self.is_enabled(name));
        let code = |name, otherwise: u64| set_number(node, name).unwrap_or(otherwise);
        let checksum = ChecksumFunction::from_code(code("checksum", 1) as u8);
        let checksum = checksum.filter(|function| is_taken(of_checksum(*function)));
        // zstd's level stands above the function's number.
        let compression = code("compression", Compression::On.code().into());
        let (function, level) = (compression & 0x7f, compression >> 7);
        let function = Compression::from_code(function as u8).unwrap_or(Compression::Off);
        let compression = match function {
            other if other != Compression::On && is_taken(of_compression(other)) => other,
            _ => of.metadata_compression,
        };
        Policy {
            checksum: checksum.unwrap_or(ChecksumFunction::On).effective(),
            compression,
            zstd_level: level as u8,
            copies: code("copies", 1).clamp(1, 3) as usize,
            special_small: code("special_small_blocks", 0),
            ..(*of).clone()
        }
    }

    /// Whether there is anything that is not in the pool.
    pub fn is_dirty(&self) -> bool {
        let open = self.open.borrow();
        open.values().any(|open| open.objset.is_dirty() || open.log.is_pending())
    }

    /// Syncs the open group, and does a task in it.
    ///
    /// # Errors
    /// The task's own, where nothing was changed by it; else the pool is stopped.
    pub async fn sync<T>(
        &self,
        task: impl AsyncFnOnce(&Maker<'_>) -> Result<T, ZfsError>,
    ) -> Result<T, LiveError> {
        let one = self.syncing.lock().await;
        self.sync_alone(&one, task).await
    }

    /// Waits until all that was changed before is in the pool. Who asks while another group is under way shares the next one with
    /// all others who do.
    ///
    /// # Errors
    /// The pool is stopped.
    #[boxed(?Send)]
    pub async fn make_durable(&self) -> Result<(), LiveError> {
        let wanted = self.syncer.groups().open();
        self.check_stopped()?;
        let one = self.syncing.lock().await;
        self.check_stopped()?;
        // It was synced by whoever held the lock.
        let is_done = self.syncer.groups().open() > wanted;
        match is_done || !self.is_dirty() {
            true => Ok(()),
            false => self.sync_alone(&one, async |_| Ok(())).await,
        }
    }

    /// Makes durable what is known of an object of a dataset, or of all of it: by its intent log, or with the group.
    ///
    /// # Errors
    /// The pool is stopped.
    #[boxed(?Send)]
    pub async fn commit(&self, dataset: u64, object: Option<u64>) -> Result<(), LiveError> {
        self.check_stopped()?;
        let log = self.open.borrow().get(&dataset).map(|open| Rc::clone(&open.log));
        match log {
            Some(log) if log.commit(object).await == Committed::Logged => Ok(()),
            Some(_) => self.make_durable().await,
            // What nobody opened was not changed.
            None => Ok(()),
        }
    }

    fn check_stopped(&self) -> Result<(), LiveError> {
        match &*self.stopped.borrow() {
            Some(error) => Err(error.clone()),
            None => self.check_suspended(),
        }
    }

    /// Nobody else syncs as long as this is held.
    pub(super) async fn alone(&self) -> MutexGuard<'_, ()> {
        self.syncing.lock().await
    }

    /// [`Live::sync`] for who holds the lock.
    ///
    /// # Errors
    /// As of [`Live::sync`].
    pub(super) async fn sync_alone<T>(
        &self,
        _one: &MutexGuard<'_, ()>,
        task: impl AsyncFnOnce(&Maker<'_>) -> Result<T, ZfsError>,
    ) -> Result<T, LiveError> {
        self.check_stopped()?;
        let open: Vec<Rc<OpenDataset>> = self.open.borrow().values().cloned().collect();
        let close = || {
            let is_due = |open: &OpenDataset| open.objset.close() | open.log.is_pending();
            open.iter().for_each(|open| open.closed.set(is_due(open)));
        };
        let work = async |syncer: &Syncer, txg: u64| {
            let maker = Maker { mos: syncer.mos(), fresh: &*self.fresh, txg, counts_freed: false };
            self.do_own_part(&maker, &open).await?;
            task(&maker).await
        };
        match self.syncer.sync(close, work).await {
            Ok(given) => {
                self.is_synced(&open);
                Ok(given)
            }
            Err(error) => Err(self.is_stopped_by(error)),
        }
    }

    /// What a group holds besides its task. Compiled here, and not anew for each kind of task.
    fn do_own_part<'a>(
        &'a self,
        maker: &'a Maker<'a>,
        open: &'a [Rc<OpenDataset>],
    ) -> LocalBoxFuture<'a, Result<(), ZfsError>> {
        Box::pin(async move {
            let syncer = &self.syncer;
            if let Some(salt) = self.new_salt.take() {
                let directory = syncer.directory().await?;
                let numbers = salt.iter().map(|byte| u64::from(*byte)).collect();
                let value = LeafValue { number_bytes: 1, numbers };
                table::set(maker.mos, &directory, pool_directory::CHECKSUM_SALT, value).await?;
            }
            let blocks = Rc::clone(self.spa.zio()) as Rc<dyn ReadBlocks>;
            self.freeing.advance(maker, syncer.writer(), &blocks).await?;
            if self.discarding.get() {
                let blocks = self.freeing.blocks_max();
                self.discarding.set(checkpoint::discard(maker, syncer, blocks).await?);
                self.freeing.look_again();
            }
            for open in open.iter().filter(|open| open.closed.get()) {
                self.sync_dataset(maker, open).await?;
            }
            Ok(())
        })
    }

    /// The group is in the pool.
    fn is_synced(&self, open: &[Rc<OpenDataset>]) {
        let txg = self.syncer.groups().last_synced().0;
        open.iter().for_each(|open| {
            open.objset.committed();
            open.log.committed(txg);
            if open.says_extended.get() {
                open.log.say_extended();
            }
        });
        let config = self.syncer.config();
        self.spa.set_synced(self.syncer.uberblock(txg), config.guid, config.root);
    }

    fn is_stopped_by(&self, error: CommitError) -> LiveError {
        let error = self.why(error);
        *self.stopped.borrow_mut() = Some(error.clone());
        self.syncer.groups().stop();
        error
    }

    /// Whether the snapshot of this GUID was destroyed since the pool is open. Nothing of it may be read.
    pub fn is_destroyed(&self, snapshot: u64) -> bool {
        self.destroyed.borrow().contains(&snapshot)
    }

    /// Counts tasks: after one there may be other datasets, or other names of them.
    pub fn tasks(&self) -> u64 {
        self.tasks.get()
    }

    /// Does a task on datasets, in a group of its own.
    ///
    /// # Errors
    /// The outer one: the pool is stopped. The inner one: it was not done.
    pub async fn task<T>(
        &self,
        task: impl AsyncFnOnce(&Tasks<'_>) -> Result<Result<T, TaskError>, ZfsError>,
    ) -> Result<Result<T, TaskError>, LiveError> {
        let one = self.syncing.lock().await;
        self.end_unused_logs(&one).await?;
        self.await_freed(&one).await?;
        let (rt, blocks) = (self.spa.rt(), self.spa.blocks());
        let is_other = Cell::new(false);
        let done = self.sync_alone(&one, async |maker| {
            let (syncer, settings_changed) = (&self.syncer, Cell::new(false));
            let names = KnownNames::default();
            let (blocks, open, freeing) = (&blocks, self, &self.freeing);
            let tasks = Tasks { maker, syncer, rt, blocks, open, freeing, settings_changed, names };
            let before = syncer.groups().changes_by_sync();
            let done = task(&tasks).await;
            is_other.set(tasks.settings_changed.get());
            match done {
                // What it looked at can't be read, and nothing is changed yet: the pool goes on without it.
                Err(error) if syncer.groups().changes_by_sync() == before && error.is_damage() => {
                    Ok(Err(TaskError::Damaged(Box::new(error))))
                }
                done => done,
            }
        });
        let done = done.await?;
        self.tasks.set(self.tasks.get() + 1);
        self.freeing.look_again();
        if is_other.get() {
            self.follow_pool().await?;
        }
        Ok(done)
    }

    /// The logs of datasets that nobody uses any more end: such a dataset can be destroyed or taken back.
    async fn end_unused_logs(&self, one: &MutexGuard<'_, ()>) -> Result<(), LiveError> {
        let logs: Vec<Rc<IntentLog>> = {
            let open = self.open.borrow();
            let unused = open.values().filter(|open| open.is_unused() && !open.log.is_empty());
            unused.map(|open| Rc::clone(&open.log)).collect()
        };
        for log in &logs {
            log.end().await;
        }
        // Its last blocks may have been reserved when the group that closes was closed already.
        while logs.iter().any(|log| log.is_pending()) {
            self.sync_alone(one, async |_| Ok(())).await?;
        }
        Ok(())
    }

    async fn sync_dataset(&self, maker: &Maker<'_>, open: &OpenDataset) -> Result<(), ZfsError> {
        let OpenDataset { objset, dataset, policy, closed, log, .. } = open;
        closed.set(false);
        let header = log.sync(maker.txg);
        let has_log = !header.log.is_hole() && objset.root().kind == ObjsetKind::FileSystem;
        objset.set_log_header(header);
        if has_log && !log.says_extended() && self.is_enabled(EXTENDED_LOGGED) {
            maker.use_features(dataset, std::iter::once(EXTENDED_LOGGED)).await?;
            open.says_extended.set(true);
        }
        let policy = Rc::clone(&policy.borrow());
        self.syncer.write_dataset(maker, objset, dataset, policy).await
    }

    /// Closes the pool: what is open is written, and its labels say how it was left. Whoever goes on to change it afterwards
    /// changes a pool that says it is closed: nobody may.
    ///
    /// # Errors
    /// The last group can't be committed.
    #[boxed(?Send)]
    pub async fn close(&self, state: LabelState) -> Result<(), LiveError> {
        let logs: Vec<_> = self.open.borrow().values().map(|open| Rc::clone(&open.log)).collect();
        for log in logs {
            log.end().await;
        }
        while self.is_dirty() {
            self.sync(async |_| Ok(())).await?;
        }
        self.syncer.change_config(|config| config.state = state);
        if state == LabelState::Exported {
            self.syncer.flush_maps();
        }
        let command = self.fresh.command().filter(|_| self.syncer.has_deeds());
        self.sync(async |maker| self.note(maker, command.as_deref()).await).await?;
        // A leaf that failed at the very end misses the group that says so.
        if self.syncer.owes_dtls() {
            self.sync(async |_| Ok(())).await?;
        }
        self.syncer.mmp().set(false, self.spa.uberblock());
        Ok(())
    }

    /// Commits what is open, and puts a command down in the history, where something was done since the last one: of a pool that
    /// stays open.
    ///
    /// # Errors
    /// The pool is stopped.
    #[boxed(?Send)]
    pub async fn settle(&self, command: Option<&str>) -> Result<(), LiveError> {
        match command.filter(|_| self.syncer.has_deeds()) {
            Some(command) => {
                self.sync(async |maker| self.note(maker, Some(command)).await).await?;
                self.syncer.told_deeds();
                Ok(())
            }
            None => self.make_durable().await,
        }
    }

    async fn note(&self, maker: &Maker<'_>, command: Option<&str>) -> Result<(), ZfsError> {
        match command {
            Some(command) => history::note(maker, &self.syncer, Deed::Command(command)).await,
            None => Ok(()),
        }
    }
}

/// What the intent log of a dataset has to know of how it is stored.
fn stored(node: &Node, policy: &Rc<Policy>) -> Stored {
    const THROUGHPUT: u64 = 1;
    let throughput = set_number(node, "logbias") == Some(THROUGHPUT);
    Stored { policy: Rc::clone(policy), throughput }
}

/// A property that is a number, where it is set.
pub fn set_number(node: &Node, name: &str) -> Option<u64> {
    let set = node.set.iter().find(|set| set.name == name)?;
    match set.value {
        PropertyValue::Number(number) => Some(number),
        PropertyValue::Text(_) => None,
    }
}
