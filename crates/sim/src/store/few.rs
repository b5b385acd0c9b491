//! A list of the children of a subtree that differ from it, for a [store](super).
//!
//! Scattered requests touch a subtree that has long been out of the processor's caches. So numbers stand together and apart from
//! the children, and nothing is moved: who looks for a child waits for memory twice, and not at each step of a search.

/// One word over and over but for a few children, as they came: what several scattered writes leave.
#[derive(Debug)]
pub(super) struct Few<I, T, const MAX: usize> {
    pub(super) word: u64,
    /// Of the children; behind them anything.
    indices: [I; MAX],
    pub(super) children: Vec<T>,
}

impl<I: Copy + Default + PartialEq, T, const MAX: usize> Few<I, T, MAX> {
    /// None yet.
    pub(super) fn new(word: u64) -> Self {
        Few { word, indices: [I::default(); MAX], children: Vec::new() }
    }

    /// Where the child of this number stands.
    fn find(&self, index: I) -> Option<usize> {
        // All of them are compared, which a processor does several at a time.
        let places = (0..MAX as u16).zip(&self.indices);
        let same = places.map(|(place, known)| if *known == index { place } else { MAX as u16 });
        let place = usize::from(same.min().unwrap_or(MAX as u16));
        (place < self.children.len()).then_some(place)
    }

    /// A child, where it differs.
    pub(super) fn get(&self, index: I) -> Option<&T> {
        self.find(index).map(|place| &self.children[place])
    }

    /// A child, which may be changed: where it did not differ so far it is made of the word. There is room for it.
    pub(super) fn get_mut(&mut self, index: I, of_word: impl FnOnce(u64) -> T) -> &mut T {
        let place = self.find(index).unwrap_or_else(|| {
            self.indices[self.children.len()] = index;
            self.children.push(of_word(self.word));
            self.children.len() - 1
        });
        &mut self.children[place]
    }

    /// The children with their numbers, taken out for good.
    pub(super) fn take_all(&mut self) -> Vec<(I, T)> {
        self.indices.into_iter().zip(std::mem::take(&mut self.children)).collect()
    }

    /// Bytes that it takes, with what its children take besides.
    pub(super) fn memory(&self, of: impl Fn(&T) -> usize) -> usize {
        let below: usize = self.children.iter().map(of).sum();
        size_of::<Self>() + self.children.capacity() * size_of::<T>() + below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Behind the children stand zeros, and 0 is a number too.
    #[test]
    fn a_child_is_found_by_its_number_alone_and_there_is_room_for_as_many_as_is_said() {
        let mut few = Few::<u8, u64, 4>::new(7);
        assert_eq!(few.get(0), None);
        for (index, word) in [(255, 1), (0, 2), (3, 3), (255, 4), (254, 5)] {
            *few.get_mut(index, |word| word) += word;
        }
        let found = [255, 0, 3, 254, 1, 253].map(|index| few.get(index).copied());
        assert_eq!(found, [Some(12), Some(9), Some(10), Some(12), None, None]);
        assert_eq!(few.take_all(), [(255, 12), (0, 9), (3, 10), (254, 12)]);
    }
}
