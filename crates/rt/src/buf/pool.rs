//! Where memory for I/O comes from, and where it goes back to: the pool of the thread that took it.
//!
//! The operating system's page faults cost more than the I/O on fast devices, so memory is kept, in classes, by each thread for
//! itself: powers of two, and larger ones with a page more, for what comes with a page of its head. A [`Block`] knows its **home**, the pool that it was taken
//! from, and goes there when it is dropped, on whatever thread that is:
//!
//! ```text
//!   its own thread drops it      ──▶ kept:      the thread's own lists, which no other touches
//!   another thread drops it      ──▶ returned:  lists behind a lock, emptied into `kept` when that has none left
//! ```
//!
//! So an executor whose blocks are dropped by workers, or by another executor that they were sent to, does not
//! run dry while the others fill up with memory that they never take.
//!
//! **How much is kept.** What a thread needed at one time it will need again: a pool that is written holds as much as may be
//! dirty, drops all of it with each group, and takes it anew. So all classes together have one limit, and where it is
//! reached, that class makes room which nobody took from for longest.
//!
//! **Homes** live as long as the process: a thread that ends leaves its own to the next that begins, so there are as
//! many as there were threads at one time. What a dead thread's blocks return in between waits there, within the
//! same limit.

use bytemuck::{Pod, Zeroable};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bytes in a page; memory starts on a multiple of it, as direct I/O demands.
pub const PAGE: usize = 4096;

/// The system has no memory left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no memory left")]
pub struct NoMemory;

/// Classes of a power of two that the pool keeps: 1, 2, 4 … 2¹¹ pages (8 MiB). Larger memory is not pooled.
const POWERS: usize = 12;
/// The first class that also is there with a page more: 2⁶ pages (256 KiB). Below it the page would be much.
const HEADED: usize = 6;
const CLASSES: usize = POWERS + (POWERS - HEADED);
/// Bytes that one thread keeps at the most; others may have returned as much again. More helps bursts (it should be no less
/// than what a group of a pool has dirty); it is memory that stays with the process, once it was needed.
const KEPT_BYTES_MAX: usize = 512 << 20;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(4096))]
struct Page([u8; PAGE]);

/// Pages that memory of this length takes: as many as a class has, where the pool keeps such.
pub(super) fn pages_of(len: usize) -> usize {
    let pages = len.div_ceil(PAGE).max(1);
    if class_with(pages).is_some() {
        return pages;
    }
    let pooled = pages.next_power_of_two();
    if class_with(pooled).is_some() { pooled } else { pages }
}

/// The class with so many pages.
fn class_with(pages: usize) -> Option<usize> {
    let power = |pages: usize| {
        let is_power = pages.is_power_of_two();
        is_power.then_some(pages.trailing_zeros() as usize).filter(|power| *power < POWERS)
    };
    let headed = || power(pages - 1).filter(|power| *power >= HEADED);
    power(pages).or_else(|| Some(POWERS - HEADED + headed()?))
}

/// Memory that nobody uses, by class.
struct Spare {
    classes: [Vec<Box<[Page]>>; CLASSES],
    /// When each class was last taken from, by the count of `takes`.
    taken_at: [u64; CLASSES],
    takes: u64,
    bytes: usize,
}

impl Spare {
    const NONE: Spare = Spare {
        classes: [const { Vec::new() }; CLASSES],
        taken_at: [0; CLASSES],
        takes: 0,
        bytes: 0,
    };

    fn take(&mut self, class: usize) -> Option<Box<[Page]>> {
        self.takes += 1;
        self.taken_at[class] = self.takes;
        let pages = self.classes[class].pop()?;
        self.bytes -= pages.len() * PAGE;
        Some(pages)
    }

    /// Keeps memory, or frees it where there is no room: what was not taken for longest goes first.
    fn keep(&mut self, pages: Box<[Page]>) {
        let (class, bytes) = (class_of(&pages), pages.len() * PAGE);
        while self.bytes + bytes > KEPT_BYTES_MAX {
            let others = (0..CLASSES).filter(|other| !self.classes[*other].is_empty());
            let idle = others.min_by_key(|other| self.taken_at[*other]);
            let Some(idle) = idle.filter(|idle| self.taken_at[*idle] < self.taken_at[class]) else {
                return;
            };
            self.bytes -= self.classes[idle].pop().map_or(0, |freed| freed.len() * PAGE);
        }
        self.bytes += bytes;
        self.classes[class].push(pages);
    }
}

fn class_of(pages: &[Page]) -> usize {
    class_with(pages.len()).expect("what is kept has a class")
}

/// What other threads return to a thread.
struct Home {
    returned: Mutex<Spare>,
    /// There may be some.
    has_returned: AtomicBool,
}

/// Homes without a thread.
static VACANT: Mutex<Vec<&'static Home>> = Mutex::new(Vec::new());

impl Home {
    /// A home that no thread has.
    fn vacant() -> &'static Home {
        // Nothing under these locks can leave a list half changed.
        let vacant = VACANT.lock().unwrap_or_else(PoisonError::into_inner).pop();
        vacant.unwrap_or_else(|| {
            let (returned, has_returned) = (Mutex::new(Spare::NONE), AtomicBool::new(false));
            Box::leak(Box::new(Home { returned, has_returned }))
        })
    }

    fn put_back(&self, pages: Box<[Page]>) {
        self.returned.lock().unwrap_or_else(PoisonError::into_inner).keep(pages);
        self.has_returned.store(true, Ordering::Release);
    }

    /// All that was returned.
    fn take_back(&self) -> Option<Spare> {
        if !self.has_returned.load(Ordering::Acquire) {
            return None;
        }
        let mut returned = self.returned.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_returned.store(false, Ordering::Release);
        Some(std::mem::replace(&mut *returned, Spare::NONE))
    }
}

/// A thread's own lists.
struct Kept {
    home: Option<&'static Home>,
    spare: Spare,
}

thread_local! {
    static KEPT: RefCell<Kept> = const { RefCell::new(Kept { home: None, spare: Spare::NONE }) };
}

impl Kept {
    fn take(&mut self, class: usize) -> Option<Box<[Page]>> {
        if let Some(pages) = self.spare.take(class) {
            return Some(pages);
        }
        let returned = self.home?.take_back()?;
        returned.classes.into_iter().flatten().for_each(|pages| self.spare.keep(pages));
        self.spare.take(class)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let vacant = self.home.take();
        VACANT.lock().unwrap_or_else(PoisonError::into_inner).extend(vacant);
    }
}

/// A piece of memory; goes home when dropped.
pub(super) struct Block {
    pages: Box<[Page]>,
    /// None where it is too large to be kept, or its thread was ending.
    home: Option<&'static Home>,
}

impl Block {
    /// Memory of at least `len` bytes. The flag tells whether it is fresh (all zeros).
    pub(super) fn take(len: usize) -> (Block, bool) {
        Block::try_take(len).unwrap_or_else(|NoMemory| {
            // As std's own collections: a message and an abort.
            let layout = std::alloc::Layout::array::<Page>(pages_of(len));
            std::alloc::handle_alloc_error(layout.unwrap_or(std::alloc::Layout::new::<Page>()))
        })
    }

    /// The same, or an error where the system has none left.
    pub(super) fn try_take(len: usize) -> Result<(Block, bool), NoMemory> {
        let count = pages_of(len);
        let fresh = |home| {
            let pages = bytemuck::allocation::try_zeroed_slice_box(count);
            pages.map(|pages| (Block { pages, home }, true)).map_err(|()| NoMemory)
        };
        let Some(class) = class_with(count) else { return fresh(None) };
        // At the end of a thread its lists are gone already.
        let kept = KEPT.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            let home = *kept.home.get_or_insert_with(Home::vacant);
            (kept.take(class), home)
        });
        let (pages, home) = kept.map_or((None, None), |(pages, home)| (pages, Some(home)));
        match pages {
            Some(pages) => Ok((Block { pages, home }, false)),
            None => fresh(home),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.pages)
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.pages)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let Some(home) = self.home else { return };
        let mut pages = Some(std::mem::take(&mut self.pages));
        let _ = KEPT.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            if kept.home.is_some_and(|own| std::ptr::eq(own, home))
                && let Some(pages) = pages.take()
            {
                kept.spare.keep(pages);
            }
        });
        if let Some(pages) = pages {
            home.put_back(pages);
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "memory that goes from thread to thread")]
mod tests {
    //! What could break: memory that collects where nobody takes it, while who took it asks the system for more.

    use super::*;

    fn place(block: &Block) -> usize {
        block.bytes().as_ptr() as usize
    }

    /// In a thread of its own, so that no other test's memory is in its lists.
    fn alone<T: Send + 'static>(test: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(test).join().expect("it held")
    }

    #[test]
    fn what_another_thread_drops_comes_back_to_who_took_it() {
        alone(|| {
            let (block, _) = Block::take(3 * PAGE);
            let taken = place(&block);
            let elsewhere = alone(move || {
                drop(block);
                place(&Block::take(3 * PAGE).0)
            });
            assert_ne!(elsewhere, taken, "the other thread did not keep it");
            let (again, fresh) = Block::take(4 * PAGE);
            assert_eq!((place(&again), fresh), (taken, false));
        });
    }

    #[test]
    fn a_stream_of_blocks_to_another_thread_takes_no_new_memory_for_ever() {
        let fresh = alone(|| {
            let mut fresh = 0;
            for _ in 0..200 {
                let blocks: Vec<(Block, bool)> = (0..8).map(|_| Block::take(PAGE)).collect();
                fresh += blocks.iter().filter(|(_, fresh)| *fresh).count();
                alone(move || drop(blocks));
            }
            fresh
        });
        // A home may come with what a dead thread left, so fewer are possible.
        assert!(fresh <= 8, "{fresh} blocks of 1600 were new");
    }

    /// A pool that was used for large blocks would have no room for small ones for ever; and one whose limit is each
    /// class's own, too much.
    #[test]
    fn what_is_kept_has_one_limit_and_old_memory_makes_room_for_new() {
        alone(|| {
            const LARGE: usize = PAGE << (POWERS - 1);
            let many = KEPT_BYTES_MAX / LARGE;
            let large: Vec<_> = (0..many + 3).map(|_| Block::take(LARGE)).collect();
            drop(large);
            let kept = |class: usize| {
                KEPT.with_borrow(|kept| (kept.spare.classes[class].len(), kept.spare.bytes))
            };
            assert_eq!(kept(POWERS - 1), (many, many * LARGE));
            drop(Block::take(PAGE));
            assert_eq!(kept(0), (1, (many - 1) * LARGE + PAGE));
            assert!(!Block::take(LARGE).1 && !Block::take(PAGE).1, "both come from there");
        });
    }

    #[test]
    fn memory_too_large_for_a_class_is_freed_and_not_kept() {
        let (large, fresh) = Block::take((PAGE << POWERS) - PAGE);
        assert!(fresh && large.home.is_none());
        let (odd, _) = Block::take(PAGE << POWERS);
        assert!(odd.home.is_none());
    }

    #[test]
    fn large_memory_has_classes_with_a_page_more() {
        let pages = |count: usize| pages_of(count * PAGE);
        assert_eq!([1, 2, 3, 33, 64, 65, 66].map(pages), [1, 2, 4, 64, 64, 65, 128]);
        assert_eq!([256, 257, 1025, 2048, 2049].map(pages), [256, 257, 1025, 2048, 2049]);
        let all: Vec<_> = (1..5000).filter_map(class_with).collect();
        let distinct: std::collections::BTreeSet<_> = all.iter().copied().collect();
        assert!(all.len() == distinct.len() && distinct.into_iter().eq(0..CLASSES));
    }
}
