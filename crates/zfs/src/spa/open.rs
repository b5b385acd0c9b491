//! Opening a pool that was found, for reading.

use super::error::{LostRoot, OpenError};
use super::features::{self, InUse};
use super::found::{FoundPool, PoolState};
use super::keys::Keys;
use crate::dmu::Objset;
use crate::dsl::Dsl;
use crate::error::{Problem, ZfsError};
use crate::health::Short;
use crate::show;
use crate::zap::Zap;
use async_recursion::async_recursion as boxed;
use rt::{DeviceRef, Rt};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use stdx::RangeSet;
use zfs_format::nvlist::NvList;
use zfs_format::pool_directory;
use zfs_format::space_map::Change;
use zfs_format::uberblock::{Uberblock, VERSION_BEFORE_FEATURES, VERSION_FEATURES};
use zfs_format::vdev::Vdev;
use zfs_format::vdev::indirect::{Mapping, MappingEntry};
use zfs_format::wire::{Reader, Record, Wire};
use zfs_store::ReadBlocks;
use zfs_store::alloc::{Stretch, each_stretch};
use zfs_store::arc::{Arc, ArcOptions};
use zfs_store::{Tree, TreeError, Zio};

/// Bytes of the configuration in the MOS that are read: the bound of an nvlist.
const CONFIG_BYTES_MAX: u64 = zfs_format::nvlist::BYTES_MAX as u64;
/// Entries of a removed vdev's mapping that are read: 2^24, a vdev of 2 TiB in pieces of 128 KiB.
const MAPPING_ENTRIES_MAX: u64 = 1 << 24;
/// How often the root block is tried at an older uberblock, when the newest doesn't lead to a MOS.
const REWINDS_MAX: usize = 8;

/// How many of the newest groups are tried, where one that was asked for can't be opened.
const TRIED_MAX: usize = 16;

/// Bytes of changes that a pool may hold in memory where nobody says.
const DIRTY_BYTES_MAX: u64 = 1 << 30;

/// How a pool is to be opened.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    /// The cache.
    pub arc: ArcOptions,
    /// Bytes of changes in memory, where it is written: OpenZFS's `zfs_dirty_data_max`.
    pub dirty_max: u64,
    /// Open the pool as of this transaction group, if its uberblock is left.
    pub txg: Option<u64>,
    /// Open the pool as of its checkpoint.
    pub checkpoint: bool,
    /// Without devices that [end too soon](FoundPool::short): to write it.
    pub whole_devices: bool,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        let (arc, txg, checkpoint, whole_devices) = Default::default();
        OpenOptions { arc, dirty_max: DIRTY_BYTES_MAX, txg, checkpoint, whole_devices }
    }
}

/// An open pool.
pub struct Spa {
    rt: Rt,
    guid: Cell<u64>,
    was_closed: bool,
    /// The group of the newest uberblock on its devices, and the newest group of which anything is there.
    newest: u64,
    latest: u64,
    /// Groups that leaves have not seen, as their labels say.
    behind: BTreeMap<u64, Range<u64>>,
    /// Leaves that end too soon.
    short: BTreeMap<u64, Short>,
    name: String,
    synced: RefCell<Synced>,
    tree: Rc<Tree>,
    zio: Rc<Zio>,
    arc: Rc<Arc>,
    mos: Objset,
    dsl: Dsl,
    dirty_max: u64,
    pub(super) keys: Keys,
}

/// A pool as its last transaction group left it.
struct Synced {
    uberblock: Uberblock,
    config: Rc<NvList>,
    vdevs: Rc<Vdev>,
    features: Rc<[InUse]>,
}

impl Spa {
    /// Opens a pool for reading.
    ///
    /// # Errors
    /// [`OpenError`]
    #[boxed(?Send)]
    pub async fn open(rt: &Rt, found: &FoundPool, options: OpenOptions) -> Result<Spa, OpenError> {
        let done = Spa::open_as(rt, found, options).await;
        match (done, options.txg) {
            (Err(OpenError::Zfs { pool, error }), Some(txg)) if error.is_damage() => {
                let mut txgs: Vec<u64> = found.uberblocks().iter().map(|one| one.txg).collect();
                txgs.dedup();
                let newest = txgs.first().copied().unwrap_or(txg);
                let mut opens = Vec::new();
                for other in txgs.into_iter().take(TRIED_MAX).filter(|other| *other != txg) {
                    let options = OpenOptions { txg: Some(other), ..options };
                    if Spa::open_as(rt, found, options).await.is_ok() {
                        opens.push(other);
                    }
                }
                Err(OpenError::Overwritten { pool, txg, error, newest, opens })
            }
            (Err(error), None) => Err(Spa::explained(rt, found, options, error).await),
            (done, _) => done,
        }
    }

    /// Why the newest group of a pool can't be opened, where that is because devices lack what leads to all else which were away when it
    /// was written: what that was, who has it, and which groups from before can be opened. Everything else is left as it is.
    #[boxed(?Send)]
    pub(super) async fn explained(
        rt: &Rt,
        found: &FoundPool,
        options: OpenOptions,
        error: OpenError,
    ) -> OpenError {
        let (pool, error) = match error {
            OpenError::Zfs { pool, error } if error.is_damage() => (pool, error),
            error => return error,
        };
        let lost = error.birth().map(|txg| found.lost_unseen(txg)).unwrap_or_default();
        let Some(first) = lost.iter().next().map(|stretch| stretch.start) else {
            return OpenError::Zfs { pool, error };
        };
        let mut txgs: Vec<u64> = found.uberblocks().iter().map(|one| one.txg).collect();
        txgs.dedup();
        let mut before = None;
        for txg in txgs.into_iter().filter(|txg| *txg < first).take(TRIED_MAX) {
            let options = OpenOptions { txg: Some(txg), ..options };
            if Spa::open_as(rt, found, options).await.is_ok() {
                before = Some(txg);
                break;
            }
        }
        let (groups, missing) = (show::groups(&lost), found.who_has_it());
        let why = LostRoot { pool: pool.clone(), groups, error, missing, before };
        OpenError::LostRoot { pool, why: Box::new(why) }
    }

    /// The same; where a group was asked for that can't be opened, no others are looked at.
    pub(super) async fn open_as(
        rt: &Rt,
        found: &FoundPool,
        options: OpenOptions,
    ) -> Result<Spa, OpenError> {
        let pool = found.name.clone();
        features::check_label(&pool, &found.config)?;
        let candidates = candidates(found, options)?;
        let mut devices = found.devices();
        if options.whole_devices {
            found.short().keys().for_each(|guid| drop(devices.remove(guid)));
        }
        let tops: Vec<Vdev> = found.tops.values().cloned().collect();
        let mut first = None;
        for uberblock in candidates {
            let version = uberblock.version;
            if version > VERSION_BEFORE_FEATURES && version != VERSION_FEATURES {
                return Err(OpenError::Version { pool, version });
            }
            let opened = Opening { rt, pool: &pool, devices: &devices, options };
            match opened.at(uberblock, &tops, found).await {
                Ok(spa) => return Ok(spa),
                Err(OpenError::Zfs { pool, error }) => {
                    let lack = error.lacks_device().then(|| found.lack()).flatten();
                    first.get_or_insert(lack.unwrap_or(OpenError::Zfs { pool, error }));
                }
                Err(error) => return Err(error),
            }
        }
        Err(first.unwrap_or(OpenError::NoUberblock { pool }))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its GUID.
    pub fn guid(&self) -> u64 {
        self.guid.get()
    }

    /// Whether it is open as it was left when it was closed: its intent logs hold nothing then.
    pub fn was_closed(&self) -> bool {
        self.was_closed
    }

    /// Whether it is open as its newest uberblock has it.
    pub fn is_newest(&self) -> bool {
        self.uberblock().txg >= self.newest
    }

    /// The newest transaction group of which a label or uberblock is on its devices, whether it can be opened or not.
    pub fn latest_txg(&self) -> u64 {
        self.latest.max(self.uberblock().txg)
    }

    /// The groups that a leaf has not seen, as its labels say, where the pool was opened.
    pub(super) fn behind(&self, leaf: u64) -> Option<Range<u64>> {
        self.behind.get(&leaf).cloned()
    }

    /// Leaves that ended too soon when the pool was opened.
    pub(super) fn short(&self) -> &BTreeMap<u64, Short> {
        &self.short
    }

    /// The root of what is synced.
    pub fn uberblock(&self) -> Uberblock {
        self.synced.borrow().uberblock.clone()
    }

    /// Another group is in the pool: this is its root, its GUID, and the vdevs as they are configured.
    pub(super) fn set_synced(&self, uberblock: Uberblock, guid: u64, vdevs: Vdev) {
        self.guid.set(guid);
        let mut synced = self.synced.borrow_mut();
        synced.uberblock = uberblock;
        synced.vdevs = Rc::new(vdevs);
    }

    /// Its configuration, from the MOS.
    pub fn config(&self) -> Rc<NvList> {
        Rc::clone(&self.synced.borrow().config)
    }

    /// Its vdevs as configured: a root.
    pub fn vdevs(&self) -> Rc<Vdev> {
        Rc::clone(&self.synced.borrow().vdevs)
    }

    /// Its features.
    pub fn features(&self) -> Rc<[InUse]> {
        Rc::clone(&self.synced.borrow().features)
    }

    /// Others are enabled, or in use.
    pub(super) fn set_features(&self, features: Vec<InUse>) {
        self.synced.borrow_mut().features = features.into();
    }

    /// The executor.
    pub fn rt(&self) -> &Rt {
        &self.rt
    }

    /// The MOS.
    pub fn mos(&self) -> &Objset {
        &self.mos
    }

    /// The datasets.
    pub fn dsl(&self) -> &Dsl {
        &self.dsl
    }

    /// The vdevs.
    pub fn tree(&self) -> &Rc<Tree> {
        &self.tree
    }

    /// The blocks, past the cache.
    pub fn zio(&self) -> &Rc<Zio> {
        &self.zio
    }

    /// Bytes of changes that are held in memory.
    pub(super) fn dirty_max(&self) -> u64 {
        self.dirty_max
    }

    /// The cache.
    pub fn arc(&self) -> &Rc<Arc> {
        &self.arc
    }

    /// The blocks, through the cache.
    pub fn blocks(&self) -> Rc<dyn ReadBlocks> {
        Rc::clone(&self.arc) as _
    }
}

/// The checkpoint's uberblock, where the pool of this directory has one.
///
/// # Errors
/// It can't be had.
pub(crate) async fn checkpoint_of(directory: &Zap) -> Result<Option<Uberblock>, ZfsError> {
    let Some(value) = directory.get(pool_directory::CHECKPOINT.as_bytes()).await? else {
        return Ok(None);
    };
    let uberblock = Uberblock::from_numbers(&value.numbers);
    uberblock.map(Some).map_err(|error| directory.dnode().wrong(error))
}

/// The uberblocks to try, in order.
fn candidates(found: &FoundPool, options: OpenOptions) -> Result<Vec<Uberblock>, OpenError> {
    let pool = || found.name.clone();
    let mut all = found.uberblocks();
    if let Some(txg) = options.txg {
        all.retain(|uberblock| uberblock.txg <= txg);
        if all.first().is_none_or(|best| best.txg != txg) {
            return Err(OpenError::NoSuchUberblock { pool: pool(), txg });
        }
        all.truncate(1);
    }
    all.truncate(REWINDS_MAX);
    if all.is_empty() { Err(OpenError::NoUberblock { pool: pool() }) } else { Ok(all) }
}

struct Opening<'a> {
    rt: &'a Rt,
    pool: &'a str,
    devices: &'a BTreeMap<u64, DeviceRef>,
    options: OpenOptions,
}

/// The layers up to the MOS.
struct Layers {
    tree: Rc<Tree>,
    zio: Rc<Zio>,
    arc: Rc<Arc>,
    mos: Objset,
}

impl Opening<'_> {
    fn tree(&self, error: TreeError) -> OpenError {
        OpenError::Tree { pool: self.pool.to_owned(), error }
    }

    fn zfs(&self, error: ZfsError) -> OpenError {
        OpenError::Zfs { pool: self.pool.to_owned(), error: Box::new(error) }
    }

    async fn at(
        &self,
        uberblock: Uberblock,
        tops: &[Vdev],
        found: &FoundPool,
    ) -> Result<Spa, OpenError> {
        let zfs = |error| self.zfs(error);
        let first = self.layers(tops, &uberblock).await?;
        let directory = first.directory().await.map_err(zfs)?;
        if self.options.checkpoint {
            let none = || OpenError::NoCheckpoint { pool: self.pool.to_owned() };
            let checkpoint = checkpoint_of(&directory).await.map_err(zfs)?.ok_or_else(none)?;
            let options = OpenOptions { checkpoint: false, ..self.options };
            let opening = Opening { options, ..*self };
            return Box::pin(opening.at(checkpoint, tops, found)).await;
        }
        let in_use = features::in_use(&first.mos).await.map_err(zfs)?;
        features::check_in_use(self.pool, &in_use)?;
        let config = config(&first.mos, &directory).await.map_err(zfs)?;
        let vdevs = vdevs(&first.mos, &config).await.map_err(zfs)?;
        // What the MOS says counts: labels may be of another moment, or of only some of the vdevs.
        let layers = match vdevs.children.as_slice() == tops {
            true => first,
            false => self.layers(&vdevs.children, &uberblock).await?,
        };
        let directory = layers.directory().await.map_err(zfs)?;
        let salt = directory.get(pool_directory::CHECKSUM_SALT.as_bytes()).await.map_err(zfs)?;
        if let Some(salt) = salt.and_then(|value| value.bytes()?.try_into().ok()) {
            layers.zio.set_salt(salt);
        }
        self.open_removed(&layers).await?;
        let mut behind = found.behind();
        // What came later is not shown.
        behind.values_mut().for_each(|groups| groups.end = groups.end.min(uberblock.txg + 1));
        behind.retain(|_, groups| !groups.is_empty());
        for leaf in vdevs.leaves() {
            let mut lacks = RangeSet::default();
            if let Some(object) = leaf.dtl.filter(|object| *object != 0) {
                lacks = match missing(&layers.mos, object).await {
                    Ok(lacks) => lacks,
                    // It may lack more, and is asked all the same: checksums tell.
                    Err(error) if error.is_damage() => {
                        let missed = error.birth().map(|txg| found.missed(leaf.guid, txg));
                        let mut missed = missed.unwrap_or_default();
                        missed.remove(uberblock.txg + 1..u64::MAX);
                        missed
                    }
                    Err(_) => RangeSet::default(),
                };
            }
            lacks.extend(behind.get(&leaf.guid).cloned());
            layers.tree.set_dtl(leaf.guid, lacks);
        }
        let name = config.text("name").ok().flatten();
        let name = name.map_or_else(|| self.pool.to_owned(), ToString::to_string);
        let dsl = Dsl::open(&layers.mos, &name).await.map_err(zfs)?;
        let newest = found.uberblocks().first().map_or(0, |best| best.txg);
        let was_closed = found.state != PoolState::Active && newest == uberblock.txg;
        let labelled = found.members.values().map(|member| member.txg).max().unwrap_or(0);
        let Layers { tree, zio, arc, mos } = layers;
        Ok(Spa {
            rt: self.rt.clone(),
            guid: Cell::new(found.guid),
            was_closed,
            newest,
            latest: newest.max(labelled),
            behind,
            short: found.short(),
            name,
            synced: RefCell::new(Synced {
                uberblock,
                config: Rc::new(config),
                vdevs: Rc::new(vdevs),
                features: in_use.into(),
            }),
            tree,
            zio,
            arc,
            mos,
            dsl,
            dirty_max: self.options.dirty_max,
            keys: Keys::default(),
        })
    }

    async fn layers(&self, tops: &[Vdev], uberblock: &Uberblock) -> Result<Layers, OpenError> {
        let tree = Tree::open(self.rt, tops, self.devices).map_err(|error| self.tree(error))?;
        tree.set_reflow(uberblock.raidz_reflow());
        let tree = Rc::new(tree);
        let zio = Rc::new(Zio::new(self.rt, Rc::clone(&tree)));
        let below: Rc<dyn ReadBlocks> = Rc::clone(&zio) as _;
        let arc = Rc::new(Arc::new(self.rt, below, self.options.arc));
        let blocks: Rc<dyn ReadBlocks> = Rc::clone(&arc) as _;
        let mos = Objset::open(self.rt, &blocks, 0, &uberblock.root, None).await;
        let mos = mos.map_err(|error| self.zfs(error))?;
        Ok(Layers { tree, zio, arc, mos })
    }

    /// Reads the mappings of removed vdevs, the one that was removed last first: a mapping's own blocks lie on vdevs that
    /// were removed later, if on any.
    async fn open_removed(&self, layers: &Layers) -> Result<(), OpenError> {
        let removed = layers.tree.unmapped();
        // Nobody names the newest as the one before it.
        let is_before =
            |id: u32| removed.iter().any(|(_, other)| other.previous == Some(id.into()));
        let mut next = removed.iter().map(|(id, _)| *id).find(|id| !is_before(*id));
        for _ in 0..removed.len() {
            let Some(id) = next else { break };
            let Some((_, indirect)) = removed.iter().find(|(known, _)| *known == id) else { break };
            next = indirect.previous.and_then(|id| u32::try_from(id).ok());
            let entries = mapping(&layers.mos, indirect.mapping).await;
            let entries = entries.map_err(|error| self.zfs(error))?;
            layers.tree.set_indirect(id, &entries).map_err(|error| self.tree(error))?;
        }
        Ok(())
    }
}

/// The mapping of a removed vdev.
pub(crate) async fn mapping(mos: &Objset, number: u64) -> Result<Vec<MappingEntry>, ZfsError> {
    let object = mos.dnode(number).await?;
    let wrong = |error| object.wrong(error);
    let header = Mapping::from_bonus(&object.phys().bonus, object.endian()).map_err(wrong)?;
    if header.entries > MAPPING_ENTRIES_MAX {
        let (what, limit) = ("entries of a mapping", MAPPING_ENTRIES_MAX);
        return Err(object.problem(Problem::Limit { what, limit }));
    }
    let len = header.entries as usize * MappingEntry::BYTES;
    let bytes = object.read(0, len).await?.to_vec();
    let mut from = Reader::new(MappingEntry::NAME, &bytes, object.endian());
    (0..header.entries).map(|_| from.get("entry")).collect::<Result<_, _>>().map_err(wrong)
}

/// Which transaction groups a leaf misses: its dirty time log, a space map of groups.
pub(super) async fn missing(mos: &Objset, number: u64) -> Result<RangeSet, ZfsError> {
    let mut missing = RangeSet::default();
    each_stretch(mos, number, 0, |Stretch { change, offset, len, .. }| {
        let txgs = offset..offset.saturating_add(len);
        match change {
            Change::Allocate => missing.insert(txgs),
            Change::Free => missing.remove(txgs),
        };
    })
    .await?;
    Ok(missing)
}

impl Layers {
    async fn directory(&self) -> Result<Zap, ZfsError> {
        Zap::open(self.mos.dnode(pool_directory::OBJECT).await?).await
    }
}

/// The packed list that an object of the MOS holds.
///
/// # Errors
/// The object can't be had, or holds none.
#[boxed(?Send)]
pub async fn packed_list(mos: &Objset, number: u64) -> Result<NvList, ZfsError> {
    let object = mos.dnode(number).await?;
    let wrong = |error| object.wrong(error);
    let bonus = &object.phys().bonus;
    let size = Reader::new("packed nvlist", bonus, object.endian()).u64("size").map_err(wrong)?;
    let size = size.min(CONFIG_BYTES_MAX).min(object.capacity());
    let bytes = object.read(0, size as usize).await?.to_vec();
    NvList::decode(&bytes).map(|(list, _, _)| list).map_err(wrong)
}

async fn config(mos: &Objset, directory: &Zap) -> Result<NvList, ZfsError> {
    packed_list(mos, directory.needed(pool_directory::CONFIG).await?).await
}

async fn vdevs(mos: &Objset, config: &NvList) -> Result<Vdev, ZfsError> {
    let wrong = |error| ZfsError::Format { objset: 0, object: pool_directory::OBJECT, error };
    let list = config.list("vdev_tree").map_err(wrong)?;
    let missing = || mos.wrong(pool_directory::OBJECT, Problem::NoEntry("vdev_tree"));
    Vdev::from_list(list.ok_or_else(missing)?).map_err(wrong)
}
