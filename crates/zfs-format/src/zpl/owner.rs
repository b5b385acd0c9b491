//! Whose a file is, as space is counted by: user, group and project.
//!
//! Who counts space knows dnodes only, and no registry of attributes: so these three, and the flags that say whether there is a
//! project, stand at fixed places of the bonus, whatever its layout.
//!
//! ```text
//!   znode               128 user   136 group
//!   system attributes   24 user   32 group   48 flags   128 project: behind the header
//! ```
//!
//! A file without [a flag](PROJECT) has no project of its own, and counts for project 0.
//!
//! Source: OpenZFS 2.1 to 2.4, `zfs_quota.c` (`zpl_get_file_info`), `zfs_sa.h`, `zfs_project.h`.

use super::attributes::MAGIC;
use super::znode::Znode;
use crate::object_type::ObjectType;
use crate::wire::{Endian, Reader, Record};

/// A flag of directories: what is made in it is of its project.
pub const PROJECT_INHERIT: u64 = 0x0000_4000_0000_0000;
/// A flag of files: it has a project of its own.
pub const PROJECT: u64 = 0x0000_8000_0000_0000;
/// No file is of this project: 32 bits, all set.
pub const NO_PROJECT: u64 = 0xffff_ffff;

/// Where the header says which layout it is, and how long it is itself.
const LAYOUT_AT: usize = 4;
/// Places behind the header.
const USER_AT: usize = 24;
const GROUP_AT: usize = 32;
const FLAGS_AT: usize = 48;
const PROJECT_AT: usize = 128;

/// Whose a file is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The user, as the file has it.
    pub user: u64,
    /// The group.
    pub group: u64,
    /// The project.
    pub project: u64,
}

impl Owner {
    /// Whose the file with this bonus is; nothing where the object is no file. `endian` is that of the dnode's block.
    pub fn of_bonus(bonus_type: ObjectType, bonus: &[u8], endian: Endian) -> Option<Owner> {
        match bonus_type {
            ObjectType::ZNODE => {
                let znode = Znode::decode(bonus, endian).ok()?;
                Some(Owner { user: znode.uid, group: znode.gid, project: 0 })
            }
            ObjectType::SA => Owner::of_attributes(bonus),
            _ => None,
        }
    }

    fn of_attributes(bonus: &[u8]) -> Option<Owner> {
        // Attributes that were never set: of nobody but 0.
        if bonus.first_chunk() == Some(&[0u8; 4]) {
            return Some(Owner::default());
        }
        let read = |endian| Reader::new("owner", bonus, endian);
        let is_it = |endian: &Endian| read(*endian).u32("magic number") == Ok(MAGIC);
        let mut from = read([Endian::Little, Endian::Big].into_iter().find(is_it)?);
        from.seek("layout", LAYOUT_AT).ok()?;
        let header = usize::from(from.u16("layout").ok()? >> 10) * 8;
        let mut word = |at: usize| {
            from.seek("attribute", header + at).ok()?;
            from.u64("attribute").ok()
        };
        let project = match word(FLAGS_AT)? & PROJECT {
            0 => 0,
            _ => word(PROJECT_AT)?,
        };
        Some(Owner { user: word(USER_AT)?, group: word(GROUP_AT)?, project })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Wire, Writer};

    fn attributes(endian: Endian, flags: u64) -> Vec<u8> {
        let mut to = Writer::new(endian);
        to.put(MAGIC);
        to.put(2u16 | 2 << 10);
        to.zeros_to(16);
        for word in 0..20u64 {
            to.put(if word == 6 { flags } else { 100 + word });
        }
        to.into_bytes()
    }

    #[test]
    fn ids_stand_at_fixed_places_in_both_orders() {
        for endian in [Endian::Little, Endian::Big] {
            let of = |bytes: &[u8]| Owner::of_bonus(ObjectType::SA, bytes, Endian::Little);
            let owner = |project| Some(Owner { user: 103, group: 104, project });
            assert_eq!(of(&attributes(endian, 4)), owner(0));
            let with = attributes(endian, 4 | PROJECT);
            assert_eq!(of(&with), owner(116));
            for len in 0..with.len() {
                let known = of(&with[..len]);
                assert!(known.is_none() || known == owner(116), "{len}");
            }
        }
    }

    #[test]
    fn what_has_no_attributes_yet_is_of_0_and_what_is_no_file_of_nobody() {
        let none = Owner::of_bonus(ObjectType::SA, &[0; 32], Endian::Little);
        assert_eq!(none, Some(Owner::default()));
        assert_eq!(Owner::of_bonus(ObjectType::SA, &[7; 32], Endian::Little), None);
        assert_eq!(Owner::of_bonus(ObjectType::NONE, &[0; 32], Endian::Little), None);
        let mut znode = vec![0; Znode::BYTES];
        (znode[128], znode[136]) = (5, 6);
        let found = Owner::of_bonus(ObjectType::ZNODE, &znode, Endian::Little);
        assert_eq!(found, Some(Owner { user: 5, group: 6, project: 0 }));
    }
}
