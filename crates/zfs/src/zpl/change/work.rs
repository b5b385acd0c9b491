//! One change of files, as far as it is planned.
//!
//! ```text
//!   Work       edits of attributes by file, of tables by directory, and what else is to be done
//!   plan       Work grows; each part looks at memory only, and may need a block
//!   carry out  tables first, then attributes, then the rest; nothing of it can fail
//! ```

use super::super::attributes::change::{Edit, Laid, NewLayouts};
use super::super::attributes::{self, Attributes, Moment, Stored, flags, trivial};
use super::super::{FileSystem, VERSION_SYSTEM_ATTRIBUTES};
use crate::dmu::{Block, Dnode, Step, Tx};
use crate::error::{Problem, ZfsError};
use crate::zap::change::{self as zap, Plan};
use crate::zil::Itx;
use rt::Buf;
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::planted::{self, Bug};
use zfs_format::block_pointer::BlockPointer;
use zfs_format::dnode::Dnode as DnodePhys;
use zfs_format::nvlist::NvList;
use zfs_format::object_type::ObjectType;
use zfs_format::zap::leaf::LeafValue;
use zfs_format::zpl::acl;
use zfs_format::zpl::attributes::{Layouts, Name, names};
use zfs_format::zpl::directory::{DirectoryEntry, FileKind};
use zfs_format::zpl::owner;
use zfs_format::{Endian, FormatError};

/// Bytes of a dnode before its pointers, and of a pointer.
const DNODE_HEAD_BYTES: usize = 64 + 128;
/// Bytes of a sector.
const SECTOR: u64 = 512;
/// The first version whose directories say what their files are.
const VERSION_KINDS: u64 = 2;
/// Entries of a directory that has no names: `.` and `..`, which OpenZFS counts.
pub(crate) const EMPTY_DIRECTORY: u64 = 2;

/// A file that is to be made.
#[derive(Clone, Debug)]
pub struct NewFile {
    /// Its object.
    pub number: u64,
    /// Slots of its dnode.
    pub slots: usize,
    /// Kind of file and permissions.
    pub mode: u64,
    /// The owner.
    pub user: u64,
    /// The group.
    pub group: u64,
    /// The transaction group that made it.
    pub generation: u64,
    /// When.
    pub created: Moment,
    /// The number of a device node.
    pub device: u64,
    /// The text of a symbolic link.
    pub target: Option<Vec<u8>>,
}

/// Attributes that are to be set.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewAttributes {
    /// Permissions.
    pub permissions: Option<u32>,
    /// The owner.
    pub user: Option<u64>,
    /// The group.
    pub group: Option<u64>,
    /// Last read.
    pub accessed: Option<Moment>,
    /// Last written.
    pub modified: Option<Moment>,
    /// Last changed in any way.
    pub changed: Option<Moment>,
}

/// What else a file that is to be made has.
#[derive(Clone, Debug, Default)]
pub(crate) struct With {
    /// Extended attributes, as they are stored.
    pub(crate) list: Option<Vec<u8>>,
    /// It has no name.
    pub(crate) no_name: bool,
    /// Its bytes.
    pub(crate) content: Option<Buf>,
}

impl NewFile {
    pub(super) fn is_directory(&self) -> bool {
        FileKind::of_mode(self.mode) == Some(FileKind::Directory)
    }
}

/// What is done once all is planned.
type Act<'a> = Box<dyn FnOnce(&Tx) + 'a>;

/// What one change has planned so far.
pub(crate) struct Work<'a> {
    pub(super) files: &'a FileSystem,
    pub(super) known: Rc<Layouts>,
    layouts: NewLayouts,
    open: BTreeMap<u64, Open>,
    /// The table of files that have no name any more.
    pub(super) queue: Option<Plan>,
    pub(super) then: Vec<Act<'a>>,
    /// What the intent log is told of it.
    pub(crate) intents: Vec<Itx>,
    /// The group that the change joins.
    txg: u64,
}

/// A file that a change deals with.
pub(crate) struct Open {
    pub(crate) dnode: Dnode,
    /// What is known of it, as far as the change set it.
    pub(crate) attributes: Attributes,
    pub(super) edit: Edit,
    /// Its attributes as they are stored.
    pub(super) stored: Stored,
    /// Its list of extended attributes, where the change looked at it.
    pub(super) list: Option<NvList>,
    table: Option<Plan>,
    pub(super) is_changed: bool,
    pub(super) is_freed: bool,
}

impl<'a> Work<'a> {
    pub(super) fn new(files: &'a FileSystem, txg: u64) -> Work<'a> {
        let known = files.layouts();
        let layouts = NewLayouts::of(Rc::clone(&known));
        let (open, then, intents) = Default::default();
        Work { files, known, layouts, open, queue: None, then, intents, txg }
    }

    /// The group that the change joins: the generation of what it makes.
    pub(crate) fn txg(&self) -> u64 {
        self.txg
    }

    /// A number for a file that is to be made, and how many slots its dnode has.
    pub(crate) fn number(&self) -> Step<(u64, usize)> {
        let slots = self.files.dnode_slots();
        Ok((self.files.objset().plan_number(slots)?.0, slots))
    }

    /// The file system.
    pub(crate) fn files(&self) -> &'a FileSystem {
        self.files
    }

    pub(crate) fn wrong(&self, number: u64, problem: Problem) -> ZfsError {
        self.files.objset().wrong(number, problem)
    }

    pub(crate) fn file(&mut self, number: u64) -> Step<&mut Open> {
        if !self.open.contains_key(&number) {
            let dnode = self.files.objset().resident(number)?;
            let (attributes, stored) = attributes::resident(&dnode, &self.known)?;
            let edit = Edit::of(&dnode, &self.known)?;
            let (list, table, is_changed, is_freed) = (None, None, false, false);
            let open = Open { dnode, attributes, edit, stored, list, table, is_changed, is_freed };
            self.open.insert(number, open);
        }
        let absent = self.files.objset().wrong(number, Problem::Absent);
        let open = self.open.get_mut(&number).filter(|open| !open.is_freed);
        Ok(open.ok_or(absent)?)
    }

    pub(super) fn table(&mut self, directory: u64) -> Step<&mut Plan> {
        let problem = self.wrong(directory, Problem::NotDirectory);
        let open = self.file(directory)?;
        if open.attributes.kind != FileKind::Directory {
            return Err(problem.into());
        }
        if open.table.is_none() {
            open.table = Some(Plan::of(&open.dnode)?);
        }
        Ok(open.table.as_mut().ok_or(problem)?)
    }

    pub(crate) fn entry(&mut self, directory: u64, name: &[u8]) -> Step<Option<DirectoryEntry>> {
        let problem = self.wrong(directory, Problem::Entry("of a file"));
        let meant = self.files.name_rules().meant();
        let Some(value) = self.table(directory)?.get_as(name, meant)? else { return Ok(None) };
        Ok(Some(DirectoryEntry::from_value(value.number().ok_or(problem)?)))
    }

    /// Sets numbers of a file.
    pub(crate) fn set(&mut self, number: u64, values: &[(Name, u64)]) -> Step<()> {
        let objset = self.files.objset();
        let open = self.file(number)?;
        open.is_changed = true;
        for (name, value) in values {
            open.edit.set(*name, *value).map_err(|problem| objset.wrong(number, problem))?;
        }
        Ok(())
    }

    /// Sets times of a file, where they come after what they are.
    pub(crate) fn touch(&mut self, number: u64, when: Moment, modified: bool) -> Step<()> {
        let objset = self.files.objset();
        let open = self.file(number)?;
        open.is_changed = true;
        let wrong = |problem| objset.wrong(number, problem);
        let a = &mut open.attributes;
        a.changed = a.changed.max(when);
        open.edit.set(names::CHANGED, a.changed.words()).map_err(wrong)?;
        if modified {
            a.modified = a.modified.max(when);
            open.edit.set(names::MODIFIED, a.modified.words()).map_err(wrong)?;
        }
        Ok(())
    }

    /// A directory has so many names, and so many directories, more than before.
    pub(crate) fn count(&mut self, directory: u64, names_more: i64, links_more: i64) -> Step<()> {
        let a = &mut self.file(directory)?.attributes;
        a.size = a.size.saturating_add_signed(names_more);
        let is_counted = !planted::nth(Bug::LinksNotCounted, 5);
        a.links = a.links.saturating_add_signed(if is_counted { links_more } else { 0 });
        let (size, links) = (a.size, a.links);
        self.set(directory, &[(names::SIZE, size), (names::LINKS, links)])
    }

    /// A name leads to a file.
    pub(crate) fn put(&mut self, directory: u64, name: &[u8], entry: DirectoryEntry) -> Step<()> {
        let knows_kinds = self.files.version() >= VERSION_KINDS;
        let entry = DirectoryEntry { kind: entry.kind.filter(|_| knows_kinds), ..entry };
        let value = LeafValue { number_bytes: 8, numbers: vec![entry.to_value()] };
        let meant = self.files.name_rules().meant();
        self.table(directory)?.set_as(name, value, meant)
    }

    /// A name that is there goes.
    pub(crate) fn take(&mut self, directory: u64, name: &[u8]) -> Step<()> {
        let problem = self.wrong(directory, Problem::NoName);
        let meant = self.files.name_rules().meant();
        let was_there = self.table(directory)?.remove_as(name, meant)?;
        if was_there { Ok(()) } else { Err(problem.into()) }
    }

    /// Carries out what was planned.
    pub(super) fn carry_out(self, tx: &Tx) -> Step<()> {
        let Work { files, mut layouts, open, queue, then, intents, .. } = self;
        let objset = files.objset();
        let mut tables: Vec<zap::Ready> = Vec::new();
        if let Some(queue) = queue {
            tables.push(queue.ready()?);
        }
        let mut edits: Vec<(Dnode, Laid)> = Vec::new();
        for (number, open) in open {
            if open.is_freed {
                continue;
            }
            if let Some(table) = open.table {
                tables.push(table.ready()?);
            }
            if open.is_changed {
                let laid = open.edit.lay_out(&mut layouts);
                let laid = laid.map_err(|problem| objset.wrong(number, problem))?;
                edits.push((open.dnode, laid));
            }
        }
        let layouts = layouts.ready(objset, files.layouts_table())?;
        // From here on nothing fails.
        if let Some((known, table)) = layouts {
            table.carry_out(tx);
            files.set_layouts(known);
        }
        for table in tables {
            table.carry_out(tx);
        }
        for (dnode, laid) in edits {
            laid.carry_out(&dnode, tx);
        }
        for act in then {
            act(tx);
        }
        files.logged(tx.txg().0, intents);
        Ok(())
    }
}

impl Work<'_> {
    /// Makes a file's object.
    pub(crate) fn make(&mut self, parent: u64, new: &NewFile, marks: u64) -> Step<()> {
        self.make_with(parent, new, marks, &With::default())
    }

    /// The same with more than a new file has.
    pub(crate) fn make_with(
        &mut self,
        parent: u64,
        new: &NewFile,
        marks: u64,
        with: &With,
    ) -> Step<()> {
        let objset = self.files.objset();
        let endian = objset.plan_allocate(new.number, new.slots)?;
        let (project, inherits) = self.project_of_new(parent, new)?;
        let marks = marks | inherits;
        let laid = self.first_attributes(parent, new, (marks, project), with, endian);
        let laid = laid.map_err(|problem| objset.wrong(new.number, problem))?;
        let is_directory = new.is_directory();
        let number = new.number;
        let object_type = match is_directory {
            true => ObjectType::DIRECTORY_CONTENTS,
            false => ObjectType::PLAIN_FILE_CONTENTS,
        };
        let bonus_type = self.bonus_type();
        // A file of one block has one as long as itself, up to the record size.
        let content = with.content.clone().filter(|content| !content.bytes().is_empty());
        let record = self.files.record_bytes();
        let bytes = content.as_ref().map_or(0, |content| content.len() as u64);
        let block = bytes.clamp(1, record).next_multiple_of(SECTOR);
        let phys = DnodePhys {
            object_type,
            indirect_shift: 17,
            levels: 1,
            bonus_type,
            checksum: 0,
            compression: 0,
            flags: 0,
            data_block_sectors: (block / SECTOR) as u16,
            extra_slots: (new.slots - 1) as u8,
            block_id_max: 0,
            used: 0,
            pointers: vec![BlockPointer::HOLE],
            bonus: Vec::new(),
            spill: None,
        };
        // OpenZFS salts a table by its place in memory and the object; any number does.
        let salt = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        // All directories of a file system normalise alike.
        let normalization = match number == self.files.root_number() {
            true => self.files.name_rules().of_tables(),
            false => Plan::of(&objset.resident(self.files.root_number())?)?.normalization(),
        };
        self.then.push(Box::new(move |tx| {
            let dnode = objset.allocate(tx, number, phys, endian);
            laid.carry_out(&dnode, tx);
            if is_directory {
                let bytes = zap::empty(salt, normalization, endian);
                dnode.put(tx, 0, Block { bytes, endian });
            }
            let pieces = content.iter().flat_map(|content| content.bytes().chunks(block as usize));
            for (number, piece) in (0..).zip(pieces) {
                let mut bytes = piece.to_vec();
                bytes.resize(block as usize, 0);
                dnode.put(tx, number, Block { bytes: Buf::copy_of(&bytes), endian });
            }
        }));
        Ok(())
    }

    /// The project of a file that is to be made, where it has one, and the flags that say so. It is its directory's where
    /// that hands it down.
    pub(crate) fn project_of_new(
        &mut self,
        parent: u64,
        new: &NewFile,
    ) -> Step<(Option<u64>, u64)> {
        let counts = self.files.objset().counted().is_some_and(|counted| counted.projects);
        let kind = FileKind::of_mode(new.mode);
        let has_one = matches!(kind, Some(FileKind::File | FileKind::Directory));
        if !counts || !has_one || self.bonus_type() != ObjectType::SA {
            return Ok((None, 0));
        }
        // The root directory is made in no other.
        let handed_down = match parent == new.number {
            true => None,
            false => self.file(parent)?.attributes.handed_down(),
        };
        let inherits = if handed_down.is_some() { owner::PROJECT_INHERIT } else { 0 };
        Ok((Some(handed_down.unwrap_or(0)), owner::PROJECT | inherits))
    }

    /// Gives a file or directory a project of its own; and says whether a directory hands it down.
    pub(crate) fn set_project(
        &mut self,
        file: u64,
        project: Option<u64>,
        hands_down: Option<bool>,
    ) -> Step<()> {
        let counts = self.files.objset().counted().is_some_and(|counted| counted.projects);
        let problem = self.wrong(file, Problem::NoEntry("of projects"));
        let objset = self.files.objset();
        let open = self.file(file)?;
        let has_one = matches!(open.attributes.kind, FileKind::File | FileKind::Directory);
        if !counts || !has_one || open.dnode.phys().bonus_type != ObjectType::SA {
            return Err(problem.into());
        }
        open.is_changed = true;
        let wrong = |problem| objset.wrong(file, problem);
        if let Some(project) = project {
            open.attributes.project = project;
            open.attributes.flags |= owner::PROJECT;
            open.edit.set_project(project).map_err(wrong)?;
        }
        match hands_down {
            Some(true) => open.attributes.flags |= owner::PROJECT_INHERIT,
            Some(false) => open.attributes.flags &= !owner::PROJECT_INHERIT,
            None => {}
        }
        open.edit.set(names::FLAGS, open.attributes.flags).map_err(wrong)?;
        Ok(())
    }

    fn bonus_type(&self) -> ObjectType {
        match self.files.version() >= VERSION_SYSTEM_ATTRIBUTES {
            true => ObjectType::SA,
            false => ObjectType::ZNODE,
        }
    }

    /// The attributes of a new file, in OpenZFS's order.
    fn first_attributes(
        &mut self,
        parent: u64,
        new: &NewFile,
        (marks, project): (u64, Option<u64>),
        with: &With,
        endian: Endian,
    ) -> Result<Laid, Problem> {
        let room = (new.slots * SECTOR as usize).saturating_sub(DNODE_HEAD_BYTES);
        let kind = self.bonus_type();
        let mut edit = Edit::new(kind, &self.known, endian, room);
        let is_directory = new.is_directory();
        let target = new.target.as_deref();
        let content = with.content.as_ref().map_or(0, Buf::len);
        let size = match is_directory {
            true => EMPTY_DIRECTORY,
            false => target.map_or(content, <[u8]>::len) as u64,
        };
        edit.set(names::MODE, new.mode)?;
        edit.set(names::SIZE, size)?;
        edit.set(names::GENERATION, new.generation)?;
        edit.set(names::USER, new.user)?;
        edit.set(names::GROUP, new.group)?;
        edit.set(names::PARENT, parent)?;
        edit.set(names::FLAGS, marks | flags::TRIVIAL | flags::NEW)?;
        for name in [names::ACCESSED, names::MODIFIED, names::CHANGED, names::CREATED] {
            edit.set(name, new.created.words())?;
        }
        let links = if is_directory { 2u64 } else { 1 };
        edit.set(names::LINKS, if with.no_name { 0 } else { links })?;
        // Who counts projects finds it at this place.
        if let Some(project) = project {
            edit.set(names::PROJECT, project)?;
        }
        let is_device = matches!(
            FileKind::of_mode(new.mode),
            Some(FileKind::BlockDevice | FileKind::CharacterDevice)
        );
        if is_device || kind == ObjectType::ZNODE {
            edit.set(names::DEVICE, new.device)?;
        }
        if kind == ObjectType::SA {
            set_trivial_list(&mut edit, new.mode as u32, is_directory, endian)?;
        }
        if let Some(target) = target {
            edit.set_bytes(names::SYMBOLIC_LINK, target.to_vec())?;
        }
        if let Some(list) = &with.list {
            edit.set_bytes(names::EXTENDED_ATTRIBUTE_LIST, list.clone())?;
        }
        edit.lay_out(&mut self.layouts)
    }

    pub(crate) fn write(&mut self, file: u64, at: u64, bytes: &Buf, end: u64) -> Step<()> {
        let open = self.file(file)?;
        let (dnode, size) = (open.dnode.clone(), open.attributes.size);
        let covers = at.checked_add(bytes.len() as u64);
        let covers = covers.ok_or_else(|| dnode.problem(Problem::NoRoom("what is written")))?;
        let grown = self.grown(file, covers)?;
        // A first block that grows is put down whole before.
        if grown.is_none() {
            dnode.plan_write(at..covers)?;
        }
        if size < end {
            self.set_size(file, end)?;
        }
        let bytes = bytes.clone();
        self.then.push(Box::new(move |tx| {
            if let Some(block) = grown {
                dnode.put_only(tx, block);
            }
            dnode.write(tx, at, &bytes);
        }));
        Ok(())
    }

    /// The first block as it is to be before a file of one block gets so long: such a file has a block as long as itself, up to
    /// the record size. Nothing where it stays.
    fn grown(&mut self, file: u64, covers: u64) -> Step<Option<Block>> {
        let record = self.files.record_bytes();
        let open = self.file(file)?;
        let (dnode, size) = (open.dnode.clone(), open.attributes.size);
        let block = dnode.block_bytes();
        // One that is longer than its only block keeps that, as with OpenZFS.
        let is_small = dnode.phys().block_id_max == 0 && block < record && size <= block;
        if !is_small || covers <= block {
            return Ok(None);
        }
        let bytes = covers.min(record).next_multiple_of(SECTOR);
        dnode.plan_block_bytes(bytes)?;
        Ok(Some(dnode.resident(0)?.grown(bytes as usize)))
    }

    fn set_size(&mut self, file: u64, size: u64) -> Step<()> {
        self.file(file)?.attributes.size = size;
        self.set(file, &[(names::SIZE, size)])
    }

    /// A file is so long: what lies behind is gone.
    pub(crate) fn resize(&mut self, file: u64, size: u64) -> Step<()> {
        let known = self.file(file)?.attributes.size;
        match size < known {
            true => self.zero(file, size, u64::MAX)?,
            false => self.lengthen(file, size)?,
        }
        self.set_size(file, size)
    }

    /// A file gets longer without being written: its block does now, or whoever writes it next finds it too long for that, and all of it
    /// is of short blocks.
    fn lengthen(&mut self, file: u64, size: u64) -> Step<()> {
        let Some(block) = self.grown(file, size)?.filter(|_| !planted::is(Bug::LengthenedShort))
        else {
            return Ok(());
        };
        let dnode = self.file(file)?.dnode.clone();
        let has_none = dnode.is_hole(0)?;
        self.then.push(Box::new(move |tx| match has_none {
            true => dnode.set_block_bytes(tx, block.bytes.len() as u64),
            false => dnode.put_only(tx, block),
        }));
        Ok(())
    }

    pub(crate) fn zero(&mut self, file: u64, from: u64, to: u64) -> Step<()> {
        let dnode = self.file(file)?.dnode.clone();
        dnode.plan_zero(from..to)?;
        self.then.push(Box::new(move |tx| dnode.zero(tx, from..to)));
        Ok(())
    }

    pub(crate) fn set_attributes(&mut self, file: u64, new: NewAttributes) -> Step<()> {
        let files = self.files;
        let open = self.file(file)?;
        open.is_changed = true;
        let wrong = |problem| files.objset().wrong(file, problem);
        let mut set = || -> Result<(), Problem> {
            if let Some(permissions) = new.permissions {
                let a = &open.attributes;
                let mode = u32::from(a.kind.code()) << 12 | permissions & 0o7777;
                open.edit.set(names::MODE, u64::from(mode))?;
                // A list that somebody gave stays.
                if a.flags & flags::TRIVIAL != 0 && open.dnode.phys().bonus_type == ObjectType::SA {
                    let is_directory = a.kind == FileKind::Directory;
                    set_trivial_list(&mut open.edit, mode, is_directory, open.dnode.endian())?;
                }
            }
            for (name, value) in [(names::USER, new.user), (names::GROUP, new.group)] {
                if let Some(value) = value {
                    open.edit.set(name, value)?;
                }
            }
            let times = [
                (names::ACCESSED, new.accessed),
                (names::MODIFIED, new.modified),
                (names::CHANGED, new.changed),
            ];
            for (name, moment) in times {
                if let Some(moment) = moment {
                    open.edit.set(name, moment.words())?;
                }
            }
            Ok(())
        };
        Ok(set().map_err(wrong)?)
    }
}

fn set_trivial_list(
    edit: &mut Edit,
    mode: u32,
    is_directory: bool,
    endian: Endian,
) -> Result<(), Problem> {
    let entries = trivial::entries(mode, is_directory);
    let list = acl::encode(&entries, endian);
    let list = list.map_err(|_: FormatError| Problem::Entry("of a list of access"))?;
    edit.set(names::ACL_COUNT, entries.len() as u64)?;
    edit.set_bytes(names::ACL, list)
}
