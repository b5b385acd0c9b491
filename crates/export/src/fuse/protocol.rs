//! What is agreed on when a mount begins, and the numbers of errors.

use rt::InodeError;

/// The protocol that is spoken: 7, and its version, of which the kernel's may be a later one.
pub(super) const MAJOR: u32 = 7;
pub(super) const MINOR_MIN: u32 = 31;
pub(super) const MINOR: u32 = 45;

/// The handle of what was opened for writing past the cache. All else has none: 0.
pub(super) const DIRECT: u64 = 1;

/// What the kernel can do, and we may want.
mod offers {
    pub(super) const ASYNC_READ: u64 = 1 << 0;
    pub(super) const BIG_WRITES: u64 = 1 << 5;
    pub(super) const DONT_MASK: u64 = 1 << 6;
    pub(super) const AUTO_INVAL_DATA: u64 = 1 << 12;
    pub(super) const DO_READDIRPLUS: u64 = 1 << 13;
    pub(super) const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub(super) const ASYNC_DIO: u64 = 1 << 15;
    pub(super) const NO_OPEN_SUPPORT: u64 = 1 << 17;
    pub(super) const PARALLEL_DIROPS: u64 = 1 << 18;
    pub(super) const POSIX_ACL: u64 = 1 << 20;
    pub(super) const MAX_PAGES: u64 = 1 << 22;
    pub(super) const CACHE_SYMLINKS: u64 = 1 << 23;
    pub(super) const NO_OPENDIR_SUPPORT: u64 = 1 << 24;
    pub(super) const EXPLICIT_INVAL_DATA: u64 = 1 << 25;
    pub(super) const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub(super) const SETXATTR_EXT: u64 = 1 << 29;
    /// There is a second word of offers.
    pub(super) const INIT_EXT: u64 = 1 << 30;
    /// Files that are written past the cache may be mapped. What is written so has been taken out of the cache before, since
    /// there is this offer (Linux 6.6).
    pub(super) const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
}

/// What we want of any mount.
const WANTED: u64 = offers::ASYNC_READ
    | offers::DO_READDIRPLUS
    | offers::READDIRPLUS_AUTO
    | offers::ASYNC_DIO
    | offers::PARALLEL_DIROPS
    | offers::POSIX_ACL
    | offers::MAX_PAGES;
/// What besides where nothing changes.
const WANTED_STILL: u64 =
    offers::NO_OPEN_SUPPORT | offers::NO_OPENDIR_SUPPORT | offers::CACHE_SYMLINKS;
/// What besides where something may.
const WANTED_CHANGING: u64 =
    offers::BIG_WRITES | offers::DONT_MASK | offers::HANDLE_KILLPRIV_V2 | offers::SETXATTR_EXT;

/// Whether the kernel offers more than one word says.
pub(super) fn has_more(offers: u64) -> bool {
    offers & offers::INIT_EXT != 0
}

/// How a file system changes under the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    /// Not at all.
    Still,
    /// By the kernel's requests, and by others, of which it is told.
    Told,
    /// By others, and nobody can tell it.
    Untold,
}

/// What was agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Agreed(u64);

impl Agreed {
    pub(super) fn on(offers: u64, service: Service) -> Agreed {
        let wanted = match service {
            Service::Still => WANTED_STILL,
            Service::Told => {
                let told = offers::EXPLICIT_INVAL_DATA | offers::CACHE_SYMLINKS;
                WANTED_CHANGING | told | offers::INIT_EXT | offers::DIRECT_IO_ALLOW_MMAP
            }
            Service::Untold => WANTED_CHANGING | offers::AUTO_INVAL_DATA,
        };
        Agreed((WANTED | wanted) & offers)
    }

    pub(super) fn flags(self) -> u64 {
        self.0
    }

    /// Whether the kernel opens files without asking, once it has been told so.
    pub(super) fn opens_alone(self) -> bool {
        self.0 & offers::NO_OPEN_SUPPORT != 0
    }

    /// The same of directories.
    pub(super) fn opens_directories_alone(self) -> bool {
        self.0 & offers::NO_OPENDIR_SUPPORT != 0
    }

    /// Whether what only writes may go past the kernel's cache.
    pub(super) fn writes_past_cache(self) -> bool {
        let both = offers::INIT_EXT | offers::DIRECT_IO_ALLOW_MMAP;
        self.0 & both == both
    }

    /// Whether requests to set an extended attribute say more.
    pub(super) fn has_long_setxattr(self) -> bool {
        self.0 & offers::SETXATTR_EXT != 0
    }
}

/// An error by the number that Linux has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Errno(pub(super) i32);

impl Errno {
    pub(super) const INVALID: Errno = Errno(22);
    pub(super) const READ_ONLY: Errno = Errno(30);
    pub(super) const RANGE: Errno = Errno(34);
    pub(super) const NAME_TOO_LONG: Errno = Errno(36);
    pub(super) const UNKNOWN: Errno = Errno(38);
    pub(super) const PROTOCOL: Errno = Errno(71);
    pub(super) const NOT_SUPPORTED: Errno = Errno(95);
}

impl From<InodeError> for Errno {
    fn from(error: InodeError) -> Errno {
        Errno(error.errno())
    }
}
