//! How blocks are stored: checksum, compression, copies, by what they hold.
//!
//! Metadata (indirect blocks, dnodes, tables, directories) is compressed, has a checksum that is at least `fletcher4`, and one copy
//! more than data; the MOS has three copies of everything. Data is stored as the dataset's properties say, or as the object
//! itself does.
//!
//! Source: OpenZFS, `dmu.c` (`dmu_write_policy`), `zio.c` (where data may stand in a pointer).

use zfs_format::Endian;
use zfs_format::checksum::ChecksumFunction;
use zfs_format::compression::Compression;
use zfs_format::dnode::Dnode as DnodePhys;
use zfs_format::object_type::ObjectType;
use zfs_store::alloc::Class;
use zfs_store::transform::{Props, Rounding, Salt};
use zfs_store::write::{COPIES_MAX, Writer};

/// How an objset's blocks are stored.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Of data.
    pub checksum: ChecksumFunction,
    /// Of data.
    pub compression: Compression,
    /// zstd's level, by the number that the property has for it.
    pub zstd_level: u8,
    /// Copies of data; metadata has one more.
    pub copies: usize,
    /// Data up to this length goes where metadata goes, in bytes.
    pub special_small: u64,
    /// What metadata is compressed with: what the pool can.
    pub metadata_compression: Compression,
    /// The pool says when holes came to be.
    pub hole_birth: bool,
    /// Data may stand in pointers.
    pub embed: bool,
    /// The pool has vdevs for metadata.
    pub special: bool,
    /// How space is allocated.
    pub rounding: Rounding,
    /// The salt of salted checksums.
    pub salt: Option<Salt>,
}

/// How one block is stored.
#[derive(Clone, Debug)]
pub struct BlockPolicy {
    /// What it goes through.
    pub props: Props,
    /// How often it is stored.
    pub copies: usize,
    /// Where.
    pub class: Class,
}

impl Policy {
    /// How the blocks of a pool's MOS are stored; `uses` tells of features by their short names.
    pub fn of_mos(writer: &Writer, uses: impl Fn(&str) -> bool) -> Policy {
        Policy {
            checksum: ChecksumFunction::Fletcher4,
            compression: Compression::Lz4,
            zstd_level: 0,
            copies: COPIES_MAX,
            special_small: 0,
            metadata_compression: match uses("lz4_compress") {
                true => Compression::Lz4,
                false => Compression::Lzjb,
            },
            hole_birth: uses("hole_birth"),
            embed: uses("embedded_data"),
            special: writer.space(|space| space.has(Class::Special)),
            rounding: writer.rounding(),
            salt: writer.salt(),
        }
    }

    /// How a block of an object is stored: `len` bytes of it.
    pub fn of(
        &self,
        dnode: &DnodePhys,
        object_type: ObjectType,
        level: u8,
        len: u64,
    ) -> BlockPolicy {
        let is_metadata = level > 0 || object_type.is_metadata();
        let own = ChecksumFunction::from_code(dnode.checksum);
        let checksum = own.filter(|own| *own != ChecksumFunction::Inherit).unwrap_or(self.checksum);
        let own = Compression::from_code(dnode.compression);
        let compression =
            own.filter(|own| *own != Compression::Inherit).unwrap_or(self.compression);
        let (checksum, compression) = match is_metadata {
            true => (checksum.for_metadata(), self.metadata_compression),
            false => (checksum, compression),
        };
        let has_fill = matches!(object_type, ObjectType::DNODE | ObjectType::OBJSET);
        let props = Props {
            object_type,
            level,
            compression,
            zstd_level: self.zstd_level,
            checksum,
            salt: self.salt,
            embed: self.embed && level == 0 && !has_fill,
            rounding: self.rounding,
            endian: Endian::Little,
            crypt: None,
        };
        let copies = (self.copies + usize::from(is_metadata)).min(COPIES_MAX);
        let special = self.special && (is_metadata || len <= self.special_small);
        BlockPolicy { props, copies, class: if special { Class::Special } else { Class::Normal } }
    }
}
