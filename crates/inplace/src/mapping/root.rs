//! What an inode's record holds of its mapping, and how large that lets a file be.

use super::extents::{self, ExtentList};
use crate::layout::{ROOT_AT, Shape};
use crate::settings::Mapping;
use stdx::bytes::{FormatError, Reader, put};

/// Direct pointers of an inode.
pub(crate) const DIRECT: u64 = 12;
/// Pointers in an inode.
pub(crate) const POINTERS: usize = 15;

/// What an inode's record holds of its mapping.
#[derive(Clone, Debug)]
pub(crate) enum Root {
    /// 12 blocks, then one single, one double, one triple indirect block. 0 is none.
    Indirect([u32; POINTERS]),
    Extents(ExtentList),
}

impl Root {
    /// A mapping of nothing.
    pub(crate) fn empty(shape: &Shape, mapping: Mapping) -> Root {
        match mapping {
            Mapping::Indirect => Root::Indirect([0; POINTERS]),
            Mapping::Extents => Root::Extents(ExtentList::empty(shape)),
        }
    }

    pub(crate) fn decode(
        fields: &Reader<'_>,
        shape: &Shape,
        mapping: Mapping,
    ) -> Result<Root, FormatError> {
        if mapping == Mapping::Extents {
            return ExtentList::decode(fields, shape).map(Root::Extents);
        }
        let mut pointers = [0; POINTERS];
        for (i, pointer) in pointers.iter_mut().enumerate() {
            *pointer = fields.get_at::<u32>("pointer", ROOT_AT + 4 * i)?;
            let sound = *pointer == 0 || shape.region_of(u64::from(*pointer)).is_some();
            fields.require(sound, "pointer")?;
        }
        Ok(Root::Indirect(pointers))
    }

    pub(crate) fn encode(&self, record: &mut [u8]) {
        match self {
            Root::Extents(list) => list.encode(record),
            Root::Indirect(pointers) => {
                for (i, pointer) in pointers.iter().enumerate() {
                    put(record, ROOT_AT + 4 * i, &pointer.to_le_bytes());
                }
            }
        }
    }
}

/// Blocks that a file can have.
pub(crate) fn file_blocks_max(shape: &Shape, mapping: Mapping) -> u64 {
    match mapping {
        Mapping::Extents => extents::FILE_BLOCKS_MAX,
        Mapping::Indirect => pointed_blocks_max(shape.block / 4),
    }
}

/// Blocks that a file can have whose blocks of pointers hold so many.
pub(crate) fn pointed_blocks_max(n: u64) -> u64 {
    DIRECT + n + n * n + n * n * n
}
