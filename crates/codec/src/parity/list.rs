//! A list that lies on the stack while it is short.
//!
//! Rebuilding a stripe lists its members, and a stripe of 128 KiB is rebuilt in a few microseconds, in
//! which two allocations and their release would show. Most stripes have few members,
//! but any number must work.

/// A list of `T`, on the stack while it has no more than `N`.
pub(super) struct List<T, const N: usize> {
    /// The items, if there are no more than `N`.
    stack: [T; N],
    /// All the items, if there are more.
    heap: Vec<T>,
    count: usize,
}

impl<T: Copy + Default, const N: usize> List<T, N> {
    #[inline]
    pub(super) fn new() -> List<T, N> {
        List { stack: [T::default(); N], heap: Vec::new(), count: 0 }
    }

    #[inline]
    pub(super) fn push(&mut self, item: T) {
        if self.count < N {
            self.stack[self.count] = item;
        } else {
            if self.heap.is_empty() {
                self.heap.extend_from_slice(&self.stack);
            }
            self.heap.push(item);
        }
        self.count += 1;
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[T] {
        if self.count <= N { &self.stack[..self.count] } else { &self.heap }
    }
}
