//! Files of a pool that another process holds, for a command that reads files of its own and so can't be carried out there.
//!
//! ```text
//!   command   Files::Lent ── a call, and bytes to be written ──▶ who holds the pool: Mounted
//!                         ◀── what came of it ──
//! ```
//!
//! A call and its reply are frames: two lengths (u32, little endian), a line of JSON of the first, plain bytes of the second. One is
//! under way at a time. Calls are those of [`Inodes`] that a copy makes; the top of the tree is the root of the dataset
//! that was asked for. Where the dataset is mounted, its mount answers, so programs that look into it see what is copied, and keep
//! what they have open.
//!
//! A pool that is open in this process takes the same calls without a frame ([`Files::Own`]).

use ::zfs::mounted::Mounted;
use futures_util::future::{Either, select};
use rt::inodes::{
    Attributes, Caller, InodeError, InodeKind, Inodes, New, Node, RenameHow, SetAttributes, SetHow,
    SetTime, Timestamp, WriteAt,
};
use rt::sync::Mutex;
use rt::{Buf, BufMut, SgList, StreamError, StreamRef};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use stdx::{ByteCount, Offset};

/// Bytes of a call without what is written: two names of files, or a link's text, each byte a number with its comma.
const CALL_BYTES_MAX: u32 = 64 << 10;
/// Bytes that are written or read by one call.
pub const DATA_BYTES_MAX: u32 = 1 << 20;

/// What is done with files.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Call {
    Lookup { into: u64, name: Vec<u8> },
    Make { into: u64, name: Vec<u8>, kind: u32, device: (u32, u32), permissions: u16 },
    Directory { into: u64, name: Vec<u8>, permissions: u16 },
    Symlink { into: u64, name: Vec<u8>, text: Vec<u8> },
    Link { node: u64, into: u64, name: Vec<u8> },
    Unlink { into: u64, name: Vec<u8> },
    Rename { into: u64, from: Vec<u8>, to: Vec<u8>, replace: bool },
    Set { node: u64, set: Set },
    Write { node: u64, at: u64 },
    Read { node: u64, bytes: u32 },
    Text { node: u64 },
    Names { node: u64 },
    SetValue { node: u64, name: Vec<u8> },
    RemoveValue { node: u64, name: Vec<u8> },
}

/// What is set of a file; nothing where it stays as it is.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Set {
    /// The lower 12 bits of a mode.
    pub permissions: Option<u16>,
    /// Owner and group.
    pub owner: Option<(u32, u32)>,
    /// Its length.
    pub bytes: Option<u64>,
    /// When it was last read: seconds since 1970, nanoseconds.
    pub accessed: Option<(i64, u32)>,
    /// When its content last changed.
    pub modified: Option<(i64, u32)>,
}

/// A call, and for whom.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    by: (u32, u32),
    call: Call,
}

/// What came of a call.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Reply {
    Done,
    Entry {
        node: u64,
        kind: u32,
        bytes: u64,
        modified: (i64, u32),
        device: (u32, u32),
    },
    /// The bytes beside it.
    Bytes,
    Names(Vec<Vec<u8>>),
    Failed(#[serde(with = "Failed")] InodeError),
}

/// An [`InodeError`] on its way.
#[derive(Serialize, Deserialize)]
#[serde(remote = "InodeError", rename_all = "lowercase")]
enum Failed {
    NotFound,
    NotDirectory,
    IsDirectory,
    WrongKind,
    NoAttribute,
    Gone,
    Loop,
    NoKey,
    Damaged,
    Io,
    NotSupported,
    Exists,
    NotEmpty,
    NoSpace,
    Quota,
    ReadOnly,
    NameTooLong,
    CrossDevice,
    TooManyLinks,
    FileTooBig,
    ValueTooLong,
    NotPermitted,
    Denied,
    Invalid,
    Busy,
    BeyondEnd,
}

/// What is there under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which node.
    pub node: Node,
    /// What it is.
    pub kind: InodeKind,
    /// Its length.
    pub size: ByteCount,
    /// When its content last changed.
    pub modified: Timestamp,
    /// Major and minor number of a device.
    pub device: (u32, u32),
}

fn told(time: Timestamp) -> (i64, u32) {
    (time.seconds, time.nanoseconds)
}

fn time((seconds, nanoseconds): (i64, u32)) -> SetTime {
    SetTime::At(Timestamp { seconds, nanoseconds })
}

impl Reply {
    fn entry(of: Attributes) -> Reply {
        let Attributes { node: Node(node), kind, size, modified, device, .. } = of;
        let (kind, bytes, modified) = (kind.code(), size.bytes(), told(modified));
        Reply::Entry { node, kind, bytes, modified, device }
    }
}

type Answer<T> = Result<T, InodeError>;

/// A call carried out. The top is `root`.
async fn carry_out(
    files: &Mounted,
    root: Node,
    Asked { by: (user, group), call }: Asked,
    data: SgList,
) -> Answer<(Reply, SgList)> {
    let by = Caller { user, group, ..Caller::default() };
    let node = |number: u64| if Node(number) == Node::ROOT { root } else { Node(number) };
    let kind = |code| InodeKind::of_code(code).ok_or(InodeError::Invalid);
    let entry = |of: Attributes| (Reply::entry(of), SgList::default());
    let done = |()| (Reply::Done, SgList::default());
    let new = |permissions| New { permissions, umask: 0 };
    match call {
        Call::Lookup { into, name } => files.lookup(node(into), &name).await.map(entry),
        Call::Make { into, name, kind: code, device, permissions } => {
            let made = files.mknod(by, node(into), &name, new(permissions), kind(code)?, device);
            made.await.map(entry)
        }
        Call::Directory { into, name, permissions } => {
            files.mkdir(by, node(into), &name, new(permissions)).await.map(entry)
        }
        Call::Symlink { into, name, text } => {
            files.symlink(by, node(into), &name, &text).await.map(entry)
        }
        Call::Link { node: of, into, name } => {
            files.link(by, node(of), node(into), &name).await.map(entry)
        }
        Call::Unlink { into, name } => files.unlink(by, node(into), &name).await.map(done),
        Call::Rename { into, from, to, replace } => {
            let how = if replace { RenameHow::Replace } else { RenameHow::NoReplace };
            files.rename(by, (node(into), &from), (node(into), &to), how).await.map(done)
        }
        Call::Set { node: of, set } => {
            let set = SetAttributes {
                permissions: set.permissions,
                user: set.owner.map(|owner| owner.0),
                group: set.owner.map(|owner| owner.1),
                size: set.bytes.map(ByteCount),
                accessed: set.accessed.map(time),
                modified: set.modified.map(time),
            };
            files.setattr(by, node(of), set).await.map(entry)
        }
        Call::Write { node: of, at } => {
            let at = WriteAt::Offset(Offset(at));
            files.write(by, node(of), at, data, false).await.map(|_| done(()))
        }
        Call::Read { node: of, bytes } => {
            let len = ByteCount(bytes.min(DATA_BYTES_MAX).into());
            files.read(node(of), Offset(0), len).await.map(|bytes| (Reply::Bytes, bytes))
        }
        Call::Text { node: of } => {
            let text = files.link_target(node(of)).await?;
            Ok((Reply::Bytes, SgList::from(Buf::copy_of(&text))))
        }
        Call::Names { node: of } => {
            let names = files.extended_attributes(node(of)).await?;
            Ok((Reply::Names(names), SgList::default()))
        }
        Call::SetValue { node: of, name } => {
            let value = data.to_vec();
            let set = files.set_extended_attribute(by, node(of), &name, &value, SetHow::Any);
            set.await.map(done)
        }
        Call::RemoveValue { node: of, name } => {
            files.remove_extended_attribute(by, node(of), &name).await.map(done)
        }
    }
}

/// Reads so many bytes.
async fn exact(stream: &StreamRef, bytes: u32) -> Result<Buf, StreamError> {
    if bytes == 0 {
        return Ok(Buf::empty());
    }
    let (mut into, mut have) = (BufMut::for_overwrite(bytes as usize), 0);
    while have < into.len() {
        let count;
        (into, count) = stream.read(into, have).await?;
        if count == 0 {
            return Err(StreamError::Gone);
        }
        have += count;
    }
    Ok(into.freeze())
}

async fn receive<T: DeserializeOwned>(
    stream: &StreamRef,
    head_max: u32,
) -> Result<(T, Buf), StreamError> {
    let lengths = exact(stream, 8).await?;
    let length = |at: usize| {
        let bytes = lengths.bytes()[at..at + 4].try_into().expect("four bytes");
        u32::from_le_bytes(bytes)
    };
    let (head, data) = (length(0), length(4));
    if head > head_max || data > DATA_BYTES_MAX {
        return Err(StreamError::Protocol);
    }
    let head = exact(stream, head).await?;
    let head = serde_json::from_slice(head.bytes()).map_err(|_| StreamError::Protocol)?;
    Ok((head, exact(stream, data).await?))
}

async fn send(stream: &StreamRef, head: &impl Serialize, data: SgList) -> Result<(), StreamError> {
    let head = serde_json::to_vec(head).map_err(|_| StreamError::Protocol)?;
    let lengths = [head.len(), data.len()].map(|len| (len as u32).to_le_bytes());
    stream.write(SgList::from(Buf::copy_of(&[&lengths.concat()[..], &head].concat()))).await?;
    match data.is_empty() {
        true => Ok(()),
        false => stream.write(data).await,
    }
}

/// Carries out the calls of a command, until it goes or this ends.
pub(super) async fn serve(
    files: &Mounted,
    root: Node,
    stream: &StreamRef,
    ends: impl Future<Output = ()>,
) {
    let mut ends = pin!(ends);
    loop {
        let call = pin!(receive::<Asked>(stream, CALL_BYTES_MAX));
        let Either::Left((Ok((asked, data)), _)) = select(call, ends.as_mut()).await else {
            return;
        };
        let (reply, data) = match carry_out(files, root, asked, SgList::from(data)).await {
            Ok(answer) => answer,
            Err(error) => (Reply::Failed(error), SgList::default()),
        };
        if send(stream, &reply, data).await.is_err() {
            return;
        }
    }
}

/// Bytes of a reply: the names of a file's extended attributes, each byte a number with its comma.
const REPLY_BYTES_MAX: u32 = 1 << 20;

/// Files of another process's pool.
pub struct Lent {
    stream: StreamRef,
    /// One call at a time.
    one: Mutex<()>,
    /// The other end is gone.
    has_ended: Cell<bool>,
}

impl Lent {
    pub(super) fn over(stream: StreamRef) -> Lent {
        Lent { stream, one: Mutex::new(()), has_ended: Cell::new(false) }
    }

    async fn ask(&self, asked: &Asked, data: SgList) -> Answer<(Reply, Buf)> {
        let _one = self.one.lock().await;
        let gone = |_| {
            self.has_ended.set(true);
            InodeError::Io
        };
        send(&self.stream, asked, data).await.map_err(gone)?;
        match receive(&self.stream, REPLY_BYTES_MAX).await.map_err(gone)? {
            (Reply::Failed(error), _) => Err(error),
            reply => Ok(reply),
        }
    }
}

/// Files of a dataset that is written, here or by another process.
pub enum Files {
    /// Of a pool that is open here.
    Own(Rc<Mounted>),
    /// Of another process's.
    Lent(Lent),
}

impl Files {
    /// Whether who lent them is there no more: nothing more can be done with them.
    pub fn have_ended(&self) -> bool {
        matches!(self, Files::Lent(lent) if lent.has_ended.get())
    }

    async fn call(&self, by: Caller, call: Call, data: SgList) -> Answer<(Reply, SgList)> {
        let asked = Asked { by: (by.user, by.group), call };
        match self {
            Files::Own(files) => carry_out(files, Node::ROOT, asked, data).await,
            Files::Lent(lent) => {
                let (reply, data) = lent.ask(&asked, data).await?;
                Ok((reply, SgList::from(data)))
            }
        }
    }

    async fn entry(&self, by: Caller, call: Call) -> Answer<Entry> {
        match self.call(by, call, SgList::default()).await?.0 {
            Reply::Entry { node, kind, bytes, modified: (seconds, nanoseconds), device } => {
                let kind = InodeKind::of_code(kind).ok_or(InodeError::Io)?;
                let modified = Timestamp { seconds, nanoseconds };
                Ok(Entry { node: Node(node), kind, size: ByteCount(bytes), modified, device })
            }
            // The other end is another program.
            _ => Err(InodeError::Io),
        }
    }

    /// The entry of a name.
    ///
    /// # Errors
    /// There is none, or it can't be had.
    pub async fn lookup(&self, into: Node, name: &[u8]) -> Answer<Entry> {
        let call = Call::Lookup { into: into.0, name: name.to_vec() };
        self.entry(Caller::default(), call).await
    }

    /// Makes a plain file, pipe, socket or device of these numbers.
    ///
    /// # Errors
    /// It can't be made.
    pub async fn make(
        &self,
        by: Caller,
        (into, name): (Node, &[u8]),
        (kind, device): (InodeKind, (u32, u32)),
        permissions: u16,
    ) -> Answer<Entry> {
        let (into, name, kind) = (into.0, name.to_vec(), kind.code());
        self.entry(by, Call::Make { into, name, kind, device, permissions }).await
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// It can't be made.
    pub async fn make_directory(
        &self,
        by: Caller,
        (into, name): (Node, &[u8]),
        permissions: u16,
    ) -> Answer<Entry> {
        self.entry(by, Call::Directory { into: into.0, name: name.to_vec(), permissions }).await
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// It can't be made.
    pub async fn make_link(
        &self,
        by: Caller,
        (into, name): (Node, &[u8]),
        text: &[u8],
    ) -> Answer<Entry> {
        let (name, text) = (name.to_vec(), text.to_vec());
        self.entry(by, Call::Symlink { into: into.0, name, text }).await
    }

    /// Gives a file another name.
    ///
    /// # Errors
    /// It can't have it.
    pub async fn link(&self, by: Caller, node: Node, (into, name): (Node, &[u8])) -> Answer<Entry> {
        self.entry(by, Call::Link { node: node.0, into: into.0, name: name.to_vec() }).await
    }

    async fn done(&self, by: Caller, call: Call, data: SgList) -> Answer<()> {
        self.call(by, call, data).await.map(drop)
    }

    /// Removes a name of something that is no directory.
    ///
    /// # Errors
    /// It can't be removed.
    pub async fn unlink(&self, by: Caller, into: Node, name: &[u8]) -> Answer<()> {
        let call = Call::Unlink { into: into.0, name: name.to_vec() };
        self.done(by, call, SgList::default()).await
    }

    /// Gives an entry another name; what has it gives way only if `replace`.
    ///
    /// # Errors
    /// It can't have it.
    pub async fn rename(
        &self,
        by: Caller,
        into: Node,
        (from, to): (&[u8], &[u8]),
        replace: bool,
    ) -> Answer<()> {
        let (from, to) = (from.to_vec(), to.to_vec());
        let call = Call::Rename { into: into.0, from, to, replace };
        self.done(by, call, SgList::default()).await
    }

    /// Sets some of what is known of a file.
    ///
    /// # Errors
    /// It can't be set.
    pub async fn set(&self, by: Caller, node: Node, set: Set) -> Answer<()> {
        self.done(by, Call::Set { node: node.0, set }, SgList::default()).await
    }

    /// Writes bytes, [`DATA_BYTES_MAX`] at the most.
    ///
    /// # Errors
    /// They can't be written.
    pub async fn write(&self, by: Caller, node: Node, at: u64, data: SgList) -> Answer<()> {
        self.done(by, Call::Write { node: node.0, at }, data).await
    }

    async fn bytes(&self, call: Call) -> Answer<Vec<u8>> {
        Ok(self.call(Caller::default(), call, SgList::default()).await?.1.to_vec())
    }

    /// The first bytes of a file.
    ///
    /// # Errors
    /// They can't be read.
    pub async fn read(&self, node: Node, bytes: u32) -> Answer<Vec<u8>> {
        self.bytes(Call::Read { node: node.0, bytes }).await
    }

    /// Where a symbolic link leads.
    ///
    /// # Errors
    /// It is none, or can't be read.
    pub async fn link_text(&self, node: Node) -> Answer<Vec<u8>> {
        self.bytes(Call::Text { node: node.0 }).await
    }

    /// The names of a file's extended attributes.
    ///
    /// # Errors
    /// They can't be read.
    pub async fn extended_attributes(&self, node: Node) -> Answer<Vec<Vec<u8>>> {
        let call = Call::Names { node: node.0 };
        match self.call(Caller::default(), call, SgList::default()).await?.0 {
            Reply::Names(names) => Ok(names),
            _ => Err(InodeError::Io),
        }
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// It can't be set.
    pub async fn set_extended(
        &self,
        by: Caller,
        node: Node,
        (name, value): (&[u8], &[u8]),
    ) -> Answer<()> {
        let call = Call::SetValue { node: node.0, name: name.to_vec() };
        self.done(by, call, SgList::from(Buf::copy_of(value))).await
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// It can't be removed.
    pub async fn remove_extended(&self, by: Caller, node: Node, name: &[u8]) -> Answer<()> {
        let call = Call::RemoveValue { node: node.0, name: name.to_vec() };
        self.done(by, call, SgList::default()).await
    }
}
