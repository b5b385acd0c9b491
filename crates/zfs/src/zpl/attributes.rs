//! What is known of a file, whichever way it is stored. Changing it is in `change`.

pub(super) mod change;
pub(super) mod trivial;

use crate::dmu::{Block, Dnode, Step};
use crate::error::{Problem, ZfsError};
use smallvec::SmallVec;
use std::rc::Rc;
use zfs_format::dnode::Dnode as DnodePhys;
use zfs_format::object_type::ObjectType;
use zfs_format::wire::{Reader, Record, Wire};
use zfs_format::zpl::Fuid;
use zfs_format::zpl::acl::ZnodeAcl;
use zfs_format::zpl::attributes::{Layouts, Name, Places, names};
use zfs_format::zpl::directory::FileKind;
use zfs_format::zpl::owner;
use zfs_format::zpl::znode::Znode;
use zfs_format::{Endian, FormatError};

/// A moment: seconds since 1970, which may lie before it, and nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// Whole seconds.
    pub seconds: i64,
    /// Nanoseconds beyond them.
    pub nanoseconds: u32,
}

impl Moment {
    pub(crate) fn of(words: [u64; 2]) -> Moment {
        Moment { seconds: words[0] as i64, nanoseconds: words[1] as u32 }
    }

    /// As it is stored.
    pub(crate) fn words(self) -> [u64; 2] {
        [self.seconds as u64, self.nanoseconds.into()]
    }

    /// Nanoseconds since 1970.
    pub fn nanoseconds_since_1970(self) -> i128 {
        i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nanoseconds)
    }
}

/// Flags of files ([`Attributes::flags`]).
pub(super) mod flags {
    /// It is an attribute, or the directory of them.
    pub(in super::super) const ATTRIBUTE: u64 = 1;
    /// Its list of access says what the mode says.
    pub(in super::super) const TRIVIAL: u64 = 4;
    /// To be archived, and changed since a scan: of all new files.
    pub(in super::super) const NEW: u64 = 0x0000_0408_0000_0000;
}

/// What is known of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// What it is.
    pub kind: FileKind,
    /// Permissions, the lowest 12 bits of the mode.
    pub permissions: u32,
    /// The owner.
    pub user: Fuid,
    /// The group.
    pub group: Fuid,
    /// Bytes of a file or link; entries of a directory.
    pub size: u64,
    /// How many names it has.
    pub links: u64,
    /// Last read.
    pub accessed: Moment,
    /// Last written.
    pub modified: Moment,
    /// Last changed, attributes included.
    pub changed: Moment,
    /// Made.
    pub created: Moment,
    /// The transaction group that made it.
    pub generation: u64,
    /// The directory.
    pub parent: u64,
    /// The number of a device node.
    pub device: u64,
    /// Attributes that are on or off.
    pub flags: u64,
    /// The directory of extended attributes; 0 for none.
    pub extended_attributes: u64,
    /// The project; 0 for none.
    pub project: u64,
    /// The list of access of a file system before version 5.
    pub acl: Option<ZnodeAcl>,
}

impl Attributes {
    /// The mode as `stat` shows it: kind and permissions.
    pub fn mode(&self) -> u32 {
        u32::from(self.kind.code()) << 12 | self.permissions
    }

    /// Whether it is an extended attribute, or the hidden directory of a file's.
    pub fn is_attribute(&self) -> bool {
        self.flags & flags::ATTRIBUTE != 0
    }

    /// The project that a directory hands down to what is made in it.
    pub fn handed_down(&self) -> Option<u64> {
        (self.flags & owner::PROJECT_INHERIT != 0).then_some(self.project)
    }

    /// Major and minor number of a device node, as Linux stored them: 12 and 20 bits; or 32 and 32, as others did.
    pub fn device_numbers(&self) -> (u32, u32) {
        match self.device >> 32 {
            0 => ((self.device >> 20) as u32 & 0xfff, self.device as u32 & 0xf_ffff),
            major => (major as u32, self.device as u32),
        }
    }
}

/// Kind and permissions of a mode.
fn split_mode(mode: u64) -> Option<(FileKind, u32)> {
    FileKind::from_code((mode >> 12) as u8 & 0xf).map(|kind| (kind, mode as u32 & 0o7777))
}

/// The bytes of a file's system attributes, as they stood when it was asked for: shared with its dnode, not copied.
#[derive(Clone)]
pub(super) struct Stored {
    phys: Rc<DnodePhys>,
    endian: Endian,
    spill: Option<Block>,
    layouts: Rc<Layouts>,
}

impl Stored {
    /// The bytes of an attribute. What stands in the spill block counts.
    pub(super) fn get(&self, name: Name) -> Option<&[u8]> {
        if self.phys.bonus_type != ObjectType::SA {
            return None;
        }
        let number = self.layouts.number(name)?;
        let find = |bytes, endian| {
            let mut places = Places::of(bytes, endian, &self.layouts).ok()?.flatten();
            let (_, place) = places.find(|(of, _)| *of == number)?;
            bytes.get(place)
        };
        let spilled = self.spill.as_ref().and_then(|spill| find(spill.bytes.bytes(), spill.endian));
        spilled.or_else(|| find(&self.phys.bonus, self.endian))
    }
}

/// Reads a file's attributes, and where their bytes are.
pub(super) async fn read(
    dnode: &Dnode,
    layouts: &Rc<Layouts>,
) -> Result<(Attributes, Stored), ZfsError> {
    loop {
        let version = dnode.version();
        let spill = dnode.spill().await?;
        // Bonus and spill block are to be of one moment.
        if version == dnode.version() {
            return decode(dnode, spill, layouts);
        }
    }
}

/// The same without waiting.
pub(super) fn resident(dnode: &Dnode, layouts: &Rc<Layouts>) -> Step<(Attributes, Stored)> {
    let spill = dnode.resident_spill()?;
    Ok(decode(dnode, spill, layouts)?)
}

fn decode(
    dnode: &Dnode,
    spill: Option<Block>,
    layouts: &Rc<Layouts>,
) -> Result<(Attributes, Stored), ZfsError> {
    let (phys, endian) = (dnode.phys(), dnode.endian());
    let attributes = match phys.bonus_type {
        ObjectType::ZNODE => {
            let znode = Znode::decode(&phys.bonus, endian).map_err(|error| dnode.wrong(error))?;
            of_znode(dnode, znode)?
        }
        ObjectType::SA => {
            let (mut found, object) = (SmallVec::new(), dnode);
            let parts = spill.iter().map(|spill| (spill.bytes.bytes(), spill.endian));
            for (bytes, endian) in [(&phys.bonus[..], endian)].into_iter().chain(parts) {
                let places = Places::of(bytes, endian, layouts);
                for place in places.map_err(|error| dnode.wrong(error))? {
                    let (number, place) = place.map_err(|error| dnode.wrong(error))?;
                    found.push((number, &bytes[place], endian));
                }
            }
            of_system(&Found { object, layouts, found })?
        }
        found => {
            let expected = "a file's attributes";
            return Err(dnode.problem(Problem::Type { found, expected }));
        }
    };
    let layouts = Rc::clone(layouts);
    Ok((attributes, Stored { phys, endian, spill, layouts }))
}

struct Found<'a> {
    object: &'a Dnode,
    layouts: &'a Layouts,
    /// Number, bytes and their order: of the bonus, then of the spill block, which counts.
    found: SmallVec<[(u16, &'a [u8], Endian); 24]>,
}

impl Found<'_> {
    fn get<T: Wire>(&self, name: Name) -> Result<Option<T>, ZfsError> {
        let Some(number) = self.layouts.number(name) else { return Ok(None) };
        let found = self.found.iter().rev().find(|(of, ..)| *of == number);
        let Some((_, bytes, endian)) = found else { return Ok(None) };
        let value = Reader::new("system attributes", bytes, *endian).get(name.text());
        value.map(Some).map_err(|error| self.object.wrong(error))
    }

    fn needed<T: Wire>(&self, name: Name) -> Result<T, ZfsError> {
        let problem = zfs_format::Problem::Missing;
        let structure = "system attributes";
        let error = FormatError { structure, field: name.text(), offset: 0, problem };
        self.get(name)?.ok_or_else(|| self.object.wrong(error))
    }
}

fn of_system(found: &Found<'_>) -> Result<Attributes, ZfsError> {
    let mode: u64 = found.needed(names::MODE)?;
    let (kind, permissions) = split_mode(mode).ok_or_else(|| bad_mode(found.object, mode))?;
    let moment = |name| found.get::<[u64; 2]>(name).map(|m| Moment::of(m.unwrap_or_default()));
    Ok(Attributes {
        kind,
        permissions,
        user: Fuid(found.needed(names::USER)?),
        group: Fuid(found.needed(names::GROUP)?),
        size: found.needed(names::SIZE)?,
        links: found.get(names::LINKS)?.unwrap_or(1),
        accessed: moment(names::ACCESSED)?,
        modified: moment(names::MODIFIED)?,
        changed: moment(names::CHANGED)?,
        created: moment(names::CREATED)?,
        generation: found.get(names::GENERATION)?.unwrap_or(0),
        parent: found.get(names::PARENT)?.unwrap_or(0),
        device: found.get(names::DEVICE)?.unwrap_or(0),
        flags: found.get(names::FLAGS)?.unwrap_or(0),
        extended_attributes: found.get(names::EXTENDED_ATTRIBUTES)?.unwrap_or(0),
        project: found.get(names::PROJECT)?.unwrap_or(0),
        acl: found.get(names::ZNODE_ACL)?,
    })
}

fn of_znode(object: &Dnode, znode: Znode) -> Result<Attributes, ZfsError> {
    let (kind, permissions) = split_mode(znode.mode).ok_or_else(|| bad_mode(object, znode.mode))?;
    Ok(Attributes {
        kind,
        permissions,
        user: Fuid(znode.uid),
        group: Fuid(znode.gid),
        size: znode.size,
        links: znode.links,
        accessed: Moment::of(znode.accessed),
        modified: Moment::of(znode.modified),
        changed: Moment::of(znode.changed),
        created: Moment::of(znode.created),
        generation: znode.generation,
        parent: znode.parent,
        device: znode.device,
        flags: znode.flags,
        extended_attributes: znode.extended_attributes,
        project: 0,
        acl: Some(znode.acl),
    })
}

fn bad_mode(object: &Dnode, mode: u64) -> ZfsError {
    let problem = zfs_format::Problem::Value(mode);
    object.wrong(FormatError { structure: "attributes", field: "mode", offset: 0, problem })
}

/// The text of a link that stands behind a znode, in the bonus.
pub(super) fn link_in_bonus(object: &Dnode, size: u64) -> Option<Vec<u8>> {
    let phys = object.phys();
    if phys.bonus_type != ObjectType::ZNODE {
        return None;
    }
    let end = usize::try_from(size).ok()?.checked_add(Znode::BYTES)?;
    phys.bonus.get(Znode::BYTES..end).map(<[u8]>::to_vec)
}
