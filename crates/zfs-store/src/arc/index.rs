//! Finds the entry of a block: a hash table whose order nobody sees.
//!
//! It holds numbers of entries only; keys are compared where they are. The standard library's map is barred because its
//! order differs from run to run; this one's hash is fixed, so that two runs that do the same take the same time. A
//! tree takes several times as long for millions of blocks.

use hashbrown::HashTable;

/// What tells a block from others: where its first copy is, when that was written, and whether it is as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) dva: [u64; 2],
    pub(super) birth: u64,
    pub(super) raw: bool,
}

impl Key {
    /// Places of a pool differ in few bits; multiplications spread them over the upper ones, and the upper half over the
    /// lower, for the table looks at both ends.
    fn hash(&self) -> u64 {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut mixed = self.dva[1].wrapping_mul(ODD) ^ self.dva[0].rotate_left(32);
        mixed = (mixed ^ (mixed >> 29)).wrapping_mul(ODD) ^ self.birth ^ u64::from(self.raw) << 63;
        mixed = mixed.wrapping_mul(ODD);
        mixed ^ (mixed >> 32)
    }
}

/// See the [module](self).
#[derive(Default)]
pub(super) struct Index(HashTable<u32>);

impl Index {
    /// The number of the entry with this key; `key_of` tells the key of a number.
    pub(super) fn find(&self, key: &Key, key_of: impl Fn(u32) -> Key) -> Option<u32> {
        self.0.find(key.hash(), |number| key_of(*number) == *key).copied()
    }

    /// Adds the number of an entry whose key isn't there.
    pub(super) fn insert(&mut self, key: &Key, number: u32, key_of: impl Fn(u32) -> Key) {
        self.0.insert_unique(key.hash(), number, |number| key_of(*number).hash());
    }

    /// Removes the number of an entry.
    pub(super) fn remove(&mut self, key: &Key, key_of: impl Fn(u32) -> Key) {
        if let Ok(entry) = self.0.find_entry(key.hash(), |number| key_of(*number) == *key) {
            entry.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn it_finds_what_a_map_finds(steps in prop::collection::vec((any::<bool>(), 0_u64..300), 0..900)) {
            let key = |n: u64| Key { dva: [n % 3, n << 3], birth: n / 7, raw: n.is_multiple_of(2) };
            let (mut index, mut map) = (Index::default(), BTreeMap::new());
            let key_of = |number: u32| key(number.into());
            for (add, n) in steps {
                let known = map.contains_key(&n);
                prop_assert_eq!(index.find(&key(n), key_of).is_some(), known);
                if add && !known {
                    index.insert(&key(n), n as u32, key_of);
                    map.insert(n, ());
                } else if !add {
                    index.remove(&key(n), key_of);
                    map.remove(&n);
                }
            }
            for n in 0..300 {
                let expected = map.contains_key(&n).then_some(n as u32);
                prop_assert_eq!(index.find(&key(n), key_of), expected);
            }
            prop_assert_eq!(index.0.len(), map.len());
        }
    }
}
