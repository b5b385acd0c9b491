//! A pool made: labels, the MOS with its first objects, the root file system.
//!
//! ```text
//!   devices cleared of old labels ── group 4: MOS, datasets, space maps ── labels and uberblock
//! ```
//!
//! Until the first uberblock is on a device there is no pool; a creation that was cut is none, or whole.
//!
//! Source: OpenZFS, `spa.c` (`spa_create`), `dsl_pool.c` (`dsl_pool_create`), `vdev.c` (`vdev_metaslab_set_size`).

use super::commit::{CommitError, Syncer, enter};
use super::config::{LabelState, PoolConfig};
use super::datasets::{NewDataset, NoneOpen, Tasks};
use super::history::{Deed, note};
use super::maps::MapForm;
use crate::dmu::{NewObject, Objset, Policy, TxGroups, Txg};
use crate::dsl::make::{Fresh, Maker};
use crate::error::ZfsError;
use crate::zap::table;
use crate::zpl::make::new_root;
use rt::{DeviceRef, Rt};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use zfs_format::Endian;
use zfs_format::block_pointer::BlockPointer;
use zfs_format::features::Feature;
use zfs_format::nvlist::Value;
use zfs_format::object_type::{ByteSwap, ObjectType};
use zfs_format::objset::ObjsetKind;
use zfs_format::pool_directory;
use zfs_format::uberblock::VERSION_FEATURES;
use zfs_format::vdev::{Vdev, VdevKind};
use zfs_store::alloc::{Allocator, Class, Metaslabs};
use zfs_store::arc::{Arc, ArcOptions};
use zfs_store::{ReadBlocks, Tree, TreeError, Writer, Zio};

/// The transaction group of a pool's creation.
const TXG_FIRST: u64 = 4;
/// Bytes of changes before who changes waits; a creation changes less.
const DIRTY_BYTES_MAX: u64 = 1 << 30;
/// Bytes of the configuration's blocks.
const CONFIG_BLOCK_BYTES: u64 = 16 << 10;
/// Bytes of the blocks of the list of what waits to be freed.
const WAITING_BLOCK_BYTES: u64 = 16 << 10;
/// A table of the pool's own.
const METADATA_TABLE: ObjectType = ObjectType::new(ByteSwap::Zap, true, false);

/// The feature that tells since when others are enabled; told of in the table for writing.
const ENABLED_TXG: &str = "com.delphix:enabled_txg";

/// A pool that is to be made.
pub struct NewPool {
    /// Its name.
    pub name: String,
    /// Its vdevs: a root whose children have numbers, GUIDs, sectors and sizes. Metaslabs and tables are found here.
    pub root: Vdev,
    /// Features that are enabled, by their names on disk.
    pub features: Vec<&'static str>,
    /// How it is left: exported, where nobody goes on with it.
    pub state: LabelState,
    /// The host that makes it.
    pub host: Option<(u64, String)>,
    /// A remark.
    pub comment: Option<String>,
    /// Which features may be enabled: names of files.
    pub compatibility: Option<String>,
    /// The root directory's owner and group.
    pub owner: (u64, u64),
    /// Properties of the root file system as they are stored.
    pub properties: Vec<(String, zfs_format::zap::leaf::LeafValue)>,
}

/// Why a pool was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// Its vdevs can't be.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// It can't be written.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// A vdev is too small, or too large.
    #[error("vdev {0} is too small for a pool, or too large for its metaslabs")]
    Size(u64),
}

/// Bytes of a metaslab of a vdev of so many bytes, as a power of two.
pub fn metaslab_shift(asize: u64) -> u64 {
    const DEFAULT: u64 = 29;
    const LEAST: u64 = 24;
    const MOST: u64 = 34;
    const COUNT: u64 = 200;
    const COUNT_MIN: u64 = 16;
    const COUNT_LIMIT: u64 = 1 << 17;
    let high_bit = |number: u64| u64::from(u64::BITS - number.leading_zeros());
    let many = asize >> DEFAULT;
    let shift = match many {
        ..COUNT_MIN => high_bit(asize / COUNT_MIN),
        _ if many > COUNT => high_bit(asize / COUNT),
        _ => DEFAULT,
    };
    match shift {
        ..LEAST => LEAST,
        _ if shift > MOST && asize >> MOST > COUNT_LIMIT => high_bit(asize / COUNT_LIMIT),
        _ => shift.min(MOST),
    }
}

/// Makes a pool on these devices, by the GUIDs of the leaves. What was on them is lost.
///
/// # Errors
/// [`CreateError`]
pub async fn create(
    rt: &Rt,
    mut new: NewPool,
    devices: &BTreeMap<u64, DeviceRef>,
    fresh: &Rc<dyn Fresh>,
) -> Result<(), CreateError> {
    for top in &mut new.root.children {
        top.metaslab_shift = Some(metaslab_shift(top.asize.unwrap_or(0)));
        top.create_txg = Some(TXG_FIRST);
        each_leaf(top, &mut |leaf| leaf.create_txg = Some(TXG_FIRST));
    }
    let tree = Rc::new(Tree::open(rt, &new.root.children, devices)?);
    let mut allocator = Allocator::default();
    for top in &new.root.children {
        let slabs = Metaslabs::of(top).ok().flatten().filter(|slabs| !slabs.is_empty());
        let slabs = slabs.ok_or(CreateError::Size(top.id))?;
        allocator.add(top.id as u32, Class::of(top), slabs);
    }
    tree.clear_labels().await;
    let writer = Writer::new(rt, Rc::clone(&tree), allocator, None);
    let store: Rc<dyn ReadBlocks> = Rc::new(Zio::new(rt, tree));
    let blocks: Rc<dyn ReadBlocks> = Rc::new(Arc::new(rt, store, ArcOptions::default()));
    let groups = TxGroups::synced(Txg(TXG_FIRST - 1), DIRTY_BYTES_MAX);
    let mos = Objset::of(rt, &blocks, 0, new_root(ObjsetKind::Meta), Endian::Little, None);
    let has = |guid: &str| new.features.contains(&guid);
    let named = |name: &str| Feature::named(name).is_some_and(|feature| has(feature.guid));
    let policy = Policy::of_mos(&writer, named);
    let used = |guid: &&&'static str| {
        Feature::find(guid)
            .is_some_and(|f| !f.is_read_only_compatible() && f.is_active_when_enabled())
    };
    let config = PoolConfig {
        name: new.name.clone(),
        guid: new.root.guid,
        state: new.state,
        host: new.host.clone(),
        comment: new.comment.clone(),
        compatibility: new.compatibility.clone(),
        root: new.root.clone(),
        features_for_read: new
            .features
            .iter()
            .filter(|guid| used(guid) && Feature::find(guid).is_some_and(Feature::is_for_mos))
            .map(ToString::to_string)
            .collect(),
    };
    let clock = Rc::clone(fresh);
    let now: Rc<dyn Fn() -> u64> = Rc::new(move || clock.now());
    let syncer = Syncer::new(writer, groups, mos, BlockPointer::HOLE, policy, config, now);
    syncer.set_map_form(MapForm { long_entries: has("com.delphix:spacemap_v2"), histogram: false });
    let work = First { rt, new: &new, blocks: &blocks, fresh: &**fresh };
    syncer.sync(|| (), async |syncer, txg| work.make(syncer, txg).await).await?;
    Ok(())
}

fn each_leaf(vdev: &mut Vdev, how: &mut impl FnMut(&mut Vdev)) {
    if vdev.is_leaf() {
        how(vdev);
    }
    vdev.children.iter_mut().for_each(|child| each_leaf(child, how));
}

/// What the first group makes.
struct First<'a> {
    rt: &'a Rt,
    new: &'a NewPool,
    blocks: &'a Rc<dyn ReadBlocks>,
    fresh: &'a dyn Fresh,
}

impl First<'_> {
    async fn make(&self, syncer: &Syncer, txg: u64) -> Result<(), ZfsError> {
        let mos = syncer.mos();
        let has = |guid: &str| self.new.features.contains(&guid);
        let counts_freed = has("com.delphix:livelist");
        let maker = Maker { mos, fresh: self.fresh, txg, counts_freed };
        let directory = table::new(ObjectType::OBJECT_DIRECTORY, self.fresh.number());
        mos.claim(pool_directory::OBJECT, &directory).await?;
        let config = NewObject::of(ObjectType::PACKED_NVLIST, CONFIG_BLOCK_BYTES)
            .with_bonus(ObjectType::PACKED_NVLIST_SIZE, vec![0; 8]);
        let config = mos.make(&config).await?;
        enter(mos, pool_directory::CONFIG, config.number()).await?;
        enter(mos, pool_directory::CREATION_VERSION, VERSION_FEATURES).await?;
        enter(mos, pool_directory::DEFLATE, 1).await?;
        let waiting = maker.bpobj(WAITING_BLOCK_BYTES).await?;
        enter(mos, pool_directory::SYNC_BPOBJ, waiting.number()).await?;
        self.features(&maker, txg).await?;
        self.vdevs(&maker, syncer).await?;
        self.datasets(&maker, syncer).await
    }

    /// Features: enabled ones stand in one of two tables with how often they are in use, and in one with a word about them.
    async fn features(&self, maker: &Maker<'_>, txg: u64) -> Result<(), ZfsError> {
        let mos = maker.mos;
        let mut tables = Vec::new();
        for name in [
            pool_directory::FEATURES_FOR_READ,
            pool_directory::FEATURES_FOR_WRITE,
            pool_directory::FEATURE_DESCRIPTIONS,
        ] {
            let made = maker.table(METADATA_TABLE).await?;
            enter(mos, name, made.number()).await?;
            tables.push(made);
        }
        // Since when a feature is enabled is told of those that were enabled after this one, itself with them.
        let mut since = None;
        let mut told = 0;
        for guid in &self.new.features {
            let Some(feature) = Feature::find(guid) else { continue };
            if feature.guid == ENABLED_TXG {
                let made = maker.table(METADATA_TABLE).await?;
                enter(mos, pool_directory::FEATURE_ENABLED_TXG, made.number()).await?;
                since = Some(made);
            }
            let place = &tables[usize::from(feature.is_read_only_compatible())];
            let uses = u64::from(feature.is_active_when_enabled());
            table::set(mos, place, guid, table::number(uses)).await?;
            table::set(mos, &tables[2], guid, table::text(feature.name)).await?;
            if let Some(since) = &since {
                told += 1;
                table::set(mos, since, guid, table::number(txg)).await?;
            }
        }
        match since {
            Some(_) => table::set(mos, &tables[1], ENABLED_TXG, table::number(told)).await,
            None => Ok(()),
        }
    }

    /// Each vdev's own tables, and the arrays of metaslabs' maps.
    async fn vdevs(&self, maker: &Maker<'_>, syncer: &Syncer) -> Result<(), ZfsError> {
        let mos = maker.mos;
        let all = maker.table(METADATA_TABLE).await?;
        enter(mos, pool_directory::VDEV_ZAP_MAP, all.number()).await?;
        let mut root = self.new.root.clone();
        for top in &mut root.children {
            let array = mos.make(&NewObject::of(ObjectType::OBJECT_ARRAY, 512)).await?;
            top.metaslab_array = Some(array.number());
            let mut owners: Vec<(u64, &'static str)> = vec![(top.guid, "com.delphix:vdev_zap_top")];
            owners.extend(top.leaves().iter().map(|leaf| (leaf.guid, "com.delphix:vdev_zap_leaf")));
            for (guid, name) in owners {
                let own = maker.table(METADATA_TABLE).await?;
                maker.add_to_set(all.number(), own.number()).await?;
                set_other(top, guid, name, own.number());
            }
            if let Some(bias) = top.allocation_bias.as_ref().and_then(|bias| bias.as_str()) {
                let zap = top.other_number("com.delphix:vdev_zap_top").unwrap_or(0);
                let zap = mos.dnode(zap).await?;
                let name = pool_directory::top_vdev::ALLOCATION_BIAS;
                table::set(mos, &zap, name, table::text(bias)).await?;
            }
        }
        syncer.change_config(|config| config.root = root);
        Ok(())
    }

    /// The tree of names: root, the pool's own space, what is being freed, the origin; and the root file system.
    async fn datasets(&self, maker: &Maker<'_>, syncer: &Syncer) -> Result<(), ZfsError> {
        let mos = maker.mos;
        let root = maker.directory(None, "").await?;
        enter(mos, pool_directory::ROOT_DATASET, root.number()).await?;
        maker.directory(Some(&root), "$MOS").await?;
        maker.directory(Some(&root), "$FREE").await?;
        let free = maker.long_bpobj().await?;
        enter(mos, pool_directory::FREE_BPOBJ, free.number()).await?;
        let origin = maker.origin(&root, "$ORIGIN").await?;
        let new = NewDataset {
            name: String::new(),
            owner: self.new.owner,
            properties: self.new.properties.clone(),
        };
        let (rt, blocks, open) = (self.rt, self.blocks, &NoneOpen);
        let tasks = Tasks { maker, syncer, rt, blocks, open, properties_changed: Cell::default() };
        tasks.file_system(&root, &origin, &new).await?;
        let text = format!("pool version {VERSION_FEATURES}; software version spindle");
        let deed = Deed::Inside { name: "create", dataset: None, text: &text };
        note(maker, syncer, deed).await?;
        match self.fresh.command() {
            Some(command) => note(maker, syncer, Deed::Command(&command)).await,
            None => Ok(()),
        }
    }
}

/// A number among the other names of a vdev at or below one.
fn set_other(vdev: &mut Vdev, guid: u64, name: &str, number: u64) {
    if vdev.guid == guid {
        vdev.other.push((zfs_format::nvlist::Text::from(name), Value::Uint64(number)));
    }
    vdev.children.iter_mut().for_each(|child| set_other(child, guid, name, number));
}

/// A root over these top-level vdevs.
pub fn root_of(guid: u64, children: Vec<Vdev>) -> Vdev {
    Vdev { children, ..Vdev::new(VdevKind::Root, 0, guid) }
}
