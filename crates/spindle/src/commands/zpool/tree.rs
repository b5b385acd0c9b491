//! Names of vdevs as the commands print them, and how top-level vdevs are grouped.
//!
//! A disk goes by the last part of its path, a file or an export by all of it; with `-P` all by their whole paths. A device is
//! called as it is found now, not as it was when the pool was last open. What is not there goes by its path as recorded; in an
//! open pool by its GUID, with the path said beside it.
//!
//! Source: OpenZFS 2.3, `libzfs_pool.c` (`zpool_vdev_name`).

use super::draid;
use crate::printable;
use attach::uri::is_uri;
use std::collections::BTreeMap;
use std::path::Path;
use zfs::health::VdevHealth;
use zfs_format::vdev::{Vdev, VdevKind};
use zfs_store::alloc::Class;

/// How vdevs are named.
#[derive(Clone, Copy, Default)]
pub struct Naming {
    /// By their whole paths.
    pub paths: bool,
    /// By their GUIDs.
    pub guids: bool,
    /// What is not there by its GUID: in an open pool.
    pub missing_by_guid: bool,
}

/// The devices that were found: names by GUID.
pub type Devices = BTreeMap<u64, String>;

/// The type of a vdev, as configurations have it.
pub fn kind(vdev: &Vdev) -> String {
    match &vdev.kind {
        VdevKind::Root => "root".to_owned(),
        VdevKind::Disk => "disk".to_owned(),
        VdevKind::File => "file".to_owned(),
        VdevKind::Mirror => "mirror".to_owned(),
        VdevKind::Replacing => "replacing".to_owned(),
        VdevKind::Spare => "spare".to_owned(),
        VdevKind::Raidz(_) => "raidz".to_owned(),
        VdevKind::Draid(_) => "draid".to_owned(),
        VdevKind::DraidSpare => "dspare".to_owned(),
        VdevKind::Indirect(_) => "indirect".to_owned(),
        VdevKind::Hole => "hole".to_owned(),
        VdevKind::Missing => "missing".to_owned(),
        VdevKind::Log => "log".to_owned(),
        VdevKind::L2cache => "l2cache".to_owned(),
        VdevKind::Other(other) => other.to_string(),
    }
}

/// Where a leaf is, or was.
pub fn path(vdev: &Vdev, devices: &Devices) -> Option<String> {
    let found = devices.get(&vdev.guid).cloned();
    found.or_else(|| vdev.path.as_ref().map(ToString::to_string))
}

/// The name of a vdev with `children` below it.
pub fn name(vdev: &Vdev, children: usize, devices: &Devices, naming: Naming) -> String {
    if naming.guids && vdev.kind != VdevKind::Root {
        return vdev.guid.to_string();
    }
    if !vdev.is_leaf() {
        let kind = match &vdev.kind {
            VdevKind::Raidz(raidz) => format!("raidz{}", raidz.parity),
            VdevKind::Draid(draid) => draid::name(draid, children),
            _ => self::kind(vdev),
        };
        return format!("{kind}-{}", vdev.id);
    }
    let is_there = devices.contains_key(&vdev.guid) || vdev.kind == VdevKind::DraidSpare;
    match path(vdev, devices) {
        _ if !is_there && naming.missing_by_guid => vdev.guid.to_string(),
        None => vdev.guid.to_string(),
        Some(path) if naming.paths => path,
        // A file is known by all of its path; one that is given as a device goes by its last part.
        Some(path) if vdev.kind == VdevKind::File && !devices.contains_key(&vdev.guid) => path,
        Some(path) => last_part(vdev, &path),
    }
}

/// The name of a vdev with `children` below it, as it stands in a line.
pub fn shown(vdev: &Vdev, children: usize, devices: &Devices, naming: Naming) -> String {
    printable::word(&name(vdev, children, devices, naming)).into_owned()
}

fn last_part(vdev: &Vdev, path: &str) -> String {
    if is_uri(Path::new(path)) {
        return path.to_owned();
    }
    let last = path.rsplit('/').next().unwrap_or(path).to_owned();
    // A disk that ZFS divided into partitions itself is known by the disk.
    let is_whole = vdev.other_number("whole_disk") == Some(1);
    let digits = last.trim_end_matches(|c: char| c.is_ascii_digit());
    let stem = digits.strip_suffix("-part").or_else(|| {
        let disk =
            digits.strip_suffix('p').filter(|disk| disk.ends_with(|c: char| c.is_ascii_digit()));
        disk.or(
            Some(digits).filter(|stem| !stem.is_empty() && stem.starts_with(['s', 'v', 'h', 'x']))
        )
    });
    match stem {
        Some(stem) if is_whole && digits.len() < last.len() => stem.to_owned(),
        _ => last,
    }
}

/// The class names under which top-level vdevs stand apart, in their order.
pub const CLASSES: [(Class, &str); 3] =
    [(Class::Dedup, "dedup"), (Class::Special, "special"), (Class::Log, "logs")];

/// Top-level vdevs of normal space, without holes.
pub fn normal(root: &VdevHealth) -> impl Iterator<Item = &VdevHealth> {
    root.children.iter().filter(|top| {
        Class::of(&top.vdev) == Class::Normal
            && !matches!(top.vdev.kind, VdevKind::Hole | VdevKind::Missing)
    })
}

/// Top-level vdevs of another class, without those that were removed.
pub fn of_class(root: &VdevHealth, class: Class) -> Vec<&VdevHealth> {
    let tops = root.children.iter().filter(|top| Class::of(&top.vdev) == class);
    tops.filter(|top| !matches!(top.vdev.kind, VdevKind::Indirect(_) | VdevKind::Hole)).collect()
}

/// Characters of the longest name, indented by its depth.
pub fn width(
    node: &VdevHealth,
    pool: Option<&str>,
    depth: usize,
    devices: &Devices,
    naming: Naming,
) -> usize {
    let own = match pool {
        Some(pool) => printable::word(pool).len(),
        None => shown(&node.vdev, node.children.len(), devices, naming).len(),
    };
    let below = node.children.iter().map(|child| width(child, None, depth + 2, devices, naming));
    below.fold(own + depth, usize::max)
}
