//! A file or a block device of this host as a [`Device`].
//!
//! **Buffered or direct.** Buffered I/O goes through the system's page cache: fast, and not what the
//! disk does. Direct I/O goes to the disk; it asks for aligned offsets and lengths, which become the
//! device's logical block, and for aligned memory, which `Buf` has unless it was sliced. Pieces that
//! lie off that grid are copied to aligned memory first.
//!
//! **Files in memory** (tmpfs) are read and written at once, by a plain system call. Measured on Linux
//! 6.18: tmpfs does not tell io_uring that its reads never wait (`FMODE_NOWAIT`), so io_uring hands
//! *every* one of them to a worker thread; the wake-ups cost three times as much as the copy of 4 KiB.
//! ext4's and XFS's cached reads are served inside the ring, without a worker, and stay there.
//!
//! **Creating** takes the space (`fallocate`), so that a full disk is found then and not in the midst
//! of a run; it never touches a file that exists. **One writer at a time:** whoever opens for writing has
//! the file's lock (`lock`) until it is closed. **Block devices** are opened for exclusive use when
//! they are to be written, so that a mounted one is refused. Whether something is worth keeping on it
//! is for [`probe`](crate::probe) to say and for the caller to heed.
//!
//! **A file that was cut** meanwhile fails what reads the part that is gone, and every write: one behind the cut would
//! make a file with a hole of it, whose zeros nobody doubts. Whoever serves a file, or measures on one, has the same rule
//! as a RAID set's member: a device does not become shorter. So its size is asked before a write (`fstat`), once for all
//! writes between two looks of the executor at the outside: asked for each, it would be half as much again as a
//! cached write of 4 KiB on a virtual machine where system calls are dear, and in no case would it be exact, because no
//! call asks and writes in one. What is written in the same turn in which a file is cut, and extends it, is found by the
//! next write; where it extends it to its full length, by nobody.
//!
//! What it does not do: grow, or heed priorities.

use crate::alignment::Alignment;
use crate::answer::What;
use crate::handle::Handle;
use crate::identity::Identity;
use crate::lock;
use crate::operation::{OpenFile, Operation};
use crate::patience::while_held;
use crate::room::Room;
use crate::runtime::Host;
use crate::sys::{self, Errno};
use rt::filter::Overlay;
use rt::{
    Device, Extent, ExtentKind, ExtentsFuture, Geometry, IoError, IoErrorKind, IoFuture, Op,
    Request,
};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use stdx::{ByteCount, Offset};

/// The logical block where nothing asks for another: the smallest that any format counts in.
const BLOCK_MIN: u64 = 512;

/// The error of a request for which there was no memory.
pub(crate) const NO_MEMORY: IoErrorKind = IoErrorKind::Os(libc::ENOMEM);

/// The largest logical block that is believed; more is a fault of who reports it.
const BLOCK_MAX: u64 = 64 << 10;

/// How to open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileOptions {
    /// Past the page cache, to the disk itself.
    pub direct: bool,
    /// For reading only; a block device is then shared with whoever uses it.
    pub read_only: bool,
}

/// Where a device may end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// What is left of a file behind its last whole block is not part of the device.
    WholeBlocks,
    AnyByte,
}

/// Why a file or block device can't be opened or created.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Creating what is there.
    #[error("creating {}: it exists; remove it, or open it as it is", .0.display())]
    Exists(PathBuf),
    /// No room for it.
    #[error("creating {} of {size}: no space left; free some, or ask for less", .path.display())]
    NoSpace {
        /// Which file.
        path: PathBuf,
        /// How large it was to be.
        size: ByteCount,
    },
    /// No direct I/O there.
    #[error("opening {}: its file system has no direct I/O; open it buffered", .0.display())]
    NoDirect(PathBuf),
    /// Someone has the block device.
    #[error("opening {} for exclusive use: it is mounted or otherwise in use; unmount it, or open it read-only", .0.display())]
    InUse(PathBuf),
    /// Someone writes to it, or serves it.
    #[error("opening {} for writing: another process writes to it or serves it, or this one does; stop that one, or open it read-only", .0.display())]
    Locked(PathBuf),
    /// Neither file nor block device.
    #[error("opening {}: it is {what}; name a file or a block device", .path.display())]
    NotBlocks {
        /// Which.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// Devices are called by their paths, in text.
    #[error("opening {}: its name is no UTF-8, so it could not be named again; rename it, or name a link to it", .0.display())]
    Name(PathBuf),
    /// Less than one block.
    #[error("opening {}: it has {size}, less than one block of {block}; create it with a size", .path.display())]
    TooSmall {
        /// Which file.
        path: PathBuf,
        /// Its size.
        size: ByteCount,
        /// The logical block it would have.
        block: ByteCount,
    },
    /// Another error of the operating system.
    #[error("{doing} {}: {error}{}", .path.display(), mend_of(.error))]
    Os {
        /// What was being done.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        error: io::Error,
    },
}

impl OpenError {
    /// Whether the system refused it to this user.
    pub fn is_denied(&self) -> bool {
        matches!(self, OpenError::Os { error, .. } if error.kind() == io::ErrorKind::PermissionDenied)
    }
}

/// What can be done about an error of the system.
fn mend_of(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => mend_of_denied(),
        _ => "",
    }
}

/// What can be done where permission is denied: whom the mode lets in is nothing to root.
pub fn mend_of_denied() -> &'static str {
    match rustix::process::geteuid().is_root() {
        true => {
            "; not even root may: it may be immutable (lsattr shows it), or held back by the file system or by a policy"
        }
        false => "; run it as root (sudo), or as somebody whom its mode lets in",
    }
}

/// See the [module](self).
pub struct FileDevice {
    host: Host,
    file: Rc<Handle>,
    name: Arc<str>,
    geometry: Geometry,
    /// Of memory; `None` for buffered I/O.
    alignment: Option<Alignment>,
    read_only: bool,
    /// The turn of the executor in which it was seen to be as long as it should be.
    whole_at: Cell<Option<u64>>,
    /// What keeps what is written, where that must not reach the file.
    cover: Option<Rc<Overlay>>,
}

impl FileDevice {
    /// Opens a file or block device as it is.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(host: &Host, path: &Path, options: FileOptions) -> Result<FileDevice, OpenError> {
        FileDevice::open_as_it_may(host, path, options, Ending::WholeBlocks)
    }

    /// The same, buffered and to the last byte: a file whose length is not whole blocks of 512 bytes has smaller
    /// blocks, of a byte at the least, so that none of it is left out.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_to_the_byte(
        host: &Host,
        path: &Path,
        read_only: bool,
    ) -> Result<FileDevice, OpenError> {
        let options = FileOptions { direct: false, read_only };
        FileDevice::open_as_it_may(host, path, options, Ending::AnyByte)
    }

    /// Under the executor's [cover](crate::cover), where it has one.
    fn open_as_it_may(
        host: &Host,
        path: &Path,
        options: FileOptions,
        ending: Ending,
    ) -> Result<FileDevice, OpenError> {
        let FileOptions { read_only, .. } = options;
        let os = |doing, error| OpenError::Os { doing, path: path.into(), error };
        let Some(cover) = &host.cover else {
            return FileDevice::open_by(host, path, options, !read_only, ending);
        };
        if !read_only {
            // Who may not write is refused as in earnest.
            let may = accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS);
            may.map_err(|errno| os("opening", errno.into()))?;
        }
        let read = FileOptions { read_only: true, ..options };
        let below = FileDevice::open_by(&host.uncovered(), path, read, !read_only, ending)?;
        if !read_only && !while_held(|| below.keep_writers_off(), |kept| !kept) {
            return Err(OpenError::Locked(path.into()));
        }
        let identity = Identity::of(path).map_err(|error| os("looking at", error))?;
        let (file, name, below) = (Rc::clone(&below.file), Arc::clone(&below.name), Rc::new(below));
        let overlay = cover.of(identity, below.clone());
        Ok(FileDevice {
            host: host.clone(),
            file,
            name,
            geometry: overlay.geometry(),
            alignment: None,
            read_only,
            whole_at: Cell::new(None),
            cover: Some(overlay),
        })
    }

    fn open_by(
        host: &Host,
        path: &Path,
        options: FileOptions,
        exclusively: bool,
        ending: Ending,
    ) -> Result<FileDevice, OpenError> {
        let os = |doing, error| OpenError::Os { doing, path: path.into(), error };
        if path.to_str().is_none() {
            return Err(OpenError::Name(path.into()));
        }
        let is_block_device = std::fs::metadata(path)
            .map_err(|error| os("looking at", error))
            .and_then(|found| is_block_device(path, &found))?;
        let mut flags = if options.direct { libc::O_DIRECT } else { 0 };
        if is_block_device && exclusively {
            flags |= libc::O_EXCL;
        }
        let mut how = OpenOptions::new();
        how.read(true).write(!options.read_only).custom_flags(flags);
        let in_use = |end: &io::Result<File>| {
            is_block_device
                && end.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY))
        };
        let file =
            while_held(|| how.open(path), in_use).map_err(|error| match error.raw_os_error() {
                Some(libc::EBUSY) if is_block_device => OpenError::InUse(path.into()),
                Some(libc::EINVAL) if options.direct => OpenError::NoDirect(path.into()),
                _ => os("opening", error),
            })?;
        FileDevice::over(host, path, file, options, ending)
    }

    /// Creates a file of this size, with all of its space, and opens it.
    ///
    /// # Errors
    /// [`OpenError`]; what was made of the file is removed again.
    pub fn create(
        host: &Host,
        path: &Path,
        size: ByteCount,
        options: FileOptions,
    ) -> Result<FileDevice, OpenError> {
        let os = |doing, error| OpenError::Os { doing, path: path.into(), error };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .custom_flags(if options.direct { libc::O_DIRECT } else { 0 })
            .open(path)
            .map_err(|error| match error.raw_os_error() {
                Some(libc::EEXIST) => OpenError::Exists(path.into()),
                Some(libc::EINVAL) if options.direct => OpenError::NoDirect(path.into()),
                _ => os("creating", error),
            })?;
        // Asked first, because a file system may take all that is left before it finds that it is not
        // enough, and be full for everybody meanwhile.
        let fits = Room::of_file(file.as_fd()).is_none_or(|room| room.free >= size);
        let taken = match fits {
            true => sys::fallocate(file.as_fd(), 0, 0, size.bytes().max(1)),
            false => Err(Errno(libc::ENOSPC)),
        };
        let made = match taken {
            // Where the file system can't promise space, a full disk is found when it is written.
            Ok(()) | Err(Errno(libc::EOPNOTSUPP | libc::ENOSYS)) => {
                file.set_len(size.bytes()).map_err(|error| os("setting the size of", error))
            }
            Err(Errno(libc::ENOSPC | libc::EDQUOT | libc::EFBIG)) => {
                Err(OpenError::NoSpace { path: path.into(), size })
            }
            Err(errno) => Err(os("taking space for", errno.into())),
        };
        let whole = Ending::WholeBlocks;
        made.and_then(|()| FileDevice::over(host, path, file, options, whole)).inspect_err(|_| {
            // The first error is the one to tell; a file that can't be removed is seen by itself.
            let _ = std::fs::remove_file(path);
        })
    }

    fn over(
        host: &Host,
        path: &Path,
        mut file: File,
        options: FileOptions,
        ending: Ending,
    ) -> Result<FileDevice, OpenError> {
        let os = |doing, error| OpenError::Os { doing, path: path.into(), error };
        let found = file.metadata().map_err(|error| os("looking at", error))?;
        let is_block_device = is_block_device(path, &found)?;
        let queue = Queue::of(if is_block_device { found.rdev() } else { found.dev() });
        if !options.read_only
            && !lock::take(file.as_fd()).map_err(|errno| os("locking", errno.into()))?
        {
            return Err(OpenError::Locked(path.into()));
        }
        let direct = options.direct.then(|| sys::direct_alignment(file.as_fd())).flatten();

        let (mut logical, mut physical) = (BLOCK_MIN, found.blksize());
        let mut alignment = None;
        if is_block_device {
            let (block, sector) = sys::block_sizes(file.as_fd())
                .map_err(|errno| os("asking for the block size of", errno.into()))?;
            (logical, physical) = (block.into(), sector.into());
        }
        if options.direct {
            // Where the file system does not say, a page satisfies all of them.
            let guess = if is_block_device { logical } else { rt::PAGE as u64 };
            let (memory, length) = direct.map_or((guess, guess), |(m, l)| (m.into(), l.into()));
            logical = logical.max(length);
            alignment = Some(Alignment { memory: memory as usize, length: length as usize });
        }
        if !logical.is_power_of_two() || logical > BLOCK_MAX {
            let text = format!("a block of {logical} bytes can't be used");
            return Err(os("asking for the block size of", io::Error::other(text)));
        }
        // The length of a block device is where its end is.
        let size = file.seek(SeekFrom::End(0)).map_err(|error| os("finding the end of", error))?;
        if ending == Ending::AnyByte && size > 0 && !is_block_device {
            logical = logical.min(1 << size.trailing_zeros().min(63));
        }
        let (size, block) = (ByteCount(size), ByteCount(logical));
        if size < block {
            return Err(OpenError::TooSmall { path: path.into(), size, block });
        }
        let physical = if physical.is_power_of_two() { physical.max(logical) } else { logical };
        let in_memory = !is_block_device && sys::is_in_memory(file.as_fd());
        let geometry = Geometry {
            capacity: size.round_down(block),
            logical_block: block,
            physical_block: ByteCount(physical.min(BLOCK_MAX)),
            optimal_io: ByteCount::ZERO,
            rotational: queue.rotational,
            volatile_cache: !(is_block_device && options.direct && queue.write_through),
        };
        let file = match is_block_device {
            true => OpenFile::new(file, in_memory),
            false => OpenFile::of_device(file, in_memory, geometry.capacity.bytes()),
        };
        let file = Handle::new(path, file);
        if !options.read_only {
            host.at_once().writers.put(&file);
        }
        Ok(FileDevice {
            host: host.clone(),
            file,
            name: path.display().to_string().into(),
            geometry,
            alignment,
            read_only: options.read_only,
            whole_at: Cell::new(None),
            cover: None,
        })
    }
}

impl FileDevice {
    /// Whether somebody cut the file, as of this turn of the executor.
    fn is_cut(&self, file: &OpenFile) -> bool {
        let looks = Some(self.host.at_once().looks());
        if self.whole_at.get() == looks {
            return false;
        }
        let is_cut = file.is_cut();
        self.whole_at.set(looks.filter(|_| !is_cut));
        is_cut
    }

    /// Keeps writers off for as long as this device, opened for reading, lives; false where there is one already.
    pub fn keep_writers_off(&self) -> bool {
        self.file.file().as_ref().is_none_or(|file| lock::take_shared(file.file.as_fd()))
    }

    /// Whether somebody else has it open for writing now: another process, or another device of this one.
    pub fn is_written_elsewhere(&self) -> bool {
        self.file.file().as_ref().is_some_and(|file| lock::is_held(file.file.as_fd()))
    }

    /// Whether it was [closed](Host::close_writers).
    pub fn is_closed(&self) -> bool {
        self.file.file().is_none()
    }
}

impl Device for FileDevice {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn begin(&self, request: Request) -> IoFuture {
        let reads = matches!(request.op, Op::Read(_) | Op::Flush);
        if self.read_only && !reads {
            let error = IoError::of(&request, self, IoErrorKind::ReadOnly);
            return IoFuture::ready(Err(error));
        }
        if let Some(cover) = &self.cover {
            return cover.begin(request);
        }
        let what = What::of(&request, &self.name);
        let file = self.file.file();
        let Some(file) = file.as_ref() else {
            return IoFuture::ready(what.result(Err(IoErrorKind::Gone)));
        };
        let at = request.offset.bytes();
        let operation = Operation::of(request.op, at, self.alignment, Operation::read);
        let Ok(operation) = operation else {
            return IoFuture::ready(what.result(Err(NO_MEMORY)));
        };
        if operation.may_extend() && self.is_cut(file) {
            return IoFuture::ready(what.result(Err(IoErrorKind::CutShort)));
        }
        self.host.start(file, operation, what)
    }

    fn extents(&self, offset: Offset, len: ByteCount, count_max: usize) -> ExtentsFuture {
        if let Some(cover) = &self.cover {
            return cover.extents(offset, len, count_max);
        }
        let Some(file) = self.file.file().clone() else {
            return Box::pin(std::future::ready(Err(IoErrorKind::Gone)));
        };
        if file.in_memory {
            return Box::pin(std::future::ready(Ok(extents(&file, offset, len, count_max))));
        }
        let found = self.host.call(move || extents(&file, offset, len, count_max));
        Box::pin(async move { Ok(found.await) })
    }
}

/// What the file system says of holes. Where it can't tell, or errs, all that is left is data. The file
/// may be written meanwhile: what was a hole may be data by now, as with any such answer.
///
/// Where somebody cut the file, what lies behind its end is data, too: there it can't be read, and who took it for a
/// hole would go on with zeros and never hear of that.
fn extents(file: &OpenFile, offset: Offset, len: ByteCount, count_max: usize) -> Vec<Extent> {
    let fd = file.file.as_fd();
    let (mut at, end) = (offset.bytes(), (offset + len).bytes());
    let mut extents = Vec::new();
    while at < end && extents.len() < count_max {
        // Each time again: it may be cut while it is looked at.
        let is_there = sys::seek_end(fd).map_or(at, |size| size.clamp(at, end));
        let data = match sys::seek_data(fd, at) {
            Ok(found) => found.unwrap_or(end).clamp(at, is_there),
            Err(_) => at,
        };
        let (to, kind) = if data > at {
            (data, ExtentKind::Hole)
        } else {
            match sys::seek_hole(fd, at) {
                Ok(hole) if hole > at && hole < is_there => (hole, ExtentKind::Data),
                // To the end: of what was asked for, or of the file and whatever should lie behind it.
                _ => (end, ExtentKind::Data),
            }
        };
        extents.push(Extent { len: ByteCount(to - at), kind });
        at = to;
    }
    extents
}

fn is_block_device(path: &Path, found: &std::fs::Metadata) -> Result<bool, OpenError> {
    let kind = found.file_type();
    let what = if kind.is_file() || kind.is_block_device() {
        return Ok(kind.is_block_device());
    } else if kind.is_dir() {
        "a directory"
    } else if kind.is_char_device() {
        "a character device"
    } else {
        "a pipe or a socket"
    };
    Err(OpenError::NotBlocks { path: path.into(), what })
}

/// What the kernel knows of the queue of a block device.
#[derive(Default)]
struct Queue {
    rotational: bool,
    write_through: bool,
}

impl Queue {
    /// The queue of the device with this number, or of the disk that it is a partition of. A file
    /// system without one device of its own (btrfs, tmpfs) has none: then nothing is known.
    fn of(device: u64) -> Queue {
        let (major, minor) = (libc::major(device), libc::minor(device));
        let device = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        let read = |attribute: &str| {
            let own = device.join("queue").join(attribute);
            std::fs::read_to_string(own)
                .or_else(|_| std::fs::read_to_string(device.join("../queue").join(attribute)))
                .unwrap_or_default()
        };
        Queue {
            rotational: read("rotational").trim() == "1",
            write_through: read("write_cache").trim() == "write through",
        }
    }
}
