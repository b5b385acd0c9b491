//! Written data that is not on the medium yet: the content of a write buffer.
//!
//! It keeps the very buffers that were written, cut where later writes cover them, so taking data in
//! and giving it out moves no bytes, and its memory is what the buffer holds. Places are one sorted list, which is short:
//! a write buffer tells some hundred pieces apart.

use rt::SgList;
use slab::Slab;
use std::ops::Range;

/// Data by place, in bytes. Parts don't overlap.
#[derive(Default)]
pub(crate) struct HeldData {
    parts: Vec<Part>,
    /// Apart from the places, so that these are quickly searched and moved.
    data: Slab<SgList>,
}

#[derive(Clone, Copy)]
struct Part {
    at: u64,
    end: u64,
    /// Of its data.
    key: usize,
}

impl HeldData {
    /// Takes in `data` at `at`, in place of what was there.
    pub(crate) fn insert(&mut self, at: u64, data: SgList) {
        let end = at + data.len() as u64;
        if self.first_behind(at).is_some_and(|first| self.parts[first].at < end) {
            self.remove(at..end);
        }
        let place = self.first_behind(at).unwrap_or(self.parts.len());
        let key = self.data.insert(data);
        self.parts.insert(place, Part { at, end, key });
    }

    /// Drops what lies in a range.
    pub(crate) fn remove(&mut self, range: Range<u64>) {
        self.take(range, |_, _| {});
    }

    /// Takes out what lies in a range, and gives it to `each`: places and data, in order.
    pub(crate) fn take(&mut self, range: Range<u64>, mut each: impl FnMut(u64, SgList)) {
        let Some(first) = self.first_behind(range.start) else { return };
        // Mostly it is one part, and all of it.
        let Part { at, end, key } = self.parts[first];
        let is_last = self.parts.get(first + 1).is_none_or(|next| range.end <= next.at);
        if range.start <= at && end <= range.end && is_last {
            self.parts.remove(first);
            return each(at, self.data.remove(key));
        }
        let rest = &self.parts[first..];
        let touched = rest.iter().take_while(|part| part.at < range.end).count();
        let (mut kept_before, mut kept_behind) = (None, None);
        for index in first..first + touched {
            let Part { at, end, key } = self.parts[index];
            let data = self.data.remove(key);
            if range.start <= at && end <= range.end {
                each(at, data);
                continue;
            }
            let (from, to) = (at.max(range.start), end.min(range.end));
            each(from, data.slice((from - at) as usize..(to - at) as usize));
            if at < from {
                let key = self.data.insert(data.slice(0..(from - at) as usize));
                kept_before = Some(Part { at, end: from, key });
            }
            if to < end {
                let key = self.data.insert(data.slice((to - at) as usize..data.len()));
                kept_behind = Some(Part { at: to, end, key });
            }
        }
        let kept = kept_before.into_iter().chain(kept_behind);
        self.parts.splice(first..first + touched, kept);
    }

    /// What lies in a range: places and data, in order.
    pub(crate) fn within(&self, range: Range<u64>) -> impl Iterator<Item = (u64, SgList)> + '_ {
        let first = self.first_behind(range.start).unwrap_or(self.parts.len());
        let touched = self.parts[first..].iter().take_while(move |part| part.at < range.end);
        touched.map(move |part| {
            let (from, to) = (part.at.max(range.start), part.end.min(range.end));
            let data = &self.data[part.key];
            (from, data.slice((from - part.at) as usize..(to - part.at) as usize))
        })
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        self.parts.clear();
        self.data.clear();
    }

    /// The place in the list of the first part of which something lies at `at` or behind it.
    fn first_behind(&self, at: u64) -> Option<usize> {
        let place = self.parts.partition_point(|part| part.end <= at);
        (place < self.parts.len()).then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rt::Buf;

    proptest! {
        /// A wrong cut would give back what was overwritten.
        #[test]
        fn held_data_is_the_last_that_was_written(
            steps in prop::collection::vec((0..3_u8, 0..200_u64, 1..50_usize, 1..255_u8), 1..40)
        ) {
            let mut held = HeldData::default();
            let mut plain = [0_u8; 256];
            for (step, at, len, byte) in steps {
                let range = at as usize..at as usize + len;
                if step == 0 {
                    held.insert(at, Buf::copy_of(&vec![byte; len]).into());
                    plain[range].fill(byte);
                } else {
                    let mut taken = [0_u8; 256];
                    let places = at..at + len as u64;
                    match step {
                        1 => held.remove(places),
                        _ => held.take(places, |at, data| {
                            taken[at as usize..at as usize + data.len()].copy_from_slice(&data.to_vec());
                        }),
                    }
                    prop_assert!(step == 1 || taken[range.clone()] == plain[range.clone()]);
                    plain[range].fill(0);
                }
                for whole in [0..256_u64, 50..120] {
                    let mut found = [0_u8; 256];
                    for (at, data) in held.within(whole.clone()) {
                        found[at as usize..at as usize + data.len()].copy_from_slice(&data.to_vec());
                    }
                    let whole = whole.start as usize..whole.end as usize;
                    prop_assert_eq!(&found[whole.clone()], &plain[whole]);
                }
                prop_assert_eq!(held.parts.len(), held.data.len());
            }
        }
    }
}
