//! The list of access that says what a mode says: what a file has that nobody gave a list of its own.
//!
//! Each file has a list. One that only repeats the mode is made from it, and again when the mode changes: entries for the
//! owner, the group and everyone, and before them what takes rights away from the owner or the group that everyone has, or
//! gives them to the owner before the group loses them.
//!
//! Source: OpenZFS, `acl_common.c` (`acl_trivial_access_masks`), `zfs_acl.c` (`zfs_acl_chmod`).

use zfs_format::zpl::acl::{AclEntry, EVERYONE, GROUP, IDENTIFIER_GROUP, OWNER, Who};

const READ: u32 = 0x1;
const WRITE: u32 = 0x2 | 0x4;
const EXECUTE: u32 = 0x20;
const DELETE_CHILD: u32 = 0x40;
/// Reading attributes, named attributes and the list, and synchronising: for all.
const ALWAYS: u32 = 0x8 | 0x80 | 0x2_0000 | 0x10_0000;
/// Writing attributes, named attributes, list and owner: for the owner.
const OWNERS: u32 = 0x10 | 0x100 | 0x4_0000 | 0x8_0000;
const ALLOW: u16 = 0;
const DENY: u16 = 1;

/// The entries for a mode's permissions.
pub(in crate::zpl) fn entries(permissions: u32, is_directory: bool) -> Vec<AclEntry> {
    let write = WRITE | if is_directory { DELETE_CHILD } else { 0 };
    let mask = |bits: u32| {
        let of = |bit: u32, mask: u32| if bits & bit != 0 { mask } else { 0 };
        of(4, READ) | of(2, write) | of(1, EXECUTE)
    };
    let (owner, group, everyone) = (permissions >> 6 & 7, permissions >> 3 & 7, permissions & 7);
    let group_id = GROUP | IDENTIFIER_GROUP;
    let made = [
        (ALLOW, OWNER, mask(owner & !group & everyone)),
        (DENY, OWNER, mask(!owner & (group | everyone))),
        (DENY, group_id, mask(!group & everyone)),
        (ALLOW, OWNER, mask(owner) | ALWAYS | OWNERS),
        (ALLOW, group_id, mask(group) | ALWAYS),
        (ALLOW, EVERYONE, mask(everyone) | ALWAYS),
    ];
    let entry =
        |(kind, flags, mask)| AclEntry { kind, flags, mask, who: Who::InFlags, objects: None };
    made.into_iter().filter(|(.., mask)| *mask != 0).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_group_lacks_and_everyone_has_is_taken_from_it() {
        let masks = |permissions| {
            let entries = entries(permissions, false);
            entries.iter().map(|e| (e.kind, e.flags, e.mask)).collect::<Vec<_>>()
        };
        let (all, owners) = (ALWAYS, ALWAYS | OWNERS);
        let group = GROUP | IDENTIFIER_GROUP;
        let plain = [
            (ALLOW, OWNER, READ | WRITE | owners),
            (ALLOW, group, READ | all),
            (ALLOW, EVERYONE, READ | all),
        ];
        assert_eq!(masks(0o644), plain);
        let odd = [
            (ALLOW, OWNER, READ),
            (DENY, group, READ),
            (ALLOW, OWNER, READ | owners),
            (ALLOW, group, all),
            (ALLOW, EVERYONE, READ | all),
        ];
        assert_eq!(masks(0o404), odd);
        assert_eq!(masks(0o060)[0], (DENY, OWNER, READ | WRITE));
    }
}
