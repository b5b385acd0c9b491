//! POSIX lists of access, as extended attributes hold them.
//!
//! Such a list has an entry each for the owner, the group and others, as a mode has, and more for named users and
//! groups. Where it names any, a mask bounds what these and the group may do; the mode then shows the mask as the
//! group's bits. So mode and list say the same thing twice, and who changes one changes the other: a
//! kernel checks by them, and leaves keeping them equal to the file system (draft POSIX 1003.1e, 23.1).
//!
//! The form: a version (2), then for each entry tag, permissions and id, little-endian (`linux/posix_acl_xattr.h`).

use super::error::InodeError;

/// The list that is checked.
pub const ACCESS: &[u8] = b"system.posix_acl_access";
/// The list of a directory that what is made in it begins with.
pub const DEFAULT: &[u8] = b"system.posix_acl_default";

const VERSION: u32 = 2;
const ENTRY_BYTES: usize = 8;
/// Entries at the most: an attribute has no room for more.
const ENTRIES_MAX: usize = (64 << 10) / ENTRY_BYTES;

const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const OWNER_GROUP: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHERS: u16 = 0x20;

/// A list of access that makes sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl(Vec<Entry>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    tag: u16,
    permissions: u16,
    id: u32,
}

impl Acl {
    /// The list of such an attribute.
    ///
    /// # Errors
    /// [`InodeError::Invalid`], [`InodeError::NotSupported`] of another version.
    pub fn decode(value: &[u8]) -> Result<Acl, InodeError> {
        let (version, entries) = value.split_first_chunk().ok_or(InodeError::Invalid)?;
        if u32::from_le_bytes(*version) != VERSION {
            return Err(InodeError::NotSupported);
        }
        let (entries, rest) = entries.as_chunks::<ENTRY_BYTES>();
        let decode = |bytes: &[u8; ENTRY_BYTES]| {
            let [t0, t1, p0, p1, id @ ..] = *bytes;
            let (tag, permissions) = (u16::from_le_bytes([t0, t1]), u16::from_le_bytes([p0, p1]));
            Entry { tag, permissions, id: u32::from_le_bytes(id) }
        };
        let acl = Acl(entries.iter().map(decode).collect());
        match rest.is_empty() && acl.makes_sense() {
            true => Ok(acl),
            false => Err(InodeError::Invalid),
        }
    }

    /// Each kind in its turn, no name twice, and a mask where there are names.
    fn makes_sense(&self) -> bool {
        let count = |tag| self.0.iter().filter(|entry| entry.tag == tag).count();
        let is_named = |entry: &Entry| matches!(entry.tag, USER | GROUP);
        let in_order = self.0.windows(2).all(|pair| match (pair[0].tag, pair[1].tag) {
            (first, second) if first == second => is_named(&pair[0]) && pair[0].id < pair[1].id,
            (first, second) => first < second,
        });
        let known = OWNER | USER | OWNER_GROUP | GROUP | MASK | OTHERS;
        self.0.len() <= ENTRIES_MAX
            && self.0.iter().all(|entry| entry.tag & !known == 0 && entry.permissions <= 7)
            && in_order
            && [OWNER, OWNER_GROUP, OTHERS].iter().all(|tag| count(*tag) == 1)
            && (count(MASK) == 1 || !self.0.iter().any(is_named))
    }

    /// The attribute of this list.
    pub fn encode(&self) -> Vec<u8> {
        let mut value = VERSION.to_le_bytes().to_vec();
        for entry in &self.0 {
            value.extend(entry.tag.to_le_bytes());
            value.extend(entry.permissions.to_le_bytes());
            value.extend(entry.id.to_le_bytes());
        }
        value
    }

    /// Whether a mode says all that it says.
    pub fn is_mode(&self) -> bool {
        self.0.len() == 3
    }

    /// The entry that the mode's bits at this place are: with a mask, the group's are the mask's.
    fn of_class(&self, shift: u16) -> usize {
        let at = |tag| self.0.iter().position(|entry| entry.tag == tag);
        let found = match shift {
            6 => at(OWNER),
            3 => at(MASK).or_else(|| at(OWNER_GROUP)),
            _ => at(OTHERS),
        };
        found.expect("a list has an entry of each class: that was checked")
    }

    /// The lowest nine bits of the mode.
    pub fn mode(&self) -> u16 {
        [6, 3, 0].iter().map(|shift| self.0[self.of_class(*shift)].permissions << shift).sum()
    }

    /// The list after the mode was set.
    pub fn with_mode(mut self, mode: u16) -> Acl {
        for shift in [6, 3, 0] {
            let at = self.of_class(shift);
            self.0[at].permissions = mode >> shift & 7;
        }
        self
    }

    /// What a default list gives to something that is made with this mode.
    pub fn for_new(self, mode: u16) -> Acl {
        let bound = self.mode() & mode;
        self.with_mode(bound)
    }
}

#[cfg(test)]
mod tests {
    //! What could break: a list that says otherwise than the mode beside it.

    use super::*;

    fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let entry = |(tag, permissions, id): &(u16, u16, u32)| Entry {
            tag: *tag,
            permissions: *permissions,
            id: *id,
        };
        Acl(entries.iter().map(entry).collect()).encode()
    }

    #[test]
    fn the_mask_is_the_groups_bits_and_what_is_made_has_no_more_than_it_asked_for() {
        let none = u32::MAX;
        let value = list(&[(1, 7, none), (2, 5, 1000), (4, 5, none), (16, 7, none), (32, 4, none)]);
        let acl = Acl::decode(&value).expect("a list");
        assert_eq!((acl.encode(), acl.is_mode(), acl.mode()), (value, false, 0o774));
        let made = acl.clone().for_new(0o640);
        assert_eq!(made.mode(), 0o640);
        assert_eq!(made.0[2].permissions, 5, "the group's own entry stays");
        assert_eq!(acl.with_mode(0o501).mode(), 0o501);
        let plain =
            Acl::decode(&list(&[(1, 6, none), (4, 4, none), (32, 0, none)])).expect("a list");
        assert_eq!((plain.is_mode(), plain.mode()), (true, 0o640));
    }

    #[test]
    fn lists_that_make_no_sense_are_refused() {
        for (entries, why) in [
            (&[][..], "empty"),
            (&[(1, 7, 0), (4, 7, 0)], "nothing for others"),
            (&[(1, 8, 0), (4, 7, 0), (32, 7, 0)], "a permission that is none"),
            (&[(4, 7, 0), (1, 7, 0), (32, 7, 0)], "out of order"),
            (&[(1, 7, 0), (2, 7, 5), (4, 7, 0), (32, 7, 0)], "a name without a mask"),
            (&[(1, 7, 0), (2, 7, 5), (2, 7, 5), (4, 7, 0), (16, 7, 0), (32, 7, 0)], "twice"),
            (&[(1, 7, 0), (4, 7, 0), (32, 7, 0), (64, 7, 0)], "an unknown kind"),
        ] {
            assert_eq!(Acl::decode(&list(entries)), Err(InodeError::Invalid), "{why}");
        }
        assert_eq!(Acl::decode(&[3, 0, 0, 0]), Err(InodeError::NotSupported));
        assert_eq!(Acl::decode(&[2, 0, 0, 0, 1]), Err(InodeError::Invalid));
    }
}
