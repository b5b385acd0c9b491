//! A tree in memory whose I/O takes time, and that remembers what was asked of it.

use rt::{
    DirectoryEntry, File, FileRef, FileStatus, FileTree, IoFuture, MemoryTree, OpKind, OpenHow,
    Request, Rt, Runtime, Space, TreeError, TreeErrorKind, TreeFuture, TreeOp,
};
use sim::SimReactor;
use sim::host::Processor;
use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::{ByteCount, Instant};
use workload::crew::OneRuntime;

/// A request, as it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub file: String,
    pub kind: OpKind,
    pub offset: u64,
    pub len: u64,
    pub at: Instant,
    /// The content's first 8 bytes, of a write.
    pub head: [u8; 8],
}

pub struct Log {
    pub seen: RefCell<Vec<Seen>>,
    pub outstanding: Cell<usize>,
    pub outstanding_max: Cell<usize>,
    pub dropped: Cell<usize>,
    pub synced: Cell<usize>,
    /// Time of an operation of 0 B, and of each MiB more.
    pub latency: Cell<Duration>,
    pub mib: Cell<Duration>,
    pub takes_direct: Cell<bool>,
    pub opened: RefCell<Vec<(String, OpenHow)>>,
}

pub struct SlowTree {
    rt: Rt,
    inner: Rc<MemoryTree>,
    pub log: Rc<Log>,
}

struct SlowFile {
    rt: Rt,
    inner: FileRef,
    path: String,
    log: Rc<Log>,
}

/// A runtime in virtual time, and a crew on a slow tree.
pub fn slow() -> (Runtime, OneRuntime, Rc<SlowTree>) {
    let runtime = Runtime::new(SimReactor::new(Processor::infinite()));
    let rt = runtime.handle();
    let log = Rc::new(Log {
        seen: RefCell::default(),
        outstanding: Cell::default(),
        outstanding_max: Cell::default(),
        dropped: Cell::default(),
        synced: Cell::default(),
        latency: Cell::new(Duration::from_micros(100)),
        mib: Cell::new(Duration::from_millis(5)),
        takes_direct: Cell::new(true),
        opened: RefCell::default(),
    });
    let tree = Rc::new(SlowTree { rt: rt.clone(), inner: MemoryTree::new("slow"), log });
    let crew = OneRuntime::new(rt, Rc::clone(&tree) as _);
    (runtime, crew, tree)
}

impl Log {
    /// What was seen of reads and writes, leaving out everything else, since the last call.
    pub fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.seen.borrow_mut())
    }
}

impl FileTree for SlowTree {
    fn name(&self) -> Rc<str> {
        self.inner.name()
    }
    fn open(&self, path: &Path, how: OpenHow) -> TreeFuture<FileRef> {
        let path_text = path.display().to_string();
        if how.direct && !self.log.takes_direct.get() {
            let path = path.to_owned();
            let kind = TreeErrorKind::NotSupported;
            return Box::pin(std::future::ready(Err(TreeError { op: TreeOp::Open, path, kind })));
        }
        self.log.opened.borrow_mut().push((path_text.clone(), how));
        let opened = self.inner.open(path, how);
        let (rt, log) = (self.rt.clone(), Rc::clone(&self.log));
        Box::pin(async move {
            let inner = opened.await?;
            Ok(Rc::new(SlowFile { rt, inner, path: path_text, log }) as FileRef)
        })
    }
    fn create_directory(&self, path: &Path) -> TreeFuture<()> {
        self.inner.create_directory(path)
    }
    fn remove_directory(&self, path: &Path) -> TreeFuture<()> {
        self.inner.remove_directory(path)
    }
    fn remove_file(&self, path: &Path) -> TreeFuture<()> {
        self.inner.remove_file(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> TreeFuture<()> {
        self.inner.rename(from, to)
    }
    fn list(&self, path: &Path) -> TreeFuture<Vec<DirectoryEntry>> {
        self.inner.list(path)
    }
    fn status(&self, path: &Path) -> TreeFuture<FileStatus> {
        self.inner.status(path)
    }
    fn sync(&self) -> TreeFuture<()> {
        self.inner.sync()
    }
    fn space(&self) -> TreeFuture<Space> {
        self.inner.space()
    }
}

impl File for SlowFile {
    fn name(&self) -> Arc<str> {
        self.inner.name()
    }
    fn alignment(&self) -> ByteCount {
        self.inner.alignment()
    }
    fn submit(&self, request: Request) -> IoFuture {
        let head = match &request.op {
            rt::Op::Write { data, .. } => {
                let bytes = data.slice(0..data.len().min(8)).to_vec();
                let mut head = [0; 8];
                head[..bytes.len()].copy_from_slice(&bytes);
                head
            }
            _ => [0; 8],
        };
        let len = request.len().bytes();
        self.log.seen.borrow_mut().push(Seen {
            file: self.path.clone(),
            kind: request.kind(),
            offset: request.offset.bytes(),
            len,
            at: self.rt.now(),
            head,
        });
        let log = Rc::clone(&self.log);
        let now = log.outstanding.get() + 1;
        log.outstanding.set(now);
        log.outstanding_max.set(log.outstanding_max.get().max(now));
        let span = log.latency.get() + log.mib.get().mul_f64(len as f64 / f64::from(1 << 20));
        let sleep = self.rt.sleep(span);
        let inner = Rc::clone(&self.inner);
        IoFuture::new(async move {
            sleep.await;
            log.outstanding.set(log.outstanding.get() - 1);
            inner.submit(request).await
        })
    }
    fn status(&self) -> TreeFuture<FileStatus> {
        self.inner.status()
    }
    fn set_size(&self, size: ByteCount) -> TreeFuture<()> {
        self.inner.set_size(size)
    }
    fn allocate(&self, size: ByteCount) -> TreeFuture<()> {
        self.inner.allocate(size)
    }
    fn sync(&self) -> TreeFuture<()> {
        self.log.synced.set(self.log.synced.get() + 1);
        let sleep = self.rt.sleep(Duration::from_millis(10));
        let synced = self.inner.sync();
        Box::pin(async move {
            sleep.await;
            synced.await
        })
    }
    fn drop_cache(&self) -> TreeFuture<()> {
        self.log.dropped.set(self.log.dropped.get() + 1);
        self.inner.drop_cache()
    }
}
