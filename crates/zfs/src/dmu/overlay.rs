//! What an intent log adds to the objects of a dataset, held in memory.
//!
//! An overlay is laid over an objset when a log is shown without being carried out. It has pieces of bytes by object,
//! which stand before the object's own; how far the object's own count (a file may have been cut off); and objects that
//! the pool does not have yet. Blocks of such objects are put together when they are read.
//!
//! Pieces of one object never overlap: a later write cuts what it covers out of earlier ones.

use rt::{Buf, BufMut};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use zfs_format::dnode::Dnode;

/// Bytes that an overlay holds at the most: the memory of a machine, not the length of a log, is the bound.
pub const BYTES_MAX: u64 = 1 << 30;

/// What a log adds to a dataset's objects. See the [module](self).
#[derive(Default)]
pub struct Overlay {
    changed: RefCell<BTreeMap<u64, Rc<Patches>>>,
    new: RefCell<BTreeMap<u64, Dnode>>,
    bytes: Cell<u64>,
}

/// What a log adds to one object.
pub struct Patches {
    /// Bytes by where they begin.
    pieces: RefCell<BTreeMap<u64, Buf>>,
    /// Up to there the object's own bytes count.
    own: Cell<u64>,
}

impl Overlay {
    /// Puts bytes into an object. Nothing is put down, and `false` comes back, where that would be more than
    /// [`BYTES_MAX`] in all. Zeros take no memory.
    #[must_use]
    pub fn write(&self, object: u64, at: u64, bytes: Buf) -> bool {
        let cost = if bytes.fill_word().is_some() { 0 } else { bytes.len() as u64 };
        let total = self.bytes.get().saturating_add(cost);
        if total > BYTES_MAX {
            return false;
        }
        self.bytes.set(total);
        self.patches(object).write(at, bytes);
        true
    }

    /// Zeros a range of an object.
    pub fn zero(&self, object: u64, range: Range<u64>) {
        let patches = self.patches(object);
        patches.cut_out(range.clone());
        let len = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        if len > 0 {
            patches.pieces.borrow_mut().insert(range.start, Buf::zeros(len));
        }
    }

    /// Cuts an object off: what lay behind reads as zeros.
    pub fn truncate(&self, object: u64, at: u64) {
        let patches = self.patches(object);
        patches.cut_out(at..u64::MAX);
        patches.own.set(patches.own.get().min(at));
    }

    /// Adds an object that the pool doesn't have.
    pub fn create(&self, object: u64, dnode: Dnode) {
        // A number that was in use before has nothing of its own left.
        self.changed.borrow_mut().remove(&object);
        self.patches(object).own.set(0);
        self.new.borrow_mut().insert(object, dnode);
    }

    fn patches(&self, object: u64) -> Rc<Patches> {
        let new = || Rc::new(Patches { pieces: RefCell::default(), own: Cell::new(u64::MAX) });
        Rc::clone(self.changed.borrow_mut().entry(object).or_insert_with(new))
    }

    pub(super) fn changes(&self, object: u64) -> Option<Rc<Patches>> {
        self.changed.borrow().get(&object).cloned()
    }

    pub(super) fn created(&self, object: u64) -> Option<Dnode> {
        self.new.borrow().get(&object).cloned()
    }
}

impl Patches {
    fn write(&self, at: u64, bytes: Buf) {
        let end = at.saturating_add(bytes.len() as u64);
        self.cut_out(at..end);
        if end > at {
            self.pieces.borrow_mut().insert(at, bytes);
        }
    }

    fn cut_out(&self, range: Range<u64>) {
        let mut pieces = self.pieces.borrow_mut();
        let touched: Vec<u64> = touching(&pieces, range.clone()).map(|(at, _)| at).collect();
        for at in touched {
            let Some(piece) = pieces.remove(&at) else { continue };
            let end = at + piece.len() as u64;
            if at < range.start {
                pieces.insert(at, piece.slice(0..(range.start - at) as usize));
            }
            if end > range.end {
                let rest = piece.slice((range.end - at) as usize..piece.len());
                pieces.insert(range.end, rest);
            }
        }
    }

    /// Whether a block is as the object has it.
    pub(super) fn leaves_alone(&self, range: Range<u64>) -> bool {
        range.end <= self.own.get() && touching(&self.pieces.borrow(), range).next().is_none()
    }

    /// A block of the object as it should be.
    pub(super) fn patched(&self, at: u64, own: &Buf) -> Buf {
        let end = at.saturating_add(own.len() as u64);
        let mut block = BufMut::copy_of(own.bytes());
        let keeps = self.own.get().saturating_sub(at).min(own.len() as u64) as usize;
        block[keeps..].fill(0);
        for (start, piece) in touching(&self.pieces.borrow(), at..end) {
            let from = start.max(at);
            let to = (start + piece.len() as u64).min(end);
            let source = &piece.bytes()[(from - start) as usize..(to - start) as usize];
            block[(from - at) as usize..(to - at) as usize].copy_from_slice(source);
        }
        block.freeze()
    }

    /// Past the last byte that was put down.
    pub(super) fn end(&self) -> u64 {
        let pieces = self.pieces.borrow();
        pieces.last_key_value().map_or(0, |(at, piece)| at + piece.len() as u64)
    }

    /// Up to where the object's own bytes count.
    pub(super) fn own_end(&self) -> u64 {
        self.own.get()
    }

    /// The first byte from there on that was put down.
    pub(super) fn next(&self, from: u64) -> Option<u64> {
        let pieces = self.pieces.borrow();
        touching(&pieces, from..u64::MAX).next().map(|(at, _)| at.max(from))
    }

    /// The end of the piece that covers a byte.
    pub(super) fn covers(&self, at: u64) -> Option<u64> {
        let pieces = self.pieces.borrow();
        touching(&pieces, at..at.saturating_add(1))
            .next()
            .map(|(at, piece)| at + piece.len() as u64)
    }
}

/// The pieces that lie at least partly in a range, in order.
fn touching(pieces: &BTreeMap<u64, Buf>, range: Range<u64>) -> impl Iterator<Item = (u64, &Buf)> {
    let before = pieces.range(..range.start).next_back();
    let before = before.filter(|(at, piece)| **at + piece.len() as u64 > range.start);
    before.into_iter().chain(pieces.range(range)).map(|(at, piece)| (*at, piece))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What could break: a cut at the edge of a piece, a piece that outlives the cut, own bytes that come back.
        #[test]
        fn an_overlay_is_what_bytes_would_be(
            steps in proptest::collection::vec((0u8..4, 0usize..60, 1usize..30, any::<u8>()), 0..30),
        ) {
            let own = Buf::copy_of(&[7; 64]);
            let mut model = vec![7u8; 64];
            model.resize(128, 0);
            let overlay = Overlay::default();
            for (step, at, len, byte) in steps {
                match step {
                    0 | 1 => {
                        let bytes = Buf::copy_of(&vec![byte; len]);
                        prop_assert!(overlay.write(3, at as u64, bytes));
                        model[at..at + len].fill(byte);
                    }
                    2 => {
                        overlay.zero(3, at as u64..(at + len) as u64);
                        model[at..at + len].fill(0);
                    }
                    _ => {
                        overlay.truncate(3, at as u64);
                        model[at..].fill(0);
                    }
                }
            }
            let Some(patches) = overlay.changes(3) else { return Ok(()) };
            for block in 0..8u64 {
                let at = block * 16;
                let below = if at < 64 { own.slice(at as usize..at as usize + 16) } else { Buf::zeros(16) };
                let found = patches.patched(at, &below);
                prop_assert_eq!(found.bytes(), &model[at as usize..at as usize + 16]);
                if patches.leaves_alone(at..at + 16) {
                    prop_assert_eq!(found.bytes(), below.bytes());
                }
            }
        }
    }
}
