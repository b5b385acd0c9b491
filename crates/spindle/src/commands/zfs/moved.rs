//! Mounts that follow their mountpoint: what is mounted where its properties say is unmounted before they change, or the name that they
//! go by, and is mounted where they say afterwards.
//!
//! One that was mounted on a directory that somebody named stays there. Where nobody holds the pool nothing is mounted.
//!
//! Source: OpenZFS, `libzfs_changelist.c` (`changelist_prefix`, `changelist_postfix`).

use crate::output::{Failure, say};
use ::zfs::dsl::catalog::Node;
use ::zfs::dsl::name::below;
use ::zfs::dsl::property::effective::Origin;
use ::zfs::dsl::property::mountpoint;
use ::zfs::spa::live::set_number;
use attach::Error;
use attach::mounts::{RunningMount, ToMount};
use attach::pools::mount_table::{Entry, MountTable};
use attach::pools::{HeldBy, LivePool};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// What changes where things are mounted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The name: what has a mountpoint of its own stays.
    Name,
    /// What is set.
    Property,
}

/// A mount that is where its properties say.
struct Own {
    entry: Rc<Entry>,
    dataset: u64,
    /// What its mountpoint is below.
    altroot: PathBuf,
}

/// What a directory is below, where it ends in a mountpoint.
fn altroot(directory: &Path, mountpoint: &str) -> Option<PathBuf> {
    let rest = directory.to_str()?.strip_suffix(mountpoint)?;
    mountpoint.starts_with('/').then(|| PathBuf::from(if rest.is_empty() { "/" } else { rest }))
}

/// Whether its mountpoint is set within what gets another name.
fn keeps_place(node: &Node, top: &str) -> bool {
    match mountpoint::of(&node.directory.name, &node.set).1 {
        Origin::Local | Origin::Received => true,
        Origin::Inherited(from) => below(top, &from).is_some(),
        Origin::None | Origin::Default => false,
    }
}

/// The mounts of a dataset and of those below it that a change moves.
fn own(pool: &LivePool, top: &str, what: Change) -> Result<Vec<Own>, Failure> {
    let table = Rc::clone(&pool.held().mounts);
    if table.entries().is_empty() {
        return Ok(Vec::new());
    }
    let shown = pool.pools.wait(async move { table.shown().await });
    let shown = shown.map_err(|error| Failure::failed(format!("cannot open '{top}': {error}")))?;
    let mut found = Vec::new();
    for one in shown.iter().filter(|one| one.is_itself() && below(top, &one.dataset).is_some()) {
        let Some(node) = pool.node(&one.dataset)? else { continue };
        if what == Change::Name && keeps_place(&node, top) {
            continue;
        }
        if let Some(altroot) = altroot(&one.directory, &node.mountpoint()) {
            found.push(Own { entry: Rc::clone(&one.of), dataset: node.head.number, altroot });
        }
    }
    Ok(found)
}

/// Changes something with the mounts that it moves unmounted, and mounts them anew where they belong then.
///
/// # Errors
/// One can't be unmounted: nothing is changed. Or those of the change.
pub fn around<T>(
    pool: &LivePool,
    top: &str,
    (what, by_force): (Change, bool),
    change: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let own = own(pool, top, what)?;
    if own.is_empty() {
        return change();
    }
    let held = pool.held();
    let _moving = MountTable::moving(&held.mounts);
    let mut ended: Vec<&Own> = Vec::new();
    let mut outcome = Ok(());
    for one in &own {
        let (mounts, entry) = (Rc::clone(&held.mounts), Rc::clone(&one.entry));
        let rt = pool.pools.rt();
        outcome = pool.pools.wait(async move { mounts.end_one(&rt, &entry, by_force).await });
        if outcome.is_err() {
            break;
        }
        ended.push(one);
    }
    let changed = outcome.map_err(Failure::from).and_then(|()| change());
    for one in ended {
        mount(pool, &held, one)?;
    }
    changed
}

/// Mounts one where it belongs, if it does anywhere.
fn mount(pool: &LivePool, held: &HeldBy, one: &Own) -> Result<(), Failure> {
    let (live, dataset) = (Rc::clone(&pool.live), one.dataset);
    let name =
        pool.pools.wait(async move { live.spa().catalog(0).await?.dataset_name(dataset).await });
    let opened = |error| Error::CannotOpen { name: String::new(), error: Box::new(error) };
    let name = name.map_err(opened)?;
    let Some(node) = pool.node(&name)? else { return Ok(()) };
    let mountpoint = node.mountpoint();
    let (Some(path), true) =
        (mountpoint.strip_prefix('/'), set_number(&node, "canmount") != Some(0))
    else {
        return Ok(());
    };
    let wanted = ToMount {
        dataset: name,
        directory: one.altroot.join(path),
        makes_directory: true,
        covers: set_number(&node, "overlay") != Some(0),
        for_writing: one.entry.for_writing,
        shows_control: None,
        by_mountpoint: true,
    };
    let its = held.clone();
    match held.pools.wait(async move { RunningMount::begin(&its, wanted).await }) {
        Ok(mount) => mount.serve_apart(held.pools.disks().context()),
        // What was changed stays so.
        Err(error) => say(&format!("spindle: {error}")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_mountpoint_is_below_is_what_stands_before_it() {
        let of = |directory: &str, mountpoint| altroot(Path::new(directory), mountpoint);
        assert_eq!(of("/tank/x", "/tank/x"), Some("/".into()));
        assert_eq!(of("/mnt/tank/x", "/tank/x"), Some("/mnt".into()));
        assert_eq!(of("/mnt/other", "/tank/x"), None);
        assert_eq!(of("/mnt/legacy", "legacy"), None);
    }
}
