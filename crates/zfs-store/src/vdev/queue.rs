//! The queue before a leaf: how many reads are under way, and which one is next.
//!
//! A device gets better at its work with a few requests to choose from, and worse with too many: the one that
//! somebody waits for stands behind a hundred of a scrub. So each class has a limit of reads under way. Below it a read
//! goes to the device at once; above it waits, and when one is done the waiting ones follow in the order of their
//! offsets, upwards, then from the start again. Foreground goes first.
//!
//! **Joining.** The one that is next takes its neighbours along: waiting reads of its class that begin where it
//! ends, or a small gap later, become one read of up to [`JOINED_BYTES_MAX`]. A joined read that fails is done
//! again one by one, so that a bad sector fails its own block only.
//!
//! Nothing waits here in the hope of neighbours: without load there is no queue, and with load they come by themselves.
//!
//! Source of the numbers: OpenZFS's defaults (`vdev_queue.c`: sync reads 10, scrub 3, joined up to 1 MiB over
//! gaps of 32 KiB).

use rt::sync::oneshot;
use rt::{Buf, DeviceRef, IoErrorKind, Priority, Request, Rt};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::{ByteCount, Offset};

/// Reads under way that somebody waits for.
pub(crate) const FOREGROUND_MAX: usize = 10;
/// Reads under way for scrubs and the like.
pub(crate) const BACKGROUND_MAX: usize = 3;
/// Bytes of the largest read that is made of several.
pub(crate) const JOINED_BYTES_MAX: u64 = 1 << 20;
/// Bytes between two reads that are read along to join them.
pub(crate) const GAP_BYTES_MAX: u64 = 32 << 10;

type Answer = Result<Buf, IoErrorKind>;

/// See the [module](self).
pub(crate) struct Queue {
    shared: Rc<Shared>,
}

struct Shared {
    rt: Rt,
    device: DeviceRef,
    classes: RefCell<[Class; 2]>,
}

/// The reads of one priority.
#[derive(Default)]
struct Class {
    under_way: usize,
    /// By offset and number of arrival.
    waiting: BTreeMap<(u64, u64), Waiting>,
    arrivals: u64,
    /// Where the last one that was taken ended.
    swept_to: u64,
}

struct Waiting {
    len: usize,
    answer: oneshot::Sender<Answer>,
}

/// Reads that go to the device as one.
struct Joined {
    at: u64,
    end: u64,
    parts: Vec<(u64, Waiting)>,
}

fn class_of(priority: Priority) -> (usize, usize) {
    match priority {
        Priority::Foreground => (0, FOREGROUND_MAX),
        Priority::Background => (1, BACKGROUND_MAX),
    }
}

impl Queue {
    pub(crate) fn new(rt: &Rt, device: DeviceRef) -> Queue {
        let shared = Shared { rt: rt.clone(), device, classes: RefCell::default() };
        Queue { shared: Rc::new(shared) }
    }

    /// Requests under way and waiting.
    pub(crate) fn load(&self) -> usize {
        let classes = self.shared.classes.borrow();
        classes.iter().map(|class| class.under_way + class.waiting.len()).sum()
    }

    /// Reads, when its turn comes.
    pub(crate) async fn read(&self, at: u64, len: usize, priority: Priority) -> Answer {
        let (number, limit) = class_of(priority);
        let waiting = {
            let class = &mut self.shared.classes.borrow_mut()[number];
            if class.under_way < limit {
                class.under_way += 1;
                None
            } else {
                let (sender, receiver) = oneshot::channel();
                class.arrivals += 1;
                let waiting = Waiting { len, answer: sender };
                class.waiting.insert((at, class.arrivals), waiting);
                Some(receiver)
            }
        };
        match waiting {
            None => {
                let _turn = Turn { shared: Rc::clone(&self.shared), priority };
                self.shared.read(at, len, priority).await
            }
            // The queue ends only with its leaf, whose reader has no use for the answer any more.
            Some(receiver) => receiver.await.unwrap_or(Err(IoErrorKind::Gone)),
        }
    }
}

/// One of the reads under way that goes straight to the device. When it ends, or nobody waits for it any more,
/// those that wait are begun.
struct Turn {
    shared: Rc<Shared>,
    priority: Priority,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(first) = self.shared.next(self.priority) {
            let (shared, priority) = (Rc::clone(&self.shared), self.priority);
            self.shared.rt.spawn(work_off(shared, priority, first)).detach();
        }
    }
}

/// Carries out a read, then those that wait, one after another. It takes up one place of its class.
async fn work_off(shared: Rc<Shared>, priority: Priority, first: Joined) {
    let mut next = Some(first);
    while let Some(joined) = next {
        let whole = shared.read(joined.at, (joined.end - joined.at) as usize, priority).await;
        let alone = joined.parts.len() == 1;
        for (at, part) in joined.parts {
            let answer = match &whole {
                Ok(bytes) if alone => Ok(bytes.clone()),
                // A copy: a small block that is kept for long must not keep all the others alive.
                Ok(bytes) => {
                    let start = (at - joined.at) as usize;
                    Ok(Buf::copy_of(&bytes.bytes()[start..start + part.len]))
                }
                Err(kind) if alone => Err(*kind),
                Err(_) => shared.read(at, part.len, priority).await,
            };
            // Who asked may be gone.
            let _ = part.answer.send(answer);
        }
        next = shared.next(priority);
    }
}

impl Class {
    /// Takes the next read and what can be joined to it.
    fn take_next(&mut self) -> Option<Joined> {
        loop {
            let ahead = self.waiting.range((self.swept_to, 0)..).next();
            let key = *ahead.or_else(|| self.waiting.iter().next())?.0;
            let first = self.waiting.remove(&key)?;
            if first.answer.is_closed() {
                continue;
            }
            let (at, mut end) = (key.0, key.0.saturating_add(first.len as u64));
            let mut parts = vec![(at, first)];
            while let Some((&key, next)) = self.waiting.range((at, 0)..).next() {
                let next_end = key.0.saturating_add(next.len as u64).max(end);
                if key.0 > end.saturating_add(GAP_BYTES_MAX) || next_end - at > JOINED_BYTES_MAX {
                    break;
                }
                if let Some(next) = self.waiting.remove(&key) {
                    parts.push((key.0, next));
                }
                end = next_end;
            }
            self.swept_to = end;
            return Some(Joined { at, end, parts });
        }
    }
}

impl Shared {
    /// What is to be done in a place that became free; if nothing waits, the place is given back.
    fn next(&self, priority: Priority) -> Option<Joined> {
        let class = &mut self.classes.borrow_mut()[class_of(priority).0];
        let next = class.take_next();
        if next.is_none() {
            class.under_way -= 1;
        }
        next
    }

    async fn read(&self, at: u64, len: usize, priority: Priority) -> Answer {
        let request = Request::read(Offset(at), ByteCount(len as u64)).with_priority(priority);
        if at.checked_add(len as u64).is_none() {
            return Err(IoErrorKind::Invalid);
        }
        match self.device.submit(request).await {
            Ok(data) if data.len() == len => Ok(data.into_contiguous()),
            Ok(_) => Err(IoErrorKind::Medium),
            Err(error) => Err(error.kind),
        }
    }
}

#[cfg(test)]
mod tests;
