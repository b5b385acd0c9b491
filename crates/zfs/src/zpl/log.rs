//! What each change of files leaves in the intent log: the other side of [`replay`](super::replay).
//!
//! A change logs what it was, in the same step in which it is made. Names are logged in order, for all; bytes, lengths and
//! attributes wait until somebody wants their file durable ([`crate::zil::Itx`]).
//!
//! A file that has no name is not logged: nobody finds it after a crash. Times of access and those that follow from a change are not
//! logged either, a replay sets them.
//!
//! **What no record says** that every OpenZFS since 0.8 knows, makes a durable write commit the group: an exchange of two names, a file
//! that gets its first name late. (2.2 has a record for the first. A pool that was left with it could not be replayed by 2.1.)
//!
//! **Extended attributes**, with lists of access, have a record where the pool has enabled `zilsaxattr`; elsewhere they are of those that
//! no record says. So are those that were files of a hidden directory, and values that are longer than a replay of OpenZFS takes.
//!
//! Source: OpenZFS, `zfs_log.c`.

use super::attributes::Moment;
use super::change::{NewFile, Work};
use crate::dmu::Step;
use crate::zil::{Itx, What};
use stdx::planted::{self, Bug};
use zfs_format::zil::record::{
    Body, Create, CreateExtras, CreateKind, Link, Remove, Rename, SetAttributes,
    SetExtendedAttribute, Truncate,
};
use zfs_format::zpl::directory::FileKind;

/// Where a record of something new has the slots of its dnode, less one.
pub(super) const SLOTS_SHIFT: u32 = 56;

/// Bytes of a value that OpenZFS takes from a record.
const VALUE_BYTES_MAX: usize = 32 << 10;

/// Marks of [`Body::SetAttributes`], as Linux has them.
pub(super) mod set {
    pub(in super::super) const MODE: u64 = 1;
    pub(in super::super) const USER: u64 = 2;
    pub(in super::super) const GROUP: u64 = 4;
    pub(in super::super) const SIZE: u64 = 8;
    pub(in super::super) const ACCESSED: u64 = 16;
    pub(in super::super) const MODIFIED: u64 = 32;
    /// Optional attributes follow.
    pub(in super::super) const OPTIONAL: u64 = 1 << 31;
}

/// Attributes that were set, as they are now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LoggedAttributes {
    pub(crate) mode: Option<u64>,
    pub(crate) user: Option<u64>,
    pub(crate) group: Option<u64>,
    pub(crate) size: Option<u64>,
    pub(crate) accessed: Option<Moment>,
    pub(crate) modified: Option<Moment>,
}

fn texts(all: &[&[u8]]) -> Vec<u8> {
    all.iter().flat_map(|text| text.iter().copied().chain([0])).collect()
}

impl Work<'_> {
    fn intend(&mut self, object: u64, waits: bool, body: Body, data: Vec<u8>) {
        let what = What::Record(Box::new((body, data)));
        self.intents.push(Itx { object, waits, what });
    }

    /// No record says what was changed.
    pub(crate) fn log_whole(&mut self, object: u64) {
        self.intents.push(Itx { object, waits: false, what: What::Whole });
    }

    /// An extended attribute was set, or one that was there was taken away.
    ///
    /// # Errors
    /// What is needed is not in memory.
    pub(crate) fn log_extended(
        &mut self,
        object: u64,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Step<()> {
        let hidden = self.file(object)?.attributes.extended_attributes != 0;
        let value = value.unwrap_or_default();
        // In a record a value without bytes is none.
        if hidden
            || value.len() > VALUE_BYTES_MAX
            || value.is_empty() && self.extended(object, name)?.is_some()
        {
            self.log_whole(object);
            return Ok(());
        }
        let length = value.len() as u64;
        let body = Body::SetExtendedAttribute(SetExtendedAttribute { object, length });
        self.intend(object, true, body, [name, &[0], value].concat());
        Ok(())
    }

    pub(crate) fn log_create(&mut self, directory: u64, name: &[u8], new: &NewFile) {
        let create = Create {
            directory,
            object: new.number | (new.slots as u64 - 1) << SLOTS_SHIFT,
            mode: new.mode,
            uid: new.user,
            gid: new.group,
            generation: new.generation,
            created: new.created.words(),
            device: new.device,
        };
        let extras = CreateExtras { attributes: None, acl: None };
        let kind = match FileKind::of_mode(new.mode) {
            Some(FileKind::Directory) => CreateKind::Directory,
            Some(FileKind::SymbolicLink) => CreateKind::SymbolicLink,
            _ => CreateKind::File,
        };
        let data = match &new.target {
            Some(target) => texts(&[name, target]),
            None => texts(&[name]),
        };
        self.intend(new.number, false, Body::Create(kind, create, extras), data);
    }

    /// A name is gone, and with it the file if it was the last.
    pub(crate) fn log_remove(
        &mut self,
        directory: u64,
        name: &[u8],
        object: u64,
        (is_directory, is_last): (bool, bool),
    ) {
        if is_last {
            self.log_gone(object);
        }
        let remove = Remove { directory };
        let body = if is_directory { Body::RemoveDirectory(remove) } else { Body::Remove(remove) };
        self.intend(object, false, body, texts(&[name]));
    }

    /// What waits for an object without a name needs no record.
    pub(crate) fn log_gone(&mut self, object: u64) {
        self.intents.push(Itx { object, waits: false, what: What::Forgotten });
    }

    pub(crate) fn log_link(&mut self, directory: u64, name: &[u8], object: u64) {
        self.intend(object, false, Body::Link(Link { directory, object }), texts(&[name]));
    }

    pub(crate) fn log_rename(&mut self, from: (u64, &[u8]), to: (u64, &[u8]), object: u64) {
        let rename = Rename { source: from.0, target: to.0 };
        self.intend(object, false, Body::Rename(rename), texts(&[from.1, to.1]));
    }

    pub(crate) fn log_write(&mut self, object: u64, at: u64, len: u64) {
        self.intents.push(Itx { object, waits: true, what: What::Write { at, len } });
    }

    pub(crate) fn log_zero(&mut self, object: u64, at: u64, end: u64) {
        let truncate = Truncate { object, offset: at, length: end - at };
        assert!(truncate.length > 0, "without a length it would cut the file");
        if planted::is(Bug::PunchNotLogged) {
            return;
        }
        self.intend(object, true, Body::Truncate(truncate), Vec::new());
    }

    pub(crate) fn log_attributes(&mut self, object: u64, new: LoggedAttributes) {
        let marks = [
            (new.mode.is_some(), set::MODE),
            (new.user.is_some(), set::USER),
            (new.group.is_some(), set::GROUP),
            (new.size.is_some(), set::SIZE),
            (new.accessed.is_some(), set::ACCESSED),
            (new.modified.is_some(), set::MODIFIED),
        ];
        let mask = marks.iter().filter(|(is_set, _)| *is_set).map(|(_, mark)| mark).sum();
        if mask == 0 {
            return;
        }
        let words = |moment: Option<Moment>| moment.map_or([0; 2], |moment| moment.words());
        let body = SetAttributes {
            object,
            mask,
            mode: new.mode.unwrap_or(0),
            uid: new.user.unwrap_or(0),
            gid: new.group.unwrap_or(0),
            size: new.size.unwrap_or(0),
            accessed: words(new.accessed),
            modified: words(new.modified),
        };
        self.intend(object, true, Body::SetAttributes(body), Vec::new());
    }
}
