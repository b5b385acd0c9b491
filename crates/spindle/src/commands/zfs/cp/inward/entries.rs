//! What a copy does with entries of a dataset: looked up, made, put in the place of others; and what ends it.

use super::super::tally::{Rules, Stop, Tally, Trouble};
use ::host::directory::EntryKind;
use ::host::reading::{self, Known};
use attach::pools::running::files::{Entry, Files, Set};
use rt::Rt;
use rt::inodes::{Caller, InodeError, InodeKind, Node, Timestamp};
use std::cell::RefCell;
use std::rc::Rc;

/// What those may that are made before their attributes are known.
const FRESH: u16 = 0o600;
/// The same of directories.
const FRESH_DIRECTORY: u16 = 0o700;

/// Why a name is not taken.
const NOT_UTF8: &str = "its name is not UTF-8, and the dataset takes no other names (utf8only or normalization is set): rename it, or copy \
    it into another dataset";

/// Why the whole copy is to end, once it is.
#[derive(Default)]
pub(super) struct End(RefCell<Option<Stop>>);

impl End {
    /// It is to end; the first reason counts.
    pub(super) fn set(&self, stop: Stop) {
        self.0.borrow_mut().get_or_insert(stop);
    }

    /// # Errors
    /// It is to end.
    pub(super) fn check(&self) -> Result<(), Trouble> {
        match self.0.borrow_mut().take() {
            Some(stop) => Err(Trouble::Stop(stop)),
            None => Ok(()),
        }
    }
}

/// The entries of a dataset, for who copies into it.
pub(super) struct Entries {
    pub(super) files: Files,
    pub(super) tally: Rc<Tally>,
    pub(super) rules: Rules,
    pub(super) by: Caller,
    pub(super) rt: Rt,
    end: Rc<End>,
}

pub(super) fn kind_of(kind: EntryKind) -> Option<InodeKind> {
    Some(match kind {
        EntryKind::File => InodeKind::File,
        EntryKind::Directory => InodeKind::Directory,
        EntryKind::SymbolicLink => InodeKind::Link,
        EntryKind::Fifo => InodeKind::Pipe,
        EntryKind::Socket => InodeKind::Socket,
        EntryKind::CharacterDevice => InodeKind::CharacterDevice,
        EntryKind::BlockDevice => InodeKind::BlockDevice,
        EntryKind::Other => return None,
    })
}

pub(super) fn moment((seconds, nanoseconds): (i64, u32)) -> Timestamp {
    Timestamp { seconds, nanoseconds }
}

impl Entries {
    pub(super) fn new(
        files: Files,
        tally: Rc<Tally>,
        rules: Rules,
        end: &Rc<End>,
        rt: &Rt,
    ) -> Entries {
        let (user, group) = reading::process_owner();
        let by = Caller { user, group, ..Caller::default() };
        Entries { files, tally, rules, by, rt: rt.clone(), end: Rc::clone(end) }
    }

    /// # Errors
    /// The copy is to end.
    pub(super) fn check(&self) -> Result<(), Trouble> {
        self.end.check()
    }

    /// Lets others run: who commits groups, and who hears of signals. What is copied may never have to wait for anything else.
    ///
    /// # Errors
    /// The copy is to end.
    pub(super) async fn pause(&self) -> Result<(), Trouble> {
        self.rt.yield_now().await;
        self.check()
    }

    /// What it means for the copy that something can't be done.
    pub(super) fn trouble(&self, error: InodeError) -> Trouble {
        match error {
            InodeError::NoSpace | InodeError::Quota => {
                Trouble::Stop(Stop::Full(self.tally.full(&error)))
            }
            // A pool that is not written any more says why by the task that writes it.
            InodeError::Io if self.files.have_ended() => {
                let text = "who holds the pool has ended: the same command goes on";
                Trouble::Stop(Stop::Ended(text.to_owned()))
            }
            InodeError::Io => match self.check() {
                Ok(()) => Trouble::Failed(error.to_string()),
                Err(stop) => stop,
            },
            other => Trouble::Failed(other.to_string()),
        }
    }

    /// The same of an entry of this name.
    fn trouble_with(&self, name: &[u8], error: InodeError) -> Trouble {
        match error {
            InodeError::Invalid if std::str::from_utf8(name).is_err() => {
                Trouble::Failed(NOT_UTF8.to_owned())
            }
            error => self.trouble(error),
        }
    }

    pub(super) async fn look(&self, into: Node, name: &[u8]) -> Result<Option<Entry>, Trouble> {
        match self.files.lookup(into, name).await {
            Ok(found) => Ok(Some(found)),
            Err(InodeError::NotFound) => Ok(None),
            Err(error) => Err(self.trouble_with(name, error)),
        }
    }

    /// Makes a plain file, pipe, socket or device node; what has the name gives way.
    pub(super) async fn make(
        &self,
        into: Node,
        name: &[u8],
        kind: InodeKind,
        device: (u32, u32),
    ) -> Result<Node, Trouble> {
        self.remove_if_there(into, name).await?;
        let made = self.files.make(self.by, (into, name), (kind, device), FRESH).await;
        made.map(|made| made.node).map_err(|error| self.trouble_with(name, error))
    }

    pub(super) async fn make_link(
        &self,
        into: Node,
        name: &[u8],
        text: &[u8],
    ) -> Result<Node, Trouble> {
        self.remove_if_there(into, name).await?;
        let made = self.files.make_link(self.by, (into, name), text).await;
        made.map(|made| made.node).map_err(|error| self.trouble_with(name, error))
    }

    pub(super) async fn make_directory(&self, into: Node, name: &[u8]) -> Result<Node, Trouble> {
        let made = self.files.make_directory(self.by, (into, name), FRESH_DIRECTORY).await;
        made.map(|made| made.node).map_err(|error| self.trouble_with(name, error))
    }

    /// A directory of this name, made if it is not there.
    pub(super) async fn entered(&self, into: Node, name: &[u8]) -> Result<Node, Trouble> {
        match self.look(into, name).await? {
            None => self.make_directory(into, name).await,
            Some(there) if there.kind == InodeKind::Directory => Ok(there.node),
            Some(_) => Err(Trouble::Failed("there is something else in the target".into())),
        }
    }

    pub(super) async fn remove_if_there(&self, into: Node, name: &[u8]) -> Result<(), Trouble> {
        match self.files.unlink(self.by, into, name).await {
            Ok(()) | Err(InodeError::NotFound) => Ok(()),
            Err(error) => Err(self.trouble_with(name, error)),
        }
    }

    /// Gives what was made its own name; what has it gives way only if `replace`.
    pub(super) async fn rename(
        &self,
        into: Node,
        from: &[u8],
        to: &[u8],
        replace: bool,
    ) -> Result<(), Trouble> {
        let renamed = self.files.rename(self.by, into, (from, to), replace).await;
        renamed.map_err(|error| self.trouble_with(to, error))
    }

    /// Sets owner, mode and times.
    pub(super) async fn set(&self, node: Node, known: &Known) -> Result<(), Trouble> {
        let is_link = known.kind == EntryKind::SymbolicLink;
        let permissions = match self.rules.no_setuid {
            true => known.permissions & 0o1777,
            false => known.permissions,
        };
        let set = Set {
            permissions: (!is_link).then_some(permissions),
            owner: Some(known.owner),
            bytes: None,
            accessed: Some(known.accessed),
            modified: Some(known.modified),
        };
        let set = self.files.set(self.by, node, set).await;
        set.map_err(|error| self.trouble(error))
    }
}
