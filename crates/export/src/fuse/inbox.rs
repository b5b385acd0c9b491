//! Requests, cut from the stream: each begins with its length.
//!
//! A request is put so that the data of a write begins with a page: a file system keeps it where it is, sums it, and gives it to
//! devices that want it so.

use super::limits::WRITE_HEAD_BYTES;
use super::question::REQUEST_HEAD_BYTES;
use rt::{Buf, BufMut, PAGE, StreamError, StreamRef};

/// Where requests begin in the memory for them.
const START: usize = PAGE - WRITE_HEAD_BYTES;

/// Why there are no more requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InboxError {
    /// The stream failed.
    Stream(StreamError),
    /// A request whose length can't be.
    Length(usize),
}

/// See the [module](self).
pub(super) struct Inbox {
    stream: StreamRef,
    request_bytes_max: usize,
    /// Away while a read is under way.
    buf: Option<BufMut>,
    /// Bytes that were read and not yet taken.
    len: usize,
}

impl Inbox {
    pub(super) fn new(stream: StreamRef, request_bytes_max: usize) -> Inbox {
        let buf = Some(BufMut::for_overwrite(START + request_bytes_max));
        Inbox { stream, request_bytes_max, buf, len: 0 }
    }

    /// The next request, whole; nothing at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Buf>, InboxError> {
        loop {
            let Some(buf) = self.buf.take() else { return Ok(None) };
            if let Some((length, _)) = buf[START..START + self.len].split_first_chunk() {
                let length = u32::from_ne_bytes(*length) as usize;
                if !(REQUEST_HEAD_BYTES..=self.request_bytes_max).contains(&length) {
                    return Err(InboxError::Length(length));
                }
                if length <= self.len {
                    return Ok(Some(self.take(buf, length)));
                }
            }
            // The kernel gives no request to who has room for less than a whole one: it comes first, in an empty buffer.
            let read = self.stream.read(buf, START + self.len).await;
            let (buf, count) = read.map_err(InboxError::Stream)?;
            if count == 0 {
                return Ok(None);
            }
            self.len += count;
            self.buf = Some(buf);
        }
    }

    /// Takes the first bytes. A request that fills more than half of the memory goes with it, so that what is written is not
    /// copied and no less than half of what is held is used; others are copied.
    fn take(&mut self, mut buf: BufMut, length: usize) -> Buf {
        let (end, all) = (START + length, START + self.len);
        self.len -= length;
        if length * 2 <= self.request_bytes_max {
            let request = Buf::copy_of(&buf[START..end]);
            buf.copy_within(end..all, START);
            self.buf = Some(buf);
            return request;
        }
        let mut next = BufMut::for_overwrite(START + self.request_bytes_max);
        next[START..START + self.len].copy_from_slice(&buf[end..all]);
        self.buf = Some(next);
        buf.truncate(end);
        buf.freeze().slice(START..end)
    }
}
