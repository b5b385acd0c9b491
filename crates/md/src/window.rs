//! A window on a member: a stretch of its device, as a device. The one way in which anything but a superblock or
//! a bitmap of a member is reached.
//!
//! ```text
//!   device   │ superblock │ bitmap │ log │        data area        │
//!   window                           ░░░           ░░░░▓░░░░░░░░░░     bare, or with the bad places of the device
//!                                                  ░▒░░▓░░░░░░░░░░     the same, written in memory alone
//! ```
//!
//! * **Bare**: the stretch, and nothing else. A journal's ring; the data areas of a reshape.
//! * **A data area** knows the stretches that the member's bad-block log names. A read that touches one of them ends with
//!   a medium error, so the engine takes the bytes from the redundancy. A write that succeeds there makes it good. The
//!   log on the member still names it until the keeper has flushed the member and written the log; the other way round a
//!   power cut could take the write and leave a log that calls the place good.
//! * **To be looked at**: nothing is written below. Writes (parity that a partial parity log puts right, what a journal
//!   holds, bad places that the engine would mend) lie in memory over the device's content, [`KEPT_BYTES_MAX`] of them.
//!
//! The name is the device's own, so that errors name what a person can find; a copy of it, so that two windows of
//! one name are told apart by the name's place in memory.

use crate::superblock::SECTOR;
use crate::superblock::bad_blocks::BadBlock;
use rt::{
    Device, DeviceRef, Extents, Geometry, IoError, IoErrorKind, IoFuture, Op, Request, SgList,
    Stretch,
};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use stdx::{ByteCount, Offset, RangeSet};

/// Bytes that one window keeps of writes in memory. A partial parity log has some hundred KiB; an array whose bad places
/// or journal come to more is better opened for writing.
pub(crate) const KEPT_BYTES_MAX: ByteCount = ByteCount::mib(64);

/// Where what is written goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writes {
    /// To the device.
    Through,
    /// Nowhere: it stays in memory.
    Kept,
}

/// See the [module](self).
pub(crate) struct Window {
    below: DeviceRef,
    start: Offset,
    geometry: Geometry,
    name: Arc<str>,
    bad: Rc<BadPlaces>,
    /// What was written, where it is kept.
    kept: Option<RefCell<Extents>>,
}

/// The bad stretches of one device, in bytes from its start.
#[derive(Default)]
struct BadPlaces {
    places: RefCell<RangeSet>,
    changed: Cell<bool>,
}

impl Window {
    /// Whether a stretch lies within a device, in whole blocks of it.
    pub(crate) fn fits(device: &DeviceRef, start: Offset, len: ByteCount) -> bool {
        Request::read(start, len).check(&**device).is_ok()
    }

    /// A stretch of a device, which [fits](Window::fits) it.
    pub(crate) fn bare(device: &DeviceRef, start: Offset, len: ByteCount) -> Rc<Window> {
        Window::new(device, start, len, &[], Writes::Through)
    }

    /// The same of a device that has these bad places.
    pub(crate) fn new(
        device: &DeviceRef,
        start: Offset,
        len: ByteCount,
        bad: &[BadBlock],
        writes: Writes,
    ) -> Rc<Window> {
        assert!(
            Window::fits(device, start, len),
            "a window lies within its device, in whole blocks"
        );
        let bytes = |block: &BadBlock| {
            let from = block.sector.saturating_mul(SECTOR);
            from..from.saturating_add(block.sectors.saturating_mul(SECTOR))
        };
        let places = RefCell::new(bad.iter().map(bytes).collect());
        Rc::new(Window {
            below: Rc::clone(device),
            start,
            geometry: Geometry { capacity: len, ..device.geometry() },
            // A copy of its own: see above.
            name: Arc::from(&*device.name()),
            bad: Rc::new(BadPlaces { places, changed: Cell::new(false) }),
            kept: (writes == Writes::Kept).then(RefCell::default),
        })
    }

    /// The stretches of the device that are bad, for its log.
    pub(crate) fn bad_blocks(&self) -> Vec<BadBlock> {
        let block = |range: Range<u64>| {
            let (sector, end) = (range.start / SECTOR, range.end.div_ceil(SECTOR));
            BadBlock { sector, sectors: end - sector }
        };
        self.bad.places.borrow().iter().map(block).collect()
    }

    /// Whether the bad places are others than when this was asked last.
    pub(crate) fn take_changed(&self) -> bool {
        self.bad.changed.replace(false)
    }

    /// Whether the bad places are others than those written last.
    pub(crate) fn is_changed(&self) -> bool {
        self.bad.changed.get()
    }

    /// Notes that a range of the window can't be trusted.
    pub(crate) fn note_bad(&self, range: &Range<u64>) {
        assert!(range.end <= self.geometry.capacity.bytes(), "a bad place lies within its window");
        self.bad.places.borrow_mut().insert(self.on_device(range));
        self.bad.changed.set(true);
    }

    fn on_device(&self, range: &Range<u64>) -> Range<u64> {
        let start = self.start.bytes();
        start + range.start..start + range.end
    }

    fn is_bad(&self, range: &Range<u64>) -> bool {
        let places = self.bad.places.borrow();
        !places.is_empty() && places.touches(&self.on_device(range))
    }

    fn medium_error(&self, request: &Request) -> IoFuture {
        IoFuture::ready(Err(IoError::of(request, self, IoErrorKind::Medium)))
    }

    /// Passes a request on to the device.
    fn pass(&self, mut request: Request) -> IoFuture {
        let range = request.offset.bytes()..(request.offset + request.len()).bytes();
        let is_bad = self.is_bad(&range);
        if is_bad && matches!(request.op, Op::Read(_)) {
            return self.medium_error(&request);
        }
        let writes = matches!(request.op, Op::Write { .. } | Op::WriteZeroes(_));
        request.offset += self.start.from_start();
        let done = self.below.submit(request);
        if !(is_bad && writes) {
            return done;
        }
        let (bad, range) = (Rc::clone(&self.bad), self.on_device(&range));
        IoFuture::new(async move {
            let answer = done.await?;
            bad.places.borrow_mut().remove(range);
            bad.changed.set(true);
            Ok(answer)
        })
    }

    /// Keeps what is written.
    fn keep(&self, kept: &RefCell<Extents>, request: &Request, data: &SgList) -> IoFuture {
        let mut kept = kept.borrow_mut();
        if kept.held() + ByteCount(data.len() as u64) > KEPT_BYTES_MAX {
            return IoFuture::ready(Err(IoError::of(request, self, IoErrorKind::NoSpace)));
        }
        kept.insert(request.offset, data);
        IoFuture::ready(Ok(SgList::new()))
    }

    /// Reads what is kept, and what lies on the device where nothing is.
    fn read_over(&self, kept: &RefCell<Extents>, request: Request) -> IoFuture {
        // What is kept now, before anything is awaited.
        let stretches = kept.borrow().read(request.offset, request.len());
        let mut parts = Vec::with_capacity(stretches.len());
        for stretch in stretches {
            parts.push(match stretch {
                Stretch::Held(bytes) => Ok(bytes),
                Stretch::Gap(at, len) => {
                    if self.is_bad(&(at.bytes()..(at + len).bytes())) {
                        return self.medium_error(&request);
                    }
                    Err(self.pass(Request::read(at, len).with_priority(request.priority)))
                }
            });
        }
        IoFuture::new(async move {
            let mut whole = SgList::new();
            for part in parts {
                match part {
                    Ok(bytes) => whole.push(bytes),
                    Err(read) => whole.append(read.await?),
                }
            }
            Ok(whole)
        })
    }
}

impl Device for Window {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn begin(&self, request: Request) -> IoFuture {
        let Some(kept) = &self.kept else { return self.pass(request) };
        match &request.op {
            Op::Read(_) => self.read_over(kept, request),
            Op::Write { data, .. } => self.keep(kept, &request, data),
            Op::WriteZeroes(len) => self.keep(kept, &request, &SgList::zeros(len.as_usize())),
            Op::Flush | Op::Discard(_) => IoFuture::ready(Ok(SgList::new())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use rt::{Buf, MemoryDevice};

    fn at_once(window: &Window, request: Request) -> Result<Vec<u8>, IoErrorKind> {
        let answer = window.submit(request).now_or_never().expect("memory answers at once");
        answer.map(|data| data.to_vec()).map_err(|error| error.kind)
    }

    /// A log that forgets a neighbour, or one that a write of a part clears as a whole.
    #[test]
    fn bad_places_can_not_be_read_until_they_are_written_and_the_log_follows() {
        let below = MemoryDevice::new("disk", ByteCount::kib(64)) as DeviceRef;
        let bad = |sector, sectors| BadBlock { sector, sectors };
        // The second one lies before the window.
        let places = [bad(20, 4), bad(3, 2)];
        let window =
            Window::new(&below, Offset(8192), ByteCount::kib(32), &places, Writes::Through);
        let read = |at, len| at_once(&window, Request::read(Offset(at), ByteCount(len)));
        assert_eq!(read(0, 2048), Ok(vec![0; 2048]));
        assert_eq!(read(0, 2560), Err(IoErrorKind::Medium));
        assert!(!window.take_changed());
        at_once(&window, Request::write(Offset(2560), Buf::zeros(1024))).expect("written");
        assert_eq!(
            (read(2560, 1024), read(2048, 512)),
            (Ok(vec![0; 1024]), Err(IoErrorKind::Medium))
        );
        assert_eq!(window.bad_blocks(), [bad(3, 2), bad(20, 1), bad(23, 1)]);
        assert!(window.take_changed() && !window.take_changed());
        window.note_bad(&(2560..3584));
        assert_eq!(window.bad_blocks(), [bad(3, 2), bad(20, 4)]);
    }

    #[test]
    fn what_is_kept_stays_above_and_bad_places_are_medium_errors_until_they_are_written() {
        let below = MemoryDevice::new("disk0", ByteCount::kib(64));
        below.poke(Offset(8192), &Buf::copy_of(&[7; 8192]).into());
        let bad = [BadBlock { sector: 18, sectors: 2 }];
        let device = below.clone() as DeviceRef;
        let window = Window::new(&device, Offset(8192), ByteCount::kib(8), &bad, Writes::Kept);
        assert_eq!(&*window.name(), "disk0");
        let read = |at, len| at_once(&window, Request::read(Offset(at), ByteCount(len)));
        assert_eq!(read(0, 512), Ok(vec![7; 512]));
        assert_eq!(read(512, 1024), Err(IoErrorKind::Medium));
        let data = Buf::copy_of(&[9; 1024]);
        at_once(&window, Request::write(Offset(1024), data)).expect("kept");
        let mut expected = vec![7; 2560];
        expected[512..1536].fill(9);
        assert_eq!(read(512, 2560), Ok(expected));
        assert_eq!(below.peek(Offset(9216), ByteCount(1024)).to_vec(), vec![7; 1024]);
        assert_eq!(read(8192, 512), Err(IoErrorKind::Invalid));
    }
}
