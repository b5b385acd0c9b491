//! Reads.
//!
//! **Through the cache.** Pages that are there are copied; others are read in *fills*, of whole runs that
//! follow one another on the device. Who needs a page that is in a fill waits for the fill.
//!
//! **Read-ahead**, for each handle, after Linux' on-demand one: a read that goes on where the last ended
//! (or begins at the start) opens a window of four times its length, at least 16 KiB; it is read in one go
//! with what was asked for. When the reader comes into the window, the next one, twice as long, is read
//! in the background, up to `read_ahead_max`. A read that takes all of its own window has the next one read with it, or
//! nothing would ever be read ahead of it. A read elsewhere closes the window.
//!
//! **Direct** reads go to the device at once; dirty pages in the range are written back before.
//!
//! A fill that began before pages were thrown away (a direct write, a hole) is not put in the cache.

use crate::core::{Core, Outcome};
use crate::inode::{Fill, Inode};
use crate::mapping::What;
use crate::settings::{AccessTimes, Hold};
use crate::transfer::IN_FLIGHT_MAX;
use futures_util::{StreamExt, stream};
use rt::SgList;
use rt::sync::{Notify, RwLock};
use std::cell::Cell;
use std::rc::Rc;
use stdx::{ByteCount, KIB};

/// The first read-ahead window at the least.
const WINDOW_MIN: u64 = 16 * KIB;

/// What a handle remembers of its reads, in pages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadAhead {
    /// Where the last read ended.
    next: u64,
    window: u64,
    /// Where the window ends.
    ahead_to: u64,
    /// When a read reaches it, the next window is read.
    trigger: u64,
}

/// What is to be read beyond what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ahead {
    Nothing,
    /// Together with what was asked for, up to here.
    With(u64),
    /// Beside it, in the background.
    Beside(u64, u64),
}

impl ReadAhead {
    /// Notes a read of these pages.
    fn note(&mut self, first: u64, end: u64, block: u64, most: u64) -> Ahead {
        let most = most / block;
        let sequential = first == self.next || first + 1 == self.next;
        self.next = end;
        if most == 0 {
            return Ahead::Nothing;
        }
        if !sequential {
            (self.window, self.ahead_to, self.trigger) = (0, end, u64::MAX);
            return Ahead::Nothing;
        }
        if end > self.ahead_to {
            let asked = end - first;
            self.window = match self.window {
                0 => (4 * asked.next_power_of_two()).max(WINDOW_MIN / block),
                window => 2 * window,
            };
            self.window = self.window.clamp(1, most);
            self.trigger = end;
            self.ahead_to = end.max(first + self.window);
            if self.window <= asked {
                self.window = (2 * self.window).min(most);
                self.ahead_to += self.window;
            }
            return Ahead::With(self.ahead_to);
        }
        if end > self.trigger {
            self.window = (2 * self.window).min(most);
            let from = self.ahead_to;
            self.trigger = from;
            self.ahead_to += self.window;
            return Ahead::Beside(from, self.ahead_to);
        }
        Ahead::Nothing
    }
}

/// The inode's lock, held as a rule says; what is in it only has to live.
#[allow(dead_code, reason = "guards are held, not read")]
enum Held<S, A> {
    Free,
    Shared(S),
    Alone(A),
}

/// Takes a lock as a rule says, until the answer is dropped.
pub(crate) async fn hold(lock: &RwLock<()>, how: Hold) -> impl Sized {
    match how {
        Hold::Free => Held::Free,
        Hold::Shared => Held::Shared(lock.read().await),
        Hold::Alone => Held::Alone(lock.write().await),
    }
}

/// Ends a fill, however it ends.
struct Filling {
    inode: Rc<Inode>,
    first: u64,
    fill: Rc<Fill>,
}

impl Drop for Filling {
    fn drop(&mut self) {
        self.inode.body.borrow_mut().fills.remove(&self.first);
        self.fill.done.set(true);
        self.fill.bell.notify_waiters();
    }
}

impl Core {
    /// Reads through the cache.
    pub(crate) async fn read_buffered(
        self: &Rc<Self>,
        inode: &Rc<Inode>,
        at: u64,
        len: u64,
        ahead: Option<&Cell<ReadAhead>>,
    ) -> Outcome<SgList> {
        self.charge_buffered_call().await;
        let _held = hold(&inode.rw, self.options.locks.buffered_reads).await;
        let len = len.min(inode.size().saturating_sub(at));
        if len == 0 {
            return Ok(SgList::new());
        }
        let block = self.shape.block;
        let (first, end) = (at / block, (at + len).div_ceil(block));
        if let Some(state) = ahead {
            let mut noted = state.get();
            let most = self.options.read_ahead_max.bytes();
            match noted.note(first, end, block, most) {
                Ahead::Nothing => {}
                // All of it at once, though some of what was asked for may be on its way: who reads beside would go on behind
                // it, and the device would have to come back.
                Ahead::With(to) => self.fill_missing(inode, first, to),
                Ahead::Beside(from, to) => self.fill_missing(inode, from, to),
            }
            state.set(noted);
        }
        let mut data = SgList::new();
        for index in first..end {
            let page = self.page(inode, index, end).await?;
            let from = at.max(index * block) - index * block;
            let to = (at + len).min((index + 1) * block) - index * block;
            data.append(page.slice(from as usize..to as usize));
        }
        self.charge_copy(len).await;
        self.note_access(inode);
        Ok(data)
    }

    /// A page, read where it is not in memory; together with what follows, up to `to`.
    pub(crate) async fn page(
        self: &Rc<Self>,
        inode: &Rc<Inode>,
        index: u64,
        to: u64,
    ) -> Outcome<SgList> {
        loop {
            if let Some(page) = self.cached_page(inode, index) {
                return Ok(page);
            }
            let fill = self.fill_of(inode, index);
            let fill = match fill {
                Some(fill) => fill,
                None => self.start_fill(inode, index, to.max(index + 1)),
            };
            while !fill.done.get() {
                fill.bell.notified().await;
            }
            if let Some(error) = fill.failed.get() {
                return Err(error);
            }
        }
    }

    /// The fill that reads this page.
    fn fill_of(&self, inode: &Inode, index: u64) -> Option<Rc<Fill>> {
        let body = inode.body.borrow();
        let (_, fill) = body.fills.range(..=index).next_back()?;
        (fill.end > index).then(|| Rc::clone(fill))
    }

    /// Begins to read pages that are neither in memory nor on their way, from `first` on, to `to` at the
    /// most.
    fn start_fill(self: &Rc<Self>, inode: &Rc<Inode>, first: u64, to: u64) -> Rc<Fill> {
        let fill = {
            let mut body = inode.body.borrow_mut();
            let to = to.min(body.size.div_ceil(self.shape.block)).max(first + 1);
            let next_fill = body.fills.range(first..).next().map_or(u64::MAX, |(first, _)| *first);
            let next_page = body.pages.range(first..).next().map_or(u64::MAX, |(first, _)| *first);
            let fill = Rc::new(Fill {
                end: to.min(next_fill).min(next_page),
                done: Cell::new(false),
                failed: Cell::new(None),
                bell: Notify::new(),
            });
            body.fills.insert(first, Rc::clone(&fill));
            fill
        };
        let filling = Filling { inode: Rc::clone(inode), first, fill: Rc::clone(&fill) };
        let core = Rc::clone(self);
        let task = async move {
            let Filling { inode, first, fill } = &filling;
            if let Err(error) = core.fill(inode, *first, fill.end).await {
                fill.failed.set(Some(error));
            }
            drop(filling);
        };
        self.rt.spawn(task).detach();
        fill
    }

    /// Begins to read what of these pages is neither in memory nor on its way.
    fn fill_missing(self: &Rc<Self>, inode: &Rc<Inode>, from: u64, to: u64) {
        let end = to.min(inode.size().div_ceil(self.shape.block));
        let mut at = from;
        while at < end {
            if inode.body.borrow().pages.contains_key(&at) {
                at += 1;
            } else if let Some(fill) = self.fill_of(inode, at) {
                at = fill.end;
            } else {
                at = self.start_fill(inode, at, end).end;
            }
        }
    }

    async fn fill(self: &Rc<Self>, inode: &Rc<Inode>, first: u64, end: u64) -> Outcome<()> {
        let _io = inode.io.read().await;
        let (invalidations, size) = {
            let body = inode.body.borrow();
            (body.invalidations, body.size)
        };
        let data = self.read_blocks(inode, first, end).await?;
        let block = self.shape.block;
        let body = inode.body.borrow();
        if body.invalidations != invalidations {
            return Ok(());
        }
        // Beyond the end there is nothing, whatever the device holds there.
        let size = size.min(body.size);
        drop(body);
        let there = (size.saturating_sub(first * block)).min((end - first) * block) as usize;
        let mut zeroed = data.slice(0..there);
        zeroed.append(SgList::zeros(data.len() - there));
        for index in first..end {
            let from = ((index - first) * block) as usize;
            self.insert_clean(inode, index, zeroed.slice(from..from + block as usize));
        }
        Ok(())
    }

    /// Reads blocks of a file from the device; holes are zeros. Callers hold `io`.
    async fn read_blocks(&self, inode: &Inode, first: u64, end: u64) -> Outcome<SgList> {
        self.read_range(inode, first * self.shape.block, (end - first) * self.shape.block).await
    }

    /// Reads bytes of a file from the device, in sectors.
    async fn read_range(&self, inode: &Inode, at: u64, len: u64) -> Outcome<SgList> {
        let block = self.shape.block;
        let mut pieces: Vec<(Option<u64>, u64)> = Vec::new();
        let mut cursor = at;
        while cursor < at + len {
            let (index, within) = (cursor / block, cursor % block);
            let most = (at + len).div_ceil(block) - index;
            let run = self.lookup(inode, index, most).await?;
            let bytes = (run.len * block - within).min(at + len - cursor);
            let place = match run.what {
                What::At(number) => Some(number * block + within),
                What::Hole | What::Unwritten(_) => None,
            };
            match (pieces.last_mut(), place) {
                (Some((Some(last), last_len)), Some(place)) if *last + *last_len == place => {
                    *last_len += bytes;
                }
                _ => pieces.push((place, bytes)),
            }
            cursor += bytes;
        }
        let reads = pieces.into_iter().map(async |(place, len)| match place {
            Some(place) => self.read_device(stdx::Offset(place), len).await,
            None => Ok(SgList::zeros(len as usize)),
        });
        let mut reads = stream::iter(reads).buffered(IN_FLIGHT_MAX);
        let mut data = SgList::new();
        while let Some(read) = reads.next().await {
            data.append(read?);
        }
        Ok(data)
    }

    /// Reads past the cache.
    pub(crate) async fn read_direct(
        self: &Rc<Self>,
        inode: &Rc<Inode>,
        at: u64,
        len: u64,
    ) -> Outcome<SgList> {
        let _held = hold(&inode.rw, self.options.locks.direct_reads).await;
        let size = inode.size();
        let there = len.min(size.saturating_sub(at));
        if there == 0 {
            return Ok(SgList::new());
        }
        let block = self.shape.block;
        self.write_back_range(inode, at / block..(at + there).div_ceil(block)).await?;
        let _io = inode.io.read().await;
        let sector = self.device.geometry().logical_block;
        let whole = ByteCount(there).round_up(sector).bytes();
        let data = self.read_range(inode, at, whole).await?;
        self.note_access(inode);
        Ok(data.slice(0..there as usize))
    }

    fn note_access(&self, inode: &Inode) {
        let now = self.clock();
        let mut body = inode.body.borrow_mut();
        let due = match self.options.access_times {
            AccessTimes::Never => false,
            AccessTimes::Relative => body.accessed <= body.changed && body.accessed != now,
            AccessTimes::Always => body.accessed != now,
        };
        if due {
            body.accessed = now;
            self.times_are_dirty(inode, &mut body);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_double_while_a_reader_goes_on_and_close_when_it_jumps() {
        let mut state = ReadAhead::default();
        let mut note = |first| state.note(first, first + 1, 4096, 131_072);
        assert_eq!(note(0), Ahead::With(4));
        assert_eq!(note(1), Ahead::Beside(4, 12));
        assert_eq!(note(2), Ahead::Nothing);
        assert_eq!(note(3), Ahead::Nothing);
        assert_eq!(note(4), Ahead::Beside(12, 28));
        assert_eq!(note(100), Ahead::Nothing);
        assert_eq!(note(50), Ahead::Nothing);
        assert_eq!(note(51), Ahead::With(55));
    }

    /// As Linux does it: a read as long as the longest window finds its own marker, and the window after it comes along.
    #[test]
    fn a_reader_of_whole_windows_is_read_ahead_of_too() {
        let mut state = ReadAhead::default();
        let mut note = |first| state.note(first, first + 32, 4096, 131_072);
        assert_eq!(note(0), Ahead::With(64));
        assert_eq!(note(32), Ahead::Beside(64, 96));
        assert_eq!(note(64), Ahead::Beside(96, 128));
        // Longer ones likewise.
        let mut state = ReadAhead::default();
        let mut note = |first| state.note(first, first + 64, 4096, 131_072);
        assert_eq!(note(0), Ahead::With(96));
        assert_eq!(note(64), Ahead::With(160));
    }
}
