//! What of removed vdevs nobody names any more, written down.
//!
//! ```text
//!   com.delphix:indirect_obsolete_sm   a space map of the removed vdev: its unit is a byte,              (each vdev's own table)
//!                                      what is obsolete is allocated in it
//!   com.delphix:obsolete_bpobj         a list of places that become so, a part in each group             (the pool's directory)
//! ```
//!
//! What a free on a removed vdev is, and what it says, stands in [`zfs_store::write`]. Here a group's sayings go behind the vdev's map,
//! which is made when there is first something to say. Each such object is a use of the feature `obsolete_counts`; where that is
//! not enabled nothing is said, as in OpenZFS, and mappings stay as long as they are.
//!
//! **The list** is filled when a snapshot goes ([`moved_off`](crate::dsl::moved_off)); each group takes from its end what
//! [`freeing`](super::freeing) leaves, and where nothing is left the list goes.
//!
//! **The crash argument.** A range becomes obsolete in the group in which its block is freed, or its place leaves the list: all of it is
//! in the MOS of that group or in none.
//!
//! **A checkpoint** has its own MOS, with maps of its time; what is freed since is obsolete all the same, and its bytes are kept where they
//! lie ([`kept`](super::kept)).
//!
//! **What is left to OpenZFS**: mappings are not condensed. One that is being condensed was begun from a map that is in the vdev's
//! table no more, so what is said meanwhile goes into another, as there. A removal that is under way moves what is
//! written meanwhile; such a pool is only read.
//!
//! Source: OpenZFS, `vdev_indirect.c` (`vdev_indirect_sync_obsolete`), `dsl_scan.c` (`dsl_process_async_destroys`), `zdb.c`
//! (`verify_device_removal_feature_counts`).

use super::kept::table_of;
use super::maps::{self, MapForm, MapPlace};
use super::open::Spa;
use crate::dmu::Objset;
use crate::dsl::features;
use crate::dsl::make::Maker;
use crate::dsl::moved_off::FEATURE;
use crate::error::ZfsError;
use crate::zap::{Zap, table};
use zfs_format::block_pointer::BlockPointer;
use zfs_format::pool_directory::{self, top_vdev};
use zfs_format::vdev::Vdev;
use zfs_format::vdev::indirect::Removal;
use zfs_format::wire::Record;
use zfs_store::Writer;
use zfs_store::alloc::Changes;

/// Bytes of the blocks of a vdev's map, as OpenZFS has them.
const BLOCK_BYTES: u64 = 128 << 10;
/// Its entries have bytes for a unit, from the vdev's start on.
const PLACE: MapPlace = MapPlace { start: 0, unit: 0 };

/// Whether a vdev of the pool is being removed.
///
/// # Errors
/// The pool's directory can't be had, or says something else.
pub(super) async fn is_removing(spa: &Spa) -> Result<bool, ZfsError> {
    const SCANNING: u64 = 1;
    let directory = Zap::open(spa.mos().dnode(pool_directory::OBJECT).await?).await?;
    let Some(value) = directory.get(pool_directory::REMOVING.as_bytes()).await? else {
        return Ok(false);
    };
    let removal = Removal::from_numbers(&value.numbers);
    removal.map(|removal| removal.state == SCANNING).map_err(|error| directory.dnode().wrong(error))
}

/// Writes down what became obsolete in the group that syncs.
///
/// # Errors
/// What is needed can't be had.
pub(super) async fn write(
    mos: &Objset,
    writer: &Writer,
    tops: &[Vdev],
    form: MapForm,
    group: (u64, u16),
) -> Result<(), ZfsError> {
    let said = writer.take_obsolete();
    if said.is_empty() || features::uses(mos, FEATURE).await?.is_none() {
        return Ok(());
    }
    for (vdev, allocated) in said {
        let top = tops.iter().find(|top| top.id == u64::from(vdev));
        // Pools older than 2016 have vdevs without tables, and got none when they were removed.
        let Some(own) = top.and_then(table_of) else { continue };
        let own = mos.dnode(own).await?;
        let known = Zap::open(own.clone()).await?.number(top_vdev::INDIRECT_OBSOLETE).await?;
        let map = match known {
            Some(number) => mos.dnode(number).await?,
            None => {
                let map = maps::make(mos, MapForm { block_bytes: BLOCK_BYTES, ..form }).await?;
                let number = table::number(map.number());
                table::set(mos, &own, top_vdev::INDIRECT_OBSOLETE, number).await?;
                features::count_use(mos, FEATURE, 1).await?;
                map
            }
        };
        let changes = Changes { allocated, ..Changes::default() };
        maps::append(mos, &map, form, PLACE, group, &changes, Vec::new).await?;
    }
    Ok(())
}

/// Takes so many places off the pool's list, which are obsolete from here on; says how many more may be taken.
///
/// # Errors
/// What is needed can't be had.
pub(super) async fn advance(
    maker: &Maker<'_>,
    writer: &Writer,
    left: u64,
) -> Result<u64, ZfsError> {
    let directory = maker.mos.dnode(pool_directory::OBJECT).await?;
    let number = Zap::open(directory.clone()).await?.number(pool_directory::OBSOLETE_BPOBJ).await?;
    let Some(number) = number.filter(|_| left > 0) else { return Ok(left) };
    let list = maker.mos.dnode(number).await?;
    let each = &mut |pointer: &BlockPointer| {
        pointer.dvas().for_each(|place| writer.set_obsolete(&place));
    };
    let drained = maker.drain(&list, left, writer.tree(), each).await?;
    if drained.left > 0 {
        table::remove(maker.mos, &directory, pool_directory::OBSOLETE_BPOBJ).await?;
        maker.free_lists(number).await?;
        maker.count_use(FEATURE, -1).await?;
    }
    Ok(drained.left)
}
