//! Pointers in lists of what is to be freed: bpobjs, with the lists in them, and livelists.
//!
//! A bpobj may list others, and these others again; each is gone through once. Pointers are read a block at a time.
//!
//! A [livelist](crate::dsl::livelist) is a table of bpobjs by birth. What each says was allocated and not freed is to be freed with
//! the clone.

use crate::dmu::{Dnode, Objset};
use crate::error::{Problem, ZfsError};
use crate::zap::Zap;
use std::collections::BTreeSet;
use zfs_format::block_pointer::BlockPointer;
use zfs_format::dsl::bpobj::BpObj;
use zfs_format::dsl::bptree::{BpTree, BpTreeEntry};
use zfs_format::wire::{Reader, Record, Wire};

/// Bytes of a list that are read at once: a multiple of a pointer and of a bptree's entry.
const READ_BYTES: u64 = 21 * 128 * 64;
/// Lists in one list.
const LISTS_MAX: u64 = 1 << 24;

/// A bpobj that is being gone through, with the lists in it.
pub(in crate::inspect) struct BpList {
    /// Lists that are still to come.
    waiting: Vec<u64>,
    seen: BTreeSet<u64>,
    /// The one at hand: its object, where to go on and where it ends, in bytes.
    open: Option<(Dnode, u64, u64)>,
}

impl BpList {
    pub(in crate::inspect) fn new(number: u64) -> BpList {
        BpList { waiting: vec![number], seen: BTreeSet::new(), open: None }
    }

    /// The next pointers; nothing after the last. After an error it goes on behind what can't be had.
    pub(in crate::inspect) async fn next(
        &mut self,
        mos: &Objset,
    ) -> Option<Result<Vec<BlockPointer>, ZfsError>> {
        loop {
            if let Some((object, at, end)) = self.open.take().filter(|(_, at, end)| at < end) {
                let len = READ_BYTES.min(end - at);
                let found = pointers(&object, at, len).await;
                self.open = Some((object, at + len, end));
                return Some(found);
            }
            let number = self.waiting.pop()?;
            if !self.seen.insert(number) {
                continue;
            }
            if let Err(error) = self.enter(mos, number).await {
                return Some(Err(error));
            }
        }
    }

    async fn enter(&mut self, mos: &Objset, number: u64) -> Result<(), ZfsError> {
        let object = mos.dnode(number).await?;
        let list = BpObj::decode(&object.phys().bonus, object.endian());
        let list = list.map_err(|error| object.wrong(error))?;
        if list.sub_objects != 0 {
            if list.sub_object_count > LISTS_MAX {
                let (what, limit) = ("lists in a list", LISTS_MAX);
                return Err(object.problem(Problem::Limit { what, limit }));
            }
            let inner = mos.dnode(list.sub_objects).await?;
            let len = list.sub_object_count.saturating_mul(8).min(inner.capacity());
            let bytes = inner.read(0, len as usize).await?.to_vec();
            let mut from = Reader::new("lists of a bpobj", &bytes, inner.endian());
            for _ in 0..len / 8 {
                self.waiting.push(from.u64("list").map_err(|error| inner.wrong(error))?);
            }
        }
        let bytes = list.pointers.saturating_mul(BlockPointer::BYTES as u64);
        let end = bytes.min(object.capacity());
        self.open = Some((object, 0, end));
        Ok(())
    }
}

async fn pointers(object: &Dnode, at: u64, len: u64) -> Result<Vec<BlockPointer>, ZfsError> {
    let bytes = object.read(at, len as usize).await?.to_vec();
    let mut from = Reader::new("bpobj", &bytes, object.endian());
    let pointers = (0..len / BlockPointer::BYTES as u64).map(|_| from.get("pointer"));
    pointers.collect::<Result<_, _>>().map_err(|error| object.wrong(error))
}

/// The datasets that are being destroyed: what is left of all, and their roots, the groups after which blocks are theirs, how far
/// it came.
pub(crate) async fn destroyed(
    mos: &Objset,
    number: u64,
) -> Result<(BpTree, Vec<BpTreeEntry>), ZfsError> {
    let object = mos.dnode(number).await?;
    let wrong = |error| object.wrong(error);
    let header = BpTree::decode(&object.phys().bonus, object.endian()).map_err(wrong)?;
    let mut found = Vec::new();
    let bytes = BpTreeEntry::BYTES as u64;
    let end = header.end.min(object.capacity() / bytes);
    for entry in header.begin..end {
        let read = object.read(entry.saturating_mul(bytes), bytes as usize).await?.to_vec();
        found.push(BpTreeEntry::decode(&read, object.endian()).map_err(wrong)?);
    }
    Ok((header, found))
}

/// The bpobjs of the livelists of deleted clones, by the table that names these.
pub(super) async fn livelists(mos: &Objset, number: u64) -> Result<Vec<u64>, ZfsError> {
    let mut found = Vec::new();
    for livelist in numbers(mos, number).await?.into_iter().map(|(name, _)| name) {
        found.extend(numbers(mos, livelist).await?.into_iter().map(|(_, list)| list));
    }
    Ok(found)
}

/// A table whose names are numbers, in hexadecimal.
async fn numbers(mos: &Objset, number: u64) -> Result<Vec<(u64, u64)>, ZfsError> {
    let zap = Zap::open(mos.dnode(number).await?).await?;
    let wrong = || mos.wrong(number, Problem::Entry("of a number"));
    let mut found = Vec::new();
    for entry in zap.entries().await? {
        let name = u64::from_str_radix(&entry.text(), 16).map_err(|_| wrong())?;
        found.push((name, entry.number().ok_or_else(wrong)?));
    }
    Ok(found)
}
