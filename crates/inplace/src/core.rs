//! What all parts of a mounted file system share.
//!
//! **Atomicity without locks.** An operation that changes metadata works in two steps. First it *plans*:
//! it loads every block that it will change, and waits as often as it must. Then it *applies*: with a
//! [`Tx`] in hand, and without any `await`, it changes those blocks in memory. Between two awaits nothing
//! else runs, and a commit takes its snapshot between two awaits too, so each operation is in a
//! transaction as a whole or not at all, with no handles to count.
//!
//! **Order of locks**, where one task holds several: the namespace, directories from parent to child,
//! the inode's `rw`, its `write_back`, its `io`, its `attach`, the journal's. The journal waits for no
//! inode's lock but in the first step of an ordered commit, where it holds none itself.

use crate::allocate::Space;
use crate::cache::PageCache;
use crate::inode::InodeTable;
use crate::journal::Journal;
use crate::layout::Shape;
use crate::meta::{MetaCache, MetaRef};
use crate::settings::{MountOptions, Settings};
use rt::sync::{Notify, RwLock};
use rt::{DeviceRef, IoErrorKind, Rt, TreeErrorKind, Work, WorkKind};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use stdx::ByteCount;
use stdx::bytes::FormatError;

/// What an operation inside the file system ends with.
pub(crate) type Outcome<T> = Result<T, TreeErrorKind>;

/// See the [module](self).
pub(crate) struct Core {
    pub(crate) rt: Rt,
    pub(crate) device: DeviceRef,
    pub(crate) name: Rc<str>,
    pub(crate) settings: Settings,
    pub(crate) options: MountOptions,
    pub(crate) shape: Shape,
    pub(crate) root: u64,
    pub(crate) meta: MetaCache,
    pub(crate) journal: Journal,
    pub(crate) space: RefCell<Space>,
    pub(crate) inodes: InodeTable,
    pub(crate) pages: RefCell<PageCache>,
    /// Shared by whoever walks names; held alone by a rename, and by a check.
    pub(crate) namespace: RwLock<()>,
    /// Counts uses, to compare their ages.
    pub(crate) ticks: Cell<u64>,
    /// Rung when something becomes dirty, or too much is.
    pub(crate) bell: Rc<Notify>,
    /// Rings when dirty pages were written.
    pub(crate) cleaned: Notify,
    /// Set once: nothing is changed any more.
    pub(crate) closed: Cell<Option<TreeErrorKind>>,
    /// Flushes of the device: how many have begun, and the last one that began and was answered.
    pub(crate) flushes: Cell<(u64, u64)>,
    /// The first damaged structure that was met.
    pub(crate) damage: Cell<Option<FormatError>>,
}

impl Core {
    pub(crate) fn tick(&self) -> u64 {
        self.ticks.set(self.ticks.get() + 1);
        self.ticks.get()
    }

    /// Notes that bytes on the device are damaged, and says so to the caller as it would of a medium.
    pub(crate) fn damaged(&self, error: FormatError) -> TreeErrorKind {
        if self.damage.get().is_none() {
            self.damage.set(Some(error));
        }
        TreeErrorKind::Io(IoErrorKind::Medium)
    }

    /// From here on nothing is changed: a journal that can't be written guarantees nothing.
    pub(crate) fn shut_down(&self, why: TreeErrorKind) {
        if self.closed.get().is_none() {
            self.closed.set(Some(why));
        }
        self.bell.notify_waiters();
    }

    /// After an unmount nothing is answered; a file system that shut itself down can still be read.
    pub(crate) fn check_mounted(&self) -> Outcome<()> {
        match self.closed.get() {
            Some(gone @ TreeErrorKind::Io(IoErrorKind::Gone)) => Err(gone),
            _ => Ok(()),
        }
    }

    pub(crate) fn check_open(&self) -> Outcome<()> {
        self.closed.get().map_or(Ok(()), Err)
    }

    /// Waits until an operation that changes metadata may begin: a transaction that is large enough is
    /// committed first.
    pub(crate) async fn begin(&self) -> Outcome<()> {
        self.check_open()?;
        while let Some(full) = self.journal.full() {
            self.commit_metadata(full).await?;
        }
        self.check_open()
    }

    /// Begins changes that belong together. No await until it is dropped.
    pub(crate) fn tx(&self) -> Tx<'_> {
        Tx { core: self }
    }

    /// The processor time of a call on names or whole files, which looks up paths and changes several structures: as much
    /// as an I/O takes. It is spent on the caller's core: callers are threads of a program.
    pub(crate) async fn charge_call(&self) {
        self.rt.charge(Work::new(WorkKind::Io, ByteCount::ZERO).anywhere()).await;
    }

    /// The processor time of a read or a write through the cache, beside the copy.
    pub(crate) async fn charge_buffered_call(&self) {
        self.rt.charge(Work::new(WorkKind::Call, ByteCount::ZERO).anywhere()).await;
    }

    /// The processor time of copying between cache and caller.
    pub(crate) async fn charge_copy(&self, bytes: u64) {
        self.rt.charge(Work::new(WorkKind::Copy, ByteCount(bytes)).anywhere()).await;
    }

    /// Now, as inodes note it: in nanoseconds, by the granularity of the clock.
    pub(crate) fn clock(&self) -> u64 {
        let grain = u64::try_from(self.options.time_granularity.as_nanos()).unwrap_or(u64::MAX);
        let now = self.rt.now().as_nanos();
        now - now % grain.max(1)
    }
}

/// Changes to metadata that a crash keeps together. See the [module](self).
pub(crate) struct Tx<'a> {
    pub(crate) core: &'a Core,
}

impl Tx<'_> {
    /// The number of the transaction that takes the changes.
    pub(crate) fn number(&self) -> u64 {
        self.core.journal.running()
    }

    /// Changes a part of a block.
    pub(crate) fn edit(
        &self,
        block: &MetaRef,
        range: Range<usize>,
        change: impl FnOnce(&mut [u8]),
    ) {
        let first = self.core.journal.began().is_none();
        self.core.journal.join(block, &range, &self.core.rt);
        block.change(range, change);
        if first {
            self.core.bell.notify_waiters();
        }
    }
}
