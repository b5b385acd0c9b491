//! Vdevs: from a place in the pool to bytes on devices.
//!
//! ```text
//!   Tree ── top-level vdev ─┬─ Mirror: disk, file, mirror          one leaf, or several with the same bytes
//!    (by number)            ├─ Raidz, Draid                        children with data and parity; each is a Mirror
//!                           ├─ sides                               a mirror of such as these, in tests of OpenZFS
//!                           ├─ indirect                            removed: its blocks lie on other top-levels
//!                           └─ none                                a hole, or a top-level that nobody described
//! ```
//!
//! **A read.** [`Tree::read`] is given a place, a size and what the bytes should come to ([`Expected`]). A vdev
//! makes the bytes in the cheapest way; where they are wrong it tries its others: the other copies, or
//! reconstruction with each combination of columns taken for wrong, as far as the parity reaches. What is returned
//! is right, or it is an error.
//!
//! **A write** (`write`) goes to all of them that should hold it.
//!
//! **Rules.**
//!
//! 1. What comes from a pointer or a configuration is checked here before it is computed with: sizes, offsets, numbers
//!    of vdevs. A bad one is an error, and isn't counted against a device.
//! 2. An error is counted on the leaf that gave it, or whose bytes turned out wrong. A block that can't be made is
//!    counted on its top-level vdev too.
//! 3. Stale and offline leaves are asked last. Reading writes nothing.
//! 4. Which top-levels are for logs, special or deduplicated blocks does not matter for reading.
//!
//! Source: OpenZFS, `vdev.c` and a file for each kind.

pub mod draid;
pub(crate) mod indirect;
pub mod label_io;
pub(crate) mod leaf;
pub(crate) mod mirror;
pub(crate) mod queue;
pub mod raidz;
pub mod report;
mod space;
pub(crate) mod striped;
mod verify;
pub mod write;

pub use label_io::{LABEL_PAIRS, LabelsWritten};
pub use leaf::{Errors, LeafState};
pub use queue::IoClass;
pub use report::{VdevHealth, VdevReport};
pub use write::{WriteAt, WriteError};

use crate::block::BlockErrorKind;
use crate::expected::Expected;
use draid::spare::{Family, SpareSpace};
use draid::{Draid, Layout};
use indirect::Indirect;
use leaf::{Dtl, Leaf};
use mirror::Mirror;
use raidz::Raidz;
use raidz::map::OFFSET_MAX;
use rt::{Buf, DeviceRef, IoErrorKind, Rt};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::rc::Rc;
use stdx::{ByteCount, RangeSet};
use striped::Striped;
use zfs_format::block_pointer::{BLOCK_BYTES_MAX, BlockPointer, Dva};
use zfs_format::nvlist::Value;
use zfs_format::uberblock::RaidzReflow;
use zfs_format::vdev::indirect::MappingEntry;
use zfs_format::vdev::{Vdev, VdevKind};
use zfs_format::{FormatError, Problem, Record};

/// The least and the greatest sector of a vdev, as powers of two.
const ASHIFTS: RangeInclusive<u64> = 9..=16;
/// Children of one vdev: what the coefficients of parity reach for.
const CHILDREN_MAX: usize = 255;

/// The configuration's name for which of its dRAID's spares a leaf is.
const SPARE_NUMBER: &str = "spareid";
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

/// The vdevs of a pool.
///
/// What they are changes between transaction groups: state and DTL of a leaf, and top-level vdevs. Who reads meanwhile has
/// the top-level vdev that was there when the read began.
pub struct Tree {
    rt: Rt,
    tops: RefCell<BTreeMap<u32, Rc<Top>>>,
    /// Dirty data in percent of its limit, by which the leaves' queues hurry.
    dirty: Rc<Cell<u64>>,
}

/// A top-level vdev.
struct Top {
    /// As it was described.
    config: Vdev,
    ashift: u32,
    node: Node,
    /// All leaves below it.
    leaves: Vec<Rc<Leaf>>,
    spares: Vec<Rc<SpareSpace>>,
    /// Blocks that could not be made.
    errors: Cell<Errors>,
}

enum Node {
    Mirror(Mirror),
    Raidz(Raidz),
    Draid(Draid),
    /// A mirror whose sides are more than leaves: nobody makes them but OpenZFS's `ztest`.
    Sides(Vec<Node>),
    Indirect(RefCell<Option<Rc<Indirect>>>),
    Nothing,
}

/// What a read is for.
pub(crate) struct Ask<'a> {
    pub(crate) rt: &'a Rt,
    /// The transaction group in which the copies were written.
    pub(crate) birth: u64,
    pub(crate) class: IoClass,
    /// Bytes that count; what is read is as long or longer, in whole sectors.
    pub(crate) size: usize,
    pub(crate) expected: &'a Expected,
}

impl Ask<'_> {
    /// Counts that a leaf gave wrong bytes. Not of an intent log, where that is how its end is found.
    pub(crate) fn blame(&self, leaf: &Leaf) {
        if !self.may_be_wrong() {
            leaf.lied(self.birth);
        }
    }

    /// Whether there may be nothing right to be read.
    fn may_be_wrong(&self) -> bool {
        matches!(self.expected, Expected::LogBlock(_))
    }

    /// Whether these are the bytes; computed elsewhere where they are many.
    pub(crate) async fn holds(&self, bytes: &Buf) -> bool {
        if matches!(self.expected, Expected::Anything) {
            return true;
        }
        let (expected, bytes) = (self.expected.clone(), bytes.slice(0..self.size));
        let work = expected.work(ByteCount(bytes.len() as u64));
        self.rt.compute(work, move || expected.holds(bytes.bytes())).await
    }
}

/// Why a vdev could not make a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Too many devices are missing.
    Missing,
    /// Too much could not be read.
    Io(IoErrorKind),
    /// Everything was read, and there is no way to make the right bytes of it.
    Checksum,
}

impl Failure {
    /// The one of two that says more.
    pub(crate) fn or(self, other: Failure) -> Failure {
        match (self, other) {
            (Failure::Checksum, _) | (_, Failure::Missing) => self,
            _ => other,
        }
    }

    /// As an error of the top-level vdev of this number.
    pub(crate) fn of(self, number: u32) -> BlockErrorKind {
        match self {
            Failure::Missing => BlockErrorKind::Missing(number),
            Failure::Io(kind) => BlockErrorKind::Io(kind),
            Failure::Checksum => BlockErrorKind::Checksum,
        }
    }
}

/// What is read, and how.
#[derive(Clone, Debug)]
pub struct ReadAt {
    /// The place.
    pub dva: Dva,
    /// Bytes that are wanted: those of the block, without parity and padding.
    pub size: u64,
    /// The transaction group in which it was written there: [`BlockPointer::physical_birth`].
    pub birth: u64,
    /// What the bytes should come to.
    pub expected: Expected,
    /// Whose reading it is.
    pub class: IoClass,
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
        let tree = Tree { rt: rt.clone(), tops: RefCell::default(), dirty: Rc::default() };
        for config in configs {
            let (id, top) = tree.made_top(config, devices, &BTreeMap::new())?;
            if tree.tops.borrow_mut().insert(id, Rc::new(top)).is_some() {
                return Err(TreeError::Twice(config.id));
            }
        }
        Ok(tree)
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

    fn top(&self, number: u32) -> Option<Rc<Top>> {
        self.tops.borrow().get(&number).cloned()
    }

    fn leaves(&self) -> Vec<Rc<Leaf>> {
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
    pub fn set_dtl(&self, leaf: u64, txgs: RangeSet) {
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

    /// Requests under way where a place lies, so that the less busy of several copies can be chosen.
    pub fn load(&self, dva: Dva) -> usize {
        self.top(dva.vdev()).map_or(0, |top| top.node.load())
    }

    /// Reads a block at one of its places.
    ///
    /// # Errors
    /// The place can't be, or the block can't be made of what is there: see [`BlockErrorKind`].
    pub async fn read(&self, read: &ReadAt) -> Result<Buf, BlockErrorKind> {
        let ask = self.ask(read)?;
        let bytes = self.read_from(read.dva.vdev(), read.dva.offset(), &ask).await?;
        Ok(if bytes.len() == ask.size { bytes } else { bytes.slice(0..ask.size) })
    }

    /// What is asked of the vdevs below, with a size that can be.
    fn ask<'a>(&'a self, read: &'a ReadAt) -> Result<Ask<'a>, BlockErrorKind> {
        let ReadAt { size, birth, ref expected, class, .. } = *read;
        if size == 0 || size > BLOCK_BYTES_MAX {
            return Err(wrong("physical size", size));
        }
        Ok(Ask { rt: &self.rt, birth, class, size: size as usize, expected })
    }

    /// Reads from a top-level vdev, in whole sectors of it.
    async fn read_from(
        &self,
        number: u32,
        offset: u64,
        ask: &Ask<'_>,
    ) -> Result<Buf, BlockErrorKind> {
        let (top, size) = self.top_at(number, offset, ask)?;
        if let Node::Indirect(mapping) = &top.node {
            let mapping = mapping.borrow().clone().ok_or(BlockErrorKind::Missing(number))?;
            return self.read_indirect(&mapping, offset, ask).await;
        }
        top.made(number, offset, ask, top.node.read(offset, size, ask).await)
    }

    /// The top-level vdev of a place that can be, and bytes of whole sectors of it.
    fn top_at(
        &self,
        number: u32,
        offset: u64,
        ask: &Ask<'_>,
    ) -> Result<(Rc<Top>, usize), BlockErrorKind> {
        let top = self.top(number).ok_or(BlockErrorKind::NoVdev(number))?;
        let sector = 1_u64 << top.ashift;
        if offset >= OFFSET_MAX || !offset.is_multiple_of(sector) {
            return Err(wrong("offset", offset));
        }
        Ok((top, ask.size.next_multiple_of(sector as usize)))
    }
}

impl Top {
    /// What the vdev made of a block, if one can begin there. A failure is counted on it.
    fn made<T>(
        &self,
        number: u32,
        offset: u64,
        ask: &Ask<'_>,
        result: Option<Result<T, Failure>>,
    ) -> Result<T, BlockErrorKind> {
        let Some(result) = result else { return Err(wrong("offset", offset)) };
        result.map_err(|failure| {
            let mut errors = self.errors.get();
            match failure {
                Failure::Checksum if ask.may_be_wrong() => {}
                Failure::Checksum => errors.checksum += 1,
                Failure::Io(IoErrorKind::Invalid) => {}
                Failure::Io(_) | Failure::Missing => errors.read += 1,
            }
            self.errors.set(errors);
            failure.of(number)
        })
    }
}

impl Node {
    /// Reads a block; nothing where none can begin there.
    async fn read(&self, offset: u64, size: usize, ask: &Ask<'_>) -> Option<Result<Buf, Failure>> {
        match self {
            Node::Mirror(mirror) => Some(mirror.read(offset, size, ask).await),
            Node::Raidz(raidz) => Some(raidz.read(offset, size, ask).await),
            Node::Draid(draid) => draid.read(offset, size, ask).await,
            Node::Sides(sides) => {
                let mut failure = Failure::Missing;
                for side in sides {
                    match Box::pin(side.read(offset, size, ask)).await? {
                        Ok(bytes) => return Some(Ok(bytes)),
                        Err(other) => failure = failure.or(other),
                    }
                }
                Some(Err(failure))
            }
            Node::Indirect(_) | Node::Nothing => Some(Err(Failure::Missing)),
        }
    }

    /// Requests under way on what would be asked.
    fn load(&self) -> usize {
        match self {
            Node::Mirror(mirror) => mirror.load(),
            Node::Raidz(raidz) => raidz.striped.load(),
            Node::Draid(draid) => draid.striped.load(),
            Node::Sides(sides) => sides.first().map_or(0, Node::load),
            Node::Indirect(_) | Node::Nothing => 0,
        }
    }
}

/// A pointer that can't be followed.
fn wrong(field: &'static str, value: u64) -> BlockErrorKind {
    let (structure, problem) = (BlockPointer::NAME, Problem::Value(value));
    BlockErrorKind::Format(FormatError { structure, field, offset: 0, problem })
}

/// Makes the parts of a tree from their descriptions.
struct Builder<'a> {
    rt: &'a Rt,
    devices: &'a BTreeMap<u64, DeviceRef>,
    /// Leaves that are there already.
    known: &'a BTreeMap<u64, Rc<Leaf>>,
    dirty: &'a Rc<Cell<u64>>,
    leaves: Vec<Rc<Leaf>>,
    spares: Vec<Rc<SpareSpace>>,
    /// The top-level vdev that is being made.
    id: u64,
    /// What spare space below it refers to, where it is a dRAID.
    draid: Option<(Rc<Layout>, Family)>,
}

impl Builder<'_> {
    fn top(mut self, config: &Vdev) -> Result<Top, TreeError> {
        let node = self.node(config, config)?;
        let ashift = match &node {
            // Pointers into a removed vdev are in its own sectors, which may not be stated any more.
            Node::Indirect(_) | Node::Nothing => *ASHIFTS.start() as u32,
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
            other => return Err(TreeError::Kind { id: self.id, kind: report::kind_name(other) }),
        }
        Ok(())
    }
}
