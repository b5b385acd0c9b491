//! Finds the entry of a block: a hash table whose order nobody sees.
//!
//! Open addressing with linear probing, at most half full; what is removed closes the gap behind it, so there are
//! no marks for removed ones. It holds numbers of entries only; keys are compared where they are. The standard
//! library's map is barred because its order differs from run to run; a tree takes several times as long for
//! millions of blocks.

/// Places at the start.
const PLACES_MIN: usize = 64;
/// No entry.
const EMPTY: u32 = u32::MAX;

/// What tells a block from others: where its first copy is, when that was written, and whether it is as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) dva: [u64; 2],
    pub(super) birth: u64,
    pub(super) raw: bool,
}

impl Key {
    /// Places of a pool differ in few bits; a multiplication spreads them over the upper ones.
    fn hash(&self) -> u64 {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut mixed = self.dva[1].wrapping_mul(ODD) ^ self.dva[0].rotate_left(32);
        mixed = (mixed ^ (mixed >> 29)).wrapping_mul(ODD) ^ self.birth ^ u64::from(self.raw) << 63;
        mixed.wrapping_mul(ODD)
    }
}

/// See the [module](self).
pub(super) struct Index {
    places: Vec<u32>,
    count: usize,
}

impl Index {
    pub(super) fn new() -> Index {
        Index { places: vec![EMPTY; PLACES_MIN], count: 0 }
    }

    /// Where the search for a key begins.
    fn start(&self, key: &Key) -> usize {
        (key.hash() >> (64 - self.places.len().trailing_zeros())) as usize
    }

    fn next(&self, place: usize) -> usize {
        (place + 1) & (self.places.len() - 1)
    }

    /// The number of the entry with this key; `key_of` tells the key of a number.
    pub(super) fn find(&self, key: &Key, key_of: impl Fn(u32) -> Key) -> Option<u32> {
        let mut place = self.start(key);
        loop {
            match self.places[place] {
                EMPTY => return None,
                number if key_of(number) == *key => return Some(number),
                _ => place = self.next(place),
            }
        }
    }

    /// Adds the number of an entry whose key isn't there.
    pub(super) fn insert(&mut self, key: &Key, number: u32, key_of: impl Fn(u32) -> Key) {
        if (self.count + 1) * 2 > self.places.len() {
            let larger = vec![EMPTY; self.places.len() * 2];
            let before = std::mem::replace(&mut self.places, larger);
            for number in before.into_iter().filter(|number| *number != EMPTY) {
                self.put(&key_of(number), number);
            }
        }
        self.put(key, number);
        self.count += 1;
    }

    fn put(&mut self, key: &Key, number: u32) {
        let mut place = self.start(key);
        while self.places[place] != EMPTY {
            place = self.next(place);
        }
        self.places[place] = number;
    }

    /// Removes the number of an entry.
    pub(super) fn remove(&mut self, key: &Key, key_of: impl Fn(u32) -> Key) {
        let mut gap = self.start(key);
        loop {
            match self.places[gap] {
                EMPTY => return,
                number if key_of(number) == *key => break,
                _ => gap = self.next(gap),
            }
        }
        // What comes behind moves into the gap, unless its search begins after the gap.
        let mut place = self.next(gap);
        while self.places[place] != EMPTY {
            let start = self.start(&key_of(self.places[place]));
            let mask = self.places.len() - 1;
            if place.wrapping_sub(start) & mask >= place.wrapping_sub(gap) & mask {
                self.places[gap] = self.places[place];
                gap = place;
            }
            place = self.next(place);
        }
        self.places[gap] = EMPTY;
        self.count -= 1;
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
            let (mut index, mut map) = (Index::new(), BTreeMap::new());
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
            prop_assert_eq!(index.count, map.len());
        }
    }
}
