//! What a group changes in what users, groups and projects take: reckoned from the dnodes that it writes.
//!
//! Each file of a file system counts for its [owner](Owner): its dnode with one slot's bytes and all that its blocks take
//! (`DNODE_MIN_SIZE + DN_USED_BYTES`); and, where objects are counted, as one. A dnode says itself by two flags what of it is
//! counted. So the difference that a group makes is, for each dnode that it writes or frees:
//!
//! ```text
//!   − the dnode as its block has it, as far as its flags say that it is counted
//!   + the dnode as it is written, which is counted from here on
//! ```
//!
//! The block of the meta-dnode has what the last group left, so nothing has to be remembered while the owner, the size or
//! the object itself changes, and a file that has several owners within a group counts for the last.
//!
//! What is no file (tables, the registry of attributes) bears the flags too, and counts for nobody. Neither do the
//! tables in which the sums stand: they are in the root block, and in no block of dnodes.
//!
//! Projects have no flag of their own: they are counted with space, in pools that count projects.
//!
//! **Not complete.** A file system that was not counted from its beginning counts what is written from now on, as its dnodes
//! say. Its root block does not say that all is counted (`OBJSET_FLAG_USERACCOUNTING_COMPLETE` and its like); OpenZFS
//! writes each dnode once, when it mounts such a file system, and then says so. Spindle leaves that to it.
//!
//! What is done with the difference is in [`dsl::accounts`](crate::dsl::accounts).
//!
//! Source: OpenZFS 2.1 to 2.4, `dmu_objset.c` (`userquota_updates_task`), `dnode_sync.c`.

use std::collections::BTreeMap;
use zfs_format::Endian;
use zfs_format::dnode::{Dnode as DnodePhys, SLOT_BYTES, flags};
use zfs_format::objset::{self, ObjsetSize};
use zfs_format::zpl::owner::Owner;

/// Tables of sums: by user, by group, by project.
pub const TABLES: usize = 3;

/// What is counted in a file system, beside the space of users and groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Objects (`userobj_accounting`).
    pub objects: bool,
    /// Projects (`project_quota`).
    pub projects: bool,
}

impl Counted {
    /// What a pool counts, by its features' short names.
    pub fn of_pool(is_enabled: impl Fn(&str) -> bool) -> Counted {
        Counted { objects: is_enabled(Counted::OBJECTS), projects: is_enabled(Counted::PROJECTS) }
    }

    /// The feature that counts objects.
    pub const OBJECTS: &'static str = "userobj_accounting";
    /// The feature that counts projects.
    pub const PROJECTS: &'static str = "project_quota";

    /// The features that a dataset uses which is counted so.
    pub fn features(self) -> impl Iterator<Item = &'static str> {
        let both = [(Counted::OBJECTS, self.objects), (Counted::PROJECTS, self.projects)];
        both.into_iter().filter(|(_, is_it)| *is_it).map(|(name, _)| name)
    }

    /// The flags of a root block of which all was counted from its beginning.
    pub fn complete(self) -> u64 {
        let objects = if self.objects { objset::flags::USER_OBJECT_ACCOUNTING } else { 0 };
        let projects = if self.projects { objset::flags::PROJECT_QUOTA } else { 0 };
        objset::flags::USER_ACCOUNTING | objects | projects
    }

    /// The flags of a dnode that is counted.
    pub(super) fn marks(self) -> u8 {
        let objects = if self.objects { flags::USER_OBJECT_ACCOUNTED } else { 0 };
        flags::USER_USED_ACCOUNTED | objects
    }

    /// The shortest root block that has room for the sums.
    pub(super) fn size(self) -> ObjsetSize {
        if self.projects { ObjsetSize::V3 } else { ObjsetSize::V2 }
    }
}

/// The name of a sum in its table: of space, or of objects.
pub fn key(id: u64, is_objects: bool) -> String {
    if is_objects { format!("obj-{id:x}") } else { format!("{id:x}") }
}

/// What changes in the sums.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    counts_projects: bool,
    changes: [BTreeMap<String, i64>; TABLES],
}

impl Tally {
    /// Nothing yet.
    pub fn of(counted: Counted) -> Tally {
        Tally { counts_projects: counted.projects, changes: Default::default() }
    }

    /// A dnode is there from here on, as it says that it is counted.
    pub fn add(&mut self, dnode: &DnodePhys, endian: Endian) {
        self.count(dnode, endian, 1);
    }

    /// A dnode is not there any more.
    pub fn take(&mut self, dnode: &DnodePhys, endian: Endian) {
        self.count(dnode, endian, -1);
    }

    /// How each table changes: by how much more or less there is under a name.
    pub fn changes(&self) -> [impl Iterator<Item = (&str, i64)>; TABLES] {
        self.changes.each_ref().map(|table| {
            let all = table.iter().map(|(name, change)| (name.as_str(), *change));
            all.filter(|(_, change)| *change != 0)
        })
    }

    fn count(&mut self, dnode: &DnodePhys, endian: Endian, sign: i64) {
        let Some(owner) = Owner::of_bonus(dnode.bonus_type, &dnode.bonus, endian) else { return };
        let is = |flag: u8| dnode.flags & flag != 0;
        let bytes = (SLOT_BYTES as u64).wrapping_add(dnode.used_bytes()) as i64;
        let amounts = [
            is(flags::USER_USED_ACCOUNTED).then_some((false, bytes)),
            is(flags::USER_OBJECT_ACCOUNTED).then_some((true, 1)),
        ];
        let ids =
            [Some(owner.user), Some(owner.group), self.counts_projects.then_some(owner.project)];
        for (is_objects, amount) in amounts.into_iter().flatten() {
            for (table, id) in self.changes.iter_mut().zip(ids) {
                let Some(id) = id else { continue };
                let sum = table.entry(key(id, is_objects)).or_default();
                *sum = sum.wrapping_add(amount.wrapping_mul(sign));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dmu::blank;
    use zfs_format::object_type::ObjectType;

    fn file(flags: u8, used: u64) -> DnodePhys {
        let mut bonus = vec![0x5a, 0x50, 0x2f, 0, 2, 8];
        bonus.resize(16 + 136, 0);
        (bonus[16 + 24], bonus[16 + 32]) = (10, 11);
        let bonus_type = ObjectType::SA;
        let of = blank::phys(ObjectType::PLAIN_FILE_CONTENTS, 1);
        DnodePhys { bonus_type, bonus, flags: flags | super::flags::USED_BYTES, used, ..of }
    }

    fn changes(tally: &Tally) -> Vec<Vec<(String, i64)>> {
        let all = tally.changes().into_iter();
        all.map(|table| table.map(|(name, change)| (name.to_owned(), change)).collect()).collect()
    }

    #[test]
    fn what_a_dnode_counts_for_follows_from_its_flags() {
        let counted = Counted { objects: true, projects: true };
        let mut tally = Tally::of(counted);
        tally.take(&file(0, 4096), Endian::Little);
        assert_eq!(changes(&tally), [[], [], []]);
        tally.add(&file(counted.marks(), 4096), Endian::Little);
        let sums = |id: &str| vec![(id.to_owned(), 4608), (format!("obj-{id}"), 1)];
        assert_eq!(changes(&tally), [sums("a"), sums("b"), sums("0")]);
        tally.take(&file(super::flags::USER_USED_ACCOUNTED, 4096), Endian::Little);
        let left = |id: &str| vec![(format!("obj-{id}"), 1)];
        assert_eq!(changes(&tally), [left("a"), left("b"), left("0")]);
    }

    #[test]
    fn what_is_no_file_counts_for_nobody() {
        let mut tally = Tally::of(Counted::default());
        let mut table = file(2, 1 << 20);
        table.bonus_type = ObjectType::NONE;
        tally.add(&table, Endian::Little);
        assert_eq!(changes(&tally), [[], [], []]);
        tally.add(&file(2, 512), Endian::Little);
        assert_eq!(changes(&tally)[2], [], "projects are not counted");
    }
}
