//! Vdev trees: how devices make a pool, as nvlists in labels and in the MOS's configuration.
//!
//! A node has a type, a number among its siblings and a GUID; then what its type needs: a path for leaves, a parity for
//! raidz and dRAID, objects of the mapping for a removed vdev ([`indirect`]). A label holds the tree of its own
//! top-level vdev only; the configuration in the MOS holds all under a root.
//!
//! Names that are not known here are kept, and written behind those that are. Trees are bounded in depth by the
//! list they come from, and in the number of nodes ([`NODES_MAX`]).
//!
//! Source: OpenZFS, `vdev_label.c`, `vdev_raidz.c`, `vdev_draid.c`, `fs/zfs.h`.

pub mod indirect;

use crate::nvlist::{NvList, Text, Value};
use crate::wire::record;
use stdx::bytes::{FormatError, Problem};

/// Nodes of a tree that are taken: more than any pool has devices.
pub const NODES_MAX: usize = 1 << 16;
const NAME: &str = "vdev tree";

/// What a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VdevKind {
    /// The root of all top-level vdevs.
    Root,
    /// A block device.
    Disk,
    /// A file.
    File,
    /// Copies.
    Mirror,
    /// A copy that is being replaced, and its replacement.
    Replacing,
    /// A copy and the spare that stands in for it.
    Spare,
    /// Data and parity.
    Raidz(Raidz),
    /// Data, parity and spare space, spread over all.
    Draid(Draid),
    /// Spare space of a dRAID, as a leaf.
    DraidSpare,
    /// A vdev that was removed: its blocks lie elsewhere.
    Indirect(Indirect),
    /// A number that no vdev has any more.
    Hole,
    /// A vdev that is not there.
    Missing,
    /// A device for the intent log, in old configurations.
    Log,
    /// A cache device.
    L2cache,
    /// Something else.
    Other(Text),
}

/// A raidz.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raidz {
    /// 1 to 3.
    pub parity: u64,
    /// Whether a device is being added right now.
    pub expanding: bool,
    /// The transaction groups from which on it had one device more: older blocks are laid out over fewer.
    pub expand_txgs: Vec<u64>,
}

/// A dRAID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draid {
    /// 1 to 3.
    pub parity: u64,
    /// Data columns of a group.
    pub data: u64,
    /// Distributed spares.
    pub spares: u64,
    /// Groups that make whole rows.
    pub groups: u64,
}

/// A removed vdev.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Indirect {
    /// The object of the mapping.
    pub mapping: u64,
    /// The object of births.
    pub births: u64,
    /// The vdev that was removed before it; nothing if none.
    pub previous: Option<u64>,
}

/// A node of a vdev tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Vdev {
    /// What it is.
    pub kind: VdevKind,
    /// Its number among its siblings.
    pub id: u64,
    /// Its GUID.
    pub guid: u64,
    /// Where the leaf was last.
    pub path: Option<Text>,
    /// Bytes of the smallest write, as a power of two; of a top-level vdev.
    pub ashift: Option<u64>,
    /// Bytes that can be allocated; of a top-level vdev.
    pub asize: Option<u64>,
    /// The object with the numbers of the metaslabs' space maps.
    pub metaslab_array: Option<u64>,
    /// Bytes of a metaslab, as a power of two.
    pub metaslab_shift: Option<u64>,
    /// Whether it is for the intent log.
    pub is_log: Option<u64>,
    /// `special`, `dedup` or `log`, where the space is for that.
    pub allocation_bias: Option<Text>,
    /// The space map of what a leaf misses.
    pub dtl: Option<u64>,
    /// The transaction group that added it.
    pub create_txg: Option<u64>,
    /// What it is made of.
    pub children: Vec<Vdev>,
    /// All other names and values: `whole_disk`, `offline`, ZAPs, …
    pub other: Vec<(Text, Value)>,
}

record! {
    /// How far the rebuild of a mirror or dRAID came; from a top-level vdev's ZAP, by
    /// [`Record::from_numbers`](crate::wire::Record::from_numbers).
    Rebuild = "rebuild", 96, {
        /// 0 none, 1 active, 2 cancelled, 3 complete.
        state: u64,
        /// The last offset that is rebuilt.
        last_offset: u64,
        /// The first transaction group that was missing.
        min_txg: u64,
        /// The last.
        max_txg: u64,
        /// When it began, in seconds since 1970.
        start_time: u64,
        /// When it ended, in seconds since 1970.
        end_time: u64,
        /// How long it ran, in milliseconds.
        scan_time_ms: u64,
        /// Bytes that were gone through.
        bytes_scanned: u64,
        /// Bytes that were read.
        bytes_issued: u64,
        /// Bytes that were written.
        bytes_rebuilt: u64,
        /// Bytes in all, as guessed.
        bytes_estimated: u64,
        /// Errors.
        errors: u64,
    }
}

impl Vdev {
    /// One of which nothing is known but what it is, its number and its GUID.
    pub fn new(kind: VdevKind, id: u64, guid: u64) -> Vdev {
        Vdev {
            kind,
            id,
            guid,
            path: None,
            ashift: None,
            asize: None,
            metaslab_array: None,
            metaslab_shift: None,
            is_log: None,
            allocation_bias: None,
            dtl: None,
            create_txg: None,
            children: Vec::new(),
            other: Vec::new(),
        }
    }

    /// A number among its other names.
    pub fn other_number(&self, name: &str) -> Option<u64> {
        let found = self.other.iter().find(|(known, _)| *known == *name);
        match found.map(|(_, value)| value) {
            Some(Value::Uint64(number)) => Some(*number),
            _ => None,
        }
    }

    /// Takes a tree from its list.
    ///
    /// # Errors
    /// A node lacks type, number or GUID, or what its type needs; a value is of another type; there are too many.
    pub fn from_list(list: &NvList) -> Result<Vdev, FormatError> {
        Self::read(list, &mut 0)
    }

    fn read(list: &NvList, nodes: &mut usize) -> Result<Vdev, FormatError> {
        *nodes += 1;
        if *nodes > NODES_MAX {
            let problem = Problem::Limit { found: *nodes as u64, limit: NODES_MAX as u64 };
            return Err(FormatError { structure: NAME, field: "nodes", offset: 0, problem });
        }
        let needed = |field| missing(list.u64(field)?, field);
        let kind = missing(list.text("type")?, "type")?;
        let mut known = vec![
            "type",
            "id",
            "guid",
            "path",
            "ashift",
            "asize",
            "metaslab_array",
            "metaslab_shift",
            "is_log",
            "alloc_bias",
            "DTL",
            "create_txg",
            "children",
        ];
        let kind = match kind.as_str().unwrap_or_default() {
            "root" => VdevKind::Root,
            "disk" => VdevKind::Disk,
            "file" => VdevKind::File,
            "mirror" => VdevKind::Mirror,
            "replacing" => VdevKind::Replacing,
            "spare" => VdevKind::Spare,
            "raidz" => {
                known.extend(["nparity", "raidz_expanding", "raidz_expand_txgs"]);
                VdevKind::Raidz(Raidz {
                    // Pools from before double parity don't say.
                    parity: parity(list.u64("nparity")?.unwrap_or(1))?,
                    expanding: list.has("raidz_expanding"),
                    expand_txgs: list.u64s("raidz_expand_txgs")?.unwrap_or_default().to_vec(),
                })
            }
            "draid" => {
                known.extend(["nparity", "draid_ndata", "draid_nspares", "draid_ngroups"]);
                VdevKind::Draid(Draid {
                    parity: parity(needed("nparity")?)?,
                    data: needed("draid_ndata")?,
                    spares: needed("draid_nspares")?,
                    groups: needed("draid_ngroups")?,
                })
            }
            "dspare" => VdevKind::DraidSpare,
            "indirect" => {
                known.extend([MAPPING, BIRTHS, PREVIOUS]);
                VdevKind::Indirect(Indirect {
                    mapping: needed(MAPPING)?,
                    births: needed(BIRTHS)?,
                    previous: list.u64(PREVIOUS)?,
                })
            }
            "hole" => VdevKind::Hole,
            "missing" => VdevKind::Missing,
            "log" => VdevKind::Log,
            "l2cache" => VdevKind::L2cache,
            _ => VdevKind::Other(kind.clone()),
        };
        let children = list.lists("children")?.unwrap_or_default();
        let is_known = |name: &Text| known.iter().any(|known| *name == **known);
        Ok(Vdev {
            kind,
            id: needed("id")?,
            guid: needed("guid")?,
            path: list.text("path")?.cloned(),
            ashift: list.u64("ashift")?,
            asize: list.u64("asize")?,
            metaslab_array: list.u64("metaslab_array")?,
            metaslab_shift: list.u64("metaslab_shift")?,
            is_log: list.u64("is_log")?,
            allocation_bias: list.text("alloc_bias")?.cloned(),
            dtl: list.u64("DTL")?,
            create_txg: list.u64("create_txg")?,
            children: children
                .iter()
                .map(|child| Self::read(child, nodes))
                .collect::<Result<_, _>>()?,
            other: list.pairs.iter().filter(|(name, _)| !is_known(name)).cloned().collect(),
        })
    }

    /// The list of the tree.
    pub fn to_list(&self) -> NvList {
        let mut list = NvList::default();
        let name = match &self.kind {
            VdevKind::Root => "root",
            VdevKind::Disk => "disk",
            VdevKind::File => "file",
            VdevKind::Mirror => "mirror",
            VdevKind::Replacing => "replacing",
            VdevKind::Spare => "spare",
            VdevKind::Raidz(_) => "raidz",
            VdevKind::Draid(_) => "draid",
            VdevKind::DraidSpare => "dspare",
            VdevKind::Indirect(_) => "indirect",
            VdevKind::Hole => "hole",
            VdevKind::Missing => "missing",
            VdevKind::Log => "log",
            VdevKind::L2cache => "l2cache",
            VdevKind::Other(_) => "",
        };
        let name = match &self.kind {
            VdevKind::Other(other) => other.clone(),
            _ => Text::from(name),
        };
        list.set("type", Value::String(name));
        let mut number = |name, value: Option<u64>| {
            if let Some(value) = value {
                list.set(name, Value::Uint64(value));
            }
        };
        number("id", Some(self.id));
        number("guid", Some(self.guid));
        match &self.kind {
            VdevKind::Raidz(raidz) => number("nparity", Some(raidz.parity)),
            VdevKind::Draid(draid) => {
                number("nparity", Some(draid.parity));
                number("draid_ndata", Some(draid.data));
                number("draid_nspares", Some(draid.spares));
                number("draid_ngroups", Some(draid.groups));
            }
            VdevKind::Indirect(indirect) => {
                number(MAPPING, Some(indirect.mapping));
                number(BIRTHS, Some(indirect.births));
                number(PREVIOUS, indirect.previous);
            }
            _ => {}
        }
        number("metaslab_array", self.metaslab_array);
        number("metaslab_shift", self.metaslab_shift);
        number("ashift", self.ashift);
        number("asize", self.asize);
        number("is_log", self.is_log);
        number("DTL", self.dtl);
        number("create_txg", self.create_txg);
        if let VdevKind::Raidz(raidz) = &self.kind {
            if raidz.expanding {
                list.set("raidz_expanding", Value::Boolean);
            }
            if !raidz.expand_txgs.is_empty() {
                list.set("raidz_expand_txgs", Value::Uint64Array(raidz.expand_txgs.clone()));
            }
        }
        for (name, text) in [("path", &self.path), ("alloc_bias", &self.allocation_bias)] {
            if let Some(text) = text {
                list.set(name, Value::String(text.clone()));
            }
        }
        list.pairs.extend(self.other.iter().cloned());
        // OpenZFS writes the empty list of a removed vdev too.
        if !self.children.is_empty() || matches!(self.kind, VdevKind::Indirect(_)) {
            let children = self.children.iter().map(Vdev::to_list).collect();
            list.set("children", Value::NvListArray(children));
        }
        list
    }

    /// Whether it is for intent logs alone: no data lies there.
    pub fn is_for_logs(&self) -> bool {
        self.is_log.unwrap_or(0) != 0
    }

    /// Whether it stands on a device of its own.
    pub fn is_leaf(&self) -> bool {
        use VdevKind::{Disk, DraidSpare, File, L2cache};
        matches!(self.kind, Disk | File | DraidSpare | L2cache)
    }

    /// Whether a top-level vdev is there: not one that was removed, nor a number that none has.
    pub fn is_there(&self) -> bool {
        !matches!(self.kind, VdevKind::Indirect(_) | VdevKind::Hole | VdevKind::Missing)
    }

    /// The leaves below, from left to right.
    pub fn leaves(&self) -> Vec<&Vdev> {
        if self.is_leaf() {
            return vec![self];
        }
        self.children.iter().flat_map(Vdev::leaves).collect()
    }
}

const MAPPING: &str = "com.delphix:indirect_object";
const BIRTHS: &str = "com.delphix:indirect_births";
const PREVIOUS: &str = "com.delphix:prev_indirect_vdev";

fn missing<T>(found: Option<T>, field: &'static str) -> Result<T, FormatError> {
    found.ok_or(FormatError { structure: NAME, field, offset: 0, problem: Problem::Missing })
}

fn parity(parity: u64) -> Result<u64, FormatError> {
    match parity {
        1..=3 => Ok(parity),
        other => Err(FormatError {
            structure: NAME,
            field: "nparity",
            offset: 0,
            problem: Problem::Value(other),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(id: u64) -> Vdev {
        Vdev {
            path: Some(Text::from("/a/b")),
            dtl: Some(4),
            create_txg: Some(5),
            other: vec![(Text::from("offline"), Value::Uint64(1))],
            ..Vdev::new(VdevKind::File, id, 100 + id)
        }
    }

    #[test]
    fn trees_of_every_kind_come_out_as_they_went_in() {
        crate::wire::checks::holds_for_any_bytes::<Rebuild>();
        let raidz = Raidz { parity: 2, expanding: true, expand_txgs: vec![7, 9] };
        let draid = Draid { parity: 1, data: 2, spares: 1, groups: 5 };
        let indirect = Indirect { mapping: 1, births: 2, previous: Some(0) };
        for kind in [
            VdevKind::Root,
            VdevKind::Disk,
            VdevKind::Mirror,
            VdevKind::Replacing,
            VdevKind::Spare,
            VdevKind::Raidz(raidz),
            VdevKind::Draid(draid),
            VdevKind::DraidSpare,
            VdevKind::Indirect(indirect),
            VdevKind::Hole,
            VdevKind::Missing,
            VdevKind::Log,
            VdevKind::L2cache,
            VdevKind::Other(Text::from("new")),
        ] {
            let top = Vdev { kind, ashift: Some(12), children: vec![leaf(0), leaf(1)], ..leaf(3) };
            let tree = Vdev { kind: VdevKind::Root, children: vec![top], ..leaf(0) };
            assert_eq!(Vdev::from_list(&tree.to_list()), Ok(tree));
        }
    }

    #[test]
    fn what_a_type_needs_must_be_there() {
        let draid = Draid { parity: 1, data: 2, spares: 1, groups: 5 };
        let mut list = Vdev { kind: VdevKind::Draid(draid), ..leaf(0) }.to_list();
        list.remove("draid_ndata");
        let error = Vdev::from_list(&list).expect_err("it is missing");
        assert_eq!((error.field, error.problem), ("draid_ndata", Problem::Missing));
        list.set("draid_ndata", Value::Uint64(1));
        list.set("nparity", Value::Uint64(4));
        assert_eq!(Vdev::from_list(&list).expect_err("no parity").problem, Problem::Value(4));
        list.set("nparity", Value::Boolean);
        assert_eq!(Vdev::from_list(&list).expect_err("no number").problem, Problem::Type);
    }
}
