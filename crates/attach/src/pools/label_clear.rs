//! The labels of a device cleared, so that it is no part of any pool any more.
//!
//! A member of a pool that was exported, or may be in use, is cleared only where that is forced; one of a pool that is in use here never:
//! who has it keeps others off. Spares and cache devices hold nothing that a pool could miss, and what was taken out of its pool,
//! or whose pool was destroyed, is nobody's.
//!
//! Source: OpenZFS, `zpool_main.c` (`zpool_do_labelclear`).

use super::host::kernel_has;
use crate::disks::Disks;
use crate::error::Error;
use crate::event::Events;
use ::zfs::spa::{PoolState, clear_labels, member_on};
use rt::DeviceRef;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Clears the labels of a device.
///
/// # Errors
/// It has none, is a part of a pool and nobody forces it, or can't be written.
pub fn label_clear(events: &Events, path: &Path, force: bool) -> Result<(), Error> {
    let named = || path.to_owned();
    let paths: [PathBuf; 1] = [path.to_owned()];
    let member = {
        let disks = Disks::open_files(events, &paths, true)?;
        let device = first(&disks);
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
    let disks = Disks::open_files(events, &paths, false)?;
    let device = first(&disks);
    let cleared = disks.wait(async move { clear_labels(&device).await });
    cleared.map_err(|error| Error::LabelNotCleared { path: named(), error: Box::new(error) })
}

/// The only one.
fn first(disks: &Disks) -> DeviceRef {
    Rc::clone(disks.files.first().expect("it was opened"))
}
