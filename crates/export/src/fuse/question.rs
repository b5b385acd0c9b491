//! Requests as they arrive: who asks, and what. All in the machine's own byte order.

use super::limits::{READ_BYTES_MAX, WRITE_HEAD_BYTES};
use super::protocol::{self, Agreed, DIRECT};
use rt::inodes::{
    Caller, Fallocate, Fsync, InodeKind, MountId, New, OpenNode, RenameHow, Seek, SetAttributes,
    SetHow, SetTime,
};
use rt::{Buf, Cookie, Node, SgList, Timestamp};
use stdx::{ByteCount, Offset};

/// Bytes of a request's head: length, kind, number, node, who asks.
pub(super) const REQUEST_HEAD_BYTES: usize = 40;
/// Behind the last byte that a file of Linux can have.
const PLACE_END: u64 = 1 << 63;

/// Who asks what: the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    kind: u32,
    /// The number that the answer bears.
    pub(super) number: u64,
    /// What it is about.
    pub(super) node: Node,
    user: u32,
    group: u32,
}

/// What is asked.
#[derive(Clone, Debug)]
pub(super) enum Question {
    Begin {
        major: u32,
        minor: u32,
        read_ahead: u32,
        offers: u64,
    },
    Lookup(Vec<u8>),
    Attributes,
    LinkTarget,
    Open {
        how: OpenNode,
        /// Nothing is read by this opening.
        only_writes: bool,
        drops: Drops,
    },
    OpenDirectory,
    /// Of a file or directory that was opened, and answered with this handle.
    Close(u64),
    /// Of one of several that use the same open file: nothing is left to do then.
    Flush,
    Read {
        at: Offset,
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
    Seek(Offset, Seek),
    Fsync(Fsync),
    Sync,
    Change(Change),
    /// What needs no answer.
    Remark,
    End,
    Unknown,
}

/// Whether the caller may not keep privileges: the kernel knows, and says so of some requests.
pub(super) type Drops = bool;

/// What is to be changed.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Create {
        name: Vec<u8>,
        new: New,
        exclusive: bool,
        open: OpenNode,
        only_writes: bool,
        drops: Drops,
    },
    CreateUnnamed(New),
    Mkdir(Vec<u8>, New),
    Mknod {
        name: Vec<u8>,
        new: New,
        kind: InodeKind,
        device: (u32, u32),
    },
    Symlink {
        name: Vec<u8>,
        target: Vec<u8>,
    },
    /// The node, and its new name in the directory.
    Link(Node, Vec<u8>),
    Unlink(Vec<u8>),
    Rmdir(Vec<u8>),
    Rename {
        name: Vec<u8>,
        to: Node,
        to_name: Vec<u8>,
        how: RenameHow,
    },
    Attributes(SetAttributes, Drops),
    Write {
        at: Offset,
        data: SgList,
        /// It is to be durable when it is answered.
        durable: bool,
        /// It comes past the kernel's cache.
        is_direct: bool,
        drops: Drops,
    },
    Fallocate {
        at: Offset,
        len: ByteCount,
        what: Fallocate,
    },
    /// With a wide answer or a narrow one.
    Copy {
        at: Offset,
        to: (Node, Offset),
        len: ByteCount,
        is_wide: bool,
    },
    SetValue {
        name: Vec<u8>,
        value: Vec<u8>,
        how: SetHow,
        drops: Drops,
    },
    RemoveValue(Vec<u8>),
    /// A form of it that no file system here has.
    Unheard,
}

/// A request's numbers, from front to back.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
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

    /// A place in a file.
    fn place(&mut self) -> Option<Offset> {
        self.u64().filter(|at| *at < PLACE_END).map(Offset)
    }

    /// How many bytes of one.
    fn count(&mut self) -> Option<ByteCount> {
        self.u64().filter(|len| *len < PLACE_END).map(ByteCount)
    }

    /// Text that ends with a zero, and isn't empty.
    fn text(&mut self) -> Option<Vec<u8>> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let (text, rest) = self.0.split_at(end);
        self.0 = &rest[1..];
        (end > 0).then(|| text.to_vec())
    }

    /// A name for something that is to be made or removed.
    fn name(&mut self) -> Option<Vec<u8>> {
        self.text().filter(|name| !name.contains(&b'/') && name != b"." && name != b"..")
    }

    /// A mode, and the bits to take from it.
    fn mode(&mut self) -> Option<New> {
        let (mode, umask) = (self.u32()?, self.u32()?);
        Some(New { permissions: (mode & 0o7777) as u16, umask: (umask & 0o777) as u16 })
    }

    fn create(&mut self) -> Option<Change> {
        let flags = self.u32()?;
        let new = self.mode()?;
        let drops = self.u32()? & 1 != 0;
        let exclusive = flags & O_EXCL != 0;
        let (open, only_writes) = (open(flags), only_writes(flags));
        Some(Change::Create { name: self.name()?, new, exclusive, open, only_writes, drops })
    }

    fn mknod(&mut self) -> Option<Change> {
        let (mode, device, umask, _) = (self.u32()?, self.u32()?, self.u32()?, self.u32()?);
        let kind = InodeKind::of_code(mode >> 12).or((mode >> 12 == 0).then_some(InodeKind::File));
        let new = New { permissions: (mode & 0o7777) as u16, umask: (umask & 0o777) as u16 };
        let device = (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xfff00);
        Some(Change::Mknod { name: self.name()?, new, kind: kind?, device })
    }

    fn rename(&mut self, has_flags: bool) -> Option<Change> {
        let to = Node(self.u64()?);
        let flags = if has_flags { self.u64()? as u32 } else { 0 };
        let (name, to_name) = (self.name()?, self.name()?);
        let how = match flags {
            0 => RenameHow::Replace,
            1 => RenameHow::NoReplace,
            2 => RenameHow::Exchange,
            _ => return None,
        };
        Some(Change::Rename { name, to, to_name, how })
    }

    fn setattr(&mut self) -> Option<Change> {
        let valid = self.u64()? as u32;
        let (_handle, size, _owner) = (self.u64()?, self.u64()?, self.u64()?);
        let mut seconds = || self.u64();
        let [accessed, modified, _changed] = [seconds()?, seconds()?, seconds()?];
        let mut number = || self.u32();
        let [accessed_ns, modified_ns, _changed_ns] = [number()?, number()?, number()?];
        let [mode, _, user, group] = [number()?, number()?, number()?, number()?];
        let is = |bit: u32| valid & 1 << bit != 0;
        let time = |bit, now, seconds, nanoseconds| match (is(now), is(bit)) {
            (true, _) => Some(Some(SetTime::Now)),
            (false, true) if nanoseconds >= 1_000_000_000 => None,
            (false, true) => {
                Some(Some(SetTime::At(Timestamp { seconds: seconds as i64, nanoseconds })))
            }
            (false, false) => Some(None),
        };
        let set = SetAttributes {
            permissions: is(0).then_some((mode & 0o7777) as u16),
            user: is(1).then_some(user),
            group: is(2).then_some(group),
            size: is(3).then_some(ByteCount(size)),
            accessed: time(4, 7, accessed, accessed_ns)?,
            modified: time(5, 8, modified, modified_ns)?,
        };
        Some(Change::Attributes(set, is(11)))
    }

    fn fallocate(&mut self) -> Option<Change> {
        let (_handle, at, len, mode) = (self.u64()?, self.place()?, self.count()?, self.u32()?);
        let keep_size = mode & 1 != 0;
        let what = match mode {
            0 | 1 => Fallocate::Allocate { keep_size },
            3 => Fallocate::PunchHole,
            0x10 | 0x11 => Fallocate::ZeroRange { keep_size },
            _ => return Some(Change::Unheard),
        };
        Some(Change::Fallocate { at, len, what })
    }

    fn copy(&mut self, is_wide: bool) -> Option<Change> {
        let (_handle, at, to, _to_handle) = (self.u64()?, self.place()?, self.u64()?, self.u64()?);
        let (to_at, len, flags) = (self.place()?, self.count()?, self.u64()?);
        let to = (Node(to), to_at);
        Some(match flags {
            0 => Change::Copy { at, to, len, is_wide },
            _ => Change::Unheard,
        })
    }

    fn set_value(&mut self, agreed: Agreed) -> Option<Change> {
        let (len, flags) = (self.u32()? as usize, self.u32()?);
        let drops = agreed.has_long_setxattr() && self.u64()? as u32 & 1 != 0;
        let name = self.text()?;
        let how = match flags {
            0 => SetHow::Any,
            1 => SetHow::Create,
            2 => SetHow::Replace,
            _ => return None,
        };
        let value = self.0.get(..len)?.to_vec();
        Some(Change::SetValue { name, value, how, drops })
    }
}

const O_ACCMODE: u32 = 3;
const O_WRONLY: u32 = 1;
const O_EXCL: u32 = 0o200;
/// Of `O_SYNC` too.
const O_DSYNC: u32 = 0o10000;
const O_TRUNC: u32 = 0o1000;

fn open(flags: u32) -> OpenNode {
    OpenNode { write: flags & O_ACCMODE != 0, truncate: flags & O_TRUNC != 0 }
}

fn only_writes(flags: u32) -> bool {
    flags & O_ACCMODE == O_WRONLY
}

impl Head {
    /// Of a request that has at least a head.
    pub(super) fn decode(request: &[u8]) -> Option<Head> {
        let mut numbers = Numbers(request.get(4..REQUEST_HEAD_BYTES)?);
        Some(Head {
            kind: numbers.u32()?,
            number: numbers.u64()?,
            node: Node(numbers.u64()?),
            user: numbers.u32()?,
            group: numbers.u32()?,
        })
    }

    /// For whom it is done.
    pub(super) fn caller(&self, mount: MountId, drops_privileges: bool) -> Caller {
        Caller { user: self.user, group: self.group, mount, drops_privileges }
    }

    /// The same where the kernel doesn't say whether privileges go: whoever isn't root loses them.
    pub(super) fn caller_by_user(&self, mount: MountId) -> Caller {
        self.caller(mount, self.user != 0)
    }

    /// What a request asks; nothing, where it makes no sense.
    pub(super) fn question(&self, request: &Buf, agreed: Agreed) -> Option<Question> {
        let mut numbers = Numbers(request.bytes().get(REQUEST_HEAD_BYTES..)?);
        let change = match self.kind {
            4 => numbers.setattr()?,
            6 => Change::Symlink { name: numbers.name()?, target: numbers.text()? },
            8 => numbers.mknod()?,
            9 => {
                let new = numbers.mode()?;
                Change::Mkdir(numbers.name()?, new)
            }
            10 => Change::Unlink(numbers.name()?),
            11 => Change::Rmdir(numbers.name()?),
            12 => numbers.rename(false)?,
            13 => Change::Link(Node(numbers.u64()?), numbers.name()?),
            16 => self.write(&mut numbers, request)?,
            21 => numbers.set_value(agreed)?,
            24 => Change::RemoveValue(numbers.text()?),
            35 => numbers.create()?,
            43 => numbers.fallocate()?,
            45 => numbers.rename(true)?,
            47 => numbers.copy(false)?,
            51 => {
                numbers.u32()?;
                Change::CreateUnnamed(numbers.mode()?)
            }
            53 => numbers.copy(true)?,
            _ => return self.other_question(numbers),
        };
        Some(Question::Change(change))
    }

    fn write(&self, numbers: &mut Numbers<'_>, request: &Buf) -> Option<Change> {
        let (handle, at) = (numbers.u64()?, numbers.place()?);
        let (len, flags) = (numbers.u32()? as usize, numbers.u32()?);
        let (_owner, opened) = (numbers.u64()?, numbers.u32()?);
        let from = WRITE_HEAD_BYTES;
        let end = from.checked_add(len).filter(|end| *end <= request.len())?;
        // What the kernel's cache writes is nobody's any more; what could be taken was taken before.
        let drops = flags & 1 << 2 != 0;
        // Elsewhere the kernel asks for it, once a write is done.
        let is_direct = handle == DIRECT;
        let (durable, data) = (is_direct && opened & O_DSYNC != 0, request.slice(from..end).into());
        Some(Change::Write { at, data, durable, is_direct, drops })
    }

    /// What changes nothing.
    fn other_question(&self, mut numbers: Numbers<'_>) -> Option<Question> {
        Some(match self.kind {
            1 => Question::Lookup(numbers.text()?),
            2 | 36 | 42 => Question::Remark,
            3 => Question::Attributes,
            5 => Question::LinkTarget,
            14 => {
                let (flags, more) = (numbers.u32()?, numbers.u32()?);
                let (how, only_writes) = (open(flags), only_writes(flags));
                Question::Open { how, only_writes, drops: more & 1 != 0 }
            }
            27 => Question::OpenDirectory,
            18 | 29 => Question::Close(numbers.u64()?),
            25 => Question::Flush,
            15 | 28 | 44 => {
                let (_handle, at, len) = (numbers.u64()?, numbers.place()?, numbers.u32()?);
                let len = len.min(READ_BYTES_MAX);
                match self.kind {
                    15 => Question::Read { at, len },
                    kind => {
                        Question::List { after: Cookie(at.bytes()), len, attributes: kind == 44 }
                    }
                }
            }
            17 => Question::Usage,
            20 | 30 => {
                let (_handle, flags) = (numbers.u64()?, numbers.u32()?);
                Question::Fsync(if flags & 1 != 0 { Fsync::Data } else { Fsync::All })
            }
            22 => {
                let len = numbers.u32()?;
                numbers.u32()?;
                Question::Value { len, name: numbers.text()? }
            }
            23 => Question::Names { len: numbers.u32()? },
            26 => {
                let (major, minor, read_ahead) = (numbers.u32()?, numbers.u32()?, numbers.u32()?);
                let offers = u64::from(numbers.u32()?);
                // Older kernels have no second word.
                let more = if protocol::has_more(offers) { numbers.u32().unwrap_or(0) } else { 0 };
                let offers = offers | u64::from(more) << 32;
                Question::Begin { major, minor, read_ahead, offers }
            }
            46 => {
                let (_handle, at) = (numbers.u64()?, numbers.place()?);
                match numbers.u32()? {
                    3 => Question::Seek(at, Seek::Data),
                    4 => Question::Seek(at, Seek::Hole),
                    _ => return None,
                }
            }
            50 => Question::Sync,
            38 => Question::End,
            _ => Question::Unknown,
        })
    }
}
