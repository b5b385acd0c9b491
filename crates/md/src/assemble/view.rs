//! A member's data area as an array sees it that is only read: a window on the device.
//!
//! Three things make it more than a slice. Stretches in the bad-block log answer reads with a medium error,
//! so the engine takes them from the redundancy. Writes (parity that a PPL puts right, what a journal holds, bad places
//! that the engine would mend) stay in memory and lie over the device's content, so nothing is written below. And the
//! name stays the device's own, so that errors name what a person can find.

use crate::pieces::Pieces;
use crate::superblock::SECTOR;
use crate::superblock::bad_blocks::BadBlock;
use rt::{Device, DeviceRef, Geometry, IoError, IoErrorKind, IoFuture, Op, Request, SgList};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use stdx::{ByteCount, Offset};

/// Bytes that one view keeps of writes. A PPL has some hundred KiB; an array whose bad places or journal come to
/// more is better opened for writing.
pub(super) const KEPT_BYTES_MAX: ByteCount = ByteCount::mib(64);

/// See the [module](self).
pub(super) struct View {
    below: DeviceRef,
    start: Offset,
    geometry: Geometry,
    /// Stretches of the window that can't be read, in order.
    bad: Vec<Range<u64>>,
    kept: RefCell<Pieces>,
}

impl View {
    /// The `len` bytes from `start`, which lie within the device.
    pub(super) fn new(
        below: DeviceRef,
        start: Offset,
        len: ByteCount,
        bad: &[BadBlock],
    ) -> Rc<View> {
        let geometry = below.geometry();
        let geometry = Geometry { capacity: len.round_down(geometry.logical_block), ..geometry };
        let end = start.bytes() + len.bytes();
        let mut bad: Vec<Range<u64>> = bad
            .iter()
            .map(|block| {
                let from = block.sector.saturating_mul(SECTOR);
                from..from.saturating_add(block.sectors.saturating_mul(SECTOR))
            })
            .filter(|block| block.start < end && block.end > start.bytes())
            .map(|block| {
                block.start.saturating_sub(start.bytes())..block.end.min(end) - start.bytes()
            })
            .collect();
        bad.sort_unstable_by_key(|block| block.start);
        Rc::new(View { below, start, geometry, bad, kept: RefCell::default() })
    }

    fn is_bad(&self, range: &Range<u64>) -> bool {
        self.bad.iter().any(|bad| bad.start < range.end && bad.end > range.start)
    }

    fn keep(&self, request: &Request, data: SgList) -> IoFuture {
        let mut kept = self.kept.borrow_mut();
        if kept.len() + data.len() as u64 > KEPT_BYTES_MAX.bytes() {
            return IoFuture::ready(Err(IoError::of(request, self, IoErrorKind::NoSpace)));
        }
        kept.insert(request.offset.bytes(), data);
        IoFuture::ready(Ok(SgList::new()))
    }

    fn read(&self, request: Request) -> IoFuture {
        let at = request.offset.bytes();
        let range = at..at + request.len().bytes();
        let mut gaps = Vec::new();
        self.kept.borrow().gaps(&range, |gap| gaps.push(gap));
        if gaps.iter().any(|gap| self.is_bad(gap)) {
            return IoFuture::ready(Err(IoError::of(&request, self, IoErrorKind::Medium)));
        }
        let below = |gap: &Range<u64>| {
            let (offset, len) = (self.start + ByteCount(gap.start), ByteCount(gap.end - gap.start));
            let read = Request::read(offset, len).with_priority(request.priority);
            self.below.submit(read)
        };
        if let [gap] = &gaps[..]
            && *gap == range
        {
            return below(gap);
        }
        // What is kept now, before anything is awaited; then the gaps between.
        let mut pieces = Pieces::default();
        for (start, data) in self.kept.borrow().iter() {
            let end = start + data.len() as u64;
            let (from, to) = (start.max(range.start), end.min(range.end));
            if from < to {
                pieces.insert(from, data.slice((from - start) as usize..(to - start) as usize));
            }
        }
        let reads: Vec<(u64, IoFuture)> = gaps.iter().map(|gap| (gap.start, below(gap))).collect();
        IoFuture::new(async move {
            for (start, read) in reads {
                pieces.insert(start, read.await?);
            }
            Ok(pieces.get(&range).unwrap_or_default())
        })
    }
}

impl Device for View {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn name(&self) -> Arc<str> {
        self.below.name()
    }

    fn begin(&self, request: Request) -> IoFuture {
        match &request.op {
            Op::Read(_) => self.read(request),
            Op::Write { data, .. } => self.keep(&request, data.clone()),
            Op::WriteZeroes(len) => self.keep(&request, SgList::zeros(len.as_usize())),
            Op::Flush | Op::Discard(_) => IoFuture::ready(Ok(SgList::new())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rt::{Buf, MemoryDevice};

    /// Reads at once: a device in memory answers without waiting.
    fn read(view: &View, at: u64, len: u64) -> Result<Vec<u8>, IoErrorKind> {
        let request = Request::read(Offset(at), ByteCount(len));
        let answer = futures_util::FutureExt::now_or_never(view.submit(request));
        let answer = answer.expect("memory answers at once");
        answer.map(|data| data.to_vec()).map_err(|error| error.kind)
    }

    #[test]
    fn writes_stay_above_and_bad_blocks_are_medium_errors_until_they_are_written() {
        let below = MemoryDevice::new("disk0", ByteCount::kib(64));
        below.poke(Offset(8192), &Buf::copy_of(&[7; 8192]).into());
        let bad = [BadBlock { sector: 18, sectors: 2 }];
        let view = View::new(below.clone(), Offset(8192), ByteCount::kib(8), &bad);
        assert_eq!(&*view.name(), "disk0");
        assert_eq!(read(&view, 0, 512), Ok(vec![7; 512]));
        assert_eq!(read(&view, 512, 1024), Err(IoErrorKind::Medium));
        let data = Buf::copy_of(&[9; 1024]);
        let written = view.submit(Request::write(Offset(1024), data));
        futures_util::FutureExt::now_or_never(written).expect("at once").expect("kept");
        let mut expected = vec![7; 2560];
        expected[512..1536].fill(9);
        assert_eq!(read(&view, 512, 2560), Ok(expected));
        assert_eq!(below.peek(Offset(9216), ByteCount(1024)).to_vec(), vec![7; 1024]);
        assert_eq!(read(&view, 8192, 512), Err(IoErrorKind::Invalid));
    }
}
