//! Dbufs: blocks of one object that are held above the cache.
//!
//! A block that was changed has no pointer, so it can't be in the cache below; and a block that a change is about to look
//! at must not leave that cache meanwhile. These are here, and no others: what else is read the cache hands out by itself.
//!
//! ```text
//!   dirty   changed in a group that is not in the pool; `frozen`, if the group before changed it too: as that left it
//!   held    clean, and somebody holds it
//!   last    the lowest indirect block that was used last, clean: reading on looks at one pointer
//! ```
//!
//! *Freed ranges* are blocks of level 0 that a living group freed. A dbuf within one is younger than the range, and
//! counts; a block without one is a hole there, whatever pointer there is.
//!
//! Bytes that anybody else holds are never changed ([`Buf::try_into_mut`] sees to that): a group that froze a block, a
//! reader, and the cache each hold a reference.
//!
//! Source: OpenZFS, `dbuf.c`; `docs/theory/pools.md` for what is otherwise here.

use super::txg::{Tx, Txg};
use rt::{Buf, BufMut};
use std::collections::BTreeMap;
use std::ops::Range;
use stdx::RangeSet;
use stdx::planted::{self, Bug};
use zfs_format::Endian;

/// A block's bytes and their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// As many as the object's blocks are long.
    pub bytes: Buf,
    /// The order of the machine that wrote them.
    pub endian: Endian,
}

impl Block {
    /// The same, and zeros up to this length.
    pub fn grown(&self, len: usize) -> Block {
        assert!(len >= self.bytes.len(), "a block grows");
        let mut bytes = BufMut::zeroed(len);
        bytes[..self.bytes.len()].copy_from_slice(self.bytes.bytes());
        Block { bytes: bytes.freeze(), endian: self.endian }
    }
}

/// Which block of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct At {
    /// 0 for data.
    pub(super) level: u8,
    /// Its number on the level.
    pub(super) block: u64,
}

impl At {
    /// The spill block, which stands beside the tree.
    pub(super) const SPILL: At = At { level: u8::MAX, block: 0 };

    /// A data block.
    pub(super) fn data(block: u64) -> At {
        At { level: 0, block }
    }
}

/// What a block is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// These bytes.
    Block(Block),
    /// Nothing, whatever the pointer says.
    Hole,
}

struct Dbuf {
    /// As the open context sees it.
    content: Content,
    /// The group that changed it last; nothing of a clean one.
    dirty: Option<Txg>,
    /// As the syncing group left it, where the open one changed it since.
    frozen: Option<(Txg, Content)>,
    holds: u32,
    /// It was written by the group that syncs, and stays until that is in the pool: the pointer to it leads to what may
    /// yet be written again.
    kept: bool,
}

/// The dbufs of one object. See the [module](self).
#[derive(Default)]
pub(super) struct Dbufs {
    blocks: BTreeMap<At, Dbuf>,
    freed: BTreeMap<Txg, RangeSet>,
    last: Option<(At, Block)>,
    trees: u64,
}

impl Dbufs {
    /// What the open context sees there, where that is not for the block pointer to say.
    pub(super) fn get(&self, at: At) -> Option<Content> {
        // Most objects have none.
        if self.blocks.is_empty() && self.freed.is_empty() {
            return None;
        }
        if let Some(dbuf) = self.blocks.get(&at) {
            return Some(dbuf.content.clone());
        }
        let freed = || self.freed.values().any(|ranges| ranges.contains(at.block));
        (at.level == 0 && freed()).then_some(Content::Hole)
    }

    /// The last indirect block that was used, if it is this one.
    pub(super) fn last(&self, at: At) -> Option<&Block> {
        self.last.as_ref().filter(|(of, _)| *of == at).map(|(_, block)| block)
    }

    /// Remembers the indirect block that was used last.
    pub(super) fn set_last(&mut self, at: At, block: Block) {
        assert!(at.level > 0 && at != At::SPILL, "data is not remembered here");
        self.last = Some((at, block));
    }

    /// The first number after `number` at which another kind of answer than the block pointer's may begin.
    pub(super) fn next_after(&self, number: u64) -> Option<u64> {
        let from = At::data(number.checked_add(1)?);
        let dbuf = self.blocks.range(from..At { level: 1, block: 0 }).next();
        let freed = self.freed.values().filter_map(|ranges| ranges.next_start(number));
        freed.chain(dbuf.map(|(at, _)| at.block)).min()
    }

    /// The end of what is known from a number on to be a hole: of the freed range, up to the next dbuf.
    pub(super) fn hole_end(&self, number: u64) -> u64 {
        let ends = self
            .freed
            .values()
            .filter_map(|ranges| ranges.stretch_of(number))
            .map(|stretch| stretch.end);
        let Some(end) = ends.max() else { return number.saturating_add(1) };
        let from = At::data(number.saturating_add(1));
        let next = self.blocks.range(from..At { level: 1, block: 0 }).next();
        next.map_or(end, |(at, _)| end.min(at.block))
    }

    /// Counts the trees that took the place of the one before.
    pub(super) fn trees(&self) -> u64 {
        self.trees
    }

    /// Holds a block that was read by a pointer of the tree that there is, or what took its place since. Says whether there was
    /// something to hold.
    pub(super) fn hold(&mut self, at: At, block: Block) -> bool {
        let clean = || Dbuf {
            content: Content::Block(block),
            dirty: None,
            frozen: None,
            holds: 0,
            kept: false,
        };
        let dbuf = match self.get(at) {
            // Freed while it was read: there is nothing to hold.
            Some(Content::Hole) => return false,
            _ => self.blocks.entry(at).or_insert_with(clean),
        };
        dbuf.holds += 1;
        true
    }

    /// Lets go of a block that was held.
    pub(super) fn release(&mut self, at: At) {
        let Some(dbuf) = self.blocks.get_mut(&at) else { return };
        dbuf.holds = dbuf.holds.saturating_sub(1);
        if dbuf.holds == 0 && dbuf.dirty.is_none() && !dbuf.kept {
            self.blocks.remove(&at);
        }
    }

    /// Puts a content in the place of what is there.
    pub(super) fn put(&mut self, tx: &Tx, at: At, content: Content) {
        let len = |content: &Content| match content {
            Content::Block(block) => block.bytes.len() as u64,
            Content::Hole => 0,
        };
        let new = len(&content);
        let Some(dbuf) = self.blocks.get_mut(&at) else {
            let dbuf = Dbuf { content, dirty: Some(tx.txg()), frozen: None, holds: 0, kept: false };
            self.blocks.insert(at, dbuf);
            return tx.changed(new);
        };
        let old = std::mem::replace(&mut dbuf.content, content);
        match dbuf.dirty.replace(tx.txg()) {
            None => tx.changed(new),
            Some(txg) if txg == tx.txg() => tx.changed(new.saturating_sub(len(&old))),
            Some(txg) => {
                tx.check_frozen(txg);
                assert!(dbuf.frozen.is_none(), "two groups live at the most");
                dbuf.frozen = Some((txg, old));
                tx.changed(new);
            }
        }
    }

    /// Changes bytes of a block: those of the dbuf in place where nobody else holds them, else a copy; `clean` is the
    /// block where there is no dbuf.
    pub(super) fn edit(
        &mut self,
        tx: &Tx,
        at: At,
        clean: Option<Block>,
        how: impl FnOnce(&mut [u8]),
    ) {
        // Bytes of a group that closed stay as they are.
        let any = planted::is(Bug::ClosedGroupEdited);
        let is_ours = |dbuf: &&mut Dbuf| dbuf.dirty == Some(tx.txg()) || any;
        if let Some(dbuf) = self.blocks.get_mut(&at).filter(is_ours)
            && let Content::Block(block) = &mut dbuf.content
        {
            let bytes = std::mem::replace(&mut block.bytes, Buf::empty());
            block.bytes = edited(bytes, how);
            return tx.changed(0);
        }
        let block = match self.blocks.get(&at).map(|dbuf| &dbuf.content) {
            Some(Content::Block(block)) => Some(block.clone()),
            Some(Content::Hole) | None => clean,
        };
        let Block { bytes, endian } =
            block.expect("what is changed was planned, so it is resident");
        let bytes = edited(bytes, how);
        self.put(tx, at, Content::Block(Block { bytes, endian }));
    }

    /// Frees blocks of level 0.
    pub(super) fn free(&mut self, tx: &Tx, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (from, to) = (At::data(range.start), At::data(range.end));
        let within: Vec<At> = self.blocks.range(from..to).map(|(at, _)| *at).collect();
        for at in within {
            let Some(dbuf) = self.blocks.get_mut(&at) else { continue };
            let older = dbuf.dirty.is_some_and(|txg| txg < tx.txg()) || dbuf.frozen.is_some();
            if older || dbuf.holds > 0 {
                self.put(tx, at, Content::Hole);
            } else {
                self.blocks.remove(&at);
            }
        }
        if !planted::nth(Bug::FreedRangeLost, 5) {
            self.freed.entry(tx.txg()).or_default().insert(range);
        }
        tx.changed(0);
    }

    /// The blocks that a group changed, as it left them: data, and the spill block.
    pub(super) fn changed_in(&self, txg: Txg) -> Vec<(At, Content)> {
        let changed = |at: &At| Some((*at, self.as_of(txg, *at)?));
        self.blocks.keys().filter_map(changed).collect()
    }

    /// A block of level 0 that the open group changed, as it is now.
    pub(super) fn open_in(&self, txg: Txg, number: u64) -> Option<Block> {
        let dbuf = self.blocks.get(&At::data(number)).filter(|dbuf| dbuf.dirty == Some(txg))?;
        match &dbuf.content {
            Content::Block(block) => Some(block.clone()),
            Content::Hole => None,
        }
    }

    /// Whether a block was changed after a group.
    pub(super) fn is_dirty_after(&self, txg: Txg, at: At) -> bool {
        self.blocks.get(&at).and_then(|dbuf| dbuf.dirty).is_some_and(|dirty| dirty > txg)
    }

    /// The ranges that a group freed.
    pub(super) fn freed_in(&self, txg: Txg) -> Vec<Range<u64>> {
        self.freed.get(&txg).map(|ranges| ranges.iter().collect()).unwrap_or_default()
    }

    /// What a group changed is written, and the tree leads to it. The indirect blocks on the way are as they were
    /// written.
    pub(super) fn written(&mut self, txg: Txg, indirect: Vec<(At, Content)>) {
        self.freed.remove(&txg);
        self.last = None;
        self.trees += 1;
        for dbuf in self.blocks.values_mut() {
            if dbuf.frozen.as_ref().is_some_and(|(frozen, _)| *frozen == txg) {
                dbuf.frozen = None;
            }
            if dbuf.dirty == Some(txg) {
                (dbuf.dirty, dbuf.kept) = (None, true);
            }
        }
        for (at, content) in indirect {
            let dbuf = Dbuf { content, dirty: None, frozen: None, holds: 0, kept: true };
            let holds = self.blocks.insert(at, dbuf).map_or(0, |before| {
                assert!(before.dirty.is_none(), "indirect blocks change by being written only");
                before.holds
            });
            self.blocks.get_mut(&at).expect("it was put there").holds = holds;
        }
    }

    /// The blocks that the group wrote and nobody changed since.
    pub(super) fn kept(&self) -> Vec<(At, Block)> {
        let kept = self.blocks.iter().filter(|(_, dbuf)| dbuf.kept && dbuf.dirty.is_none());
        let block = |(at, dbuf): (&At, &Dbuf)| match &dbuf.content {
            Content::Block(block) => Some((*at, block.clone())),
            Content::Hole => None,
        };
        kept.filter_map(block).collect()
    }

    /// The group that was written is in the pool: what it changed is found by its pointers.
    pub(super) fn committed(&mut self) {
        self.blocks.retain(|_, dbuf| {
            dbuf.kept = false;
            dbuf.dirty.is_some() || dbuf.holds > 0
        });
    }

    /// What a group left there.
    fn as_of(&self, txg: Txg, at: At) -> Option<Content> {
        let dbuf = self.blocks.get(&at)?;
        match &dbuf.frozen {
            Some((frozen, content)) if *frozen == txg => Some(content.clone()),
            _ => (dbuf.dirty == Some(txg)).then(|| dbuf.content.clone()),
        }
    }
}

/// The bytes after a change: in place where nobody else holds them, else a copy.
fn edited(bytes: Buf, how: impl FnOnce(&mut [u8])) -> Buf {
    let len = bytes.len();
    let copied = |bytes: Buf| match bytes.fill_word() {
        Some(0) => BufMut::zeroed(len),
        _ => BufMut::copy_of(bytes.bytes()),
    };
    let mut bytes = bytes.try_into_mut().unwrap_or_else(copied);
    how(&mut bytes);
    assert!(bytes.len() == len, "a change keeps a block's length");
    bytes.freeze()
}

#[cfg(test)]
mod tests {
    //! What could break: a change that reaches bytes which a closed group, or a reader, still holds; a block that comes back
    //! after it was freed; a hole told where data is dirty.

    use super::super::txg::TxGroups;
    use super::*;
    use proptest::prelude::*;

    const LEN: usize = 16;

    fn block(byte: u8) -> Block {
        Block { bytes: Buf::copy_of(&[byte; LEN]), endian: Endian::Little }
    }

    fn bytes(content: Option<Content>) -> Option<Vec<u8>> {
        match content {
            Some(Content::Block(block)) => Some(block.bytes.bytes().to_vec()),
            Some(Content::Hole) => Some(vec![0; LEN]),
            None => None,
        }
    }

    proptest! {
        /// Blocks begin as 7s that pointers lead to. A model keeps what each of both groups should see.
        #[test]
        fn each_group_keeps_what_it_wrote(
            steps in proptest::collection::vec((0u8..5, 0u64..6, 1u64..4, any::<u8>()), 0..40),
            rotate_at in 0usize..40,
        ) {
            let groups = TxGroups::never_synced(Txg(3), u64::MAX);
            let mut dbufs = Dbufs::default();
            let mut model = vec![vec![7u8; LEN]; 10];
            let mut closed = None;
            let mut readers = Vec::new();
            for (step, (what, number, many, byte)) in steps.into_iter().enumerate() {
                if step == rotate_at {
                    closed = Some(model.clone());
                    groups.rotate();
                }
                let tx = groups.join().expect("there is room");
                let (at, index) = (At::data(number), number as usize);
                match what {
                    0 => {
                        dbufs.put(&tx, at, Content::Block(block(byte)));
                        model[index] = vec![byte; LEN];
                    }
                    1 => {
                        let zeros = Block { bytes: Buf::zeros(LEN), endian: Endian::Little };
                        let clean = match dbufs.get(at) {
                            None => block(7),
                            Some(_) => zeros,
                        };
                        dbufs.edit(&tx, at, Some(clean), |bytes| bytes[3] = byte);
                        model[index][3] = byte;
                    }
                    2 => {
                        dbufs.free(&tx, number..number + many);
                        model[index..index + many as usize].fill(vec![0; LEN]);
                    }
                    3 => {
                        dbufs.hold(at, block(7));
                        dbufs.release(at);
                    }
                    _ => readers.push((dbufs.get(at), model[index].clone())),
                }
            }
            for (number, expected) in model.iter().enumerate() {
                let found = dbufs.get(At::data(number as u64));
                prop_assert_eq!(&bytes(found).unwrap_or(vec![7; LEN]), expected);
            }
            for (found, expected) in readers {
                prop_assert_eq!(bytes(found).unwrap_or(vec![7; LEN]), expected);
            }
            if let Some(closed) = closed {
                for (number, expected) in closed.iter().enumerate() {
                    let at = At::data(number as u64);
                    let found = dbufs.as_of(Txg(4), at);
                    let freed = dbufs.freed.get(&Txg(4));
                    let hole = freed.is_some_and(|ranges| ranges.contains(at.block));
                    let pointer = if hole { vec![0; LEN] } else { vec![7; LEN] };
                    prop_assert_eq!(&bytes(found).unwrap_or(pointer), expected);
                }
            }
        }
    }

    #[test]
    fn what_is_only_held_leaves_when_it_is_let_go() {
        let mut dbufs = Dbufs::default();
        dbufs.hold(At::data(3), block(1));
        dbufs.hold(At::data(3), block(1));
        dbufs.release(At::data(3));
        assert!(dbufs.get(At::data(3)).is_some());
        dbufs.release(At::data(3));
        assert!(dbufs.get(At::data(3)).is_none() && dbufs.blocks.is_empty());
    }
}
