//! A volume that is written, as a device.
//!
//! ```text
//!   read           as of a volume that is only read: what is dirty is found before the cache
//!   write          one change of all its blocks; those that are covered in part are read first
//!   write zeroes   whole blocks are freed, the ends zeroed
//!   discard        whole blocks are freed, the ends stay
//!   flush, FUA     what was answered is in the intent log, or the pool: [`LiveVolume::make_durable`]
//! ```
//!
//! A write that begins is one change, so two that overlap are carried out one after the other, whole, and a read block by
//! block. It waits while too much is dirty, and where the pool or what is left to the dataset lacks room for it, it is answered so
//! before anything is changed. Blocks that are covered whole are taken by reference: nothing is copied until they are
//! compressed.
//!
//! Source: OpenZFS, `zvol.c`, `zvol_os.c` (`zvol_write`, `zvol_discard`).

use super::{DATA, Volume, kind_of};
use crate::dmu::{Step, Tx};
use crate::dsl::catalog::Node;
use crate::error::{Problem, ZfsError};
use crate::spa::Room;
use crate::spa::live::{Live, LiveError, set_number};
use crate::zil::{IntentLog, Itx, Synchronous, What};
use async_recursion::async_recursion as boxed;
use rt::{Device, ExtentsFuture, Geometry, IoError, IoErrorKind, IoFuture, Op, Request, SgList};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use stdx::planted::{self, Bug};
use stdx::{ByteCount, Offset};
use zfs_format::zil::record::{Body, Truncate};

/// A volume that is open for writing. Clones are handles of the same. Whoever has one runs
/// [`Live::keep_synced`] meanwhile.
#[derive(Clone)]
pub struct LiveVolume(Rc<Inner>);

struct Inner {
    live: Rc<Live>,
    volume: Volume,
    dataset: u64,
    log: Rc<IntentLog>,
    settings: Cell<Settings>,
}

/// What properties say of how it is written.
#[derive(Clone, Copy)]
struct Settings {
    /// As of so many [tasks](Live::tasks).
    tasks: u64,
    copies: u64,
    synchronous: Synchronous,
    read_only: bool,
}

impl Settings {
    fn of(node: &Node, tasks: u64) -> Settings {
        let copies = set_number(node, "copies").unwrap_or(1).clamp(1, 3);
        let synchronous = Synchronous::of(set_number(node, "sync"));
        let read_only = set_number(node, "readonly").unwrap_or(0) != 0;
        Settings { tasks, copies, synchronous, read_only }
    }
}

impl LiveVolume {
    /// Opens the volume of a name.
    ///
    /// # Errors
    /// It is none, or an object can't be had.
    #[boxed(?Send)]
    pub async fn open(live: &Rc<Live>, node: &Node) -> Result<LiveVolume, ZfsError> {
        let objset = live.objset(node).await?;
        let volume = Volume::open(&objset, &node.directory.name).await?;
        let log = live.log_of(node).await?;
        let settings = Cell::new(Settings::of(node, live.tasks()));
        let (live, dataset) = (Rc::clone(live), node.head.number);
        Ok(LiveVolume(Rc::new(Inner { live, volume, dataset, log, settings })))
    }

    /// What properties say now, where that is known.
    fn known_settings(&self) -> Option<Settings> {
        let Inner { live, settings, .. } = &*self.0;
        Some(settings.get()).filter(|known| known.tasks == live.tasks())
    }

    /// What properties say now: they count from the moment on at which they are set.
    async fn settings(&self) -> Result<Settings, IoErrorKind> {
        if let Some(known) = self.known_settings() {
            return Ok(known);
        }
        let Inner { live, dataset, settings, .. } = &*self.0;
        let tasks = live.tasks();
        let look = async {
            let catalog = live.spa().catalog(0).await?;
            let name = catalog.dataset_name(*dataset).await?;
            catalog.find(&name).await
        };
        // What can't be looked up goes on as it was.
        let known = match look.await.map_err(|error| kind_of(&error))? {
            Some(node) => Settings::of(&node, tasks),
            None => Settings { tasks, ..settings.get() },
        };
        settings.set(known);
        Ok(known)
    }

    /// The volume, as it is read.
    pub fn volume(&self) -> &Volume {
        &self.0.volume
    }

    /// Waits until what was answered before is durable.
    ///
    /// # Errors
    /// The pool is not written any more.
    #[boxed(?Send)]
    pub async fn make_durable(&self) -> Result<(), IoErrorKind> {
        if self.0.settings.get().synchronous == Synchronous::Never {
            return Ok(());
        }
        let done = self.0.live.commit(self.0.dataset, Some(DATA)).await;
        done.map_err(|error| stopped(&error))
    }

    async fn check_room(&self, bytes: u64) -> Result<(), IoErrorKind> {
        let Inner { live, dataset, settings, .. } = &*self.0;
        match live.has_room(*dataset, bytes, settings.get().copies).await {
            Ok(Room::Enough) => Ok(()),
            Ok(Room::PoolFull | Room::QuotaReached) => Err(IoErrorKind::NoSpace),
            Err(error) => Err(stopped(&error)),
        }
    }

    /// Writes bytes within a change.
    fn put(&self, tx: &Tx, at: u64, bytes: &SgList) -> Step<()> {
        let data = &self.0.volume.data;
        let (range, block) = (at..at + bytes.len() as u64, data.block_bytes());
        self.check_end(range.end)?;
        data.plan_write(range.clone())?;
        let mut from = range.start;
        while from < range.end {
            let to = (from - from % block + block).min(range.end);
            let piece = bytes.slice((from - range.start) as usize..(to - range.start) as usize);
            data.write(tx, from, &piece.into_contiguous());
            from = to;
        }
        self.log(tx, What::Write { at, len: range.end - at });
        Ok(())
    }

    /// It may have become shorter since the request was made.
    fn check_end(&self, end: u64) -> Step<()> {
        match end <= self.0.volume.objset.volume_bytes() {
            true => Ok(()),
            false => Err(self.0.volume.data.problem(Problem::BehindEnd).into()),
        }
    }

    /// The intent log is told what was changed.
    fn log(&self, tx: &Tx, what: What) {
        self.0.log.push(tx.txg().0, Itx { object: DATA, waits: true, what });
    }

    /// Writes without waiting; says whether that was possible.
    fn write_now(&self, at: u64, bytes: &SgList) -> bool {
        let Inner { live, volume, dataset, .. } = &*self.0;
        let Some(settings) = self.known_settings() else { return false };
        settings.synchronous != Synchronous::Always
            && !settings.read_only
            && live.has_room_now(*dataset, bytes.len() as u64, settings.copies)
            && volume.objset.change_now(|tx| self.put(tx, at, bytes)).is_some()
    }

    async fn write(&self, at: u64, bytes: &SgList) -> Result<(), IoErrorKind> {
        self.check_room(bytes.len() as u64).await?;
        let change = self.0.volume.objset.change(|tx| self.put(tx, at, bytes));
        change.await.map_err(|error| kind_of(&error))
    }

    /// Zeros a stretch.
    async fn zero(&self, range: Range<u64>) -> Result<(), IoErrorKind> {
        let Volume { objset, data, .. } = &self.0.volume;
        let block = data.block_bytes();
        if !range.start.is_multiple_of(block) || !range.end.is_multiple_of(block) {
            // Its ends are written.
            self.check_room(2 * block).await?;
        } else if !self.0.live.has_reserve() {
            return Err(IoErrorKind::NoSpace);
        }
        let change = objset.change(|tx| {
            self.check_end(range.end)?;
            data.plan_zero(range.clone())?;
            data.zero(tx, range.clone());
            let (offset, length) = (range.start, range.end - range.start);
            let truncate = Body::Truncate(Truncate { object: DATA, offset, length });
            if !planted::is(Bug::ZeroNotLogged) {
                self.log(tx, What::Record(Box::new((truncate, Vec::new()))));
            }
            Ok(())
        });
        change.await.map_err(|error| kind_of(&error))
    }

    /// The whole blocks of a stretch.
    fn whole(&self, range: &Range<u64>) -> Range<u64> {
        let block = self.0.volume.data.block_bytes();
        if planted::is(Bug::DiscardedInPart) {
            return range.start - range.start % block..range.end - range.end % block;
        }
        range.start.next_multiple_of(block)..range.end - range.end % block
    }

    async fn carry_out(&self, op: Op, at: u64, len: u64) -> Result<(), IoErrorKind> {
        let settings = self.settings().await?;
        if settings.read_only && !matches!(op, Op::Flush) {
            return Err(IoErrorKind::ReadOnly);
        }
        match op {
            Op::Write { data, fua } => {
                self.write(at, &data).await?;
                // A reference to it would make a copy of each change to come.
                drop(data);
                let is_durable = fua || settings.synchronous == Synchronous::Always;
                if is_durable && !planted::is(Bug::FuaNotDurable) {
                    self.make_durable().await
                } else {
                    Ok(())
                }
            }
            Op::WriteZeroes(_) => self.zero(at..at + len).await,
            Op::Discard(_) => {
                let whole = self.whole(&(at..at + len));
                if whole.is_empty() { Ok(()) } else { self.zero(whole).await }
            }
            Op::Flush => self.make_durable().await,
            Op::Read(_) => unreachable!("who reads asks the volume"),
        }
    }
}

impl Device for LiveVolume {
    fn geometry(&self) -> Geometry {
        Geometry { volatile_cache: true, ..self.0.volume.geometry() }
    }

    fn name(&self) -> Arc<str> {
        self.0.volume.name()
    }

    fn begin(&self, request: Request) -> IoFuture {
        if matches!(request.op, Op::Read(_)) {
            return self.0.volume.begin(request);
        }
        let (at, len) = (request.offset.bytes(), request.len().bytes());
        if let Op::Write { data, fua: false } = &request.op
            && self.write_now(at, data)
        {
            return IoFuture::ready(Ok(SgList::new()));
        }
        let (volume, error) = (self.clone(), IoError::of(&request, self, IoErrorKind::Medium));
        let (completion, answer) = IoFuture::pending();
        // A task of its own: a group that is half synced because nobody waits for it any more would be the last.
        let work = async move {
            let done = volume.carry_out(request.op, at, len).await;
            let done = done.map(|()| SgList::new()).map_err(|kind| IoError { kind, ..error });
            completion.complete(done);
        };
        self.0.live.spa().rt().spawn(work).detach();
        answer
    }

    fn extents(&self, offset: Offset, len: ByteCount, count_max: usize) -> ExtentsFuture {
        self.0.volume.extents(offset, len, count_max)
    }
}

/// Why a pool is not written, in the words of devices.
fn stopped(error: &LiveError) -> IoErrorKind {
    match error {
        LiveError::Zfs(error) => kind_of(error),
        // It may go on.
        LiveError::Suspended => IoErrorKind::Medium,
        _ => IoErrorKind::Gone,
    }
}
