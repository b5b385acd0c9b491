//! What a client sends: bytes read ahead, so that one call brings many requests.
//!
//! A request's payload is moved out: what was read ahead of it is copied, the rest is read straight into
//! its own memory. So requests in flight hold exactly their bytes, on page boundaries, and never keep the
//! read-ahead alive.

use super::INPUT_BYTES;
use rt::{BufMut, NoMemory, StreamError, StreamRef};

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
        // Without memory for it the connection ends where it first reads.
        let buf = BufMut::try_for_overwrite(INPUT_BYTES).ok();
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
    /// Where the stream ends or fails before, or there is no memory for it.
    pub(crate) async fn payload(&mut self, len: usize) -> Result<BufMut, StreamError> {
        let payload = BufMut::try_for_overwrite(len);
        let mut payload = payload.map_err(|NoMemory| StreamError::NoResources)?;
        let have = self.begin_payload(&mut payload);
        Ok(self.go_on_with_payload(payload, have, len).await?.0)
    }

    /// Begins to take a payload into this memory: with what was read ahead. Answers how much that is.
    pub(crate) fn begin_payload(&mut self, payload: &mut BufMut) -> usize {
        let ahead = self.take(payload.len());
        payload[..ahead.len()].copy_from_slice(ahead);
        ahead.len()
    }

    /// Goes on with a payload, of which there are bytes up to `from`, up to `to`.
    ///
    /// # Errors
    /// Where the stream ends or fails before.
    pub(crate) async fn go_on_with_payload(
        &mut self,
        mut payload: BufMut,
        from: usize,
        to: usize,
    ) -> Result<(BufMut, usize), StreamError> {
        let mut have = from;
        while have < to {
            let (buf, count) = self.stream.read(payload, have).await?;
            payload = buf;
            have += count;
            if count == 0 {
                return Err(StreamError::Gone);
            }
        }
        Ok((payload, have))
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
