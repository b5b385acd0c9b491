//! Objsets: the root of a dataset, or of the MOS.
//!
//! ```text
//!   0     meta-dnode: the array of all dnodes           1024  dnode of space used by user
//!   512   header of the intent log (192 bytes)          1536  … by group
//!   704   type, flags, two MACs (32 bytes each)         2048  … by project
//! ```
//!
//! The block is 1, 2 or 4 KiB; what it is too short for is not counted in this dataset.
//!
//! Source: OpenZFS, `dmu_objset.h`.

use crate::dnode::{BLOCK_BYTES, Dnode, SLOT_BYTES};
use crate::wire::{Endian, Reader, Writer};
use crate::zil::ZilHeader;
use stdx::bytes::{FormatError, Problem};

const NAME: &str = "objset";
/// Where what is counted begins, in bytes: the size of the shortest objset.
const ACCOUNTING_AT: usize = 1024;

/// Flags of an objset.
pub mod flags {
    /// Space used by users and groups is counted in full.
    pub const USER_ACCOUNTING: u64 = 1;
    /// Objects of users and groups are counted in full.
    pub const USER_OBJECT_ACCOUNTING: u64 = 2;
    /// Projects are counted in full.
    pub const PROJECT_QUOTA: u64 = 4;
}

/// What an objset is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjsetKind {
    /// Not yet made.
    None,
    /// The MOS.
    Meta,
    /// A file system.
    FileSystem,
    /// A volume.
    Volume,
    /// Something of tests.
    Other(u64),
}

impl ObjsetKind {
    /// The kind of this number.
    pub fn from_code(code: u64) -> ObjsetKind {
        match code {
            0 => ObjsetKind::None,
            1 => ObjsetKind::Meta,
            2 => ObjsetKind::FileSystem,
            3 => ObjsetKind::Volume,
            other => ObjsetKind::Other(other),
        }
    }

    /// Its number.
    pub fn code(self) -> u64 {
        match self {
            ObjsetKind::None => 0,
            ObjsetKind::Meta => 1,
            ObjsetKind::FileSystem => 2,
            ObjsetKind::Volume => 3,
            ObjsetKind::Other(code) => code,
        }
    }
}

/// How long an objset's block is, and so what it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjsetSize {
    /// 1 KiB: nothing.
    V1,
    /// 2 KiB: users and groups.
    V2,
    /// 4 KiB: projects too.
    V3,
}

impl ObjsetSize {
    /// Bytes of the block.
    pub fn bytes(self) -> usize {
        match self {
            ObjsetSize::V1 => 1024,
            ObjsetSize::V2 => 2048,
            ObjsetSize::V3 => 4096,
        }
    }
}

/// An objset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objset {
    /// How long its block is.
    pub size: ObjsetSize,
    /// The array of all dnodes; nothing where the objset was never made.
    pub meta_dnode: Option<Dnode>,
    /// The intent log.
    pub zil: ZilHeader,
    /// What it is.
    pub kind: ObjsetKind,
    /// See [`flags`].
    pub flags: u64,
    /// The MAC of what a raw send carries.
    pub portable_mac: [u8; 32],
    /// The MAC of what is counted here.
    pub local_mac: [u8; 32],
    /// Space used by user, by group, by project.
    pub used: [Option<Dnode>; 3],
}

impl Objset {
    /// Decodes a block.
    ///
    /// # Errors
    /// It is none of the three sizes, or a dnode in it can't be.
    pub fn decode(block: &[u8], endian: Endian) -> Result<Objset, FormatError> {
        let mut from = Reader::new(NAME, block, endian);
        let sizes = [ObjsetSize::V1, ObjsetSize::V2, ObjsetSize::V3];
        let size = sizes.into_iter().find(|size| size.bytes() == block.len());
        let size = size.ok_or_else(|| from.wrong("size", Problem::Value(block.len() as u64)))?;
        let meta_dnode = dnode(&mut from, "meta-dnode")?;
        // Where an object's dnode lies follows from its number only in blocks of this length.
        if let Some(meta) =
            meta_dnode.as_ref().filter(|meta| meta.data_block_bytes() != BLOCK_BYTES as u64)
        {
            let problem = Problem::Value(meta.data_block_sectors.into());
            return Err(from.wrong_at("meta-dnode's data block sectors", 8, problem));
        }
        let zil = from.get("intent log header")?;
        let kind = ObjsetKind::from_code(from.u64("type")?);
        let flags = from.u64("flags")?;
        let portable_mac = from.array("portable MAC")?;
        let local_mac = from.array("local MAC")?;
        let mut used = [None, None, None];
        if size >= ObjsetSize::V2 {
            from.seek("used", ACCOUNTING_AT)?;
            let many = if size == ObjsetSize::V3 { 3 } else { 2 };
            for counted in used.iter_mut().take(many) {
                *counted = dnode(&mut from, "used")?;
            }
        }
        Ok(Objset { size, meta_dnode, zil, kind, flags, portable_mac, local_mac, used })
    }

    /// Its block.
    ///
    /// # Errors
    /// A dnode can't be, takes more than one slot, or counts what the size has no room for.
    pub fn encode(&self, endian: Endian) -> Result<Vec<u8>, FormatError> {
        let mut to = Writer::new(endian);
        put_dnode(&mut to, self.meta_dnode.as_ref(), SLOT_BYTES)?;
        to.put(self.zil.clone());
        to.put(self.kind.code());
        to.put(self.flags);
        to.bytes(&self.portable_mac);
        to.bytes(&self.local_mac);
        to.zeros_to(ACCOUNTING_AT);
        for (n, counted) in self.used.iter().enumerate() {
            let end = ACCOUNTING_AT + (n + 1) * SLOT_BYTES;
            let room = if end <= self.size.bytes() { end } else { to.at() };
            put_dnode(&mut to, counted.as_ref(), room)?;
        }
        to.zeros_to(self.size.bytes());
        Ok(to.into_bytes())
    }
}

fn dnode(from: &mut Reader<'_>, field: &'static str) -> Result<Option<Dnode>, FormatError> {
    let at = from.at();
    let slot = from.take(field, SLOT_BYTES)?;
    Dnode::decode(slot, from.endian).map_err(|error| FormatError {
        structure: NAME,
        offset: error.offset + at,
        ..error
    })
}

/// Puts a dnode that ends there, or zeros.
fn put_dnode(to: &mut Writer, dnode: Option<&Dnode>, end: usize) -> Result<(), FormatError> {
    if let Some(dnode) = dnode {
        let bytes = dnode.encode(to.endian)?;
        if to.at() + bytes.len() > end {
            let problem =
                Problem::Limit { found: bytes.len() as u64, limit: (end - to.at()) as u64 };
            let (structure, offset) = (NAME, to.at());
            return Err(FormatError { structure, field: "dnode", offset, problem });
        }
        to.bytes(&bytes);
    }
    to.zeros_to(end);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_pointer::BlockPointer;
    use crate::object_type::ObjectType;
    use crate::wire::Record;

    fn objset(size: ObjsetSize, counted: usize) -> Objset {
        let dnode = Dnode {
            object_type: ObjectType::DNODE,
            indirect_shift: 17,
            levels: 2,
            bonus_type: ObjectType::NONE,
            checksum: 7,
            compression: 15,
            flags: 1,
            data_block_sectors: 32,
            extra_slots: 0,
            block_id_max: 4,
            used: 512,
            pointers: vec![BlockPointer::HOLE; 3],
            bonus: Vec::new(),
            spill: None,
        };
        let mut used = [None, None, None];
        used.iter_mut().take(counted).for_each(|one| *one = Some(dnode.clone()));
        Objset {
            size,
            meta_dnode: Some(dnode),
            zil: ZilHeader::decode(&[0; 192], Endian::Little).expect("zeros"),
            kind: ObjsetKind::FileSystem,
            flags: flags::USER_ACCOUNTING,
            portable_mac: [1; 32],
            local_mac: [2; 32],
            used,
        }
    }

    /// Objects are found by their number in blocks of one length; in others a walk over them would not go on.
    #[test]
    fn a_meta_dnode_with_blocks_of_another_length_is_refused() {
        let mut objset = objset(ObjsetSize::V1, 0);
        for (sectors, fits) in [(32, true), (1, false), (31, false), (64, false)] {
            objset.meta_dnode.as_mut().expect("it is there").data_block_sectors = sectors;
            let block = objset.encode(Endian::Little).expect("it is encoded");
            assert_eq!(Objset::decode(&block, Endian::Little).is_ok(), fits, "{sectors}");
        }
    }

    #[test]
    fn each_size_has_what_it_has_room_for() {
        use ObjsetSize::{V1, V2, V3};
        for endian in [Endian::Little, Endian::Big] {
            for (size, room) in [(V1, 0), (V2, 2), (V3, 3)] {
                for counted in 0..=3 {
                    let objset = objset(size, counted);
                    let encoded = objset.encode(endian);
                    assert_eq!(encoded.is_ok(), counted <= room);
                    let Ok(block) = encoded else { continue };
                    assert_eq!(block.len(), size.bytes());
                    assert_eq!(Objset::decode(&block, endian), Ok(objset));
                    assert!(Objset::decode(&block[1..], endian).is_err());
                    for bit in (0..block.len() * 8).step_by(7) {
                        let mut flipped = block.clone();
                        flipped[bit / 8] ^= 1 << (bit % 8);
                        let _ = Objset::decode(&flipped, endian);
                    }
                }
            }
        }
    }
}
