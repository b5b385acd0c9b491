//! The vdevs of a pool: made from their configuration, and changed between transaction groups.

use super::build::{Builder, TreeError};
use super::failure::Errors;
use super::indirect::Indirect;
use super::leaf::{Dtl, Leaf, LeafState};
use super::suspend::Suspension;
use super::top::{Node, Top};
use rt::{DeviceRef, Rt};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use stdx::RangeSet;
use zfs_format::block_pointer::Dva;
use zfs_format::uberblock::RaidzReflow;
use zfs_format::vdev::indirect::MappingEntry;
use zfs_format::vdev::{Vdev, VdevKind};

/// The vdevs of a pool.
///
/// What they are changes between transaction groups: state and DTL of a leaf, and top-level vdevs. Who reads meanwhile has
/// the top-level vdev that was there when the read began.
pub struct Tree {
    pub(super) rt: Rt,
    pub(super) tops: RefCell<BTreeMap<u32, Rc<Top>>>,
    /// Dirty data in percent of its limit, by which the leaves' queues hurry.
    pub(super) dirty: Rc<Cell<u64>>,
    suspension: Rc<Suspension>,
    /// Flushes that failed, and were not borne.
    pub(super) flushes_failed: Cell<u64>,
}

impl Tree {
    /// The tree of these top-level vdevs over these devices, by the GUIDs of the leaves. A leaf without a device is
    /// absent.
    ///
    /// # Errors
    /// The configuration can't be, or is of a kind that is not known.
    pub fn open(
        rt: &Rt,
        configs: &[Vdev],
        devices: &BTreeMap<u64, DeviceRef>,
    ) -> Result<Tree, TreeError> {
        let (tops, dirty, suspension, flushes_failed) = Default::default();
        let tree = Tree { rt: rt.clone(), tops, dirty, suspension, flushes_failed };
        for config in configs {
            let (id, top) = tree.made_top(config, devices, &BTreeMap::new())?;
            if tree.tops.borrow_mut().insert(id, Rc::new(top)).is_some() {
                return Err(TreeError::Twice(config.id));
            }
        }
        Ok(tree)
    }

    /// Whether the pool is suspended.
    pub fn suspension(&self) -> &Rc<Suspension> {
        &self.suspension
    }

    /// Flushes that failed until now, and were not borne. Whoever has one between a write and the flush that is to make it durable knows
    /// nothing of the write: what a flush that fails drops, a later one does not bring back.
    pub fn flushes_failed(&self) -> u64 {
        self.flushes_failed.get()
    }

    fn made_top(
        &self,
        config: &Vdev,
        devices: &BTreeMap<u64, DeviceRef>,
        known: &BTreeMap<u64, Rc<Leaf>>,
    ) -> Result<(u32, Top), TreeError> {
        let id = u32::try_from(config.id).ok().filter(|id| *id < 1 << 24);
        let id = id.ok_or(TreeError::Number(config.id))?;
        let builder = Builder {
            rt: &self.rt,
            devices,
            known,
            dirty: &self.dirty,
            leaves: Vec::new(),
            spares: Vec::new(),
            id: config.id,
            draid: None,
        };
        Ok((id, builder.top(config)?))
    }

    /// Puts a top-level vdev in, or another in its place. Leaves that the tree knows stay what they are, with their
    /// errors and DTLs, unless a device is given for them.
    ///
    /// # Errors
    /// The configuration can't be, or is of a kind that is not known; the tree is as it was.
    pub fn set_top(
        &self,
        config: &Vdev,
        devices: &BTreeMap<u64, DeviceRef>,
    ) -> Result<(), TreeError> {
        let known = self.leaves().into_iter().filter(|leaf| !devices.contains_key(&leaf.guid));
        let known = known.map(|leaf| (leaf.guid, leaf)).collect();
        let (id, top) = self.made_top(config, devices, &known)?;
        self.tops.borrow_mut().insert(id, Rc::new(top));
        Ok(())
    }

    /// Takes a top-level vdev out.
    pub fn remove_top(&self, number: u32) {
        self.tops.borrow_mut().remove(&number);
    }

    pub(super) fn top(&self, number: u32) -> Option<Rc<Top>> {
        self.tops.borrow().get(&number).cloned()
    }

    pub(super) fn leaves(&self) -> Vec<Rc<Leaf>> {
        self.tops.borrow().values().flat_map(|top| top.leaves.iter().cloned()).collect()
    }

    fn leaf(&self, guid: u64) -> Option<Rc<Leaf>> {
        self.leaves().into_iter().find(|leaf| leaf.guid == guid)
    }

    /// Says how far the expansion of a raidz came: what the uberblock says by which the pool was opened. It
    /// concerns the raidz whose configuration says that it is being expanded.
    pub fn set_reflow(&self, reflow: RaidzReflow) {
        for top in self.tops.borrow().values() {
            if let Node::Raidz(raidz) = &top.node {
                raidz.set_reflow(reflow);
            }
        }
    }

    /// Says which transaction groups a leaf misses: its dirty time log (DTL). Nothing happens where there is no such leaf.
    ///
    /// What is known of that lies in the pool, which was read until then as if nothing were missing: wrong bytes that one gave that
    /// misses something are not counted.
    pub fn set_dtl(&self, leaf: u64, txgs: RangeSet) {
        if let Some(known) = self.leaf(leaf).filter(|_| !txgs.is_empty()) {
            known.errors.set(Errors { checksum: 0, ..known.errors.get() });
        }
        self.with_dtl(leaf, |dtl| dtl.set(txgs));
    }

    /// Takes note of transaction groups that were written without a leaf.
    pub fn add_to_dtl(&self, leaf: u64, txgs: Range<u64>) {
        self.with_dtl(leaf, |dtl| dtl.add(txgs));
    }

    /// Which transaction groups a leaf misses; nothing where there is no such leaf.
    pub fn dtl(&self, leaf: u64) -> Option<RangeSet> {
        self.with_dtl(leaf, Dtl::txgs)
    }

    /// The leaves that are not written: away, offline, faulted.
    pub fn leaves_away(&self) -> Vec<u64> {
        let leaves = self.leaves().into_iter();
        leaves.filter(|leaf| leaf.state() != LeafState::Online).map(|leaf| leaf.guid).collect()
    }

    fn with_dtl<T>(&self, guid: u64, with: impl FnOnce(&Dtl) -> T) -> Option<T> {
        if let Some(leaf) = self.leaf(guid) {
            return Some(with(&leaf.dtl));
        }
        let tops = self.tops.borrow();
        let mut spares = tops.values().flat_map(|top| &top.spares);
        spares.find(|spare| spare.guid == guid).map(|spare| with(&spare.dtl))
    }

    /// Says whether a leaf can be used from here on. Without a device it stays absent. False where there is no such leaf.
    pub fn set_leaf_state(&self, leaf: u64, state: LeafState) -> bool {
        let leaf = self.leaf(leaf);
        leaf.is_some_and(|leaf| {
            leaf.set_state(state);
            true
        })
    }

    /// Says how much dirty data there is, in percent of its limit: the more, the more of it is written at once.
    pub fn set_dirty_percent(&self, percent: u64) {
        self.dirty.set(percent);
    }

    /// The numbers of the removed vdevs whose mapping is not known yet, and the objects that hold them.
    pub fn unmapped(&self) -> Vec<(u32, zfs_format::vdev::Indirect)> {
        let mut found = Vec::new();
        for (number, top) in &*self.tops.borrow() {
            if let (Node::Indirect(mapping), VdevKind::Indirect(objects)) =
                (&top.node, &top.config.kind)
                && mapping.borrow().is_none()
            {
                found.push((*number, *objects));
            }
        }
        found
    }

    /// Says where the blocks of a removed vdev lie now: the entries of its mapping, in the order of the object.
    /// Until then they can't be read.
    ///
    /// # Errors
    /// The vdev was not removed, or the entries are not in order.
    pub fn set_indirect(&self, vdev: u32, entries: &[MappingEntry]) -> Result<(), TreeError> {
        match self.top(vdev).as_deref().map(|top| &top.node) {
            Some(Node::Indirect(mapping)) => {
                let new = Indirect::new(entries).ok_or(TreeError::Mapping(vdev))?;
                *mapping.borrow_mut() = Some(Rc::new(new));
                Ok(())
            }
            _ => Err(TreeError::NotIndirect(vdev)),
        }
    }

    /// The devices of the leaves that are there.
    pub fn devices(&self) -> Vec<DeviceRef> {
        self.leaves().iter().filter_map(|leaf| leaf.device()).collect()
    }

    /// Requests under way where a place lies, so that the less busy of several copies can be chosen.
    pub fn load(&self, dva: Dva) -> usize {
        self.top(dva.vdev()).map_or(0, |top| top.node.load())
    }
}
