//! What a server's replies may look like, and what is wrong with those that don't.
//!
//! A read's data comes in one piece with a simple reply, in chunks with a structured one: pieces of data
//! and holes in any order, which must lie within what was asked for, must not overlap and must cover it in
//! the end. A piece that is all of it is handed up as it came; otherwise the pieces are gathered in memory
//! of the read's own length.
//!
//! After a reply that breaks the rules nothing that follows can be trusted, not even where the next reply
//! begins: the connection is given up.

use crate::nbd::SILENCE_MAX;
use rt::{BufMut, IoErrorKind, SgList, StreamError};

/// Stretches of a read that don't touch each other, at the most, while its pieces come. Servers send them in
/// order, and then there is one.
const STRETCHES_MAX: usize = 1024;

/// Why a connection was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// The connection broke.
    #[error("{0}")]
    Stream(#[from] StreamError),
    /// No word for too long, though requests wait for it.
    #[error("the server says nothing for {} s, though requests wait", SILENCE_MAX.as_secs())]
    Silent,
    /// A reply that begins with another number.
    #[error("a reply begins with {0:#010x}, which is no reply's")]
    Magic(u32),
    /// A reply to what nobody asked, or to what was answered already.
    #[error("a reply to request {0}, which is not under way")]
    Cookie(u64),
    /// A structured reply though none were agreed on, or a simple one to a read though they were.
    #[error("a reply to request {0} of the other form than was agreed on")]
    Form(u64),
    /// Flags that mean nothing.
    #[error("a chunk with the flags {0:#06x}, of which some are not known")]
    ChunkFlags(u16),
    /// A chunk that does not belong to the request.
    #[error("a chunk of type {0}, which does not answer this request")]
    ChunkKind(u16),
    /// A chunk of a length that its type doesn't have.
    #[error("a chunk of type {kind} with {len} bytes, which its type can't have")]
    ChunkLen {
        /// Its type.
        kind: u16,
        /// Its length.
        len: u32,
    },
    /// Data that was not asked for.
    #[error("{len} bytes at {offset}, which were not asked for")]
    Beyond {
        /// Where they lie.
        offset: u64,
        /// How many they are.
        len: u64,
    },
    /// Data that came already.
    #[error("{len} bytes at {offset} came twice")]
    Twice {
        /// Where they lie.
        offset: u64,
        /// How many they are.
        len: u64,
    },
    /// Data in too many places at once.
    #[error("the pieces of a read come in more than {STRETCHES_MAX} places")]
    Scattered,
    /// A read's last chunk came, and not all data.
    #[error("{missing} bytes of a read did not come")]
    Incomplete {
        /// How many.
        missing: u64,
    },
    /// An error without a number.
    #[error("an error that is none")]
    NoError,
    /// The status of blocks in a context that was not agreed on, or of no bytes.
    #[error("the status of blocks that makes no sense")]
    Status,
}

/// An error's number, as a device tells it.
pub(super) fn kind_of(errno: u32) -> IoErrorKind {
    match errno {
        // EPERM, EROFS
        1 | 30 => IoErrorKind::ReadOnly,
        // EIO
        5 => IoErrorKind::Medium,
        // EINVAL, EOVERFLOW
        22 | 75 => IoErrorKind::Invalid,
        // ENOSPC
        28 => IoErrorKind::NoSpace,
        // ENOTSUP
        95 => IoErrorKind::NotSupported,
        // ESHUTDOWN
        108 => IoErrorKind::Gone,
        other => i32::try_from(other).map_or(IoErrorKind::Medium, IoErrorKind::Os),
    }
}

/// A read's data, as it comes.
pub(super) struct Landing {
    offset: u64,
    len: u64,
    data: Data,
}

enum Data {
    None,
    Whole(SgList),
    Pieces(Pieces),
}

struct Pieces {
    /// Zeros where nothing came yet, so that holes are there by themselves.
    buf: BufMut,
    /// What came: beginnings and ends within the read, in order, none touching the next.
    stretches: Vec<(u64, u64)>,
}

/// Where a piece of a read belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It is the whole read.
    Whole,
    /// So far from the read's beginning.
    At(usize),
}

impl Landing {
    /// For a read of so many bytes there.
    pub(super) fn new(offset: u64, len: u32) -> Landing {
        Landing { offset, len: len.into(), data: Data::None }
    }

    /// Takes note that these bytes come, and says where they belong.
    ///
    /// # Errors
    /// Where nobody asked for them, or they came already.
    pub(super) fn expect(&mut self, offset: u64, len: u64) -> Result<Place, ReplyError> {
        let from = offset.checked_sub(self.offset);
        let within = from.filter(|from| from.checked_add(len).is_some_and(|to| to <= self.len));
        let Some(from) = within.filter(|_| len > 0) else {
            return Err(ReplyError::Beyond { offset, len });
        };
        if let Data::None = self.data {
            if len == self.len {
                // Until the data itself is there: a second piece finds that it came.
                self.data = Data::Whole(SgList::new());
                return Ok(Place::Whole);
            }
            let buf = BufMut::zeroed(self.len as usize);
            self.data = Data::Pieces(Pieces { buf, stretches: Vec::new() });
        }
        let Data::Pieces(pieces) = &mut self.data else {
            return Err(ReplyError::Twice { offset, len });
        };
        match pieces.note(from, from + len) {
            Ok(()) => Ok(Place::At(from as usize)),
            Err(Clash::Overlap) => Err(ReplyError::Twice { offset, len }),
            Err(Clash::TooMany) => Err(ReplyError::Scattered),
        }
    }

    /// The whole data, which was [expected](Landing::expect).
    pub(super) fn whole(&mut self, data: SgList) {
        self.data = Data::Whole(data);
    }

    /// Some bytes of a piece that was [expected](Landing::expect).
    pub(super) fn put(&mut self, at: usize, bytes: &[u8]) {
        if let Data::Pieces(pieces) = &mut self.data {
            pieces.buf[at..at + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// All of the data, after the last piece.
    ///
    /// # Errors
    /// Where some did not come.
    pub(super) fn end(self) -> Result<SgList, ReplyError> {
        let came = match &self.data {
            Data::None => 0,
            Data::Whole(data) => data.len() as u64,
            Data::Pieces(pieces) => pieces.stretches.iter().map(|(from, to)| to - from).sum(),
        };
        match self.data {
            _ if came < self.len => Err(ReplyError::Incomplete { missing: self.len - came }),
            Data::None => Ok(SgList::new()),
            Data::Whole(data) => Ok(data),
            Data::Pieces(pieces) => Ok(pieces.buf.into()),
        }
    }
}

enum Clash {
    Overlap,
    TooMany,
}

impl Pieces {
    fn note(&mut self, from: u64, to: u64) -> Result<(), Clash> {
        let next = self.stretches.partition_point(|(begin, _)| *begin < from);
        let before = next.checked_sub(1).map(|at| self.stretches[at]);
        let after = self.stretches.get(next).copied();
        if before.is_some_and(|(_, end)| end > from) || after.is_some_and(|(begin, _)| begin < to) {
            return Err(Clash::Overlap);
        }
        let joins_before = before.is_some_and(|(_, end)| end == from);
        let joins_after = after.is_some_and(|(begin, _)| begin == to);
        match (joins_before, joins_after) {
            (true, true) => {
                let (_, end) = self.stretches.remove(next);
                self.stretches[next - 1].1 = end;
            }
            (true, false) => self.stretches[next - 1].1 = to,
            (false, true) => self.stretches[next].0 = from,
            (false, false) if self.stretches.len() == STRETCHES_MAX => return Err(Clash::TooMany),
            (false, false) => self.stretches.insert(next, (from, to)),
        }
        Ok(())
    }
}
