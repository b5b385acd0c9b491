//! The queue before a leaf: how many requests are under way, and which one is next.
//!
//! A device gets better at its work with a few requests to choose from, and worse with too many: the one that
//! somebody waits for stands behind a hundred of a scrub. So each class has a limit of requests under way. Below it a
//! request goes to the device at once; above it waits, and when one is done the waiting ones follow in the order of their
//! offsets, upwards, then from the start again.
//!
//! | class | least | most | |
//! |---|---|---|---|
//! | sync read | 10 | 10 | somebody waits for the block |
//! | sync write | 10 | 10 | somebody waits: the intent log, labels |
//! | async read | 1 | 3 | read ahead |
//! | async write | 2 | 10 | a transaction group; from least to most as dirty data grows from 30 % to 60 % of its limit |
//! | scrub | 1 | 3 | the least while any of the classes above has something under way |
//! | trim | 1 | 2 | likewise |
//!
//! **Joining.** The one that is next takes its neighbours along: waiting reads of its class that begin where it ends, or a
//! small gap later, and waiting writes that begin right where it ends, become one request of up to
//! [`JOINED_BYTES_MAX`]. A joined request that fails is done again one by one, so that a bad sector fails its own block
//! only. Trims are not joined.
//!
//! Nothing waits here in the hope of neighbours: without load there is no queue, and with load they come by themselves.
//!
//! **Rules.** A write that waits and one of its class that waits beside it don't overlap: which one is last would be chance.
//! A flush isn't queued: it makes durable what was answered before it was asked for, and who needs more awaits it first.
//!
//! What is not done as OpenZFS does it: no credit by which a scrub gets its most only some requests after the others
//! ended, and no limit over all classes (OpenZFS's is 1000 a device, which six such classes never reach).
//!
//! Source of the numbers: OpenZFS 2.3's defaults (`vdev_queue.c`; joined up to 1 MiB, reads over gaps of 32 KiB).

use rt::sync::oneshot;
use rt::{Buf, DeviceRef, IoErrorKind, Priority, Request, Rt, SgList};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::{ByteCount, Offset};

/// Bytes of the largest request that is made of several.
pub(crate) const JOINED_BYTES_MAX: u64 = 1 << 20;
/// Bytes between two reads that are read along to join them.
pub(crate) const GAP_BYTES_MAX: u64 = 32 << 10;
/// Dirty data, in percent of its limit, up to which async writes have their least, and from which on their most.
const DIRTY_LEAST: u64 = 30;
const DIRTY_MOST: u64 = 60;

/// Whose request it is: OpenZFS's `zio_priority_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IoClass {
    /// Somebody waits for it.
    SyncRead,
    /// Somebody waits until it is durable.
    SyncWrite,
    /// Nobody waits for it yet.
    AsyncRead,
    /// A transaction group's.
    AsyncWrite,
    /// A scrub's, and other walks' through all of a pool.
    Scrub,
    /// Space that is given back.
    Trim,
}

impl IoClass {
    /// All of them, those first that go first.
    pub const ALL: [IoClass; 6] = [
        IoClass::SyncRead,
        IoClass::SyncWrite,
        IoClass::AsyncRead,
        IoClass::AsyncWrite,
        IoClass::Scrub,
        IoClass::Trim,
    ];

    /// The class of a read.
    pub fn of_read(priority: Priority, prefetch: bool) -> IoClass {
        match priority {
            Priority::Foreground if prefetch => IoClass::AsyncRead,
            Priority::Foreground => IoClass::SyncRead,
            Priority::Background => IoClass::Scrub,
        }
    }

    /// The least and the most requests under way.
    pub(crate) fn limits(self) -> (usize, usize) {
        match self {
            IoClass::SyncRead | IoClass::SyncWrite => (10, 10),
            IoClass::AsyncRead => (1, 3),
            IoClass::AsyncWrite => (2, 10),
            IoClass::Scrub => (1, 3),
            IoClass::Trim => (1, 2),
        }
    }

    /// Whether it gives way to all others.
    fn gives_way(self) -> bool {
        matches!(self, IoClass::Scrub | IoClass::Trim)
    }

    fn priority(self) -> Priority {
        if self.gives_way() { Priority::Background } else { Priority::Foreground }
    }
}

type Answer = Result<Buf, IoErrorKind>;

/// What a device was asked for, as it was asked: requests that were joined are one. Those that failed are in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCounts {
    /// Reads.
    pub reads: u64,
    /// Bytes of them.
    pub bytes_read: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes of them.
    pub bytes_written: u64,
}

/// See the [module](self).
pub(crate) struct Queue {
    shared: Rc<Shared>,
}

struct Shared {
    rt: Rt,
    device: DeviceRef,
    classes: RefCell<[Class; 6]>,
    counts: Cell<IoCounts>,
    /// Dirty data in percent of its limit: of the whole pool.
    dirty: Rc<Cell<u64>>,
}

/// The requests of one class.
#[derive(Default)]
struct Class {
    under_way: usize,
    /// By offset and number of arrival.
    waiting: BTreeMap<(u64, u64), Waiting>,
    arrivals: u64,
    /// Where the last one that was taken ended.
    swept_to: u64,
}

/// What is to be done at a place.
#[derive(Clone)]
enum Deed {
    Read(u64),
    Write(SgList),
    Trim(u64),
}

struct Waiting {
    deed: Deed,
    answer: oneshot::Sender<Answer>,
}

/// Requests that go to the device as one.
struct Joined {
    class: IoClass,
    at: u64,
    end: u64,
    parts: Vec<(u64, Waiting)>,
}

impl Deed {
    fn len(&self) -> u64 {
        match self {
            Deed::Read(len) | Deed::Trim(len) => *len,
            Deed::Write(data) => data.len() as u64,
        }
    }
}

impl Queue {
    pub(crate) fn new(rt: &Rt, device: DeviceRef, dirty: &Rc<Cell<u64>>) -> Queue {
        let (rt, dirty) = (rt.clone(), Rc::clone(dirty));
        let (classes, counts) = Default::default();
        Queue { shared: Rc::new(Shared { rt, device, classes, counts, dirty }) }
    }

    /// What the device was asked for.
    pub(crate) fn counts(&self) -> IoCounts {
        self.shared.counts.get()
    }

    /// The device, past the queue.
    pub(crate) fn device(&self) -> DeviceRef {
        Rc::clone(&self.shared.device)
    }

    /// Bytes of the device.
    pub(crate) fn device_bytes(&self) -> u64 {
        self.shared.device.geometry().capacity.bytes()
    }

    /// Requests under way and waiting.
    pub(crate) fn load(&self) -> usize {
        let classes = self.shared.classes.borrow();
        classes.iter().map(|class| class.under_way + class.waiting.len()).sum()
    }

    /// Reads, when its turn comes.
    pub(crate) async fn read(&self, at: u64, len: usize, class: IoClass) -> Answer {
        self.queued(at, Deed::Read(len as u64), class).await
    }

    /// Writes, when its turn comes. It is durable when a flush that was begun later is done.
    pub(crate) async fn write(
        &self,
        at: u64,
        data: SgList,
        class: IoClass,
    ) -> Result<(), IoErrorKind> {
        self.queued(at, Deed::Write(data), class).await.map(drop)
    }

    /// Says that nothing in a stretch is needed any more.
    pub(crate) async fn trim(&self, at: u64, len: u64) -> Result<(), IoErrorKind> {
        self.queued(at, Deed::Trim(len), IoClass::Trim).await.map(drop)
    }

    /// Makes durable what was written before.
    pub(crate) async fn flush(&self) -> Result<(), IoErrorKind> {
        let flushed = self.shared.device.submit(Request::flush()).await;
        flushed.map(drop).map_err(|error| error.kind)
    }

    async fn queued(&self, at: u64, deed: Deed, class: IoClass) -> Answer {
        let waiting = {
            let classes = &mut *self.shared.classes.borrow_mut();
            let limit = self.shared.limit(classes, class);
            let own = &mut classes[class as usize];
            if own.under_way < limit {
                own.under_way += 1;
                Err(deed)
            } else {
                let (sender, receiver) = oneshot::channel();
                own.arrivals += 1;
                own.waiting.insert((at, own.arrivals), Waiting { deed, answer: sender });
                Ok(receiver)
            }
        };
        match waiting {
            Err(deed) => {
                let _turn = Turn { shared: Rc::clone(&self.shared), class };
                self.shared.carry_out(at, deed, class).await
            }
            // The queue ends only with its leaf, whose user has no use for the answer any more.
            Ok(receiver) => receiver.await.unwrap_or(Err(IoErrorKind::Gone)),
        }
    }
}

/// One of the requests under way that goes straight to the device. When it ends, or nobody waits for it any more,
/// those that wait are begun.
struct Turn {
    shared: Rc<Shared>,
    class: IoClass,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.shared.end(self.class);
        begin(&self.shared);
    }
}

/// Begins all that waits and may be under way.
fn begin(shared: &Rc<Shared>) {
    while let Some(first) = shared.next() {
        shared.rt.spawn(work_off(Rc::clone(shared), first)).detach();
    }
}

/// Carries out a request, then those that wait, one after another.
async fn work_off(shared: Rc<Shared>, first: Joined) {
    let mut next = Some(first);
    while let Some(Joined { class, at, end, mut parts }) = next {
        if let [(_, part)] = parts.as_mut_slice() {
            let deed = std::mem::replace(&mut part.deed, Deed::Trim(0));
            let answer = shared.carry_out(at, deed, class).await;
            // Who asked may be gone.
            let _ = parts.remove(0).1.answer.send(answer);
        } else {
            carry_out_joined(&shared, class, at, end, parts).await;
        }
        shared.end(class);
        next = shared.next();
        begin(&shared);
    }
}

/// Carries out several requests as one; one by one, where that fails.
async fn carry_out_joined(
    shared: &Shared,
    class: IoClass,
    start: u64,
    end: u64,
    parts: Vec<(u64, Waiting)>,
) {
    let whole = match &parts[0].1.deed {
        Deed::Write(_) => {
            let mut data = SgList::new();
            for (_, part) in &parts {
                let Deed::Write(piece) = &part.deed else {
                    unreachable!("only writes join a write")
                };
                data.append(piece.clone());
            }
            assert_eq!(data.len() as u64, end - start, "joined writes leave no gap");
            Deed::Write(data)
        }
        _ => Deed::Read(end - start),
    };
    let done = shared.carry_out(start, whole, class).await;
    for (at, part) in parts {
        let answer = match (&done, &part.deed) {
            (Ok(_), Deed::Write(_) | Deed::Trim(_)) => Ok(Buf::empty()),
            (Ok(bytes), Deed::Read(len)) => {
                assert!(at >= start && at + len <= end, "what was joined lies within the whole");
                let from = (at - start) as usize;
                let range = from..from + *len as usize;
                match class {
                    // What a scrub reads is looked at and let go.
                    IoClass::Scrub => Ok(bytes.slice(range)),
                    // A copy: a small block that is kept for long must not keep all the others alive.
                    _ => Ok(Buf::copy_of(&bytes.bytes()[range])),
                }
            }
            (Err(_), deed) => shared.carry_out(at, deed.clone(), class).await,
        };
        let _ = part.answer.send(answer);
    }
}

impl Class {
    /// Takes the next request and what can be joined to it.
    fn take_next(&mut self, class: IoClass) -> Option<Joined> {
        loop {
            let ahead = self.waiting.range((self.swept_to, 0)..).next();
            let key = *ahead.or_else(|| self.waiting.iter().next())?.0;
            let first = self.waiting.remove(&key)?;
            if first.answer.is_closed() {
                continue;
            }
            let (at, mut end) = (key.0, key.0.saturating_add(first.deed.len()));
            let writes = matches!(first.deed, Deed::Write(_));
            let joins = !matches!(first.deed, Deed::Trim(_));
            let gap_max = if writes { 0 } else { GAP_BYTES_MAX };
            let mut parts = vec![(at, first)];
            while let Some((&key, next)) = self.waiting.range((at, 0)..).next().filter(|_| joins) {
                let next_end = key.0.saturating_add(next.deed.len()).max(end);
                assert!(!writes || key.0 >= end, "writes that wait together don't overlap");
                if key.0 > end.saturating_add(gap_max) || next_end - at > JOINED_BYTES_MAX {
                    break;
                }
                if let Some(next) = self.waiting.remove(&key) {
                    parts.push((key.0, next));
                }
                end = next_end;
            }
            self.swept_to = end;
            return Some(Joined { class, at, end, parts });
        }
    }
}

impl Shared {
    /// How many requests of a class may be under way now.
    fn limit(&self, classes: &[Class; 6], class: IoClass) -> usize {
        let (least, most) = class.limits();
        match class {
            IoClass::AsyncWrite => {
                let grown = self.dirty.get().clamp(DIRTY_LEAST, DIRTY_MOST) - DIRTY_LEAST;
                least + (most - least) * grown as usize / (DIRTY_MOST - DIRTY_LEAST) as usize
            }
            class if class.gives_way() => {
                let others = IoClass::ALL.into_iter().filter(|other| !other.gives_way());
                let is_alone =
                    others.map(|other| classes[other as usize].under_way).sum::<usize>() == 0;
                if is_alone { most } else { least }
            }
            _ => most,
        }
    }

    /// What may be begun now; it counts as under way from here on.
    fn next(&self) -> Option<Joined> {
        let classes = &mut *self.classes.borrow_mut();
        IoClass::ALL.into_iter().find_map(|class| {
            let limit = self.limit(classes, class);
            let own = &mut classes[class as usize];
            if own.under_way >= limit {
                return None;
            }
            let next = own.take_next(class)?;
            own.under_way += 1;
            Some(next)
        })
    }

    /// A request of this class is under way no more.
    fn end(&self, class: IoClass) {
        let under_way = &mut self.classes.borrow_mut()[class as usize].under_way;
        assert!(*under_way > 0, "what ends was begun");
        *under_way -= 1;
    }

    async fn carry_out(&self, at: u64, deed: Deed, class: IoClass) -> Answer {
        let len = deed.len();
        if at.checked_add(len).is_none() {
            return Err(IoErrorKind::Invalid);
        }
        let mut counts = self.counts.get();
        let (reads, request) = match deed {
            Deed::Read(len) => {
                (counts.reads, counts.bytes_read) = (counts.reads + 1, counts.bytes_read + len);
                (true, Request::read(Offset(at), ByteCount(len)))
            }
            Deed::Write(data) => {
                counts.writes += 1;
                counts.bytes_written += len;
                (false, Request::write(Offset(at), data))
            }
            Deed::Trim(len) => (false, Request::discard(Offset(at), ByteCount(len))),
        };
        self.counts.set(counts);
        match self.device.submit(request.with_priority(class.priority())).await {
            Ok(_) if !reads => Ok(Buf::empty()),
            Ok(data) if data.len() as u64 == len => Ok(data.into_contiguous()),
            Ok(_) => Err(IoErrorKind::Medium),
            Err(error) => Err(error.kind),
        }
    }
}

#[cfg(test)]
mod tests;
