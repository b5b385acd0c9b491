//! Making the parts of a tree from their descriptions, which may be forged: what can't be is an error.

use super::draid::layout::Layout;
use super::draid::{Draid, SPARE_NUMBER};
use super::leaf::{Dtl, Leaf};
use super::mirror::{Family, Mirror, SpareSpace};
use super::raidz::Raidz;
use super::striped::Striped;
use super::top::{Node, Top};
use rt::{DeviceRef, Rt};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::rc::Rc;
use zfs_format::nvlist::Value;
use zfs_format::vdev::{Vdev, VdevKind};

/// The least and the greatest sector of a vdev, as powers of two.
const ASHIFTS: RangeInclusive<u64> = 9..=16;
/// Children of one vdev: what the coefficients of parity reach for.
const CHILDREN_MAX: usize = 255;

/// The configuration's name for the children of a failure domain, in a dRAID that has them.
const DRAID_DOMAINS: &str = "draid_nchildren";

/// A tree that can't be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// Two top-level vdevs have one number.
    #[error("two top-level vdevs have the number {0}")]
    Twice(u64),
    /// A number that no pointer can name.
    #[error("a top-level vdev has the number {0}, which no pointer can name")]
    Number(u64),
    /// The sector of a top-level vdev is not stated, or can't be.
    #[error("vdev {id}: its sector of 2^{ashift} bytes can't be")]
    Ashift {
        /// The vdev.
        id: u64,
        /// Bytes as a power of two; 0 where it is missing.
        ashift: u64,
    },
    /// It has too few children, or too many.
    #[error("vdev {id}: {children} children can't be")]
    Children {
        /// The vdev.
        id: u64,
        /// How many there are.
        children: usize,
    },
    /// A kind of vdev, or of child, that is not known.
    #[error("vdev {id}: a vdev of the kind {kind} is not supported")]
    Kind {
        /// The vdev.
        id: u64,
        /// What it says that it is.
        kind: String,
    },
    /// A dRAID of numbers that don't fit together.
    #[error(
        "vdev {0}: its numbers of groups, data, parity and spares don't fit its children, or it has failure domains"
    )]
    Draid(u64),
    /// There is no such vdev, or it is not of that kind.
    #[error("vdev {0} is not there, or was not removed")]
    NotIndirect(u32),
    /// A mapping that is not in order.
    #[error("vdev {0}: the entries of its mapping are not in order")]
    Mapping(u32),
}

/// Makes the parts of a tree from their descriptions.
pub(super) struct Builder<'a> {
    pub(super) rt: &'a Rt,
    pub(super) devices: &'a BTreeMap<u64, DeviceRef>,
    /// Leaves that are there already.
    pub(super) known: &'a BTreeMap<u64, Rc<Leaf>>,
    pub(super) dirty: &'a Rc<Cell<u64>>,
    pub(super) leaves: Vec<Rc<Leaf>>,
    pub(super) spares: Vec<Rc<SpareSpace>>,
    /// The top-level vdev that is being made.
    pub(super) id: u64,
    /// What spare space below it refers to, where it is a dRAID.
    pub(super) draid: Option<(Rc<Layout>, Family)>,
}

impl Builder<'_> {
    pub(super) fn top(mut self, config: &Vdev) -> Result<Top, TreeError> {
        let node = self.node(config, config)?;
        let ashift = match &node {
            // Its own sectors may not be stated any more: there they are the least that there are.
            Node::Indirect(_) | Node::Nothing => {
                self.ashift(config).unwrap_or(*ASHIFTS.start() as u32)
            }
            _ => self.ashift(config)?,
        };
        let (leaves, spares) = (self.leaves, self.spares);
        Ok(Top { config: config.clone(), ashift, node, leaves, spares, errors: Cell::default() })
    }

    /// A vdev of this top-level vdev, whose sectors count. Depth is bounded by the list from which the description came.
    fn node(&mut self, config: &Vdev, top: &Vdev) -> Result<Node, TreeError> {
        let striped = |child: &Vdev| matches!(child.kind, VdevKind::Raidz(_) | VdevKind::Draid(_));
        Ok(match &config.kind {
            VdevKind::Raidz(raidz) => {
                let striped = self.striped(config, raidz.parity as usize)?;
                let node = Raidz::new(striped, raidz, self.ashift(top)?);
                let children = config.children.len();
                Node::Raidz(node.ok_or(TreeError::Children { id: self.id, children })?)
            }
            VdevKind::Draid(draid) => {
                let domains = config.other.iter().any(|(name, _)| *name == *DRAID_DOMAINS);
                let layout = Layout::new(draid, config.children.len()).filter(|_| !domains);
                let layout = Rc::new(layout.ok_or(TreeError::Draid(self.id))?);
                let family = Family::default();
                self.draid = Some((Rc::clone(&layout), Rc::clone(&family)));
                let striped = self.striped(config, draid.parity as usize)?;
                family.set(Rc::downgrade(&striped.children)).expect("it is set once");
                Node::Draid(Draid { striped, layout, ashift: self.ashift(top)? })
            }
            VdevKind::Mirror if config.children.iter().any(striped) => {
                let sides = config.children.iter().map(|side| self.node(side, top));
                Node::Sides(sides.collect::<Result<_, _>>()?)
            }
            VdevKind::Indirect(_) => Node::Indirect(RefCell::default()),
            VdevKind::Hole | VdevKind::Missing => Node::Nothing,
            _ => Node::Mirror(self.mirror(config)?),
        })
    }

    fn ashift(&self, config: &Vdev) -> Result<u32, TreeError> {
        let ashift = config.ashift.unwrap_or(0);
        if ASHIFTS.contains(&ashift) {
            return Ok(ashift as u32);
        }
        Err(TreeError::Ashift { id: self.id, ashift })
    }

    fn striped(&mut self, config: &Vdev, parity: usize) -> Result<Striped, TreeError> {
        let children = config.children.len();
        if children <= parity || children > CHILDREN_MAX {
            return Err(TreeError::Children { id: self.id, children });
        }
        let children = config.children.iter().map(|child| self.mirror(child));
        Ok(Striped { children: Rc::new(children.collect::<Result<_, _>>()?), parity })
    }

    /// A leaf, or whatever holds the same bytes on several.
    fn mirror(&mut self, config: &Vdev) -> Result<Mirror, TreeError> {
        let mut mirror = Mirror::default();
        self.collect(config, &mut mirror)?;
        Ok(mirror)
    }

    /// Depth is bounded by the list from which the description came.
    fn collect(&mut self, config: &Vdev, into: &mut Mirror) -> Result<(), TreeError> {
        match &config.kind {
            VdevKind::Disk | VdevKind::File | VdevKind::Log => {
                let leaf = self.known.get(&config.guid).cloned().unwrap_or_else(|| {
                    let device = self.devices.get(&config.guid).cloned();
                    Rc::new(Leaf::new(self.rt, config, device, self.dirty))
                });
                self.leaves.push(Rc::clone(&leaf));
                into.leaves.push(leaf);
            }
            VdevKind::Mirror | VdevKind::Replacing | VdevKind::Spare => {
                for child in &config.children {
                    self.collect(child, into)?;
                }
            }
            VdevKind::DraidSpare => {
                let number = config.other.iter().find(|(name, _)| *name == *SPARE_NUMBER);
                // Without its number, or elsewhere than in its dRAID, nobody knows where it lies: it is absent.
                if let (Some((layout, family)), Some((_, Value::Uint64(number)))) =
                    (&self.draid, number)
                {
                    let space = Rc::new(SpareSpace {
                        guid: config.guid,
                        number: *number,
                        layout: Rc::clone(layout),
                        family: Rc::clone(family),
                        dtl: Dtl::default(),
                    });
                    self.spares.push(Rc::clone(&space));
                    into.spares.push(space);
                }
            }
            VdevKind::Missing | VdevKind::Hole => {}
            other => return Err(TreeError::Kind { id: self.id, kind: kind_name(other) }),
        }
        Ok(())
    }
}

/// The name of a kind as configurations have it.
fn kind_name(kind: &VdevKind) -> String {
    match kind {
        VdevKind::Other(other) => other.to_string(),
        VdevKind::Root => "root".into(),
        VdevKind::Raidz(_) => "raidz".into(),
        VdevKind::Draid(_) => "draid".into(),
        VdevKind::DraidSpare => "dspare".into(),
        VdevKind::Indirect(_) => "indirect".into(),
        VdevKind::L2cache => "l2cache".into(),
        other => format!("{other:?}").to_lowercase(),
    }
}
