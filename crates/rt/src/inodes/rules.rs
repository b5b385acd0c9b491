//! What a kernel leaves to the file system, in one place for all of them.
//!
//! With `default_permissions`, Linux checks for FUSE who may do what (modes, lists of access, sticky directories, who may
//! give files away, set-group bits of who is not in the group), and refuses before it asks. It does not do what
//! *follows* from a change, since the file system's record is the one that counts. That is here, as functions of what is
//! known of a node, with nothing asked or stored:
//!
//! * [`born`]: owner, group and mode of what is made. A directory with the set-group bit hands its group
//!   down, and to directories the bit itself; its default list takes the place of the umask.
//! * [`set`]: what `chmod`, `chown`, `truncate` and `utimensat` make of it. `chown` of what is no directory takes away set-user
//!   and set-group bits, whoever asks; so does a write or a cut that says so ([`without_privileges`]).
//! * [`access_time_is_due`]: not every read is worth a write (`relatime`).
//!
//! **Source**: Linux, `fs/attr.c`, `fs/inode.c`, `fs/posix_acl.c`, and what `FUSE_HANDLE_KILLPRIV_V2` says.

use super::acl::Acl;
use super::attributes::{Attributes, InodeKind, Timestamp};
use super::change::{Caller, New, SetAttributes, SetTime};

/// The attribute that gives a program capabilities; it goes where the set-user bit goes.
pub const CAPABILITIES: &[u8] = b"security.capability";

const SET_USER: u16 = 0o4000;
/// The set-group bit of a mode.
pub const SET_GROUP: u16 = 0o2000;
const GROUP_EXECUTES: u16 = 0o010;
const DAY_SECONDS: i64 = 24 * 60 * 60;

/// What something is born with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Born {
    /// The lower 12 bits of its mode.
    pub permissions: u16,
    /// Its owner.
    pub user: u32,
    /// Its group.
    pub group: u32,
    /// Its list of access, where the mode doesn't say it all.
    pub access: Option<Acl>,
    /// Its default list, if it is a directory.
    pub default: Option<Acl>,
}

/// What something of this kind has that is made in a directory with this default list.
pub fn born(
    by: Caller,
    directory: &Attributes,
    default: Option<Acl>,
    kind: InodeKind,
    new: New,
) -> Born {
    let hands_down = directory.permissions & SET_GROUP != 0;
    let is_directory = kind == InodeKind::Directory;
    let group = if hands_down { directory.group } else { by.group };
    let bit = if hands_down && is_directory { SET_GROUP } else { 0 };
    let mode = new.permissions & 0o7777 | bit;
    let (permissions, access, default) = match default {
        // The permissions of a link are nobody's.
        _ if kind == InodeKind::Link => (0o777, None, None),
        None => (mode & !(new.umask & 0o777), None, None),
        Some(default) => {
            let access = default.clone().for_new(mode & 0o777);
            let permissions = mode & !0o777 | access.mode();
            (permissions, (!access.is_mode()).then_some(access), is_directory.then_some(default))
        }
    };
    Born { permissions, user: by.user, group, access, default }
}

/// The mode of what somebody changed who may not keep its privileges.
pub fn without_privileges(of: &Attributes) -> u16 {
    // A set-group bit without execution was once a lock, and stays; directories' bits mean something else.
    match of.kind {
        InodeKind::Directory => of.permissions,
        _ if of.permissions & GROUP_EXECUTES != 0 => of.permissions & !(SET_USER | SET_GROUP),
        _ => of.permissions & !SET_USER,
    }
}

/// What is known of a node after this was set; its size is left to who holds the bytes. Says besides whether capabilities go.
pub fn set(by: Caller, of: &Attributes, set: &SetAttributes, now: Timestamp) -> (Attributes, bool) {
    let mut after = *of;
    let at = |time: SetTime| match time {
        SetTime::Now => now,
        SetTime::At(time) => time,
    };
    let names_nothing = *set == SetAttributes::default();
    let chowns = set.user.is_some() || set.group.is_some() || names_nothing;
    let drops =
        chowns && of.kind != InodeKind::Directory || by.drops_privileges && set.size.is_some();
    if drops {
        after.permissions = without_privileges(of);
    }
    after.user = set.user.unwrap_or(of.user);
    after.group = set.group.unwrap_or(of.group);
    if let Some(permissions) = set.permissions {
        after.permissions = permissions & 0o7777;
    }
    if set.size.is_some() {
        after.modified = now;
    }
    after.accessed = set.accessed.map_or(of.accessed, at);
    after.modified = set.modified.map_or(after.modified, at);
    after.changed = now;
    (after, drops)
}

/// Whether a read now is worth noting: the first since a change, or of a day.
pub fn access_time_is_due(of: &Attributes, now: Timestamp) -> bool {
    of.accessed <= of.modified
        || of.accessed <= of.changed
        || now.seconds_since(of.accessed) >= DAY_SECONDS
}

#[cfg(test)]
mod tests {
    //! What could break: a program that keeps another owner's privileges after it was overwritten or given away.

    use super::super::attributes::Node;
    use super::*;
    use stdx::ByteCount;

    fn known(kind: InodeKind, permissions: u16) -> Attributes {
        Attributes {
            node: Node(2),
            inode: 2,
            generation: 0,
            kind,
            permissions,
            links: 1,
            user: 5,
            group: 6,
            device: (0, 0),
            size: ByteCount(0),
            allocated: ByteCount(0),
            block_size: ByteCount(512),
            accessed: Timestamp { seconds: 10, nanoseconds: 0 },
            modified: Timestamp { seconds: 9, nanoseconds: 0 },
            changed: Timestamp { seconds: 9, nanoseconds: 0 },
        }
    }

    #[test]
    fn a_directory_with_the_set_group_bit_hands_its_group_down() {
        let by = Caller { user: 7, group: 8, ..Caller::default() };
        let new = New { permissions: 0o777, umask: 0o027 };
        let directory = known(InodeKind::Directory, 0o2775);
        let file = born(by, &directory, None, InodeKind::File, new);
        assert_eq!((file.permissions, file.user, file.group), (0o750, 7, 6));
        let below = born(by, &directory, None, InodeKind::Directory, new);
        assert_eq!((below.permissions, below.group), (0o2750, 6));
        let plain = known(InodeKind::Directory, 0o775);
        assert_eq!(born(by, &plain, None, InodeKind::Directory, new).group, 8);
    }

    #[test]
    fn privileges_go_with_the_owner_and_with_the_bytes() {
        let now = Timestamp { seconds: 20, nanoseconds: 0 };
        let program = known(InodeKind::File, 0o6755);
        let (keeps, drops) =
            (Caller::default(), Caller { drops_privileges: true, ..Caller::default() });
        let after = |change: SetAttributes| set(keeps, &program, &change, now);
        let chown = SetAttributes { user: Some(5), ..SetAttributes::default() };
        assert_eq!((after(chown).0.permissions, after(chown).1), (0o755, true));
        assert_eq!(after(SetAttributes::default()).0.permissions, 0o755, "chown of nothing");
        let size = SetAttributes { size: Some(ByteCount(1)), ..SetAttributes::default() };
        assert_eq!(after(size).0.permissions, 0o6755, "who may keep them does");
        let cut = set(drops, &program, &size, now).0;
        assert_eq!((cut.permissions, cut.modified), (0o755, now));
        let lock = known(InodeKind::File, 0o6745);
        assert_eq!(without_privileges(&lock), 0o2745, "no program of the group");
        let directory = known(InodeKind::Directory, 0o6755);
        assert_eq!(set(keeps, &directory, &chown, now).0.permissions, 0o6755);
    }

    #[test]
    fn a_read_is_noted_after_a_change_and_once_a_day() {
        let read = known(InodeKind::File, 0o644);
        let at = |seconds| Timestamp { seconds, nanoseconds: 0 };
        assert!(!access_time_is_due(&read, at(11)));
        assert!(access_time_is_due(&read, at(10 + DAY_SECONDS)));
        let changed = Attributes { changed: at(10), ..read };
        assert!(access_time_is_due(&changed, at(11)));
    }
}
