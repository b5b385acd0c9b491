//! A mounted file system that this process serves: the kernel's requests as a byte stream ([`rt::Stream`]).
//!
//! [`FuseMount::new`] opens `/dev/fuse` and mounts it, by the system call, so it takes the right to mount
//! (`CAP_SYS_ADMIN`): unprivileged mounts by the set-user program `fusermount3` are not made. For reading only,
//! or for writing ([`Use`]); always without devices and set-user bits, and with the kernel checking permissions.
//!
//! **The stream.** Each read brings one request, each write must be one whole reply; both begin with their length,
//! so that who reads them need not rely on it. The stream ends when the file system is unmounted. A reply to a request
//! that was given up is taken and forgotten, as the kernel does.
//!
//! **Reading** doesn't wait: where there is no request, the reactor waits for readiness, as with sockets. So several
//! requests that wait cost one wait. FUSE over io_uring (Linux 6.14) would save the copy of headers and a call a
//! request; it needs a module parameter that no distribution sets, so it is left out.
//!
//! **Beside who asks** ([`FuseMount::follow`]): while one program asks small questions, the executor's thread runs on its
//! processor (`beside`).
//!
//! **Notices** ([`FuseMount::notices`]) are written by a thread of the pool: the kernel takes one only when it has the locks
//! that it needs, which a program may hold whose request waits for an answer from this thread.
//!
//! **Unmounting**: dropping the mount unmounts it, at once for who looks it up. Who has files open there gets
//! errors (`ENOTCONN`) as soon as the stream is dropped too. What programs wrote into mapped memory would be lost:
//! [`FuseMount::unmount_served`] has the kernel write it out first, to whoever serves the stream meanwhile. Where the process dies, the mount remains and answers
//! everything with that error, until someone says `umount`.

mod beside;

use crate::runtime::{Driver, Host};
use crate::socket::error_of;
use crate::sys::{self, Errno};
use rt::{BufMut, Rt, SgList, Stream, StreamError, StreamFuture, StreamRef};
use std::cell::{Cell, OnceCell};
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const DEVICE: &str = "/dev/fuse";
/// What `mount` shows as the kind.
const KIND: &std::ffi::CStr = c"fuse.spindle";

/// Why nothing is mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// No device of FUSE.
    #[error(
        "opening {DEVICE}: {0}; load the module (modprobe fuse), and give the container the device"
    )]
    Device(#[source] io::Error),
    /// The directory is none, or not to be found.
    #[error("mounting on {}: {error}", .directory.display())]
    Directory {
        /// Where.
        directory: PathBuf,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// Not allowed.
    #[error("mounting on {}: this takes root, or the right CAP_SYS_ADMIN", .0.display())]
    Denied(PathBuf),
    /// A path or name with a zero byte.
    #[error("mounting on {}: a zero byte in the path or the name", .0.display())]
    ZeroByte(PathBuf),
    /// The blocking reactor waits for each call in turn.
    #[error("mounting on {}: the blocking reactor can't wait for requests; take uring or threads", .0.display())]
    Blocking(PathBuf),
    /// Unmounting failed.
    #[error("unmounting {}: {error}", .directory.display())]
    Unmount {
        /// Where.
        directory: PathBuf,
        /// What the system said.
        #[source]
        error: io::Error,
    },
}

/// A directory that is to be mounted on, looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountDirectory {
    /// Its whole path, without links.
    pub path: PathBuf,
    /// There is nothing in it.
    pub is_empty: bool,
}

impl MountDirectory {
    /// Looks one up by another thread, for what leads there may be served by this one; `makes` it and what lies above it, where it
    /// isn't there.
    ///
    /// # Errors
    /// [`MountError::Directory`].
    pub async fn find(host: &Host, path: &Path, makes: bool) -> Result<MountDirectory, MountError> {
        let directory = path.to_owned();
        let found = host.call(move || {
            if makes && !directory.exists() {
                std::fs::create_dir_all(&directory)?;
            }
            let path = directory.canonicalize()?;
            let is_empty = std::fs::read_dir(&path)?.next().is_none();
            Ok(MountDirectory { path, is_empty })
        });
        found.await.map_err(|error| MountError::Directory { directory: path.into(), error })
    }
}

/// What may be done with what is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// It can be written.
    pub is_writable: bool,
    /// Programs in it can be run.
    pub is_executable: bool,
}

impl Use {
    /// It is read, and programs run.
    pub const READ: Use = Use { is_writable: false, is_executable: true };
    /// The same, and it is written.
    pub const WRITE: Use = Use { is_writable: true, is_executable: true };
}

/// What is mounted, before somebody serves it.
struct Place {
    directory: PathBuf,
    target: CString,
    is_writable: bool,
    device: File,
}

impl Place {
    fn mount(directory: &Path, source: &str, how: Use) -> Result<Place, MountError> {
        let at = |error| MountError::Directory { directory: directory.into(), error };
        let directory = directory.canonicalize().map_err(at)?;
        let at = |error| MountError::Directory { directory: directory.clone(), error };
        if !std::fs::metadata(&directory).map_err(at)?.is_dir() {
            return Err(at(io::Error::from_raw_os_error(libc::ENOTDIR)));
        }
        let zero_byte = |_| MountError::ZeroByte(directory.clone());
        let target = CString::new(directory.as_os_str().as_bytes()).map_err(zero_byte)?;
        let source = CString::new(source).map_err(zero_byte)?;
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(DEVICE)
            .map_err(MountError::Device)?;
        let options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions",
            device.as_raw_fd()
        );
        let options = CString::new(options).map_err(zero_byte)?;
        let reads = if how.is_writable { 0 } else { libc::MS_RDONLY };
        let runs = if how.is_executable { 0 } else { libc::MS_NOEXEC };
        let flags = reads | runs | libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOATIME;
        sys::mount(&source, &target, KIND, flags, &options).map_err(|errno| match errno.0 {
            libc::EPERM | libc::EACCES => MountError::Denied(directory.clone()),
            _ => at(errno.into()),
        })?;
        Ok(Place { directory, target, is_writable: how.is_writable, device })
    }
}

/// What this process has mounted.
static MOUNTED: Mutex<Vec<CString>> = Mutex::new(Vec::new());

fn mounted() -> MutexGuard<'static, Vec<CString>> {
    // A list is whole whoever panicked.
    MOUNTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes all away that this process has mounted, for one that ends without more: a mount that nobody serves any more would stay, and
/// answer everything with an error. Who has files open there gets that all the same.
pub fn detach_all() {
    for target in mounted().drain(..) {
        // It is gone already, or nothing can be done about it here.
        let _ = sys::unmount(&target, sys::Unmount::Detach);
    }
}

/// A mount; unmounted when dropped. See the [module](self).
pub struct FuseMount {
    directory: PathBuf,
    target: CString,
    is_writable: bool,
    stream: Rc<FuseStream>,
}

impl FuseMount {
    /// Mounts on a directory; `source` is what `mount` and `df` show. What looks into the directory from now on
    /// waits for whoever serves the [stream](FuseMount::stream): on this thread nothing may.
    ///
    /// # Errors
    /// [`MountError`].
    pub fn new(
        host: &Host,
        directory: &Path,
        source: &str,
        how: Use,
    ) -> Result<FuseMount, MountError> {
        FuseMount::check(host, directory)?;
        FuseMount::over(host, Place::mount(directory, source, how)?)
    }

    /// The same by another thread: what leads to the directory may be served by this one, which goes on meanwhile.
    ///
    /// # Errors
    /// [`MountError`].
    pub async fn apart(
        host: &Host,
        directory: &Path,
        source: &str,
        how: Use,
    ) -> Result<FuseMount, MountError> {
        FuseMount::check(host, directory)?;
        let (directory, source) = (directory.to_owned(), source.to_owned());
        let place = host.call(move || Place::mount(&directory, &source, how)).await?;
        FuseMount::over(host, place)
    }

    fn check(host: &Host, directory: &Path) -> Result<(), MountError> {
        match host.driver {
            Driver::Blocking(_) => Err(MountError::Blocking(directory.into())),
            _ => Ok(()),
        }
    }

    fn over(host: &Host, place: Place) -> Result<FuseMount, MountError> {
        let Place { directory, target, is_writable, device } = place;
        let stream = Rc::new(FuseStream {
            host: host.clone(),
            waiting: Arc::new(OwnedFd::from(device.try_clone().map_err(MountError::Device)?)),
            device: Arc::new(device),
            ended: Rc::new(Cell::new(false)),
            follows: Rc::default(),
        });
        mounted().push(target.clone());
        Ok(FuseMount { directory, target, is_writable, stream })
    }

    /// From now on the thread, which is the executor's of this handle, runs where the program runs that asks, while it is one and
    /// what it asks is small.
    pub fn follow(&self, rt: &Rt) {
        _ = self.stream.follows.set(rt.clone());
    }

    /// It is unmounted; says whether it was before.
    fn note_ended(&self) -> bool {
        let was_ended = self.stream.ended.replace(true);
        if !was_ended {
            let mut all = mounted();
            if let Some(at) = all.iter().position(|target| *target == self.target) {
                all.swap_remove(at);
            }
        }
        was_ended
    }

    /// Requests and replies. See the [module](self).
    pub fn stream(&self) -> StreamRef {
        Rc::clone(&self.stream) as StreamRef
    }

    /// Where the kernel is told what is no longer so: each write is one message that answers no request, and
    /// is answered when the kernel has taken it. It ends when nothing is mounted any more; nothing is read from it.
    pub fn notices(&self) -> StreamRef {
        let (host, device) = (self.stream.host.clone(), Arc::clone(&self.stream.device));
        Rc::new(NoticeStream { host, device })
    }

    /// Unmounts by another thread, while this one goes on serving: the kernel writes out what it holds, unless files are
    /// open; then the mount is gone at once, and the stream ends when they are closed.
    ///
    /// # Errors
    /// [`MountError::Unmount`].
    pub async fn unmount_served(&self) -> Result<(), MountError> {
        if self.stream.ended.get() {
            return Ok(());
        }
        let target = self.target.clone();
        let unmounted =
            self.stream.host.call(move || sys::unmount(&target, sys::Unmount::Detach)).await;
        _ = self.note_ended();
        unmounted.map_err(|errno| MountError::Unmount {
            directory: self.directory.clone(),
            error: errno.into(),
        })
    }

    /// The kernel writes out what it holds, by another thread, while this one goes on serving. It does so as well when the last of the
    /// mount goes, which may be in another mount namespace, or when files are closed that are open now.
    pub async fn write_out(&self) {
        let directory = self.directory.clone();
        self.stream.host.call(move || write_out(&directory)).await;
    }

    /// Writes out and unmounts, unless somebody uses it: then it stays, and this says false.
    ///
    /// # Errors
    /// [`MountError::Unmount`].
    pub async fn unmount_if_idle(&self) -> Result<bool, MountError> {
        if self.stream.ended.get() {
            return Ok(true);
        }
        let target = self.target.clone();
        let directory = self.directory.clone();
        let unmounted = self.stream.host.call(move || {
            write_out(&directory);
            sys::unmount(&target, sys::Unmount::IfIdle)
        });
        match unmounted.await {
            Ok(()) => _ = self.note_ended(),
            Err(errno) if errno.0 == libc::EBUSY => return Ok(false),
            Err(errno) => {
                let (directory, error) = (self.directory.clone(), errno.into());
                return Err(MountError::Unmount { directory, error });
            }
        }
        Ok(true)
    }

    /// Where it is mounted.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Unmounts, where nobody did before; dropping does the same and says nothing.
    ///
    /// # Errors
    /// [`MountError::Unmount`].
    pub fn unmount(self) -> Result<(), MountError> {
        let unmount = |errno: Errno| MountError::Unmount {
            directory: self.directory.clone(),
            error: errno.into(),
        };
        self.end().map_err(unmount)
    }

    fn end(&self) -> Result<(), Errno> {
        // What someone else unmounted is not ours to unmount again: another may be there by now.
        if self.note_ended() {
            return Ok(());
        }
        // Nobody serves any more: who waits for an answer, and holds what a notice waits for, is told so now.
        let how = match self.is_writable {
            true => sys::Unmount::GiveUp,
            false => sys::Unmount::Detach,
        };
        sys::unmount(&self.target, how)
    }
}

impl Drop for FuseMount {
    fn drop(&mut self) {
        // It is unmounted, or nothing can be done about it here; the stream's end is what counts.
        let _ = self.end();
    }
}

/// The kernel writes out what it holds of the file system that is mounted there.
fn write_out(directory: &Path) {
    if let Ok(root) = File::open(directory) {
        let _ = sys::syncfs(root.as_fd());
    }
}

/// See the [module](self).
struct FuseStream {
    host: Host,
    device: Arc<File>,
    /// The same, for waiting.
    waiting: Arc<OwnedFd>,
    /// Whether it is unmounted.
    ended: Rc<Cell<bool>>,
    /// Set where the thread runs beside who asks.
    follows: Rc<OnceCell<Rt>>,
}

/// Where a request has the number of the thread that asks (`struct fuse_in_header`).
const ASKER_AT: usize = 32;

/// The thread that asks; 0 where it is none, or can't be seen from here.
fn asker(request: &[u8]) -> u32 {
    request
        .get(ASKER_AT..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |number| u32::from_ne_bytes(*number))
}

impl Stream for FuseStream {
    fn read(&self, into: BufMut, from: usize) -> StreamFuture<(BufMut, usize)> {
        assert!(from < into.len(), "a read has room for a byte");
        let (host, device, waiting) =
            (self.host.clone(), Arc::clone(&self.device), Arc::clone(&self.waiting));
        let (ended, follows) = (Rc::clone(&self.ended), Rc::clone(&self.follows));
        Box::pin(async move {
            let mut into = into;
            loop {
                let error = match (&*device).read(&mut into[from..]) {
                    Ok(count) => {
                        if let Some(rt) = follows.get() {
                            beside::asked(rt, asker(&into[from..from + count]), count);
                        }
                        return Ok((into, count));
                    }
                    Err(error) => error.raw_os_error().unwrap_or(libc::EIO),
                };
                match error {
                    libc::EAGAIN => host.ready(&waiting, libc::POLLIN).await.map_err(error_of)?,
                    // ENOENT: the request was given up while it was taken.
                    libc::EINTR | libc::ENOENT => {}
                    libc::ENODEV => {
                        ended.set(true);
                        return Ok((into, 0));
                    }
                    errno => return Err(error_of(Errno(errno))),
                }
            }
        })
    }

    fn write(&self, data: SgList) -> StreamFuture<()> {
        let device = Arc::clone(&self.device);
        if self.follows.get().is_some() {
            beside::answered(data.len());
        }
        Box::pin(async move {
            // A reply is one call.
            let whole =
                (data.pieces().len() > sys::PIECES_MAX).then(|| data.clone().into_contiguous());
            loop {
                let written = match &whole {
                    Some(whole) => (&*device).write(whole.bytes()),
                    None => {
                        let pieces: Vec<IoSlice<'_>> =
                            data.pieces().iter().map(|piece| IoSlice::new(piece.bytes())).collect();
                        (&*device).write_vectored(&pieces)
                    }
                };
                let Err(error) = written else { return Ok(()) };
                match error.raw_os_error().unwrap_or(libc::EIO) {
                    libc::EINTR => {}
                    libc::ENOENT => return Ok(()),
                    libc::ENODEV => return Err(StreamError::Gone),
                    errno => return Err(error_of(Errno(errno))),
                }
            }
        })
    }

    fn shutdown(&self) -> StreamFuture<()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn peer(&self) -> Rc<str> {
        "the kernel".into()
    }
}

/// See [`FuseMount::notices`].
struct NoticeStream {
    host: Host,
    device: Arc<File>,
}

impl Stream for NoticeStream {
    fn read(&self, into: BufMut, _from: usize) -> StreamFuture<(BufMut, usize)> {
        Box::pin(std::future::ready(Ok((into, 0))))
    }

    fn write(&self, data: SgList) -> StreamFuture<()> {
        let (device, message) = (Arc::clone(&self.device), data.to_vec());
        let written = self.host.call(move || {
            loop {
                match (&*device).write(&message).map_err(|error| error.raw_os_error()) {
                    Err(Some(libc::EINTR)) => {}
                    done => return done.map(drop),
                }
            }
        });
        Box::pin(async move {
            match written.await {
                // ENOENT: the kernel does not know it, so there is nothing to forget.
                Ok(()) | Err(Some(libc::ENOENT)) => Ok(()),
                // EPERM: not mounted yet, or no more.
                Err(Some(libc::ENODEV | libc::EPERM)) => Err(StreamError::Gone),
                Err(errno) => Err(error_of(Errno(errno.unwrap_or(libc::EIO)))),
            }
        })
    }

    fn shutdown(&self) -> StreamFuture<()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn peer(&self) -> Rc<str> {
        "the kernel".into()
    }
}
