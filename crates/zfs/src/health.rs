//! How each vdev of a pool is: what `zpool import` and `zpool status` say beside its name.
//!
//! Rules:
//! 1. A leaf is as the configuration says (taken offline, faulted, removed), else unavailable where its device isn't
//!    there, or ends before what the pool has on it, else online. What such a short one has is read, where the pool is only read.
//! 2. A mirror lives while one side does, raidz and dRAID while no more are lost than they have parity; with some lost
//!    it is degraded. A vdev that can't be used makes the pool so, unless it is for the intent log alone.
//! 3. A top-level vdev of which nothing is known is missing: the pool can't be opened.
//! 4. Spares and cache devices change nothing.
//! 5. A device that is there may lack what was written while it was away. That changes nothing of how vdevs are; it may be
//!    that too few others are there to stand in for it, and then those groups are lost ([`lost_groups`]).
//!
//! Source: OpenZFS 2.3, `vdev.c`, `vdev_mirror.c`, `vdev_raidz.c`, `libzfs_pool.c`.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use stdx::{ByteCount, RangeSet};
use zfs_format::nvlist::{Text, Value};
use zfs_format::vdev::{Vdev, VdevKind};

/// How a vdev is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// As it should be.
    Online,
    /// Something below is lost, and the rest stands in for it.
    Degraded,
    /// It was found to be bad.
    Faulted,
    /// It was pulled out.
    Removed,
    /// The administrator took it out.
    Offline,
    /// It isn't there, or can't be used.
    Unavailable,
}

impl Health {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Health::Online => "ONLINE",
            Health::Degraded => "DEGRADED",
            Health::Faulted => "FAULTED",
            Health::Removed => "REMOVED",
            Health::Offline => "OFFLINE",
            Health::Unavailable => "UNAVAIL",
        }
    }

    fn is_usable(self) -> bool {
        self <= Health::Degraded
    }
}

/// A device that ends before what a pool has on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short {
    /// What it has.
    pub has: ByteCount,
    /// What it should have at the least.
    pub needed: ByteCount,
}

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ends at {} of {}", self.has, self.needed)
    }
}

/// Which leaves of a pool are there.
#[derive(Clone, Debug, Default)]
pub struct Present {
    /// By their GUIDs.
    pub there: BTreeSet<u64>,
    /// Those of them that end too soon.
    pub short: BTreeMap<u64, Short>,
}

impl Present {
    /// The same, of which none is taken for one that ends too soon: what can be read at all.
    #[must_use]
    pub fn for_reading(&self) -> Present {
        Present { there: self.there.clone(), short: BTreeMap::new() }
    }
}

impl FromIterator<u64> for Present {
    fn from_iter<T: IntoIterator<Item = u64>>(there: T) -> Present {
        Present { there: there.into_iter().collect(), short: BTreeMap::new() }
    }
}

/// Why it is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its device isn't there.
    CannotOpen,
    /// Its device ends before what the pool has on it.
    Short(Short),
    /// Too much below is lost.
    Replicas,
    /// Top-level vdevs are missing.
    MissingDevice,
    /// It had too many errors.
    Errors,
    /// Somebody said so.
    External,
    /// All below was taken offline.
    ChildrenOffline,
    /// A spare stands in for another device.
    Spared,
}

impl Cause {
    /// Its words.
    pub fn text(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Cause::CannotOpen => "cannot open",
            Cause::Short(short) => return Cow::Owned(format!("too small: {short}")),
            Cause::Replicas => "insufficient replicas",
            Cause::MissingDevice => "missing device",
            Cause::Errors => "too many errors",
            Cause::External => "external device fault",
            Cause::ChildrenOffline => "all children offline",
            Cause::Spared => "currently in use",
        })
    }
}

/// A vdev and how it is.
#[derive(Clone, Debug, PartialEq)]
pub struct VdevHealth {
    /// As the configuration has it, without what is below.
    pub vdev: Vdev,
    /// How it is.
    pub health: Health,
    /// Why, where that is not plain.
    pub cause: Option<Cause>,
    /// What it is made of.
    pub children: Vec<VdevHealth>,
}

impl VdevHealth {
    /// Whether its device is there, and ends too soon.
    pub fn is_short(&self) -> bool {
        matches!(self.cause, Some(Cause::Short(_)))
    }

    /// Whether any leaf below is so.
    pub fn any_leaf(&self, is_so: &impl Fn(&VdevHealth) -> bool) -> bool {
        match self.children.is_empty() {
            true => is_so(self),
            false => self.children.iter().any(|child| child.any_leaf(is_so)),
        }
    }

    /// Each leaf at or below it.
    pub fn each_leaf<'a>(&'a self, each: &mut impl FnMut(&'a VdevHealth)) {
        match self.children.is_empty() && self.vdev.is_leaf() {
            true => each(self),
            false => self.children.iter().for_each(|child| child.each_leaf(each)),
        }
    }
}

/// How configurations say that a device had too many errors.
const EXCEEDED: &str = "err_exceeded";

/// The leaf of this GUID was found to fail by who holds the pool.
pub fn mark_faulted(vdev: &mut Vdev, guid: u64) {
    if vdev.guid == guid && vdev.is_leaf() {
        vdev.other.push((Text::from("faulted"), Value::Uint64(1)));
        vdev.other.push((Text::from("aux_state"), Value::String(Text::from(EXCEEDED))));
    }
    vdev.children.iter_mut().for_each(|child| mark_faulted(child, guid));
}

/// The tree below a root, of which these leaves are there; `tops_missing` top-level vdevs are not known.
pub fn of_pool(root: &Vdev, present: &Present, tops_missing: bool) -> VdevHealth {
    let children: Vec<VdevHealth> = root.children.iter().map(|top| of_vdev(top, present)).collect();
    let vdev = Vdev { children: Vec::new(), ..root.clone() };
    let is_data = |top: &&VdevHealth| !top.vdev.is_for_logs();
    let lost = children.iter().filter(is_data).any(|top| !top.health.is_usable());
    let (health, cause) = if tops_missing {
        (Health::Unavailable, Some(Cause::MissingDevice))
    } else if lost {
        (Health::Unavailable, Some(Cause::Replicas))
    } else if children.iter().any(|top| top.health != Health::Online) {
        (Health::Degraded, None)
    } else {
        (Health::Online, None)
    };
    VdevHealth { vdev, health, cause, children }
}

/// A vdev and what is below it.
pub fn of_vdev(config: &Vdev, present: &Present) -> VdevHealth {
    let vdev = Vdev { children: Vec::new(), ..config.clone() };
    let children: Vec<VdevHealth> =
        config.children.iter().map(|child| of_vdev(child, present)).collect();
    let (health, cause) = match config.is_leaf() {
        true => leaf(config, present),
        false => interior(config, &children),
    };
    VdevHealth { vdev, health, cause, children }
}

fn leaf(config: &Vdev, present: &Present) -> (Health, Option<Cause>) {
    let says = |name| config.other_number(name).unwrap_or(0) != 0;
    if says("faulted") {
        let found = config.other.iter().any(|(name, value)| {
            *name == *"aux_state" && *value == Value::String(Text::from(EXCEEDED))
        });
        return (Health::Faulted, Some(if found { Cause::Errors } else { Cause::External }));
    }
    if says("offline") {
        return (Health::Offline, None);
    }
    if says("removed") {
        return (Health::Removed, None);
    }
    // The spare space of a dRAID has no device of its own.
    if config.kind != VdevKind::DraidSpare && !present.there.contains(&config.guid) {
        return (Health::Unavailable, Some(Cause::CannotOpen));
    }
    if let Some(short) = present.short.get(&config.guid) {
        return (Health::Unavailable, Some(Cause::Short(*short)));
    }
    match says("degraded") {
        true => (Health::Degraded, Some(Cause::Errors)),
        false => (Health::Online, None),
    }
}

/// How many of so many children a vdev can do without.
fn bearable(kind: &VdevKind, children: usize) -> usize {
    match kind {
        VdevKind::Raidz(raidz) => raidz.parity as usize,
        VdevKind::Draid(draid) => draid.parity as usize,
        _ => children.saturating_sub(1),
    }
}

/// The transaction groups of which a vdev can't give all blocks, by those that each leaf below it lacks: those that more children
/// lack than it can do without.
pub fn lost_groups(node: &VdevHealth, of_leaf: &impl Fn(&VdevHealth) -> RangeSet) -> RangeSet {
    if matches!(node.vdev.kind, VdevKind::Indirect(_) | VdevKind::Hole) {
        return RangeSet::default();
    }
    if node.children.is_empty() {
        return of_leaf(node);
    }
    let mut changes: BTreeMap<u64, isize> = BTreeMap::new();
    for groups in node.children.iter().map(|child| lost_groups(child, of_leaf)) {
        for stretch in groups.iter() {
            *changes.entry(stretch.start).or_default() += 1;
            *changes.entry(stretch.end).or_default() -= 1;
        }
    }
    let bearable = bearable(&node.vdev.kind, node.children.len());
    let (mut lost, mut lacking, mut from) = (RangeSet::default(), 0_isize, None);
    for (at, change) in changes {
        lacking += change;
        match (lacking > bearable as isize, from) {
            (true, None) => from = Some(at),
            (false, Some(start)) => {
                lost.insert(start..at);
                from = None;
            }
            _ => {}
        }
    }
    lost
}

fn interior(config: &Vdev, children: &[VdevHealth]) -> (Health, Option<Cause>) {
    match &config.kind {
        VdevKind::Indirect(_) | VdevKind::Hole => return (Health::Online, None),
        VdevKind::Missing => return (Health::Unavailable, Some(Cause::CannotOpen)),
        _ => {}
    }
    let bearable = bearable(&config.kind, children.len());
    let lost = children.iter().filter(|child| !child.health.is_usable()).count();
    if lost > bearable {
        let cause = match children.iter().all(|child| child.health == Health::Offline) {
            true => Cause::ChildrenOffline,
            false => Cause::Replicas,
        };
        return (Health::Unavailable, Some(cause));
    }
    match children.iter().any(|child| child.health != Health::Online) {
        true => (Health::Degraded, None),
        false => (Health::Online, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zfs_format::vdev::Raidz;

    fn vdev(kind: VdevKind, guid: u64, children: Vec<Vdev>) -> Vdev {
        Vdev { children, ..Vdev::new(kind, guid, guid) }
    }

    fn disks(from: u64, many: u64) -> Vec<Vdev> {
        (from..from + many).map(|guid| vdev(VdevKind::Disk, guid, Vec::new())).collect()
    }

    fn root(tops: Vec<Vdev>) -> Vdev {
        vdev(VdevKind::Root, 0, tops)
    }

    fn health(root: &Vdev, present: impl IntoIterator<Item = u64>) -> Health {
        of_pool(root, &present.into_iter().collect(), false).health
    }

    #[test]
    fn a_pool_lives_while_each_of_its_vdevs_does() {
        let raidz = Raidz { parity: 2, expanding: false, expand_txgs: Vec::new() };
        let pool = root(vec![
            vdev(VdevKind::Raidz(raidz), 10, disks(1, 5)),
            vdev(VdevKind::Mirror, 20, disks(6, 2)),
        ]);
        assert_eq!(health(&pool, 1..=7), Health::Online);
        assert_eq!(health(&pool, [1, 2, 3, 7]), Health::Degraded);
        assert_eq!(health(&pool, [1, 2, 6, 7]), Health::Unavailable);
        assert_eq!(health(&pool, 1..=5), Health::Unavailable);
        let all = (1..=7).collect();
        let missing = of_pool(&pool, &all, true);
        assert_eq!(
            (missing.health, missing.cause),
            (Health::Unavailable, Some(Cause::MissingDevice))
        );
    }

    #[test]
    fn a_device_that_ends_too_soon_is_none_that_stands_in_for_another() {
        let raidz = Raidz { parity: 1, expanding: false, expand_txgs: Vec::new() };
        let pool = root(vec![vdev(VdevKind::Raidz(raidz), 10, disks(1, 3))]);
        let short = Short { has: ByteCount::mib(60), needed: ByteCount::mib(300) };
        let of = |there: &[u64], ends: &[u64]| {
            let short = ends.iter().map(|guid| (*guid, short)).collect();
            of_pool(&pool, &Present { there: there.iter().copied().collect(), short }, false)
        };
        let one = of(&[1, 2, 3], &[2]);
        assert_eq!(one.health, Health::Degraded);
        let leaf = &one.children[0].children[1];
        assert_eq!((leaf.health, leaf.cause), (Health::Unavailable, Some(Cause::Short(short))));
        assert_eq!(of(&[1, 2, 3], &[1, 2]).health, Health::Unavailable);
        assert_eq!(of(&[1, 2], &[2]).health, Health::Unavailable);
    }

    #[test]
    fn a_lost_log_is_no_lost_pool() {
        let mut pool = root(disks(1, 2));
        pool.children[1].is_log = Some(1);
        assert_eq!(health(&pool, [1]), Health::Degraded);
        assert_eq!(health(&pool, [2]), Health::Unavailable);
    }

    #[test]
    fn groups_are_lost_that_more_children_lack_than_a_vdev_can_do_without() {
        let lacks = [(1, 10..20), (2, 15..30), (3, 18..19), (4, 25..u64::MAX)];
        let of_leaf = |leaf: &VdevHealth| -> RangeSet {
            let of = lacks.iter().filter(|(guid, _)| *guid == leaf.vdev.guid);
            of.map(|(_, groups)| groups.clone()).collect()
        };
        let lost = |top: &Vdev| -> Vec<(u64, u64)> {
            let health = of_vdev(top, &(1..=9).collect());
            lost_groups(&health, &of_leaf).iter().map(|one| (one.start, one.end)).collect()
        };
        let raidz = |parity| Raidz { parity, expanding: false, expand_txgs: Vec::new() };
        assert_eq!(lost(&vdev(VdevKind::Raidz(raidz(1)), 10, disks(1, 5))), [(15, 20), (25, 30)]);
        assert_eq!(lost(&vdev(VdevKind::Raidz(raidz(2)), 10, disks(1, 5))), [(18, 19)]);
        assert_eq!(lost(&vdev(VdevKind::Raidz(raidz(3)), 10, disks(1, 5))), []);
        assert_eq!(lost(&vdev(VdevKind::Mirror, 10, disks(1, 2))), [(15, 20)]);
        assert_eq!(lost(&vdev(VdevKind::Mirror, 10, disks(4, 2))), [], "5 has all");
        assert_eq!(lost(&disks(4, 1)[0]), [(25, u64::MAX)]);
        // A device that is being replaced, beside one that is away.
        let replaced = vdev(VdevKind::Replacing, 20, disks(1, 2));
        let raidz = vdev(VdevKind::Raidz(raidz(1)), 10, [vec![replaced], disks(3, 2)].concat());
        assert_eq!(lost(&raidz), [(18, 19)]);
    }

    #[test]
    fn what_was_taken_offline_says_so() {
        let mut pool = root(vec![vdev(VdevKind::Mirror, 10, disks(1, 2))]);
        pool.children[0].children[0].other.push((Text::from("offline"), Value::Uint64(1)));
        let found = of_pool(&pool, &(1..=2).collect(), false);
        assert_eq!(found.health, Health::Degraded);
        assert_eq!(found.children[0].children[0].health, Health::Offline);
        assert_eq!(found.children[0].children[1].health, Health::Online);
        assert!(found.any_leaf(&|leaf| leaf.health == Health::Offline));
    }
}
