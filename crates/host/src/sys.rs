//! System calls that std lacks, each behind a function that can't be misused.
//!
//! This is where most of the crate's `unsafe` lives. A function here takes slices and borrowed
//! descriptors, so that the pointers it hands to the kernel are good for the length of the call; what
//! the kernel goes on using after the call (io_uring) is in [`uring`](crate::uring). Errors are
//! [`Errno`]s: the caller knows what was being done to what.

use std::ffi::CStr;
use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// An error number of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

impl Errno {
    pub(crate) fn last() -> Errno {
        Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    }
}

impl From<Errno> for std::io::Error {
    fn from(errno: Errno) -> std::io::Error {
        std::io::Error::from_raw_os_error(errno.0)
    }
}

/// Bytes that one call is given at the most. The kernel takes up to `0x7fff_f000`; this is a multiple
/// of every alignment that direct I/O may ask for.
pub(crate) const TRANSFER_BYTES_MAX: usize = 1 << 30;

/// Pieces of memory that one call is given at the most (the kernel's `UIO_MAXIOV`).
pub(crate) const PIECES_MAX: usize = 1024;

fn count(result: isize) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| Errno::last())
}

fn offset(at: u64) -> Result<libc::off_t, Errno> {
    libc::off_t::try_from(at).map_err(|_| Errno(libc::EINVAL))
}

/// Reads at a place, without the C library: its `pread` is a point at which threads can be cancelled, which
/// in a program of several threads costs as much as a fifth of reading one byte.
pub(crate) fn pread_bare(file: BorrowedFd<'_>, into: &mut [u8], at: u64) -> Result<usize, Errno> {
    let len = into.len().min(TRANSFER_BYTES_MAX);
    let (fd, at) = (file.as_raw_fd(), offset(at)?);
    // SAFETY: the pointer and the length are those of a slice that is borrowed mutably for the call.
    count(unsafe { libc::syscall(libc::SYS_pread64, fd, into.as_mut_ptr(), len, at) } as isize)
}

/// Writes at a place, by the call itself as [`pread_bare`].
pub(crate) fn pwrite_bare(file: BorrowedFd<'_>, data: &[u8], at: u64) -> Result<usize, Errno> {
    let len = data.len().min(TRANSFER_BYTES_MAX);
    let (fd, at) = (file.as_raw_fd(), offset(at)?);
    // SAFETY: the pointer and the length are those of a slice that is borrowed for the call.
    count(unsafe { libc::syscall(libc::SYS_pwrite64, fd, data.as_ptr(), len, at) } as isize)
}

/// Gives this thread a table of open files and a working directory of its own, as a process has; both
/// begin as copies. The kernel finds a file faster in a table that no other thread can change. False
/// where it is refused (by a seccomp filter), and on the process's first thread.
///
/// # Safety
/// From here on a descriptor's number means something else on this thread than on others. `OwnedFd` and all that is made
/// of it promise that it doesn't. So none that this thread opens is used or closed by another, and none that another
/// opens after this by this thread; what was open before is in both tables, and its last owner closes it in one of
/// them only.
pub(crate) unsafe fn own_file_table_and_directory() -> bool {
    // SAFETY: the calls take no memory; what follows for descriptors is the caller's promise.
    unsafe {
        libc::gettid() != libc::getpid() && libc::unshare(libc::CLONE_FILES | libc::CLONE_FS) == 0
    }
}

/// Writes pieces at a place; with `durable`, returns when they are on the medium.
pub(crate) fn pwritev(
    file: BorrowedFd<'_>,
    pieces: &[IoSlice<'_>],
    at: u64,
    durable: bool,
) -> Result<usize, Errno> {
    let flags = if durable { libc::RWF_DSYNC } else { 0 };
    let pieces = &pieces[..pieces.len().min(PIECES_MAX)];
    // SAFETY: `IoSlice` is documented to have the layout of `iovec`; the slices are borrowed for the
    // call, and their count fits (it was cut to 1024).
    count(unsafe {
        libc::pwritev2(
            file.as_raw_fd(),
            pieces.as_ptr().cast(),
            pieces.len() as libc::c_int,
            offset(at)?,
            flags,
        )
    })
}

/// Makes the file's data, and what is needed to find it, durable.
pub(crate) fn fdatasync(file: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: the call takes no memory.
    count(unsafe { libc::fdatasync(file.as_raw_fd()) } as isize).map(drop)
}

/// Makes everything durable that was written to the file's file system.
pub(crate) fn syncfs(file: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: the call takes no memory.
    count(unsafe { libc::syncfs(file.as_raw_fd()) } as isize).map(drop)
}

/// Tells the system how a file will be used: `POSIX_FADV_*`, of the whole file.
pub(crate) fn advise(file: BorrowedFd<'_>, advice: i32) -> Result<(), Errno> {
    // SAFETY: the call takes no memory. It returns the error rather than setting errno.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, advice) } {
        0 => Ok(()),
        errno => Err(Errno(errno)),
    }
}

/// Locks an open file for its description alone, without waiting: EWOULDBLOCK where another has it. Other than
/// [`lock_for_writing`] this takes folders.
pub(crate) fn flock(file: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: the call takes no memory.
    let result = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
    count(result as isize).map(drop)
}

/// Bytes of a file.
pub(crate) fn size(file: BorrowedFd<'_>) -> Result<u64, Errno> {
    let mut found = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the pointer is to memory of that size, which is ours for the call.
    count(unsafe { libc::fstat(file.as_raw_fd(), found.as_mut_ptr()) } as isize)?;
    // SAFETY: the call succeeded, so it has filled it.
    Ok(unsafe { found.assume_init() }.st_size.cast_unsigned())
}

/// `fallocate` with these flags.
pub(crate) fn fallocate(file: BorrowedFd<'_>, mode: i32, at: u64, len: u64) -> Result<(), Errno> {
    // SAFETY: the call takes no memory.
    let result = unsafe { libc::fallocate(file.as_raw_fd(), mode, offset(at)?, offset(len)?) };
    count(result as isize).map(drop)
}

/// The next place at or after `at` that may hold data, or `None` where only a hole follows.
pub(crate) fn seek_data(file: BorrowedFd<'_>, at: u64) -> Result<Option<u64>, Errno> {
    match seek(file, at, libc::SEEK_DATA) {
        Err(Errno(libc::ENXIO)) => Ok(None),
        other => other.map(Some),
    }
}

/// The end of the data that starts at `at`.
pub(crate) fn seek_hole(file: BorrowedFd<'_>, at: u64) -> Result<u64, Errno> {
    seek(file, at, libc::SEEK_HOLE)
}

/// Where the file ends now.
pub(crate) fn seek_end(file: BorrowedFd<'_>) -> Result<u64, Errno> {
    seek_to(file, 0, libc::SEEK_END)
}

fn seek(file: BorrowedFd<'_>, at: u64, whence: i32) -> Result<u64, Errno> {
    seek_to(file, offset(at)?, whence)
}

fn seek_to(file: BorrowedFd<'_>, at: i64, whence: i32) -> Result<u64, Errno> {
    // SAFETY: the call takes no memory.
    let result = unsafe { libc::lseek(file.as_raw_fd(), at, whence) };
    u64::try_from(result).map_err(|_| Errno::last())
}

/// A lock of a whole file.
fn whole_file(kind: libc::c_int) -> libc::flock {
    // SAFETY: all fields are integers, for which zeros are valid: from the beginning, without an end.
    let mut lock = unsafe { MaybeUninit::<libc::flock>::zeroed().assume_init() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock
}

/// Locks a whole file, which is open for writing, for its open file description alone; EAGAIN where
/// another has it.
pub(crate) fn lock_for_writing(file: BorrowedFd<'_>) -> Result<(), Errno> {
    lock(file, libc::F_WRLCK)
}

/// Locks a whole file for reading, beside others who do the same; EAGAIN where somebody has locked it for writing.
pub(crate) fn lock_for_reading(file: BorrowedFd<'_>) -> Result<(), Errno> {
    lock(file, libc::F_RDLCK)
}

fn lock(file: BorrowedFd<'_>, kind: libc::c_int) -> Result<(), Errno> {
    let lock = whole_file(kind);
    // SAFETY: the call reads the lock's description, which lives through it.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) };
    count(result as isize).map(drop)
}

/// Whether another open file description has locked a part of this file for writing.
pub(crate) fn is_locked_for_writing(file: BorrowedFd<'_>) -> Result<bool, Errno> {
    let mut lock = whole_file(libc::F_RDLCK);
    // SAFETY: the call reads and changes the lock's description, which lives through it.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut lock) };
    count(result as isize)?;
    Ok(lock.l_type != libc::F_UNLCK as libc::c_short)
}

/// What direct I/O on this file asks for: the alignment of memory, and of offsets and lengths.
/// `None` where the file system does not say (Linux before 6.1) or has no direct I/O.
pub(crate) fn direct_alignment(file: BorrowedFd<'_>) -> Option<(u32, u32)> {
    let mut found = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: the path is an empty, terminated string, which with AT_EMPTY_PATH means the descriptor
    // itself; the result goes to memory that is large enough and lives through the call.
    let result = unsafe {
        libc::statx(
            file.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_DIOALIGN,
            found.as_mut_ptr(),
        )
    };
    if result != 0 {
        return None;
    }
    // SAFETY: all fields are integers, for which zeros are valid, and the kernel filled in the rest.
    let found = unsafe { found.assume_init() };
    let known = found.stx_mask & libc::STATX_DIOALIGN != 0 && found.stx_dio_offset_align > 0;
    known.then_some((found.stx_dio_mem_align, found.stx_dio_offset_align))
}

/// Whether the file lives in memory (tmpfs, ramfs), where a read is no more than a copy.
pub(crate) fn is_in_memory(file: BorrowedFd<'_>) -> bool {
    const RAMFS_MAGIC: u64 = 0x8584_58f6;
    let mut found = MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: the result goes to memory that is large enough and lives through the call.
    if unsafe { libc::fstatfs(file.as_raw_fd(), found.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: all fields are integers, for which zeros are valid, and the kernel filled in the rest.
    let kind = unsafe { found.assume_init() }.f_type as u64;
    kind == libc::TMPFS_MAGIC as u64 || kind == RAMFS_MAGIC
}

/// What the file's file system says of its size, and of what is left of it.
pub(crate) fn statvfs(file: BorrowedFd<'_>) -> Result<libc::statvfs, Errno> {
    let mut found = MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the result goes to memory that is large enough and lives through the call.
    count(unsafe { libc::fstatvfs(file.as_raw_fd(), found.as_mut_ptr()) } as isize)?;
    // SAFETY: all fields are integers, for which zeros are valid, and the kernel filled in the rest.
    Ok(unsafe { found.assume_init() })
}

/// The sizes of a block device's logical and physical block, in bytes.
pub(crate) fn block_sizes(device: BorrowedFd<'_>) -> Result<(u32, u32), Errno> {
    let (mut logical, mut physical): (libc::c_int, libc::c_uint) = (0, 0);
    // SAFETY: BLKSSZGET writes one int, to a variable that lives through the call.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), libc::BLKSSZGET as _, &mut logical) };
    count(result as isize)?;
    // SAFETY: BLKPBSZGET writes one unsigned int, likewise.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), libc::BLKPBSZGET as _, &mut physical) };
    count(result as isize)?;
    Ok((u32::try_from(logical).map_err(|_| Errno(libc::EINVAL))?, physical))
}

/// Processor time of this process: all its threads, in user and kernel mode.
pub(crate) fn process_cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the result goes to a variable that lives through the call.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    assert_eq!(result, 0, "Linux always has the clock of the process");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Wakes all that wait for a change of this word.
pub(crate) fn wake_waiters(word: &AtomicU32) {
    let (op, all) = (libc::FUTEX_WAKE, libc::c_int::MAX);
    // SAFETY: the call looks up who waits at this address; it touches no memory. It can't fail for an
    // address that is mapped and aligned.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), op, all) };
}

/// Takes bytes that a socket has, without waiting for any (EAGAIN where there are none).
pub(crate) fn receive_now(socket: BorrowedFd<'_>, into: &mut [u8]) -> Result<usize, Errno> {
    let len = into.len().min(TRANSFER_BYTES_MAX);
    let (fd, flags) = (socket.as_raw_fd(), libc::MSG_DONTWAIT);
    // SAFETY: the pointer and the length are those of a slice that is borrowed mutably for the call.
    count(unsafe { libc::recv(fd, into.as_mut_ptr().cast(), len, flags) })
}

/// Gives a socket as much of these pieces as it has room for, without waiting for more (EAGAIN where
/// there is none). A peer that is gone is an error (EPIPE), never a signal.
pub(crate) fn send_now(socket: BorrowedFd<'_>, pieces: &[IoSlice<'_>]) -> Result<usize, Errno> {
    let pieces = &pieces[..pieces.len().min(PIECES_MAX)];
    // SAFETY: all fields are integers or pointers, for which zeros are valid: no name, no control data.
    let mut message = unsafe { MaybeUninit::<libc::msghdr>::zeroed().assume_init() };
    message.msg_iov = pieces.as_ptr().cast_mut().cast();
    message.msg_iovlen = pieces.len() as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: `IoSlice` is documented to have the layout of `iovec`; the slices are borrowed for the
    // call, which reads them only, and their count fits (it was cut to 1024).
    count(unsafe { libc::sendmsg(socket.as_raw_fd(), &message, flags) })
}

/// Mounts a file system. `options` are the file system's own.
pub(crate) fn mount(
    source: &CStr,
    target: &CStr,
    kind: &CStr,
    flags: libc::c_ulong,
    options: &CStr,
) -> Result<(), Errno> {
    // SAFETY: all four are strings that end with a zero and are borrowed for the call, which reads them only.
    let result = unsafe {
        libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, options.as_ptr().cast())
    };
    count(result as isize).map(drop)
}

/// How something is unmounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmount {
    /// Only if nobody uses it: else `EBUSY`.
    IfIdle,
    /// At once for who looks it up, later for who has files of it open.
    Detach,
    /// The same, and requests that wait for an answer are given up.
    GiveUp,
}

/// Unmounts what is mounted there.
pub(crate) fn unmount(target: &CStr, how: Unmount) -> Result<(), Errno> {
    let how = match how {
        Unmount::IfIdle => 0,
        Unmount::Detach => libc::MNT_DETACH,
        Unmount::GiveUp => libc::MNT_DETACH | libc::MNT_FORCE,
    };
    // SAFETY: the string ends with a zero and is borrowed for the call, which reads it only.
    let result = unsafe { libc::umount2(target.as_ptr(), how | libc::UMOUNT_NOFOLLOW) };
    count(result as isize).map(drop)
}

/// Sets how many bytes a socket takes before its peer reads them; the system cuts what it finds too much.
pub(crate) fn set_send_buffer(socket: BorrowedFd<'_>, bytes: i32) -> Result<(), Errno> {
    set_socket_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, bytes)
}

/// Has the system find out that the host of a silent peer is gone: after `silent_s` it is asked every
/// `every_s` seconds, `times` times; data that it does not take is given up after as long in all.
pub(crate) fn set_keep_alive(
    socket: BorrowedFd<'_>,
    silent_s: i32,
    every_s: i32,
    times: i32,
) -> Result<(), Errno> {
    let tcp = |option, value| set_socket_option(socket, libc::IPPROTO_TCP, option, value);
    set_socket_option(socket, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
    tcp(libc::TCP_KEEPIDLE, silent_s)?;
    tcp(libc::TCP_KEEPINTVL, every_s)?;
    tcp(libc::TCP_KEEPCNT, times)
}

fn set_socket_option(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> Result<(), Errno> {
    let (fd, len) = (socket.as_raw_fd(), size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: the option's value is an int that lives through the call, and the length is its own.
    let result = unsafe { libc::setsockopt(fd, level, option, (&raw const value).cast(), len) };
    count(result as isize).map(drop)
}

/// Ends writing to a socket; its peer reads what was written, then the end.
pub(crate) fn shut_down_writing(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: the call takes no memory.
    count(unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_WR) } as isize).map(drop)
}

/// Waits until one of these is ready for its events.
pub(crate) fn poll(waiting: &mut [libc::pollfd]) -> Result<usize, Errno> {
    // SAFETY: the pointer and the count are those of a slice that is borrowed mutably for the call.
    count(unsafe { libc::poll(waiting.as_mut_ptr(), waiting.len() as libc::nfds_t, -1) } as isize)
}

/// A counter in the kernel that wakes who reads it.
pub(crate) struct EventFd(File);

impl EventFd {
    pub(crate) fn new() -> Result<EventFd, Errno> {
        // SAFETY: the call takes no memory.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(Errno::last());
        }
        // SAFETY: the descriptor was just made, and nobody else knows of it.
        Ok(EventFd(File::from(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    /// Wakes the reader, now or when it next reads.
    pub(crate) fn signal(&self) {
        // Fails only where the counter stands at 2⁶⁴ − 2, and then the reader is awake already.
        let _ = (&self.0).write(&1_u64.to_ne_bytes());
    }

    /// Takes the signals that were given; waits where there are none.
    pub(crate) fn take(&self) {
        // An error is an interruption: what was signalled stays, and is found by the next look.
        let _ = (&self.0).read(&mut [0; 8]);
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
