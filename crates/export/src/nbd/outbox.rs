//! Replies that wait to be written: heads and data, in the order of their ends.
//!
//! All that is there goes out in one call. Heads are collected in one page, so that a small reply needs no
//! memory of its own; data is the device's memory, not copied.

use rt::{BufMut, PAGE, SgList};
use std::ops::Range;

/// What requests take of a connection's limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) requests: usize,
    pub(crate) bytes: usize,
}

impl Share {
    pub(crate) fn plus(self, other: Share) -> Share {
        Share { requests: self.requests + other.requests, bytes: self.bytes + other.bytes }
    }

    pub(crate) fn minus(self, other: Share) -> Share {
        Share { requests: self.requests - other.requests, bytes: self.bytes - other.bytes }
    }
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Outbox {
    /// Replies whose heads are in pages that are full.
    sealed: SgList,
    heads: Option<BufMut>,
    heads_len: usize,
    replies: Vec<(Range<usize>, SgList)>,
    share: Share,
}

impl Outbox {
    /// Adds a reply; `share` is given back when it has been written.
    pub(crate) fn push(&mut self, head: &[&[u8]], data: SgList, share: Share) {
        let len: usize = head.iter().map(|part| part.len()).sum();
        assert!(len <= PAGE, "a head is short");
        if self.heads_len + len > PAGE {
            self.seal();
        }
        let heads = self.heads.get_or_insert_with(|| BufMut::for_overwrite(PAGE));
        let from = self.heads_len;
        for part in head {
            heads[self.heads_len..self.heads_len + part.len()].copy_from_slice(part);
            self.heads_len += part.len();
        }
        self.replies.push((from..self.heads_len, data));
        self.share = self.share.plus(share);
    }

    fn seal(&mut self) {
        let Some(heads) = self.heads.take() else { return };
        self.heads_len = 0;
        let heads = heads.freeze();
        for (head, data) in self.replies.drain(..) {
            self.sealed.push(heads.slice(head));
            self.sealed.append(data);
        }
    }

    /// All replies, and what they give back once they are written. `None` where there are none.
    pub(crate) fn take(&mut self) -> Option<(SgList, Share)> {
        self.seal();
        if self.sealed.is_empty() {
            return None;
        }
        Some((std::mem::take(&mut self.sealed), std::mem::take(&mut self.share)))
    }
}
