//! Where nothing of what was asked for is found: what else lies there, and which command tells of it.

use super::typed;
use crate::output::say;
use attach::disks::Disks;
use attach::paths::expand;
use std::path::PathBuf;

/// Names that a line has.
const NAMED_MAX: usize = 4;

/// Says that there are no pools, but RAID sets and volume groups, where it is so.
pub fn say_others_than_pools(disks: &Disks, devices: &[PathBuf]) {
    let open = disks.arrays.iter().map(|array| format!("RAID set {}", array.name));
    let refused = disks.refused().filter_map(|(found, _)| found.first());
    let refused = refused.map(|found| match found.superblock.name() {
        name if name.is_empty() => format!("RAID set {}", found.superblock.set_uuid()),
        name => format!("RAID set {name}"),
    });
    let groups = disks.groups.iter().map(|group| format!("volume group {}", group.group.name));
    let all: Vec<String> = open.chain(refused).chain(groups).collect();
    if !all.is_empty() {
        let more = match all.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let (named, spindle) =
            (all[..all.len().min(NAMED_MAX)].join(", "), typed::spindle(devices));
        say(&format!(
            "note: no ZFS pool is there, but {named}{more}: {spindle} scan shows what lies where"
        ));
    }
}

/// Says that there are no superblocks of md, but something else, where it is so.
pub fn say_others_than_sets(devices: &[PathBuf]) {
    let paths = expand(devices).unwrap_or_default();
    let found = paths.iter().find_map(|path| {
        let content = host::probe::content(path).ok()??;
        (!content.what.starts_with("data ")).then_some((path, content))
    });
    if let Some((path, content)) = found {
        let (path, what, spindle) = (path.display(), content.what, typed::spindle(devices));
        say(&format!(
            "note: no md superblock is there, but {path} holds {what}: {spindle} scan shows what lies where"
        ));
    }
}
