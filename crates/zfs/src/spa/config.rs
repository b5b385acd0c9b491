//! The configuration of a pool that is written: in the MOS whole, in each label what its device needs.
//!
//! Source: OpenZFS, `spa_config.c` (`spa_config_generate`), `vdev_label.c` (`vdev_label_init`).

use zfs_format::nvlist::{NvList, Text, Value};
use zfs_format::vdev::{Vdev, VdevKind};

/// How a pool is left, as labels say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelState {
    /// Open, or never closed.
    Active = 0,
    /// Closed for another host to open.
    Exported = 1,
    /// Destroyed.
    Destroyed = 2,
}

/// What a pool's configuration is made of.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// The version of its format: 28, or 5000 where it has features.
    pub version: u64,
    /// Its name.
    pub name: String,
    /// Its GUID.
    pub guid: u64,
    /// How it is left.
    pub state: LabelState,
    /// The host that has it open: number, 0 where it has none, and name.
    pub host: Option<(u64, String)>,
    /// A remark of the user's.
    pub comment: Option<String>,
    /// Which features may be enabled: names of files.
    pub compatibility: Option<String>,
    /// Its vdevs: a root.
    pub root: Vdev,
    /// Features in use that reading needs, by their names on disk.
    pub features_for_read: Vec<String>,
}

impl PoolConfig {
    fn head(&self, txg: u64) -> NvList {
        let mut list = NvList::default();
        list.set("version", Value::Uint64(self.version));
        list.set("name", Value::String(Text::from(self.name.as_str())));
        list.set("state", Value::Uint64(self.state as u64));
        list.set("txg", Value::Uint64(txg));
        list.set("pool_guid", Value::Uint64(self.guid));
        list.set("errata", Value::Uint64(0));
        if let Some(comment) = &self.comment {
            list.set("comment", Value::String(Text::from(comment.as_str())));
        }
        if let Some(compatibility) = &self.compatibility {
            list.set("compatibility", Value::String(Text::from(compatibility.as_str())));
        }
        if let Some((number, name)) = &self.host {
            if *number != 0 {
                list.set("hostid", Value::Uint64(*number));
            }
            list.set("hostname", Value::String(Text::from(name.as_str())));
        }
        list
    }

    /// How many top-level vdevs there are, and which numbers none has any more: a label has the tree of its own alone.
    fn set_tops(&self, list: &mut NvList) {
        let tops = &self.root.children;
        let holes = tops.iter().filter(|top| top.kind == VdevKind::Hole).map(|top| top.id);
        let holes: Vec<u64> = holes.collect();
        if !holes.is_empty() {
            list.set("hole_array", Value::Uint64Array(holes));
        }
        list.set("vdev_children", Value::Uint64(tops.len() as u64));
    }

    fn features(&self) -> NvList {
        let mut features = NvList::default();
        for name in &self.features_for_read {
            features.set(name, Value::Boolean);
        }
        features
    }

    /// The list in the MOS.
    pub fn for_mos(&self, txg: u64) -> NvList {
        let mut list = self.head(txg);
        list.set("com.delphix:has_per_vdev_zaps", Value::Boolean);
        self.set_tops(&mut list);
        list.set("vdev_tree", Value::NvList(self.root.to_list()));
        list.set("features_for_read", Value::NvList(self.features()));
        list
    }

    /// The list in the labels of a leaf; nothing where the top-level vdev has no such leaf.
    pub fn for_label(&self, txg: u64, top: u32, leaf: u64) -> Option<NvList> {
        let top = self.root.children.iter().find(|child| child.id == u64::from(top))?;
        top.leaves().iter().find(|found| found.guid == leaf)?;
        let mut list = self.head(txg);
        list.set("top_guid", Value::Uint64(top.guid));
        list.set("guid", Value::Uint64(leaf));
        self.set_tops(&mut list);
        list.set("vdev_tree", Value::NvList(top.to_list()));
        list.set("features_for_read", Value::NvList(self.features()));
        Some(list)
    }

    /// The sum of the GUIDs of all vdevs, by which one sees whether all are there.
    pub fn guid_sum(&self) -> u64 {
        fn sum(vdev: &Vdev) -> u64 {
            let own = if vdev.kind == VdevKind::Root { 0 } else { vdev.guid };
            vdev.children.iter().map(sum).fold(own, u64::wrapping_add)
        }
        sum(&self.root).wrapping_add(self.guid)
    }
}
