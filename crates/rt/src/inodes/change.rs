//! What is asked for when a file system is changed, by whom, and how others learn of it.

use super::attributes::{Node, Timestamp};
use std::pin::Pin;
use std::rc::Rc;
use stdx::ByteCount;

/// Whether anything changes while a file system is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// Nothing: a snapshot, or what is only read.
    Never,
    /// It can be written, and tells watchers what others change.
    Told,
}

/// Who watches and asks: a mount, or nobody in particular.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MountId(pub u64);

impl MountId {
    /// Calls from within the program.
    pub const NONE: MountId = MountId(0);
}

/// For whom something is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Who will own what is made.
    pub user: u32,
    /// Its group, unless the directory says otherwise.
    pub group: u32,
    /// Whoever watches under this number knows of the change already.
    pub mount: MountId,
    /// May not keep privileges: what is written, cut or emptied loses the set-user bit and the set-group bit of a program; what gets a
    /// list of access, the set-group bit. Capabilities go with any write, whoever makes it; and here with cutting.
    pub drops_privileges: bool,
}

/// Something to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct New {
    /// The lower 12 bits of a mode.
    pub permissions: u16,
    /// Bits that the caller takes away, unless the directory has a default list of access.
    pub umask: u16,
}

/// How a node is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenNode {
    /// For writing too.
    pub write: bool,
    /// Empties the file.
    pub truncate: bool,
}

/// What becomes of an entry that is where another is to be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameHow {
    /// It is gone.
    Replace,
    /// It is kept, and nothing is moved.
    NoReplace,
    /// It takes the other's place; it must be there.
    Exchange,
}

/// A time to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// By the file system's clock.
    Now,
    /// This one.
    At(Timestamp),
}

/// What is to be set; nothing where it stays as it is. Where all stays, it is still a change: `chown` that names neither owner
/// nor group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// The lower 12 bits of a mode.
    pub permissions: Option<u16>,
    /// The owner.
    pub user: Option<u32>,
    /// The group.
    pub group: Option<u32>,
    /// The length of a plain file.
    pub size: Option<ByteCount>,
    /// When it was last read.
    pub accessed: Option<SetTime>,
    /// When its content last changed.
    pub modified: Option<SetTime>,
}

/// Where a write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteAt {
    /// There.
    Offset(stdx::Offset),
    /// Wherever the file ends when it is done, as with `O_APPEND`.
    End,
}

/// What is done to the space of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallocate {
    /// Space is taken; what is written there stays. The file grows, unless its size is kept.
    Allocate {
        /// Space beyond the end doesn't count as the file's length.
        keep_size: bool,
    },
    /// A hole: zeros without space. The size stays.
    PunchHole,
    /// Zeros, with space.
    ZeroRange {
        /// As with `Allocate`.
        keep_size: bool,
    },
}

/// What is looked for in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// Bytes that were written.
    Data,
    /// Bytes that were not.
    Hole,
}

/// What is to be durable of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fsync {
    /// Data, and what is needed to find it.
    Data,
    /// All that is known of it.
    All,
}

/// How an extended attribute is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetHow {
    /// Whether it is there or not.
    Any,
    /// It is not there yet.
    Create,
    /// It is there.
    Replace,
}

/// Something that is no longer as it was.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeNotice {
    /// What is known of a node.
    Attributes(Node),
    /// Its bytes or entries, and with them what is known of it.
    Content(Node),
    /// What a name in a directory leads to.
    Entry {
        /// The directory.
        directory: Node,
        /// The name.
        name: Vec<u8>,
    },
}

/// Who keeps answers, and so must hear when they are no longer true.
pub trait Watcher {
    /// Something was changed by another. It is called in the midst of the change: nothing may be asked here.
    fn changed(&self, notice: ChangeNotice);

    /// Ends when who is to hear of it has heard of all changes, or is gone.
    fn passed_on(self: Rc<Self>) -> Pin<Box<dyn Future<Output = ()>>>;
}
