//! Things in the order of their last use: a list threaded through a slab.
//!
//! Touching and removing take constant time. Each use is stamped, so that the owner of two lists can
//! tell whose oldest is older.

use slab::Slab;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Lru<T> {
    nodes: Slab<Node<T>>,
    /// The oldest and the newest.
    ends: Option<(usize, usize)>,
}

#[derive(Debug)]
struct Node<T> {
    value: T,
    stamp: u64,
    older: Option<usize>,
    newer: Option<usize>,
}

impl<T> Default for Lru<T> {
    fn default() -> Lru<T> {
        Lru { nodes: Slab::new(), ends: None }
    }
}

impl<T> Lru<T> {
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Adds a thing as the newest; returns its key.
    pub(crate) fn insert(&mut self, value: T, stamp: u64) -> usize {
        let key = self.nodes.insert(Node { value, stamp, older: None, newer: None });
        self.link(key);
        key
    }

    fn link(&mut self, key: usize) {
        let newest = self.ends.map(|(_, newest)| newest);
        if let Some(newest) = newest {
            self.nodes[newest].newer = Some(key);
        }
        let node = &mut self.nodes[key];
        node.older = newest;
        node.newer = None;
        self.ends = Some((self.ends.map_or(key, |(oldest, _)| oldest), key));
    }

    fn unlink(&mut self, key: usize) {
        let Node { older, newer, .. } = self.nodes[key];
        if let Some(older) = older {
            self.nodes[older].newer = newer;
        }
        if let Some(newer) = newer {
            self.nodes[newer].older = older;
        }
        self.ends = match (self.ends, older, newer) {
            (_, None, None) | (None, _, _) => None,
            (Some((oldest, newest)), _, _) => Some((
                if oldest == key { newer.unwrap_or(newest) } else { oldest },
                if newest == key { older.unwrap_or(oldest) } else { newest },
            )),
        };
    }

    /// Makes it the newest.
    pub(crate) fn touch(&mut self, key: usize, stamp: u64) {
        if self.ends.is_some_and(|(_, newest)| newest == key) {
            self.nodes[key].stamp = stamp;
            return;
        }
        self.unlink(key);
        self.nodes[key].stamp = stamp;
        self.link(key);
    }

    pub(crate) fn remove(&mut self, key: usize) -> T {
        self.unlink(key);
        self.nodes.remove(key).value
    }

    pub(crate) fn get(&self, key: usize) -> &T {
        &self.nodes[key].value
    }

    pub(crate) fn get_mut(&mut self, key: usize) -> &mut T {
        &mut self.nodes[key].value
    }

    /// The oldest: its key and its stamp.
    pub(crate) fn oldest(&self) -> Option<(usize, u64)> {
        self.ends.map(|(oldest, _)| (oldest, self.nodes[oldest].stamp))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A link that is wrong after a removal at an end: the list is the order of last use.
        #[test]
        fn the_oldest_is_the_one_not_used_for_longest(steps in proptest::collection::vec((0..8_usize, 0..3_u8), 0..80)) {
            let mut lru = Lru::default();
            let mut model: Vec<(usize, usize)> = Vec::new();
            for (stamp, (which, what)) in steps.into_iter().enumerate() {
                let known = model.iter().position(|(value, _)| *value == which);
                match (what, known) {
                    (0, Some(at)) => {
                        let (_, key) = model.remove(at);
                        prop_assert_eq!(lru.remove(key), which);
                    }
                    (_, Some(at)) => {
                        let entry = model.remove(at);
                        lru.touch(entry.1, stamp as u64);
                        model.push(entry);
                    }
                    (_, None) => model.push((which, lru.insert(which, stamp as u64))),
                }
                prop_assert_eq!(lru.len(), model.len());
                prop_assert_eq!(lru.oldest().map(|(key, _)| *lru.get(key)), model.first().map(|(value, _)| *value));
            }
        }
    }
}
