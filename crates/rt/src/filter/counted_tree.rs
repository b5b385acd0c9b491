//! Counts what a load asks of a tree: the load's view, to hold against the disks'.
//!
//! Requests are counted when they are submitted, by what they ask for; nothing is added to their way.
//! The counters are of one runtime; who has several adds them up.
//!
//! Beside the counts it knows which files were read, and from where to where: together that is what a cache would have to
//! hold to answer the load's reads. Beyond [`FILES_MAX`] files it gives up, and says so. It knows as well whether a cache could
//! answer any: not where it was told to forget each file before, and each place was read once since.

use crate::device::{IoError, IoFuture, Op, Request};
use crate::file_tree::{
    DirectoryEntry, File, FileRef, FileStatus, FileTree, OpenHow, Space, TreeFuture, TreeRef,
};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
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
    files: BTreeMap<Box<Path>, ReadFile>,
    /// Those of which caches were told to forget all, and nothing was read or written since.
    forgotten: BTreeSet<Box<Path>>,
    beyond: bool,
}

#[derive(Clone, Debug)]
struct ReadFile {
    extent: Range<u64>,
    /// Whether each time that it was read it was forgotten before, and no place was read twice.
    cold: bool,
}

/// Both, and what lies between them.
fn joined(one: &Range<u64>, other: &Range<u64>) -> Range<u64> {
    one.start.min(other.start)..one.end.max(other.end)
}

impl ReadFiles {
    fn add(&mut self, path: &Path, read: ReadFile) {
        if let Some(known) = self.files.get_mut(path) {
            known.extent = joined(&known.extent, &read.extent);
            known.cold &= read.cold;
        } else if self.files.len() < FILES_MAX {
            self.files.insert(path.into(), read);
        } else {
            self.beyond = true;
        }
    }

    /// So many bytes of this part of a file were read, of one opening.
    fn add_reads(&mut self, path: &Path, extent: Range<u64>, bytes: u64) {
        let cold = self.forgotten.remove(path) && bytes <= extent.end - extent.start;
        self.add(path, ReadFile { extent, cold });
    }

    fn forget(&mut self, path: &Path) {
        if self.forgotten.len() < FILES_MAX {
            self.forgotten.insert(path.into());
        }
    }

    /// Adds what another runtime's load read.
    pub fn merge(&mut self, other: &ReadFiles) {
        other.files.iter().for_each(|(path, read)| self.add(path, read.clone()));
        self.beyond |= other.beyond;
    }

    /// Whether all that was read was forgotten by caches before it was, each time.
    pub fn was_cold(&self) -> bool {
        !self.beyond && !self.files.is_empty() && self.files.values().all(|file| file.cold)
    }

    /// All of it together; `None` where there were too many files.
    pub fn bytes(&self) -> Option<ByteCount> {
        let lens = self.files.values().map(|file| file.extent.end - file.extent.start);
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
            let (next, reads) = (Cell::new(0), RefCell::new(None));
            Ok(Rc::new(CountedFile { below, counters, read, path, how, next, reads }) as FileRef)
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

    fn space_at(&self, path: &Path) -> TreeFuture<Space> {
        self.below.space_at(path)
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
    /// From the first place that was read to the last, and how many bytes in all, since caches were told to forget it.
    reads: RefCell<Option<(Range<u64>, u64)>>,
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
        let mut reads = self.reads.borrow_mut();
        *reads = Some(match reads.take() {
            Some((known, before)) => (joined(&known, &read), before.saturating_add(bytes)),
            None => (read, bytes),
        });
    }

    /// The same of a write.
    fn pass_write(&self, traffic: &mut Traffic, at: u64, bytes: u64) {
        traffic.writes += 1;
        traffic.written_bytes += bytes;
        self.pass(traffic, at, bytes);
        self.read.borrow_mut().forgotten.remove(&self.path);
    }

    /// What was read until here is told.
    fn tell_reads(&self) {
        if let Some((extent, bytes)) = self.reads.take() {
            self.read.borrow_mut().add_reads(&self.path, extent, bytes);
        }
    }
}

impl Drop for CountedFile {
    fn drop(&mut self) {
        self.tell_reads();
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
                    self.pass_write(traffic, at, bytes);
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
            self.pass_write(traffic, at.bytes(), data.len() as u64);
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
        self.tell_reads();
        let (read, path) = (Rc::clone(&self.read), self.path.clone());
        let dropped = self.below.drop_cache();
        Box::pin(async move {
            dropped.await?;
            read.borrow_mut().forget(&path);
            Ok(())
        })
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

    /// What could break: what was read before, is read twice, or was written meanwhile is taken for cold.
    #[test]
    fn reads_are_cold_where_the_file_was_forgotten_before_each() {
        let tree = Rc::new(CountedTree::new(MemoryTree::new("m")));
        run(&runtime(), async move {
            let open = |how: OpenHow| {
                let opened = tree.open(Path::new("a"), how);
                async move { opened.await.expect("opened") }
            };
            let write = |file: FileRef| async move {
                let write = Request::write(Offset(0), Buf::fill(1, 1000));
                file.submit(write).await.expect("written");
            };
            let read = |file: FileRef, times: usize| async move {
                for _ in 0..times {
                    let read = Request::read(Offset(0), ByteCount(1000));
                    file.submit(read).await.expect("read");
                }
            };
            let forget = || async { open(OpenHow::read()).await.drop_cache().await.expect("told") };
            write(open(OpenHow::create()).await).await;
            assert!(!tree.read().was_cold(), "nothing was read");
            forget().await;
            read(open(OpenHow::read()).await, 1).await;
            // Between two passes of one opening, too.
            let file = open(OpenHow::read()).await;
            for _ in 0..2 {
                file.drop_cache().await.expect("told");
                read(Rc::clone(&file), 1).await;
            }
            drop(file);
            let cold = tree.read();
            assert!(cold.was_cold() && cold.bytes() == Some(ByteCount(1000)));
            for case in 0..3 {
                tree.read.borrow_mut().files.clear();
                forget().await;
                match case {
                    0 => read(open(OpenHow::read()).await, 2).await,
                    1 => {
                        read(open(OpenHow::read()).await, 1).await;
                        read(open(OpenHow::read()).await, 1).await;
                    }
                    _ => {
                        write(open(OpenHow::create()).await).await;
                        read(open(OpenHow::read()).await, 1).await;
                    }
                }
                let warm = tree.read();
                assert!(!warm.was_cold(), "case {case}");
                let mut both = cold.clone();
                both.merge(&warm);
                assert!(!both.was_cold() && both.bytes() == cold.bytes(), "case {case}");
            }
        });
    }
}
