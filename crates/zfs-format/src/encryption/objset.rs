//! The objset: the root of the MACs, with two of its own.
//!
//! The *portable* MAC is of what a raw stream carries: kind, portable flags, the meta-dnode with the MACs in its
//! pointers. The *local* one is of the other flags and of the dnodes that count space by user, group and project,
//! which each machine makes for itself; zeros, where these are not complete or not there. The intent log's header is
//! in neither, for it changes when a log is claimed without the key.
//!
//! Whatever order the block has, the messages have their numbers little-endian; but the kind, which is big-endian.

use super::dnodes::Shape;
use super::message::add_pointer;
use crate::object_type::ObjectType;
use crate::objset::flags;
use crate::wire::{Endian, Reader};
use stdx::bytes::{FormatError, Problem};

const NAME: &str = "encrypted objset";
/// Where kind and flags stand, in 8 bytes each.
const KIND_AT: usize = 704;
/// Where an objset's code stands of what a raw stream carries.
pub const PORTABLE_MAC_AT: usize = KIND_AT + 16;
/// Where its code stands of the rest.
pub const LOCAL_MAC_AT: usize = PORTABLE_MAC_AT + 32;
/// Where the first dnode that counts stands.
const ACCOUNTING_AT: usize = 1024;
/// Flags that are the same on every machine: there are none.
const PORTABLE_FLAGS: u64 = 0;

/// What is authenticated of an objset, and the codes that stand in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjsetMessages {
    /// The message of the portable code.
    pub portable: Vec<u8>,
    /// The message of the local code; nothing, where that is zeros.
    pub local: Option<Vec<u8>>,
    /// The portable code: the front of HMAC-SHA-512.
    pub portable_mac: [u8; 32],
    /// The local code.
    pub local_mac: [u8; 32],
}

/// What is authenticated of an objset, for a key of this version.
///
/// # Errors
/// The block is none of the three sizes, or a dnode can't be in it.
pub fn objset(block: &[u8], endian: Endian, version: u64) -> Result<ObjsetMessages, FormatError> {
    let mut from = Reader::new(NAME, block, endian);
    let counted = match block.len() {
        1024 => 0,
        2048 => 2,
        4096 => 3,
        other => return Err(from.wrong("size", Problem::Value(other as u64))),
    };
    let meta_dnode = Shape::read(&mut from)?;
    from.seek("kind", KIND_AT)?;
    let (kind, marks) = (from.u64("kind")?, from.u64("flags")?);
    let portable_mac = from.array("portable MAC")?;
    let local_mac = from.array("local MAC")?;
    let mut portable = Vec::new();
    portable.extend_from_slice(&kind.to_be_bytes());
    portable.extend_from_slice(&(marks & PORTABLE_FLAGS).to_le_bytes());
    add_dnode(&mut portable, &meta_dnode, endian, version)?;

    let mut used = Vec::new();
    from.seek("used", ACCOUNTING_AT)?;
    for _ in 0..counted {
        let dnode = Shape::read(&mut from)?;
        if dnode.object_type != ObjectType::NONE {
            used.push(dnode);
        }
    }
    let complete = marks & flags::USER_ACCOUNTING != 0;
    let local = if complete && !used.is_empty() {
        let mut local = (marks & !PORTABLE_FLAGS).to_le_bytes().to_vec();
        for dnode in &used {
            add_dnode(&mut local, dnode, endian, version)?;
        }
        Some(local)
    } else {
        None
    };
    Ok(ObjsetMessages { portable, local, portable_mac, local_mac })
}

fn add_dnode(
    to: &mut Vec<u8>,
    dnode: &Shape,
    endian: Endian,
    version: u64,
) -> Result<(), FormatError> {
    if dnode.slots != 1 {
        let problem = Problem::Value(dnode.slots as u64);
        return Err(FormatError { structure: NAME, field: "dnode's slots", offset: 0, problem });
    }
    let mut core = dnode.core;
    if endian == Endian::Big {
        // Sectors of a data block, bytes of the bonus, the highest block; all else are single bytes or nothing.
        for number in [8..10, 10..12, 16..24] {
            core[number].reverse();
        }
    }
    to.extend_from_slice(&core);
    dnode.pointers.iter().for_each(|pointer| add_pointer(to, pointer, version));
    Ok(())
}
