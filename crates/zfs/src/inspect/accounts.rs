//! Who takes what of a file system: as its tables say, and as its files add up to.
//!
//! Both are the same where all was counted from the beginning (the root block says so), after any group. A snapshot has its own
//! tables.

use crate::dmu::account::TABLES;
use crate::dmu::{Counted, Objset, Tally};
use crate::error::ZfsError;
use crate::zap::Zap;
use async_recursion::async_recursion as boxed;
use std::collections::BTreeMap;
use zfs_format::dnode::flags;
use zfs_format::objset::flags as complete;

/// Sums by their names: bytes by the number in hexadecimal, objects with `obj-` before it.
pub type Sums = BTreeMap<String, u64>;

/// The sums of users, groups and projects as they stand in the tables; nothing where there is no such table.
///
/// # Errors
/// A table can't be had.
#[boxed(?Send)]
pub async fn stored(objset: &Objset) -> Result<[Option<Sums>; TABLES], ZfsError> {
    let mut found = [None, None, None];
    for (table, sums) in found.iter_mut().enumerate() {
        let Some(dnode) = objset.used(table) else { continue };
        let entries = Zap::open(dnode).await?.entries().await?;
        let sum = |entry: crate::zap::Entry| Some((entry.text(), entry.number()?));
        *sums = Some(entries.into_iter().filter_map(sum).collect());
    }
    Ok(found)
}

/// The sums that all files add up to: each as far as its dnode or the root block says that it is counted.
///
/// # Errors
/// A dnode can't be had.
#[boxed(?Send)]
pub async fn reckoned(objset: &Objset) -> Result<[Sums; TABLES], ZfsError> {
    let root = objset.root();
    let is_complete = |flag: u64| root.flags & flag != 0;
    let mut marks = 0;
    if is_complete(complete::USER_ACCOUNTING) {
        marks |= flags::USER_USED_ACCOUNTED;
    }
    if is_complete(complete::USER_OBJECT_ACCOUNTING) {
        marks |= flags::USER_OBJECT_ACCOUNTED;
    }
    let projects = objset.used(TABLES - 1).is_some();
    let mut tally = Tally::of(Counted { objects: true, projects });
    let mut from = 1;
    while let Some((dnodes, next)) = objset.dnodes_from(from).await? {
        for (_, mut dnode, endian) in dnodes {
            dnode.flags |= marks;
            tally.add(&dnode, endian);
        }
        from = next;
    }
    Ok(tally.changes().map(|table| {
        let sums = table.map(|(name, sum)| (name.to_owned(), sum as u64));
        sums.collect()
    }))
}
