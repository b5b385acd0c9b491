//! Why a reactor can't be made.

use std::io;

/// Why a reactor can't be made.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The system bars io_uring.
    #[error(
        "setting up io_uring: {0}; use the threads reactor, or allow it (sysctl kernel.io_uring_disabled=0, the container's seccomp profile, ulimit -l)"
    )]
    UringRefused(#[source] io::Error),
    /// The kernel's io_uring lacks what is needed.
    #[error(
        "setting up io_uring: this kernel's can't wait with a timeout; use the threads reactor, or Linux 5.11 or later"
    )]
    UringTooOld,
    /// No eventfd.
    #[error("making an eventfd: {0}; raise the limit of open files (ulimit -n)")]
    EventFd(#[source] io::Error),
}
