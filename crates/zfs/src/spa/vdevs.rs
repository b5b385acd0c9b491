//! What new vdevs need in the MOS: of a top-level vdev its objects, of spares and cache devices their lists.
//!
//! ```text
//!   top-level   array of its metaslabs' maps; tables of its own and of its leaves, in the pool's table of all such;
//!               what its space is for, in its table
//!   spares      a packed list of leaves, which the pool's directory names; so of cache devices
//! ```
//!
//! Source: OpenZFS, `vdev.c` (`vdev_metaslab_set_size`, `vdev_construct_zaps`), `spa.c` (`spa_sync_aux_dev`).

use super::commit::{enter, write_packed};
use super::open::packed_list;
use crate::dmu::NewObject;
use crate::dsl::make::{Fresh, METADATA_TABLE, Maker};
use crate::error::ZfsError;
use crate::zap::{Zap, table};
use rt::DeviceRef;
use std::collections::BTreeMap;
use zfs_format::nvlist::{NvList, Text, Value};
use zfs_format::object_type::ObjectType;
use zfs_format::pool_directory;
use zfs_format::vdev::{Vdev, VdevKind};
use zfs_store::alloc::Class;
use zfs_store::label::apart::{self, ApartError};
use zfs_store::vdev::draid::SPARE_NUMBER;

/// Bytes of the blocks of a packed list.
const LIST_BLOCK_BYTES: u64 = 16 << 10;
/// The feature that vdevs for metadata use, by its short name.
pub(super) const CLASSES: &str = "allocation_classes";

/// A kind of devices that stand in no tree.
pub(super) struct Auxiliary {
    /// What the pool's directory calls their list.
    entry: &'static str,
    /// What the list calls them.
    name: &'static str,
    /// The state that their labels have.
    state: u64,
}

/// Spares.
pub(super) const SPARES: Auxiliary =
    Auxiliary { entry: pool_directory::SPARES, name: "spares", state: 3 };
/// Cache devices.
pub(super) const CACHE: Auxiliary =
    Auxiliary { entry: pool_directory::L2CACHE, name: "l2cache", state: 4 };

/// Bytes of a metaslab of a vdev of so many bytes, as a power of two.
pub(super) fn metaslab_shift(asize: u64) -> u64 {
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

/// A top-level vdev and its leaves are of this transaction group.
pub(super) fn made_in(top: &mut Vdev, txg: u64) {
    top.create_txg = Some(txg);
    fn leaves(vdev: &mut Vdev, txg: u64) {
        if vdev.is_leaf() {
            vdev.create_txg = Some(txg);
        }
        vdev.children.iter_mut().for_each(|child| leaves(child, txg));
    }
    leaves(top, txg);
}

/// How many of these vdevs use the feature of classes.
pub(super) fn classes_used(tops: &[Vdev]) -> u64 {
    let used = tops.iter().filter(|top| matches!(Class::of(top), Class::Special | Class::Dedup));
    used.count() as u64
}

/// The feature that dRAIDs use, by its short name.
pub(super) const DRAID: &str = "draid";
/// Its name on disk.
pub(super) const DRAID_ON_DISK: &str = "org.openzfs:draid";

/// How many of these vdevs are dRAIDs.
pub(super) fn draids(tops: &[Vdev]) -> u64 {
    tops.iter().filter(|top| matches!(top.kind, VdevKind::Draid(_))).count() as u64
}

/// The spare space of these dRAIDs, as spares of the pool: leaves without devices.
pub(super) fn spare_space(tops: &[Vdev], fresh: &dyn Fresh) -> Vec<Vdev> {
    let of = |top: &Vdev| {
        let VdevKind::Draid(draid) = &top.kind else { return Vec::new() };
        let spare = |number: u64| {
            let mut spare = Vdev::new(VdevKind::DraidSpare, number, fresh.number());
            let path = format!("draid{}-{}-{number}", draid.parity, top.id);
            spare.path = Some(Text::from(path.as_str()));
            spare.ashift = top.ashift;
            let numbers = [("whole_disk", 1), ("top_guid", top.guid), (SPARE_NUMBER, number)];
            let numbers = numbers.map(|(name, value)| (Text::from(name), Value::Uint64(value)));
            spare.other.extend(numbers);
            spare
        };
        (0..draid.spares).map(spare).collect::<Vec<_>>()
    };
    tops.iter().flat_map(of).collect()
}

/// Makes the objects of a top-level vdev, which says then where they are; with tables of its own where the pool has a table of such.
///
/// # Errors
/// What is needed can't be had.
pub(super) async fn make_objects(
    maker: &Maker<'_>,
    top: &mut Vdev,
    tables: Option<u64>,
) -> Result<(), ZfsError> {
    let mos = maker.mos;
    let array = mos.make(&NewObject::of(ObjectType::OBJECT_ARRAY, 512)).await?;
    top.metaslab_array = Some(array.number());
    let Some(tables) = tables else { return Ok(()) };
    let mut owners: Vec<(u64, &'static str)> = vec![(top.guid, "com.delphix:vdev_zap_top")];
    owners.extend(top.leaves().iter().map(|leaf| (leaf.guid, "com.delphix:vdev_zap_leaf")));
    for (guid, name) in owners {
        let own = maker.table(METADATA_TABLE).await?;
        maker.add_to_set(tables, own.number()).await?;
        set_other(top, guid, name, own.number());
    }
    if let Some(bias) = top.allocation_bias.as_ref().and_then(|bias| bias.as_str()) {
        let own = mos.dnode(top.other_number("com.delphix:vdev_zap_top").unwrap_or(0)).await?;
        table::set(mos, &own, pool_directory::top_vdev::ALLOCATION_BIAS, table::text(bias)).await?;
    }
    Ok(())
}

/// A number among the other names of a vdev at or below one.
fn set_other(vdev: &mut Vdev, guid: u64, name: &str, number: u64) {
    if vdev.guid == guid {
        vdev.other.push((Text::from(name), Value::Uint64(number)));
    }
    vdev.children.iter_mut().for_each(|child| set_other(child, guid, name, number));
}

/// Puts devices into the list of their kind.
///
/// # Errors
/// What is needed can't be had.
pub(super) async fn add_auxiliary(
    maker: &Maker<'_>,
    of: &Auxiliary,
    new: &[Vdev],
) -> Result<(), ZfsError> {
    if new.is_empty() {
        return Ok(());
    }
    let mos = maker.mos;
    let directory = Zap::open(mos.dnode(pool_directory::OBJECT).await?).await?;
    let known = directory.number(of.entry).await?.filter(|number| *number != 0);
    let (object, mut list) = match known {
        Some(number) => (mos.dnode(number).await?, packed_list(mos, number).await?),
        None => {
            let made = NewObject::of(ObjectType::PACKED_NVLIST, LIST_BLOCK_BYTES)
                .with_bonus(ObjectType::PACKED_NVLIST_SIZE, vec![0; 8]);
            let made = mos.make(&made).await?;
            enter(mos, of.entry, made.number()).await?;
            (made, NvList::default())
        }
    };
    let wrong = |error| object.wrong(error);
    let mut all = list.lists(of.name).map_err(wrong)?.unwrap_or_default().to_vec();
    all.extend(new.iter().map(|device| listed(device, of)));
    list.set(of.name, Value::NvListArray(all));
    write_packed(mos, &object, &list).await
}

/// A device as the list of its kind has it: it has no number.
fn listed(device: &Vdev, of: &Auxiliary) -> NvList {
    let mut list = device.to_list();
    list.pairs.retain(|(name, _)| *name != *"id");
    if of.state == SPARES.state {
        list.set("is_spare", Value::Uint64(1));
    }
    list
}

/// Writes the labels of spares and cache devices of a pool of this version, in the place of whatever they had.
///
/// # Errors
/// One does not take them.
pub(super) async fn label_auxiliary(
    version: u64,
    spares: &[Vdev],
    cache: &[Vdev],
    devices: &BTreeMap<u64, DeviceRef>,
) -> Result<(), ApartError> {
    for (of, new) in [(&SPARES, spares), (&CACHE, cache)] {
        for vdev in new {
            let Some(device) = devices.get(&vdev.guid) else { continue };
            let mut list = NvList::default();
            list.set("version", Value::Uint64(version));
            list.set("state", Value::Uint64(of.state));
            list.set("guid", Value::Uint64(vdev.guid));
            if let Some(ashift) = vdev.ashift.filter(|_| of.state == CACHE.state) {
                list.set("ashift", Value::Uint64(ashift));
            }
            if let Some(path) = &vdev.path {
                list.set("path", Value::String(path.clone()));
            }
            apart::set(device, &list).await?;
        }
    }
    Ok(())
}
