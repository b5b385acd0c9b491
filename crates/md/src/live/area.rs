//! A member's data area as an array sees it that is open for writing: a window on the device, without the
//! stretches that the member's bad-block log names.
//!
//! A read that touches one of them ends with a medium error, so the engine takes the bytes from the redundancy.
//! A write that succeeds there makes it good. The log on the member still names it until the keeper has flushed
//! the member and written the log; the other way round a power cut could take the write and leave a log that
//! calls the place good.
//!
//! The name is the device's own, so that errors name what a person can find; the keeper tells two areas of one
//! name apart by the name's place in memory.

use crate::superblock::SECTOR;
use crate::superblock::bad_blocks::BadBlock;
use rt::{Device, DeviceRef, Geometry, IoError, IoErrorKind, IoFuture, Op, Request};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use stdx::{ByteCount, Offset};

/// See the [module](self).
pub(super) struct Area {
    below: DeviceRef,
    start: Offset,
    geometry: Geometry,
    name: Arc<str>,
    log: Rc<Log>,
}

/// The bad stretches of one device, in bytes from its start; sorted and disjoint.
struct Log {
    bad: RefCell<Vec<Range<u64>>>,
    changed: Cell<bool>,
}

impl Area {
    /// The `len` bytes from `start`, which lie within the device in whole blocks.
    pub(super) fn new(
        below: DeviceRef,
        start: Offset,
        len: ByteCount,
        bad: &[BadBlock],
    ) -> Rc<Area> {
        let log = Rc::new(Log { bad: RefCell::default(), changed: Cell::new(false) });
        for block in bad {
            let from = block.sector.saturating_mul(SECTOR);
            log.add(from..from.saturating_add(block.sectors.saturating_mul(SECTOR)));
        }
        let geometry = Geometry { capacity: len, ..below.geometry() };
        // A copy of its own: see above.
        let name = Arc::from(&*below.name());
        Rc::new(Area { below, start, geometry, name, log })
    }

    /// The stretches of the device that are bad, for its log.
    pub(super) fn bad_blocks(&self) -> Vec<BadBlock> {
        let bad = self.log.bad.borrow();
        let block = |range: &Range<u64>| {
            let (sector, end) = (range.start / SECTOR, range.end.div_ceil(SECTOR));
            BadBlock { sector, sectors: end - sector }
        };
        bad.iter().map(block).collect()
    }

    /// Whether the log says something else than when this was asked last.
    pub(super) fn take_changed(&self) -> bool {
        self.log.changed.replace(false)
    }

    /// Whether the log says something else than what was written last.
    pub(super) fn is_changed(&self) -> bool {
        self.log.changed.get()
    }

    /// Notes that a range of the area can't be trusted.
    pub(super) fn is_bad(&self, range: &Range<u64>) {
        self.log.add(self.on_device(range));
        self.log.changed.set(true);
    }

    fn on_device(&self, range: &Range<u64>) -> Range<u64> {
        let start = self.start.bytes();
        start + range.start..start + range.end
    }
}

impl Log {
    fn touches(&self, range: &Range<u64>) -> bool {
        self.bad.borrow().iter().any(|bad| bad.start < range.end && bad.end > range.start)
    }

    fn add(&self, range: Range<u64>) {
        let mut bad = self.bad.borrow_mut();
        let (mut start, mut end) = (range.start, range.end);
        bad.retain(|other| {
            let joins = other.start <= end && other.end >= start;
            if joins {
                (start, end) = (start.min(other.start), end.max(other.end));
            }
            !joins
        });
        bad.push(start..end);
        bad.sort_unstable_by_key(|range| range.start);
    }

    fn remove(&self, range: &Range<u64>) {
        let rest = |bad: &Range<u64>| {
            let before = bad.start..bad.end.min(range.start);
            let behind = bad.start.max(range.end)..bad.end;
            [before, behind].into_iter().filter(|part| part.start < part.end)
        };
        let mut bad = self.bad.borrow_mut();
        *bad = bad.iter().flat_map(rest).collect();
        self.changed.set(true);
    }
}

impl Device for Area {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn begin(&self, mut request: Request) -> IoFuture {
        let at = request.offset.bytes();
        let range = self.on_device(&(at..at + request.len().bytes()));
        let is_bad = !request.is_empty() && self.log.touches(&range);
        if is_bad && matches!(request.op, Op::Read(_)) {
            return IoFuture::ready(Err(IoError::of(&request, self, IoErrorKind::Medium)));
        }
        let writes = matches!(request.op, Op::Write { .. } | Op::WriteZeroes(_));
        request.offset += self.start.from_start();
        let done = self.below.submit(request);
        if !(is_bad && writes) {
            return done;
        }
        let log = Rc::clone(&self.log);
        IoFuture::new(async move {
            let answer = done.await?;
            log.remove(&range);
            Ok(answer)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use rt::{Buf, MemoryDevice};

    fn at_once(area: &Area, request: Request) -> Result<Vec<u8>, IoErrorKind> {
        let answer = area.submit(request).now_or_never().expect("memory answers at once");
        answer.map(|data| data.to_vec()).map_err(|error| error.kind)
    }

    /// A log that forgets a neighbour, or one that a write of a part clears as a whole.
    #[test]
    fn bad_places_can_not_be_read_until_they_are_written_and_the_log_follows() {
        let below = MemoryDevice::new("disk", ByteCount::kib(64));
        let bad = |sector, sectors| BadBlock { sector, sectors };
        // The second one lies before the area.
        let area = Area::new(below, Offset(8192), ByteCount::kib(32), &[bad(20, 4), bad(3, 2)]);
        let read = |at, len| at_once(&area, Request::read(Offset(at), ByteCount(len)));
        assert_eq!(read(0, 2048), Ok(vec![0; 2048]));
        assert_eq!(read(0, 2560), Err(IoErrorKind::Medium));
        assert!(!area.take_changed());
        at_once(&area, Request::write(Offset(2560), Buf::zeros(1024))).expect("written");
        assert_eq!(
            (read(2560, 1024), read(2048, 512)),
            (Ok(vec![0; 1024]), Err(IoErrorKind::Medium))
        );
        assert_eq!(area.bad_blocks(), [bad(3, 2), bad(20, 1), bad(23, 1)]);
        assert!(area.take_changed() && !area.take_changed());
        area.is_bad(&(2560..3584));
        assert_eq!(area.bad_blocks(), [bad(3, 2), bad(20, 4)]);
    }
}
