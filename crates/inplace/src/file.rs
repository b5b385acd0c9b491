//! An open file.
//!
//! Each request is a task of its own: it goes on, and releases what it holds, also where nobody waits for
//! the answer any more.

use crate::core::{Core, Outcome};
use crate::inode::Inode;
use crate::read::{ReadAhead, hold};
use crate::settings::Hold;
use crate::writeback::io_kind;
use rt::sync::oneshot;
use rt::{
    File, FileKind, FileStatus, IoError, IoErrorKind, IoFuture, Op, OpenHow, Request, SgList,
    TreeError, TreeErrorKind, TreeFuture, TreeOp,
};
use std::cell::Cell;
use std::future::Future;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use stdx::ByteCount;

/// A handle.
pub(crate) struct OpenFile {
    core: Rc<Core>,
    inode: Rc<Inode>,
    name: Arc<str>,
    how: OpenHow,
    read_ahead: Rc<Cell<ReadAhead>>,
}

impl OpenFile {
    pub(crate) fn new(core: &Rc<Core>, inode: Rc<Inode>, name: Arc<str>, how: OpenHow) -> OpenFile {
        inode.opens.set(inode.opens.get() + 1);
        OpenFile { core: Rc::clone(core), inode, name, how, read_ahead: Rc::default() }
    }

    /// See [`FileSystem::lay_out`](crate::FileSystem::lay_out).
    pub(crate) async fn lay_out(&self, size: ByteCount) -> Outcome<()> {
        if size.bytes() > self.core.size_max() {
            return Err(TreeErrorKind::NoSpace);
        }
        let _held = hold(&self.inode.rw, Hold::Alone).await;
        self.core.allocate(&self.inode, size.bytes(), true).await
    }

    /// Whether this request goes past the cache.
    fn is_direct(&self, request: &Request) -> bool {
        let sector = self.core.device.geometry().logical_block;
        let aligned = request.offset.is_multiple_of(sector) && request.len().is_multiple_of(sector);
        self.how.direct || self.core.options.force_direct && aligned
    }

    fn check(&self, request: &Request) -> Result<(), IoErrorKind> {
        let unit = self.alignment();
        let len = request.len();
        if !request.offset.is_multiple_of(unit) || !len.is_multiple_of(unit) {
            return Err(IoErrorKind::Invalid);
        }
        let end = request.offset.checked_add(len).ok_or(IoErrorKind::Invalid)?;
        if end.bytes() > self.core.size_max() && !matches!(request.op, Op::Read(_)) {
            return Err(IoErrorKind::Invalid);
        }
        if !self.how.write && !matches!(request.op, Op::Read(_) | Op::Flush) {
            return Err(IoErrorKind::ReadOnly);
        }
        Ok(())
    }

    /// Runs `work` as a task of its own.
    fn run<F>(&self, op: TreeOp, work: F) -> TreeFuture<()>
    where
        F: Future<Output = Result<(), TreeErrorKind>> + 'static,
    {
        in_own_task(&self.core, op, PathBuf::from(&*self.name), work)
    }
}

/// Runs `work` as a task of its own; what goes wrong is named.
pub(crate) fn in_own_task<T, F>(
    core: &Rc<Core>,
    op: TreeOp,
    path: PathBuf,
    work: F,
) -> TreeFuture<T>
where
    T: 'static,
    F: Future<Output = Result<T, TreeErrorKind>> + 'static,
{
    let (sender, receiver) = oneshot::channel();
    let task = async move {
        // Nobody waits any more where the future was dropped.
        let _ = sender.send(work.await);
    };
    core.rt.spawn(task).detach();
    Box::pin(async move {
        let answer = receiver.await.expect("a task ends before its runtime is dropped");
        answer.map_err(|kind| TreeError { op, path, kind })
    })
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        let inode = &self.inode;
        inode.opens.set(inode.opens.get() - 1);
        if inode.opens.get() > 0 {
            return;
        }
        self.core.space.borrow_mut().drop_window(&self.core.shape, inode.number);
        if inode.body.borrow().links == 0 && self.core.closed.get().is_none() {
            let (core, inode) = (Rc::clone(&self.core), Rc::clone(inode));
            let task = async move {
                if let Err(error) = core.reclaim(&inode).await {
                    core.shut_down(error);
                }
            };
            self.core.rt.spawn(task).detach();
        }
    }
}

/// Carries a request out.
async fn carry_out(
    core: &Rc<Core>,
    inode: &Rc<Inode>,
    how: OpenHow,
    direct: bool,
    ahead: &Cell<ReadAhead>,
    request: Request,
) -> Result<SgList, TreeErrorKind> {
    core.check_mounted()?;
    let at = request.offset.bytes();
    match request.op {
        Op::Read(len) if direct => return core.read_direct(inode, at, len.bytes()).await,
        Op::Read(len) => {
            let ahead = (!how.random).then_some(ahead);
            return core.read_buffered(inode, at, len.bytes(), ahead).await;
        }
        Op::Flush => {
            core.write_back_range(inode, 0..u64::MAX).await?;
            core.make_durable(inode, true).await?;
        }
        Op::Discard(len) => {
            let _held = hold(&inode.rw, Hold::Alone).await;
            core.punch(inode, at, len.bytes()).await?;
        }
        Op::Write { data, fua } => {
            write(core, inode, at, data, direct, fua || how.durable_writes).await?;
        }
        Op::WriteZeroes(len) => {
            let zeros = SgList::zeros(len.as_usize());
            write(core, inode, at, zeros, direct, how.durable_writes).await?;
        }
    }
    Ok(SgList::new())
}

async fn write(
    core: &Rc<Core>,
    inode: &Rc<Inode>,
    at: u64,
    data: SgList,
    direct: bool,
    durable: bool,
) -> Result<(), TreeErrorKind> {
    if data.is_empty() {
        return core.check_open();
    }
    match direct {
        true => core.write_direct(inode, at, data, durable).await,
        false => core.write_buffered(inode, at, data, durable).await,
    }
}

impl File for OpenFile {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn alignment(&self) -> ByteCount {
        if self.how.direct { self.core.device.geometry().logical_block } else { ByteCount(1) }
    }

    fn submit(&self, request: Request) -> IoFuture {
        let (op, offset, len) = (request.kind(), request.offset, request.len());
        let device = Arc::clone(&self.name);
        let failed = move |kind| IoError { kind, op, offset, len, device };
        if let Err(kind) = self.check(&request) {
            return IoFuture::ready(Err(failed(kind)));
        }
        let direct = self.is_direct(&request);
        let (core, inode) = (Rc::clone(&self.core), Rc::clone(&self.inode));
        let (how, ahead) = (self.how, Rc::clone(&self.read_ahead));
        // While a request is under way the file is open.
        inode.opens.set(inode.opens.get() + 1);
        let lease = OpenFile {
            core: Rc::clone(&core),
            inode: Rc::clone(&inode),
            name: Arc::clone(&self.name),
            how,
            read_ahead: Rc::clone(&ahead),
        };
        let (completion, answer) = IoFuture::pending();
        let task = async move {
            let result = carry_out(&core, &inode, how, direct, &ahead, request).await;
            drop(lease);
            completion.complete(result.map_err(|error| failed(io_kind(error))));
        };
        self.core.rt.spawn(task).detach();
        answer
    }

    fn status(&self) -> TreeFuture<FileStatus> {
        let status = status_of(&self.core, &self.inode);
        Box::pin(std::future::ready(Ok(status)))
    }

    fn set_size(&self, size: ByteCount) -> TreeFuture<()> {
        let (core, inode) = (Rc::clone(&self.core), Rc::clone(&self.inode));
        let write = self.how.write;
        self.run(TreeOp::SetSize, async move {
            if !write {
                return Err(TreeErrorKind::ReadOnly);
            }
            if size.bytes() > core.size_max() {
                return Err(TreeErrorKind::NoSpace);
            }
            core.charge_call().await;
            let _held = hold(&inode.rw, Hold::Alone).await;
            core.set_size(&inode, size.bytes()).await
        })
    }

    fn allocate(&self, size: ByteCount) -> TreeFuture<()> {
        let (core, inode) = (Rc::clone(&self.core), Rc::clone(&self.inode));
        let write = self.how.write;
        self.run(TreeOp::Allocate, async move {
            if !write {
                return Err(TreeErrorKind::ReadOnly);
            }
            if size.bytes() > core.size_max() {
                return Err(TreeErrorKind::NoSpace);
            }
            core.charge_call().await;
            let _held = hold(&inode.rw, Hold::Alone).await;
            core.allocate(&inode, size.bytes(), false).await
        })
    }

    fn sync(&self) -> TreeFuture<()> {
        let (core, inode) = (Rc::clone(&self.core), Rc::clone(&self.inode));
        self.run(TreeOp::Sync, async move {
            core.charge_call().await;
            core.write_back_range(&inode, 0..u64::MAX).await?;
            core.make_durable(&inode, false).await
        })
    }

    fn drop_cache(&self) -> TreeFuture<()> {
        self.core.forget_pages(&self.inode, 0..u64::MAX);
        Box::pin(std::future::ready(Ok(())))
    }
}

/// What is known of a file.
pub(crate) fn status_of(core: &Core, inode: &Inode) -> FileStatus {
    let body = inode.body.borrow();
    let kind = match inode.kind {
        crate::inode::Kind::File => FileKind::File,
        crate::inode::Kind::Directory => FileKind::Directory,
    };
    let allocated = ByteCount(body.blocks * core.shape.block);
    FileStatus { kind, size: ByteCount(body.size), allocated }
}
