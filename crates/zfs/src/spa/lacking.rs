//! What a pool lacks to be opened, in words: which top-level vdev needs how many of its devices, and who is not there.
//!
//! Who has a box of disks finds the missing one by the path that it had last, or by its GUID, which its label has.

use super::error::OpenError;
use super::found::FoundPool;
use crate::health::{self, Cause, Health, Present, VdevHealth};
use zfs_format::vdev::{Vdev, VdevKind};

/// Top-level vdevs, and missing devices of one, that are named.
const NAMED_MAX: usize = 16;
/// Top-level vdevs of a pool that are looked at.
const TOP_LEVEL_MAX: u64 = 1 << 16;

impl FoundPool {
    /// Its top-level vdevs that lost more devices than they can do without, one sentence each; empty where none did.
    /// Those of the intent log alone are left out: a pool opens without them.
    pub fn lacking(&self) -> Vec<String> {
        let present = self.present();
        let expected = 0..self.tops_expected.min(TOP_LEVEL_MAX);
        let known = expected.clone().filter_map(|number| self.tops.get(&number));
        let mut said = lacking(known, &present);
        let unknown = expected.filter(|number| !self.tops.contains_key(number));
        let unknown: Vec<String> = unknown.map(|number| number.to_string()).collect();
        said.extend(match &unknown[..] {
            [] => None,
            [one] => Some(format!("top-level vdev {one} is missing with all its devices")),
            some => {
                let some = listed(some);
                Some(format!("top-level vdevs {some} are missing with all their devices"))
            }
        });
        said
    }

    /// Who has what those that are there don't have, or may have it, in words.
    pub(super) fn who_has_it(&self) -> String {
        let present = self.present();
        let mut missing = Vec::new();
        for top in self.tops.values().filter(|top| !top.is_for_logs()) {
            add_missing(&health::of_vdev(top, &present), &mut missing);
        }
        match missing.is_empty() {
            true => "no device that is here has it".to_owned(),
            false => format!(
                "what is missing may have it, {}: attach that, or name where it lies with one more -d",
                listed(&missing)
            ),
        }
    }

    /// The same as the reason why it can't be opened; nothing where nothing is lacking.
    pub fn lack(&self) -> Option<OpenError> {
        let (pool, what) = (self.name.clone(), self.lacking().join("; "));
        let mut leaves = self.tops.values().flat_map(|top| top.leaves());
        let is_all_there = self.tops.len() as u64 >= self.tops_expected
            && leaves.all(|leaf| self.members.contains_key(&leaf.guid));
        match what.is_empty() {
            true => None,
            false if is_all_there => Some(OpenError::Short { pool, what }),
            false => Some(OpenError::Missing { pool, what }),
        }
    }
}

/// The same of top-level vdevs that are known, of whose leaves these are there.
pub(super) fn lacking<'a>(tops: impl Iterator<Item = &'a Vdev>, present: &Present) -> Vec<String> {
    let healths: Vec<VdevHealth> = tops.map(|top| health::of_vdev(top, present)).collect();
    said_of(&healths)
}

/// The same of a pool that is open, by its root: labels don't say which top-level vdevs were removed, and
/// [`FoundPool::lacking`] takes those for missing.
pub fn lacking_of(root: &VdevHealth) -> Vec<String> {
    said_of(&root.children)
}

fn said_of(tops: &[VdevHealth]) -> Vec<String> {
    let needed = tops.iter().filter(|top| !top.vdev.is_for_logs());
    let mut said: Vec<String> = needed.filter_map(lack_of).collect();
    let more = said.len().saturating_sub(NAMED_MAX);
    said.truncate(NAMED_MAX);
    if more > 0 {
        said.push(format!("and {more} top-level vdevs more lack devices"));
    }
    said
}

/// What is said of a top-level vdev; nothing where it can be used.
fn lack_of(top: &VdevHealth) -> Option<String> {
    if top.health <= Health::Degraded || matches!(top.vdev.kind, VdevKind::Hole) {
        return None;
    }
    let mut missing = Vec::new();
    add_missing(top, &mut missing);
    let missing = listed(&missing);
    if top.children.is_empty() {
        let how = if top.is_short() { "is cut short" } else { "is missing" };
        return Some(format!("{missing} {how}, and nothing stands in for it"));
    }
    let count = top.children.len();
    let there = top.children.iter().filter(|child| child.health <= Health::Degraded).count();
    let needs = count - parity(&top.vdev, count).min(count);
    let is_any_short = top.any_leaf(&VdevHealth::is_short);
    Some(format!(
        "{} needs {needs} of its {count} devices, and {there} {} {}; missing: {missing}",
        name(&top.vdev),
        if there == 1 { "is" } else { "are" },
        if is_any_short { "there and whole" } else { "there" },
    ))
}

/// How many of its devices a vdev can lose.
fn parity(vdev: &Vdev, count: usize) -> usize {
    match &vdev.kind {
        VdevKind::Raidz(raidz) => raidz.parity as usize,
        VdevKind::Draid(draid) => draid.parity as usize,
        _ => count.saturating_sub(1),
    }
}

/// As `zpool status` calls it, without what a dRAID says of itself beside its parity.
fn name(vdev: &Vdev) -> String {
    match &vdev.kind {
        VdevKind::Raidz(raidz) => format!("raidz{}-{}", raidz.parity, vdev.id),
        VdevKind::Draid(draid) => format!("draid{}-{}", draid.parity, vdev.id),
        VdevKind::Mirror => format!("mirror-{}", vdev.id),
        _ => format!("top-level vdev {}", vdev.id),
    }
}

fn add_missing(vdev: &VdevHealth, missing: &mut Vec<String>) {
    if vdev.children.is_empty() && vdev.health > Health::Degraded {
        let guid = vdev.vdev.guid;
        let why = match vdev.health {
            Health::Unavailable => match vdev.cause {
                Some(Cause::Short(short)) => format!(", {short}"),
                _ => String::new(),
            },
            other => format!(", {}", other.name()),
        };
        missing.push(match &vdev.vdev.path {
            Some(path) => format!("{path} (GUID {guid}{why})"),
            None => format!("GUID {guid}{why}"),
        });
    }
    vdev.children.iter().for_each(|child| add_missing(child, missing));
}

/// The first of them, and how many there are more.
fn listed(names: &[String]) -> String {
    let shown = names[..names.len().min(NAMED_MAX)].join(", ");
    match names.len().saturating_sub(NAMED_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
