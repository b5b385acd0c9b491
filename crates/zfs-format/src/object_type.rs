//! Object types: what an object holds, as a number in dnodes and block pointers.
//!
//! The first 54 numbers are a list that is closed. Newer types are numbers from 128 on, made of bits:
//! 128 marks them, 64 says metadata, 32 encrypted, and the low five how their numbers are swapped
//! between byte orders. So a type that nobody knows can still be copied, checked and swapped.
//!
//! Source: OpenZFS, `dmu.h`, `dmu.c`.

use std::fmt;

/// How an object's blocks are turned into the other byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is the structure of its name")]
pub enum ByteSwap {
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Zap,
    Dnode,
    Objset,
    Znode,
    OldAcl,
    Acl,
}

impl ByteSwap {
    const ALL: [ByteSwap; 10] = [
        ByteSwap::Uint8,
        ByteSwap::Uint16,
        ByteSwap::Uint32,
        ByteSwap::Uint64,
        ByteSwap::Zap,
        ByteSwap::Dnode,
        ByteSwap::Objset,
        ByteSwap::Znode,
        ByteSwap::OldAcl,
        ByteSwap::Acl,
    ];

    /// Its name in OpenZFS's words.
    pub fn name(self) -> &'static str {
        match self {
            ByteSwap::Uint8 => "uint8",
            ByteSwap::Uint16 => "uint16",
            ByteSwap::Uint32 => "uint32",
            ByteSwap::Uint64 => "uint64",
            ByteSwap::Zap => "zap",
            ByteSwap::Dnode => "dnode",
            ByteSwap::Objset => "objset",
            ByteSwap::Znode => "znode",
            ByteSwap::OldAcl => "oldacl",
            ByteSwap::Acl => "acl",
        }
    }
}

/// An object type by its number, known or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectType(pub u8);

const META: bool = true;
const DATA: bool = false;
const PRIVATE: bool = true;
const OPEN: bool = false;

/// Name, byte swap, metadata?, encrypted in an encrypted dataset?
const KNOWN: [(&str, ByteSwap, bool, bool); 54] = [
    ("unallocated", ByteSwap::Uint8, META, OPEN),
    ("object directory", ByteSwap::Zap, META, OPEN),
    ("object array", ByteSwap::Uint64, META, OPEN),
    ("packed nvlist", ByteSwap::Uint8, META, OPEN),
    ("packed nvlist size", ByteSwap::Uint64, META, OPEN),
    ("bpobj", ByteSwap::Uint64, META, OPEN),
    ("bpobj header", ByteSwap::Uint64, META, OPEN),
    ("SPA space map header", ByteSwap::Uint64, META, OPEN),
    ("SPA space map", ByteSwap::Uint64, META, OPEN),
    ("ZIL intent log", ByteSwap::Uint64, META, PRIVATE),
    ("DMU dnode", ByteSwap::Dnode, META, PRIVATE),
    ("DMU objset", ByteSwap::Objset, META, OPEN),
    ("DSL directory", ByteSwap::Uint64, META, OPEN),
    ("DSL directory child map", ByteSwap::Zap, META, OPEN),
    ("DSL dataset snap map", ByteSwap::Zap, META, OPEN),
    ("DSL props", ByteSwap::Zap, META, OPEN),
    ("DSL dataset", ByteSwap::Uint64, META, OPEN),
    ("ZFS znode", ByteSwap::Znode, META, OPEN),
    ("ZFS V0 ACL", ByteSwap::OldAcl, META, PRIVATE),
    ("ZFS plain file", ByteSwap::Uint8, DATA, PRIVATE),
    ("ZFS directory", ByteSwap::Zap, META, PRIVATE),
    ("ZFS master node", ByteSwap::Zap, META, OPEN),
    ("ZFS delete queue", ByteSwap::Zap, META, PRIVATE),
    ("zvol object", ByteSwap::Uint8, DATA, PRIVATE),
    ("zvol prop", ByteSwap::Zap, META, OPEN),
    ("other uint8[]", ByteSwap::Uint8, DATA, PRIVATE),
    ("other uint64[]", ByteSwap::Uint64, DATA, PRIVATE),
    ("other ZAP", ByteSwap::Zap, META, OPEN),
    ("persistent error log", ByteSwap::Zap, META, OPEN),
    ("SPA history", ByteSwap::Uint8, META, OPEN),
    ("SPA history offsets", ByteSwap::Uint64, META, OPEN),
    ("Pool properties", ByteSwap::Zap, META, OPEN),
    ("DSL permissions", ByteSwap::Zap, META, OPEN),
    ("ZFS ACL", ByteSwap::Acl, META, PRIVATE),
    ("ZFS SYSACL", ByteSwap::Uint8, META, PRIVATE),
    ("FUID table", ByteSwap::Uint8, META, PRIVATE),
    ("FUID table size", ByteSwap::Uint64, META, OPEN),
    ("DSL dataset next clones", ByteSwap::Zap, META, OPEN),
    ("scan work queue", ByteSwap::Zap, META, OPEN),
    ("ZFS user/group/project used", ByteSwap::Zap, META, PRIVATE),
    ("ZFS user/group/project quota", ByteSwap::Zap, META, PRIVATE),
    ("snapshot refcount tags", ByteSwap::Zap, META, OPEN),
    ("DDT ZAP algorithm", ByteSwap::Zap, META, OPEN),
    ("DDT statistics", ByteSwap::Zap, META, OPEN),
    ("System attributes", ByteSwap::Uint8, META, PRIVATE),
    ("SA master node", ByteSwap::Zap, META, PRIVATE),
    ("SA attr registration", ByteSwap::Zap, META, PRIVATE),
    ("SA attr layouts", ByteSwap::Zap, META, PRIVATE),
    ("scan translations", ByteSwap::Zap, META, OPEN),
    ("deduplicated block", ByteSwap::Uint8, DATA, PRIVATE),
    ("DSL deadlist map", ByteSwap::Zap, META, OPEN),
    ("DSL deadlist map hdr", ByteSwap::Uint64, META, OPEN),
    ("DSL dir clones", ByteSwap::Zap, META, OPEN),
    ("bpobj subobj", ByteSwap::Uint64, META, OPEN),
];

/// The bits of the newer types.
const NEW: u8 = 0x80;
const NEW_METADATA: u8 = 0x40;
const NEW_ENCRYPTED: u8 = 0x20;
const NEW_BYTE_SWAP: u8 = 0x1f;

impl ObjectType {
    /// `unallocated`
    pub const NONE: ObjectType = ObjectType(0);
    /// `object directory`
    pub const OBJECT_DIRECTORY: ObjectType = ObjectType(1);
    /// `object array`
    pub const OBJECT_ARRAY: ObjectType = ObjectType(2);
    /// `packed nvlist`
    pub const PACKED_NVLIST: ObjectType = ObjectType(3);
    /// `packed nvlist size`
    pub const PACKED_NVLIST_SIZE: ObjectType = ObjectType(4);
    /// `bpobj`
    pub const BPOBJ: ObjectType = ObjectType(5);
    /// `bpobj header`
    pub const BPOBJ_HDR: ObjectType = ObjectType(6);
    /// `SPA space map header`
    pub const SPACE_MAP_HEADER: ObjectType = ObjectType(7);
    /// `SPA space map`
    pub const SPACE_MAP: ObjectType = ObjectType(8);
    /// `ZIL intent log`
    pub const INTENT_LOG: ObjectType = ObjectType(9);
    /// `DMU dnode`
    pub const DNODE: ObjectType = ObjectType(10);
    /// `DMU objset`
    pub const OBJSET: ObjectType = ObjectType(11);
    /// `DSL directory`
    pub const DSL_DIR: ObjectType = ObjectType(12);
    /// `DSL directory child map`
    pub const DSL_DIR_CHILD_MAP: ObjectType = ObjectType(13);
    /// `DSL dataset snap map`
    pub const DSL_DS_SNAP_MAP: ObjectType = ObjectType(14);
    /// `DSL props`
    pub const DSL_PROPS: ObjectType = ObjectType(15);
    /// `DSL dataset`
    pub const DSL_DATASET: ObjectType = ObjectType(16);
    /// `ZFS znode`
    pub const ZNODE: ObjectType = ObjectType(17);
    /// `ZFS V0 ACL`
    pub const OLDACL: ObjectType = ObjectType(18);
    /// `ZFS plain file`
    pub const PLAIN_FILE_CONTENTS: ObjectType = ObjectType(19);
    /// `ZFS directory`
    pub const DIRECTORY_CONTENTS: ObjectType = ObjectType(20);
    /// `ZFS master node`
    pub const MASTER_NODE: ObjectType = ObjectType(21);
    /// `ZFS delete queue`
    pub const UNLINKED_SET: ObjectType = ObjectType(22);
    /// `zvol object`
    pub const ZVOL: ObjectType = ObjectType(23);
    /// `zvol prop`
    pub const ZVOL_PROP: ObjectType = ObjectType(24);
    /// `other uint8[]`
    pub const PLAIN_OTHER: ObjectType = ObjectType(25);
    /// `other uint64[]`
    pub const UINT64_OTHER: ObjectType = ObjectType(26);
    /// `other ZAP`
    pub const ZAP_OTHER: ObjectType = ObjectType(27);
    /// `persistent error log`
    pub const ERROR_LOG: ObjectType = ObjectType(28);
    /// `SPA history`
    pub const SPA_HISTORY: ObjectType = ObjectType(29);
    /// `SPA history offsets`
    pub const SPA_HISTORY_OFFSETS: ObjectType = ObjectType(30);
    /// `Pool properties`
    pub const POOL_PROPS: ObjectType = ObjectType(31);
    /// `DSL permissions`
    pub const DSL_PERMS: ObjectType = ObjectType(32);
    /// `ZFS ACL`
    pub const ACL: ObjectType = ObjectType(33);
    /// `ZFS SYSACL`
    pub const SYSACL: ObjectType = ObjectType(34);
    /// `FUID table`
    pub const FUID: ObjectType = ObjectType(35);
    /// `FUID table size`
    pub const FUID_SIZE: ObjectType = ObjectType(36);
    /// `DSL dataset next clones`
    pub const NEXT_CLONES: ObjectType = ObjectType(37);
    /// `scan work queue`
    pub const SCAN_QUEUE: ObjectType = ObjectType(38);
    /// `ZFS user/group/project used`
    pub const USERGROUP_USED: ObjectType = ObjectType(39);
    /// `ZFS user/group/project quota`
    pub const USERGROUP_QUOTA: ObjectType = ObjectType(40);
    /// `snapshot refcount tags`
    pub const USERREFS: ObjectType = ObjectType(41);
    /// `DDT ZAP algorithm`
    pub const DDT_ZAP: ObjectType = ObjectType(42);
    /// `DDT statistics`
    pub const DDT_STATS: ObjectType = ObjectType(43);
    /// `System attributes`
    pub const SA: ObjectType = ObjectType(44);
    /// `SA master node`
    pub const SA_MASTER_NODE: ObjectType = ObjectType(45);
    /// `SA attr registration`
    pub const SA_ATTR_REGISTRATION: ObjectType = ObjectType(46);
    /// `SA attr layouts`
    pub const SA_ATTR_LAYOUTS: ObjectType = ObjectType(47);
    /// `scan translations`
    pub const SCAN_XLATE: ObjectType = ObjectType(48);
    /// `deduplicated block`
    pub const DEDUP: ObjectType = ObjectType(49);
    /// `DSL deadlist map`
    pub const DEADLIST: ObjectType = ObjectType(50);
    /// `DSL deadlist map hdr`
    pub const DEADLIST_HDR: ObjectType = ObjectType(51);
    /// `DSL dir clones`
    pub const DSL_CLONES: ObjectType = ObjectType(52);
    /// `bpobj subobj`
    pub const BPOBJ_SUBOBJ: ObjectType = ObjectType(53);
    /// How many types there are of the older kind.
    pub const KNOWN_COUNT: u8 = KNOWN.len() as u8;

    /// A type of the newer kind.
    pub const fn new(swap: ByteSwap, metadata: bool, encrypted: bool) -> ObjectType {
        let metadata = if metadata { NEW_METADATA } else { 0 };
        let encrypted = if encrypted { NEW_ENCRYPTED } else { 0 };
        ObjectType(NEW | metadata | encrypted | swap as u8)
    }

    fn known(self) -> Option<&'static (&'static str, ByteSwap, bool, bool)> {
        KNOWN.get(usize::from(self.0))
    }

    /// Whether it is of the newer kind.
    pub fn is_new(self) -> bool {
        self.0 & NEW != 0
    }

    /// Whether there can be such a type.
    pub fn is_valid(self) -> bool {
        self.byte_swap().is_some()
    }

    /// How its blocks are swapped; nothing if there is no such type.
    pub fn byte_swap(self) -> Option<ByteSwap> {
        if self.is_new() {
            ByteSwap::ALL.get(usize::from(self.0 & NEW_BYTE_SWAP)).copied()
        } else {
            self.known().map(|known| known.1)
        }
    }

    /// Whether it is metadata.
    pub fn is_metadata(self) -> bool {
        if self.is_new() { self.0 & NEW_METADATA != 0 } else { self.known().is_some_and(|k| k.2) }
    }

    /// Whether its blocks are encrypted in an encrypted dataset; the others are authenticated only.
    pub fn is_encrypted(self) -> bool {
        if self.is_new() { self.0 & NEW_ENCRYPTED != 0 } else { self.known().is_some_and(|k| k.3) }
    }

    /// Whether block pointers to it count more than 1 at level 0, so that its blocks can't be embedded.
    pub fn has_fill(self) -> bool {
        self == ObjectType::DNODE || self == ObjectType::OBJSET
    }
}

impl fmt::Display for ObjectType {
    /// The name as `zdb` prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.known(), self.byte_swap()) {
            (Some(known), _) => f.write_str(known.0),
            (None, Some(swap)) => {
                let kind = if self.is_metadata() { "metadata" } else { "data" };
                let private = if self.is_encrypted() { "encrypted " } else { "" };
                write!(f, "{private}{} {kind}", swap.name())
            }
            (None, None) => write!(f, "unknown type {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closed_list_has_the_names_of_the_sources() {
        assert_eq!(ObjectType(10), ObjectType::DNODE);
        assert_eq!(ObjectType(53).to_string(), "bpobj subobj");
        assert_eq!(ObjectType::PLAIN_FILE_CONTENTS.to_string(), "ZFS plain file");
        assert!(!ObjectType::PLAIN_FILE_CONTENTS.is_metadata());
        assert!(ObjectType::SA.is_encrypted() && ObjectType::SA.is_metadata());
        assert!(!ObjectType(54).is_valid());
    }

    #[test]
    fn newer_types_are_made_of_bits() {
        let zap = ObjectType::new(ByteSwap::Zap, true, false);
        assert_eq!(zap.0, 0xc4);
        assert!(zap.is_valid() && zap.is_metadata() && !zap.is_encrypted());
        assert_eq!(zap.byte_swap(), Some(ByteSwap::Zap));
        assert_eq!(zap.to_string(), "zap metadata");
        // Byte swap number 10 is no one's.
        assert!(!ObjectType(0x8a).is_valid());
        // Every number has a name, none panics.
        assert!((0..=255).all(|code| !ObjectType(code).to_string().is_empty()));
    }
}
