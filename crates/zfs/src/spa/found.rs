//! Which pools lie on the devices at hand, before anything of them is opened.
//!
//! Each member's labels say to which pool it belongs and how the top-level vdev that it is a part of is made; the pool's
//! other vdevs it knows by their number only. So the tree of a pool is put together from its members' labels:
//!
//! 1. Of a member's labels the one of the highest transaction group counts.
//! 2. Of all members' labels, the one of the highest transaction group says what the pool is.
//! 3. Each top-level vdev is as the newest of its own members says.
//! 4. The uberblock is the best of all members that are part of that tree.
//!
//! Members of a pool that was destroyed, spares, and cache devices say so in their state; a device that was taken out of its
//! pool has the transaction group 0.
//!
//! Source: OpenZFS, `zutil_import.c`, `spa.c`, `vdev_label.c`.

use crate::health::{Present, Short};
use async_recursion::async_recursion as boxed;
use rt::DeviceRef;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use stdx::ByteCount;
use zfs_format::label::{DATA_END, DATA_START};
use zfs_format::nvlist::NvList;
use zfs_format::uberblock::Uberblock;
use zfs_format::vdev::{Vdev, VdevKind};
use zfs_store::label::{self, Labels};

/// Top-level vdevs of a pool that are taken.
const TOP_LEVEL_MAX: u64 = 1 << 16;

/// How a pool was left, as its labels say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolState {
    /// Open, or never closed.
    Active,
    /// Closed for another host to open.
    Exported,
    /// Destroyed.
    Destroyed,
    /// A spare of some pool.
    Spare,
    /// A cache device of some pool.
    Cache,
    /// Something else.
    Other(u64),
}

impl PoolState {
    fn of(code: u64) -> PoolState {
        match code {
            0 => PoolState::Active,
            1 => PoolState::Exported,
            2 => PoolState::Destroyed,
            3 => PoolState::Spare,
            4 => PoolState::Cache,
            other => PoolState::Other(other),
        }
    }
}

/// A device with labels.
#[derive(Clone)]
pub struct Member {
    /// The device.
    pub device: DeviceRef,
    /// Its GUID in the tree.
    pub guid: u64,
    /// The GUID of the pool; 0 of a spare or cache device, whose label doesn't say.
    pub pool_guid: u64,
    /// The transaction group of its label; 0 once it was taken out of its pool.
    pub txg: u64,
    /// How the pool was left.
    pub state: PoolState,
    /// Its best label.
    pub config: Rc<NvList>,
    /// All that its labels hold.
    pub labels: Rc<Labels>,
}

impl Member {
    /// Its newest uberblock.
    pub(super) fn newest(&self) -> Option<&Uberblock> {
        self.labels.best_uberblock().map(|found| &found.uberblock)
    }

    /// The newest group whose uberblock it has.
    pub(super) fn last_group(&self) -> Option<u64> {
        self.newest().map(|uberblock| uberblock.txg)
    }

    /// How new it is: labels are not always written with an uberblock.
    fn age(&self) -> (u64, Option<u64>) {
        (self.txg, self.last_group())
    }
}

/// A pool on the devices at hand.
pub struct FoundPool {
    /// Its name.
    pub name: String,
    /// Its GUID.
    pub guid: u64,
    /// How it was left.
    pub state: PoolState,
    /// The newest label.
    pub config: Rc<NvList>,
    /// Its top-level vdevs by number, as the newest of their members says; a number without one is missing.
    pub tops: BTreeMap<u64, Vdev>,
    /// How many top-level vdevs it should have.
    pub tops_expected: u64,
    /// Its devices by GUID.
    pub members: BTreeMap<u64, Member>,
    /// Devices that bear the GUID of one of the members, and are not used.
    pub copies: Vec<Member>,
    /// The best uberblock of all, if there is one.
    pub uberblock: Option<Uberblock>,
}

impl FoundPool {
    /// The devices by GUID.
    pub fn devices(&self) -> BTreeMap<u64, DeviceRef> {
        self.members.iter().map(|(guid, member)| (*guid, member.device.clone())).collect()
    }

    /// The uberblocks of all members, best first, each once. Of two states of one time, that devices have which went
    /// apart, the one that most have is the better.
    pub fn uberblocks(&self) -> Vec<Uberblock> {
        let mut all: Vec<Uberblock> = Vec::new();
        for member in self.members.values() {
            let rings = member.labels.labels.iter().flat_map(|label| &label.uberblocks);
            all.extend(rings.map(|found| found.uberblock.clone()));
        }
        all.sort_by(|a, b| b.newer(a).then_with(|| a.root.words.cmp(&b.root.words)));
        let mut each: Vec<&[Uberblock]> = all.chunk_by(|one, next| one == next).collect();
        each.sort_by(|a, b| b[0].newer(&a[0]).then_with(|| b.len().cmp(&a.len())));
        each.into_iter().map(|alike| alike[0].clone()).collect()
    }

    /// The leaves that are there.
    pub fn present(&self) -> Present {
        Present { there: self.members.keys().copied().collect(), short: self.short() }
    }

    /// Members that are shorter than what the pool has on them, by their GUIDs: images that were cut short, partitions that were made
    /// smaller. What lies before their end is read. Who writes does without them, as OpenZFS does: what they lack nobody notes,
    /// so that they stand in for no other.
    ///
    /// Source: OpenZFS, `vdev.c` (`vdev_get_min_asize`, `vdev_open`).
    pub fn short(&self) -> BTreeMap<u64, Short> {
        let mut found = BTreeMap::new();
        for top in self.tops.values() {
            // The last metaslab need not be whole.
            let shift = top.metaslab_shift.filter(|shift| *shift < u64::BITS.into()).unwrap_or(0);
            let least = top.asize.unwrap_or(0) >> shift << shift;
            self.add_short(top, least, &mut found);
        }
        found
    }

    fn add_short(&self, vdev: &Vdev, least: u64, found: &mut BTreeMap<u64, Short>) {
        let below = match vdev.kind {
            VdevKind::Raidz(_) | VdevKind::Draid(_) => least / (vdev.children.len() as u64).max(1),
            _ => least,
        };
        vdev.children.iter().for_each(|child| self.add_short(child, below, found));
        let Some(member) = self.members.get(&vdev.guid).filter(|_| vdev.is_leaf()) else { return };
        let needed = ByteCount(least.saturating_add(DATA_START + DATA_END));
        let has = member.device.geometry().capacity;
        if has < needed {
            found.insert(vdev.guid, Short { has, needed });
        }
    }

    /// The text of the newest label under a name.
    pub fn text(&self, name: &'static str) -> Option<String> {
        self.config.text(name).ok().flatten().map(ToString::to_string)
    }

    /// The number of the newest label under a name.
    pub fn number(&self, name: &'static str) -> Option<u64> {
        self.config.u64(name).ok().flatten()
    }
}

/// What lies on a set of devices.
pub struct Found {
    /// The pools, by name, then GUID.
    pub pools: Vec<FoundPool>,
    /// Spares and cache devices, by GUID.
    pub auxiliary: BTreeMap<u64, Member>,
}

/// Looks for pools. A device that can't be read, or has no label, is none of any pool's.
#[boxed(?Send)]
pub async fn find(devices: &[DeviceRef]) -> Found {
    let mut members: BTreeMap<u64, Vec<Member>> = BTreeMap::new();
    let mut auxiliary = BTreeMap::new();
    for device in devices {
        let Some(member) = member_on(device).await else { continue };
        match member.state {
            PoolState::Spare | PoolState::Cache => {
                auxiliary.insert(member.guid, member);
            }
            _ => members.entry(member.pool_guid).or_default().push(member),
        }
    }
    let mut pools: Vec<FoundPool> =
        members.into_iter().filter_map(|(guid, members)| pool(guid, members)).collect();
    pools.sort_by(|a, b| (&a.name, a.guid).cmp(&(&b.name, b.guid)));
    Found { pools, auxiliary }
}

/// What the labels of a device say; nothing where it has none.
#[boxed(?Send)]
pub async fn member_on(device: &DeviceRef) -> Option<Member> {
    member(device, label::read(device).await)
}

fn member(device: &DeviceRef, labels: Labels) -> Option<Member> {
    let txg_of = |list: &NvList| list.u64("txg").ok().flatten().unwrap_or(0);
    let lists = labels.configurations().map(|(_, found)| &found.list);
    let config = lists.max_by_key(|list| txg_of(list))?.clone();
    let number = |name| config.u64(name).ok().flatten();
    let guid = number("guid")?;
    let (state, txg) = (PoolState::of(number("state").unwrap_or(0)), txg_of(&config));
    let pool_guid = number("pool_guid").unwrap_or(0);
    let is_auxiliary = matches!(state, PoolState::Spare | PoolState::Cache);
    if pool_guid == 0 && !is_auxiliary {
        return None;
    }
    let (config, labels) = (Rc::new(config), Rc::new(labels));
    Some(Member { device: device.clone(), guid, pool_guid, txg, state, config, labels })
}

pub(super) fn pool(guid: u64, members: Vec<Member>) -> Option<FoundPool> {
    // The tree of each top-level vdev by its newest member.
    let mut tops: BTreeMap<u64, (u64, Vdev)> = BTreeMap::new();
    for member in members.iter().filter(|member| member.txg != 0) {
        let Ok(Some(list)) = member.config.list("vdev_tree") else { continue };
        let Ok(top) = Vdev::from_list(list) else { continue };
        let known = tops.get(&top.id).map(|(txg, _)| *txg);
        if top.id < TOP_LEVEL_MAX && known.is_none_or(|txg| txg < member.txg) {
            tops.insert(top.id, (member.txg, top));
        }
    }
    let newest = members.iter().filter(|member| member.txg != 0).max_by_key(|one| one.txg)?;
    let config = Rc::clone(&newest.config);
    let state = newest.state;
    let tops: BTreeMap<u64, Vdev> = tops.into_iter().map(|(id, (_, top))| (id, top)).collect();
    let belong: BTreeSet<u64> =
        tops.values().flat_map(Vdev::leaves).map(|leaf| leaf.guid).collect();
    // Two devices may bear one GUID, where one is a copy: the newer counts, of equal ones the first.
    let mut by_guid: BTreeMap<u64, Member> = BTreeMap::new();
    let mut copies = Vec::new();
    for member in members.into_iter().filter(|member| belong.contains(&member.guid)) {
        let known = by_guid.get(&member.guid).map(Member::age);
        if known.is_none_or(|age| age < member.age()) {
            copies.extend(by_guid.insert(member.guid, member));
        } else {
            copies.push(member);
        }
    }
    let holes = config.u64s("hole_array").ok().flatten().unwrap_or_default().len() as u64;
    let listed = config.u64("vdev_children").ok().flatten().unwrap_or(0).min(TOP_LEVEL_MAX);
    let highest = tops.keys().next_back().map_or(0, |id| id + 1);
    let name = config.text("name").ok().flatten().map_or(String::new(), ToString::to_string);
    let mut found = FoundPool {
        name,
        guid,
        state,
        config,
        tops,
        tops_expected: listed.max(highest).saturating_sub(holes),
        members: by_guid,
        copies,
        uberblock: None,
    };
    found.uberblock = found.uberblocks().into_iter().next();
    Some(found)
}
