//! A new volume: the object of its bytes, which has none yet, and the table with its size.
//!
//! Source: OpenZFS, `zvol.c` (`zvol_create_cb`, `zvol_check_volsize`).

use super::{DATA, PROPERTIES, SIZE};
use crate::dmu::{NewObject, Objset};
use crate::error::ZfsError;
use crate::zap::table;
use async_recursion::async_recursion as boxed;
use zfs_format::block_pointer::BLOCK_BYTES_MAX;
use zfs_format::object_type::ObjectType;

/// Bytes of the smallest block.
pub const BLOCK_BYTES_MIN: u64 = 512;

/// Makes a volume in an objset that holds nothing. `seed` makes its table its own.
///
/// # Errors
/// What is needed can't be had.
///
/// # Panics
/// The size is not one of whole blocks, or the block can't be: whoever asks has looked.
#[boxed(?Send)]
pub async fn make(
    objset: &Objset,
    bytes: u64,
    block_bytes: u64,
    seed: u64,
) -> Result<(), ZfsError> {
    let can_be = (BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&block_bytes);
    assert!(can_be && block_bytes.is_power_of_two(), "a volume's block is a power of two");
    assert!(bytes > 0 && bytes.is_multiple_of(block_bytes), "a volume is whole blocks long");
    objset.claim(DATA, &NewObject::of(ObjectType::ZVOL, block_bytes)).await?;
    let table = table::new(ObjectType::ZVOL_PROP, seed);
    let table = objset.claim(PROPERTIES, &table).await?;
    table::set(objset, &table, SIZE, table::number(bytes)).await
}
