//! One operation on one open file: what is to be done, and how far it is.
//!
//! The kernel may do less than it was asked for: it reads and writes short, takes 1024 pieces at a
//! time, is interrupted, or doesn't know how to zero a range. An [`Operation`] turns a request into a
//! row of [`Step`]s, each one system call, until all is done. It doesn't make the calls: a driver
//! carries out [`Operation::step`] (io_uring as an entry in its ring, a thread as a call) and gives
//! what came of it to [`Operation::advance`], which says whether there is more to do.
//!
//! Rules:
//!
//! 1. The operation owns its memory. Between a step and its `advance`, whoever has the operation
//!    neither touches that memory nor drops it: the kernel is using it.
//! 2. A [read](Operation::read) that meets the end of the file before it has all its bytes is an error
//!    ([`IoErrorKind::CutShort`]): the file is shorter than the device it stands for, so somebody cut
//!    it, and zeros would be a lie. It is no bad place of the medium: what is written there anew would make a file
//!    with a hole of it, whose zeros nobody doubts. A [read up to the end](Operation::read_up_to_end), of a file that is
//!    a file, is answered with what there is.
//! 3. For the same reason a file that stands for a device must not become [longer](OpenFile::is_cut) than somebody left
//!    it. Whoever begins a write asks for its size before. (Zeroing and discarding keep the size.)
//! 4. A range is zeroed by the first of these that the file takes, and what it refuses is not tried
//!    again on this file: `FALLOC_FL_ZERO_RANGE` (space stays allocated), `FALLOC_FL_PUNCH_HOLE`
//!    (tmpfs; space is given back), writing zeros. A discard punches a hole, or does nothing.

use crate::alignment::Alignment;
use crate::sys::{self, Errno, PIECES_MAX, TRANSFER_BYTES_MAX};
use rt::{Buf, BufMut, IoErrorKind, NoMemory, Op, SgList};
use std::fs::File;
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of zeros that are written at a time where a file can't be zeroed otherwise. More makes fewer
/// calls; it is memory for as long as the operation lasts.
const ZEROS_BYTES: usize = 1 << 20;

/// Times that one step is tried again after EINTR or EAGAIN before the error is believed. Each try
/// that moves a byte starts the count anew.
const RETRIES_MAX: u32 = 1000;

/// An open file as drivers see it.
pub(crate) struct OpenFile {
    pub(crate) file: File,
    /// Whether the file lives in memory, so that its I/O is a copy and never waits.
    pub(crate) in_memory: bool,
    /// The bytes of the device that it stands for; none where it is a file as files are, or a block device.
    device_bytes: Option<u64>,
    zero_range_refused: AtomicBool,
    punch_hole_refused: AtomicBool,
}

impl OpenFile {
    pub(crate) fn new(file: File, in_memory: bool) -> OpenFile {
        OpenFile {
            file,
            in_memory,
            device_bytes: None,
            zero_range_refused: AtomicBool::new(false),
            punch_hole_refused: AtomicBool::new(false),
        }
    }

    /// A file that stands for a device of so many bytes.
    pub(crate) fn of_device(file: File, in_memory: bool, bytes: u64) -> OpenFile {
        OpenFile { device_bytes: Some(bytes), ..OpenFile::new(file, in_memory) }
    }

    /// Whether a file that stands for a device is shorter than that now. One that can't be asked is not believed.
    pub(crate) fn is_cut(&self) -> bool {
        let Some(bytes) = self.device_bytes else { return false };
        !sys::size(self.file.as_fd()).is_ok_and(|size| size >= bytes)
    }

    /// The ways in which the file system may zero a range, best first, and whether it refused.
    fn ways_of_zeroing(&self) -> [(i32, &AtomicBool); 2] {
        [(ZERO_RANGE, &self.zero_range_refused), (PUNCH_HOLE, &self.punch_hole_refused)]
    }
}

/// What is to be done, with the memory for it.
enum Work {
    Read {
        into: BufMut,
        up_to_end: bool,
    },
    Write {
        data: SgList,
        durable: bool,
    },
    Flush,
    Discard {
        len: u64,
    },
    /// `tried`: the way of zeroing that the step under way tries; `zeros`: what is written where no
    /// such way is left.
    Zero {
        len: u64,
        tried: i32,
        zeros: SgList,
    },
}

/// Zero a range and keep its space.
const ZERO_RANGE: i32 = libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE;
/// Give back the space of a range, which then reads as zeros.
const PUNCH_HOLE: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;

/// See the [module](self).
pub(crate) struct Operation {
    work: Work,
    at: u64,
    done: u64,
    retries: u32,
}

/// One system call.
pub(crate) enum Step<'a> {
    Read { into: &'a mut [u8], at: u64 },
    Write { pieces: Pieces<'a>, at: u64, durable: bool },
    Sync,
    Allocate { mode: i32, at: u64, len: u64 },
}

/// What is left to be written: `pieces` without the first `skip` bytes, `len_max` bytes at the most.
#[derive(Clone, Copy)]
pub(crate) struct Pieces<'a> {
    pieces: &'a [Buf],
    skip: u64,
    len_max: usize,
}

impl<'a> Pieces<'a> {
    /// All of the data but the first `skip` bytes.
    pub(crate) fn after(data: &'a SgList, skip: u64) -> Pieces<'a> {
        Pieces { pieces: data.pieces(), skip, len_max: TRANSFER_BYTES_MAX }
    }

    /// The pieces of memory for one call.
    pub(crate) fn slices(self) -> impl Iterator<Item = &'a [u8]> {
        let (mut skip, mut left) = (self.skip, self.len_max);
        self.pieces
            .iter()
            .filter_map(move |piece| {
                let from = skip.min(piece.len() as u64) as usize;
                skip -= from as u64;
                let to = piece.len().min(from.saturating_add(left));
                left -= to - from;
                (from < to).then(|| &piece.bytes()[from..to])
            })
            .take(PIECES_MAX)
    }
}

impl Operation {
    /// What is asked of a file at a place; `read` makes a read. Written data is put on the grid where there is one.
    pub(crate) fn of(
        op: Op,
        at: u64,
        grid: Option<Alignment>,
        read: fn(u64, BufMut) -> Operation,
    ) -> Result<Operation, NoMemory> {
        Ok(match op {
            Op::Flush => Operation::flush(),
            Op::Read(len) => read(at, BufMut::try_for_overwrite(len.as_usize())?),
            Op::Write { data, fua } => {
                let data = match grid {
                    Some(grid) => grid.of(data)?,
                    None => data,
                };
                Operation::write(at, data, fua)
            }
            Op::Discard(len) => Operation::discard(at, len.bytes()),
            Op::WriteZeroes(len) => Operation::zero(at, len.bytes()),
        })
    }

    pub(crate) fn read(at: u64, into: BufMut) -> Operation {
        Operation::new(Work::Read { into, up_to_end: false }, at)
    }

    /// A read that the end of the file may cut short.
    pub(crate) fn read_up_to_end(at: u64, into: BufMut) -> Operation {
        Operation::new(Work::Read { into, up_to_end: true }, at)
    }

    pub(crate) fn write(at: u64, data: SgList, durable: bool) -> Operation {
        Operation::new(Work::Write { data, durable }, at)
    }

    pub(crate) fn flush() -> Operation {
        Operation::new(Work::Flush, 0)
    }

    pub(crate) fn discard(at: u64, len: u64) -> Operation {
        Operation::new(Work::Discard { len }, at)
    }

    pub(crate) fn zero(at: u64, len: u64) -> Operation {
        Operation::new(Work::Zero { len, tried: 0, zeros: SgList::new() }, at)
    }

    fn new(work: Work, at: u64) -> Operation {
        Operation { work, at, done: 0, retries: 0 }
    }

    /// Bytes that pass between memory and the file; those of calls that merely may write are not
    /// counted.
    pub(crate) fn transfer_bytes(&self) -> Option<usize> {
        match &self.work {
            Work::Read { into, .. } => Some(into.len()),
            Work::Write { data, .. } => Some(data.len()),
            Work::Flush | Work::Discard { .. } | Work::Zero { .. } => None,
        }
    }

    /// Whether it makes durable what was written.
    pub(crate) fn is_flush(&self) -> bool {
        matches!(self.work, Work::Flush)
    }

    /// The next call to make.
    pub(crate) fn step(&mut self, file: &OpenFile) -> Step<'_> {
        let at = self.at + self.done;
        match &mut self.work {
            Work::Read { into, .. } => {
                let rest = &mut into[self.done as usize..];
                let len = rest.len().min(TRANSFER_BYTES_MAX);
                Step::Read { into: &mut rest[..len], at }
            }
            Work::Write { data, durable } => {
                let (pieces, durable) = (data.pieces(), *durable);
                let pieces = Pieces { pieces, skip: self.done, len_max: TRANSFER_BYTES_MAX };
                Step::Write { pieces, at, durable }
            }
            Work::Flush => Step::Sync,
            Work::Discard { len } => Step::Allocate { mode: PUNCH_HOLE, at, len: *len },
            Work::Zero { len, tried, zeros } => {
                for (mode, refused) in file.ways_of_zeroing() {
                    if !refused.load(Ordering::Relaxed) {
                        *tried = mode;
                        return Step::Allocate { mode, at, len: *len };
                    }
                }
                if zeros.is_empty() {
                    *zeros = SgList::zeros(ZEROS_BYTES);
                }
                let len_max = (*len - self.done).min(ZEROS_BYTES as u64) as usize;
                let pieces = Pieces { pieces: zeros.pieces(), skip: 0, len_max };
                Step::Write { pieces, at, durable: false }
            }
        }
    }

    /// Whether it may write behind the end of a file.
    pub(crate) fn may_extend(&self) -> bool {
        matches!(self.work, Work::Write { .. } | Work::Zero { .. })
    }

    /// Takes what came of the step. `None`: there is another step to make.
    pub(crate) fn advance(
        &mut self,
        result: Result<usize, Errno>,
        file: &OpenFile,
    ) -> Option<Result<SgList, IoErrorKind>> {
        let count = match result {
            Ok(count) => count,
            Err(Errno(libc::EINTR | libc::EAGAIN)) if self.retries < RETRIES_MAX => {
                self.retries += 1;
                return None;
            }
            Err(errno) => return self.refused(errno, file),
        };
        self.retries = 0;
        self.done += count as u64;
        match &self.work {
            // The end of the file, or of what is left of it.
            Work::Read { up_to_end: true, .. } if count == 0 => Some(Ok(self.what_was_read())),
            Work::Read { .. } if count == 0 => Some(Err(IoErrorKind::CutShort)),
            Work::Write { .. } if count == 0 => Some(Err(IoErrorKind::Medium)),
            Work::Read { into, .. } if self.done < into.len() as u64 => None,
            Work::Write { data, .. } if self.done < data.len() as u64 => None,
            Work::Zero { len, zeros, .. } if !zeros.is_empty() && self.done < *len => {
                (count == 0).then_some(Err(IoErrorKind::Medium))
            }
            _ => Some(Ok(self.what_was_read())),
        }
    }

    /// The bytes of a read, as far as it got; nothing of others. The operation is at its end.
    fn what_was_read(&mut self) -> SgList {
        match std::mem::replace(&mut self.work, Work::Flush) {
            Work::Read { mut into, .. } => {
                into.truncate(self.done as usize);
                into.into()
            }
            _ => SgList::new(),
        }
    }

    fn refused(&mut self, errno: Errno, file: &OpenFile) -> Option<Result<SgList, IoErrorKind>> {
        let unsupported = matches!(errno.0, libc::EOPNOTSUPP | libc::ENOSYS | libc::ENODEV);
        match &self.work {
            Work::Discard { .. } if unsupported => Some(Ok(SgList::new())),
            Work::Zero { zeros, tried, .. } if unsupported && zeros.is_empty() => {
                for (mode, refused) in file.ways_of_zeroing() {
                    if mode == *tried {
                        refused.store(true, Ordering::Relaxed);
                    }
                }
                None
            }
            // A direct read goes on from where a short one stopped, off the grid: the file ends there.
            Work::Read { up_to_end, .. } if errno.0 == libc::EINVAL && self.done > 0 => {
                match *up_to_end {
                    true => Some(Ok(self.what_was_read())),
                    false => Some(Err(IoErrorKind::CutShort)),
                }
            }
            _ => Some(Err(kind_of(errno))),
        }
    }

    /// Carries the operation out here and now, to its end.
    pub(crate) fn run(mut self, file: &OpenFile) -> Result<SgList, IoErrorKind> {
        loop {
            let result = self.step(file).perform(file);
            if let Some(end) = self.advance(result, file) {
                return end;
            }
        }
    }
}

impl Step<'_> {
    /// Makes the call.
    fn perform(self, file: &OpenFile) -> Result<usize, Errno> {
        let fd = file.file.as_fd();
        match self {
            Step::Read { into, at } => sys::pread_bare(fd, into, at),
            Step::Write { pieces, at, durable } => {
                let mut slices = pieces.slices();
                match (slices.next(), slices.next()) {
                    (Some(only), None) if !durable => sys::pwrite_bare(fd, only, at),
                    (Some(only), None) => sys::pwritev(fd, &[IoSlice::new(only)], at, durable),
                    _ => {
                        let slices: Vec<IoSlice<'_>> = pieces.slices().map(IoSlice::new).collect();
                        sys::pwritev(fd, &slices, at, durable)
                    }
                }
            }
            Step::Sync => sys::fdatasync(fd).map(|()| 0),
            Step::Allocate { mode, at, len } => sys::fallocate(fd, mode, at, len).map(|()| 0),
        }
    }
}

/// The kind of error that an engine sees. The block layer has a number for each way in which a medium
/// fails; the file systems add theirs.
pub(crate) fn kind_of(errno: Errno) -> IoErrorKind {
    match errno.0 {
        libc::EIO
        | libc::EILSEQ
        | libc::EREMOTEIO
        | libc::ENODATA
        | libc::EBADMSG
        | libc::EUCLEAN => IoErrorKind::Medium,
        libc::ENODEV | libc::ENXIO | libc::ESHUTDOWN | libc::ENOLINK => IoErrorKind::Gone,
        libc::ENOSPC | libc::EDQUOT => IoErrorKind::NoSpace,
        libc::EROFS => IoErrorKind::ReadOnly,
        libc::EINVAL => IoErrorKind::Invalid,
        libc::EOPNOTSUPP => IoErrorKind::NotSupported,
        other => IoErrorKind::Os(other),
    }
}

#[cfg(test)]
mod tests {
    //! What could break: a short transfer taken for a whole one, pieces skipped or doubled where a
    //! call took only some, a retry without end.

    use super::*;

    fn file() -> OpenFile {
        OpenFile::new(File::open("/dev/null").expect("there is always a /dev/null"), false)
    }

    /// The bytes of the step, which must be a write, and where they go.
    fn written(operation: &mut Operation, file: &OpenFile) -> (Vec<u8>, u64) {
        match operation.step(file) {
            Step::Write { pieces, at, .. } => (pieces.slices().flatten().copied().collect(), at),
            _ => panic!("a write is to be made"),
        }
    }

    #[test]
    fn a_short_write_goes_on_in_the_midst_of_a_piece() {
        let file = file();
        let data: SgList = (0..5_u8).map(|i| Buf::copy_of(&[i; 10])).collect();
        let bytes = data.to_vec();
        let mut operation = Operation::write(100, data, false);
        let mut at = 0;
        for count in [3, 7, 25, 14] {
            assert_eq!(written(&mut operation, &file), (bytes[at..].to_vec(), 100 + at as u64));
            assert!(operation.advance(Ok(count), &file).is_none());
            at += count;
        }
        assert!(matches!(operation.advance(Ok(1), &file), Some(Ok(_))));
    }

    #[test]
    fn more_pieces_than_a_call_takes_are_written_by_several() {
        let file = file();
        let data: SgList = (0..2500_u32).map(|i| Buf::copy_of(&i.to_le_bytes())).collect();
        let mut operation = Operation::write(0, data.clone(), false);
        let mut all = Vec::new();
        loop {
            let (bytes, at) = written(&mut operation, &file);
            assert_eq!(at, all.len() as u64);
            assert!(bytes.len() <= 4 * PIECES_MAX);
            all.extend_from_slice(&bytes);
            if operation.advance(Ok(bytes.len()), &file).is_some() {
                break;
            }
        }
        assert_eq!(all, data.to_vec());
    }

    #[test]
    fn a_read_that_meets_the_end_of_the_file_is_an_error() {
        let file = file();
        let mut operation = Operation::read(0, BufMut::zeroed(8192));
        assert!(operation.advance(Ok(4096), &file).is_none());
        assert!(matches!(operation.advance(Ok(0), &file), Some(Err(IoErrorKind::CutShort))));
    }

    #[test]
    fn an_interruption_is_tried_again_but_not_for_ever() {
        let file = file();
        let mut operation = Operation::flush();
        let mut tries = 0;
        let end = loop {
            tries += 1;
            if let Some(end) = operation.advance(Err(Errno(libc::EAGAIN)), &file) {
                break end;
            }
        };
        assert!(matches!(end, Err(IoErrorKind::Os(libc::EAGAIN))));
        assert_eq!(tries, RETRIES_MAX + 1);
    }

    #[test]
    fn where_nothing_zeroes_a_range_zeros_are_written_over_all_of_it() {
        let file = file();
        let len = 2 * ZEROS_BYTES as u64 + 512;
        let mut operation = Operation::zero(4096, len);
        for _ in 0..2 {
            assert!(matches!(operation.step(&file), Step::Allocate { .. }));
            assert!(operation.advance(Err(Errno(libc::EOPNOTSUPP)), &file).is_none());
        }
        let mut end = 4096;
        loop {
            let (bytes, at) = written(&mut operation, &file);
            assert_eq!(at, end);
            assert!(bytes.iter().all(|byte| *byte == 0));
            end += bytes.len() as u64;
            if operation.advance(Ok(bytes.len()), &file).is_some() {
                break;
            }
        }
        assert_eq!(end, 4096 + len);
        assert!(matches!(Operation::zero(0, 512).step(&file), Step::Write { .. }));
    }

    #[test]
    fn a_full_file_system_is_told_as_such() {
        let full = File::options().write(true).open("/dev/full").expect("Linux has a /dev/full");
        let end =
            Operation::write(0, Buf::zeros(512).into(), false).run(&OpenFile::new(full, false));
        assert!(matches!(end, Err(IoErrorKind::NoSpace)));
    }
}
