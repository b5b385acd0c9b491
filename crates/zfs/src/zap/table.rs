//! Tables by changes of their own: one is made, gets a name, loses one. Names are meant byte for byte, however a table normalises them.

use super::change::{Plan, empty};
use crate::dmu::{Dnode, NewObject, Objset};
use crate::error::ZfsError;
use zfs_format::Endian;
use zfs_format::object_type::ObjectType;
use zfs_format::zap::leaf::LeafValue;

/// A table of a type, without names, that is to be made. `seed` makes its hashes its own.
pub fn new(object_type: ObjectType, seed: u64) -> NewObject {
    normalizing(object_type, seed, 0)
}

/// The same of a table that takes names for equal after they were normalised so.
pub fn normalizing(object_type: ObjectType, seed: u64, normalization: u64) -> NewObject {
    // OpenZFS salts a table by its place in memory and the object; any number does.
    let salt = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    NewObject::of(object_type, 512).with_first(empty(salt, normalization, Endian::Little))
}

/// A number as a value.
pub fn number(number: u64) -> LeafValue {
    LeafValue { number_bytes: 8, numbers: vec![number] }
}

/// Text as a value, with its zero.
pub fn text(text: &str) -> LeafValue {
    let numbers = text.bytes().chain([0]).map(u64::from).collect();
    LeafValue { number_bytes: 1, numbers }
}

/// Bytes as a value.
pub fn bytes(bytes: &[u8]) -> LeafValue {
    LeafValue { number_bytes: 1, numbers: bytes.iter().map(|byte| u64::from(*byte)).collect() }
}

/// Puts a name into a table, or gives it another value.
///
/// # Errors
/// What is needed can't be had, or the table takes no such name.
pub async fn set(
    objset: &Objset,
    table: &Dnode,
    name: &str,
    value: LeafValue,
) -> Result<(), ZfsError> {
    objset
        .change(|tx| {
            let mut plan = Plan::of(table)?;
            plan.set(name.as_bytes(), value.clone())?;
            plan.ready()?.carry_out(tx);
            Ok(())
        })
        .await
}

/// The same of several names, by one plan: for each by itself the table's head would be taken apart and put together again.
///
/// # Errors
/// As of [`set`]; none is in the table then.
pub async fn set_all(
    objset: &Objset,
    table: &Dnode,
    entries: &[(String, LeafValue)],
) -> Result<(), ZfsError> {
    objset
        .change(|tx| {
            let mut plan = Plan::of(table)?;
            for (name, value) in entries {
                plan.set(name.as_bytes(), value.clone())?;
            }
            plan.ready()?.carry_out(tx);
            Ok(())
        })
        .await
}

/// Takes a name out of a table; says whether it was there.
///
/// # Errors
/// What is needed can't be had.
pub async fn remove(objset: &Objset, table: &Dnode, name: &str) -> Result<bool, ZfsError> {
    objset
        .change(|tx| {
            let mut plan = Plan::of(table)?;
            let was_there = plan.remove(name.as_bytes())?;
            if was_there {
                plan.ready()?.carry_out(tx);
            }
            Ok(was_there)
        })
        .await
}
