//! Counts what a load asks of a tree: the load's view, to hold against the disks'.
//!
//! Requests are counted when they are submitted, by what they ask for; nothing is added to their way.
//! The counters are of one runtime; who has several adds them up.

use crate::device::{IoError, IoFuture, Op, Request};
use crate::file_tree::{
    DirectoryEntry, File, FileRef, FileStatus, FileTree, OpenHow, Space, TreeFuture, TreeRef,
};
use std::cell::Cell;
use std::ops::AddAssign;
use std::path::Path;
use std::rc::Rc;
use stdx::{ByteCount, Offset};

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
            names: self.names - earlier.names,
        }
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
}

impl CountedTree {
    /// Counts what is asked of `below`.
    pub fn new(below: TreeRef) -> CountedTree {
        CountedTree { below, counters: Counters::default() }
    }

    /// What was asked so far.
    pub fn traffic(&self) -> Traffic {
        self.counters.get()
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
        let counters = Rc::clone(&self.counters);
        Box::pin(async move {
            let below = opened.await?;
            Ok(Rc::new(CountedFile { below, counters, how }) as FileRef)
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
    how: OpenHow,
}

impl File for CountedFile {
    fn name(&self) -> Rc<str> {
        self.below.name()
    }

    fn alignment(&self) -> ByteCount {
        self.below.alignment()
    }

    fn submit(&self, request: Request) -> IoFuture {
        count(&self.counters, |traffic| {
            let bytes = request.len().bytes();
            match request.op {
                Op::Read(_) => {
                    traffic.reads += 1;
                    traffic.read_bytes += bytes;
                    traffic.direct += u64::from(self.how.direct);
                }
                Op::Write { .. } | Op::WriteZeroes(_) => {
                    traffic.writes += 1;
                    traffic.written_bytes += bytes;
                    traffic.direct += u64::from(self.how.direct);
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
            traffic.direct += u64::from(self.how.direct);
        });
        Some(done)
    }

    fn write_at_once(&self, at: Offset, data: &[u8]) -> Option<Result<(), IoError>> {
        let done = self.below.write_at_once(at, data)?;
        count(&self.counters, |traffic| {
            traffic.writes += 1;
            traffic.written_bytes += data.len() as u64;
            traffic.direct += u64::from(self.how.direct);
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
                names: 2,
            };
            assert_eq!(tree.traffic(), expected);
        });
    }
}
