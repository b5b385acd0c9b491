//! The sync of a transaction group, from the closed group to the uberblock.
//!
//! ```text
//!   pass 1   what waited to be freed, and a part of what was destroyed; datasets; tasks
//!   pass n   what leaves miss; the configuration; frees that came late onto the list of those that wait; space maps; the MOS
//!            … until the MOS is clean, all is flushed, and what leaves miss is written down
//!   commit   labels 0, 2 ── flush ── uberblock ── flush ── labels 1, 3 ── flush
//! ```
//!
//! **Passes come to rest.** Writing the MOS takes and frees space, which the space maps must say, which are in the MOS. From pass 2 on
//! a block that was born in this group is written where it is, and what is freed of older groups waits on a list for the next one
//! ([`pool_directory::SYNC_BPOBJ`]); or where the pool has logs of space maps (`map_logs`) goes into the group's
//! log, which each pass writes anyhow. From pass 8 on nothing new is compressed, so that sizes hold still. Each pass so
//! dirties only blocks that the one before has not written yet, of which there are few; more than `PASSES_MAX` passes are our bug.
//!
//! **The crash argument.** Until one copy of the uberblock of N is whole, the pool is as N−1 left it: an import takes the best
//! uberblock whose checksum fits. Nothing that N−1 reaches was touched: N wrote to space that was free in N−1 and two groups
//! before ([`zfs_store::alloc::allocator`]), or where N itself had written. All that N reaches is durable before its uberblock is
//! written: that is the first flush, and where it fails nothing more is written. Labels are written two and two with a flush
//! between, so that each device has two whole ones at any moment, and both the old and the new configuration lead to the vdevs on
//! which N lies.
//!
//! What it doesn't do yet: DDT, scan.
//!
//! Source: OpenZFS, `spa.c` (`spa_sync`), `dsl_pool.c` (`dsl_pool_sync`), `vdev_label.c` (`vdev_config_sync`).

use super::cloned;
use super::config::PoolConfig;
use super::dtls::{self, Dtls};
use super::events::{Happening, Told};
use super::kept;
use super::maps::MapForm;
use super::mmp::Mmp;
use super::obsolete;
use super::slab_maps::{Group, SlabMaps};
use crate::dmu::{Books, Dnode, Objset, Policy, SyncContext, TxGroups};
use crate::dsl::books::DatasetBooks;
use crate::dsl::bpobj::{Sums, append_pointers, header};
use crate::dsl::livelist;
use crate::dsl::make::{Fresh, Maker, edit};
use crate::error::{Problem, ZfsError};
use crate::zap::{Zap, table};
use futures_util::future::LocalBoxFuture;
use rt::Buf;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use stdx::planted::{self, Bug};
use zfs_format::block_pointer::BlockPointer;
use zfs_format::compression::Compression;
use zfs_format::dsl::dataset::DslDataset;
use zfs_format::dsl::dir::DslDir;
use zfs_format::nvlist::{Encoding, NvList};
use zfs_format::pool_directory;
use zfs_format::uberblock::{MAGIC, MMP_MAGIC, Uberblock, VERSION_FEATURES};
use zfs_format::wire::{Record, Wire};
use zfs_format::{Endian, FormatError};
use zfs_store::alloc::Unflushed;
use zfs_store::{LABEL_PAIRS, WriteError, Writer};

/// Passes that a sync may take.
const PASSES_MAX: u32 = 20;
/// The pass from which on frees wait for the next group, and blocks are written where they are.
const PASS_DEFER_FREES: u32 = 2;
/// The pass from which on nothing new is compressed.
const PASS_DONT_COMPRESS: u32 = 8;
/// The pass after which the space of the MOS is not written down any more: what is left is in the next group's.
const PASS_COUNT_MOS: u32 = 4;

/// Why a transaction group is not in the pool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// Something of it can't be written, or what is needed can't be read.
    #[error(transparent)]
    Zfs(#[from] ZfsError),
    /// What was written can't be made durable.
    #[error(transparent)]
    Flush(#[from] WriteError),
    /// No device took the uberblock.
    #[error("no device of the pool took the uberblock")]
    NoUberblock,
    /// The configuration does not fit into the labels.
    #[error(transparent)]
    Label(#[from] FormatError),
}

/// The books of the MOS.
struct MosBooks {
    writer: Writer,
    txg: Cell<u64>,
    pass: Cell<u32>,
    sums: Cell<Sums>,
    /// Freed late: they wait for the next group.
    late: RefCell<Vec<BlockPointer>>,
    /// What is freed dirties one log, however late it is.
    has_logs: Cell<bool>,
}

impl Books for MosBooks {
    fn born(&self, pointer: &BlockPointer) {
        self.count(pointer, 1);
    }

    fn killed(&self, pointer: &BlockPointer) {
        self.count(pointer, -1);
        self.free(pointer);
    }

    fn large_dnode(&self) {}
}

impl MosBooks {
    fn count(&self, pointer: &BlockPointer, sign: i64) {
        let mut sums = self.sums.get();
        sums.add(Sums::of(self.writer.tree(), pointer), sign);
        self.sums.set(sums);
    }

    fn free(&self, pointer: &BlockPointer) {
        if pointer.is_embedded() {
            return;
        }
        let is_fresh = pointer.physical_birth() == self.txg.get();
        if self.pass.get() >= PASS_DEFER_FREES && planted::nth(Bug::LateFreesLost, 20) {
            return;
        }
        match self.pass.get() < PASS_DEFER_FREES || is_fresh || self.has_logs.get() {
            true => self.writer.free(pointer),
            false => self.late.borrow_mut().push(*pointer),
        }
    }
}

/// What syncs a pool.
pub struct Syncer {
    writer: Writer,
    groups: TxGroups,
    mos: Objset,
    root: Cell<BlockPointer>,
    policy: RefCell<Rc<Policy>>,
    books: Rc<MosBooks>,
    config: RefCell<PoolConfig>,
    /// It is not in the labels, and not in the MOS.
    config_changed: Cell<bool>,
    config_unwritten: Cell<bool>,
    dtls: Dtls,
    maps: SlabMaps,
    /// Of one list of a livelist.
    allocations_max: Cell<u64>,
    mmp: Mmp,
    /// Something was done that the history tells of.
    has_deeds: Cell<bool>,
    fresh: Rc<dyn Fresh>,
    told: Told,
}

impl Syncer {
    /// Syncs a pool whose MOS has this root block.
    pub fn new(
        writer: Writer,
        groups: TxGroups,
        mos: Objset,
        root: BlockPointer,
        policy: Policy,
        config: PoolConfig,
        fresh: &Rc<dyn Fresh>,
    ) -> Syncer {
        let mmp = Mmp::new(writer.rt(), writer.tree(), fresh);
        mos.change_by_sync(groups.clone());
        let books = MosBooks {
            writer: writer.clone(),
            txg: Cell::new(0),
            pass: Cell::new(1),
            sums: Cell::default(),
            late: RefCell::default(),
            has_logs: Cell::new(false),
        };
        Syncer {
            writer,
            groups,
            mos,
            root: Cell::new(root),
            policy: RefCell::new(Rc::new(policy)),
            books: Rc::new(books),
            config: RefCell::new(config),
            config_changed: Cell::new(false),
            config_unwritten: Cell::new(false),
            dtls: Dtls::default(),
            maps: SlabMaps::default(),
            allocations_max: Cell::new(livelist::ALLOCATIONS_MAX),
            mmp,
            has_deeds: Cell::new(false),
            fresh: Rc::clone(fresh),
            told: Told::default(),
        }
    }

    /// The MOS.
    pub fn mos(&self) -> &Objset {
        &self.mos
    }

    /// The groups.
    pub fn groups(&self) -> &TxGroups {
        &self.groups
    }

    /// What writes blocks.
    pub fn writer(&self) -> &Writer {
        &self.writer
    }

    /// Signs of life.
    pub fn mmp(&self) -> &Mmp {
        &self.mmp
    }

    /// How blocks of the MOS are stored.
    pub fn policy(&self) -> Rc<Policy> {
        Rc::clone(&self.policy.borrow())
    }

    /// Blocks of the MOS are stored so from the group that syncs next.
    pub(super) fn set_policy(&self, policy: Policy) {
        *self.policy.borrow_mut() = Rc::new(policy);
    }

    /// What the pool lets its space maps have.
    pub fn set_map_form(&self, form: MapForm) {
        self.maps.set_form(form);
    }

    /// The pool has logs of space maps from here on; these, if it had some.
    pub(super) fn write_map_logs(&self, loaded: Option<Unflushed>) {
        // Pools older than 2016 may have vdevs without tables of their own, where numbers would stand.
        let config = self.config.borrow();
        let mut tops = config.root.children.iter().filter(|top| top.is_there());
        let has_tables = tops.all(|top| kept::table_of(top).is_some());
        if loaded.is_some() || has_tables {
            self.maps.write_logs(loaded);
        }
    }

    /// Whether it has.
    pub fn has_map_logs(&self) -> bool {
        self.maps.has_logs()
    }

    /// The next group leaves one log of space maps at the most.
    pub(super) fn flush_maps(&self) {
        self.maps.flush_all();
    }

    /// Of a livelist another list is begun after so many allocations: for tests.
    pub fn set_livelist_allocations(&self, most: u64) {
        self.allocations_max.set(most);
    }

    /// What is written down of what leaves miss.
    pub(super) fn set_dtls(&mut self, dtls: Dtls) {
        self.dtls = dtls;
    }

    /// Whether leaves miss what is not written down.
    pub(super) fn owes_dtls(&self) -> bool {
        !self.dtls.owed(&self.config.borrow().root, self.writer.tree()).is_empty()
    }

    /// Leaves that can't be written miss the group that closes.
    fn note_leaves_away(&self, txg: u64) {
        let tree = self.writer.tree();
        tree.leaves_away().into_iter().for_each(|leaf| tree.add_to_dtl(leaf, txg..txg + 1));
    }

    async fn write_dtls(&self, txg: u64, pass: u32) -> Result<(), ZfsError> {
        let root = self.config().root;
        let (vdevs, group) = ((&root, &**self.writer.tree()), (txg, pass as u16));
        let made = self.dtls.write(vdevs, &self.mos, self.maps.form(), group).await?;
        for (leaf, object) in made {
            self.change_config(|config| dtls::set(&mut config.root, leaf, object));
        }
        Ok(())
    }

    /// Who is told what happens.
    pub fn told(&self) -> &Told {
        &self.told
    }

    /// The user's command is to be in the history.
    pub fn note_deed(&self) {
        self.has_deeds.set(true);
    }

    /// The history has the user's command.
    pub fn told_deeds(&self) {
        self.has_deeds.set(false);
    }

    /// Whether it is.
    pub fn has_deeds(&self) -> bool {
        self.has_deeds.get()
    }

    /// Looks at the configuration.
    pub fn config(&self) -> PoolConfig {
        self.config.borrow().clone()
    }

    /// Changes the configuration: it is written with the group that syncs, or the next.
    pub fn change_config(&self, how: impl FnOnce(&mut PoolConfig)) {
        how(&mut self.config.borrow_mut());
        self.config_changed.set(true);
        self.config_unwritten.set(true);
    }

    /// Syncs the open group. `close` is called at the moment when it closes, and puts what was changed in it aside; `work` is what is done in it by who syncs, and whatever it needs of objects it changes in the MOS.
    /// What it gives comes back once the group is in the pool.
    ///
    /// # Errors
    /// The group is not in the pool, and the pool can't be written any more: open it again.
    pub async fn sync<T>(
        &self,
        close: impl FnOnce(),
        work: impl AsyncFnOnce(&Syncer, u64) -> Result<T, ZfsError>,
    ) -> Result<T, CommitError> {
        self.groups.rotate();
        close();
        let txg = self.begin().await?;
        let given = work(self, txg).await?;
        self.come_to_rest(txg).await?;
        Ok(given)
    }

    /// What comes before the work. This and what comes after is compiled here, and not anew for each kind of work.
    fn begin(&self) -> LocalBoxFuture<'_, Result<u64, ZfsError>> {
        let txg = self.groups.syncing().expect("it was closed just now").0;
        self.books.txg.set(txg);
        self.books.pass.set(1);
        self.books.has_logs.set(self.maps.has_logs());
        self.note_leaves_away(txg);
        Box::pin(async move {
            // A pool that is new has no list of what waits.
            if !self.root.get().is_hole() {
                self.free_waiting().await?;
            }
            Ok(txg)
        })
    }

    /// The passes, and the commit.
    fn come_to_rest(&self, txg: u64) -> LocalBoxFuture<'_, Result<(), CommitError>> {
        Box::pin(self.take_passes(txg))
    }

    async fn take_passes(&self, txg: u64) -> Result<(), CommitError> {
        for pass in 1.. {
            assert!(pass <= PASSES_MAX, "the passes of a sync come to rest");
            self.books.pass.set(pass);
            self.write_dtls(txg, pass).await?;
            if self.config_unwritten.take() {
                self.write_config(txg).await?;
            }
            if pass <= PASS_COUNT_MOS {
                self.count_mos().await?;
            }
            self.write_late().await?;
            self.writer.free_aside().await;
            cloned::write(&self.mos, &self.writer).await?;
            self.write_maps(txg, pass).await?;
            if let Some(dva) = self.writer.not_held() {
                return Err(self.mos.wrong(0, Problem::NotAllocated(dva)).into());
            }
            if !self.mos.is_dirty() {
                // All that the group reaches is durable before its uberblock. A leaf that fails here misses the group, and the group
                // says so itself.
                if !planted::is(Bug::FlushBeforeLeftOut) {
                    self.writer.flush(txg..txg + 1).await?;
                }
                match self.owes_dtls() {
                    true => continue,
                    false => break,
                }
            }
            self.mos.close();
            let cx = self.context(pass);
            self.root.set(self.mos.sync(&cx, self.root.get()).await?);
        }
        self.commit(txg).await?;
        self.mos.committed();
        self.writer.done(txg);
        self.groups.done();
        Ok(())
    }

    /// Writes what the syncing group changed in a dataset, and settles its books.
    ///
    /// # Errors
    /// What is needed can't be had, or a block can't be written.
    pub async fn write_dataset(
        &self,
        maker: &Maker<'_>,
        objset: &Objset,
        dataset: &Dnode,
        policy: Rc<Policy>,
    ) -> Result<(), ZfsError> {
        let head = maker.bonus::<DslDataset>(dataset)?;
        let (writer, groups) = (self.writer.clone(), self.groups.clone());
        let books =
            DatasetBooks::open(maker, writer.clone(), dataset, self.allocations_max.get()).await?;
        let books = Rc::new(books);
        let kept = Rc::clone(&books) as Rc<dyn Books>;
        let cx =
            SyncContext { writer, groups, policy, books: kept, early: Rc::clone(objset.early()) };
        if let Some(tally) = objset.sync_objects(&cx).await? {
            maker.set_down(objset, &cx.groups, &tally).await?;
            maker.use_counts(dataset, objset.counted().unwrap_or_default()).await?;
        }
        let pointer = objset.sync_root(&cx, head.pointer).await?;
        books.settle(maker, dataset, pointer).await
    }

    /// The uberblock of a group.
    pub fn uberblock(&self, txg: u64) -> Uberblock {
        let config = self.config.borrow();
        Uberblock {
            magic: MAGIC,
            version: config.version,
            txg,
            guid_sum: config.guid_sum(),
            timestamp: self.fresh.now(),
            root: self.root.get(),
            software_version: VERSION_FEATURES,
            mmp_magic: MMP_MAGIC,
            mmp_delay: 0,
            mmp_config: 0,
            checkpoint_txg: 0,
            raidz_reflow_info: 0,
        }
    }

    fn context(&self, pass: u32) -> SyncContext {
        let mut policy = self.policy();
        if pass >= PASS_DONT_COMPRESS {
            let still = Policy { metadata_compression: Compression::Off, ..(*policy).clone() };
            policy = Rc::new(still);
        }
        let (writer, groups) = (self.writer.clone(), self.groups.clone());
        let books = Rc::clone(&self.books) as Rc<dyn Books>;
        SyncContext { writer, groups, policy, books, early: Rc::clone(self.mos.early()) }
    }

    /// Writes labels and uberblock; where no device takes them, again once the pool is resumed.
    async fn commit(&self, txg: u64) -> Result<(), CommitError> {
        let changed = self.config_changed.take();
        let suspension = self.writer.tree().suspension();
        loop {
            if !suspension.may_write(|| self.writer.rt().now()).await {
                return Err(CommitError::Flush(WriteError::Suspended));
            }
            match self.write_labels(txg, changed).await {
                Err(CommitError::NoUberblock) if suspension.again().await => {}
                done => {
                    if changed && done.is_ok() {
                        self.told.tell(&Happening::ConfigSync);
                    }
                    return done;
                }
            }
        }
    }

    async fn write_labels(&self, txg: u64, changed: bool) -> Result<(), CommitError> {
        let tree = self.writer.tree();
        let [first, second] = LABEL_PAIRS;
        let of = |top, leaf| self.config.borrow().for_label(txg, top, leaf);
        if changed && planted::is(Bug::LabelsAtOnce) {
            tree.write_configurations(&second, of).await?;
        }
        if changed {
            tree.write_configurations(&first, of).await?;
            if tree.flush_leaves().await.leaves == 0 {
                return Err(CommitError::NoUberblock);
            }
        }
        let all: Vec<usize> = first.into_iter().chain(second).collect();
        let mut root = self.uberblock(txg);
        self.mmp.state_in(&mut root);
        let written = tree.write_uberblock(&all, &root, self.mmp.slots_kept()).await;
        let flushed = match planted::is(Bug::FlushAfterLeftOut) {
            true => written,
            false => tree.flush_leaves().await,
        };
        if written.leaves == 0 || flushed.leaves == 0 {
            return Err(CommitError::NoUberblock);
        }
        self.mmp.group_done(&root);
        if changed {
            tree.write_configurations(&second, of).await?;
            tree.flush_leaves().await;
        }
        Ok(())
    }

    /// The pool's directory.
    ///
    /// # Errors
    /// It can't be had.
    pub async fn directory(&self) -> Result<Dnode, ZfsError> {
        self.mos.dnode(pool_directory::OBJECT).await
    }

    async fn number(&self, name: &str) -> Result<Option<u64>, ZfsError> {
        let directory = Zap::open(self.directory().await?).await?;
        Ok(directory.get(name.as_bytes()).await?.and_then(|value| value.number()))
    }

    async fn write_config(&self, txg: u64) -> Result<(), ZfsError> {
        let list = self.config.borrow().for_mos(txg);
        let Some(number) = self.number(pool_directory::CONFIG).await? else { return Ok(()) };
        write_packed(&self.mos, &self.mos.dnode(number).await?, &list).await
    }

    /// What of the MOS's own space changed is counted in its directory, and in the root above.
    async fn count_mos(&self) -> Result<(), ZfsError> {
        let sums = self.books.sums.take();
        if sums == Sums::default() {
            return Ok(());
        }
        let Some(root) = self.number(pool_directory::ROOT_DATASET).await? else { return Ok(()) };
        let root = self.mos.dnode(root).await?;
        let head = DslDir::decode(&root.phys().bonus, root.endian()).map_err(|e| root.wrong(e))?;
        let children = Zap::open(self.mos.dnode(head.children).await?).await?;
        let Some(own) = children.get(b"$MOS").await?.and_then(|value| value.number()) else {
            return Ok(());
        };
        const HEAD: usize = 0;
        const CHILD: usize = 2;
        let own = self.mos.dnode(own).await?;
        for (directory, part) in [(own, HEAD), (root, CHILD)] {
            self.add_used(&directory, sums, part).await?;
        }
        Ok(())
    }

    async fn add_used(&self, directory: &Dnode, sums: Sums, part: usize) -> Result<(), ZfsError> {
        edit(&self.mos, directory, |head: &mut DslDir| {
            head.used_bytes = head.used_bytes.wrapping_add_signed(sums.used);
            head.compressed_bytes = head.compressed_bytes.wrapping_add_signed(sums.compressed);
            head.uncompressed_bytes =
                head.uncompressed_bytes.wrapping_add_signed(sums.uncompressed);
            head.used_breakdown[part] = head.used_breakdown[part].wrapping_add_signed(sums.used);
        })
        .await
    }

    /// Frees what waited for this group.
    async fn free_waiting(&self) -> Result<(), ZfsError> {
        let Some(number) = self.number(pool_directory::SYNC_BPOBJ).await? else { return Ok(()) };
        let object = self.mos.dnode(number).await?;
        let mut list = header(&object)?;
        if list.pointers == 0 {
            return Ok(());
        }
        let len = list.pointers as usize * BlockPointer::BYTES;
        let bytes = object.read(0, len).await?.into_contiguous();
        let (pointers, _) = bytes.bytes().as_chunks::<{ BlockPointer::BYTES }>();
        for pointer in pointers {
            self.writer.free(&BlockPointer::of_bytes(pointer, object.endian()));
        }
        if planted::nth(Bug::WaitingNotCleared, 5) {
            return Ok(());
        }
        (list.pointers, list.bytes, list.compressed, list.uncompressed) = (0, 0, 0, 0);
        let bonus = list.encode(object.endian());
        self.mos
            .change(|tx| {
                object.plan_zero(0..len as u64)?;
                object.plan_bonus(bonus.len())?;
                object.zero(tx, 0..len as u64);
                object.set_bonus(tx, bonus.clone());
                Ok(())
            })
            .await
    }

    /// What was freed late goes onto the list of what waits.
    async fn write_late(&self) -> Result<(), ZfsError> {
        let late = self.books.late.take();
        if late.is_empty() {
            return Ok(());
        }
        let number = self.number(pool_directory::SYNC_BPOBJ).await?;
        let object = self.mos.dnode(number.unwrap_or(0)).await?;
        append_pointers(&self.mos, &object, &late, self.writer.tree()).await
    }

    /// Writes down what the group took and gave back.
    async fn write_maps(&self, txg: u64, pass: u32) -> Result<(), ZfsError> {
        let maker = Maker { mos: &self.mos, fresh: &*self.fresh, txg, counts_freed: false };
        let tops = self.config.borrow().root.children.clone();
        let group = Group { maker: &maker, writer: &self.writer, tops: &tops, pass };
        self.maps.write(group).await?;
        let (form, group) = (self.maps.form(), group.number());
        kept::write(&self.mos, &self.writer, &tops, form, group).await?;
        obsolete::write(&self.mos, &self.writer, &tops, form, group).await
    }
}

/// Writes a list into the object that holds it packed.
///
/// # Errors
/// What is needed can't be had.
pub(super) async fn write_packed(
    mos: &Objset,
    object: &Dnode,
    list: &NvList,
) -> Result<(), ZfsError> {
    let bytes = Buf::copy_of(&list.encode(Encoding::Xdr(Endian::Little)));
    let bonus = object.endian().bytes(bytes.len() as u64).to_vec();
    mos.change(|tx| {
        object.plan_write(0..bytes.len() as u64)?;
        object.plan_bonus(bonus.len())?;
        object.write(tx, 0, &bytes);
        object.set_bonus(tx, bonus.clone());
        Ok(())
    })
    .await
}

/// A number put into the pool's directory.
///
/// # Errors
/// What is needed can't be had.
pub(crate) async fn enter(mos: &Objset, name: &str, number: u64) -> Result<(), ZfsError> {
    let directory = mos.dnode(pool_directory::OBJECT).await?;
    table::set(mos, &directory, name, table::number(number)).await
}
