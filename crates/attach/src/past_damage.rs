//! A device that is only read, with zeros for what can't be: so that what is left of it can be copied by programs that end at the
//! first error.
//!
//! A read that fails is divided until what fails is a block, or a stretch of them. What fails for another reason than damage (the
//! device is gone, a key is missing) stays an error: zeros for all of it would be no copy. What could not be read is kept by its
//! bytes, told of where it is met first, and all of it in the end.

use crate::event::{Event, Events};
use crate::told::Told;
use rt::{
    Device, DeviceRef, Extent, ExtentKind, ExtentsFuture, Geometry, IoError, IoErrorKind, IoFuture,
    Op, Request, SgList,
};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use stdx::{ByteCount, Offset, RangeSet};

/// Bytes of the stretch that is given up as a whole, at the most.
const UNIT_MAX: ByteCount = ByteCount::kib(64);

/// Stretches that are named in the end, at the most.
const NAMED_MAX: usize = 1000;
/// The same of a volume that lacks devices: by its stripes it is known where the others lie.
const NAMED_OF_REST: usize = 8;
/// Stretches that are kept; of more only the bytes are counted.
const STRETCHES_MAX: usize = 1 << 20;

/// See the [module](self).
pub struct PastDamage {
    below: DeviceRef,
    lost: Rc<Lost>,
}

struct Lost {
    /// Why bytes are not there was told already.
    is_rest: bool,
    device: Arc<str>,
    events: Events,
    all: RefCell<RangeSet>,
    /// Bytes beside those.
    more: Cell<u64>,
    told: Told,
}

impl Lost {
    fn add(&self, bytes: Range<u64>, kind: IoErrorKind) {
        let mut all = self.all.borrow_mut();
        if all.len() >= STRETCHES_MAX && !all.would_merge(&bytes) {
            return self.more.set(self.more.get().saturating_add(bytes.end - bytes.start));
        }
        let mut from = bytes.start;
        while let Some(new) = all.gap(from, bytes.end) {
            from = new.end;
            self.tell(new, kind);
        }
        all.insert(bytes);
    }

    fn tell(&self, bytes: Range<u64>, kind: IoErrorKind) {
        // By stripes these are thousands.
        if self.is_rest && matches!(kind, IoErrorKind::TooFewMembers | IoErrorKind::CutShort) {
            return;
        }
        let one = || Event::ReadAsZeros { device: Arc::clone(&self.device), bytes, kind };
        self.told.tell(&self.events, one, Event::ReadAsZerosLater);
    }
}

/// Whether it is that the place can't be read, and others perhaps can.
fn is_damage(kind: IoErrorKind) -> bool {
    use IoErrorKind::{CutShort, Medium, Os, TooFewMembers};
    matches!(kind, Medium | TooFewMembers | CutShort | Os(_))
}

impl PastDamage {
    /// What lies there, with zeros for what can't be read; that is told.
    pub fn new(below: DeviceRef, events: &Events) -> Rc<PastDamage> {
        PastDamage::of(below, events, false)
    }

    /// The same; of a volume that lacks some of its devices, which was told, what lay there is summed up in the end.
    pub fn of(below: DeviceRef, events: &Events, is_rest: bool) -> Rc<PastDamage> {
        let (device, events) = (below.name(), events.clone());
        let (all, more, told) = Default::default();
        Rc::new(PastDamage {
            below,
            lost: Rc::new(Lost { is_rest, device, events, all, more, told }),
        })
    }

    /// Tells all that could not be read, and says how many bytes that are.
    pub fn tell_all(&self) -> u64 {
        let Lost { is_rest, device, events, all, more, .. } = &*self.lost;
        let named = if *is_rest { NAMED_OF_REST } else { NAMED_MAX };
        let stretches = all.borrow().clone();
        let bytes = stretches.total().saturating_add(more.get());
        if bytes > 0 {
            let device = Arc::clone(device);
            events.tell(Event::ReadAsZerosAll { device, bytes, stretches, named });
        }
        bytes
    }
}

/// Bytes of the stretches that a read is divided into at the most.
fn unit(geometry: Geometry) -> u64 {
    geometry
        .physical_block
        .clamp(geometry.logical_block, UNIT_MAX.max(geometry.logical_block))
        .bytes()
}

/// Reads what can be read of a range.
async fn read(
    below: &DeviceRef,
    lost: &Lost,
    whole: Range<u64>,
    first: IoError,
) -> Result<SgList, IoError> {
    let unit = unit(below.geometry());
    let mut data = SgList::new();
    let mut found: Vec<(Range<u64>, IoErrorKind)> = Vec::new();
    // From the back: the last one comes first.
    let mut waiting = vec![(whole, Some(first))];
    while let Some((range, known)) = waiting.pop() {
        let len = ByteCount(range.end - range.start);
        let error = match known {
            Some(error) => error,
            None => match below.submit(Request::read(Offset(range.start), len)).await {
                Ok(read) => {
                    data.append(read);
                    continue;
                }
                Err(error) => error,
            },
        };
        if !is_damage(error.kind) {
            return Err(error);
        }
        let middle = (range.start + len.bytes() / 2) / unit * unit;
        let middle = if middle > range.start { middle } else { (range.start / unit + 1) * unit };
        if middle < range.end {
            waiting.push((middle..range.end, None));
            waiting.push((range.start..middle, None));
            continue;
        }
        data.append(SgList::zeros(len.bytes() as usize));
        match found.last_mut() {
            Some((last, why)) if last.end == range.start && *why == error.kind => {
                last.end = range.end;
            }
            _ => found.push((range, error.kind)),
        }
    }
    found.into_iter().for_each(|(range, why)| lost.add(range, why));
    Ok(data)
}

impl Device for PastDamage {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn name(&self) -> Arc<str> {
        self.below.name()
    }

    fn begin(&self, request: Request) -> IoFuture {
        match request.op {
            Op::Read(_) => {}
            Op::Flush => return self.below.submit(request),
            _ => {
                let error = IoError::of(&request, self, IoErrorKind::ReadOnly);
                return IoFuture::ready(Err(error));
            }
        }
        let (below, lost) = (Rc::clone(&self.below), Rc::clone(&self.lost));
        let range = request.offset.bytes()..(request.offset + request.len()).bytes();
        let whole = self.below.submit(request);
        IoFuture::new(async move {
            match whole.await {
                Err(error) if is_damage(error.kind) => read(&below, &lost, range, error).await,
                done => done,
            }
        })
    }

    /// Where it can't be told what is stored, somebody may read it and see.
    fn extents(&self, offset: Offset, len: ByteCount, count_max: usize) -> ExtentsFuture {
        let known = self.below.extents(offset, len, count_max);
        Box::pin(async move {
            match known.await {
                Err(kind) if is_damage(kind) => Ok(vec![Extent { len, kind: ExtentKind::Data }]),
                done => done,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::error::Error;
    use rt::Buf;
    use std::slice;
    use std::sync::Mutex;

    const LEN: u64 = 1 << 20;
    const FIRST: Range<u64> = 0..512;

    /// Ones, but for places that can't be read.
    struct Bad {
        places: Vec<Range<u64>>,
        kind: IoErrorKind,
    }

    impl Device for Bad {
        fn geometry(&self) -> Geometry {
            Geometry { physical_block: ByteCount::kib(4), ..Geometry::plain(ByteCount(LEN)) }
        }

        fn name(&self) -> Arc<str> {
            "bad".into()
        }

        fn begin(&self, request: Request) -> IoFuture {
            let (at, len) = (request.offset.bytes(), request.len().bytes());
            let touches = |place: &Range<u64>| place.start < at + len && at < place.end;
            IoFuture::ready(match self.places.iter().any(touches) {
                true => Err(IoError::of(&request, self, self.kind)),
                false => Ok(Buf::fill(u64::MAX, len as usize).into()),
            })
        }

        fn extents(&self, _: Offset, _: ByteCount, _: usize) -> ExtentsFuture {
            let kind = self.kind;
            Box::pin(async move { Err(kind) })
        }
    }

    /// What is told of one, each in a line.
    fn told(
        places: &[Range<u64>],
        kind: IoErrorKind,
    ) -> (Context, Rc<PastDamage>, Arc<Mutex<Vec<String>>>) {
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = Arc::clone(&lines);
        let events = Events::to(move |event: &Event| {
            kept.lock().expect("nobody panicked").push(event.to_string());
        });
        let context = Context::new(&events).expect("an executor");
        let bad = Rc::new(Bad { places: places.to_vec(), kind });
        (context, PastDamage::new(bad, &events), lines)
    }

    /// What could break: zeros for more than the block that can't be read, or for less; a stretch that is told twice or never.
    #[test]
    fn zeros_stand_for_blocks_that_cant_be_read_and_for_nothing_else() {
        let places = [5000..5001, 16384..24576, LEN - 512..LEN];
        let (context, device, lines) = told(&places, IoErrorKind::Medium);
        let lost = [4096..8192, 16384..24576, LEN - 4096..LEN];
        for (from, len) in
            [(0, LEN), (512, LEN - 512), (4608, 1024), (12288, 8192), (LEN - 1024, 512)]
        {
            let device = Rc::clone(&device);
            let read = context.finish(async move {
                let read = Request::read(Offset(from), ByteCount(len));
                Ok::<_, Error>(device.submit(read).await.map(|data| data.to_vec()))
            });
            let read = read.expect("it is answered").expect("it is read");
            assert_eq!(read.len() as u64, len);
            for (at, byte) in (from..).zip(read) {
                // A read that begins in a block has the rest of it at the most.
                let is_lost = lost.iter().any(|lost| lost.contains(&at));
                assert!(byte == 0xff || is_lost, "{at}");
                assert!(byte == 0 || !places.iter().any(|place| place.contains(&at)), "{at}");
            }
        }
        assert_eq!(lines.lock().expect("nobody panicked").len(), 3);
        assert_eq!(device.tell_all(), 4096 + 8192 + 4096);
        let lines = lines.lock().expect("nobody panicked");
        assert!(lines[0].starts_with("bad: bytes 4096 to 8192 can't be read ("), "{lines:?}");
        let all = "bad: zeros stood for 16384 bytes that can't be read: bytes 4096 to 8192, 16384 to 24576, 1044480 to 1048576";
        assert_eq!(lines[3], all);
    }

    /// What could break: a device that is gone is copied as nothing but zeros; what is to be only read is written.
    #[test]
    fn what_is_no_damage_stays_an_error() {
        for kind in [IoErrorKind::Gone, IoErrorKind::Locked] {
            let (context, device, lines) = told(slice::from_ref(&FIRST), kind);
            let asked = Rc::clone(&device);
            let answers = context.finish(async move {
                let read = asked.submit(Request::read(Offset(0), ByteCount(4096))).await;
                let extents = asked.extents(Offset(0), ByteCount(4096), 9).await;
                let write = asked.submit(Request::write_zeroes(Offset(8192), ByteCount(512))).await;
                Ok::<_, Error>((
                    read.err().map(|e| e.kind),
                    extents.err(),
                    write.err().map(|e| e.kind),
                ))
            });
            let answers = answers.expect("it is answered");
            assert_eq!(answers, (Some(kind), Some(kind), Some(IoErrorKind::ReadOnly)));
            assert_eq!((device.tell_all(), lines.lock().expect("nobody panicked").len()), (0, 0));
        }
        // Where nobody knows what is stored it is read.
        let (context, device, _) = told(slice::from_ref(&FIRST), IoErrorKind::TooFewMembers);
        let extents = context.finish(async move {
            Ok::<_, Error>(device.extents(Offset(0), ByteCount(4096), 9).await)
        });
        let data = Extent { len: ByteCount(4096), kind: ExtentKind::Data };
        assert_eq!(extents.expect("it is answered"), Ok(vec![data]));
    }
}
