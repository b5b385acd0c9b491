//! Blocks that were cloned: how many pointers beyond the first name each.
//!
//! ```text
//!   a pointer dies ──▶ the block has a count ──▶ the count is less by one; with the last count the block has one pointer, as any other
//!                      it has none          ──▶ its places are free
//! ```
//!
//! A block is known by its first place. Who syncs [takes](Clones::take) what changed and writes it down in the same group, in which
//! the pointers die.
//!
//! Source: OpenZFS, `brt.c` (`brt_entry_decref`, `brt_vdev_decref`).

use std::collections::BTreeMap;
use zfs_format::block_pointer::Dva;

/// What changed of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lowered {
    /// Pointers beyond the first that name it now.
    pub count: u64,
    /// How many went.
    pub gone: u64,
    /// Bytes that it takes, as people are told them.
    pub bytes: u64,
}

/// The cloned blocks of a pool, by vdev and offset.
#[derive(Debug, Default)]
pub struct Clones {
    counts: BTreeMap<(u32, u64), u64>,
    changed: BTreeMap<(u32, u64), Lowered>,
}

impl Clones {
    /// So many pointers beyond the first name the block there.
    pub fn insert(&mut self, vdev: u32, offset: u64, count: u64) {
        self.counts.insert((vdev, offset), count);
    }

    /// How many blocks are cloned.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// A pointer to the block of this first place, which takes so many bytes, dies. Says whether others name it.
    pub fn lower(&mut self, first: &Dva, bytes: u64) -> bool {
        let key = (first.vdev(), first.offset());
        let Some(count) = self.counts.get_mut(&key) else { return false };
        let left = count.saturating_sub(1);
        *count = left;
        if left == 0 {
            self.counts.remove(&key);
        }
        let changed = self.changed.entry(key).or_default();
        *changed = Lowered { count: left, gone: changed.gone + 1, bytes };
        true
    }

    /// What changed, by vdev and offset: whoever asks writes it down.
    pub fn take(&mut self) -> BTreeMap<(u32, u64), Lowered> {
        std::mem::take(&mut self.changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_free_with_its_last_pointer() {
        let mut clones = Clones::default();
        let (one, other) = (Dva::new(1, 4096, 512, false), Dva::new(0, 4096, 512, false));
        assert!(!clones.lower(&one, 512));
        clones.insert(1, 4096, 2);
        assert!(!clones.lower(&other, 512) && clones.lower(&one, 512));
        let lowered =
            |count, gone| BTreeMap::from([((1, 4096), Lowered { count, gone, bytes: 512 })]);
        assert_eq!(clones.take(), lowered(1, 1));
        assert!(clones.lower(&one, 512) && clones.is_empty());
        assert_eq!(clones.take(), lowered(0, 1));
        assert!(!clones.lower(&one, 512) && clones.take().is_empty());
    }
}
