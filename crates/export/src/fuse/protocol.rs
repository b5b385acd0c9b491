//! The kernel's numbers: requests as they arrive, answers as they leave. All in the machine's own byte order.

use super::{READ_BYTES_MAX, REQUESTS_MAX, VALID};
use rt::{Attributes, Cookie, InodeError, InodeKind, ListEntry, Node, Timestamp, Usage};

/// Bytes of a request's head: length, kind, number, node, who asks.
pub(super) const REQUEST_HEAD_BYTES: usize = 40;
/// Bytes of an answer's head: length, error, number.
const ANSWER_HEAD_BYTES: usize = 16;
/// Bytes of an entry of a directory before its name.
const ENTRY_HEAD_BYTES: usize = 24;
/// Bytes of what is known of a looked-up node.
const LOOKED_UP_BYTES: usize = 128;

/// The protocol that is spoken: 7, and its version, of which the kernel's may be a later one.
const MAJOR: u32 = 7;
pub(super) const MINOR_MIN: u32 = 31;
const MINOR: u32 = 45;

/// What may be agreed on when a mount begins.
mod offers {
    pub(super) const ASYNC_READ: u32 = 1 << 0;
    pub(super) const DO_READDIRPLUS: u32 = 1 << 13;
    pub(super) const READDIRPLUS_AUTO: u32 = 1 << 14;
    pub(super) const ASYNC_DIO: u32 = 1 << 15;
    pub(super) const NO_OPEN_SUPPORT: u32 = 1 << 17;
    pub(super) const PARALLEL_DIROPS: u32 = 1 << 18;
    pub(super) const POSIX_ACL: u32 = 1 << 20;
    pub(super) const MAX_PAGES: u32 = 1 << 22;
    pub(super) const CACHE_SYMLINKS: u32 = 1 << 23;
    pub(super) const NO_OPENDIR_SUPPORT: u32 = 1 << 24;
}

/// All that we want of it.
const WANTED: u32 = offers::ASYNC_READ
    | offers::DO_READDIRPLUS
    | offers::READDIRPLUS_AUTO
    | offers::ASYNC_DIO
    | offers::NO_OPEN_SUPPORT
    | offers::PARALLEL_DIROPS
    | offers::POSIX_ACL
    | offers::MAX_PAGES
    | offers::CACHE_SYMLINKS
    | offers::NO_OPENDIR_SUPPORT;

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
}

impl From<InodeError> for Errno {
    fn from(error: InodeError) -> Errno {
        Errno(match error {
            InodeError::NotFound => 2,
            InodeError::Damaged | InodeError::Io => 5,
            InodeError::NotDirectory => 20,
            InodeError::IsDirectory => 21,
            InodeError::WrongKind => 22,
            InodeError::Loop => 40,
            InodeError::NoAttribute => 61,
            InodeError::NotSupported => 95,
            InodeError::Gone => 116,
            InodeError::NoKey => 126,
        })
    }
}

/// Who asks what: the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    kind: u32,
    /// The number that the answer bears.
    pub(super) number: u64,
    /// What it is about.
    pub(super) node: Node,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question {
    Begin {
        major: u32,
        minor: u32,
        read_ahead: u32,
        offers: u32,
    },
    Lookup(Vec<u8>),
    Attributes,
    LinkTarget,
    Open,
    OpenDirectory,
    /// Of a file or directory that was opened.
    Close,
    Read {
        at: u64,
        len: u32,
    },
    List {
        after: Cookie,
        len: u32,
        attributes: bool,
    },
    Usage,
    Value {
        len: u32,
        name: Vec<u8>,
    },
    Names {
        len: u32,
    },
    /// What would change something.
    Change,
    /// What needs no answer.
    Remark,
    End,
    Unknown,
}

/// A request's numbers, from front to back.
struct Numbers<'a>(&'a [u8]);

impl<'a> Numbers<'a> {
    fn u32(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_ne_bytes(*number))
    }

    fn u64(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*number))
    }

    /// Text that ends with a zero, which ends the request.
    fn name(&mut self) -> Option<Vec<u8>> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        (end > 0).then(|| self.0[..end].to_vec())
    }
}

impl Head {
    /// Of a request that has at least a head.
    pub(super) fn decode(request: &[u8]) -> Option<(Head, &[u8])> {
        let (head, rest) = request.split_at_checked(REQUEST_HEAD_BYTES)?;
        let mut numbers = Numbers(head.get(4..)?);
        let head =
            Head { kind: numbers.u32()?, number: numbers.u64()?, node: Node(numbers.u64()?) };
        Some((head, rest))
    }

    /// What the bytes behind the head ask; nothing, where they make no sense.
    pub(super) fn question(&self, bytes: &[u8]) -> Option<Question> {
        let mut numbers = Numbers(bytes);
        Some(match self.kind {
            1 => Question::Lookup(numbers.name()?),
            2 | 36 | 42 => Question::Remark,
            3 => Question::Attributes,
            5 => Question::LinkTarget,
            14 => Question::Open,
            27 => Question::OpenDirectory,
            18 | 29 | 25 => Question::Close,
            15 | 28 | 44 => {
                let (_handle, at, len) = (numbers.u64()?, numbers.u64()?, numbers.u32()?);
                let len = len.min(READ_BYTES_MAX);
                match self.kind {
                    15 => Question::Read { at, len },
                    kind => Question::List { after: Cookie(at), len, attributes: kind == 44 },
                }
            }
            17 => Question::Usage,
            22 => {
                let len = numbers.u32()?;
                numbers.u32()?;
                Question::Value { len, name: numbers.name()? }
            }
            23 => Question::Names { len: numbers.u32()? },
            26 => Question::Begin {
                major: numbers.u32()?,
                minor: numbers.u32()?,
                read_ahead: numbers.u32()?,
                offers: numbers.u32()?,
            },
            // Setting attributes, making, linking, removing, renaming, writing, allocating, copying.
            4 | 6 | 8..=13 | 16 | 21 | 24 | 35 | 43 | 45 | 47 | 51 => Question::Change,
            38 => Question::End,
            _ => Question::Unknown,
        })
    }
}

/// An answer, built from front to back.
#[derive(Default)]
pub(super) struct Answer(pub(super) Vec<u8>);

impl Answer {
    fn u16(&mut self, number: u16) {
        self.0.extend_from_slice(&number.to_ne_bytes());
    }

    fn u32(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_ne_bytes());
    }

    fn u64(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_ne_bytes());
    }

    fn zeros(&mut self, bytes: usize) {
        self.0.resize(self.0.len() + bytes, 0);
    }

    /// The head of an answer whose rest has so many bytes; an error has no rest.
    pub(super) fn head(number: u64, rest: Result<usize, Errno>) -> Answer {
        let mut answer = Answer::default();
        answer.u32((ANSWER_HEAD_BYTES + rest.unwrap_or(0)) as u32);
        answer.u32(rest.err().map_or(0, |errno| -errno.0) as u32);
        answer.u64(number);
        answer
    }

    /// What we agree to.
    pub(super) fn begin(minor: u32, read_ahead: u32, offers: u32) -> Answer {
        let mut answer = Answer::default();
        answer.u32(MAJOR);
        answer.u32(MINOR.min(minor));
        answer.u32(read_ahead.min(READ_BYTES_MAX));
        answer.u32(WANTED & offers);
        // How many the kernel keeps under way in the background, and when it calls itself congested.
        answer.u16(REQUESTS_MAX as u16);
        answer.u16((REQUESTS_MAX - REQUESTS_MAX / 4) as u16);
        // Bytes of a write: the least there may be.
        answer.u32(4096);
        // Nanoseconds that times are multiples of.
        answer.u32(1);
        answer.u16((READ_BYTES_MAX / 4096) as u16);
        answer.zeros(64 - answer.0.len());
        answer
    }

    /// Of a kernel whose major version is a later one: it will ask again, in ours.
    pub(super) fn begin_again() -> Answer {
        let mut answer = Answer::default();
        answer.u32(MAJOR);
        answer.u32(MINOR);
        answer.zeros(64 - answer.0.len());
        answer
    }

    fn attributes_of(&mut self, of: &Attributes) {
        self.u64(of.inode);
        self.u64(of.size.bytes());
        self.u64(of.allocated.bytes().div_ceil(512));
        let times = [of.accessed, of.modified, of.changed];
        times.iter().for_each(|time: &Timestamp| self.u64(time.seconds as u64));
        times.iter().for_each(|time| self.u32(time.nanoseconds));
        self.u32(of.kind.code() << 12 | u32::from(of.permissions & 0o7777));
        self.u32(of.links);
        self.u32(of.user);
        self.u32(of.group);
        let (major, minor) = of.device;
        self.u32(minor & 0xff | (major & 0xfff) << 8 | (minor & !0xff) << 12);
        self.u32(u32::try_from(of.block_size.bytes()).unwrap_or(u32::MAX));
        self.u32(0);
    }

    /// What is known of a node.
    pub(super) fn attributes(of: &Attributes) -> Answer {
        let mut answer = Answer::default();
        answer.u64(VALID.as_secs());
        answer.u64(0);
        answer.attributes_of(of);
        answer
    }

    fn add_looked_up(&mut self, of: Option<&Attributes>) {
        self.u64(of.map_or(0, |of| of.node.0));
        self.u64(of.map_or(0, |of| of.generation));
        self.u64(VALID.as_secs());
        self.u64(VALID.as_secs());
        self.u64(0);
        match of {
            Some(of) => self.attributes_of(of),
            None => self.zeros(LOOKED_UP_BYTES - 40),
        }
    }

    /// An entry that was looked up, or that there is none.
    pub(super) fn looked_up(of: Option<&Attributes>) -> Answer {
        let mut answer = Answer::default();
        answer.add_looked_up(of);
        answer
    }

    /// Bytes that an entry with a name of so many bytes takes in a list.
    pub(super) fn entry_bytes(name_bytes: usize, attributes: bool) -> usize {
        let looked_up = if attributes { LOOKED_UP_BYTES } else { 0 };
        looked_up + (ENTRY_HEAD_BYTES + name_bytes).next_multiple_of(8)
    }

    /// Adds an entry to a list; in one with attributes, those that are known.
    pub(super) fn add_entry(&mut self, entry: &ListEntry, attributes: Option<Option<&Attributes>>) {
        if let Some(attributes) = attributes {
            self.add_looked_up(attributes);
        }
        self.u64(entry.inode);
        self.u64(entry.cookie.0);
        self.u32(entry.name.len() as u32);
        self.u32(entry.kind.code());
        self.0.extend_from_slice(&entry.name);
        self.zeros(self.0.len().next_multiple_of(8) - self.0.len());
    }

    /// How large the file system is.
    pub(super) fn usage(of: &Usage, unit: u64, name_bytes_max: u32) -> Answer {
        let mut answer = Answer::default();
        answer.u64(of.total.bytes() / unit);
        answer.u64(of.free.bytes() / unit);
        answer.u64(of.free.bytes() / unit);
        answer.u64(of.files);
        answer.u64(of.files_free);
        answer.u32(unit as u32);
        answer.u32(name_bytes_max);
        answer.u32(unit as u32);
        answer.zeros(28);
        answer
    }

    /// How many bytes a value has.
    pub(super) fn length(bytes: u32) -> Answer {
        let mut answer = Answer::default();
        answer.u32(bytes);
        answer.u32(0);
        answer
    }

    /// Of a file that was opened: no handle, and its pages may stay in memory.
    pub(super) fn opened(is_directory: bool) -> Answer {
        let mut answer = Answer::default();
        answer.u64(0);
        answer.u32(1 << 1 | if is_directory { 1 << 3 } else { 0 });
        answer.u32(0);
        answer
    }
}

/// `.` or `..` as an entry.
pub(super) fn dot(name: &str, of: &Attributes, cookie: u64) -> ListEntry {
    let (name, kind) = (name.as_bytes().to_vec(), InodeKind::Directory);
    ListEntry { name, node: of.node, inode: of.inode, kind, cookie: Cookie(cookie) }
}

/// Whether the kernel can do without requests for opening.
pub(super) fn opens_alone(offers: u32) -> (bool, bool) {
    (offers & offers::NO_OPEN_SUPPORT != 0, offers & offers::NO_OPENDIR_SUPPORT != 0)
}
