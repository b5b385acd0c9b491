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
use super::datasets::limits::{NAME_BYTES_MAX, check_properties};
use super::datasets::{NewDataset, NoneOpen, TaskError, Tasks};
use super::enable::make_tables;
use super::freeing::Freeing;
use super::history::{Deed, note};
use super::maps::{BLOCK_BYTES, BLOCK_BYTES_LOGGED, MapForm};
use super::vdevs::{self, CACHE, DRAID_ON_DISK, SPARES, metaslab_shift};
use crate::dmu::{NewObject, Objset, Policy, TxGroups, Txg};
use crate::dsl::make::{Fresh, METADATA_TABLE, Maker};
use crate::error::ZfsError;
use crate::zap::table;
use crate::zpl::make::new_root;
use crate::zpl::name_rules::NameRules;
use async_recursion::async_recursion as boxed;
use rt::{DeviceRef, Rt};
use std::collections::BTreeMap;
use std::rc::Rc;
use zfs_format::Endian;
use zfs_format::block_pointer::BlockPointer;
use zfs_format::features::Feature;
use zfs_format::object_type::ObjectType;
use zfs_format::objset::ObjsetKind;
use zfs_format::pool_directory;
use zfs_format::uberblock::VERSION_FEATURES;
use zfs_format::vdev::{Vdev, VdevKind};
use zfs_store::alloc::{Allocator, Class, Metaslabs};
use zfs_store::arc::{Arc, ArcOptions};
use zfs_store::label::apart::ApartError;
use zfs_store::{ReadBlocks, Tree, TreeError, Writer, Zio};

/// The transaction group of a pool's creation.
const TXG_FIRST: u64 = 4;
/// Bytes of changes before who changes waits; a creation changes less.
const DIRTY_BYTES_MAX: u64 = 1 << 30;
/// Bytes of the configuration's blocks.
const CONFIG_BLOCK_BYTES: u64 = 16 << 10;
/// Bytes of the blocks of the list of what waits to be freed.
const WAITING_BLOCK_BYTES: u64 = 16 << 10;

/// The name of the directory of the empty snapshot that all begin as.
const ORIGIN: &str = "$ORIGIN";
/// Bytes of a pool's name: `NAME/$ORIGIN@$ORIGIN` is a snapshot's name (OpenZFS, `zfs_namecheck.c`, `pool_namecheck`).
pub const POOL_NAME_BYTES_MAX: usize = NAME_BYTES_MAX - 2 - 2 * ORIGIN.len();

/// The feature that tells since when others are enabled; told of in the table for writing.
const ENABLED_TXG: &str = "com.delphix:enabled_txg";

/// A pool that is to be made.
pub struct NewPool {
    /// Its name.
    pub name: String,
    /// Its vdevs: a root whose children have numbers, GUIDs, sectors and sizes. Metaslabs and tables are found here.
    pub root: Vdev,
    /// Spares: leaves.
    pub spares: Vec<Vdev>,
    /// Cache devices: leaves.
    pub cache: Vec<Vdev>,
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
    /// Other properties of the pool, as they are stored.
    pub settings: Vec<(String, zfs_format::zap::leaf::LeafValue)>,
    /// The root directory's owner and group.
    pub owner: (u64, u64),
    /// Properties of the root file system as they are stored.
    pub properties: Vec<(String, zfs_format::zap::leaf::LeafValue)>,
}

/// Why a pool was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// Its name is longer than names of pools are.
    #[error("name is too long")]
    NameLong,
    /// A property of its root file system can't be.
    #[error(transparent)]
    Property(TaskError),
    /// Its vdevs can't be.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// It can't be written.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// A vdev is too small, or too large.
    #[error("vdev {0} is too small for a pool, or too large for its metaslabs")]
    Size(u64),
    /// It is to be without the feature that a dRAID needs.
    #[error("a draid vdev needs feature@draid, which the pool would not have enabled")]
    Draid,
    /// A spare or cache device does not take its label.
    #[error(transparent)]
    Label(#[from] ApartError),
}

/// Makes a pool on these devices, by the GUIDs of the leaves. What was on them is lost.
///
/// # Errors
/// [`CreateError`]
#[boxed(?Send)]
pub async fn create(
    rt: &Rt,
    mut new: NewPool,
    devices: &BTreeMap<u64, DeviceRef>,
    fresh: &Rc<dyn Fresh>,
) -> Result<(), CreateError> {
    if new.name.len() > POOL_NAME_BYTES_MAX {
        return Err(CreateError::NameLong);
    }
    check_properties(&new.properties).map_err(CreateError::Property)?;
    if vdevs::draids(&new.root.children) > 0 && !new.features.contains(&DRAID_ON_DISK) {
        return Err(CreateError::Draid);
    }
    new.spares.extend(vdevs::spare_space(&new.root.children, &**fresh));
    for top in &mut new.root.children {
        top.metaslab_shift = Some(metaslab_shift(top.asize.unwrap_or(0)));
        vdevs::made_in(top, TXG_FIRST);
    }
    let tree = Rc::new(Tree::open(rt, &new.root.children, devices)?);
    let mut allocator = Allocator::default();
    for top in &new.root.children {
        let slabs = Metaslabs::of(top).ok().flatten().filter(|slabs| !slabs.is_empty());
        let slabs = slabs.ok_or(CreateError::Size(top.id))?;
        allocator.add(top.id as u32, Class::of(top), slabs);
    }
    tree.clear_labels().await;
    vdevs::label_auxiliary(VERSION_FEATURES, &new.spares, &new.cache, devices).await?;
    let writer = Writer::new(rt, Rc::clone(&tree), allocator, None);
    let store: Rc<dyn ReadBlocks> = Rc::new(Zio::new(rt, Rc::clone(&tree)));
    let blocks: Rc<dyn ReadBlocks> = Rc::new(Arc::new(rt, store, ArcOptions::default()));
    let suspension = tree.suspension();
    let groups = TxGroups::synced(rt, Txg(TXG_FIRST - 1), DIRTY_BYTES_MAX, suspension);
    let mos = Objset::of(rt, &blocks, 0, new_root(ObjsetKind::Meta), Endian::Little, None);
    let has = |guid: &str| new.features.contains(&guid);
    let named = |name: &str| Feature::named(name).is_some_and(|feature| has(feature.guid));
    let policy = Policy::of_mos(&writer, named);
    let used = |guid: &&&'static str| {
        Feature::find(guid)
            .is_some_and(|f| !f.is_read_only_compatible() && f.is_active_when_enabled())
    };
    let config = PoolConfig {
        version: VERSION_FEATURES,
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
    let syncer = Syncer::new(writer, groups, mos, BlockPointer::HOLE, policy, config, fresh);
    let is_logged = has("com.delphix:log_spacemap");
    syncer.set_map_form(MapForm {
        long_entries: has("com.delphix:spacemap_v2"),
        block_bytes: if is_logged { BLOCK_BYTES_LOGGED } else { BLOCK_BYTES },
    });
    let work = First { rt, new: &new, blocks: &blocks, fresh: &**fresh };
    syncer.sync(|| (), async |syncer, txg| work.make(syncer, txg).await).await?;
    Ok(())
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
        if !self.new.settings.is_empty() {
            let made = maker.table(ObjectType::POOL_PROPS).await?;
            enter(mos, pool_directory::PROPERTIES, made.number()).await?;
            for (name, value) in &self.new.settings {
                table::set(mos, &made, name, value.clone()).await?;
            }
        }
        self.features(&maker, txg).await?;
        self.vdevs(&maker, syncer).await?;
        self.datasets(&maker, syncer).await
    }

    /// Features: enabled ones stand in one of two tables with how often they are in use, and in one with a word about them.
    async fn features(&self, maker: &Maker<'_>, txg: u64) -> Result<(), ZfsError> {
        let mos = maker.mos;
        let tables = make_tables(maker).await?;
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
            let uses = match feature.name {
                vdevs::CLASSES => vdevs::classes_used(&self.new.root.children),
                vdevs::DRAID => vdevs::draids(&self.new.root.children),
                _ => u64::from(feature.is_active_when_enabled()),
            };
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
        let zaps = Some(all.number());
        for top in &mut root.children {
            vdevs::make_objects(maker, top, zaps).await?;
        }
        for (of, new) in [(&SPARES, &self.new.spares), (&CACHE, &self.new.cache)] {
            vdevs::add_auxiliary(maker, of, new).await?;
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
        let origin = maker.origin(&root, ORIGIN).await?;
        let new = NewDataset {
            name: String::new(),
            owner: self.new.owner,
            properties: self.new.properties.clone(),
        };
        let (rt, blocks, open) = (self.rt, self.blocks, &NoneOpen);
        let (settings_changed, names) = Default::default();
        let freeing = &Freeing::default();
        let tasks = Tasks { maker, syncer, rt, blocks, open, freeing, settings_changed, names };
        tasks.file_system(&root, &origin, NameRules::default(), &new).await?;
        let text = format!("pool version {VERSION_FEATURES}; software version spindle");
        let deed = Deed::Inside { name: "create", dataset: None, text: &text };
        note(maker, syncer, deed).await?;
        match self.fresh.command() {
            Some(command) => note(maker, syncer, Deed::Command(&command)).await,
            None => Ok(()),
        }
    }
}

/// A root over these top-level vdevs.
pub fn root_of(guid: u64, children: Vec<Vdev>) -> Vdev {
    Vdev { children, ..Vdev::new(VdevKind::Root, 0, guid) }
}
