//! Exports of NBD servers as devices: what a pool, or whatever else lies on disks, may lie on as well.
//!
//! They are named by [URIs](crate::uri).
//!
//! **A connection that is lost** is a device that fails: what was under way ends with an error, and whoever has the device decides
//! what that means (a pool: its `failmode`). The next request connects again, once in [`RETRY_REST`] at the most, and waits no longer
//! than [`CONNECT_MAX`] for that. A server that comes back may have lost what it had not made durable, and a flush that it
//! answers then says nothing of that. So writes are kept here until a flush that came after them was answered, and are written
//! again, in their order, before anything else is asked of the server that came back. [`KEPT_MAX`] of them are kept: who writes more
//! waits for a flush.
//!
//! **One writer.** An export has no lock. Whoever writes to it from this host has the lock of a file of its name in the folder of
//! the sockets ([`crate::control::folder`]): by it a second writer is refused, and a command finds who has the device. Other hosts, and other
//! names of the same export, are not seen.

use crate::context::Context;
use crate::control::folder::lock_of;
use crate::error::Error;
use crate::paths::absolute;
use crate::uri::Uri;
use export::nbd::{Client, ClientError, ClientOptions};
use futures_util::future::{Either, select};
use host::{
    Address, Connected, FileDevice, FileOptions, Host, ListenError, OpenError, SocketStream,
};
use rt::sync::{Mutex, oneshot};
use rt::{
    Device, ExtentsFuture, Geometry, IoError, IoErrorKind, IoFuture, IoResult, Op, OpKind, Request,
    Rt,
};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::{ByteCount, Instant, Offset};

/// How long after a connection that could not be made the next is tried. More keeps a server that is back waiting; less asks a dead
/// one with each request.
const RETRY_REST: Duration = Duration::from_millis(200);
/// How long a connection that is made anew may take, until what waits for it fails.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Bytes of writes that are kept until they are durable. More takes memory; less makes writers wait for flushes.
const KEPT_MAX: u64 = 64 << 20;
/// Bytes of the file whose lock a writer has: a device has some.
const LOCK_BYTES: u64 = 4096;

/// The file whose lock a writer has.
fn lock_file(uri: &Uri, make: bool) -> Result<PathBuf, Error> {
    let address = match &uri.address {
        Address::Unix(socket) => Address::Unix(absolute(socket)),
        tcp => tcp.clone(),
    };
    let text = Uri { address, export: uri.export.clone() }.text();
    Ok(lock_of(&format!("nbd-{:016x}", hash(text.as_bytes())), make)?)
}

/// The file whose lock stands for an export that can't be reached, where somebody of this host writes to it.
pub(super) fn written_unreached(context: &Context, path: &Path) -> Option<PathBuf> {
    let lock = lock_file(&Uri::of(path).ok()?, false).ok()?;
    let options = FileOptions { direct: false, read_only: true };
    let file = FileDevice::open(&context.host(), &lock, options).ok()?;
    file.is_written_elsewhere().then_some(lock)
}

/// FNV-1a: names are told apart, nobody is to be withstood.
fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// A write that may not be durable yet.
struct Kept {
    sequence: u64,
    op: Op,
    offset: Offset,
}

/// What is kept, and whom it is sent to.
struct Inner {
    rt: Rt,
    host: Host,
    uri: Uri,
    options: ClientOptions,
    name: Arc<str>,
    geometry: Geometry,
    client: RefCell<Rc<Client>>,
    kept: RefCell<VecDeque<Kept>>,
    kept_bytes: Cell<u64>,
    sequence: Cell<u64>,
    /// It is asked for nothing any more.
    closed: Cell<bool>,
    /// When a connection was tried that could not be made.
    failed: Cell<Option<Instant>>,
    /// Held by who connects anew.
    connecting: Mutex<()>,
}

/// An export as a device. See the module.
pub struct Remote {
    inner: Rc<Inner>,
    /// For writing: has the lock.
    lock: Option<(PathBuf, FileDevice)>,
}

impl Remote {
    /// Connects to an export.
    ///
    /// # Errors
    /// Nobody is there, it is no export, or another process of this host writes to it.
    pub fn open(context: &Context, path: &Path, read_only: bool) -> Result<Remote, Error> {
        // Under a cover nothing is written to it, and nobody else may do so.
        let (is_covered, alone) = (context.host().is_covered(), !read_only);
        let read_only = read_only || is_covered;
        let uri = Uri::of(path)?;
        let name: Arc<str> = path.to_string_lossy().into();
        let lock = match read_only {
            // Without a folder nobody here writes.
            true => lock_file(&uri, false)
                .ok()
                .and_then(|path| Some((open_lock(context, &path).ok()?, path))),
            false => {
                let path = lock_file(&uri, true)?;
                make_lock(&path)?;
                let options = FileOptions { direct: false, read_only: false };
                let file = match FileDevice::open(&context.host(), &path, options) {
                    Err(OpenError::Locked(_)) => {
                        return Err(Error::RemoteWritten { name: name.to_string() });
                    }
                    file => file?,
                };
                Some((file, path))
            }
        };
        if let Some((file, _)) = lock.as_ref().filter(|_| is_covered && alone)
            && !file.keep_writers_off()
        {
            return Err(Error::RemoteWritten { name: name.to_string() });
        }
        let options =
            ClientOptions { export: uri.export.clone(), read_only, name: Some(Arc::clone(&name)) };
        let stream = Rc::new(SocketStream::connect(&context.host(), &uri.address)?);
        let (rt, its) = (context.rt(), options.clone());
        let connecting = async move { Client::connect(&rt, stream, &its).await };
        let client = context.runtime().block_on(connecting)?;
        let failed = |error| Error::Remote { name: name.to_string(), error };
        let client = client.map_err(failed)?;
        if client.read_only() && !read_only {
            return Err(Error::RemoteReadOnly { name: name.to_string() });
        }
        let inner = Inner {
            rt: context.rt(),
            host: context.host(),
            uri,
            options,
            name,
            geometry: client.geometry(),
            client: RefCell::new(Rc::new(client)),
            kept: RefCell::default(),
            kept_bytes: Cell::new(0),
            sequence: Cell::new(0),
            closed: Cell::new(false),
            failed: Cell::new(None),
            connecting: Mutex::new(()),
        };
        Ok(Remote { inner: Rc::new(inner), lock: lock.map(|(file, path)| (path, file)) })
    }

    /// The file whose lock its writers have, where there is a place for such.
    pub fn lock_path(&self) -> Option<&Path> {
        self.lock.as_ref().map(|(path, _)| path.as_path())
    }

    /// Takes leave of the server: what is asked for later finds it gone. One that does not answer is not waited for.
    pub async fn close(&self) {
        self.inner.closed.set(true);
        let client = self.inner.client();
        select(pin!(client.disconnect()), pin!(self.inner.rt.sleep(CONNECT_MAX))).await;
    }

    /// The file that has the lock.
    pub fn lock(&self) -> Option<&FileDevice> {
        self.lock.as_ref().map(|(_, file)| file)
    }
}

fn open_lock(context: &Context, path: &Path) -> Result<FileDevice, Error> {
    make_lock(path)?;
    let options = FileOptions { direct: false, read_only: true };
    Ok(FileDevice::open(&context.host(), path, options)?)
}

/// Makes the file where it isn't there. It stays: who removes it could remove one that has just been locked.
fn make_lock(path: &Path) -> Result<(), Error> {
    let file = std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(path);
    let made = file.and_then(|file| file.set_len(LOCK_BYTES));
    made.map_err(|error| Error::Socket { path: path.to_owned(), error })
}

impl Inner {
    fn client(&self) -> Rc<Client> {
        Rc::clone(&self.client.borrow())
    }

    /// Whether what is answered can be lost.
    fn keeps(&self) -> bool {
        self.geometry.volatile_cache && !self.options.read_only
    }

    /// Keeps a write that was answered.
    fn keep(&self, op: Op, offset: Offset) {
        let sequence = self.sequence.get();
        self.sequence.set(sequence + 1);
        self.kept_bytes.set(self.kept_bytes.get() + weight(&op));
        self.kept.borrow_mut().push_back(Kept { sequence, op, offset });
    }

    /// What was answered before this is durable.
    fn forget_before(&self, sequence: u64) {
        let mut kept = self.kept.borrow_mut();
        while let Some(first) = kept.front().filter(|first| first.sequence < sequence) {
            self.kept_bytes.set(self.kept_bytes.get() - weight(&first.op));
            kept.pop_front();
        }
    }

    /// The connection, made anew where it was lost.
    async fn connected(&self) -> Result<Rc<Client>, IoErrorKind> {
        let _alone = self.connecting.lock().await;
        if self.closed.get() {
            return Err(IoErrorKind::Gone);
        }
        if !self.client.borrow().is_over() {
            return Ok(self.client());
        }
        let rests = |failed| self.rt.now() - failed < RETRY_REST;
        if self.failed.get().is_some_and(rests) {
            return Err(IoErrorKind::Gone);
        }
        match self.connect().await {
            Some(client) => {
                self.failed.set(None);
                *self.client.borrow_mut() = Rc::clone(&client);
                Ok(client)
            }
            None => {
                self.failed.set(Some(self.rt.now()));
                Err(IoErrorKind::Gone)
            }
        }
    }

    async fn connect(&self) -> Option<Rc<Client>> {
        let (sender, connected) = oneshot::channel();
        let address = self.uri.address.clone();
        // The call waits as long as the network likes; nobody else is to.
        let calling = move || {
            // Who asked may have given up.
            let _ = sender.send(Connected::to(&address));
        };
        std::thread::Builder::new().name("nbd-connect".into()).spawn(calling).ok()?;
        let made = match select(pin!(connected), self.rt.sleep(CONNECT_MAX)).await {
            Either::Left((made, _)) => made.ok()?,
            Either::Right(_) => return None,
        };
        let made: Result<Connected, ListenError> = made;
        let stream = Rc::new(SocketStream::of(&self.host, made.ok()?));
        let connecting: Result<Client, ClientError> =
            Client::connect(&self.rt, stream, &self.options).await;
        let client = Rc::new(connecting.ok()?);
        let (was, is) = (self.geometry, client.geometry());
        let fits = is.capacity == was.capacity && is.logical_block == was.logical_block;
        if !fits || client.read_only() != self.options.read_only {
            return None;
        }
        self.write_again(&client).await.ok()?;
        Some(client)
    }

    /// What the server may have lost.
    async fn write_again(&self, client: &Client) -> Result<(), IoError> {
        let until = self.sequence.get();
        let again: Vec<Request> = {
            let kept = self.kept.borrow();
            let request = |kept: &Kept| Request {
                op: kept.op.clone(),
                offset: kept.offset,
                ..Request::flush()
            };
            kept.iter().map(request).collect()
        };
        if again.is_empty() {
            return Ok(());
        }
        for request in again {
            client.submit(request).await?;
        }
        client.submit(Request::flush()).await?;
        self.forget_before(until);
        Ok(())
    }

    async fn carry_out(self: Rc<Self>, request: Request) -> IoResult {
        let error = |kind| IoError {
            kind,
            op: request.kind(),
            offset: request.offset,
            len: request.len(),
            device: Arc::clone(&self.name),
        };
        let client = match self.client() {
            client if client.is_over() => self.connected().await.map_err(error)?,
            client => client,
        };
        if !self.keeps() || matches!(request.kind(), OpKind::Read | OpKind::Discard) {
            return client.submit(request).await;
        }
        let (op, offset, until) = (request.op.clone(), request.offset, self.sequence.get());
        let answer = client.submit(request).await?;
        if matches!(op, Op::Flush) {
            self.forget_before(until);
            return Ok(answer);
        }
        self.keep(op, offset);
        if self.kept_bytes.get() > KEPT_MAX {
            let until = self.sequence.get();
            client.submit(Request::flush()).await?;
            self.forget_before(until);
        }
        Ok(answer)
    }
}

/// Memory that a write takes.
fn weight(op: &Op) -> u64 {
    /// Of an entry.
    const ENTRY: u64 = 64;
    match op {
        Op::Write { data, .. } => data.len() as u64 + ENTRY,
        _ => ENTRY,
    }
}

impl Device for Remote {
    fn geometry(&self) -> Geometry {
        self.inner.geometry
    }

    fn name(&self) -> Arc<str> {
        Arc::clone(&self.inner.name)
    }

    fn begin(&self, request: Request) -> IoFuture {
        let client = self.inner.client();
        let is_plain = !self.inner.keeps() || request.kind() == OpKind::Read;
        if is_plain && !client.is_over() {
            return client.begin(request);
        }
        IoFuture::new(Rc::clone(&self.inner).carry_out(request))
    }

    fn extents(&self, offset: Offset, len: ByteCount, count_max: usize) -> ExtentsFuture {
        self.inner.client().extents(offset, len, count_max)
    }
}
