//! Who writes to a file or block device: one at a time.
//!
//! A writer holds a lock on the whole file for as long as it is open; a second one, in this process or another,
//! is refused. It is the kernel's lock of an open file description (`F_OFD_SETLK`): it goes with the last
//! descriptor, so also with a process that is killed, and no other descriptor that is closed takes it away, as
//! happens to the older locks of a process. QEMU's programs lock images in the same way, so they and we keep
//! off each other's.
//!
//! A reader takes no lock: looking at what somebody writes does no harm to it. Whoever wants what stands there
//! to hold together asks [`is_held`]; and who reads for long, and would never hear of a change (a server), takes the
//! lock of readers, which many may have, and which keeps writers off.
//!
//! What it does not do: keep off programs that ask for no lock (dd, losetup, a kernel that has mounted the file), or
//! see that a loop device and the file behind it are one. File systems without such locks (some on a network)
//! go without. Block devices are opened for exclusive use besides, which the kernel holds against mounts, md and
//! other such openers.

use crate::patience::while_held;
use crate::sys::{self, Errno};
use std::os::fd::BorrowedFd;

/// Takes the writer's lock; false where somebody has it and is not about to go.
///
/// # Errors
/// Of the system, where it has such locks at all.
pub(crate) fn take(file: BorrowedFd<'_>) -> Result<bool, Errno> {
    let is_held = |end: &_| matches!(end, Err(Errno(libc::EAGAIN | libc::EACCES)));
    match while_held(|| sys::lock_for_writing(file), is_held) {
        Ok(()) => Ok(true),
        Err(Errno(libc::EAGAIN | libc::EACCES)) => Ok(false),
        // No such locks there.
        Err(Errno(libc::EINVAL | libc::ENOLCK | libc::ENOSYS | libc::EOPNOTSUPP)) => Ok(true),
        Err(errno) => Err(errno),
    }
}

/// Takes the lock of readers; false where somebody writes.
pub(crate) fn take_shared(file: BorrowedFd<'_>) -> bool {
    // Where there are no such locks, readers go without, as writers do.
    !matches!(sys::lock_for_reading(file), Err(Errno(libc::EAGAIN | libc::EACCES)))
}

/// Whether somebody else has the writer's lock now. Where the system can't tell, nobody has.
pub(crate) fn is_held(file: BorrowedFd<'_>) -> bool {
    sys::is_locked_for_writing(file).unwrap_or(false)
}
