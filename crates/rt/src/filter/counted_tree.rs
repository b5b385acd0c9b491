//! Counts what a load asks of a tree: the load's view, to hold against the disks'.
//!
//! Requests are counted when they are submitted, by what they ask for; nothing is added to their way.
//! The counters are of one runtime; who has several adds them up.
//!
//! Beside the counts it knows which files were touched, and how far: together they are the load's working
//! set. Beyond [`FILES_MAX`] files it gives up, and says so.

use crate::device::{IoError, IoFuture, Op, Request};
use crate::file_tree::{
    DirectoryEntry, File, FileRef, FileStatus, FileTree, OpenHow, Space, TreeFuture, TreeRef,
};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use stdx::{ByteCount, Offset};

/// Files whose extents are kept; each takes some hundred bytes.
pub const FILES_MAX: usize = 1 << 16;

/// What was asked of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Reads.
    pub reads: u64,
    /// Bytes that they asked for.
    pub read_bytes: u64,
    /// Writes, those of zeros among them.
    pub writes: u64,
    /// Bytes that they brought.
    pub written_bytes: u64,
    /// Flushes, syncs, and writes that had to be durable.
    pub flushes: u64,
    /// Reads and writes of files that were opened direct.
    pub direct: u64,
    /// Reads and writes that did not go on where the last one of the same open file had ended.
    pub jumps: u64,
    /// Creating, opening, removing, renaming, listing, and looking at files and directories.
    pub names: u64,
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Traffic) {
        self.reads += other.reads;
        self.read_bytes += other.read_bytes;
        self.writes += other.writes;
        self.written_bytes += other.written_bytes;
        self.flushes += other.flushes;
        self.direct += other.direct;
        self.jumps += other.jumps;
        self.names += other.names;
    }
}

impl Traffic {
    /// What was added since `earlier`.
    pub fn since(self, earlier: Traffic) -> Traffic {
        Traffic {
            reads: self.reads - earlier.reads,
            read_bytes: self.read_bytes - earlier.read_bytes,
            writes: self.writes - earlier.writes,
            written_bytes: self.written_bytes - earlier.written_bytes,
            flushes: self.flushes - earlier.flushes,
            direct: self.direct - earlier.direct,
            jumps: self.jumps - earlier.jumps,
            names: self.names - earlier.names,
        }
    }
}

/// The files that a load read and wrote, and how far each.
#[derive(Clone, Debug, Default)]
pub struct Touched {
    ends: BTreeMap<Box<Path>, u64>,
    beyond: bool,
}

impl Touched {
    fn add(&mut self, path: &Path, end: u64) {
        if let Some(known) = self.ends.get_mut(path) {
            *known = end.max(*known);
        } else if self.ends.len() < FILES_MAX {
            self.ends.insert(path.into(), end);
        } else {
            self.beyond = true;
        }
    }

    /// Adds what another runtime's load touched.
    pub fn merge(&mut self, other: &Touched) {
        other.ends.iter().for_each(|(path, end)| self.add(path, *end));
        self.beyond |= other.beyond;
    }

    /// All files together; `None` where there were too many.
    pub fn bytes(&self) -> Option<ByteCount> {
        (!self.beyond).then(|| ByteCount(self.ends.values().sum()))
    }
}

type Counters = Rc<Cell<Traffic>>;

fn count(counters: &Counters, change: impl FnOnce(&mut Traffic)) {
    let mut traffic = counters.get();
    change(&mut traffic);
    counters.set(traffic);
}

/// See the [module](self).
pub struct CountedTree {
    below: TreeRef,
    counters: Counters,
    touched: Rc<RefCell<Touched>>,
}

impl CountedTree {
    /// Counts what is asked of `below`.
    pub fn new(below: TreeRef) -> CountedTree {
        CountedTree { below, counters: Counters::default(), touched: Rc::default() }
    }

    /// What was asked so far.
    pub fn traffic(&self) -> Traffic {
        self.counters.get()
    }

    /// What was touched by files that are closed again.
    pub fn touched(&self) -> Touched {
        self.touched.borrow().clone()
    }

    fn name_call(&self) {
        count(&self.counters, |traffic| traffic.names += 1);
    }
}

impl FileTree for CountedTree {
    fn name(&self) -> Rc<str> {
        self.below.name()
    }

    fn open(&self, path: &Path, how: OpenHow) -> TreeFuture<FileRef> {
        self.name_call();
        let opened = self.below.open(path, how);
        let (counters, touched) = (Rc::clone(&self.counters), Rc::clone(&self.touched));
        let path = path.into();
        Box::pin(async move {
            let below = opened.await?;
            let (next, end) = (Cell::new(0), Cell::new(0));
            Ok(Rc::new(CountedFile { below, counters, touched, path, how, next, end }) as FileRef)
        })
    }

    fn create_directory(&self, path: &Path) -> TreeFuture<()> {
        self.name_call();
        self.below.create_directory(path)
    }

    fn remove_directory(&self, path: &Path) -> TreeFuture<()> {
        self.name_call();
        self.below.remove_directory(path)
    }

    fn remove_file(&self, path: &Path) -> TreeFuture<()> {
        self.name_call();
        self.below.remove_file(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> TreeFuture<()> {
        self.name_call();
        self.below.rename(from, to)
    }

    fn list(&self, path: &Path) -> TreeFuture<Vec<DirectoryEntry>> {
        self.name_call();
        self.below.list(path)
    }

    fn status(&self, path: &Path) -> TreeFuture<FileStatus> {
        self.name_call();
        self.below.status(path)
    }

    fn check_no_link(&self, path: &Path) -> TreeFuture<()> {
        self.name_call();
        self.below.check_no_link(path)
    }

    fn sync(&self) -> TreeFuture<()> {
        count(&self.counters, |traffic| traffic.flushes += 1);
        self.below.sync()
    }

    fn sync_directory(&self, path: &Path) -> TreeFuture<()> {
        count(&self.counters, |traffic| traffic.flushes += 1);
        self.below.sync_directory(path)
    }

    fn space(&self) -> TreeFuture<Space> {
        self.below.space()
    }
}

struct CountedFile {
    below: FileRef,
    counters: Counters,
    touched: Rc<RefCell<Touched>>,
    path: Box<Path>,
    how: OpenHow,
    /// Where the last read or write ended.
    next: Cell<u64>,
    /// The furthest that any ended.
    end: Cell<u64>,
}

impl CountedFile {
    /// A read or write of so much at this place.
    fn pass(&self, traffic: &mut Traffic, at: u64, bytes: u64) {
        let end = at.saturating_add(bytes);
        traffic.jumps += u64::from(at != self.next.get());
        traffic.direct += u64::from(self.how.direct);
        self.next.set(end);
        self.end.set(end.max(self.end.get()));
    }
}

impl Drop for CountedFile {
    fn drop(&mut self) {
        if self.end.get() > 0 {
            self.touched.borrow_mut().add(&self.path, self.end.get());
        }
    }
}

impl File for CountedFile {
    fn name(&self) -> Arc<str> {
        self.below.name()
    }

    fn alignment(&self) -> ByteCount {
        self.below.alignment()
    }

    fn submit(&self, request: Request) -> IoFuture {
        count(&self.counters, |traffic| {
            let (at, bytes) = (request.offset.bytes(), request.len().bytes());
            match request.op {
                Op::Read(_) => {
                    traffic.reads += 1;
                    traffic.read_bytes += bytes;
                    self.pass(traffic, at, bytes);
                }
                Op::Write { .. } | Op::WriteZeroes(_) => {
                    traffic.writes += 1;
                    traffic.written_bytes += bytes;
                    self.pass(traffic, at, bytes);
                    traffic.flushes += u64::from(request.is_fua() || self.how.durable_writes);
                }
                Op::Flush => traffic.flushes += 1,
                Op::Discard(_) => {}
            }
        });
        self.below.submit(request)
    }

    fn read_at_once(&self, at: Offset, into: &mut [u8]) -> Option<Result<usize, IoError>> {
        let len = into.len() as u64;
        let done = self.below.read_at_once(at, into)?;
        count(&self.counters, |traffic| {
            traffic.reads += 1;
            traffic.read_bytes += len;
            self.pass(traffic, at.bytes(), len);
        });
        Some(done)
    }

    fn write_at_once(&self, at: Offset, data: &[u8]) -> Option<Result<(), IoError>> {
        let done = self.below.write_at_once(at, data)?;
        count(&self.counters, |traffic| {
            traffic.writes += 1;
            traffic.written_bytes += data.len() as u64;
            self.pass(traffic, at.bytes(), data.len() as u64);
            traffic.flushes += u64::from(self.how.durable_writes);
        });
        Some(done)
    }

    fn status(&self) -> TreeFuture<FileStatus> {
        self.below.status()
    }

    fn set_size(&self, size: ByteCount) -> TreeFuture<()> {
        self.below.set_size(size)
    }

    fn allocate(&self, size: ByteCount) -> TreeFuture<()> {
        self.below.allocate(size)
    }

    fn sync(&self) -> TreeFuture<()> {
        count(&self.counters, |traffic| traffic.flushes += 1);
        self.below.sync()
    }

    fn drop_cache(&self) -> TreeFuture<()> {
        self.below.drop_cache()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::virtual_time::{run, runtime};
    use crate::{Buf, MemoryTree};

    #[test]
    fn what_is_asked_is_counted_once() {
        let tree = Rc::new(CountedTree::new(MemoryTree::new("m")));
        run(&runtime(), async move {
            let how = OpenHow::create().with_durable_writes(true);
            let file = tree.open(Path::new("a"), how).await.expect("created");
            file.submit(Request::write(Offset(0), Buf::fill(1, 100))).await.expect("written");
            file.submit(Request::read(Offset(0), ByteCount(40))).await.expect("read");
            file.sync().await.expect("synced");
            tree.remove_file(Path::new("a")).await.expect("removed");
            let expected = Traffic {
                reads: 1,
                read_bytes: 40,
                writes: 1,
                written_bytes: 100,
                flushes: 2,
                direct: 0,
                jumps: 1,
                names: 2,
            };
            assert_eq!(tree.traffic(), expected);
            drop(file);
            assert_eq!(tree.touched().bytes(), Some(ByteCount(100)));
        });
    }
}
