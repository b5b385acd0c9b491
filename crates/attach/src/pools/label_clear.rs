//! The labels of a device cleared, so that it is no part of any pool any more.
//!
//! A member of a pool that was exported, or may be in use, is cleared only where that is forced; one of a pool that is in use here never:
//! who has it keeps others off. Spares and cache devices hold nothing that a pool could miss, and what was taken out of its pool,
//! or whose pool was destroyed, is nobody's.
//!
//! Source: OpenZFS, `zpool_main.c` (`zpool_do_labelclear`).

use super::find::PoolPlace;
use super::host::kernel_has;
use crate::disks::{Disks, Writing, Written};
use crate::error::Error;
use crate::paths::{may_name_volume, named};
use crate::uri::is_uri;
use ::zfs::spa::{PoolState, clear_labels, member_on};
use rt::DeviceRef;
use std::path::{Path, PathBuf};

/// Clears the labels of a device: a file, a block device, an export, or a volume on the devices.
///
/// # Errors
/// It has none, is a part of a pool and nobody forces it, or can't be written.
pub fn label_clear(place: &PoolPlace<'_>, word: &Path, force: bool) -> Result<(), Error> {
    let named = || word.to_owned();
    let member = {
        let (disks, device) = open(place, word, true)?;
        disks.wait(async move { member_on(&device).await })
    };
    let Some(member) = member else { return Err(Error::NoLabel { path: named() }) };
    let is_member = matches!(member.state, PoolState::Active | PoolState::Exported);
    if is_member && member.txg != 0 {
        let name = member.config.text("name").ok().flatten();
        let pool = name.map_or_else(String::new, ToString::to_string);
        if kernel_has(member.pool_guid, &pool) {
            return Err(Error::PoolInKernel { name: pool });
        }
        if !force {
            let how =
                if member.state == PoolState::Active { "potentially active" } else { "exported" };
            return Err(Error::MemberOf { path: named(), how, pool });
        }
    }
    let (disks, device) = open(place, word, false)?;
    let cleared = disks.wait(async move { clear_labels(&device).await });
    cleared.map_err(|error| Error::LabelNotCleared { path: named(), error: Box::new(error) })?;
    disks.stop()
}

/// The device, with what it lies on.
fn open(place: &PoolPlace<'_>, word: &Path, read_only: bool) -> Result<(Disks, DeviceRef), Error> {
    let path = place.path(word);
    let is_volume = !is_uri(word)
        && !path.exists()
        && may_name_volume(word)
        && !named(place.devices).is_empty();
    if !is_volume && !is_uri(word) && !path.exists() {
        return Err(Error::NoDevice { path });
    }
    if !is_volume {
        let paths: [PathBuf; 1] = [path];
        let disks = Disks::open_files(&place.events, &paths, read_only)?;
        let device = disks.files.first().expect("it was opened").clone();
        return Ok((disks, device));
    }
    let volume = word.to_string_lossy().into_owned();
    let written = Written { volume: volume.clone(), run: false };
    let written = if read_only { Vec::new() } else { vec![written] };
    let disks = Disks::open_for(&place.events, place.devices, &written, Writing::default())?;
    let opened = disks.volume(&volume)?;
    match opened.read_only {
        Some(why) if !read_only => Err(Error::NotWritableVolume { device: volume, why }),
        _ => Ok((disks, opened.device)),
    }
}
