//! Requests to the device: cut to the longest that is allowed, several in flight.
//!
//! Where the file system knows its stripes, requests are cut at multiples of the full stripe, counted
//! from the start of the device; else from where they begin.
//!
//! The host's processor time for each request is booked by whoever stands below (as for any load on
//! the device); here nothing is charged for it.

use crate::core::{Core, Outcome};
use futures_util::{StreamExt, stream};
use rt::{Request, SgList, TreeErrorKind};
use stdx::{ByteCount, Offset};

/// Requests of one transfer in flight together: a disk's queue.
pub(crate) const IN_FLIGHT_MAX: usize = 32;

impl Core {
    /// Where to cut a transfer: (from the start of the transfer, length).
    fn cuts(&self, at: Offset, len: u64) -> Vec<(u64, u64)> {
        let most = self.options.io_max.bytes();
        let (most, first) = match self.settings.stripe {
            Some(stripe) => {
                let full = stripe.full().bytes();
                let most = (most / full).max(1) * full;
                (most, most - at.bytes() % most)
            }
            None => (most, most),
        };
        let mut cuts = Vec::with_capacity((len / most) as usize + 2);
        let mut from = 0;
        let mut next = first;
        while from < len {
            let to = next.min(len);
            cuts.push((from, to - from));
            from = to;
            next = to + most;
        }
        cuts
    }

    /// Reads a stretch of the device.
    pub(crate) async fn read_device(&self, at: Offset, len: u64) -> Outcome<SgList> {
        let request = |from, len| Request::read(at + ByteCount(from), ByteCount(len));
        let cuts = self.cuts(at, len);
        if let [_] = cuts[..] {
            let read = self.device.submit(request(0, len)).await;
            return read.map_err(|error| TreeErrorKind::Io(error.kind));
        }
        let reads = cuts.into_iter().map(|(from, len)| self.device.submit(request(from, len)));
        let mut reads = stream::iter(reads).buffered(IN_FLIGHT_MAX);
        let mut data = SgList::new();
        while let Some(read) = reads.next().await {
            data.append(read.map_err(|error| TreeErrorKind::Io(error.kind))?);
        }
        Ok(data)
    }

    /// Writes a stretch of the device. With `fua` it is durable when it is answered.
    pub(crate) async fn write_device(&self, at: Offset, data: SgList, fua: bool) -> Outcome<()> {
        let request = |from: u64, data: SgList| match fua {
            true => Request::write_fua(at + ByteCount(from), data),
            false => Request::write(at + ByteCount(from), data),
        };
        let cuts = self.cuts(at, data.len() as u64);
        if let [_] = cuts[..] {
            let written = self.device.submit(request(0, data)).await;
            return written.map(drop).map_err(|error| TreeErrorKind::Io(error.kind));
        }
        let writes = cuts.into_iter().map(|(from, len)| {
            self.device.submit(request(from, data.slice(from as usize..(from + len) as usize)))
        });
        // Where one fails the others are waited for too: an abandoned write could land at any time.
        let writes = stream::iter(writes).buffer_unordered(IN_FLIGHT_MAX);
        let written = writes.fold(Ok(()), async |so_far, write| so_far.and(write.map(drop))).await;
        written.map_err(|error| TreeErrorKind::Io(error.kind))
    }

    /// Whether order and durability take flushes.
    pub(crate) fn needs_flush(&self) -> bool {
        self.options.barriers && self.device.geometry().volatile_cache
    }

    /// Makes all that the device answered durable, where it isn't.
    pub(crate) async fn flush_device(&self) -> Outcome<()> {
        if !self.needs_flush() {
            return Ok(());
        }
        let (begun, done) = self.flushes.get();
        let own = begun + 1;
        self.flushes.set((own, done));
        let flushed = self.device.submit(Request::flush()).await;
        flushed.map_err(|error| TreeErrorKind::Io(error.kind))?;
        let (begun, done) = self.flushes.get();
        self.flushes.set((begun, done.max(own)));
        Ok(())
    }

    /// How many flushes have begun: data that is answered now is durable when a later one is answered.
    pub(crate) fn flushes_begun(&self) -> u64 {
        self.flushes.get().0
    }

    /// Makes what was answered before `begun` was taken durable, unless a flush since has done it.
    pub(crate) async fn flush_since(&self, begun: u64) -> Outcome<()> {
        if self.flushes.get().1 > begun { Ok(()) } else { self.flush_device().await }
    }
}
