//! What a client sends: bytes read ahead, so that one call brings many requests.
//!
//! A request's payload is moved out: what was read ahead of it is copied, the rest is read straight into
//! its own memory. So requests in flight hold exactly their bytes, on page boundaries, and never keep the
//! read-ahead alive.

use super::INPUT_BYTES;
use rt::{BufMut, StreamError, StreamRef};

/// See the [module](self).
pub(crate) struct Inbox {
    stream: StreamRef,
    /// Away while a read is under way; lost when that was dropped.
    buf: Option<BufMut>,
    start: usize,
    end: usize,
}

impl Inbox {
    pub(crate) fn new(stream: StreamRef) -> Inbox {
        let buf = Some(BufMut::for_overwrite(INPUT_BYTES));
        Inbox { stream, buf, start: 0, end: 0 }
    }

    pub(crate) fn stream(&self) -> &StreamRef {
        &self.stream
    }

    /// Bytes that were read ahead.
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    /// Reads until there are `need` bytes, [`INPUT_BYTES`] at the most.
    ///
    /// # Errors
    /// Where the stream ends or fails before.
    pub(crate) async fn fill(&mut self, need: usize) -> Result<(), StreamError> {
        while self.len() < need {
            let mut buf = self.buf.take().ok_or(StreamError::Gone)?;
            if self.start == self.end || self.start + need > buf.len() {
                buf.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.len());
            }
            let (buf, count) = self.stream.read(buf, self.end).await?;
            self.buf = Some(buf);
            self.end += count;
            if count == 0 {
                return Err(StreamError::Gone);
            }
        }
        Ok(())
    }

    /// Takes so many bytes that were read ahead; fewer where there are fewer.
    pub(crate) fn take(&mut self, count: usize) -> &[u8] {
        let from = self.start;
        self.start = (from + count).min(self.end);
        match &self.buf {
            Some(buf) => &buf[from..self.start],
            None => &[],
        }
    }

    /// Takes a payload of this length, in memory of its own.
    ///
    /// # Errors
    /// Where the stream ends or fails before.
    pub(crate) async fn payload(&mut self, len: usize) -> Result<BufMut, StreamError> {
        let mut payload = BufMut::for_overwrite(len);
        let ahead = self.take(len);
        let mut have = ahead.len();
        payload[..have].copy_from_slice(ahead);
        while have < len {
            let (buf, count) = self.stream.read(payload, have).await?;
            payload = buf;
            have += count;
            if count == 0 {
                return Err(StreamError::Gone);
            }
        }
        Ok(payload)
    }

    /// Takes a payload that nobody wants.
    ///
    /// # Errors
    /// Where the stream ends or fails before.
    pub(crate) async fn skip(&mut self, len: usize) -> Result<(), StreamError> {
        let mut left = len - self.take(len).len();
        while left > 0 {
            self.fill(1).await?;
            left -= self.take(left).len();
        }
        Ok(())
    }
}
