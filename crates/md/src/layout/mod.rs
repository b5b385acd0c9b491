//! Which byte of the array lies where on which member: pure functions, bit for bit md's.
//!
//! | module | levels |
//! |---|---|
//! | [`zones`] | linear and RAID 0: each byte once, members of any sizes |
//! | [`copies`] | RAID 1 and RAID 10: each byte several times (near, far, offset) |
//! | [`parity`] | RAID 4, 5 and 6: each byte once, and one or two parities a row |
//! | [`kinds`] | which layouts there are, by md's names and numbers |
//!
//! Places on a member are bytes of its **data area**, which begins at the data offset. The engine asks
//! for one piece (at most one chunk) at a time; [`spread`](crate::spread) joins what is contiguous.

pub(crate) mod copies;
pub(crate) mod kinds;
pub(crate) mod parity;
pub(crate) mod zones;

/// A place on a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The member's slot.
    pub(crate) slot: usize,
    /// Byte of its data area.
    pub(crate) at: u64,
}
