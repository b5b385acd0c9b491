//! Which blocks of a file were used in this pass: a bitmap that finds the next free block fast.
//!
//! Random I/O in fio touches each block once a pass (unless `norandommap`): a block is drawn, and where
//! it was used already, the next free one above it is taken, going round at the end. The map is a tree
//! of words: a bit of a level says that all 64 bits below it are set, so the search takes a few steps
//! however full the map is.

const WORD: usize = 64;

/// See the [module](self).
pub(super) struct BlockMap {
    /// The blocks, then words of words, up to a level of one word.
    levels: Vec<Vec<u64>>,
    blocks: u64,
}

impl BlockMap {
    /// A map of so many blocks, none used.
    pub(super) fn new(blocks: u64) -> BlockMap {
        let mut map = BlockMap { levels: Vec::new(), blocks };
        let mut bits = usize::try_from(blocks).unwrap_or(usize::MAX);
        loop {
            let words = bits.div_ceil(WORD).max(1);
            let mut level = vec![0; words];
            // Bits that stand for nothing count as used.
            if let Some(last) = level.last_mut()
                && !bits.is_multiple_of(WORD)
            {
                *last = !0 << (bits % WORD);
            }
            if bits == 0 {
                level.fill(!0);
            }
            map.levels.push(level);
            if words == 1 {
                return map;
            }
            bits = words;
        }
    }

    /// None used.
    pub(super) fn clear(&mut self) {
        *self = BlockMap::new(self.blocks);
    }

    /// Whether a block was used. What lies beyond the map counts as used.
    pub(super) fn is_used(&self, block: u64) -> bool {
        let at = block as usize;
        block >= self.blocks || self.levels[0][at / WORD] & 1 << (at % WORD) != 0
    }

    /// Uses `count` blocks from `block` on, up to one that was used already. Returns how many.
    pub(super) fn use_up_to(&mut self, block: u64, count: u64) -> u64 {
        let mut used = 0;
        while used < count && !self.is_used(block + used) {
            self.set((block + used) as usize);
            used += 1;
        }
        used
    }

    fn set(&mut self, mut at: usize) {
        for level in &mut self.levels {
            let word = &mut level[at / WORD];
            *word |= 1 << (at % WORD);
            if *word != !0 {
                return;
            }
            at /= WORD;
        }
    }

    /// The first free block from `block` on, going round at the end; `None` where all are used.
    pub(super) fn next_free(&self, block: u64) -> Option<u64> {
        self.free_from(block).or_else(|| self.free_from(0))
    }

    fn free_from(&self, block: u64) -> Option<u64> {
        let mut at = usize::try_from(block).ok()?;
        for (height, level) in self.levels.iter().enumerate() {
            let word = *level.get(at / WORD)? | ((1_u64 << (at % WORD)) - 1);
            if word != !0 {
                let mut found = at / WORD * WORD + word.trailing_ones() as usize;
                for below in self.levels[..height].iter().rev() {
                    found = found * WORD + below[found].trailing_ones() as usize;
                }
                return Some(found as u64);
            }
            // Nothing in this word: go on behind it, a level up.
            at = at / WORD + 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    //! What could break: a block that a pass never reaches, or reaches twice.

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_full_map_has_no_free_block() {
        for blocks in [0, 1, 63, 64, 65, 4096, 4097, 300_000] {
            let mut map = BlockMap::new(blocks);
            assert_eq!(map.use_up_to(0, u64::MAX), blocks);
            assert_eq!(map.next_free(blocks / 2), None, "{blocks}");
            map.clear();
            assert_eq!(map.next_free(0), (blocks > 0).then_some(0));
        }
    }

    proptest! {
        /// The same answers as a plain list of flags.
        #[test]
        fn agrees_with_a_plain_list(blocks in 1_u64..9000, steps in proptest::collection::vec((0_u64..9000, 1_u64..70), 0..400)) {
            let (mut map, mut plain) = (BlockMap::new(blocks), vec![false; blocks as usize]);
            for (block, count) in steps {
                let block = block % blocks;
                let expected = (block..blocks).chain(0..block).find(|at| !plain[*at as usize]);
                prop_assert_eq!(map.next_free(block), expected);
                let used = map.use_up_to(block, count);
                let expected = plain[block as usize..].iter().take(count as usize).take_while(|used| !**used).count();
                prop_assert_eq!(used, expected as u64);
                plain[block as usize..][..expected].fill(true);
            }
        }
    }
}
