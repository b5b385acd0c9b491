//! Answers as they leave, built from front to back, and what the kernel is told unasked. All in the machine's own byte order.

use super::limits::{READ_BYTES_MAX, REQUESTS_MAX, WRITE_BYTES_MAX, WRITE_HEAD_BYTES};
use super::protocol::{Agreed, DIRECT, Errno, MAJOR, MINOR};
use rt::inodes::ChangeNotice;
use rt::{Attributes, Cookie, InodeKind, ListEntry, Timestamp, Usage};
use std::time::Duration;

/// Bytes of an answer's head: length, error, number.
const ANSWER_HEAD_BYTES: usize = 16;
/// Bytes of an entry of a directory before its name.
const ENTRY_HEAD_BYTES: usize = 24;
/// Bytes of what is known of a looked-up node.
const LOOKED_UP_BYTES: usize = 128;
/// Room for the numbers of a write, and more.
const PAGE: usize = 4096;
/// What the kernel may no longer believe, by the kind of the message.
const INVAL_INODE: u32 = 2;
const INVAL_ENTRY: u32 = 3;

/// How long the kernel may believe an answer about a name.
#[derive(Clone, Copy)]
pub(super) struct Valid {
    /// Where the name leads.
    pub(super) entry: Duration,
    /// What is known of the node there.
    pub(super) attributes: Duration,
}

/// How the kernel is to go on with what it opened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Opened {
    /// What is written goes past the cache.
    pub(super) is_direct: bool,
    /// What memory holds of it may stay.
    pub(super) is_kept: bool,
    /// A directory's entries may be kept in memory.
    pub(super) is_cached_directory: bool,
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
    pub(super) fn begin(
        minor: u32,
        read_ahead: u32,
        agreed: Agreed,
        request_bytes_max: usize,
    ) -> Answer {
        let mut answer = Answer::default();
        answer.u32(MAJOR);
        answer.u32(MINOR.min(minor));
        answer.u32(read_ahead.min(READ_BYTES_MAX));
        answer.u32(agreed.flags() as u32);
        // How many the kernel keeps under way in the background, and when it calls itself congested.
        answer.u16(REQUESTS_MAX as u16);
        answer.u16((REQUESTS_MAX - REQUESTS_MAX / 4) as u16);
        // A write must fit into the memory that is read into, or the kernel gives no request at all.
        let write = request_bytes_max.saturating_sub(WRITE_HEAD_BYTES);
        let write = write.clamp(PAGE, WRITE_BYTES_MAX as usize);
        answer.u32(write as u32);
        // Nanoseconds that times are multiples of.
        answer.u32(1);
        answer.u16((READ_BYTES_MAX / 4096) as u16);
        answer.u16(0);
        answer.u32((agreed.flags() >> 32) as u32);
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
    pub(super) fn attributes(of: &Attributes, valid: Duration) -> Answer {
        let mut answer = Answer::default();
        answer.u64(valid.as_secs());
        answer.u64(0);
        answer.attributes_of(of);
        answer
    }

    fn add_looked_up(&mut self, of: Option<&Attributes>, valid: Valid) {
        self.u64(of.map_or(0, |of| of.node.0));
        self.u64(of.map_or(0, |of| of.generation));
        self.u64(valid.entry.as_secs());
        self.u64(valid.attributes.as_secs());
        self.u64(0);
        match of {
            Some(of) => self.attributes_of(of),
            None => self.zeros(LOOKED_UP_BYTES - 40),
        }
    }

    /// An entry that was looked up, or that there is none.
    pub(super) fn looked_up(of: Option<&Attributes>, valid: Valid) -> Answer {
        let mut answer = Answer::default();
        answer.add_looked_up(of, valid);
        answer
    }

    /// Bytes that an entry with a name of so many bytes takes in a list.
    pub(super) fn entry_bytes(name_bytes: usize, attributes: bool) -> usize {
        let looked_up = if attributes { LOOKED_UP_BYTES } else { 0 };
        looked_up + (ENTRY_HEAD_BYTES + name_bytes).next_multiple_of(8)
    }

    /// Adds an entry to a list; in one with attributes, those that are known.
    pub(super) fn add_entry(
        &mut self,
        entry: &ListEntry,
        attributes: Option<Option<&Attributes>>,
        valid: Valid,
    ) {
        if let Some(attributes) = attributes {
            self.add_looked_up(attributes, valid);
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

    /// Of a file or directory that was opened.
    pub(super) fn opened(opened: Opened) -> Answer {
        let mut answer = Answer::default();
        answer.add_opened(opened);
        answer
    }

    fn add_opened(&mut self, opened: Opened) {
        let Opened { is_direct, is_kept, is_cached_directory } = opened;
        let flag = |is: bool, bit: u32| u32::from(is) << bit;
        self.u64(if is_direct { DIRECT } else { 0 });
        self.u32(flag(is_direct, 0) | flag(is_kept, 1) | flag(is_cached_directory, 3));
        self.u32(0);
    }

    /// Of a file that was made and opened.
    pub(super) fn created(of: &Attributes, valid: Valid, opened: Opened) -> Answer {
        let mut answer = Answer::looked_up(Some(of), valid);
        answer.add_opened(opened);
        answer
    }

    /// A place in a file, or how many bytes were copied.
    pub(super) fn place(at: u64) -> Answer {
        let mut answer = Answer::default();
        answer.u64(at);
        answer
    }

    /// Told unasked: these bytes of a file are others than memory holds.
    pub(super) fn written(node: rt::Node, at: u64, len: u64) -> Answer {
        let mut rest = Answer::default();
        [node.0, at, len].into_iter().for_each(|number| rest.u64(number));
        rest.unasked(INVAL_INODE)
    }

    /// Something that is told unasked.
    pub(super) fn notice(notice: &ChangeNotice) -> Answer {
        let mut rest = Answer::default();
        let mut inode = |node: rt::Node, from: i64| {
            rest.u64(node.0);
            rest.u64(from as u64);
            rest.u64(0);
            INVAL_INODE
        };
        let kind = match notice {
            // Below zero: no bytes of it.
            ChangeNotice::Attributes(node) => inode(*node, -1),
            ChangeNotice::Content(node) => inode(*node, 0),
            ChangeNotice::Entry { directory, name } => {
                rest.u64(directory.0);
                rest.u32(name.len() as u32);
                rest.u32(0);
                rest.0.extend_from_slice(name);
                rest.0.push(0);
                INVAL_ENTRY
            }
        };
        rest.unasked(kind)
    }

    /// What is told, behind a head of this kind.
    fn unasked(mut self, kind: u32) -> Answer {
        let mut answer = Answer::default();
        answer.u32((ANSWER_HEAD_BYTES + self.0.len()) as u32);
        answer.u32(kind);
        answer.u64(0);
        answer.0.append(&mut self.0);
        answer
    }
}

/// `.` or `..` as an entry.
pub(super) fn dot(name: &str, of: &Attributes, cookie: u64) -> ListEntry {
    let (name, kind) = (name.as_bytes().to_vec(), InodeKind::Directory);
    ListEntry { name, node: of.node, inode: of.inode, kind, cookie: Cookie(cookie) }
}
