//! Counts what a load asks of a tree: the load's view, to hold against the disks'.
//!
//! Requests are counted when they are submitted, by what they ask for; nothing is added to their way.
//! The counters are of one runtime; who has several adds them up.
//!
//! Beside the counts it knows which files were read, and from where to where: together that is what a cache would have to
//! hold to answer the load's reads. Beyond [`FILES_MAX`] files it gives up, and says so.

use crate::device::{IoError, IoFuture, Op, Request};
use crate::file_tree::{
    DirectoryEntry, File, FileRef, FileStatus, FileTree, OpenHow, Space, TreeFuture, TreeRef,
};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::{AddAssign, Range};
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

/// The files that a load read, each from the first place to the last.
#[derive(Clone, Debug, Default)]
pub struct ReadFiles {
    extents: BTreeMap<Box<Path>, Range<u64>>,
    beyond: bool,
}

/// Both, and what lies between them.
fn joined(one: &Range<u64>, other: &Range<u64>) -> Range<u64> {
    one.start.min(other.start)..one.end.max(other.end)
}

impl ReadFiles {
    fn add(&mut self, path: &Path, extent: &Range<u64>) {
        if let Some(known) = self.extents.get_mut(path) {
            *known = joined(known, extent);
        } else if self.extents.len() < FILES_MAX {
            self.extents.insert(path.into(), extent.clone());
        } else {
            self.beyond = true;
        }
    }

    /// Adds what another runtime's load read.
    pub fn merge(&mut self, other: &ReadFiles) {
        other.extents.iter().for_each(|(path, extent)| self.add(path, extent));
        self.beyond |= other.beyond;
    }

    /// All of it together; `None` where there were too many files.
    pub fn bytes(&self) -> Option<ByteCount> {
        let lens = self.extents.values().map(|extent| extent.end - extent.start);
        (!self.beyond).then(|| ByteCount(lens.sum()))
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
    read: Rc<RefCell<ReadFiles>>,
}

impl CountedTree {
    /// Counts what is asked of `below`.
    pub fn new(below: TreeRef) -> CountedTree {
        CountedTree { below, counters: Counters::default(), read: Rc::default() }
    }

    /// What was asked so far.
    pub fn traffic(&self) -> Traffic {
        self.counters.get()
    }

    /// What was read of files that are closed again.
    pub fn read(&self) -> ReadFiles {
        self.read.borrow().clone()
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
        let (counters, read) = (Rc::clone(&self.counters), Rc::clone(&self.read));
        let path = path.into();
        Box::pin(async move {
            let below = opened.await?;
            let (next, extent) = (Cell::new(0), RefCell::new(None));
            Ok(Rc::new(CountedFile { below, counters, read, path, how, next, extent }) as FileRef)
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
    read: Rc<RefCell<ReadFiles>>,
    path: Box<Path>,
    how: OpenHow,
    /// Where the last read or write ended.
    next: Cell<u64>,
    /// From the first place that was read to the last.
    extent: RefCell<Option<Range<u64>>>,
}

impl CountedFile {
    /// A read or write of so much at this place.
    fn pass(&self, traffic: &mut Traffic, at: u64, bytes: u64) {
        let end = at.saturating_add(bytes);
        traffic.jumps += u64::from(at != self.next.get());
        traffic.direct += u64::from(self.how.direct);
        self.next.set(end);
    }

    /// The same of a read.
    fn pass_read(&self, traffic: &mut Traffic, at: u64, bytes: u64) {
        traffic.reads += 1;
        traffic.read_bytes += bytes;
        self.pass(traffic, at, bytes);
        let read = at..at.saturating_add(bytes);
        let mut extent = self.extent.borrow_mut();
        *extent = Some(extent.as_ref().map_or(read.clone(), |known| joined(known, &read)));
    }
}

impl Drop for CountedFile {
    fn drop(&mut self) {
        if let Some(extent) = self.extent.get_mut() {
            self.read.borrow_mut().add(&self.path, extent);
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
                Op::Read(_) => self.pass_read(traffic, at, bytes),
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
        count(&self.counters, |traffic| self.pass_read(traffic, at.bytes(), len));
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
            assert_eq!(tree.read().bytes(), Some(ByteCount(40)));
        });
    }

    /// What could break: what is only written, or lies before what is read, is counted as read; a file counts anew each time it is
    /// opened.
    #[test]
    fn what_is_read_of_a_file_is_counted_once_and_what_is_written_not() {
        let tree = Rc::new(CountedTree::new(MemoryTree::new("m")));
        run(&runtime(), async move {
            let write = |path: &'static str| {
                let opened = tree.open(Path::new(path), OpenHow::create());
                async move {
                    let file = opened.await.expect("created");
                    let write = Request::write(Offset(0), Buf::fill(1, 1000));
                    file.submit(write).await.expect("written");
                }
            };
            write("a").await;
            write("b").await;
            assert_eq!(tree.read().bytes(), Some(ByteCount(0)));
            for at in [700, 500, 700] {
                let file = tree.open(Path::new("a"), OpenHow::read()).await.expect("there");
                file.submit(Request::read(Offset(at), ByteCount(100))).await.expect("read");
            }
            assert_eq!(tree.read().bytes(), Some(ByteCount(300)), "from 500 to 800");
            let (mut all, one) = (tree.read(), tree.read());
            all.merge(&one);
            assert_eq!(all.bytes(), Some(ByteCount(300)));
        });
    }
}
