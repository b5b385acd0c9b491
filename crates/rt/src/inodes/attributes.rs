//! What file systems tell of themselves: nodes, what is known of one, entries of directories, space.

use stdx::ByteCount;

/// A file, directory or something else of a file system, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(pub u64);

impl Node {
    /// The directory at the top.
    pub const ROOT: Node = Node(1);
}

/// A place in a directory: behind an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cookie(pub u64);

impl Cookie {
    /// Before all entries.
    pub const START: Cookie = Cookie(0);
    /// The least that an entry may have: those before are for `.` and `..`.
    pub const FIRST: Cookie = Cookie(3);
}

/// What a node is, as `S_IFMT` of its mode tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InodeKind {
    /// A plain file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A block device.
    BlockDevice,
    /// A character device.
    CharacterDevice,
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
}

impl InodeKind {
    /// The kind's number in directories (`DT_REG`, …); four bits to the left, that in a mode.
    pub fn code(self) -> u32 {
        match self {
            InodeKind::Pipe => 1,
            InodeKind::CharacterDevice => 2,
            InodeKind::Directory => 4,
            InodeKind::BlockDevice => 6,
            InodeKind::File => 8,
            InodeKind::Link => 10,
            InodeKind::Socket => 12,
        }
    }

    /// The kind of this number.
    pub fn of_code(code: u32) -> Option<InodeKind> {
        Some(match code {
            1 => InodeKind::Pipe,
            2 => InodeKind::CharacterDevice,
            4 => InodeKind::Directory,
            6 => InodeKind::BlockDevice,
            8 => InodeKind::File,
            10 => InodeKind::Link,
            12 => InodeKind::Socket,
            _ => return None,
        })
    }
}

/// A moment by the calendar's clock, since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Whole seconds; before 1970 below zero.
    pub seconds: i64,
    /// The rest, below 10⁹.
    pub nanoseconds: u32,
}

impl Timestamp {
    /// Whole seconds from an earlier moment to this one; below zero if it is a later one.
    pub fn seconds_since(self, earlier: Timestamp) -> i64 {
        self.seconds.saturating_sub(earlier.seconds)
    }
}

/// The calendar's clock, which nothing below `host` has of its own.
pub trait WallClock {
    /// This moment.
    fn now(&self) -> Timestamp;
}

/// What is known of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Which node.
    pub node: Node,
    /// The number that people see.
    pub inode: u64,
    /// Tells a file from an earlier one of the same number.
    pub generation: u64,
    /// What it is.
    pub kind: InodeKind,
    /// Permissions, set-user, set-group and sticky bit: the lower 12 bits of a mode.
    pub permissions: u16,
    /// How many names it has.
    pub links: u32,
    /// Its owner.
    pub user: u32,
    /// Its group.
    pub group: u32,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// Its length.
    pub size: ByteCount,
    /// Space that it takes.
    pub allocated: ByteCount,
    /// The unit in which it is best read.
    pub block_size: ByteCount,
    /// When it was last read.
    pub accessed: Timestamp,
    /// When its content last changed.
    pub modified: Timestamp,
    /// When anything about it last changed.
    pub changed: Timestamp,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListEntry {
    /// Its name.
    pub name: Vec<u8>,
    /// What it leads to.
    pub node: Node,
    /// The number that people see.
    pub inode: u64,
    /// What that is.
    pub kind: InodeKind,
    /// The place behind it.
    pub cookie: Cookie,
}

/// How much of a file system is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes in all.
    pub total: ByteCount,
    /// Bytes free.
    pub free: ByteCount,
    /// Files that there are and could be.
    pub files: u64,
    /// Files that could be made.
    pub files_free: u64,
}
