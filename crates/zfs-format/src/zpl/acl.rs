//! Lists of access as stored: NFSv4's, in two forms.
//!
//! Version 0 (file systems of version 1 and 2) has entries of 12 bytes: who, mask, flags, type. Version 1 has a head
//! of 8 bytes (type, flags, mask) and, where the entry is not for the owner, the group or everyone, who (8 bytes); an
//! entry of a type with objects has 32 bytes more. A list of up to 72 bytes stands in a znode; a longer one in an
//! object of its own, or in system attributes.
//!
//! Source: OpenZFS, `zfs_acl.h`, `zfs_acl.c`.

use crate::wire::{Endian, Reader, Wire, Writer, record};
use crate::zpl::Fuid;
use stdx::bytes::{FormatError, Problem};

/// Bytes of a list within a znode.
pub const EMBEDDED_BYTES: usize = 72;
/// Flags that say who is meant: owner, group, everyone; and that who is a group.
pub const WHO_FLAGS: u16 = OWNER | GROUP | EVERYONE | IDENTIFIER_GROUP;
/// The owner is meant.
pub const OWNER: u16 = 0x1000;
/// The group is meant (with [`IDENTIFIER_GROUP`]).
pub const GROUP: u16 = 0x2000;
/// Everyone is meant.
pub const EVERYONE: u16 = 0x4000;
/// Who is a group.
pub const IDENTIFIER_GROUP: u16 = 0x0040;
const NAME: &str = "list of access";

record! {
    /// The list within a znode.
    ZnodeAcl = "list of access in a znode", 88, {
        /// The object with the list; 0 where it stands here.
        object: u64,
        /// Version 1: bytes of the list. Version 0: entries.
        size: u32,
        /// 0 or 1.
        version: u16,
        /// Version 1: entries.
        count: u16,
        /// The list.
        list: [u8; 72],
    }
}

impl ZnodeAcl {
    /// Bytes of the list, wherever it stands.
    pub fn list_bytes(&self) -> u64 {
        match self.version {
            0 => u64::from(self.size) * 12,
            _ => self.size.into(),
        }
    }

    /// The entries that stand here.
    ///
    /// # Errors
    /// The list is longer than its place, or an entry can't be.
    pub fn entries(&self, endian: Endian) -> Result<Vec<AclEntry>, FormatError> {
        let len = usize::try_from(self.list_bytes()).ok().and_then(|len| self.list.get(..len));
        let bytes = len.ok_or_else(|| {
            Reader::new(NAME, &self.list, endian).wrong("size", Problem::Value(self.list_bytes()))
        })?;
        decode(bytes, self.version, endian)
    }
}

/// Who an entry is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// It is in the flags.
    InFlags,
    /// A user, or a group where the flags say so.
    Id(Fuid),
}

/// An entry of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AclEntry {
    /// 0 allow, 1 deny, 2 audit, 3 alarm; 5 to 8 the same with objects.
    pub kind: u16,
    /// Who is meant, and how it is inherited.
    pub flags: u16,
    /// What it is about.
    pub mask: u32,
    /// Who it is for.
    pub who: Who,
    /// Types of the objects, of an entry with objects.
    pub objects: Option<[u8; 32]>,
}

/// Whether who stands in the flags alone.
fn is_in_flags(kind: u16, flags: u16) -> bool {
    kind <= 1 && matches!(flags & WHO_FLAGS, OWNER | EVERYONE | 0x2040)
}

/// The entries of a list of this version.
///
/// # Errors
/// The version is not known, or the last entry is cut off.
pub fn decode(list: &[u8], version: u16, endian: Endian) -> Result<Vec<AclEntry>, FormatError> {
    let mut from = Reader::new(NAME, list, endian);
    let mut entries = Vec::new();
    while from.left() != 0 {
        entries.push(match version {
            0 => {
                let who = from.u32("who")?;
                let mask = from.u32("mask")?;
                let flags = from.u16("flags")?;
                let kind = from.u16("type")?;
                let who = match is_in_flags(kind, flags) {
                    true => Who::InFlags,
                    false => Who::Id(Fuid(who.into())),
                };
                AclEntry { kind, flags, mask, who, objects: None }
            }
            1 => {
                let kind = from.u16("type")?;
                let flags = from.u16("flags")?;
                let mask = from.u32("mask")?;
                let who = match is_in_flags(kind, flags) {
                    true => Who::InFlags,
                    false => Who::Id(Fuid(from.u64("who")?)),
                };
                let objects =
                    if matches!(kind, 5..=8) { Some(from.array("objects")?) } else { None };
                AclEntry { kind, flags, mask, who, objects }
            }
            other => return Err(from.wrong("version", Problem::Version(other.into()))),
        });
    }
    Ok(entries)
}

/// The bytes of a list in version 1, what is written today.
///
/// # Errors
/// Who or objects of an entry don't go with its type and flags.
pub fn encode(entries: &[AclEntry], endian: Endian) -> Result<Vec<u8>, FormatError> {
    let mut to = Writer::new(endian);
    for entry in entries {
        let fits = is_in_flags(entry.kind, entry.flags) == (entry.who == Who::InFlags)
            && matches!(entry.kind, 5..=8) == entry.objects.is_some();
        if !fits {
            let (offset, problem) = (to.at(), Problem::Value(entry.flags.into()));
            return Err(FormatError { structure: NAME, field: "entry", offset, problem });
        }
        entry.kind.write(&mut to);
        entry.flags.write(&mut to);
        entry.mask.write(&mut to);
        if let Who::Id(fuid) = entry.who {
            to.put(fuid.0);
        }
        if let Some(objects) = entry.objects {
            to.bytes(&objects);
        }
    }
    Ok(to.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_list_that_decodes_encodes_to_what_it_was(
            words in proptest::collection::vec((0u16..9, any::<u16>(), any::<u32>()), 0..6),
            rest in proptest::collection::vec(any::<u8>(), 48),
        ) {
            for endian in [Endian::Little, Endian::Big] {
                let mut to = Writer::new(endian);
                for (kind, flags, mask) in &words {
                    to.put(*kind);
                    to.put(*flags);
                    to.put(*mask);
                    let who = if is_in_flags(*kind, *flags) { 0 } else { 8 };
                    to.bytes(&rest[..who + if *kind >= 5 { 32 } else { 0 }]);
                }
                let bytes = to.into_bytes();
                let entries = decode(&bytes, 1, endian).expect("whole entries");
                prop_assert_eq!(encode(&entries, endian), Ok(bytes.clone()));
                if !bytes.is_empty() {
                    prop_assert!(decode(&bytes[..bytes.len() - 1], 1, endian).is_err());
                }
                prop_assert!(decode(&bytes, 2, endian).is_err() || bytes.is_empty());
                let _ = decode(&bytes, 0, endian);
            }
        }
    }

    #[test]
    fn a_znode_holds_short_lists_of_both_versions() {
        crate::wire::checks::holds_for_any_bytes::<ZnodeAcl>();
        let owner = AclEntry { kind: 0, flags: OWNER, mask: 7, who: Who::InFlags, objects: None };
        let mut list = [0; 72];
        let bytes = encode(&[owner], Endian::Little).expect("it fits its flags");
        list[..8].copy_from_slice(&bytes);
        let acl = ZnodeAcl { object: 0, size: 8, version: 1, count: 1, list };
        assert_eq!(acl.entries(Endian::Little), Ok(vec![owner]));
        let old = ZnodeAcl { size: 6, version: 0, count: 0, ..acl.clone() };
        assert_eq!(old.entries(Endian::Little).map(|entries| entries.len()), Ok(6));
        let long = ZnodeAcl { size: 73, ..acl };
        assert!(long.entries(Endian::Little).is_err());
        assert!(encode(&[AclEntry { who: Who::Id(Fuid(1)), ..owner }], Endian::Little).is_err());
    }
}
