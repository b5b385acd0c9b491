//! Vdevs added to a pool that is open for writing, spares and cache devices among them.
//!
//! ```text
//!   old labels of the new devices cleared; labels of spares and cache devices
//!     ── one group: objects of the vdevs, the configuration, the lists ── its commit labels the new devices and the old
//!       ── space of the new vdevs is allocated from the next group on
//! ```
//!
//! **Cut at any write** the pool is as before or as after: until the group's uberblock is there, the MOS has the old configuration, which
//! counts, whatever labels say of a vdev more. The new devices are lost to whoever had them from the first write on.
//!
//! The group's commit writes to all devices, the new ones too, so that each can lead to the pool. No block of it lies on
//! them: an older uberblock that an import falls back to needs the old devices alone.
//!
//! Source: OpenZFS, `spa.c` (`spa_vdev_add`).

use super::events::Happening;
use super::live::{Live, LiveError};
use super::vdevs::{self, CACHE, CLASSES, DRAID, DRAID_ON_DISK, SPARES, metaslab_shift};
use crate::zap::Zap;
use async_recursion::async_recursion as boxed;
use rt::DeviceRef;
use std::collections::BTreeMap;
use zfs_format::pool_directory;
use zfs_format::vdev::{Vdev, VdevKind};
use zfs_store::TreeError;
use zfs_store::alloc::{Class, Metaslabs};
use zfs_store::label::apart::{self, ApartError};

/// What is added.
#[derive(Clone, Debug, Default)]
pub struct NewVdevs {
    /// Top-level vdevs, with GUIDs, sectors and sizes; their numbers are found here.
    pub tops: Vec<Vdev>,
    /// Spares: leaves.
    pub spares: Vec<Vdev>,
    /// Cache devices: leaves.
    pub cache: Vec<Vdev>,
}

/// Why nothing was added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddError {
    /// A device does not take labels.
    #[error(transparent)]
    Label(#[from] ApartError),
    /// The vdevs can't be.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// A vdev is too small, or too large.
    #[error("device is less than the minimum size (64M), or too large for its metaslabs")]
    Size,
    /// The pool lacks the feature that a vdev of this class needs.
    #[error(
        "a special or dedup vdev needs feature@allocation_classes, which the pool does not have enabled"
    )]
    Classes,
    /// The pool lacks the feature that a dRAID needs.
    #[error("a draid vdev needs feature@draid, which the pool does not have enabled")]
    Draid,
    /// Where a vdev was removed no raidz and no dRAID comes, in OpenZFS's words.
    #[error(
        "invalid config; a pool with removing/removed vdevs does not support adding raidz or dRAID vdevs"
    )]
    Removed,
    /// The pool can't be written.
    #[error(transparent)]
    Live(#[from] LiveError),
}

impl Live {
    /// Adds vdevs, on these devices by the GUIDs of their leaves. What was on them is lost.
    ///
    /// # Errors
    /// Nothing was added; where the pool can't be written, it is stopped.
    #[boxed(?Send)]
    pub async fn add(
        &self,
        new: NewVdevs,
        devices: &BTreeMap<u64, DeviceRef>,
    ) -> Result<(), AddError> {
        let one = self.alone().await;
        let NewVdevs { mut tops, mut spares, cache } = new;
        let known = self.syncer().config().root.children;
        // A number that none has any more is given to nobody: logs of space maps may speak of who had it.
        let first = known.len() as u64;
        for (top, id) in tops.iter_mut().zip(first..) {
            top.id = id;
            top.metaslab_shift = Some(metaslab_shift(top.asize.unwrap_or(0)));
            metaslabs(top)?;
        }
        let (uses, draids) = (vdevs::classes_used(&tops), vdevs::draids(&tops));
        if uses > 0 && !self.spa().has_feature(CLASSES_ON_DISK) {
            return Err(AddError::Classes);
        }
        if draids > 0 && !self.spa().has_feature(DRAID_ON_DISK) {
            return Err(AddError::Draid);
        }
        let is_striped = |top: &Vdev| matches!(top.kind, VdevKind::Raidz(_) | VdevKind::Draid(_));
        if known.iter().any(|top| matches!(top.kind, VdevKind::Indirect(_)))
            && tops.iter().any(is_striped)
        {
            return Err(AddError::Removed);
        }
        spares.extend(vdevs::spare_space(&tops, self.fresh()));
        for leaf in tops.iter().flat_map(Vdev::leaves) {
            if let Some(device) = devices.get(&leaf.guid) {
                apart::clear(device).await?;
            }
        }
        let version = self.syncer().config().version;
        vdevs::label_auxiliary(version, &spares, &cache, devices).await?;
        let tree = self.syncer().writer().tree();
        for (done, top) in tops.iter().enumerate() {
            if let Err(error) = tree.set_top(top, devices) {
                tops[..done].iter().for_each(|top| tree.remove_top(top.id as u32));
                return Err(error.into());
            }
        }
        let written = self.sync_alone(&one, async |maker| {
            let mut tops = tops.clone();
            let directory = Zap::open(self.syncer().directory().await?).await?;
            let tables = directory.number(pool_directory::VDEV_ZAP_MAP).await?;
            for top in &mut tops {
                vdevs::made_in(top, maker.txg);
                vdevs::make_objects(maker, top, tables).await?;
            }
            for (of, new) in [(&SPARES, &spares), (&CACHE, &cache)] {
                vdevs::add_auxiliary(maker, of, new).await?;
            }
            if uses > 0 {
                maker.count_use(CLASSES, uses as i64).await?;
            }
            if draids > 0 {
                maker.count_use(DRAID, draids as i64).await?;
            }
            self.syncer().change_config(|config| config.root.children.extend(tops));
            Ok(())
        });
        written.await?;
        self.syncer().told().tell(&Happening::VdevAdd);
        for top in &tops {
            let slabs = metaslabs(top)?;
            self.syncer().writer().space(|space| space.add(top.id as u32, Class::of(top), slabs));
        }
        // Blocks may be stored otherwise: small ones on a special vdev.
        Ok(self.follow_pool().await.map_err(LiveError::from)?)
    }
}

/// The name on disk of the feature that classes need.
const CLASSES_ON_DISK: &str = "org.zfsonlinux:allocation_classes";

/// The metaslabs of a vdev that is new.
fn metaslabs(top: &Vdev) -> Result<Metaslabs, AddError> {
    let slabs = Metaslabs::of(top).ok().flatten();
    slabs.filter(|slabs| !slabs.is_empty()).ok_or(AddError::Size)
}
