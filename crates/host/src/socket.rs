//! Unix sockets and TCP as byte streams ([`rt::Stream`], [`rt::Listener`]).
//!
//! **Reading** goes through the ring, with memory that the reactor owns meanwhile; the wait of an idle
//! connection costs an entry of its table. **Writing** is a call that does not wait: a socket nearly always
//! has room, and then an entry and its completion cost more than the call. Where it has none, the reactor
//! waits for room. So is **accepting**. The threads reactor waits for readiness (`readiness.rs`) and moves
//! the bytes here. The blocking reactor has no sockets.
//!
//! **A unix socket's path** belongs to the listener: it is made by binding and removed when the listener is
//! dropped, if it is still that socket. A path where somebody listens is refused; one that a dead server
//! left (nobody accepts) is taken over; anything but a socket is refused. To ask who listens, to remove what a dead one
//! left and to listen is more than one call, and between two of them another server may have come, or may have bound
//! its socket and not listened yet. So whoever listens has the lock of the path's *folder* meanwhile (`flock`, which
//! folders take too, and which leaves nothing behind). Where a folder has none (some network file systems, one that may
//! not be read), nothing is taken over there: the path is free, or somebody removes it by hand.
//!
//! **Descriptors** are those of the process: sockets are not for threads with
//! [tables of their own](crate::HostTree::open_alone).

use crate::operation::Pieces;
use crate::patience::while_held;
use crate::readiness;
use crate::runtime::{Driver, Host};
use crate::sys::{self, Errno};
use rt::{BufMut, HungUp, Listener, SgList, Stream, StreamError, StreamFuture, StreamRef};
use std::fmt;
use std::fs::File;
use std::io::{self, IoSlice};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::str::FromStr;
use std::sync::Arc;

/// Bytes that a connection may have written and its peer not yet read. More lets large answers go in fewer
/// calls; it is the kernel's memory. The system's own limit (`net.core.wmem_max`) cuts it.
const SEND_BUFFER_BYTES: i32 = 1 << 20;

/// When the host of a TCP peer is held for gone: after this many seconds of silence it is asked, so often, so many
/// times; two minutes in all. The system's own figures are two hours and more, in which dead clients would keep their
/// places among the connections; less would drop clients whose network is away for a moment.
///
/// With answers under way that the peer's host does not confirm, it is the system that gives up (`net.ipv4.tcp_retries2`,
/// some 15 minutes). `TCP_USER_TIMEOUT` would make that sooner, and is not set: Linux counts with it, too, how long a
/// peer's buffer is full, so that it resets a living client that only does not read for some minutes.
const PEER_SILENT_S: i32 = 60;
const PEER_ASKED_EVERY_S: i32 = 10;
const PEER_ASKED_TIMES: i32 = 6;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A socket in the file system.
    Unix(PathBuf),
    /// Host and port, as `127.0.0.1:10809` or `[::1]:10809`.
    Tcp(String),
}

/// An address that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the address '{0}' is neither unix:PATH nor HOST:PORT")]
pub struct AddressError(String);

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.is_empty() {
                true => Err(AddressError(text.into())),
                false => Ok(Address::Unix(path.into())),
            };
        }
        match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                Ok(Address::Tcp(text.into()))
            }
            _ => Err(AddressError(text.into())),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(address) => f.write_str(address),
        }
    }
}

/// Why nothing can listen there, or connect.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another server is there.
    #[error("listening on {0}: another server listens there; stop it, or choose another address")]
    InUse(Address),
    /// The path is taken by something else.
    #[error("listening on {0}: the path exists and is not a socket; remove it, or choose another")]
    NotASocket(Address),
    /// The blocking reactor waits for each call in turn.
    #[error("{0}: the blocking reactor has no sockets; take uring or threads")]
    Blocking(Address),
    /// A dead server's socket, and no lock against others who would take it over.
    #[error(
        "listening on {address}: a server that ended left its socket, and the folder can't be locked ({error}): remove the socket, or choose another folder"
    )]
    Left {
        /// Which.
        address: Address,
        /// Why there is no lock.
        #[source]
        error: io::Error,
    },
    /// Another error of the operating system.
    #[error("{doing} {address}: {error}")]
    Os {
        /// What was being done.
        doing: &'static str,
        /// With which address.
        address: Address,
        /// What the system said.
        #[source]
        error: io::Error,
    },
}

enum Listening {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// A socket that accepts. See the [module](self).
pub struct SocketListener {
    host: Host,
    socket: Rc<Listening>,
    /// The same socket, for waiting.
    fd: Arc<OwnedFd>,
    name: Rc<str>,
    /// The path of a unix socket, with device and inode, to be removed.
    path: Option<(PathBuf, u64, u64)>,
}

impl SocketListener {
    /// Listens there. A TCP port of zero lets the system choose one; the [name](Listener::name) has it.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn bind(host: &Host, address: &Address) -> Result<SocketListener, ListenError> {
        if matches!(host.driver, Driver::Blocking(_)) {
            return Err(ListenError::Blocking(address.clone()));
        }
        let os = |doing| move |error| ListenError::Os { doing, address: address.clone(), error };
        let listening = os("listening on");
        let (socket, fd, name, path) = match address {
            Address::Unix(path) => {
                let socket = bind_unix(path, address)?;
                let made = std::fs::symlink_metadata(path).map_err(&listening)?;
                socket.set_nonblocking(true).map_err(&listening)?;
                let fd = OwnedFd::from(socket.try_clone().map_err(&listening)?);
                let path = (path.clone(), made.dev(), made.ino());
                (Listening::Unix(socket), fd, address.to_string(), Some(path))
            }
            Address::Tcp(text) => {
                let socket = TcpListener::bind(text).map_err(|error| match error.kind() {
                    io::ErrorKind::AddrInUse => ListenError::InUse(address.clone()),
                    _ => listening(error),
                })?;
                socket.set_nonblocking(true).map_err(&listening)?;
                let fd = OwnedFd::from(socket.try_clone().map_err(&listening)?);
                let name = socket.local_addr().map_err(&listening)?.to_string();
                (Listening::Tcp(socket), fd, name, None)
            }
        };
        Ok(SocketListener {
            host: host.clone(),
            socket: Rc::new(socket),
            fd: Arc::new(fd),
            name: name.into(),
            path,
        })
    }
}

fn bind_unix(path: &Path, address: &Address) -> Result<UnixListener, ListenError> {
    let in_use =
        |end: &Result<UnixListener, ListenError>| matches!(end, Err(ListenError::InUse(_)));
    while_held(|| bind_unix_now(path, address), in_use)
}

fn bind_unix_now(path: &Path, address: &Address) -> Result<UnixListener, ListenError> {
    let os = |error| ListenError::Os { doing: "listening on", address: address.clone(), error };
    // Held until this has ended: see the head of this file.
    let lock = lock_folder(path);
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
        other => return other.map_err(os),
    }
    let found = match std::fs::symlink_metadata(path) {
        // Its server has ended meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return UnixListener::bind(path).map_err(os);
        }
        other => other.map_err(os)?,
    };
    if !found.file_type().is_socket() {
        return Err(ListenError::NotASocket(address.clone()));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
        _ => return Err(ListenError::InUse(address.clone())),
    }
    if let Err(errno) = &lock {
        let error = io::Error::from_raw_os_error(errno.0);
        return Err(ListenError::Left { address: address.clone(), error });
    }
    std::fs::remove_file(path).map_err(os)?;
    UnixListener::bind(path).map_err(os)
}

/// Locks the folder of a path, as long as what comes back lives. Everybody who may read a folder can lock it, so it is
/// not waited for without end.
fn lock_folder(path: &Path) -> Result<File, Errno> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let opened = File::options()
        .read(true)
        .custom_flags(libc::O_DIRECTORY)
        .open(folder.unwrap_or(Path::new(".")));
    let folder = opened.map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EIO)))?;
    let is_held = |end: &Result<(), Errno>| matches!(end, Err(Errno(libc::EWOULDBLOCK)));
    while_held(|| sys::flock(folder.as_fd()), is_held)?;
    Ok(folder)
}

impl Drop for SocketListener {
    fn drop(&mut self) {
        if let Some((path, device, inode)) = &self.path
            && let Ok(found) = std::fs::symlink_metadata(path)
            && (found.dev(), found.ino()) == (*device, *inode)
        {
            // A path that can't be removed is taken over by the next server.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Listener for SocketListener {
    fn accept(&self) -> StreamFuture<StreamRef> {
        let (host, socket, fd) = (self.host.clone(), Rc::clone(&self.socket), Arc::clone(&self.fd));
        let name = Rc::clone(&self.name);
        Box::pin(async move {
            loop {
                let accepted = match &*socket {
                    Listening::Unix(socket) => {
                        socket.accept().map(|(stream, _)| (OwnedFd::from(stream), name.to_string()))
                    }
                    Listening::Tcp(socket) => socket.accept().map(|(stream, peer)| {
                        // Fails where the peer has gone by now, which its first read finds.
                        let _ = stream.set_nodelay(true);
                        (OwnedFd::from(stream), peer.to_string())
                    }),
                };
                match accepted {
                    Ok((socket, peer)) => {
                        return Ok(Rc::new(SocketStream::over(&host, socket, peer)) as StreamRef);
                    }
                    Err(error) => match error.raw_os_error() {
                        Some(libc::EAGAIN) => {
                            host.ready(&fd, libc::POLLIN).await.map_err(error_of)?;
                        }
                        // The peer gave up between the wait and the call, or its network did: Linux tells
                        // the errors of a connection that waits to be accepted as those of the call
                        // (accept(2)). None of them is the listener's.
                        Some(
                            libc::EINTR
                            | libc::ECONNABORTED
                            | libc::ECONNRESET
                            | libc::ETIMEDOUT
                            | libc::EPROTO
                            | libc::ENOPROTOOPT
                            | libc::ENETDOWN
                            | libc::ENETUNREACH
                            | libc::EHOSTDOWN
                            | libc::EHOSTUNREACH
                            | libc::ENONET,
                        ) => {}
                        errno => return Err(error_of(Errno(errno.unwrap_or(libc::EIO)))),
                    },
                }
            }
        })
    }

    fn name(&self) -> Rc<str> {
        Rc::clone(&self.name)
    }
}

/// A connection that was made, and that nobody waits for yet: it may be made by one thread and go to another.
pub struct Connected {
    socket: OwnedFd,
    peer: String,
}

impl Connected {
    /// Connects to a server; the call waits until it answers.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn to(address: &Address) -> Result<Connected, ListenError> {
        let socket = match address {
            Address::Unix(path) => UnixStream::connect(path).map(OwnedFd::from),
            Address::Tcp(text) => TcpStream::connect(text)
                .and_then(|stream| stream.set_nodelay(true).map(|()| OwnedFd::from(stream))),
        };
        let failed =
            |error| ListenError::Os { doing: "connecting to", address: address.clone(), error };
        Ok(Connected { socket: socket.map_err(failed)?, peer: address.to_string() })
    }
}

/// A connection. See the [module](self).
pub struct SocketStream {
    host: Host,
    socket: Arc<OwnedFd>,
    peer: Rc<str>,
}

impl SocketStream {
    /// Connects to a server; the call waits until it answers.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn connect(host: &Host, address: &Address) -> Result<SocketStream, ListenError> {
        if matches!(host.driver, Driver::Blocking(_)) {
            return Err(ListenError::Blocking(address.clone()));
        }
        Ok(SocketStream::of(host, Connected::to(address)?))
    }

    /// A connection that was made already.
    pub fn of(host: &Host, connected: Connected) -> SocketStream {
        SocketStream::over(host, connected.socket, connected.peer)
    }

    /// A connection that was made otherwise.
    pub fn over_unix(host: &Host, socket: UnixStream) -> SocketStream {
        SocketStream::over(host, socket.into(), "unix".to_owned())
    }

    fn over(host: &Host, socket: OwnedFd, peer: String) -> SocketStream {
        // Both are wishes: without them the connection is slower, or noticed late to be dead.
        let _ = sys::set_send_buffer(socket.as_fd(), SEND_BUFFER_BYTES);
        let (silent_s, every_s) = (PEER_SILENT_S, PEER_ASKED_EVERY_S);
        let _ = sys::set_keep_alive(socket.as_fd(), silent_s, every_s, PEER_ASKED_TIMES);
        SocketStream { host: host.clone(), socket: Arc::new(socket), peer: peer.into() }
    }
}

impl Stream for SocketStream {
    fn read(&self, into: BufMut, from: usize) -> StreamFuture<(BufMut, usize)> {
        assert!(from < into.len(), "a read has room for a byte");
        let (host, socket) = (self.host.clone(), Arc::clone(&self.socket));
        Box::pin(async move {
            let mut into = into;
            loop {
                let result = match &host.driver {
                    Driver::Uring(reactor) => {
                        let reactor = Rc::clone(reactor);
                        reactor.receive(Arc::clone(&socket), into, from).await
                    }
                    _ => match sys::receive_now(socket.as_fd(), &mut into[from..]) {
                        Err(Errno(libc::EAGAIN)) => {
                            host.ready(&socket, libc::POLLIN).await.map_err(error_of)?;
                            continue;
                        }
                        Err(Errno(libc::EINTR)) => continue,
                        other => other.map(|count| (into, count)),
                    },
                };
                return result.map_err(error_of);
            }
        })
    }

    fn write(&self, data: SgList) -> StreamFuture<()> {
        let (host, socket) = (self.host.clone(), Arc::clone(&self.socket));
        Box::pin(async move {
            let mut sent = 0;
            while sent < data.len() {
                let result = {
                    let slices = Pieces::after(&data, sent as u64).slices();
                    let slices: Vec<IoSlice<'_>> = slices.map(IoSlice::new).collect();
                    sys::send_now(socket.as_fd(), &slices)
                };
                match result {
                    Ok(count) => sent += count,
                    Err(Errno(libc::EINTR)) => {}
                    Err(Errno(libc::EAGAIN)) => {
                        host.ready(&socket, libc::POLLOUT).await.map_err(error_of)?;
                    }
                    Err(errno) => return Err(error_of(errno)),
                }
            }
            Ok(())
        })
    }

    fn shutdown(&self) -> StreamFuture<()> {
        let result = sys::shut_down_writing(self.socket.as_fd()).map_err(error_of);
        Box::pin(std::future::ready(result))
    }

    fn hung_up(&self) -> HungUp {
        let (host, socket) = (self.host.clone(), Arc::clone(&self.socket));
        Box::pin(async move {
            if host.ready(&socket, libc::POLLRDHUP).await.is_err() {
                // There was no room to wait: then the next read or write finds it.
                std::future::pending::<()>().await;
            }
        })
    }

    fn peer(&self) -> Rc<str> {
        Rc::clone(&self.peer)
    }
}

impl Host {
    /// Waits until a socket is ready for these `poll` events, or broken.
    pub(crate) async fn ready(
        &self,
        socket: &Arc<OwnedFd>,
        events: libc::c_short,
    ) -> Result<(), Errno> {
        match &self.driver {
            Driver::Uring(reactor) => Rc::clone(reactor).ready(Arc::clone(socket), events).await,
            _ => readiness::ready(Arc::clone(socket), events).await,
        }
    }
}

pub(crate) fn error_of(errno: Errno) -> StreamError {
    match errno.0 {
        libc::EPIPE | libc::ECONNRESET | libc::ENOTCONN | libc::ETIMEDOUT => StreamError::Gone,
        libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM => StreamError::NoResources,
        other => StreamError::Os(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What could break: a server finds a socket where nobody listens, another one comes and listens there, and the
    /// first removes the socket of that.
    #[test]
    fn nobody_takes_over_a_socket_while_another_has_the_folders_lock() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("socket");
        let address = Address::Unix(path.clone());
        drop(UnixListener::bind(&path).expect("a dead server's socket"));
        let lock = lock_folder(&path).expect("nobody has it");
        assert!(matches!(bind_unix_now(&path, &address), Err(ListenError::Left { .. })));
        std::thread::scope(|scope| {
            let other = scope.spawn(|| bind_unix_now(&path, &address));
            std::thread::sleep(std::time::Duration::from_millis(100));
            // The one with the lock is done only now.
            std::fs::remove_file(&path).expect("it is still there");
            let _listener = UnixListener::bind(&path).expect("the path is free");
            drop(lock);
            let other = other.join().expect("no panic");
            assert!(matches!(other, Err(ListenError::InUse(_))));
            UnixStream::connect(&path).expect("the first one is found");
        });
        drop(bind_unix_now(&path, &address).expect("taken over from the one that ended"));
    }
}
