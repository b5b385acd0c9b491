//! Requests, cut from the stream: each begins with its length.

use super::REQUEST_BYTES_MAX;
use super::protocol::REQUEST_HEAD_BYTES;
use super::server::FuseError;
use rt::{BufMut, StreamRef};

/// See the [module](self).
pub(super) struct Inbox {
    stream: StreamRef,
    /// Away while a read is under way.
    buf: Option<BufMut>,
    /// Bytes that were read and not yet taken.
    len: usize,
}

impl Inbox {
    pub(super) fn new(stream: StreamRef) -> Inbox {
        Inbox { stream, buf: Some(BufMut::for_overwrite(REQUEST_BYTES_MAX)), len: 0 }
    }

    /// The next request, whole; nothing at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<u8>>, FuseError> {
        loop {
            let Some(buf) = self.buf.take() else { return Ok(None) };
            if let Some((length, _)) = buf[..self.len].split_first_chunk() {
                let length = u32::from_ne_bytes(*length) as usize;
                if !(REQUEST_HEAD_BYTES..=REQUEST_BYTES_MAX).contains(&length) {
                    return Err(FuseError::Length(length));
                }
                if length <= self.len {
                    let request = buf[..length].to_vec();
                    let mut buf = buf;
                    buf.copy_within(length..self.len, 0);
                    self.len -= length;
                    self.buf = Some(buf);
                    return Ok(Some(request));
                }
            }
            // The kernel gives no request to who has room for less than a whole one: it comes first, in an empty buffer.
            let (buf, count) = self.stream.read(buf, self.len).await?;
            if count == 0 {
                return Ok(None);
            }
            self.len += count;
            self.buf = Some(buf);
        }
    }
}
